package main

import (
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

// jobRetryCmd retries one job, or all that match a filter.
func (c *cli) jobRetryCmd() *cobra.Command {
	var f storage.FailedFilter
	var all, yes bool
	var tenant, batch string
	cmd := &cobra.Command{
		Use: "retry [JOB]", Short: "Queue a failed job again, or with --all every failed job that matches",
		Example: "  fenceline job retry 0190f1d2-…\n  fenceline job retry --all --kind invoice --error 'no font' --yes",
		Args:    asUsed(0, 1), RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return usageError("give one JOB, or --all with what it must match")
			}
			scope := everything
			if tenant != "" {
				scope = storage.Scope{Tenant: tenant}
			}
			if batch != "" {
				var err error
				if f.Batch, err = parseID("--batch", batch); err != nil {
					return err
				}
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				if all {
					return c.retryAll(ctx, store, scope, f, yes)
				}
				return c.retryOne(ctx, store, scope, args[0])
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every failed job that matches")
	cmd.Flags().StringVar(&f.Kind, "kind", "", "with --all: only jobs of this kind")
	cmd.Flags().StringVar(&f.Queue, "queue", "", "with --all: only jobs of this queue")
	cmd.Flags().StringVar(&f.Error, "error", "", "with --all: only jobs whose error has this in it")
	cmd.Flags().StringVar(&batch, "batch", "", "with --all: only jobs of this batch")
	cmd.Flags().StringVar(&tenant, "tenant", "", "only jobs of this tenant")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --all: do it; without it the jobs are only counted")
	return cmd
}

func (c *cli) retryOne(ctx context.Context, store *storage.Store, scope storage.Scope, text string) error {
	id, err := parseID("JOB", text)
	if err != nil {
		return err
	}
	job, err := store.RetryJob(ctx, scope, id)
	if err == nil {
		err = didToJob(ctx, store, "job.retried", id)
	}
	if err != nil {
		return err
	}
	return c.print(map[string]any{"job": job}, func(w io.Writer) { fmt.Fprintf(w, "job %s is queued again\n", job.ID) })
}

func (c *cli) retryAll(ctx context.Context, store *storage.Store, scope storage.Scope, f storage.FailedFilter, yes bool) error {
	if f.Batch != uuid.Nil {
		if _, err := store.Batch(ctx, scope, f.Batch); err != nil {
			return err
		}
	}
	n, err := store.CountFailed(ctx, scope, f)
	if err != nil {
		return err
	}
	if !yes {
		return c.print(map[string]any{"matching": n, "queued": 0}, func(w io.Writer) {
			fmt.Fprintf(w, "%s %s; add --yes to queue %s again\n", count.Of(n, "failed job"), count.Verb(n, "matches", "match"), count.Verb(n, "it", "them"))
		})
	}
	n, err = store.RetryFailed(ctx, scope, f)
	if err = didToFailed(ctx, store, "job.retried", scope, n, err); err != nil {
		return err
	}
	return c.print(map[string]any{"queued": n}, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s queued again\n", count.Of(n, "job"), count.Verb(n, "is", "are"))
	})
}
