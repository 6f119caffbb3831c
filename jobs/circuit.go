package jobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// ThrottleExceptions is a circuit breaker: when so many of the jobs that share a
// key have failed within a time, the others are not run but wait until the
// cool-down is over. Then one of them tries, while the others wait on: when it
// works the circuit is closed, when it fails the cool-down begins again. What
// waited comes back over a quarter of the cool-down, not all at once.
//
// Errors, panics and timeouts count; a job that was put back, skipped, cancelled,
// fenced out or stopped with its worker does not. only, which may be nil, says
// which errors count, such as those of one service. The error is the job's as
// ever: it is kept, uses up an attempt and is retried.
//
// It panics when maxFailures or a time is not positive or by is nil.
func ThrottleExceptions(maxFailures int, within, coolDown time.Duration, by By, only func(error) bool) Middleware {
	const most = 10_000
	mustBe(maxFailures > 0 && maxFailures <= most, "ThrottleExceptions(%d, …): from 1 to %d failures", maxFailures, most)
	mustBe(within > 0 && coolDown > 0, "ThrottleExceptions(…, %s, %s, …): longer than no time", within, coolDown)
	mustBe(by != nil, "ThrottleExceptions: by what? use PerKind, PerQueue, PerTenant, Global or PerKey")
	c := circuit{storage.Breaker{Failures: maxFailures, Within: within, CoolDown: coolDown}, only}
	return func(next Handler) Handler {
		return func(ctx context.Context, w *Work) error {
			key := by(w)
			if key.Key == "" {
				return next(ctx, w)
			}
			entry, err := w.store.EnterCircuit(ctx, key, w.holder())
			if err != nil {
				return notAsked(ctx, w, err, "circuit")
			}
			switch entry.Outcome {
			case "open":
				return Release(entry.Wait+rand.N(coolDown/4+1), "circuit")
			case "probing":
				return Release(max(time.Second, coolDown/8+rand.N(coolDown/4+1)), "circuit")
			}
			err = next(ctx, w)
			c.tell(ctx, w, key, c.verdict(ctx, err), entry.Outcome == "probe")
			return err
		}
	}
}

type circuit struct {
	breaker storage.Breaker
	only    func(error) bool
}

// verdict is what an error says about the health of what the jobs lean on.
func (c circuit) verdict(ctx context.Context, err error) storage.CircuitVerdict {
	if err == nil {
		return storage.CircuitPassed
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // why it ended says more than how the code noticed
	}
	if isWord(err) || onlyWaited(ctx, err) {
		return storage.CircuitNeither
	}
	for _, no := range []error{context.Canceled, storage.ErrCancelled, storage.ErrFenced, storage.ErrCondemned, storage.ErrGone,
		storage.ErrUnknownOutcome, ErrWorkerStopped, ErrLeaseLost} {
		if errors.Is(err, no) {
			return storage.CircuitNeither
		}
	}
	if c.only != nil && !c.only(err) {
		return storage.CircuitNeither
	}
	return storage.CircuitFailed
}

// tell keeps failures, and how a probe came out. A success of any other run says nothing new.
func (c circuit) tell(ctx context.Context, w *Work, key storage.LimitKey, v storage.CircuitVerdict, probe bool) {
	if v != storage.CircuitFailed && !probe {
		return
	}
	ctx, cancel := afterwards(ctx)
	defer cancel()
	opened, err := w.store.LeaveCircuit(ctx, key, w.holder(), v, c.breaker)
	switch {
	case err != nil:
		w.Log.Warn("the circuit was not told", "key", key.Key, "verdict", v, "error", err)
	case opened:
		w.Log.Warn("circuit opened", "key", key.Key, "for", c.breaker.CoolDown)
	case probe && v == storage.CircuitPassed:
		w.Log.Info("circuit closed", "key", key.Key)
	}
}
