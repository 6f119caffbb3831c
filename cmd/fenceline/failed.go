package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

// failedFlags choose failed jobs.
type failedFlags struct {
	filter        storage.FailedFilter
	tenant, batch string
}

func (f *failedFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.filter.Kind, "kind", "", "only jobs of this kind")
	cmd.Flags().StringVar(&f.filter.Queue, "queue", "", "only jobs of this queue")
	cmd.Flags().StringVar(&f.filter.Error, "error", "", "only jobs whose error has this in it")
	cmd.Flags().StringVar(&f.filter.Tag, "tag", "", "only jobs with this tag")
	cmd.Flags().StringVar(&f.batch, "batch", "", "only jobs of this batch")
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "only jobs of this tenant")
}

// read answers what was chosen.
func (f *failedFlags) read() (storage.Scope, storage.FailedFilter, error) {
	scope, filter := everything, f.filter
	if f.tenant != "" {
		scope = storage.Scope{Tenant: f.tenant}
	}
	if f.batch != "" {
		id, err := parseID("--batch", f.batch)
		if err != nil {
			return scope, filter, err
		}
		filter.Batch = id
	}
	return scope, filter, nil
}

func (c *cli) queueFailedCmd() *cobra.Command {
	var f failedFlags
	var after string
	var limit int
	cmd := &cobra.Command{
		Use: "failed", Short: "List failed jobs, the newest first", Args: exactly(),
		Example: "  fenceline queue failed --kind invoice --error 'no font'", RunE: func(cmd *cobra.Command, _ []string) error {
			scope, filter, err := f.read()
			if err != nil {
				return err
			}
			var from uuid.UUID
			if after != "" {
				if from, err = parseID("--after", after); err != nil {
					return err
				}
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				page, err := store.Failed(ctx, scope, filter, from, limit)
				if err != nil {
					return err
				}
				for i := range page.Items {
					page.Items[i].Payload = shownPayload(page.Items[i])
				}
				return c.print(page, func(w io.Writer) {
					fmt.Fprintln(w, "JOB\tKIND\tQUEUE\tTENANT\tFAILURES\tCRASHES\tENDED\tERROR")
					for _, j := range page.Items {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", j.ID, j.Kind, j.Queue, j.Tenant, j.Failures, j.Crashes, stamp(j.FinishedAt), inCell(orDash(j.Error)))
					}
					c.more(w, page.Next)
				})
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&after, "after", "", "go on where a list ended")
	limitFlag(cmd, &limit)
	return cmd
}

// onFailed is what can be done to failed jobs.
type onFailed struct {
	use, short, example string
	ask                 string // of a number of jobs
	done                string // of one or several
	key                 string // in JSON
	one                 func(context.Context, *storage.Store, storage.Scope, uuid.UUID) error
	all                 func(context.Context, *storage.Store, storage.Scope, storage.FailedFilter) (int64, error)
}

func (c *cli) queueRetryCmd() *cobra.Command {
	return c.onFailedCmd(onFailed{
		use: "retry [JOB…]", short: "Queue failed jobs again: the named ones, or with --all those that match",
		example: "  fenceline queue retry 0190f1d2-…\n  fenceline queue retry --all --queue mail --yes",
		ask:     "Queue %s again?", done: "queued again", key: "queued",
		one: func(ctx context.Context, s *storage.Store, scope storage.Scope, id uuid.UUID) error {
			if _, err := s.RetryJob(ctx, scope, id); err != nil {
				return err
			}
			return didToJob(ctx, s, "job.retried", id)
		},
		all: func(ctx context.Context, s *storage.Store, scope storage.Scope, f storage.FailedFilter) (int64, error) {
			n, err := s.RetryFailed(ctx, scope, f)
			return n, didToFailed(ctx, s, "job.retried", scope, n, err)
		},
	})
}

func (c *cli) queueForgetCmd() *cobra.Command {
	return c.onFailedCmd(onFailed{
		use: "forget [JOB…]", short: "Take failed jobs off the list: the named ones, or with --all those that match; they become cancelled",
		example: "  fenceline queue forget 0190f1d2-…\n  fenceline queue forget --all --error 'no such user' --yes",
		ask:     "Forget %s for good?", done: "forgotten", key: "forgotten",
		one: func(ctx context.Context, s *storage.Store, scope storage.Scope, id uuid.UUID) error {
			if err := s.ForgetJob(ctx, scope, id); err != nil {
				return err
			}
			return didToJob(ctx, s, "job.forgot", id)
		},
		all: func(ctx context.Context, s *storage.Store, scope storage.Scope, f storage.FailedFilter) (int64, error) {
			n, err := s.ForgetFailed(ctx, scope, f)
			return n, didToFailed(ctx, s, "job.forgot", scope, n, err)
		},
	})
}

func (c *cli) onFailedCmd(o onFailed) *cobra.Command {
	var f failedFlags
	var all, yes bool
	cmd := &cobra.Command{Use: o.use, Short: o.short, Example: o.example, RunE: func(cmd *cobra.Command, args []string) error {
		if all == (len(args) > 0) {
			return usageError("give one JOB or more, or --all with what it must match")
		}
		scope, filter, err := f.read()
		if err != nil {
			return err
		}
		if !all && (filter != storage.FailedFilter{}) {
			return usageError("what it must match goes with --all, not with the names of jobs")
		}
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			if all {
				return c.onAllFailed(ctx, store, o, scope, filter, yes)
			}
			return c.onEachFailed(ctx, store, o, scope, args)
		})
	}}
	f.register(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every failed job that matches; their number is shown and asked about")
	yesFlag(cmd, &yes)
	return cmd
}

func (c *cli) onEachFailed(ctx context.Context, store *storage.Store, o onFailed, scope storage.Scope, args []string) error {
	ids := make([]uuid.UUID, len(args))
	for i, text := range args { // all are read before any is touched
		var err error
		if ids[i], err = parseID("JOB", text); err != nil {
			return err
		}
	}
	var failures []error
	done := make([]uuid.UUID, 0, len(ids))
	for _, id := range ids { // one that is refused does not keep the others waiting
		if err := o.one(ctx, store, scope, id); err != nil {
			failures = append(failures, err)
			continue
		}
		done = append(done, id)
	}
	err := errors.Join(failures...)
	if err != nil && len(done) == 0 {
		return err
	}
	if err != nil {
		err = &coded{exitPartly, err}
	}
	return errors.Join(c.print(map[string]any{o.key: len(done), "jobs": done}, func(w io.Writer) { fmt.Fprintf(w, "%s %s\n", countOf(int64(len(done)), "job"), o.done) }), err)
}

func (c *cli) onAllFailed(ctx context.Context, store *storage.Store, o onFailed, scope storage.Scope, f storage.FailedFilter, yes bool) error {
	if f.Batch != uuid.Nil {
		if _, err := store.Batch(ctx, scope, f.Batch); err != nil {
			return err
		}
	}
	n, err := store.CountFailed(ctx, scope, f)
	if err != nil {
		return err
	}
	if n > 0 {
		if err := c.confirm(fmt.Sprintf(o.ask, countOf(n, "failed job")), yes); err != nil {
			return err
		}
		if n, err = o.all(ctx, store, scope, f); err != nil {
			return err
		}
	}
	return c.print(map[string]any{o.key: n}, func(w io.Writer) { fmt.Fprintf(w, "%s %s\n", countOf(n, "job"), o.done) })
}

func (c *cli) queuePruneCmd() *cobra.Command {
	var ended, failed time.Duration
	var yes bool
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove plain jobs that have ended long ago, with their errors; exports and their jobs stay", Args: exactly(),
		Long:    "Removes plain jobs that are done or cancelled since longer than --ended, failed ones since longer than --failed, and workers that are gone.\nFor cron, with --yes.",
		Example: "  fenceline queue prune --ended 168h --failed 720h --yes", RunE: func(cmd *cobra.Command, _ []string) error {
			if ended < time.Minute || failed < time.Minute {
				return usageError("--ended and --failed must be a minute at least")
			}
			if err := c.confirm(fmt.Sprintf("Remove plain jobs that ended %s ago, failed ones after %s?", ended, failed), yes); err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				p, err := store.Prune(ctx, ended, failed)
				d := deed{action: "jobs.pruned", kind: "job", details: map[string]any{"jobs": p.Jobs, "batches": p.Batches, "workers": p.Workers, "ended": ended.String(), "failed": failed.String()}}
				if err := errors.Join(err, did(ctx, store, d)); err != nil {
					return err
				}
				return c.print(p, func(w io.Writer) {
					fmt.Fprintf(w, "%s, %s and %s removed\n", count.Of(p.Jobs, "job"), count.Of(p.Batches, "batch"), count.Of(p.Workers, "worker"))
				})
			})
		},
	}
	cmd.Flags().DurationVar(&ended, "ended", 7*24*time.Hour, "how long jobs that are done or cancelled stay")
	cmd.Flags().DurationVar(&failed, "failed", 30*24*time.Hour, "how long failed jobs stay")
	yesFlag(cmd, &yes)
	return cmd
}
