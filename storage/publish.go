package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Publish makes a sealed attempt the current one of its export, if nothing
// newer is. nil means that it was published, now or by an earlier call whose
// answer was lost. Otherwise the error tells the outcomes apart: [ErrFenced] (a
// [*FencedError]), [ErrCondemned], [ErrCancelled], [ErrGone]. With
// [ErrUnknownOutcome] PostgreSQL gave no answer before ctx ended: the attempt
// may have been published, so the caller must neither delete nor mark anything.
// With [ErrRecoveryNeeded] nothing was published.
func (s *Store) Publish(ctx context.Context, attempt uuid.UUID) error {
	err := s.publish(ctx, attempt)
	if errors.Is(err, ErrRecoveryNeeded) { // or was, until a moment ago
		s.forget(ctx)
		if s.Paired(ctx) == nil {
			err = s.publish(ctx, attempt)
		}
	}
	return err
}

func (s *Store) publish(ctx context.Context, attempt uuid.UUID) error {
	var outcome, reason string
	var by int64
	epoch := s.believed(ctx)
	err := decide(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, "SELECT outcome, coalesce(reason, ''), coalesce(fenced_by, 0) FROM fenceline.publish_attempt_in_epoch($1, $2)",
			attempt, epoch).Scan(&outcome, &reason, &by)
	})
	if err != nil {
		return fmt.Errorf("publish attempt %s: %w", attempt, recoveryNeeded(err))
	}
	switch outcome {
	case "published", "superseded": // superseded: published, and replaced before our question was answered
		return nil
	case "fenced":
		return &FencedError{Reason: reason, By: by}
	case "gone":
		return ErrGone
	}
	return found(attempt, outcome)
}

// found turns the state in which a step found its attempt into an error.
func found(attempt uuid.UUID, state string) error {
	switch state {
	case "condemned", "deleted":
		return ErrCondemned
	case "cancelled":
		return ErrCancelled
	case "fenced":
		return &FencedError{Reason: "handed_on"}
	case "unknown":
		return fmt.Errorf("attempt %s: %w", attempt, ErrNotFound)
	}
	return fmt.Errorf("attempt %s is %s", attempt, state)
}
