package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/storage"
)

const (
	// shownWorkers bounds a list of workers.
	shownWorkers = 500
	// shownRunning bounds what is shown of each.
	shownRunning = 20
)

// listedWorker is a worker with what it runs.
type listedWorker struct {
	storage.Worker
	HeartbeatAge float64     `json:"heartbeat_age_seconds"`
	Runs         []listedRun `json:"runs"` // the oldest, at most twenty
}

type listedRun struct {
	Job       uuid.UUID        `json:"job"`
	Kind      string           `json:"kind"`
	Title     string           `json:"title"`
	Tenant    string           `json:"tenant"`
	State     storage.JobState `json:"state"`
	AttemptID *uuid.UUID       `json:"attempt_id,omitempty"`
	RunID     *uuid.UUID       `json:"run_id,omitempty"`
}

func (c *cli) workerCmd() *cobra.Command {
	return group("worker", "Workers", c.workerListCmd(),
		c.askWorkerCmd("drain NAME", "Let a worker take nothing new; it stays", "  fenceline worker drain host-1-4711-ab12", "drain", "takes nothing new"),
		c.askWorkerCmd("undrain NAME", "Let a drained worker go on", "  fenceline worker undrain host-1-4711-ab12", "", "goes on"),
		c.askWorkerCmd("stop NAME", "Let a worker end after what it runs", "  fenceline worker stop host-1-4711-ab12", "stop", "ends after what it runs"))
}

func (c *cli) workerListCmd() *cobra.Command {
	var since time.Duration
	cmd := &cobra.Command{
		Use: "list", Short: "List the workers and what each runs", Args: exactly(), Example: "  fenceline worker list --since 24h",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since <= 0 {
				return usageError("--since %s: must be above zero", since)
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				list, err := readWorkers(ctx, store, since)
				if err != nil {
					return err
				}
				return c.print(list, func(w io.Writer) { printWorkers(w, list) })
			})
		},
	}
	cmd.Flags().DurationVar(&since, "since", time.Minute, "also those whose last heartbeat is so long ago")
	return cmd
}

func readWorkers(ctx context.Context, store *storage.Store, since time.Duration) ([]listedWorker, error) {
	workers, err := store.Workers(ctx, since, shownWorkers)
	if err != nil {
		return nil, err
	}
	list := make([]listedWorker, len(workers))
	for i, one := range workers {
		list[i] = listedWorker{Worker: one, HeartbeatAge: one.Silent.Seconds(), Runs: []listedRun{}}
		if one.StoppedAt != nil {
			continue
		}
		running, err := store.RunningOn(ctx, one, shownRunning)
		if err != nil {
			return nil, err
		}
		for _, j := range running {
			list[i].Runs = append(list[i].Runs, listedRun{j.ID, j.Kind, j.Title, j.Tenant, j.State, j.AttemptID, j.RunID})
		}
	}
	return list, nil
}

func printWorkers(w io.Writer, list []listedWorker) {
	fmt.Fprintln(w, "WORKER\tHOST\tVERSION\tQUEUES\tRUNNING\tHEARTBEAT\tSTATE")
	for _, one := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d of %d\t%s ago\t%s\n", one.Name, one.Host, one.Version, servedQueues(one.Queues), len(one.Runs), one.Concurrency, one.Silent.Round(100*time.Millisecond), workerState(one.Worker))
	}
	for _, one := range list {
		for _, r := range one.Runs {
			fmt.Fprintf(w, "%s\truns %s\t%s\t%s\n", one.Name, r.Job, r.Kind, inCell(r.Title))
		}
	}
}

func workerState(w storage.Worker) string {
	switch {
	case w.StoppedAt != nil:
		return "stopped"
	case w.Asked != nil && *w.Asked == "drain":
		return "drained"
	case w.Asked != nil:
		return "stopping"
	}
	return "works"
}

func servedQueues(raw json.RawMessage) string {
	var weights map[string]int
	if json.Unmarshal(raw, &weights) != nil {
		return "–"
	}
	return strings.Join(slices.Sorted(maps.Keys(weights)), ",")
}

func (c *cli) askWorkerCmd(use, short, example, what, says string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Example: example, Args: exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			if err := store.AskWorker(ctx, args[0], what); err != nil {
				return err
			}
			return c.print(map[string]string{"worker": args[0], "asked": what}, func(w io.Writer) { fmt.Fprintf(w, "worker %s %s\n", args[0], says) })
		})
	}}
}
