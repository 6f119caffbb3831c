package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/storage"
)

const drillLong = `Repeats the proof on this deployment: real workers are hurt while they write, and what came of it is read
from the database, from Redis and from the file store.

A drill makes a tenant and a queue of its own, starts two worker processes of its own with this binary and
the servers of this deployment, and removes everything again, also after Ctrl-C. It touches no job, no
export and no file of others. Its workers relay like all workers do: give it the lease of the deployment
(FENCELINE_LEASE or --lease), for a shorter one would take jobs away from workers that are only slow. At
worst, a worker that is frozen or killed takes a bell of somebody else's job with it, which comes back after
ten seconds; flush lets every relay ring once more.

A drill takes about as long as the lease and ten seconds more. Exit codes: 0 everything held, 1 a law was
broken or the drill could not finish (the last line says which), 2 usage.`

func (c *cli) drillCmd() *cobra.Command {
	g := group("drill", "Repeat the proof on this deployment", c.drillPauseCmd(), c.drillKillCmd(),
		c.drillPlainCmd(drillPlan{"flush", "Redis loses what it holds about three jobs", 3, (*drill).flush}),
		c.drillPlainCmd(drillPlan{"double", "Two workers write the same export at once, without a lease", 2, (*drill).double}),
		c.drillWorkerCmd(), c.unfencedWorkerCmd())
	g.Long = drillLong
	return g
}

// drillPlan is a drill that can be run.
type drillPlan struct {
	name, title string
	jobs        int
	story       func(*drill, context.Context) error
}

func (c *cli) drillPauseCmd() *cobra.Command {
	var at string
	var unfenced bool
	plan := drillPlan{"pause", "Worker A is frozen for longer than its lease, and goes on", 1, (*drill).pause}
	cmd := &cobra.Command{
		Use: plan.name, Short: plan.title, Args: exactly(),
		Long: "Worker A takes a job, and is frozen with SIGSTOP. Its lease ends, worker B publishes, and A goes on as if\n" +
			"nothing had happened. It must be refused, and the file of B must stay as it is.\n\n" +
			"With --unfenced the same happens to a scratch table that only a lock protects, and the older write wins.\n\n" + drillLong,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkMoment(at); err != nil {
				return err
			}
			if err := canFreeze(); err != nil {
				return err
			}
			if !unfenced {
				return c.drill(cmd.Context(), plan, at)
			}
			if cmd.Flags().Changed("at") {
				return usageError("--at and --unfenced exclude each other: without a fence there are no steps")
			}
			return c.unfenced(cmd.Context())
		},
	}
	momentFlag(cmd, &at)
	cmd.Flags().BoolVar(&unfenced, "unfenced", false, "show what happens without the check, on a scratch table")
	return cmd
}

func (c *cli) drillKillCmd() *cobra.Command {
	var at string
	plan := drillPlan{"kill", "Worker A is killed while it has a job", 1, (*drill).kill}
	cmd := &cobra.Command{
		Use: plan.name, Short: plan.title, Args: exactly(),
		Long: "Worker A takes a job, and is ended with SIGKILL. Worker B must do the job, and the clean-up must condemn\n" +
			"and remove what A left behind, and nothing else.\n\n" + drillLong,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkMoment(at); err != nil {
				return err
			}
			return c.drill(cmd.Context(), plan, at)
		},
	}
	momentFlag(cmd, &at)
	return cmd
}

func (c *cli) drillPlainCmd(plan drillPlan) *cobra.Command {
	return &cobra.Command{Use: plan.name, Short: plan.title, Args: exactly(), Long: plan.title + ".\n\n" + drillLong,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.drill(cmd.Context(), plan, atWrite) }}
}

// The moments at which a worker can be hurt.
const (
	atWrite   = "write"   // its first bytes are written
	atPublish = "publish" // its file is complete and sealed, and publishing is all that is left
)

func momentFlag(cmd *cobra.Command, at *string) {
	cmd.Flags().StringVar(at, "at", atWrite, "when: write (its first bytes are written) or publish (its file is complete)")
}

func checkMoment(at string) error {
	if at != atWrite && at != atPublish {
		return usageError("--at: %q must be %s or %s", at, atWrite, atPublish)
	}
	return nil
}

// drill is one run of a drill. Only one goroutine uses it.
type drill struct {
	*timeline
	app  *app
	plan drillPlan
	at   string // one of the moments
	// id is the name of its tenant and of its queue.
	id      string
	backend string // that hands out leases to its workers
	workers []*drillWorker
	export  uuid.UUID // nil until a job was dispatched
	jobs    []storage.Job
	ended   []storage.Job // the jobs when the file was read first
	// attempts are those that were seen, oldest first, as they were seen last.
	attempts []storage.Attempt
	file     *drillFile // nil until it was read
	broken   []string   // laws, a sentence each
	left     []string   // what could not be removed
	held     string     // the verdict's sentence if nothing is broken
}

// drillFile is the published file, read before what must not change it and after.
type drillFile struct {
	Name   string `json:"name"`
	Token  int64  `json:"token"`
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	Before string `json:"sha256_before"`
	After  string `json:"sha256_after"`
}

// drill runs a story from its first worker to its clean-up.
func (c *cli) drill(ctx context.Context, plan drillPlan, at string) error {
	return c.part(ctx, true, func(ctx context.Context, a *app) error {
		line, err := newTimeline(ctx, c, a.store)
		if err != nil {
			return err
		}
		d := &drill{timeline: line, app: a, plan: plan, at: at, id: drillID(), backend: a.conf.LeaseURL}
		err = plan.story(d, ctx)
		if err == nil {
			err = d.judge(ctx)
		}
		d.cleanUp(ctx)
		return d.conclude(err)
	})
}

func drillID() string {
	tag := make([]byte, 4)
	_, _ = rand.Read(tag)
	return fmt.Sprintf("drill-%x", tag)
}

// drillReport is what a drill answers.
type drillReport struct {
	Drill    string            `json:"drill"`
	Verdict  string            `json:"verdict"`
	Held     bool              `json:"held"`
	Tenant   string            `json:"tenant"` // also the name of its queue
	LeaseMS  int64             `json:"lease_ms"`
	Broken   []string          `json:"broken,omitempty"`
	Left     []string          `json:"left,omitempty"` // what could not be removed
	Events   []drillEvent      `json:"events"`
	Attempts []storage.Attempt `json:"attempts,omitempty"`
	File     *drillFile        `json:"file,omitempty"`
	Row      *drillRow         `json:"row,omitempty"` // of a drill without a fence
}

// conclude prints the report and answers the error that the drill ends with.
func (d *drill) conclude(failure error) error {
	r := drillReport{
		Drill: d.plan.name, Tenant: d.id, LeaseMS: d.app.conf.Lease.Milliseconds(), Broken: d.broken, Left: d.left,
		Events: d.sorted(), Attempts: d.attempts, File: d.file,
	}
	r.Verdict, r.Held = verdict(d.held, d.broken, d.left, failure)
	if err := d.cli.printDrill(r, d.plan.title); err != nil {
		return err
	}
	return drillError(r, failure)
}

// verdict is how a drill came out, in a sentence.
func verdict(held string, broken, left []string, failure error) (sentence string, ok bool) {
	switch {
	case len(broken) > 0:
		sentence = "Broken: " + strings.Join(broken, "; ") + "."
	case errors.Is(failure, context.Canceled):
		sentence = "Interrupted before it came to an end; nothing can be said."
	case failure != nil:
		sentence = "The drill could not finish: " + failure.Error()
	case len(left) > 0:
		return held + " But the drill could not remove everything: " + strings.Join(left, "; ") + ".", false
	default:
		return "Held: " + held, true
	}
	if len(left) > 0 {
		sentence += " Left behind: " + strings.Join(left, "; ") + "."
	}
	return sentence, false
}

// drillError is nil when everything held.
func drillError(r drillReport, failure error) error {
	if errors.Is(failure, context.Canceled) && len(r.Broken)+len(r.Left) == 0 {
		return failure
	}
	if r.Held {
		return nil
	}
	return &coded{exitFailed, fmt.Errorf("drill %s: %s", r.Drill, r.Verdict)}
}

// patience is how long a drill waits for one thing. Leases end in between.
func (d *drill) patience() time.Duration { return 3*d.app.conf.Lease + 90*time.Second }
