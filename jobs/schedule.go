package jobs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// Scheduler does what comes by the clock: it fires schedules, follows their file and
// runs the clean-up. Any number may run at once: a row per schedule and fire time
// decides who dispatches, a lock who cleans up.
type Scheduler struct {
	schedules *Schedules
	store     *storage.Store
	file      *ScheduleFile
	sweep     *storage.Sweep
	every     time.Duration
	auditKeep time.Duration
	log       *slog.Logger
}

// SchedulerConfig is what a [Scheduler] works with.
type SchedulerConfig struct {
	Schedules *Schedules
	Store     *storage.Store
	File      *ScheduleFile  // followed while the scheduler runs; nil for none
	Sweep     *storage.Sweep // run as often as SweepEvery says
	// SweepEvery is how often to clean up; 0 for never.
	SweepEvery time.Duration
	// AuditKeep is how long entries of the audit log stay; 0 for ever.
	AuditKeep time.Duration
	Log       *slog.Logger
}

// NewScheduler prepares a scheduler.
func NewScheduler(c SchedulerConfig) *Scheduler {
	return &Scheduler{schedules: c.Schedules, store: c.Store, file: c.File, sweep: c.Sweep, every: c.SweepEvery, auditKeep: c.AuditKeep, log: c.Log}
}

// pulse is how long a scheduler waits between two looks at most: a schedule that was
// put meanwhile may be due. fastest is how long it waits at least.
const (
	pulse   = time.Second
	fastest = 20 * time.Millisecond
)

// Run works until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	parts.Go(func() { // a long clean-up holds up no schedule
		again(ctx, func() time.Duration { return s.fire(ctx) })
	})
	if s.file != nil {
		parts.Go(func() {
			again(ctx, func() time.Duration {
				s.file.follow(ctx, s.schedules)
				return pulse
			})
		})
	}
	if s.every > 0 {
		t := time.NewTicker(s.every)
		defer t.Stop()
		parts.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-t.C:
					s.cleanUp(ctx)
				}
			}
		})
	}
	parts.Wait()
	return nil
}

// again does something until ctx ends, and waits between as long as it answers.
func again(ctx context.Context, do func() time.Duration) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			t.Reset(do())
		}
	}
}

// fire looks at what is due and answers how long to wait for the next look.
func (s *Scheduler) fire(ctx context.Context) time.Duration {
	if _, err := s.schedules.Fire(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("scheduler", "error", err)
	}
	wait, err := s.store.NextLook(ctx, pulse)
	if err != nil {
		return pulse // the look before has said what is wrong
	}
	return max(wait, fastest)
}
