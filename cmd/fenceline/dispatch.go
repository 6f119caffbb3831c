package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/fenceline/fenceline/storage"
)

// dispatchFlags are what all kinds of dispatch take.
type dispatchFlags struct {
	spec   jobs.Spec // without kind and payload
	output string
	wait   bool
}

func (c *cli) dispatchCmd() *cobra.Command {
	var f dispatchFlags
	var r reportFlags
	ofReport := &cobra.Command{
		Use: "report NAME", Short: "Dispatch a report",
		Example: "  fenceline dispatch report orders --param from=2026-01-01 --param to=2026-02-01 -o orders.xlsx",
		Args:    exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
			if len(r.choice.Formats) == 0 {
				r.choice.Formats = formatOf(f.output)
			}
			payload, err := r.payload(args[0], cmd.Flags())
			if err != nil {
				return err
			}
			return c.dispatch(cmd.Context(), "report", payload, f)
		},
	}
	r.register(ofReport.Flags())
	var with []string
	invoice := &cobra.Command{
		Use: "invoice FILE", Short: "Dispatch an invoice document (JSON; - for standard input)",
		Example: "  fenceline dispatch invoice invoice.json --wait -o inv.pdf\n  fenceline dispatch invoice invoice.json --files pdf,ubl -o .",
		Args:    exactly("FILE"), RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := readInput(args[0])
			if err != nil {
				return err
			}
			if raw, err = jobs.WithInvoiceFiles(raw, with); err != nil {
				return err
			}
			return c.dispatch(cmd.Context(), "invoice", json.RawMessage(raw), f)
		},
	}
	filesFlag(invoice, &with)
	invoices := c.dispatchInvoicesCmd(&f)
	job := c.dispatchJobCmd(&f)
	for _, cmd := range []*cobra.Command{ofReport, invoice, invoices, job} {
		f.register(cmd)
	}
	return group("dispatch", "Ask for an export or another job", ofReport, invoice, invoices, job,
		c.dispatchBulkCmd(), c.dispatchChainCmd(), c.dispatchBatchCmd(), c.exampleInvoiceCmd(), c.invoiceSchemaCmd())
}

func parseParams(list []string) (map[string]string, error) {
	values := make(map[string]string, len(list))
	refused := new(invalid.Error)
	for _, p := range list {
		name, value, found := strings.Cut(p, "=")
		if _, twice := values[name]; twice {
			refused.Add("params."+name, value, "was given twice")
		}
		if !found || name == "" {
			refused.Add("--param", p, "must be name=value")
		}
		values[name] = value
	}
	return values, refused.OrNil()
}

func readInput(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(os.Stdin, 2<<20))
	}
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &coded{exitNotFound, err}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 2<<20)) // more than any payload may have: the check says so
}

func (c *cli) dispatch(ctx context.Context, kind string, payload any, f dispatchFlags) error {
	raw, err := rawJSON(payload)
	if err != nil {
		return err
	}
	if f.output == "-" && c.json {
		return usageError("-o - and --json both want standard output; choose one")
	}
	if c.conf.RemoteURL != "" {
		return c.dispatchRemote(ctx, kind, raw, f)
	}
	spec := f.spec
	spec.Kind, spec.Payload = kind, raw
	item, err := spec.Item()
	if err != nil {
		return err
	}
	return c.withApp(ctx, func(ctx context.Context, a *app) error {
		var receipt jobs.Receipt
		err := a.store.Transaction(ctx, func(tx storage.Tx) (err error) {
			if receipt, err = a.dispatcher.Dispatch(ctx, tx, item.Request, append(item.Options, jobs.RequestedBy("cli"))...); err != nil {
				return err
			}
			return a.asked(ctx, tx, receipt)
		})
		if err != nil {
			return err
		}
		if receipt.Job.Plain() && f.output != "" {
			return usageError("job %s of kind %s is dispatched, but it publishes no file for -o", receipt.Job.ID, kind)
		}
		if !f.wait && f.output == "" {
			return c.printReceipt(receipt)
		}
		return c.await(ctx, a, receipt.Job, f.output)
	})
}

func rawJSON(payload any) (json.RawMessage, error) {
	if raw, ok := payload.(json.RawMessage); ok { // as the user wrote it: the kind says what is wrong with it
		return raw, nil
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("encode the payload: %w", err)
	}
	return raw, nil
}

func (c *cli) printReceipt(r jobs.Receipt) error {
	return c.print(map[string]any{"job": r.Job, "reused": r.Reused}, func(w io.Writer) {
		fmt.Fprintf(w, "job %s %s", r.Job.ID, r.Job.State)
		if r.Reused {
			fmt.Fprint(w, " (it was there already)")
		}
		fmt.Fprintf(w, "\nwatch it:  fenceline job show %s\n", r.Job.ID)
	})
}

// withApp opens database and files, without Redis.
func (c *cli) withApp(ctx context.Context, fn func(context.Context, *app) error) error {
	return c.part(ctx, false, fn)
}

// await shows the job's progress until it has ended, and saves its file.
func (c *cli) await(ctx context.Context, a *app, job storage.Job, output string) error {
	job, err := c.watch(ctx, a.store, job.ID)
	if err != nil {
		return err
	}
	if err := notDone(job); err != nil {
		return err
	}
	if job.Plain() {
		return c.printResult(job)
	}
	return c.deliver(ctx, a, job, output)
}

// printResult shows what a plain job has left.
func (c *cli) printResult(job storage.Job) error {
	return c.print(map[string]any{"job": job}, func(w io.Writer) {
		fmt.Fprintf(w, "job %s is done\n", job.ID)
		if job.Result != nil {
			fmt.Fprintf(w, "%s\n", job.Result)
		}
	})
}

// notDone says why an ended job published nothing; nil when it did.
func notDone(job storage.Job) error {
	switch job.State {
	case storage.JobDone:
		return nil
	case storage.JobSuperseded:
		return &coded{exitRefused, fmt.Errorf("job %s was superseded: a newer job published this export first; `fenceline export show %s` shows it", job.ID, job.ExportID)}
	case storage.JobCancelled:
		if job.Error != nil { // skipped, or with its chain, batch or queue
			return &coded{exitFailed, fmt.Errorf("job %s was cancelled: %s", job.ID, *job.Error)}
		}
		return &coded{exitFailed, fmt.Errorf("job %s was cancelled", job.ID)}
	}
	return &coded{exitFailed, fmt.Errorf("job %s failed: %s", job.ID, deref(job.Error))}
}

// deliver saves what the job published, by the attempt that published it: a
// newer publication must not slip in between.
func (c *cli) deliver(ctx context.Context, a *app, job storage.Job, output string) error {
	attempt, err := a.store.Attempt(ctx, *job.AttemptID)
	if err != nil {
		return err
	}
	list, err := a.store.Files(ctx, attempt.ID)
	if err != nil {
		return err
	}
	saved, err := placesFor(output, list)
	if err != nil {
		return err
	}
	for i, to := range saved {
		if err := c.save(ctx, a, attempt, list[i], to); err != nil {
			return err
		}
	}
	if output == "-" {
		return nil
	}
	return c.print(map[string]any{"job": job, "attempt": attempt, "files": list, "saved": saved}, func(w io.Writer) {
		for _, f := range list {
			fmt.Fprintf(w, "published %s with token %d: %s, %s, sha256 %s\n", f.Name, attempt.Token, count.Of(f.Rows, "row"), count.Of(f.Size, "byte"), f.SHA256)
		}
		printWarnings(w, attempt.Warnings)
		printSaved(w, saved)
	})
}

// printWarnings says what happened to values, in words, a line each.
func printWarnings(w io.Writer, raw json.RawMessage) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return
	}
	for _, item := range list {
		var text string
		var warning tabular.Warning
		switch {
		case json.Unmarshal(item, &text) == nil:
		case json.Unmarshal(item, &warning) == nil && warning.Kind != "":
			text = report.Explain(warning)
		default:
			text = string(item)
		}
		fmt.Fprintf(w, "warning: %s\n", inCellWhole(text))
	}
}

func printSaved(w io.Writer, saved []string) {
	for _, to := range saved {
		fmt.Fprintf(w, "saved to %s\n", to)
	}
}

// placesFor is where each file goes: into a folder under its own name, or, when
// there is only one, to the place itself. Nothing for no output.
func placesFor(output string, list []storage.File) ([]string, error) {
	if output == "" {
		return nil, nil
	}
	info, err := os.Stat(output)
	if folder := err == nil && info.IsDir(); !folder && len(list) == 1 {
		return []string{output}, nil
	} else if !folder {
		return nil, usageError("-o %s: the export has %s, so give a folder that exists; they were published and can be saved with `fenceline export download`", output, count.Of(len(list), "file"))
	}
	places := make([]string, len(list))
	for i, f := range list {
		places[i] = filepath.Join(output, filepath.Base(f.Name))
	}
	return places, nil
}

func deref(s *string) string {
	if s == nil {
		return "unknown"
	}
	return *s
}
