package web

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/fenceline/fenceline/storage"
)

// sweeper runs the clean-ups that are asked for in the dashboard, one at a time,
// within the bounds of the configuration.
type sweeper struct {
	sweep  *storage.Sweep
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc

	mu   sync.Mutex
	busy bool
	runs sync.WaitGroup
}

func newSweeper(c Config) *sweeper {
	s := &sweeper{sweep: c.Sweep, log: c.Log}
	if s.sweep == nil {
		s.sweep = storage.NewSweep(c.Store, c.Files, storage.SweepOptions{Off: true})
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// start begins a run that goes on when the request has ended. who asked for it.
func (s *sweeper) start(who string) error {
	if s.sweep.Options().Off {
		return errSweepOff
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || s.ctx.Err() != nil {
		return errSweepBusy
	}
	s.busy = true
	s.runs.Go(func() {
		defer func() {
			s.mu.Lock()
			s.busy = false
			s.mu.Unlock()
		}()
		res, err := s.sweep.With(func(o *storage.SweepOptions) { o.Worker = who + " (dashboard)" }).Run(s.ctx)
		switch {
		case errors.Is(err, storage.ErrBusy):
			s.log.Info("clean-up", "asked by", who, "skipped", err)
		case err != nil:
			s.log.Error("clean-up", "asked by", who, "error", err, "stopped", res.Stopped)
		default:
			s.log.Info("cleaned up", "asked by", who, "condemned", res.Condemned, "deleted", res.Deleted, "bytes", res.Bytes, "failed", res.Failed, "stopped", res.Stopped)
		}
	})
	return nil
}

// stop ends a run between two of its items and waits for that.
func (s *sweeper) stop() {
	s.cancel()
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck // whoever was about to start a run has
	s.runs.Wait()
}
