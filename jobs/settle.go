package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// settleBatches acts on batches whose jobs have ended, or of which one has
// failed. What has become of a batch is looked up, never kept, so whoever died
// while acting on it is followed by the next look.
func (r *Relay) settleBatches(ctx context.Context) error {
	open, err := r.store.OpenBatches(ctx, 100)
	if err != nil {
		return err
	}
	var failures []error
	for _, id := range open {
		if err := r.settle(ctx, id); err != nil {
			failures = append(failures, fmt.Errorf("settle batch %s: %w", id, err))
		}
	}
	return errors.Join(failures...)
}

func (r *Relay) settle(ctx context.Context, id uuid.UUID) error {
	stop := false
	err := r.store.Transaction(ctx, func(tx storage.Tx) error {
		_, calls, yes, err := r.store.SettleBatch(ctx, tx, id)
		if err != nil {
			return err
		}
		stop = yes
		for _, c := range calls {
			if err := r.call(ctx, tx, id, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !stop {
		return err
	}
	n, err := r.store.CancelBatch(ctx, storage.Scope{All: true}, id)
	if n > 0 {
		r.log.Info("batch stopped after a failure", "batch", id, "cancelled", n)
	}
	return err
}

// call inserts the job that a batch asked for. It was checked when the batch was made.
func (r *Relay) call(ctx context.Context, tx storage.Tx, batch uuid.UUID, c storage.BatchCall) error {
	var n storage.NewJob
	if err := json.Unmarshal(c.Request, &n); err != nil {
		return fmt.Errorf("read the call for %s: %w", c.Event, err)
	}
	job, _, err := r.store.InsertJob(ctx, tx, n)
	if errors.Is(err, storage.ErrGone) {
		r.log.Warn("a batch calls for an export that was deleted", "batch", batch, "event", c.Event)
		return r.store.RecordCall(ctx, tx, batch, c.Event, uuid.Nil, err.Error())
	}
	if err != nil {
		return err
	}
	return r.store.RecordCall(ctx, tx, batch, c.Event, job.ID, "")
}
