package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// unfencedLease is short: it is the lock of a scratch table and nobody else's.
const unfencedLease = 3 * time.Second

// What a worker without a fence logs.
const (
	unfencedTook    = "took the lock"
	unfencedRead    = "read the row"
	unfencedChecked = "looked at its lock: it holds it, so it will write"
	unfencedWrote   = "wrote the row"
)

// drillRow is the scratch table's row before the older write and after.
type drillRow struct {
	Before storage.ScratchRow `json:"before"`
	After  storage.ScratchRow `json:"after"`
}

// unfenced is one run of the drill without a fence.
type unfenced struct {
	*timeline
	app     *app
	id      string // of the table and the lock
	scratch *storage.Scratch
	workers []*drillWorker
	row     *drillRow
}

func (c *cli) unfenced(ctx context.Context) error {
	return c.part(ctx, true, func(ctx context.Context, a *app) error {
		line, err := newTimeline(ctx, c, a.store)
		if err != nil {
			return err
		}
		u := &unfenced{timeline: line, app: a, id: drillID()}
		u.scratch = a.store.Scratch(u.id)
		err = u.story(ctx)
		left := u.cleanUp(ctx)
		return u.conclude(err, left)
	})
}

func (u *unfenced) story(ctx context.Context) error {
	if err := u.scratch.Create(ctx, storage.ScratchRow{Source: 100, Report: 0, Version: 1, Writer: "nobody"}); err != nil {
		return err
	}
	u.note(byDrill, 0, "made a scratch table of one row: source 100, no report yet, version 1")
	a, err := u.frozen(ctx)
	if err != nil {
		return err
	}
	if err := u.scratch.SetSource(ctx, 120); err != nil {
		return err
	}
	u.note(byDrill, 0, "changed the source from 100 to 120")
	b, err := u.worker(ctx, "worker B")
	if err != nil {
		return err
	}
	if err := u.hears(ctx, b, unfencedTook, unfencedRead, unfencedChecked, unfencedWrote); err != nil {
		return err
	}
	before, err := u.read(ctx)
	if err != nil {
		return err
	}
	if err := thaw(a.cmd.Process); err != nil {
		return fmt.Errorf("let worker A go on: %w", err)
	}
	u.note(byDrill, 0, "let worker A go on (SIGCONT)")
	if err := u.hears(ctx, a, unfencedWrote); err != nil {
		return err
	}
	after, err := u.read(ctx)
	u.row = &drillRow{before, after}
	return err
}

// frozen brings worker A to the moment between its last look and its write.
func (u *unfenced) frozen(ctx context.Context) (*drillWorker, error) {
	a, err := u.worker(ctx, "worker A")
	if err != nil {
		return nil, err
	}
	if err := u.hears(ctx, a, unfencedTook, unfencedRead, unfencedChecked); err != nil {
		return nil, err
	}
	if err := freeze(a.cmd.Process); err != nil {
		return nil, fmt.Errorf("freeze worker A: %w", err)
	}
	u.note(byDrill, 0, "froze worker A (SIGSTOP to process %d), between its look and its write", a.pid())
	return a, nil
}

func (u *unfenced) read(ctx context.Context) (storage.ScratchRow, error) {
	row, err := u.scratch.Read(ctx)
	if err == nil {
		u.note(byDrill, 0, "read the row: %s", describeRow(row))
	}
	return row, err
}

func describeRow(r storage.ScratchRow) string {
	return fmt.Sprintf("report %d, version %d, by %s", r.Report, r.Version, r.Writer)
}

func (u *unfenced) worker(ctx context.Context, label string) (*drillWorker, error) {
	w, err := spawn(ctx, u.app, label, nil, "drill", "unfenced-worker", "--table", u.id, "--label", label)
	if err == nil {
		u.workers = append(u.workers, w)
		u.note(byDrill, 0, "started %s (process %d)", label, w.pid())
	}
	return w, err
}

// hears waits for what a worker logs, in this order, and notes it.
func (u *unfenced) hears(ctx context.Context, w *drillWorker, msgs ...string) error {
	for _, msg := range msgs {
		var line workerLine
		err := u.wait(ctx, 60*time.Second, w.label+" "+msg, func() (found bool, err error) {
			if line, found = w.output.find(func(l workerLine) bool { return l.Msg == msg }); found {
				return true, nil
			}
			return false, u.alive(w)
		})
		if err != nil {
			return err
		}
		what := msg
		if line.Said != "" {
			what += ": " + line.Said
		}
		u.add(drillEvent{At: u.here(line.Time), Who: w.label, What: what})
	}
	return nil
}

// alive allows a worker to end once it has written.
func (u *unfenced) alive(w *drillWorker) error {
	if w.output.says(unfencedWrote) {
		return nil
	}
	return w.alive()
}

func (u *unfenced) cleanUp(ctx context.Context) (left []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, w := range u.workers {
		if err := w.stop(5 * time.Second); err != nil {
			left = append(left, fmt.Sprintf("%s (%v)", w.label, err))
		}
	}
	if err := errors.Join(u.scratch.Drop(ctx), u.app.redis.ForgetLease(ctx, u.id)); err != nil {
		return append(left, err.Error())
	}
	u.note(byDrill, 0, "dropped the scratch table")
	return left
}

func (u *unfenced) conclude(failure error, left []string) error {
	r := drillReport{Drill: "pause --unfenced", Tenant: u.id, LeaseMS: unfencedLease.Milliseconds(), Left: left, Row: u.row}
	if failure == nil && (u.row.After.Writer != "worker A" || u.row.After.Report != 100) {
		failure = errors.New("the older write did not win; run the drill again")
	}
	if failure == nil {
		r.Verdict = fmt.Sprintf("Overwritten, as expected without a fence: the report of %d, made of old data, replaced the newer one of %d; "+
			"the database reported success, and nobody was told.", u.row.After.Report, u.row.Before.Report)
	}
	if failure != nil || len(left) > 0 {
		r.Verdict, _ = verdict(r.Verdict, nil, left, failure)
	}
	r.Events = u.sorted()
	if err := u.cli.printDrill(r, "Without a fence: two workers, a lock that ends by itself, and no check where the write happens"); err != nil {
		return err
	}
	if failure == nil && len(left) == 0 {
		return nil
	}
	return drillError(r, failure)
}

func printDrillRow(w io.Writer, r *drillRow) {
	if r == nil {
		return
	}
	fmt.Fprintf(w, "row before\t%s\n", describeRow(r.Before))
	fmt.Fprintf(w, "row after\t%s\n\n", describeRow(r.After))
}

// unfencedWorkerCmd is a program as many are: it takes a lock, reads, looks
// whether it still holds the lock, and writes.
func (c *cli) unfencedWorkerCmd() *cobra.Command {
	var table, label string
	cmd := &cobra.Command{Use: "unfenced-worker", Hidden: true, Args: exactly(), Short: "Write a scratch table that only a lock protects",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.part(cmd.Context(), true, func(ctx context.Context, a *app) error {
				return a.writeUnfenced(ctx, a.store.Scratch(table), table, label)
			})
		}}
	cmd.Flags().StringVar(&table, "table", "", "scratch table, and name of the lock")
	cmd.Flags().StringVar(&label, "label", "", "who writes")
	return cmd
}

func (a *app) writeUnfenced(ctx context.Context, scratch *storage.Scratch, lock, label string) error {
	lease, err := a.lockUnfenced(ctx, lock)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }()
	a.log.Info(unfencedTook, "said", fmt.Sprintf("it ends by itself after %s unless it is renewed", unfencedLease))
	row, err := scratch.Read(ctx)
	if err != nil {
		return err
	}
	a.log.Info(unfencedRead, "said", fmt.Sprintf("source %d, version %d", row.Source, row.Version))
	if err := lease.Context().Err(); err != nil { // all that a lock can offer
		return context.Cause(lease.Context())
	}
	a.log.Info(unfencedChecked)
	moment := time.NewTimer(time.Second) // shorter in life; it only has to be there
	defer moment.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-moment.C:
	}
	row.Report, row.Version, row.Writer = row.Source, row.Version+1, label
	n, err := scratch.Publish(ctx, row)
	if err != nil {
		return err
	}
	a.log.Info(unfencedWrote, "said", fmt.Sprintf("report %d, version %d; PostgreSQL answered UPDATE %d", row.Report, row.Version, n))
	return nil
}

// lockUnfenced waits for the lock.
func (a *app) lockUnfenced(ctx context.Context, name string) (*jobs.Lease, error) {
	leaser := a.redis.Leaser(a.name, unfencedLease)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		lease, err := leaser.Acquire(ctx, name)
		if !errors.Is(err, jobs.ErrLeaseBusy) {
			return lease, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}
