package jobs

import (
	"context"
	"errors"

	"github.com/fenceline/fenceline/storage"
)

// cleanUp runs the clean-up of a [Scheduler].
func (s *Scheduler) cleanUp(ctx context.Context) {
	res, err := s.sweep.Run(ctx)
	switch {
	case errors.Is(err, storage.ErrBusy) || ctx.Err() != nil:
	case errors.Is(err, storage.ErrAfterRecovery):
		s.log.Info("clean-up", "skipped", err)
	case errors.Is(err, storage.ErrOff):
		s.log.Info("clean-up", "skipped", err)
		if err := s.store.FoldStored(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("clean-up", "error", err)
		}
	case err != nil:
		s.log.Error("clean-up", "error", err, "stopped", res.Stopped)
	case res.Planned > 0:
		s.log.Info("cleaned up", "condemned", res.Condemned, "deleted", res.Deleted, "bytes", res.Bytes, "failed", res.Failed, "stopped", res.Stopped)
	}
	if err := s.store.PruneSecrets(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("prune", "error", err)
	}
	if _, err := s.store.PruneAudit(ctx, s.auditKeep, "scheduler"); err != nil && ctx.Err() == nil {
		s.log.Warn("prune", "error", err)
	}
	if err := s.store.PruneRequests(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("prune", "error", err)
	}
	if _, err := s.store.PruneLimits(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("prune", "error", err)
	}
}
