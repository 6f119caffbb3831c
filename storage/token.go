package storage

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// Begun is an attempt that was just given its token.
type Begun struct {
	ID     uuid.UUID
	Token  int64
	Number int // 1 for the first attempt of its job
}

// BeginAttempt claims a waiting job for worker and draws the attempt's token,
// in one committed transaction. It fails with [ErrNotDue] when the job is not
// waiting (any more), with [ErrHeld] when it waits for its queue, a cap or the end of
// maintenance, with [ErrGone] when its export was deleted, and with
// [ErrSequenceBehind] when the token would not be newer than those given out.
func (s *Store) BeginAttempt(ctx context.Context, job uuid.UUID, worker string) (Begun, error) {
	b := Begun{ID: uuid.New()}
	var outcome string
	err := decide(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, "SELECT outcome, coalesce(token, 0), coalesce(number, 0) FROM fenceline.begin_attempt($1, $2, $3)",
			job, b.ID, worker).Scan(&outcome, &b.Token, &b.Number)
	})
	if err != nil {
		return Begun{}, fmt.Errorf("begin an attempt of job %s: %w", job, sequenceBehind(err))
	}
	switch outcome {
	case "begun":
		return b, nil
	case "gone":
		return Begun{}, ErrGone
	case "not_due":
		return Begun{}, ErrNotDue
	case "held":
		return Begun{}, ErrHeld
	}
	return Begun{}, fmt.Errorf("begin an attempt of job %s: %w", job, ErrNotFound)
}
