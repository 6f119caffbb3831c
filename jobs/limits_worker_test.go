package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// limited is a world whose kinds, one of plain jobs and one of exports, are inside middleware, and two workers with
// connections of their own.
func limited(t *testing.T, m ...jobs.Middleware) (w *world, start func()) {
	t.Helper()
	w = newWorld(t, redistest.Shared(t))
	export := w.testKind()
	export.Middleware = m
	var err error
	w.registry, err = jobs.NewRegistry(export, w.plainKind("plain", jobs.Use(m...)))
	w.must(err)
	w.dispatcher = jobs.NewDispatcher(w.store, w.registry)
	return w, func() {
		w.worker()
		w.worker(func(c *jobs.WorkerConfig) {
			store, err := storage.Open(w.ctx, w.url, storage.Options{MaxConns: 20})
			w.must(err)
			t.Cleanup(store.Close)
			c.Store = store
		})
	}
}

func (w *world) askAll(do string, n int) {
	w.t.Helper()
	items := make([]jobs.Item, n)
	for i := range items {
		items[i] = plainItem(do, i)
	}
	_, err := w.dispatcher.DispatchAll(w.ctx, nil, items)
	w.must(err)
}

// allDone waits until all jobs are done and answers how many attempts, failures and releases they had, together.
func (w *world) allDone() (attempts, failures, releases int) {
	w.t.Helper()
	w.until("all jobs are done", func() bool {
		var left int
		w.ask(&left, "SELECT count(*) FROM fenceline.jobs WHERE state <> 'done'")
		return left == 0
	})
	w.ask(&attempts, "SELECT sum(attempts) FROM fenceline.jobs")
	w.ask(&failures, "SELECT sum(failures) FROM fenceline.jobs")
	w.ask(&releases, "SELECT sum(releases) FROM fenceline.jobs")
	return attempts, failures, releases
}

// A hundred jobs at fifty a second, by two workers: no faster than that, and hardly anything is taken in vain.
func TestWorkersKeepARate(t *testing.T) {
	t.Parallel()
	w, start := limited(t, jobs.RateLimit(50, time.Second, jobs.PerKind))
	var mu sync.Mutex
	var starts []time.Time
	w.does("note", func(ctx context.Context, _ *jobs.Work, _ plainPayload) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		now, err := w.store.Now(ctx)
		starts = append(starts, now)
		return nil, err
	})
	w.askAll("note", 100)
	start()
	attempts, failures, releases := w.allDone()
	if attempts != 100 || failures != 0 || releases > 200 {
		t.Errorf("%d attempts, %d failures, %d releases", attempts, failures, releases)
	}
	if took := starts[99].Sub(starts[0]); took < 99*20*time.Millisecond-50*time.Millisecond {
		t.Errorf("100 starts took %s", took)
	}
	t.Logf("%d releases, %s", releases, starts[99].Sub(starts[0]))
}

// Plain jobs and exports of one tenant, one at a time on two workers; the fallback is too long to be what helps.
func TestWorkersDoNotOverlap(t *testing.T) {
	t.Parallel()
	w, start := limited(t, jobs.WithoutOverlapping(jobs.PerTenant, jobs.ReleaseAfter(time.Hour)))
	var inside, worst atomic.Int32
	enter := func() (leave func()) {
		if n := inside.Add(1); n > worst.Load() {
			worst.Store(n)
		}
		return func() { inside.Add(-1) }
	}
	w.does("alone", func(ctx context.Context, _ *jobs.Work, _ plainPayload) (any, error) {
		defer enter()()
		_, err := w.store.Now(ctx)
		return nil, err
	})
	w.handle("alone", func(_ context.Context, r *jobs.Run) error {
		defer enter()()
		return writeFile(r, "x")
	})
	w.askAll("alone", 25)
	for i := range 10 {
		w.dispatch("alone", fmt.Sprint("export ", i))
	}
	start()
	attempts, failures, releases := w.allDone()
	var tokens int
	w.ask(&tokens, "SELECT count(*) FROM fenceline.attempts")
	if worst.Load() != 1 || attempts != 35 || failures != 0 || tokens != 10 {
		t.Errorf("%d at once, %d attempts, %d failures, %d tokens for ten exports", worst.Load(), attempts, failures, tokens)
	}
	t.Logf("%d releases", releases)
}

// A worker dies with the hold: when its job is handed on the hold is free, and everything goes on.
func TestAHoldDoesNotOutliveItsWorker(t *testing.T) {
	t.Parallel()
	w, start := limited(t, jobs.WithoutOverlapping(jobs.PerKind, jobs.ReleaseAfter(time.Second)))
	w.does("work", func(context.Context, *jobs.Work, plainPayload) (any, error) { return nil, nil })
	w.askAll("work", 1)
	dead := uuid.New()
	w.must(w.store.RegisterWorker(w.ctx, storage.Worker{ID: dead, Name: "dead", Host: "h", PID: 1, Version: "v", Queues: []byte("{}"), Concurrency: 1}))
	run := uuid.New()
	got, err := w.store.Turn(w.ctx, dead, nil, []storage.Want{{Queue: "default", Runs: []uuid.UUID{run}}})
	w.must(err)
	job := got.Claimed[0].Job
	hold, err := w.store.TakeHold(w.ctx, storage.LimitKey{Tenant: job.Tenant, Key: "kind:plain"}, uuid.New(),
		storage.Holder{Job: job.ID, Generation: job.Generation, Run: &run}, true)
	w.must(err)
	if !hold.Taken {
		t.Fatal("not taken")
	}
	w.askAll("work", 3)
	start()
	w.until("the others wait", func() bool {
		var n int
		w.ask(&n, "SELECT count(*) FROM fenceline.jobs WHERE waiting_for = 'overlap'")
		return n == 3
	})
	w.exec("UPDATE fenceline.workers SET heartbeat_at = heartbeat_at - interval '1 hour' WHERE id = $1", dead)
	if attempts, failures, _ := w.allDone(); attempts != 5 || failures != 0 {
		t.Errorf("%d attempts, %d failures", attempts, failures)
	}
}

// A service is down and comes back: the circuit opens, jobs wait without losing attempts, and each failure is on record.
func TestWorkersSpareWhatIsDown(t *testing.T) {
	t.Parallel()
	w, start := limited(t, jobs.ThrottleExceptions(2, time.Minute, time.Hour, jobs.PerKey(func(*jobs.Work) string { return "printer" }), nil))
	var down atomic.Bool
	var calls atomic.Int32
	down.Store(true)
	w.does("print", func(_ context.Context, _ *jobs.Work, in plainPayload) (any, error) {
		calls.Add(1)
		if !down.Load() {
			return nil, nil
		}
		if in.N%2 == 0 {
			panic("the printer is on fire")
		}
		return nil, errors.New("the printer is on fire")
	})
	w.askAll("print", 6)
	start()
	waiting := func() int {
		var n int
		w.ask(&n, "SELECT count(*) FROM fenceline.jobs WHERE waiting_for = 'circuit'")
		return n
	}
	w.until("all wait", func() bool { // those that failed come back after their backoff, and wait as well
		w.exec("UPDATE fenceline.jobs SET due_at = clock_timestamp() WHERE waiting_for = 'retry' AND due_at > clock_timestamp()")
		return waiting() == 6
	})
	before := calls.Load()
	list, err := w.store.Circuits(w.ctx, everything, storage.LimitFilter{})
	w.must(err)
	if len(list.Items) != 1 || list.Items[0].State != "open" || list.Items[0].Waiting != 6 || list.Items[0].Key != "key:printer" {
		t.Errorf("circuits are %+v", list.Items)
	}
	down.Store(false)
	w.exec("UPDATE fenceline.limit_circuits SET open_until = clock_timestamp()")
	w.until("all are done", func() bool { // everybody looks again at once: still one tries first
		w.exec("UPDATE fenceline.jobs SET due_at = clock_timestamp() WHERE waiting_for = 'circuit' AND due_at > clock_timestamp()")
		var left int
		w.ask(&left, "SELECT count(*) FROM fenceline.jobs WHERE state <> 'done'")
		return left == 0
	})
	attempts, failures, _ := w.allDone()
	var kept int
	w.ask(&kept, "SELECT count(*) FROM fenceline.job_errors WHERE error LIKE '%the printer is on fire' AND reason IN ('error', 'panic') AND (reason = 'panic') = (stack IS NOT NULL)")
	if failures != int(before) || kept != failures || attempts != 6+failures || failures < 2 || failures > 6 {
		t.Errorf("%d calls while it was down, %d failures, %d kept, %d attempts", before, failures, kept, attempts)
	}
}

// What is skipped when its turn has come is cancelled, with the reason, whether it is an export or not; what takes too long says so.
func TestWorkersSkipAndTimeOut(t *testing.T) {
	t.Parallel()
	skips := func(_ context.Context, work *jobs.Work) (bool, error) { return work.Job().Title == "unwanted", nil }
	w, start := limited(t, jobs.SkipCancelled(), jobs.SkipWhen("nobody wants it", skips), jobs.WithTimeout(50*time.Millisecond))
	slow := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	w.does("slow", func(ctx context.Context, _ *jobs.Work, _ plainPayload) (any, error) { return nil, slow(ctx) })
	w.handle("slow", func(ctx context.Context, _ *jobs.Run) error { return slow(ctx) })
	start()
	skipped := w.dispatch("slow", "unwanted")
	if got := w.ends(skipped, storage.JobCancelled); deref(got.Error) != "skipped: nobody wants it" || got.Attempts != 0 {
		t.Errorf("%q, %d attempts", deref(got.Error), got.Attempts)
	}
	for name, job := range map[string]storage.Job{"plain": w.ask1("slow", jobs.MaxAttempts(1)), "export": w.dispatch("slow", "wanted", jobs.MaxAttempts(1))} {
		if got := w.ends(job, storage.JobFailed); deref(got.Error) != "took longer than 50ms" {
			t.Errorf("%s: %q", name, deref(got.Error))
		}
	}
}

// The scheduler forgets limits that say no more than their absence would.
func TestTheSchedulerPrunesLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	_, err := w.store.LeaveCircuit(w.ctx, storage.LimitKey{Tenant: "acme", Key: "old"}, storage.Holder{Job: uuid.New()}, storage.CircuitFailed,
		storage.Breaker{Failures: 3, Within: time.Millisecond, CoolDown: time.Second})
	w.must(err)
	sweep := storage.NewSweep(w.store, w.files, storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Hour})
	ctx, cancel := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := jobs.NewScheduler(jobs.SchedulerConfig{
			Schedules: jobs.NewSchedules(w.store, w.dispatcher, w.log), Store: w.store, Sweep: sweep, SweepEvery: 10 * time.Millisecond, Log: w.log,
		}).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	w.until("the circuit is forgotten", func() bool {
		list, err := w.store.Circuits(w.ctx, everything, storage.LimitFilter{})
		w.must(err)
		return len(list.Items) == 0
	})
	cancel()
	wg.Wait()
}
