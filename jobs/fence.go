package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// Fence draws a token for a resource of the application's own, such as
// "account:4711", so that a handler that was paused, cut off or started twice cannot
// write over what another one has written. holder is for people, such as the job
// and its worker. Names that no fence can have are an [*invalid.Error].
//
// The order is everything:
//
//	fence, err := jobs.Fence(ctx, store, tenant, "account:4711", holder) // 1 the token
//	… read what the write is made of, compute, call others …             // 2 takes as long as it takes
//	err = fence.Write(ctx, func(tx storage.Tx) error { … })              // 3 refused, if somebody else has written since 1
//
// What a handler does with the error of a write:
//
//   - [storage.ErrFenced]: return it. The job is tried again with a new token and reads
//     what the other one has written. That is no failure of the job.
//   - [storage.ErrWrittenBefore]: success; an earlier try was committed.
//   - [storage.ErrUnknownOutcome]: return it, and see below.
//
// A fence keeps old results from replacing newer ones. It does not know that a job
// which runs a second time has done its work the first time: its new token is as good as any.
// For work that must not be done twice (a booking, a number) give the fence the name of the
// work, such as "booking:4711", and use [storage.Fence.Once]; or keep what makes it done, such
// as a unique row, in the same transaction.
//
// A lease is not needed for any of this. It saves two handlers from doing the same work,
// of which one is then refused. What happens outside of PostgreSQL between 1 and 3, a mail or a
// call, is not fenced: do it after the write, by an outbox.
func Fence(ctx context.Context, store *storage.Store, tenant, resource, holder string) (storage.Fence, error) {
	f, err := store.Fence(ctx, tenant, resource, holder)
	return f, refusedName(err)
}

// Fence is [Fence] for the job's own tenant. A write under it is also refused once the
// job was handed on to another worker or cancelled: a run that was paused writes
// nothing any more, even when nobody else has written yet.
func (w *Work) Fence(ctx context.Context, resource string) (storage.Fence, error) {
	f, err := Fence(ctx, w.store, w.job.Tenant, resource, fmt.Sprintf("job %s, attempt %d", w.job.ID, w.job.Attempts))
	if err == nil && w.job.RunID != nil {
		f = f.OfRun(w.job.ID, *w.job.RunID)
	}
	return f, err
}

// refusedName makes a refused name of a fence bad input like any other.
func refusedName(err error) error {
	var bad *storage.NameError
	if errors.As(err, &bad) {
		return invalid.New(bad.Field, bad.Value, "%s", bad.Message)
	}
	return err
}

// CheckFence refuses names that no fence can have, with an [*invalid.Error].
func CheckFence(tenant, resource string) error {
	return refusedName(storage.CheckFence(tenant, resource, ""))
}
