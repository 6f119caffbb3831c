package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

func (c *cli) queueCmd() *cobra.Command {
	return group("queue", "Queues, failed jobs and caps", c.queueListCmd(), c.queuePauseCmd(), c.queueResumeCmd(), c.queueClearCmd(), c.queueMonitorCmd(), c.queueCapCmd(),
		c.queueFailedCmd(), c.queueRetryCmd(), c.queueForgetCmd(), c.queuePruneCmd(), c.queueRestartCmd(), c.workCmd())
}

func (c *cli) queueListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the queues: what waits, what runs, and for how long the first has waited", Args: exactly(),
		Long:    "Waiting jobs could run now; delayed ones wait for a time, a retry, a cap or another job. Counts end at 10001.",
		Example: "  fenceline queue list --json", RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				list, err := store.Queues(ctx)
				if err != nil {
					return err
				}
				return c.print(list, func(w io.Writer) {
					fmt.Fprintln(w, "QUEUE\tWAITING\tDELAYED\tRUNNING\tOLDEST WAIT\tCAP\tPAUSED")
					for _, q := range list {
						fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", q.Name, capped(q.Waiting), capped(q.Delayed), q.Running, waitText(q.OldestWait), capText(q.MaxRunning), pauseText(q))
					}
				})
			})
		},
	}
}

// capped is a count that ends at [storage.CountCap].
func capped(n int64) string {
	if n > storage.CountCap {
		return fmt.Sprintf("over %d", storage.CountCap)
	}
	return fmt.Sprint(n)
}

func waitText(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func capText(n *int) string {
	if n == nil {
		return "–"
	}
	return fmt.Sprint(*n)
}

func pauseText(q storage.Queue) string {
	if q.PausedAt == nil {
		return "–"
	}
	return "since " + stamp(q.PausedAt) + " by " + cmp.Or(q.PausedBy, "somebody")
}

// operatorName is who uses the command line, for others to see.
func operatorName() string {
	if u, err := user.Current(); err == nil {
		return "cli " + u.Username
	}
	return "cli"
}

func (c *cli) queuePauseCmd() *cobra.Command {
	return &cobra.Command{
		Use: "pause NAME", Short: "Let nothing of a queue begin; what runs goes on", Args: exactly("NAME"),
		Example: "  fenceline queue pause mail", RunE: func(cmd *cobra.Command, args []string) error {
			if err := jobs.CheckName("NAME", args[0]); err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				if err := store.PauseQueue(ctx, args[0], operatorName()); err != nil {
					return err
				}
				if err := did(ctx, store, deed{action: "queue.paused", kind: "queue", id: args[0]}); err != nil {
					return err
				}
				return c.print(map[string]string{"paused": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "queue %s is paused\n", args[0]) })
			})
		},
	}
}

func (c *cli) queueResumeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "resume NAME", Short: "End the pause of a queue", Args: exactly("NAME"),
		Example: "  fenceline queue resume mail", RunE: func(cmd *cobra.Command, args []string) error {
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				if err := store.ResumeQueue(ctx, args[0]); err != nil {
					return err
				}
				if err := did(ctx, store, deed{action: "queue.resumed", kind: "queue", id: args[0]}); err != nil {
					return err
				}
				return c.print(map[string]string{"resumed": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "queue %s goes on\n", args[0]) })
			})
		},
	}
}

func (c *cli) queueClearCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "clear NAME", Short: "Cancel every job that waits in a queue; what runs goes on", Args: exactly("NAME"),
		Example: "  fenceline queue clear mail --yes", RunE: func(cmd *cobra.Command, args []string) error {
			if err := jobs.CheckName("NAME", args[0]); err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				n, err := store.CountWaiting(ctx, args[0])
				if err != nil {
					return err
				}
				if err := c.confirm(fmt.Sprintf("Cancel %s that %s in queue %s?", countOf(n, "job"), count.Verb(n, "waits", "wait"), args[0]), yes); err != nil {
					return err
				}
				if n, err = store.ClearQueue(ctx, args[0]); err != nil {
					return err
				}
				if err := did(ctx, store, deed{action: "queue.cleared", kind: "queue", id: args[0], details: map[string]any{"jobs": n}}); err != nil {
					return err
				}
				return c.print(map[string]int64{"cancelled": n}, func(w io.Writer) { fmt.Fprintf(w, "%s cancelled\n", countOf(n, "job")) })
			})
		},
	}
	yesFlag(cmd, &yes)
	return cmd
}

// countOf is a number of things, counted up to [storage.CountCap].
func countOf(n int64, thing string) string {
	return capped(n) + " " + count.Noun(n, thing)
}

func (c *cli) queueRestartCmd() *cobra.Command {
	return &cobra.Command{
		Use: "restart", Short: "Let every worker end after what it runs, so that its supervisor starts it anew", Args: exactly(),
		Long:    "For a new version: each worker takes nothing more, ends what it runs, and exits with code 0. `fenceline up` goes on with a fresh worker.",
		Example: "  fenceline queue restart", RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				n, err := store.RestartWorkers(ctx)
				if err != nil {
					return err
				}
				if err := did(ctx, store, deed{action: "workers.restarted", details: map[string]any{"workers": n}}); err != nil {
					return err
				}
				return c.print(map[string]int64{"workers": n}, func(w io.Writer) { fmt.Fprintf(w, "%s asked to end after what runs\n", countOf(n, "worker")) })
			})
		},
	}
}
