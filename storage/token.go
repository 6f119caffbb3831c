package storage

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// LeaseOrder is a number by which a lock service orders those who held a lease, such
// as etcd's revision. It is shown beside the fencing token and never instead of it:
// the protected row is in PostgreSQL, and only a number that PostgreSQL gave out
// can be checked where the pointer moves. The zero value says that there is none.
type LeaseOrder struct {
	Name   string `json:"name"` // such as "revision"
	Number int64  `json:"number"`
}

// String is such as "revision 17", or empty.
func (o LeaseOrder) String() string {
	if o.Name == "" {
		return ""
	}
	return fmt.Sprintf("%s %d", o.Name, o.Number)
}

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
	return s.BeginUnder(ctx, job, worker, LeaseOrder{})
}

// BeginUnder is [Store.BeginAttempt] under a lease whose service gave it an order,
// which is kept with the attempt: see [Attempt.LeaseOrder].
func (s *Store) BeginUnder(ctx context.Context, job uuid.UUID, worker string, order LeaseOrder) (Begun, error) {
	b := Begun{ID: uuid.New()}
	var outcome string
	var name *string
	var number *int64
	if order.Name != "" {
		name, number = &order.Name, &order.Number
	}
	err := decide(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, "SELECT outcome, coalesce(token, 0), coalesce(number, 0) FROM fenceline.begin_attempt($1, $2, $3, $4, $5)",
			job, b.ID, worker, name, number).Scan(&outcome, &b.Token, &b.Number)
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
