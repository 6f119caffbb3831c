package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
)

// stint is what a worker is started for; the zero value is until it is stopped.
type stint struct {
	jobs      int
	time      time.Duration
	whenEmpty bool
}

// mostJobs bounds --max-jobs.
const mostJobs = 1_000_000

// workCmd is `work`, and `queue work`.
func (c *cli) workCmd() *cobra.Command {
	var s stint
	cmd := &cobra.Command{
		Use: "work", Short: "Run jobs", Args: exactly(),
		Long: "Runs the jobs of --queues, --concurrency at once, until it is stopped. It ends with exit code 0 when it was asked to\n" +
			"(`worker stop`, `queue restart`) or has done what the flags bound it to; let your supervisor start it again.",
		Example: "  fenceline work --queues default=3,reports=1 --concurrency 16\n" +
			"  fenceline work --autoscale default=2..16,reports=1..4 --concurrency 16\n" +
			"  fenceline work --stop-when-empty --max-time 50m",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.jobs < 0 || s.jobs > mostJobs {
				return usageError("--max-jobs %d: must be 1 to %d, or 0 for any number", s.jobs, mostJobs)
			}
			if s.time < 0 {
				return usageError("--max-time %s: must not be below zero", s.time)
			}
			return c.daemon(cmd.Context(), true, func(ctx context.Context, a *app) error {
				err := runParts(ctx, a.worker(s).Run, a.relay().Run)
				if errors.Is(err, jobs.ErrAskedToStop) {
					return nil
				}
				return err
			})
		},
	}
	cmd.Flags().IntVar(&s.jobs, "max-jobs", 0, "end after so many jobs were begun; 0 for never")
	cmd.Flags().DurationVar(&s.time, "max-time", 0, "end after so long, and after what runs then; 0 for never")
	cmd.Flags().BoolVar(&s.whenEmpty, "stop-when-empty", false, "end when no job of the queues could run now")
	return cmd
}
