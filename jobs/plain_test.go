package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// plainPayload says which function of the test does the work.
type plainPayload struct {
	Do string `json:"do"`
	N  int    `json:"n,omitempty"`
}

func (p *plainPayload) Validate() error {
	if p.Do == "" {
		return invalid.New("do", "", "is needed")
	}
	return nil
}

func (w *world) plainKind(name string, options ...jobs.HandleOption) jobs.Kind {
	return jobs.Handle(name, func(ctx context.Context, work *jobs.Work, in plainPayload) (any, error) {
		w.mu.Lock()
		do := w.plain[in.Do]
		w.mu.Unlock()
		if do == nil {
			return nil, jobs.Permanent(fmt.Errorf("the test has no %q", in.Do))
		}
		return do(ctx, work, in)
	}, options...)
}

func (w *world) does(name string, do func(context.Context, *jobs.Work, plainPayload) (any, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plain[name] = do
}

func plainItem(do string, n int, options ...jobs.Option) jobs.Item {
	raw, _ := json.Marshal(plainPayload{Do: do, N: n})
	return jobs.Item{Request: jobs.Request{Kind: "plain", Payload: raw}, Options: options}
}

func (w *world) ask1(do string, options ...jobs.Option) storage.Job {
	w.t.Helper()
	item := plainItem(do, 0)
	r, err := w.dispatcher.Dispatch(w.ctx, nil, item.Request, options...)
	w.must(err)
	return r.Job
}

func TestPlainJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.does("answer", func(_ context.Context, work *jobs.Work, in plainPayload) (any, error) {
		work.Progress(1, 2, "half")
		return map[string]int{"n": in.N + work.Attempt()}, nil
	})
	w.does("fail", func(context.Context, *jobs.Work, plainPayload) (any, error) { return nil, errors.New("no luck") })
	w.does("permanent", func(context.Context, *jobs.Work, plainPayload) (any, error) {
		return nil, jobs.Permanent(errors.New("never"))
	})
	w.does("panic", func(context.Context, *jobs.Work, plainPayload) (any, error) { panic("ouch") })
	w.does("leave", func(context.Context, *jobs.Work, plainPayload) (any, error) { runtime.Goexit(); return nil, nil })
	w.does("skip", func(context.Context, *jobs.Work, plainPayload) (any, error) { return nil, jobs.Skip("nothing to do") })
	var tries atomic.Int64
	w.does("wait", func(_ context.Context, work *jobs.Work, _ plainPayload) (any, error) {
		if tries.Add(1) <= 3 {
			return nil, jobs.Release(time.Millisecond, "rate")
		}
		return work.Attempt(), nil
	})
	w.worker()

	done := w.ends(w.ask1("answer"), storage.JobDone)
	if string(done.Result) != `{"n": 1}` || !strings.Contains(string(done.Progress), "half") || done.Attempts != 1 || !done.Plain() {
		t.Errorf("result %s, progress %s, %d attempts", done.Result, done.Progress, done.Attempts)
	}
	failed := w.ends(w.ask1("fail", jobs.MaxAttempts(2), jobs.BackoffFixed(0)), storage.JobFailed)
	if failed.Failures != 2 || failed.Attempts != 2 || deref(failed.Error) != "no luck" {
		t.Errorf("%d failures, %d attempts, %q", failed.Failures, failed.Attempts, deref(failed.Error))
	}
	errs, err := w.store.JobErrors(w.ctx, failed.ID, 10)
	w.must(err)
	if len(errs) != 2 || errs[0].Attempt != 2 || errs[0].Reason != "error" || errs[0].Error != "no luck" || !strings.HasPrefix(errs[0].Worker, "w-") {
		t.Errorf("errors %+v", errs)
	}
	if final := w.ends(w.ask1("permanent"), storage.JobFailed); final.Failures != 1 {
		t.Errorf("a permanent error was tried %d times", final.Failures)
	}
	panicked := w.ends(w.ask1("panic", jobs.MaxAttempts(1)), storage.JobFailed)
	errs, err = w.store.JobErrors(w.ctx, panicked.ID, 10)
	w.must(err)
	if deref(panicked.Error) != "panic: ouch" || errs[0].Reason != "panic" || !strings.Contains(deref(errs[0].Stack), "plain_test.go") {
		t.Errorf("%q, %+v", deref(panicked.Error), errs)
	}
	if left := w.ends(w.ask1("leave", jobs.MaxAttempts(1)), storage.JobFailed); !strings.Contains(deref(left.Error), "runtime.Goexit") {
		t.Errorf("%q", deref(left.Error))
	}
	if skipped := w.ends(w.ask1("skip"), storage.JobCancelled); deref(skipped.Error) != "skipped: nothing to do" {
		t.Errorf("%q", deref(skipped.Error))
	}
	waited := w.ends(w.ask1("wait"), storage.JobDone)
	if waited.Attempts != 1 || waited.Releases != 3 || waited.Failures != 0 || string(waited.Result) != "1" {
		t.Errorf("%d attempts, %d releases, %d failures, result %s", waited.Attempts, waited.Releases, waited.Failures, waited.Result)
	}
	var notices int
	w.ask(&notices, "SELECT count(*) FROM fenceline.outbox WHERE topic = 'job.failed' AND export_id IS NULL")
	if notices != 4 {
		t.Errorf("%d notices of four failed jobs", notices)
	}
}

// A worker that is frozen loses its jobs, and what it brings back when it wakes changes nothing.
func TestAStaleRunChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	var first atomic.Bool
	frozen, thaw := make(chan struct{}), make(chan struct{})
	w.does("work", func(context.Context, *jobs.Work, plainPayload) (any, error) {
		if first.CompareAndSwap(false, true) {
			close(frozen)
			<-thaw // and ignores its context
			return "stale", nil
		}
		return "fresh", nil
	})
	w.worker()
	job := w.ask1("work")
	<-frozen
	w.exec(`DO $$ BEGIN -- at once: this worker is not frozen, and would beat again
		UPDATE fenceline.workers SET heartbeat_at = heartbeat_at - interval '1 hour';
		PERFORM fenceline.hand_on_lost(60, 10);
	END $$`)
	got := w.ends(job, storage.JobDone)
	close(thaw)
	if string(got.Result) != `"fresh"` || got.Crashes != 1 {
		t.Errorf("result %s after %d crashes", got.Result, got.Crashes)
	}
	before := got.FinishedAt
	turned, err := w.store.Turn(w.ctx, uuid.New(), []storage.Finish{{Job: job.ID, Run: uuid.New(), Outcome: "failed", Error: "stale"}}, nil)
	w.must(err)
	if got = w.job(job.ID); got.State != storage.JobDone || !got.FinishedAt.Equal(*before) || len(turned.Ended) != 1 {
		t.Errorf("a stale run made of it %s, %v", got.State, turned.Ended)
	}
	for _, state := range turned.Ended {
		if state != "stale" {
			t.Errorf("a stale run was answered %q", state)
		}
	}
}

func TestCancellingAPlainJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	begun := make(chan error, 1)
	w.does("long", func(ctx context.Context, _ *jobs.Work, _ plainPayload) (any, error) {
		begun <- nil
		<-ctx.Done()
		begun <- context.Cause(ctx)
		return "done all the same", nil
	})
	w.worker()
	job := w.ask1("long")
	<-begun
	state, err := w.store.CancelJob(w.ctx, everything, job.ID)
	w.must(err)
	if state != storage.JobCancelling {
		t.Errorf("at first it is %s", state)
	}
	if cause := <-begun; !errors.Is(cause, storage.ErrCancelled) {
		t.Errorf("the handler's context ended because %v", cause)
	}
	if got := w.ends(job, storage.JobCancelled); got.Result != nil {
		t.Errorf("a cancelled job has the result %s", got.Result)
	}
}

func TestStoppingHandsPlainJobsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	begun := make(chan struct{}, 8)
	var stopped atomic.Bool
	w.does("long", func(ctx context.Context, _ *jobs.Work, _ plainPayload) (any, error) {
		begun <- struct{}{}
		if stopped.Load() {
			return nil, nil
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	stop := w.worker(func(c *jobs.WorkerConfig) { c.Grace = time.Millisecond })
	job := w.ask1("long")
	<-begun
	stopped.Store(true)
	stop()
	if got := w.job(job.ID); got.State != storage.JobQueued || got.Attempts != 0 || got.Failures != 0 || got.Releases != 1 {
		t.Errorf("after the stop it is %s, %d attempts, %d failures, %d releases", got.State, got.Attempts, got.Failures, got.Releases)
	}
	list, err := w.store.Workers(w.ctx, time.Hour, 10)
	w.must(err)
	if len(list) != 1 || list[0].StoppedAt == nil {
		t.Errorf("workers %+v", list)
	}
	w.worker()
	w.ends(job, storage.JobDone)
}

// Many jobs, several workers: each is done once.
func TestEachPlainJobIsDoneOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	var mu sync.Mutex
	seen := map[int]int{}
	w.does("count", func(_ context.Context, _ *jobs.Work, in plainPayload) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[in.N]++
		return nil, nil
	})
	const n = 3000
	items := make([]jobs.Item, n)
	for i := range items {
		items[i] = plainItem("count", i)
	}
	w.worker()
	w.worker()
	receipts, err := w.dispatcher.DispatchAll(w.ctx, nil, items)
	w.must(err)
	w.until("all are done", func() bool {
		var left int
		w.ask(&left, "SELECT count(*) FROM fenceline.jobs WHERE state <> 'done'")
		return left == 0
	})
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != n || len(receipts) != n {
		t.Errorf("%d of %d were done, %d receipts", len(seen), n, len(receipts))
	}
	for i, times := range seen {
		if times != 1 {
			t.Errorf("job %d was done %d times", i, times)
		}
	}
	var errors int
	w.ask(&errors, "SELECT count(*) FROM fenceline.job_errors")
	if errors != 0 {
		t.Errorf("%d errors were kept", errors)
	}
}

// Behind a pooler in transaction mode nothing can be prepared: all of it works all the same.
func TestPlainJobsBehindAPooler(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	store, err := storage.Open(w.ctx, w.url+"&default_query_exec_mode=exec", storage.Options{MaxConns: 20})
	w.must(err)
	t.Cleanup(store.Close)
	w.store, w.dispatcher = store, jobs.NewDispatcher(store, w.registry)
	o := w.ordered()
	w.does("fail", func(_ context.Context, work *jobs.Work, _ plainPayload) (any, error) {
		work.Progress(1, 1, "")
		return nil, errors.New("no luck")
	})
	then := plainItem("order", 3)
	w.must(store.SetCap(w.ctx, storage.Cap{Scope: "kind", Name: "plain", MaxRunning: 1}))
	w.worker()
	_, receipts, err := w.dispatcher.Batch(w.ctx, nil, jobs.BatchRequest{Chains: [][]jobs.Item{{plainItem("order", 1), plainItem("order", 2)}}, Then: &then})
	w.must(err)
	failing := w.ask1("fail", jobs.MaxAttempts(2), jobs.BackoffFixed(time.Millisecond), jobs.UniqueWhileActive("k"), jobs.Tags("a", "b"))
	debounced := w.ask1("order", jobs.Debounce(time.Millisecond, time.Second, "k"))
	w.ends(receipts[1].Job, storage.JobDone)
	w.ends(failing, storage.JobFailed)
	w.ends(debounced, storage.JobDone)
	w.until("the batch has called", func() bool { return slices.Contains(o.now(), 3) })
	if _, err := store.Queues(w.ctx); err != nil {
		t.Error(err)
	}
	if n, err := store.RetryFailed(w.ctx, everything, storage.FailedFilter{Tag: "b"}); err != nil || n != 1 {
		t.Errorf("%d were retried, %v", n, err)
	}
	if errs, err := store.JobErrors(w.ctx, failing.ID, 5); err != nil || len(errs) < 2 {
		t.Errorf("errors %+v, %v", errs, err)
	}
}
