package jobs

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func TestRateLimitPutsBackUntilTheTurn(t *testing.T) {
	t.Parallel()
	f := newField(t)
	list := f.add(4)
	h := wrap(func(context.Context, *Work) error { return nil }, []Middleware{RateLimit(60, time.Hour, PerKind, Burst(2))})
	for _, id := range list[:2] {
		f.must(f.run(id, h))
	}
	wantRelease(t, f.run(list[2], h), "rate", 50*time.Second, time.Minute)
	wantRelease(t, f.run(list[3], h), "rate", 110*time.Second, 2*time.Minute)
	wantRelease(t, f.run(list[2], h), "rate", 50*time.Second, time.Minute) // too early, and its turn is kept
	other := wrap(func(context.Context, *Work) error { return nil }, []Middleware{RateLimit(60, time.Minute, PerKind)})
	if err := f.run(list[3], other); err != nil {
		t.Errorf("another speed is another limit: %v", err)
	}
}

// Rounding never makes a rate faster.
func TestRateLimitSpacing(t *testing.T) {
	t.Parallel()
	f := newField(t)
	for _, c := range []struct {
		n   int
		per time.Duration
		us  int
		key string
	}{
		{1, time.Second, 1_000_000, "kind:mail 1/1s"}, {3, 10 * time.Second, 3_333_334, "kind:mail 3/10s"}, {7, time.Minute, 8_571_429, "kind:mail 7/1m"},
		{60, time.Hour, 60_000_000, "kind:mail 60/1h"}, {9, 90 * time.Minute, 600_000_000, "kind:mail 9/1h30m"},
		{100_000, time.Second, 10, "kind:mail 100000/1s"}, {99_999, time.Second, 11, "kind:mail 99999/1s"},
	} {
		f.must(f.run(f.add(1)[0], wrap(func(context.Context, *Work) error { return nil }, []Middleware{RateLimit(c.n, c.per, PerKind)})))
		var us int
		var key string
		f.must(f.pool.QueryRow(f.ctx, "DELETE FROM fenceline.limit_rates RETURNING every_us, key").Scan(&us, &key))
		if us != c.us || key != c.key {
			t.Errorf("%d in %s: every %d µs, want %d; key %q, want %q", c.n, c.per, us, c.us, key, c.key)
		}
	}
}

// Sixty jobs, two workers, fifty a second: none starts before its slot, and few are put back twice.
func TestRateLimitWithManyHands(t *testing.T) {
	t.Parallel()
	f := newField(t)
	list := f.add(60)
	var mu sync.Mutex
	var starts []time.Time
	f.work(list, 8, wrap(func(ctx context.Context, w *Work) error {
		mu.Lock()
		defer mu.Unlock()
		now, err := w.store.Now(ctx)
		starts = append(starts, now)
		return err
	}, []Middleware{RateLimit(50, time.Second, PerKind)}))
	if n := f.released(); n > 2*len(list) {
		t.Errorf("%d jobs were put back %d times", len(list), n)
	}
	if took := starts[len(starts)-1].Sub(starts[0]); len(starts) != len(list) || took < 59*20*time.Millisecond-50*time.Millisecond {
		t.Errorf("%d starts in %s", len(starts), took)
	}
	t.Logf("%d releases, %s", f.released(), starts[len(starts)-1].Sub(starts[0]))
}

// A turn that came to nothing further inside is given back; one that the handler used is not, whatever it says then.
func TestRateLimitGivesTurnsBack(t *testing.T) {
	t.Parallel()
	f := newField(t)
	list := f.add(4)
	limit := RateLimit(1, time.Hour, PerKind)
	busy := func(Handler) Handler {
		return func(context.Context, *Work) error { return Release(time.Second, "overlap") }
	}
	ok := func(context.Context, *Work) error { return nil }
	wantRelease(t, f.run(list[0], wrap(ok, []Middleware{limit, busy})), "overlap", time.Second, time.Second)
	if err := f.run(list[1], wrap(func(context.Context, *Work) error { return ErrLeaseBusy }, []Middleware{limit})); !errors.Is(err, ErrLeaseBusy) {
		t.Errorf("the turn was not given back: %v", err)
	}
	later := wrap(func(context.Context, *Work) error { return Release(time.Second, "") }, []Middleware{limit})
	wantRelease(t, f.run(list[2], later), "released", time.Second, time.Second)
	wantRelease(t, f.run(list[3], wrap(ok, []Middleware{limit})), "rate", 59*time.Minute, time.Hour)
}

// Thirty jobs of two workers, one at a time, without anybody looking again: the fallback is an hour.
func TestWithoutOverlapping(t *testing.T) {
	t.Parallel()
	f := newField(t)
	var inside, worst, ran atomic.Int32
	f.work(f.add(30), 8, wrap(func(ctx context.Context, w *Work) error {
		n := inside.Add(1)
		defer inside.Add(-1)
		if n > worst.Load() {
			worst.Store(n)
		}
		if ran.Add(1)%5 == 0 {
			panic("now and then") // lets go as well
		}
		_, err := w.store.Now(ctx)
		return err
	}, []Middleware{WithoutOverlapping(PerKind, ReleaseAfter(time.Hour))}))
	if worst.Load() != 1 || ran.Load() < 30 {
		t.Errorf("%d at once, %d runs", worst.Load(), ran.Load())
	}
	t.Logf("%d runs, %d releases", ran.Load(), f.released())
}

func TestWithoutOverlappingAndABusyOne(t *testing.T) {
	t.Parallel()
	f := newField(t)
	list := f.add(4)
	holder := f.claim(list[0], f.stores[0])
	holds := WithoutOverlapping(PerKind)(func(ctx context.Context, w *Work) error {
		wait := WithoutOverlapping(PerKind, ReleaseAfter(10*time.Second))
		ok := func(context.Context, *Work) error { return nil }
		wantRelease(t, f.run(list[1], wait(ok)), "overlap", 7*time.Second, 13*time.Second)
		wantRelease(t, f.run(list[2], wait(ok)), "overlap", 8*time.Second, 14*time.Second) // one is before it
		var skip *skipError
		if err := f.run(list[3], WithoutOverlapping(PerKind, SkipIfBusy())(ok)); !errors.As(err, &skip) || !strings.Contains(skip.reason, list[0].String()) {
			t.Errorf("skipped: %v", err)
		}
		if err := f.run(list[3], WithoutOverlapping(PerQueue)(ok)); err != nil {
			t.Errorf("another key: %v", err)
		}
		// The worker falls silent: the job is handed on, and the hold is free although nobody let it go.
		f.exec("UPDATE fenceline.jobs SET state = 'queued', worker_id = NULL, generation = generation + 1 WHERE id = $1", list[0])
		if err := f.run(list[1], wait(ok)); err != nil {
			t.Errorf("the hold of a killed worker: %v", err)
		}
		return nil
	})
	f.must(holds(f.ctx, holder))
}

// A service is down: the circuit opens after three failures, the others wait without losing an attempt, one tries after
// the cool-down, and then all are done. Every failure has its own error.
func TestThrottleExceptions(t *testing.T) {
	t.Parallel()
	f := newField(t)
	list := f.add(8)
	down := true
	calls := 0
	h := wrap(func(context.Context, *Work) error {
		if calls++; down {
			return errors.New("the printer is on fire")
		}
		return nil
	}, []Middleware{ThrottleExceptions(3, time.Minute, time.Hour, PerKind, nil)})
	for _, id := range list[:3] {
		if err := f.run(id, h); err == nil || err.Error() != "the printer is on fire" {
			t.Fatalf("the error is %v", err)
		}
	}
	for _, id := range list[3:] {
		wantRelease(t, f.run(id, h), "circuit", 59*time.Minute, time.Hour+15*time.Minute)
	}
	if calls != 3 {
		t.Errorf("%d jobs ran", calls)
	}
	page, err := f.stores[0].Circuits(f.ctx, storage.Scope{Tenant: "acme"}, storage.LimitFilter{})
	f.must(err)
	if len(page.Items) != 1 || page.Items[0].State != "open" || page.Items[0].Waiting != 5 {
		t.Errorf("circuits are %+v", page.Items)
	}

	over := func() {
		f.exec("UPDATE fenceline.limit_circuits SET open_until = clock_timestamp()")
	}
	over()
	if err := f.run(list[3], h); err == nil || err.Error() != "the printer is on fire" { // tries
		t.Fatalf("the one that tries: %v", err)
	}
	wantRelease(t, f.run(list[4], h), "circuit", 59*time.Minute, time.Hour+15*time.Minute)

	over()
	down = false
	probe := f.claim2(list[4])
	trying := wrap(func(context.Context, *Work) error {
		wantRelease(t, f.run(list[5], h), "circuit", time.Second, time.Hour)
		return nil
	}, []Middleware{ThrottleExceptions(3, time.Minute, time.Hour, PerKind, nil)})
	err = trying(f.ctx, probe)
	f.finish(probe, err)
	f.must(err)
	for _, id := range append(list[:4], list[5:]...) {
		f.must(f.run(id, h))
	}
	var failures, releases int
	f.must(f.pool.QueryRow(f.ctx, "SELECT sum(failures), sum(releases) FROM fenceline.jobs").Scan(&failures, &releases))
	if failures != 4 || releases != 7 {
		t.Errorf("%d failures and %d releases", failures, releases)
	}
}

func (f *field) claim2(id uuid.UUID) *Work {
	f.t.Helper()
	f.exec("UPDATE fenceline.jobs SET due_at = clock_timestamp() WHERE id = $1", id)
	w := f.claim(id, f.stores[1])
	if w == nil {
		f.t.Fatal("cannot be claimed")
	}
	return w
}

// The one that tries is killed: the next one tries.
func TestAProbeThatIsKilled(t *testing.T) {
	t.Parallel()
	f := newField(t)
	list := f.add(3)
	m := ThrottleExceptions(1, time.Minute, time.Hour, PerKind, nil)
	if err := f.run(list[0], wrap(func(context.Context, *Work) error { panic("boom") }, []Middleware{m})); err == nil {
		t.Fatal("no error")
	}
	f.exec("UPDATE fenceline.limit_circuits SET open_until = clock_timestamp()")
	frozen := f.claim2(list[1])
	err := wrap(func(context.Context, *Work) error {
		f.exec("UPDATE fenceline.jobs SET state = 'queued', worker_id = NULL, generation = generation + 1 WHERE id = $1", list[1])
		return f.run(list[2], wrap(func(context.Context, *Work) error { return nil }, []Middleware{m}))
	}, []Middleware{m})(f.ctx, frozen)
	f.must(err)
	page, err := f.stores[0].Circuits(f.ctx, storage.Scope{All: true}, storage.LimitFilter{})
	f.must(err)
	if len(page.Items) != 0 {
		t.Errorf("circuits are %+v, want it closed", page.Items)
	}
}
