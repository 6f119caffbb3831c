package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/fenceline/fenceline/storage"
)

const labLong = `Shows what each kind of lease is worth. Two processes, A and B, want the same lease: A has it when something
goes wrong, B gets it and writes, and what A wanted to write comes late. Who believed to hold the lease when,
how long B had to wait, and what came of it is printed, and with --save shown in the dashboard. Both take from a
balance of 500 that they have read, A 60 and B 50; it stands in two columns of a scratch table, one of which only
a fence of Fenceline may be written behind.

Backends are redis, redlock, postgres, etcd, zookeeper, kubernetes and none (everybody is told yes); without any, all
that can be played here. Servers are started for the lab, where their programs are installed, and end with it:
redis-server, and PostgreSQL, which the balances need too (or DATABASE_URL, beside whose database an empty one is
made and dropped). NAME=ADDRESS plays on a server of yours instead, as in redis=redis://HOST:6379. No lease stays behind there.

Exit codes: 0 the fence was right whatever the lease did, 1 it was not or the lab could not finish, 2 usage.`

// labOptions are what the lab is told.
type labOptions struct {
	lease time.Duration
	fault string
	save  bool
}

func (c *cli) labCmd() *cobra.Command {
	var o labOptions
	cmd := &cobra.Command{
		Use: "lab [BACKEND[=ADDRESS]...]", Short: "Show what each kind of lease is worth when its holder freezes, dies or is cut off",
		Long: labLong, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return c.lab(cmd.Context(), args, o) },
	}
	cmd.Flags().DurationVar(&o.lease, "lease", 2*time.Second, "how long a lease lives without a renewal, from 1s to 1m")
	cmd.Flags().StringVar(&o.fault, "fault", "", "play one only: "+labFaultNames())
	cmd.Flags().BoolVar(&o.save, "save", false, "keep the result for the dashboard, in the database of this deployment")
	cmd.AddCommand(c.labHolderCmd())
	return cmd
}

// labReport is what the lab answers.
type labReport struct {
	Held    bool             `json:"held"` // the fence was right in every story
	LeaseMS int64            `json:"lease_ms"`
	Runs    []storage.LabRun `json:"backends"`
	// NotPlayed says of which backends nothing can be shown here, and why.
	NotPlayed []string `json:"not_played,omitempty"`
	// Failed says which backends could not be played to the end, and why.
	Failed []string `json:"failed,omitempty"`
}

// lab plays every fault on every backend.
func (c *cli) lab(ctx context.Context, args []string, o labOptions) error {
	sources, not, err := parseLabSources(args)
	if err != nil {
		return err
	}
	faults, err := o.faults()
	if err != nil {
		return err
	}
	keep := func(context.Context, storage.LabRun) error { return nil }
	if o.save {
		store, err := c.store(ctx) // before the work, so that it is not in vain
		if err != nil {
			return err
		}
		defer store.Close()
		keep = store.SaveLab
	}
	servers, err := openLabServers(ctx, c)
	if err != nil {
		return err
	}
	defer servers.close()
	r := labReport{Held: true, LeaseMS: o.lease.Milliseconds(), NotPlayed: not}
	for _, src := range sources {
		fmt.Fprintf(c.err, "lab: %s: %d faults at once, a few times the lease of %s\n", src.name, len(faults), o.lease)
		if err := r.add(ctx, servers, src, faults, o.lease, keep); err != nil {
			return err
		}
	}
	if err := c.printLab(r); err != nil {
		return err
	}
	return r.failure()
}

// add plays a backend and keeps what came of it. When it cannot be played to the end, what others showed is worth something all the same.
func (r *labReport) add(ctx context.Context, s *labServers, src labSource, faults []labFault, lease time.Duration, keep func(context.Context, storage.LabRun) error) error {
	run, err := s.play(ctx, src, faults, lease)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.Failed = append(r.Failed, fmt.Sprintf("%s: %v", src.name, err))
		return nil
	}
	r.Runs = append(r.Runs, run)
	r.Held = r.Held && !slices.ContainsFunc(run.Faults, func(f storage.LabFault) bool { return f.Skipped == "" && !f.Right })
	return keep(ctx, run)
}

// failure is nil when everything was played, and the fence was right.
func (r labReport) failure() error {
	switch {
	case !r.Held:
		return &coded{exitFailed, errors.New("lab: the fence let an older write through")}
	case len(r.Failed) > 0:
		return &coded{exitFailed, fmt.Errorf("lab: could not play all: %s", strings.Join(r.Failed, "; "))}
	}
	return nil
}

// faults are those to play.
func (o labOptions) faults() ([]labFault, error) {
	if o.lease < time.Second || o.lease > time.Minute {
		return nil, usageError("--lease: %s must be from 1s to 1m: shorter ones end by themselves on a busy machine", o.lease)
	}
	list := labFaults()
	if o.fault == "" {
		return list, nil
	}
	i := slices.IndexFunc(list, func(f labFault) bool { return f.name == o.fault })
	if i < 0 {
		return nil, usageError("--fault: %q is none of %s", o.fault, labFaultNames())
	}
	return list[i : i+1], nil
}

// play plays faults on a backend, all at once: each has holders and a lease of its own.
func (s *labServers) play(ctx context.Context, src labSource, faults []labFault, lease time.Duration) (storage.LabRun, error) {
	if err := src.prepare(ctx, s); err != nil {
		return storage.LabRun{}, err
	}
	run := storage.LabRun{Backend: src.name, Server: src.server, At: time.Now().UTC().Truncate(time.Millisecond), LeaseMS: lease.Milliseconds(), Faults: make([]storage.LabFault, len(faults))}
	g, ctx := errgroup.WithContext(ctx)
	for i, f := range faults {
		run.Faults[i] = storage.LabFault{Fault: f.name, Title: f.title, Skipped: f.skipped(src)}
		if run.Faults[i].Skipped != "" {
			continue
		}
		story := &labStory{source: src, fault: f, lease: lease, servers: s}
		g.Go(func() (err error) {
			run.Faults[i], err = story.play(ctx)
			return err
		})
	}
	return run, g.Wait()
}

// skipped says why a fault is not played on a backend; empty when it is.
func (f labFault) skipped(src labSource) string {
	if f.freezes && canFreeze() != nil {
		return "this system cannot freeze a process (SIGSTOP): run the lab on Linux or macOS"
	}
	if f.skip != nil {
		return f.skip(src)
	}
	return ""
}
