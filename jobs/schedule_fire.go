package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/calendar"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

const (
	// MissedGrace is how late a fire time may be and still count for a schedule that
	// skips what was missed.
	MissedGrace = time.Minute
	// lookAgain is for how long a schedule is left alone at most. It is looked at before
	// its fire time so that new rules of time zones count.
	lookAgain = time.Hour
	// lookers is how many schedules are fired at once by one process.
	lookers = 4
	// atOnce is how many missed fire times one look makes up for.
	atOnce = 50
	// mostCounted is where counting fire times that were passed over stops.
	mostCounted = 1000
	// troubleWait is for how long a schedule is left alone that could not be looked at.
	troubleWait = 15 * time.Second
	// overlapWait is how long a missed fire time waits before it looks again whether the run before has ended.
	overlapWait = 5 * time.Second
)

// Fire looks at every schedule that is due, once, and answers what was decided. Where
// several do so at once, each has the schedules that no other has. The error joins
// those of schedules that could not be looked at: they are due again soon.
func (s *Schedules) Fire(ctx context.Context) ([]storage.ScheduleRun, error) {
	var (
		mu       sync.Mutex
		runs     []storage.ScheduleRun
		seen     []string
		failures []error
		wg       sync.WaitGroup
	)
	for range lookers {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				leaveOut := seen[:len(seen):len(seen)]
				mu.Unlock()
				name, decided, err := s.look(ctx, leaveOut)
				mu.Lock()
				runs = append(runs, decided...)
				if err != nil {
					failures = append(failures, err)
				}
				if name != "" && err != nil {
					seen = append(seen, name)
				}
				mu.Unlock()
				if name == "" {
					return
				}
			}
		})
	}
	wg.Wait()
	return runs, errors.Join(failures...)
}

// look decides about the schedule that has been due longest; its name is empty when
// none is due, or the database does not answer.
func (s *Schedules) look(ctx context.Context, leaveOut []string) (name string, runs []storage.ScheduleRun, err error) {
	err = s.store.Transaction(ctx, func(tx storage.Tx) error {
		sc, now, err := s.store.DueSchedule(ctx, tx, leaveOut, s.now)
		if err != nil {
			return err
		}
		name = sc.Name
		d := decision{Schedules: s, tx: tx, sc: sc, now: now, decided: sc.DecidedAt}
		if err = d.take(ctx); err != nil {
			return err
		}
		runs = d.runs
		return s.store.MoveSchedule(ctx, tx, name, d.decided, d.lookAt)
	})
	switch {
	case err == nil:
		return name, runs, nil
	case errors.Is(err, storage.ErrNotFound) && name == "":
		return "", nil, nil
	case name == "" || ctx.Err() != nil:
		return "", nil, err
	}
	err = fmt.Errorf("schedule %q: %w", name, err)
	return name, nil, errors.Join(err, s.store.PostponeSchedule(ctx, name, err.Error(), troubleWait))
}

// decision is what is decided about a schedule in one look, in its transaction.
type decision struct {
	*Schedules
	tx   storage.Tx
	sc   storage.Schedule
	now  time.Time
	cron calendar.Cron
	zone *time.Location

	runs    []storage.ScheduleRun
	decided time.Time // up to where
	lookAt  time.Time // next
}

func (d *decision) take(ctx context.Context) (err error) {
	if d.cron, d.zone, err = ParseCron(d.sc.Cron, d.sc.Zone); err != nil {
		return err
	}
	d.lookAt = d.now.Add(lookAgain)
	if next, ok := d.cron.Next(d.now, d.zone); ok && next.At.Before(d.lookAt) {
		d.lookAt = next.At
	}
	if d.sc.Missed == storage.MissedAll {
		return d.all(ctx)
	}
	return d.newest(ctx)
}

// all makes up for every fire time that has come, the oldest first.
func (d *decision) all(ctx context.Context) error {
	for range atOnce {
		f, ok := d.cron.Next(d.decided, d.zone)
		if !ok || f.At.After(d.now) {
			return nil
		}
		job, _, err := d.atWork(ctx)
		if err != nil {
			return err
		}
		if job != uuid.Nil { // each is to run, and none beside another: it waits
			d.lookAt = d.now.Add(overlapWait)
			return nil
		}
		if err := d.fire(ctx, f, 0); err != nil {
			return err
		}
		d.decided = f.At
	}
	d.lookAt = d.now.Add(time.Second)
	return nil
}

// newest decides about the newest fire time that has come; it stands for those before it.
func (d *decision) newest(ctx context.Context) error {
	f, ok := d.cron.Prev(d.now.Add(1), d.zone)
	if !ok || !f.At.After(d.decided) {
		return nil
	}
	passed := 0
	for g, ok := d.cron.Next(d.decided, d.zone); ok && g.At.Before(f.At) && passed < mostCounted; g, ok = d.cron.Next(g.At, d.zone) {
		passed++
	}
	d.decided = f.At
	if late := d.now.Sub(f.At); d.sc.Missed == storage.MissedSkip && late > MissedGrace {
		return d.skip(ctx, f, passed, fmt.Sprintf("missed: no scheduler looked for %s", late.Round(time.Second)))
	}
	job, state, err := d.atWork(ctx)
	if err != nil {
		return err
	}
	if job != uuid.Nil {
		return d.skip(ctx, f, passed, fmt.Sprintf("job %s of an earlier run is still %s", job, state))
	}
	return d.fire(ctx, f, passed)
}

// atWork is the run that keeps others away; uuid.Nil where they may overlap.
func (d *decision) atWork(ctx context.Context) (uuid.UUID, storage.JobState, error) {
	if d.sc.Overlap {
		return uuid.Nil, "", nil
	}
	return d.store.RunAtWork(ctx, d.tx, d.sc.Name)
}

func (d *decision) skip(ctx context.Context, f calendar.Fire, passed int, why string) error {
	run := storage.ScheduleRun{Schedule: d.sc.Name, Tenant: d.sc.Tenant, FireKey: f.Key, FireAt: f.At, Outcome: storage.RunSkipped, Reason: &why, Passed: passed}
	run, err := d.store.RecordRun(ctx, d.tx, run)
	if err != nil || run.ID == 0 {
		return err
	}
	d.runs = append(d.runs, run)
	d.log.Warn("schedule skipped", "schedule", d.sc.Name, "at", f.At, "why", why)
	return nil
}

// fire claims a fire time and dispatches. A request that is refused is recorded and
// not tried again: it would be refused again.
func (d *decision) fire(ctx context.Context, f calendar.Fire, passed int) error {
	run, err := d.dispatch(ctx, d.tx, d.sc, f, storage.ScheduleRun{Passed: passed}, RequestedBy("schedule "+d.sc.Name))
	switch {
	case err == nil && run.ID == 0: // another has claimed it
		return nil
	case err == nil:
		d.log.Info("schedule fired", "schedule", d.sc.Name, "at", f.At, "job", *run.JobID)
	case refuses(err):
		run.Outcome, run.Reason = storage.RunRefused, new(err.Error())
		d.log.Error("schedule cannot dispatch", "schedule", d.sc.Name, "at", f.At, "error", err)
		if err := d.store.FinishRun(ctx, d.tx, run); err != nil {
			return err
		}
	default:
		return err
	}
	d.runs = append(d.runs, run)
	return nil
}

// refuses reports whether a dispatch was refused for what it asks; other errors may pass.
func refuses(err error) bool {
	return errors.As(err, new(*invalid.Error)) || errors.Is(err, storage.ErrGone)
}

// dispatch records a run and inserts its job in the same transaction. The run's ID is 0
// when its fire time was claimed before.
func (s *Schedules) dispatch(ctx context.Context, tx storage.Tx, sc storage.Schedule, f calendar.Fire, run storage.ScheduleRun, who Option) (storage.ScheduleRun, error) {
	run.Schedule, run.Tenant, run.FireKey, run.FireAt, run.Outcome = sc.Name, sc.Tenant, f.Key, f.At, storage.RunDispatched
	run, err := s.store.RecordRun(ctx, tx, run)
	if err != nil || run.ID == 0 {
		return run, err
	}
	payload, err := ResolveDays(sc.Payload, f.Local)
	if err != nil {
		return run, err
	}
	o, err := ParseScheduleOptions(sc.Options)
	if err != nil {
		return run, err
	}
	receipt, err := s.dispatcher.Dispatch(ctx, tx, Request{Kind: sc.Kind, Tenant: sc.Tenant, Payload: payload}, append(o.list(), who)...)
	if err != nil {
		return run, err
	}
	run.JobID, run.JobState = &receipt.Job.ID, &receipt.Job.State
	return run, s.store.FinishRun(ctx, tx, run)
}
