package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// OverlapOption changes [WithoutOverlapping].
type OverlapOption func(*overlap)

type overlap struct {
	after time.Duration
	skip  bool
}

// ReleaseAfter is how long a job stays away that finds another at work, should
// nobody wake it; 15 seconds without it. The end of the other wakes the first in
// line, so this only counts when that end was not seen, such as that of a killed
// worker. Those further back look later.
func ReleaseAfter(d time.Duration) OverlapOption { return func(o *overlap) { o.after = d } }

// SkipIfBusy skips a job that finds another at work, instead of letting it wait.
func SkipIfBusy() OverlapOption { return func(o *overlap) { o.skip = true } }

// WithoutOverlapping runs one job at a time of those that share a key; the others
// wait, in the order in which they came, and that is no attempt.
//
// It holds as long as the run that has the hold lives in PostgreSQL, so it cannot
// be left behind: when a worker is killed the hold is free as soon as its job is
// handed on. For the same reason it saves work and guards nothing. A worker that
// was frozen may go on while the next one runs (law L9), and so may a handler that
// ignores the end of its context. Where two at once must not both write, write through a fence.
//
// It panics when by is nil or a delay is not positive.
func WithoutOverlapping(by By, options ...OverlapOption) Middleware {
	o := overlap{after: 15 * time.Second}
	for _, option := range options {
		option(&o)
	}
	mustBe(by != nil, "WithoutOverlapping: by what? use PerKind, PerQueue, PerTenant, Global or PerKey")
	mustBe(o.after > 0, "ReleaseAfter(%s): longer than no time", o.after)
	return func(next Handler) Handler {
		return func(ctx context.Context, w *Work) error {
			key := by(w)
			if key.Key == "" {
				return next(ctx, w)
			}
			owner := uuid.New()
			hold, err := w.store.TakeHold(ctx, key, owner, w.holder(), !o.skip)
			if err != nil {
				return notAsked(ctx, w, err, "overlap")
			}
			if !hold.Taken {
				return o.busy(key, hold)
			}
			defer letGo(ctx, w, key, owner)
			return next(ctx, w)
		}
	}
}

func (o overlap) busy(key storage.LimitKey, hold storage.Hold) error {
	switch {
	case hold.Own:
		return storage.ErrNotDue // another worker was faster to answer the same bell
	case o.skip:
		return Skip(fmt.Sprintf("job %s is at work on %q", hold.By, key.Key))
	}
	return Release(jitter(o.after)+o.after/10*time.Duration(hold.Ahead), "overlap")
}

func letGo(ctx context.Context, w *Work, key storage.LimitKey, owner uuid.UUID) {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if err := w.store.ReleaseHold(ctx, key, owner); err != nil {
		w.Log.Warn("the hold ends with the run; nobody who waits for it was woken", "key", key.Key, "error", err)
	}
}
