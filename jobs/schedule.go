package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/robfig/cron/v3"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// Scheduler does what comes by the clock: it dispatches the jobs of schedules
// and runs the clean-up. Any number may run at once: a row per schedule and fire
// time decides who dispatches, a lock who cleans up.
type Scheduler struct {
	store      *storage.Store
	dispatcher *Dispatcher
	sweep      *storage.Sweep
	every      time.Duration
	log        *slog.Logger
}

// NewScheduler prepares a scheduler that cleans up as often as sweepEvery says; 0 for never.
func NewScheduler(store *storage.Store, d *Dispatcher, sweep *storage.Sweep, sweepEvery time.Duration, log *slog.Logger) *Scheduler {
	return &Scheduler{store: store, dispatcher: d, sweep: sweep, every: sweepEvery, log: log}
}

// Run works until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var sweeps <-chan time.Time
	if s.every > 0 {
		t := time.NewTicker(s.every)
		defer t.Stop()
		sweeps = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.fireDue(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("scheduler", "error", err)
			}
		case <-sweeps:
			s.cleanUp(ctx)
		}
	}
}

func (s *Scheduler) cleanUp(ctx context.Context) {
	res, err := s.sweep.Run(ctx)
	switch {
	case errors.Is(err, storage.ErrBusy) || ctx.Err() != nil:
	case err != nil:
		s.log.Error("clean-up", "error", err)
	case res.Planned > 0:
		s.log.Info("cleaned up", "condemned", res.Condemned, "deleted", res.Deleted, "bytes", res.Bytes, "failed", res.Failed)
	}
	if err := s.store.PruneSecrets(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("prune", "error", err)
	}
}

// ParseCron reads a cron expression of five fields (or @daily and the like) and
// a time zone by its IANA name.
func ParseCron(expression, zone string) (cron.Schedule, *time.Location, error) {
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, nil, invalid.New("zone", zone, "is not the name of a time zone, such as Europe/Berlin")
	}
	sched, err := cron.ParseStandard(expression)
	if err != nil {
		return nil, nil, invalid.New("cron", expression, "is not a cron expression such as \"0 6 * * 1\": %s", err)
	}
	return sched, loc, nil
}

// fireDue looks at every schedule by the database's clock.
func (s *Scheduler) fireDue(ctx context.Context) error {
	schedules, err := s.store.Schedules(ctx)
	if err != nil || len(schedules) == 0 {
		return err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for _, sc := range schedules {
		at, due, err := dueAt(sc, now)
		if err == nil && due {
			err = s.fire(ctx, sc, at)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("schedule %q: %w", sc.Name, err))
		}
	}
	return errors.Join(failures...)
}

// dueAt is the newest fire time that has come since the last one (or since the
// schedule was made). Fire times that were missed while nothing ran become one.
func dueAt(sc storage.Schedule, now time.Time) (time.Time, bool, error) {
	if sc.PausedAt != nil {
		return time.Time{}, false, nil
	}
	sched, loc, err := ParseCron(sc.Cron, sc.Zone)
	if err != nil {
		return time.Time{}, false, err
	}
	after := sc.CreatedAt
	if sc.LastFire != nil && sc.LastFire.After(after) {
		after = *sc.LastFire
	}
	if floor := now.AddDate(0, -14, 0); after.Before(floor) { // bounds the walk: what was missed longer ago is not made up
		after = floor
	}
	var last time.Time
	for at := sched.Next(after.In(loc)); !at.IsZero() && !at.After(now); at = sched.Next(at) {
		last = at
	}
	return last, !last.IsZero(), nil
}

// fire claims the fire time and dispatches in the same transaction. A request
// that is refused is recorded and not tried again: it would be refused again.
func (s *Scheduler) fire(ctx context.Context, sc storage.Schedule, at time.Time) error {
	return s.store.Transaction(ctx, func(tx storage.Tx) error {
		mine, err := s.store.ClaimFire(ctx, tx, sc.Name, at)
		if err != nil || !mine {
			return err
		}
		payload, err := ResolveDays(sc.Payload, at)
		var receipt Receipt
		if err == nil {
			receipt, err = s.dispatcher.Dispatch(ctx, tx, Request{Kind: sc.Kind, Tenant: sc.Tenant, Payload: payload}, RequestedBy("schedule "+sc.Name))
		}
		var bad *invalid.Error
		if errors.As(err, &bad) {
			s.log.Error("schedule cannot dispatch", "schedule", sc.Name, "error", err)
			return s.store.RecordFire(ctx, tx, sc.Name, at, uuid.Nil, err.Error())
		}
		if err != nil {
			return err
		}
		s.log.Info("schedule fired", "schedule", sc.Name, "at", at, "job", receipt.Job.ID)
		return s.store.RecordFire(ctx, tx, sc.Name, at, receipt.Job.ID, "")
	})
}
