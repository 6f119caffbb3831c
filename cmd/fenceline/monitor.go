package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

// behind is a queue that is over a bound, and which.
type behind struct {
	storage.Queue
	Why []string `json:"why"`
}

func (c *cli) queueMonitorCmd() *cobra.Command {
	var longest time.Duration
	var most int64
	cmd := &cobra.Command{
		Use: "monitor [QUEUE…]", Short: "Say which queues are behind: exit 1 and a line for each, or 0",
		Long: "For cron and for monitoring. Looks at the named queues, or at all. A queue is behind when a job that could run has waited for\n" +
			"longer than --max-wait, or when more than --max-waiting wait; also when it is paused.",
		Example: "  fenceline queue monitor --max-wait 5m\n  fenceline queue monitor default mail --max-wait 30s --max-waiting 1000",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := jobs.CheckName("QUEUE", name); err != nil {
					return err
				}
			}
			if longest <= 0 || most < 0 || most > storage.CountCap {
				return usageError("--max-wait must be above zero, --max-waiting 0 (for any number) to %d", storage.CountCap)
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				queues, err := store.Queues(ctx)
				if err != nil {
					return err
				}
				return c.sayBehind(findBehind(queues, args, longest, most))
			})
		},
	}
	cmd.Flags().DurationVar(&longest, "max-wait", 5*time.Minute, "how long the oldest job may wait")
	cmd.Flags().Int64Var(&most, "max-waiting", 0, "how many jobs may wait; 0 for any number")
	return cmd
}

func findBehind(queues []storage.Queue, names []string, longest time.Duration, most int64) []behind {
	list := []behind{}
	for _, q := range queues {
		if len(names) > 0 && !slices.Contains(names, q.Name) {
			continue
		}
		b := behind{Queue: q}
		if q.OldestWait > longest {
			b.Why = append(b.Why, fmt.Sprintf("the oldest job waits for %s, more than %s", waitText(q.OldestWait), longest))
		}
		if most > 0 && q.Waiting > most {
			b.Why = append(b.Why, fmt.Sprintf("%s %s, more than %d", countOf(q.Waiting, "job"), count.Verb(q.Waiting, "waits", "wait"), most))
		}
		if len(b.Why) > 0 {
			list = append(list, b)
		}
	}
	return list
}

func (c *cli) sayBehind(list []behind) error {
	err := c.print(map[string]any{"behind": list}, func(w io.Writer) {
		for _, b := range list {
			paused := ""
			if b.PausedAt != nil {
				paused = " (paused)"
			}
			for _, why := range b.Why {
				fmt.Fprintf(w, "%s%s: %s\n", b.Name, paused, why)
			}
		}
	})
	if err != nil || len(list) == 0 {
		return err
	}
	return &coded{exitFailed, fmt.Errorf("%s behind", countOf(int64(len(list)), "queue"))}
}
