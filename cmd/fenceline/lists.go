package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/storage"
)

func (c *cli) jobCmd() *cobra.Command {
	var filter storage.JobFilter
	var state, batch string
	list := &cobra.Command{Use: "list", Short: "List jobs, the newest first", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			filter.State = storage.JobState(state)
			if filter.State != "" && !slices.Contains(storage.JobStates(), filter.State) {
				return invalid.New("--state", state, "must be queued, running, done, superseded, failed, cancelling or cancelled")
			}
			if batch != "" {
				var err error
				if filter.Batch, err = parseID("--batch", batch); err != nil {
					return err
				}
			}
			page, err := store.Jobs(ctx, everything, filter)
			if err != nil {
				return err
			}
			return c.print(page, func(w io.Writer) {
				fmt.Fprintln(w, "JOB\tSTATE\tKIND\tQUEUE\tTENANT\tTITLE\tATTEMPTS\tCREATED\tERROR")
				for _, j := range page.Items {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", j.ID, j.State, j.Kind, j.Queue, j.Tenant, inCellWhole(j.Title), j.Attempts, stamp(&j.CreatedAt), inCell(orDash(j.Error)))
				}
				c.more(w, page.Next)
			})
		})
	}}
	list.Flags().StringVar(&state, "state", "", "only jobs in this state")
	list.Flags().StringVar(&filter.Kind, "kind", "", "only jobs of this kind")
	list.Flags().StringVar(&filter.Queue, "queue", "", "only jobs of this queue")
	list.Flags().StringVar(&filter.Tag, "tag", "", "only jobs with this tag")
	list.Flags().StringVar(&filter.Tenant, "tenant", "", "only jobs of this tenant")
	list.Flags().StringVar(&batch, "batch", "", "only jobs of this batch")
	list.Flags().StringVar(&filter.After, "after", "", "go on where a list ended")
	limitFlag(list, &filter.Limit)
	show := &cobra.Command{Use: "show JOB", Short: "Show a job and its attempts", Args: exactly("JOB"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error { return c.showJob(ctx, store, args[0]) })
	}}
	cancel := &cobra.Command{Use: "cancel JOB", Short: "Cancel a job; it cannot publish afterwards", Args: exactly("JOB"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			id, err := parseID("JOB", args[0])
			if err != nil {
				return err
			}
			after, err := store.CancelJob(ctx, everything, id)
			if err != nil {
				return err
			}
			if after != storage.JobCancelled && after != storage.JobCancelling {
				return &coded{exitRefused, fmt.Errorf("job %s is %s and cannot be cancelled any more", id, after)}
			}
			if err := didToJob(ctx, store, "job.cancelled", id); err != nil {
				return err
			}
			return c.print(map[string]any{"job": id, "state": after}, func(w io.Writer) { fmt.Fprintf(w, "job %s is %s\n", id, after) })
		})
	}}
	return group("job", "Jobs", list, show, cancel, c.jobRetryCmd())
}

func attemptTable(w io.Writer, attempts []storage.Attempt) {
	order := func(string) string { return "" } // the column is there when a lock service gave an order
	if slices.ContainsFunc(attempts, func(a storage.Attempt) bool { return a.LeaseOrder.Name != "" }) {
		order = func(text string) string { return text + "\t" }
	}
	fmt.Fprintf(w, "TOKEN\t%sSTATE\tWHY\tWORKER\tROWS\tBYTES\tSTARTED\tENDED\n", order("LEASE"))
	for _, a := range attempts {
		state := string(a.State)
		if a.State == storage.AttemptDeleted && a.Verdict != nil {
			state = string(*a.Verdict) + ", swept"
		}
		fmt.Fprintf(w, "%d\t%s%s\t%s\t%s\t%d\t%d\t%s\t%s\n", a.Token, order(cmp.Or(a.LeaseOrder.String(), "-")), state, orDash(a.Reason), a.Worker, a.Rows, a.Bytes, stamp(&a.StartedAt), stamp(a.FinishedAt))
	}
}

func (c *cli) exportCmd() *cobra.Command {
	var filter storage.ExportFilter
	list := &cobra.Command{Use: "list", Short: "List exports, the newest activity first", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			page, err := store.Exports(ctx, everything, filter)
			if err != nil {
				return err
			}
			return c.print(page, func(w io.Writer) {
				fmt.Fprintln(w, "EXPORT\tTENANT\tKIND\tTITLE\tTOKEN\tROWS\tBYTES\tPUBLISHED\tNEWEST JOB")
				for _, e := range page.Items {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", e.ID, e.Tenant, e.Kind, e.Title, e.LastToken, number(e.Rows), number(e.Bytes),
						stamp(e.PublishedAt), orDash((*string)(e.JobState)))
				}
				c.more(w, page.Next)
			})
		})
	}}
	list.Flags().StringVar(&filter.Kind, "kind", "", "only exports of this kind")
	list.Flags().StringVar(&filter.Search, "search", "", "only exports with this in their title or key")
	list.Flags().StringVar(&filter.After, "after", "", "go on where a list ended")
	limitFlag(list, &filter.Limit)
	show := &cobra.Command{Use: "show EXPORT", Short: "Show an export, its files and its attempts", Args: exactly("EXPORT"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error { return c.showExport(ctx, store, args[0]) })
	}}
	var to string
	download := &cobra.Command{Use: "download EXPORT", Short: "Save the current files of an export", Args: exactly("EXPORT"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error { return c.download(ctx, a, args[0], to) })
	}}
	download.Flags().StringVarP(&to, "output", "o", ".", "folder to save into")
	return group("export", "Exports", append([]*cobra.Command{list, show, download}, c.keepCmds()...)...)
}

func (c *cli) showExport(ctx context.Context, store *storage.Store, text string) error {
	id, err := parseID("EXPORT", text)
	if err != nil {
		return err
	}
	export, err := store.Export(ctx, everything, id)
	if err != nil {
		return err
	}
	attempts, err := store.Attempts(ctx, id, 100)
	if err != nil {
		return err
	}
	var list []storage.File
	if export.AttemptID != nil {
		if list, err = store.Files(ctx, *export.AttemptID); err != nil {
			return err
		}
	}
	return c.print(map[string]any{"export": export, "files": some(list), "attempts": attempts}, func(w io.Writer) {
		fmt.Fprintf(w, "export\t%s\ntitle\t%s\nkey\t%s / %s / %s\ncurrent token\t%d\npublished\t%s\n\n",
			export.ID, export.Title, export.Tenant, export.Kind, export.Key, export.LastToken, stamp(export.PublishedAt))
		for _, f := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\tsha256 %s\n", f.Name, count.Of(f.Rows, "row"), count.Of(f.Size, "byte"), f.SHA256)
		}
		for _, a := range attempts {
			if export.AttemptID != nil && a.ID == *export.AttemptID {
				printWarnings(w, a.Warnings)
			}
		}
		fmt.Fprintln(w)
		attemptTable(w, attempts)
	})
}

func (c *cli) download(ctx context.Context, a *app, text, dir string) error {
	id, err := parseID("EXPORT", text)
	if err != nil {
		return err
	}
	export, err := a.store.Export(ctx, everything, id)
	if err != nil {
		return err
	}
	if export.AttemptID == nil {
		return &coded{exitNotFound, fmt.Errorf("export %s was never published", id)}
	}
	attempt, err := a.store.Attempt(ctx, *export.AttemptID)
	if err != nil {
		return err
	}
	list, err := a.store.Files(ctx, attempt.ID)
	if err != nil {
		return err
	}
	var saved []string
	for _, f := range list {
		to := filepath.Join(dir, filepath.Base(f.Name))
		if err := c.save(ctx, a, attempt, f, to); err != nil {
			return err
		}
		saved = append(saved, to)
	}
	return c.print(map[string]any{"saved": some(saved), "token": attempt.Token, "files": some(list)}, func(w io.Writer) {
		for _, s := range saved {
			fmt.Fprintln(w, "saved", s)
		}
	})
}

func (c *cli) exampleInvoiceCmd() *cobra.Command {
	return &cobra.Command{Use: "example-invoice", Short: "Print an invoice document to start from", Args: exactly(), RunE: func(*cobra.Command, []string) error {
		_, err := c.out.Write(invoice.Example())
		return err
	}}
}

func (c *cli) more(w io.Writer, next string) {
	if next != "" {
		fmt.Fprintf(w, "\nmore: --after %s\n", next)
	}
}

func orDash(s *string) string {
	if s == nil || *s == "" {
		return "–"
	}
	return *s
}

func number(n *int64) string {
	if n == nil {
		return "–"
	}
	return fmt.Sprint(*n)
}
