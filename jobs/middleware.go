package jobs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// wrap puts middleware around a handler, the first outermost. Whatever panics,
// the handler or a middleware, is an error with its stack for those outside.
func wrap(h Handler, list []Middleware) Handler {
	if len(list) == 0 {
		return h // whoever calls it sees to panics
	}
	inner := guarded(func(ctx context.Context, w *Work) error {
		if b, ok := ctx.Value(begunKey{}).(*atomic.Bool); ok {
			b.Store(true)
		}
		return h(ctx, w)
	})
	for i := len(list) - 1; i >= 0; i-- {
		inner = guarded(list[i](inner))
	}
	return func(ctx context.Context, w *Work) error {
		return inner(context.WithValue(ctx, begunKey{}, new(atomic.Bool)), w)
	}
}

func guarded(h Handler) Handler {
	return func(ctx context.Context, w *Work) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = &panicError{value: p, stack: debug.Stack()}
			}
		}()
		return h(ctx, w)
	}
}

// begunKey is where a chain keeps whether its handler was reached.
type begunKey struct{}

// onlyWaited reports whether nothing was done inside: a middleware put the job
// back, or the handler found another at work or a reason not to begin.
func onlyWaited(ctx context.Context, err error) bool {
	if errors.Is(err, ErrLeaseBusy) || errors.Is(err, storage.ErrNotDue) || errors.Is(err, storage.ErrHeld) || errors.Is(err, errNotForUs) {
		return true
	}
	begun, ok := ctx.Value(begunKey{}).(*atomic.Bool)
	return err != nil && ok && !begun.Load()
}

// By says which jobs share a limit: those for which it answers the same key. For
// a key without a name the job is not limited.
type By func(w *Work) storage.LimitKey

// PerKind limits the jobs of a kind, each tenant's for itself.
func PerKind(w *Work) storage.LimitKey { return tenantKey(w, "kind:"+w.Job().Kind) }

// PerQueue limits the jobs of a queue, each tenant's for itself.
func PerQueue(w *Work) storage.LimitKey { return tenantKey(w, "queue:"+w.Job().Queue) }

// PerTenant limits all jobs of a tenant.
func PerTenant(w *Work) storage.LimitKey { return tenantKey(w, "tenant") }

// Global limits all jobs of all tenants.
func Global(*Work) storage.LimitKey { return storage.LimitKey{Key: "everything"} }

// PerKey limits the jobs for which name answers the same, each tenant's for
// itself and whatever their kind: put the kind into the name if it matters. With
// an empty name the job is not limited.
func PerKey(name func(w *Work) string) By {
	return func(w *Work) storage.LimitKey {
		n := name(w)
		if n == "" {
			return storage.LimitKey{}
		}
		return tenantKey(w, "key:"+n)
	}
}

// AcrossTenants makes all tenants share a limit, such as that of a service which knows only you.
func AcrossTenants(by By) By {
	return func(w *Work) storage.LimitKey { return storage.LimitKey{Key: by(w).Key} }
}

func tenantKey(w *Work, name string) storage.LimitKey {
	const most = 200 // bytes, which an index takes easily
	if name = storable(name); len(name) > most {
		name = fmt.Sprintf("%s…%x", storable(name[:most-40]), sha256.Sum256([]byte(name)))[:most]
	}
	return storage.LimitKey{Tenant: w.Job().Tenant, Key: name}
}

// SkipWhen skips jobs for which a predicate holds when their turn has come. An
// error of the predicate is an error of the attempt.
func SkipWhen(reason string, when func(ctx context.Context, w *Work) (bool, error)) Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, w *Work) error {
			yes, err := when(ctx, w)
			if err != nil {
				return fmt.Errorf("decide whether to skip: %w", err)
			}
			if yes {
				return Skip(reason)
			}
			return next(ctx, w)
		}
	}
}

// SkipCancelled does not begin what was cancelled while it came here: the job
// itself, or its batch. What runs already learns of a cancel by its context.
func SkipCancelled() Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, w *Work) error {
			itself, batch, err := w.store.Cancelled(ctx, w.Job().ID)
			switch {
			case err != nil:
				return notAsked(ctx, w, err, "released")
			case itself && w.Job().State == storage.JobQueued: // an export that never began
				return storage.ErrNotDue
			case itself:
				return storage.ErrCancelled
			case batch:
				return Skip("its batch was cancelled")
			}
			return next(ctx, w)
		}
	}
}

// WithTimeout ends the context of what is inside after d. The job's own timeout
// bounds the whole attempt; this bounds a part of it. The error says that it took
// longer, and what the handler made of that.
func WithTimeout(d time.Duration) Middleware {
	mustBe(d > 0, "WithTimeout(%s): a timeout is more than nothing", d)
	return func(next Handler) Handler {
		return func(ctx context.Context, w *Work) error {
			over := &tooLongError{after: d}
			inside, cancel := context.WithTimeoutCause(ctx, d, over)
			defer cancel()
			err := next(inside, w)
			if err == nil || ctx.Err() != nil || !errors.Is(context.Cause(inside), over) || errors.Is(err, over) || isWord(err) {
				return err
			}
			return &tooLongError{after: d, err: err}
		}
	}
}

// isWord is true for errors that are no errors: the word of a handler about what to do with its job.
func isWord(err error) bool {
	var release *releaseError
	var skip *skipError
	return errors.As(err, &release) || errors.As(err, &skip)
}

// tooLongError is the cause with which [WithTimeout] ends a context, and its error.
type tooLongError struct {
	after time.Duration
	err   error // of the handler, nil in the cause
}

func (e *tooLongError) Error() string {
	if e.err == nil || errors.Is(e.err, context.DeadlineExceeded) || errors.Is(e.err, context.Canceled) {
		return fmt.Sprintf("took longer than %s", e.after)
	}
	return fmt.Sprintf("took longer than %s: %s", e.after, e.err)
}

func (e *tooLongError) Unwrap() error { return e.err }

// Is makes it one of the errors of time that is over.
func (e *tooLongError) Is(target error) bool { return target == context.DeadlineExceeded }

// mustBe panics for a middleware that was made wrong: that is a mistake of the program.
func mustBe(ok bool, format string, args ...any) {
	if !ok {
		panic("jobs." + fmt.Sprintf(format, args...))
	}
}

// holder names this run to the limits.
func (w *Work) holder() storage.Holder {
	return storage.Holder{Job: w.job.ID, Generation: w.job.Generation, Run: w.job.RunID}
}

// notAsked is what becomes of a job when a limit could not be asked: it waits, for
// nothing was done. An answer of PostgreSQL that refuses is an error that would come again.
func notAsked(ctx context.Context, w *Work, err error, why string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !errors.Is(err, storage.ErrUnreachable) {
		return err
	}
	w.Log.Warn("PostgreSQL could not be asked, the job waits", "error", err)
	return Release(jitter(5*time.Second), why)
}

// afterwards is a context for what must be said after the work, whatever became of its own.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}
