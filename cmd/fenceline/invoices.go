package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/storage"
)

// dispatchInvoicesCmd asks for a whole run.
func (c *cli) dispatchInvoicesCmd(f *dispatchFlags) *cobra.Command {
	var params []string
	cmd := &cobra.Command{
		Use: "invoices SOURCE", Short: "Issue the invoices of a source, one per customer, and ask for their files",
		Long: "Issues one invoice for each row of SOURCE (a file like a report with a line `series: NAME`) and asks for\n" +
			"its files in one batch. Asking again, or twice at once, issues nothing twice: a customer has one invoice\nfor one set of parameters.",
		Example: "  fenceline dispatch invoices monthly --param month=2026-10 --wait",
		Args:    exactly("SOURCE"), RunE: func(cmd *cobra.Command, args []string) error {
			values, err := parseParams(params)
			if err != nil {
				return err
			}
			return c.dispatch(cmd.Context(), jobs.InvoiceRunName, map[string]any{"source": args[0], "params": values}, *f)
		},
	}
	cmd.Flags().StringArrayVar(&params, "param", nil, "a parameter as name=value; may be repeated")
	return cmd
}

func (c *cli) seriesCmd() *cobra.Command {
	n := storage.Series{}
	create := &cobra.Command{
		Use: "create NAME", Short: "Begin a series of invoice numbers", Example: "  fenceline series create invoices-2026 --prefix INV-2026- --digits 5",
		Args: exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
			n.Name = args[0]
			if err := checkSeries(n); err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				if err := store.CreateSeries(ctx, n); err != nil {
					return err
				}
				if err := did(ctx, store, deed{"series.made", "series", n.Name, n.Tenant, map[string]any{"prefix": n.Prefix}}); err != nil {
					return err
				}
				return c.print(n, func(w io.Writer) {
					fmt.Fprintf(w, "series %s begins with %s%0*d\n", n.Name, n.Prefix, n.Digits, n.First)
				})
			})
		},
	}
	create.Flags().StringVar(&n.Tenant, "tenant", jobs.DefaultTenant, "whose series it is")
	create.Flags().StringVar(&n.Prefix, "prefix", "", "before each number")
	create.Flags().IntVar(&n.Digits, "digits", 5, "at least so many digits, with zeros in front")
	create.Flags().Int64Var(&n.First, "first", 1, "the first number")
	return group("series", "Numbers of invoices, without gaps", create, c.seriesListCmd(), c.seriesNumbersCmd())
}

// mostFirst leaves a series numbers to give out: they are 64 bits wide, and an
// invoice's number has at most 64 characters with its prefix.
const mostFirst = 999_999_999_999_999_999

// checkSeries refuses what no invoice could be numbered with: a series stays
// for good.
func checkSeries(n storage.Series) error {
	refused := new(invalid.Error)
	if n.Name == "" || len(n.Name) > 63 {
		refused.Add("NAME", n.Name, "must be 1 to 63 bytes")
	}
	if len(n.Prefix) > 40 || !utf8.ValidString(n.Prefix) || strings.ContainsFunc(n.Prefix, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		refused.Add("--prefix", n.Prefix, "must be at most 40 bytes that can be printed, without spaces")
	}
	if n.Digits < 1 || n.Digits > 18 {
		refused.Add("--digits", fmt.Sprint(n.Digits), "must be from 1 to 18")
	}
	if n.First < 0 || n.First > mostFirst {
		refused.Add("--first", fmt.Sprint(n.First), "must be from 0 to %d", int64(mostFirst))
	}
	return refused.OrNil()
}

func (c *cli) seriesListCmd() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the series", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			list, err := store.SeriesList(ctx, everything)
			if err != nil {
				return err
			}
			return c.print(list, func(w io.Writer) {
				fmt.Fprintln(w, "SERIES\tTENANT\tGIVEN OUT\tNEXT")
				for _, s := range list {
					fmt.Fprintf(w, "%s\t%s\t%d\t%s%0*d\n", s.Name, s.Tenant, s.Next-s.First, s.Prefix, s.Digits, s.Next)
				}
			})
		})
	}}
}

func (c *cli) seriesNumbersCmd() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: "numbers NAME", Short: "Account for every number of a series: used, voided, missing (exit 1 when one is missing)",
		Args: exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				n, err := store.NumbersOf(ctx, tenant, args[0])
				if err != nil {
					return err
				}
				err = c.print(n, func(w io.Writer) { printNumbers(w, n) })
				if err == nil && len(n.Missing) > 0 {
					err = &coded{exitFailed, fmt.Errorf("numbers of series %s are missing: somebody changed the tables past their guards", n.Name)}
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", jobs.DefaultTenant, "whose series it is")
	return cmd
}

func printNumbers(w io.Writer, n storage.Numbers) {
	fmt.Fprintf(w, "series\t%s\ngiven out\t%d\nused\t%d\nvoided\t%d\n", n.Name, n.Next-n.First, n.Used, len(n.Voided))
	for _, v := range n.Voided {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", v.Number, stamp(&v.VoidedAt), inCell(v.Reason))
	}
	fmt.Fprintf(w, "missing\t%d\n", len(n.Missing))
	for _, m := range n.Missing {
		fmt.Fprintf(w, "  %d to %d\n", m.From, m.To)
	}
}

func (c *cli) invoiceCmd() *cobra.Command {
	return group("invoice", "Issued invoices", c.invoiceIssueCmd(), c.invoiceVoidCmd())
}

// invoiceIssueCmd issues one document: number and job in one transaction.
func (c *cli) invoiceIssueCmd() *cobra.Command {
	var n storage.Issuing
	var with []string
	cmd := &cobra.Command{
		Use: "issue FILE", Short: "Give a document the next number of a series and ask for its files",
		Long:    "Gives the document in FILE (JSON without a number; - for standard input) the next number of a series and asks\nfor its files, together or not at all: a document that is refused takes no number.",
		Example: "  fenceline invoice issue invoice.json --series invoices-2026 --customer 4711 --period 2026-10",
		Args:    exactly("FILE"), RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := readInput(args[0])
			if err != nil {
				return err
			}
			if n.Document, err = jobs.WithInvoiceFiles(raw, with); err != nil {
				return err
			}
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
				var issued storage.Issued
				var job storage.Job
				err := a.store.Transaction(ctx, func(tx storage.Tx) (err error) {
					if issued, job, err = jobs.IssueInvoice(ctx, tx, a.store, a.dispatcher, n, jobs.RequestedBy("cli")); err != nil {
						return err
					}
					details := map[string]any{"number": issued.Number, "series": n.Series, "new": issued.New}
					return didIn(ctx, a.store, tx, deed{"invoice.issued", "job", job.ID.String(), job.Tenant, details})
				})
				if err != nil {
					return err
				}
				return c.print(map[string]any{"number": issued.Number, "new": issued.New, "job": job.ID}, func(w io.Writer) {
					fmt.Fprintf(w, "invoice %s, job %s", issued.Number, job.ID)
					if !issued.New {
						fmt.Fprint(w, " (it was issued before)")
					}
					fmt.Fprintln(w)
				})
			})
		},
	}
	cmd.Flags().StringVar(&n.Tenant, "tenant", jobs.DefaultTenant, "whose invoice it is")
	cmd.Flags().StringVar(&n.Series, "series", "", "the series that gives the number (needed)")
	cmd.Flags().StringVar(&n.Customer, "customer", "", "with --period: one invoice for both, however often it is asked for")
	cmd.Flags().StringVar(&n.Period, "period", "", "with --customer")
	filesFlag(cmd, &with)
	return cmd
}

func filesFlag(cmd *cobra.Command, with *[]string) {
	cmd.Flags().StringSliceVar(with, "files", nil, "pdf, ubl and cii (the e-invoice, EN 16931), with commas; pdf alone when nothing is asked for")
}

func (c *cli) invoiceSchemaCmd() *cobra.Command {
	return &cobra.Command{Use: "invoice-schema", Short: "Print the JSON Schema of invoice documents", Args: exactly(), RunE: func(*cobra.Command, []string) error {
		_, err := c.out.Write(invoice.Schema())
		return err
	}}
}

func (c *cli) invoiceVoidCmd() *cobra.Command {
	var reason, tenant string
	var yes bool
	cmd := &cobra.Command{
		Use: "void NUMBER", Short: "Mark an issued invoice as void; its number stays used", Args: exactly("NUMBER"),
		Example: "  fenceline invoice void WEB-2026-00001 --reason 'wrong customer' --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usageError("--reason is needed: whoever audits the numbers will read it")
			}
			if err := c.confirm(fmt.Sprintf("Mark invoice %s as void, for good?", args[0]), yes); err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				if err := store.VoidInvoice(ctx, storage.Scope{Tenant: tenant}, args[0], reason); err != nil {
					return err
				}
				return c.print(map[string]string{"voided": args[0]}, func(w io.Writer) { fmt.Fprintln(w, "voided", args[0]) })
			})
		},
	}
	yesFlag(cmd, &yes)
	cmd.Flags().StringVar(&reason, "reason", "", "why (needed)")
	cmd.Flags().StringVar(&tenant, "tenant", jobs.DefaultTenant, "whose invoice it is")
	return cmd
}

func (c *cli) batchCmd() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the newest batches", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			batches, err := store.Batches(ctx, everything, uuid.Nil, 50)
			if err != nil {
				return err
			}
			return c.print(batches, func(w io.Writer) {
				fmt.Fprintln(w, "BATCH\tTENANT\tKEY\tCREATED")
				for _, b := range batches {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", b.ID, b.Tenant, b.Key, stamp(&b.CreatedAt))
				}
			})
		})
	}}
	return group("batch", "Jobs that were asked for together", list, c.batchShowCmd(), c.batchRetryCmd(), c.batchCancelCmd(), c.batchZIPCmd())
}

func (c *cli) batchShowCmd() *cobra.Command {
	return &cobra.Command{
		Use: "show BATCH", Short: "Show how far a batch is, and its failures by reason", Args: exactly("BATCH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID("BATCH", args[0])
			if err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				b, err := store.Batch(ctx, everything, id)
				if err != nil {
					return err
				}
				counts, err := store.CountBatch(ctx, id)
				if err != nil {
					return err
				}
				calls, err := store.BatchCalls(ctx, id)
				if err != nil {
					return err
				}
				return c.print(map[string]any{"batch": b, "counts": counts, "calls": calls}, func(w io.Writer) { printBatch(w, b, counts, calls) })
			})
		},
	}
}

func printBatch(w io.Writer, b storage.Batch, c storage.BatchCounts, calls []storage.BatchCall) {
	if t, ok := w.(*tabwriter.Writer); ok {
		defer t.Flush()
	}
	fmt.Fprintf(w, "batch\t%s\nkey\t%s\ntenant\t%s\njobs\t%d\n", b.ID, b.Key, b.Tenant, c.Total)
	for _, s := range []storage.JobState{storage.JobQueued, storage.JobRunning, storage.JobDone, storage.JobSuperseded, storage.JobFailed, storage.JobCancelling, storage.JobCancelled} {
		if n := c.States[s]; n > 0 {
			fmt.Fprintf(w, "%s\t%d\n", s, n)
		}
	}
	if b.CancelledAt != nil {
		fmt.Fprintf(w, "cancelled\t%s\n", stamp(b.CancelledAt))
	}
	for _, call := range calls {
		fmt.Fprintf(w, "%s\t%s\n", callName(call.Event), callText(call))
	}
	for _, f := range c.Failures {
		fmt.Fprintf(w, "\n%d × %s\nfor one, job %s\n", f.Count, f.Error, f.Job)
	}
}

// callName is what those who make batches call an event.
func callName(event string) string {
	switch event {
	case "success":
		return "then"
	case "failure":
		return "catch"
	}
	return "finally"
}

func callText(c storage.BatchCall) string {
	if c.JobID != nil {
		return fmt.Sprintf("dispatched job %s at %s", *c.JobID, stamp(&c.At))
	}
	if c.Error == nil {
		return fmt.Sprintf("dispatched at %s; its job was pruned since", stamp(&c.At))
	}
	return fmt.Sprintf("could not be dispatched at %s: %s", stamp(&c.At), *c.Error)
}

func (c *cli) batchCancelCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "cancel BATCH", Short: "Cancel what is left of a batch; nothing can be added to it any more", Args: exactly("BATCH"),
		Example: "  fenceline batch cancel 0190f1d2-… --yes", RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID("BATCH", args[0])
			if err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				if _, err := store.Batch(ctx, everything, id); err != nil {
					return err
				}
				counts, err := store.CountBatch(ctx, id)
				if err != nil {
					return err
				}
				left := counts.States[storage.JobQueued] + counts.States[storage.JobRunning]
				if err := c.confirm(fmt.Sprintf("Cancel %s of batch %s?", countOf(left, "job"), id), yes); err != nil {
					return err
				}
				n, err := store.CancelBatch(ctx, everything, id)
				if err != nil {
					return err
				}
				if err := didToBatch(ctx, store, "batch.cancelled", id, n); err != nil {
					return err
				}
				return c.print(map[string]any{"batch": id, "cancelled": n}, func(w io.Writer) { fmt.Fprintf(w, "%s cancelled\n", countOf(n, "job")) })
			})
		},
	}
	yesFlag(cmd, &yes)
	return cmd
}

func (c *cli) batchRetryCmd() *cobra.Command {
	return &cobra.Command{Use: "retry BATCH", Short: "Queue the failed jobs of a batch again", Args: exactly("BATCH"), RunE: func(cmd *cobra.Command, args []string) error {
		id, err := parseID("BATCH", args[0])
		if err != nil {
			return err
		}
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			n, err := store.RetryBatch(ctx, everything, id)
			if err != nil {
				return err
			}
			if err := didToBatch(ctx, store, "batch.retried", id, n); err != nil {
				return err
			}
			return c.print(map[string]int64{"queued": n}, func(w io.Writer) {
				fmt.Fprintf(w, "%s %s queued again\n", count.Of(n, "job"), count.Verb(n, "is", "are"))
			})
		})
	}}
}

func (c *cli) batchZIPCmd() *cobra.Command {
	var f dispatchFlags
	cmd := &cobra.Command{
		Use: "zip BATCH", Short: "Pack everything that a batch has published into one ZIP with a manifest",
		Example: "  fenceline batch zip 0190f1d2-… -o october.zip", Args: exactly("BATCH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := parseID("BATCH", args[0]); err != nil {
				return err
			}
			raw, err := json.Marshal(map[string]string{"batch": args[0]})
			if err != nil {
				return err
			}
			return c.dispatch(cmd.Context(), jobs.BatchZIPName, json.RawMessage(raw), f)
		},
	}
	f.register(cmd)
	return cmd
}
