package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// RateOption changes a [RateLimit].
type RateOption func(*storage.Rate)

// Burst lets n jobs start at once after a pause. In any period n−1 more than the
// rate may start then.
func Burst(n int) RateOption { return func(r *storage.Rate) { r.Burst = n } }

// finestSpacing is the finest spacing that microseconds express well.
const finestSpacing = 10 * time.Microsecond

// RateLimit lets n of the jobs that share a key start in a period, evenly: ten a
// second are one every 100 ms. Since they are spaced, no period sees more than n,
// wherever it begins; [Burst] trades that for an early start.
//
// A job that must wait is put back until its own slot has come: jobs that wait do
// not race for it, and one that is cancelled gives it back. Jobs come back when a
// relay looks for them, about once a second, so they may start in groups; what
// comes late starts late, as long as what starts keeps to the rate give or take
// two seconds' worth.
//
// The limit is one for all workers. Rates of different speeds are different limits
// even under the same key, so a job may have several, the tightest outermost: one
// that is passed and then stopped further inside gives its slot back.
//
// It panics when n or per is not positive, by is nil, or the rate is faster than 100,000 a second.
func RateLimit(n int, per time.Duration, by By, options ...RateOption) Middleware {
	mustBe(n > 0 && per > 0, "RateLimit(%d, %s): at least one, in more than no time", n, per)
	mustBe(by != nil, "RateLimit(%d, %s): by what? use PerKind, PerQueue, PerTenant, Global or PerKey", n, per)
	// Rounded up to whole microseconds: rather a little slower than faster.
	r := storage.Rate{Every: ((per-1)/time.Duration(n) + 1 + time.Microsecond - 1).Truncate(time.Microsecond), Burst: 1}
	for _, o := range options {
		o(&r)
	}
	mustBe(r.Every >= finestSpacing, "RateLimit(%d, %s): more than 100,000 a second is no limit", n, per)
	mustBe(r.Burst > 0, "Burst(%d): at least one", r.Burst)
	name := fmt.Sprintf(" %d/%s", n, short(per))
	if r.Burst > 1 {
		name += fmt.Sprintf("+%d", r.Burst-1)
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, w *Work) error {
			key := by(w)
			if key.Key == "" {
				return next(ctx, w)
			}
			key.Key += name
			turn, err := w.store.TakeRate(ctx, key, r, w.Job().ID)
			if err != nil {
				return notAsked(ctx, w, err, "rate")
			}
			if !turn.Go {
				return Release(turn.Wait, "rate")
			}
			return inTurn(ctx, w, next, key, turn)
		}
	}
}

// inTurn goes on when the slot has come, and gives it back when nothing came of it.
func inTurn(ctx context.Context, w *Work, next Handler, key storage.LimitKey, turn storage.Turn) (err error) {
	if err = sitOut(ctx, turn.Wait); err == nil {
		err = next(ctx, w)
	}
	if onlyWaited(ctx, err) {
		ctx, cancel := afterwards(ctx)
		defer cancel()
		if back := w.store.GiveBackRate(ctx, key, turn.Slot); back != nil {
			w.Log.Warn("a turn is lost", "error", back)
		}
	}
	return err
}

// sitOut waits for a time that is too short to put a job back for.
func sitOut(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// short leaves out the parts of a duration that are nothing: 1m, not 1m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
