package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

func TestAJobIsPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.handle("ok", writes("hello"))
	w.worker()
	job := w.ends(w.dispatch("ok", "sales"), storage.JobDone)
	if got := w.current(job); got != "hello" {
		t.Errorf("the file holds %q", got)
	}
	if job.Attempts != 1 || job.Failures != 0 || job.Crashes != 0 {
		t.Errorf("attempts %d failures %d crashes %d", job.Attempts, job.Failures, job.Crashes)
	}
}

func TestDispatchInACallersTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.handle("ok", writes("hello"))
	w.worker()
	req := jobs.Request{Kind: "test", Payload: payload("ok", "sales")}
	no := errors.New("no")
	var gone, kept storage.Job
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		r, err := w.dispatcher.Dispatch(w.ctx, tx, req)
		gone = r.Job
		return errors.Join(err, no)
	})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		r, err := w.dispatcher.Dispatch(w.ctx, tx, req)
		kept = r.Job
		return err
	}))
	w.ends(kept, storage.JobDone)
	if _, err := w.store.Job(w.ctx, everything, gone.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a job that was rolled back: %v", err)
	}
}

func TestHowAttemptsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		handler  func(context.Context, *jobs.Run) error
		options  []jobs.Option
		failures int
		reason   string
		text     string
	}{
		{"an error", func(context.Context, *jobs.Run) error { return errors.New("disk full \x00\xff") }, nil, 1, "error", "disk full"},
		{"an error that stays", func(context.Context, *jobs.Run) error { return jobs.Permanent(errors.New("no such column")) }, []jobs.Option{jobs.MaxAttempts(5)}, 1, "error", "no such column"},
		{"a panic", func(context.Context, *jobs.Run) error { panic("boom") }, nil, 1, "panic", "boom"},
		{"no file", func(context.Context, *jobs.Run) error { return nil }, nil, 1, "error", "wrote no file"},
		{"a file that was not finished", func(_ context.Context, r *jobs.Run) error {
			_, err := r.Create("a.txt", "txt", "text/plain")
			return err
		}, nil, 1, "error", "not finished"},
		{"a bad file name", func(_ context.Context, r *jobs.Run) error {
			_, err := r.Create("../a", "txt", "text/plain")
			return err
		}, nil, 1, "error", "file name"},
		{"the timeout", func(ctx context.Context, _ *jobs.Run) error { <-ctx.Done(); return ctx.Err() }, []jobs.Option{jobs.Timeout(time.Second)}, 1, "timeout", "longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Shared(t))
			w.handle("bad", c.handler)
			w.worker()
			job := w.ends(w.dispatch("bad", "sales", append([]jobs.Option{jobs.MaxAttempts(1)}, c.options...)...), storage.JobFailed)
			a := w.attempts(job)
			if len(a) != 1 || a[0].State != storage.AttemptFailed || deref(a[0].Reason) != c.reason || !strings.Contains(deref(a[0].Error), c.text) {
				t.Errorf("attempts %d, reason %q, error %q", len(a), deref(a[0].Reason), deref(a[0].Error))
			}
			if job.Failures != c.failures || !strings.Contains(deref(job.Error), c.text) {
				t.Errorf("failures %d, error %q", job.Failures, deref(job.Error))
			}
		})
	}
}

func TestAFailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	var calls atomic.Int32
	w.handle("flaky", func(_ context.Context, r *jobs.Run) error {
		if calls.Add(1) < 3 {
			return errors.New("try again")
		}
		return writeFile(r, "third time")
	})
	w.worker()
	job := w.dispatch("flaky", "sales")
	for n := 1; n < 3; n++ {
		w.until("it waits for its retry", func() bool { j := w.job(job.ID); return j.State == storage.JobQueued && j.Failures == n })
		if wait := deref(w.job(job.ID).WaitingFor); wait != "retry" {
			t.Errorf("it waits for %q", wait)
		}
		w.due(job)
	}
	got := w.ends(job, storage.JobDone)
	if got.Failures != 2 || got.Attempts != 3 || w.current(job) != "third time" {
		t.Errorf("failures %d attempts %d", got.Failures, got.Attempts)
	}
}

// Jobs of one export wait for each other; waiting is not an attempt.
func TestJobsOfOneExportTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	release := make(chan struct{})
	started := make(chan struct{}, 1)
	var running, most atomic.Int32
	w.handle("slow", func(_ context.Context, r *jobs.Run) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		started <- struct{}{}
		<-release
		return writeFile(r, fmt.Sprint(r.Token()))
	})
	w.worker()
	first := w.dispatch("slow", "sales")
	<-started
	second := w.dispatch("slow", "sales")
	w.until("the second waits for the lease", func() bool { return deref(w.job(second.ID).WaitingFor) == "lease" })
	close(release)
	w.ends(first, storage.JobDone)
	<-started
	got := w.ends(second, storage.JobDone)
	if most.Load() != 1 || got.Attempts != 1 {
		t.Errorf("%d at once, %d attempts of the one that waited", most.Load(), got.Attempts)
	}
}

func TestCancelARunningJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	started := make(chan struct{})
	w.handle("long", func(ctx context.Context, _ *jobs.Run) error { close(started); <-ctx.Done(); return ctx.Err() })
	w.worker()
	job := w.dispatch("long", "sales")
	<-started
	if state, err := w.store.CancelJob(w.ctx, everything, job.ID); err != nil || state != storage.JobCancelling {
		t.Fatalf("%s, %v", state, err)
	}
	got := w.ends(job, storage.JobCancelled)
	if a := w.attempts(job)[0]; a.State != storage.AttemptCancelled || got.Failures != 0 {
		t.Errorf("attempt %s, failures %d", a.State, got.Failures)
	}
}

// A handler that ignores its context past its timeout keeps no slot, and what
// it still writes is never published.
func TestAHandlerThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	release := make(chan struct{})
	finished := make(chan error, 1)
	var calls atomic.Int32
	w.handle("deaf", func(_ context.Context, r *jobs.Run) error {
		if calls.Add(1) > 1 {
			return writeFile(r, "second")
		}
		<-release
		err := writeFile(r, "late")
		finished <- err
		return err
	})
	w.worker(func(c *jobs.WorkerConfig) { c.Concurrency = 1 })
	job := w.dispatch("deaf", "sales", jobs.Timeout(time.Second))
	w.until("the timeout was noted", func() bool { return w.job(job.ID).Failures == 1 })
	w.due(job)
	w.ends(job, storage.JobDone)
	close(release)
	if err := <-finished; err != nil {
		t.Log("the late writer got", err)
	}
	if got := w.current(job); got != "second" {
		t.Errorf("current is %q", got)
	}
	if a := w.attempts(job); len(a) != 2 || a[1].State != storage.AttemptFailed || deref(a[1].Reason) != "timeout" {
		t.Errorf("attempts: %+v", a)
	}
}

// A worker that stops lets its job go on for the grace, then hands it back:
// another worker does it, and nothing is counted.
func TestAStoppedWorkerHandsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	var calls atomic.Int32
	started := make(chan struct{})
	w.handle("long", func(ctx context.Context, r *jobs.Run) error {
		if calls.Add(1) == 1 {
			close(started)
			<-ctx.Done()
			return ctx.Err()
		}
		return writeFile(r, "done by the other")
	})
	stop := w.worker(func(c *jobs.WorkerConfig) { c.Grace = 0 })
	job := w.dispatch("long", "sales")
	<-started
	stop()
	if j := w.job(job.ID); j.State != storage.JobQueued {
		t.Fatalf("after the stop the job is %s", j.State)
	}
	if a := w.attempts(job)[0]; deref(a.Reason) != "worker_stopped" {
		t.Errorf("reason %s", deref(a.Reason))
	}
	w.worker()
	got := w.ends(job, storage.JobDone)
	if got.Failures != 0 || got.Crashes != 0 || w.current(job) != "done by the other" {
		t.Errorf("failures %d crashes %d", got.Failures, got.Crashes)
	}
}

func TestAStoppedWorkerFinishesWithinItsGrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	started, release := make(chan struct{}), make(chan struct{})
	w.handle("short", func(_ context.Context, r *jobs.Run) error { close(started); <-release; return writeFile(r, "in time") })
	stop := w.worker(func(c *jobs.WorkerConfig) { c.Grace = time.Minute })
	job := w.dispatch("short", "sales")
	<-started
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	close(release)
	<-stopped
	if j := w.job(job.ID); j.State != storage.JobDone || j.Attempts != 1 {
		t.Errorf("the job is %s after %d attempts", j.State, j.Attempts)
	}
}

// A job whose worker died is given to another within the lease, not minutes.
func TestALostAttemptIsHandedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.handle("ok", writes("by the living"))
	job := w.dispatch("ok", "sales")
	dead, err := w.store.BeginAttempt(w.ctx, job.ID, "dead")
	w.must(err)
	w.worker()
	got := w.ends(job, storage.JobDone)
	if got.Crashes != 1 || got.Failures != 0 || got.Attempts != 2 {
		t.Errorf("crashes %d failures %d attempts %d", got.Crashes, got.Failures, got.Attempts)
	}
	// It was only frozen, and goes on where it was.
	w.must(w.store.Seal(w.ctx, dead.ID, storage.Sealed{Files: []storage.File{{Name: "a", Object: "1-a", Format: "txt", MediaType: "text/plain", SHA256: make([]byte, 32)}}}))
	if err := w.store.Publish(w.ctx, dead.ID); !errors.Is(err, storage.ErrFenced) {
		t.Errorf("publish of the frozen one: %v", err)
	}
	if w.current(job) != "by the living" {
		t.Error("the file changed")
	}
}

// FLUSHALL while twenty jobs are queued and running: all twenty end published, each once.
func TestRedisIsEmptied(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	w := newWorld(t, server)
	var started atomic.Int32
	flushed := make(chan struct{})
	w.handle("slow", func(ctx context.Context, r *jobs.Run) error {
		started.Add(1)
		select {
		case <-flushed:
		case <-ctx.Done():
			return ctx.Err()
		}
		return writeFile(r, fmt.Sprint(r.Token()))
	})
	w.worker(func(c *jobs.WorkerConfig) { c.Concurrency = 5 })
	var all []storage.Job
	for i := range 20 {
		all = append(all, w.dispatch("slow", fmt.Sprint("export", i)))
	}
	w.until("five run", func() bool { return started.Load() >= 5 })
	server.FlushAll(t)
	close(flushed)
	w.eachOnce(all)
}

// eachOnce waits until all jobs are done and checks that each published once.
func (w *world) eachOnce(all []storage.Job) {
	w.t.Helper()
	for _, job := range all {
		w.ends(job, storage.JobDone)
		published := 0
		for _, a := range w.attempts(job) {
			if a.Verdict != nil && (*a.Verdict == storage.AttemptPublished || *a.Verdict == storage.AttemptSuperseded) {
				published++
			}
		}
		if published != 1 {
			w.t.Errorf("job %s published %d times", job.Title, published)
		}
	}
}

// Redis is down while jobs come in, and comes back without anything it knew.
func TestRedisIsDownForAWhile(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	w := newWorld(t, server)
	w.handle("ok", writes("x"))
	w.worker()
	all := []storage.Job{w.dispatch("ok", "before")}
	w.ends(all[0], storage.JobDone)
	server.Kill()
	for i := range 5 {
		all = append(all, w.dispatch("ok", fmt.Sprint("during", i))) // a dispatch needs PostgreSQL only
	}
	w.until("the relay has tried", func() bool { return w.rung(all[1]) })
	server.Restart(t)
	w.eachOnce(all)
}

// rung reports whether a relay took the job's bell, whatever became of it.
func (w *world) rung(job storage.Job) (yes bool) {
	w.t.Helper()
	conn, err := pgx.Connect(w.ctx, w.url)
	w.must(err)
	defer conn.Close(w.ctx)
	w.must(conn.QueryRow(w.ctx, "SELECT ring_at > due_at FROM fenceline.jobs WHERE id = $1", job.ID).Scan(&yes))
	return yes
}

// Without leases two workers labour at one export at the same time; the laws hold.
func TestALeaserThatAlwaysSaysYes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.leaser = jobs.AlwaysLeaser{}
	w.handle("ok", func(ctx context.Context, r *jobs.Run) error {
		sn, err := r.Snapshot(ctx)
		if err != nil {
			return err
		}
		defer sn.Close()
		return writeFile(r, fmt.Sprint(r.Token()))
	})
	w.worker()
	w.worker()
	var mu sync.Mutex
	var all []storage.Job
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 6 {
				job := w.dispatch("ok", "hot")
				mu.Lock()
				all = append(all, job)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	done := 0
	for _, job := range all {
		var got storage.Job
		w.until("job has ended", func() bool { got = w.job(job.ID); return got.State.Ended() })
		switch got.State {
		case storage.JobDone:
			done++
		case storage.JobSuperseded:
		default:
			t.Errorf("a job is %s: %s", got.State, deref(got.Error))
		}
	}
	e, err := w.store.Export(w.ctx, everything, all[0].ExportID)
	w.must(err)
	if done == 0 || w.current(all[0]) != fmt.Sprint(e.LastToken) {
		t.Errorf("%d done; the current file is of token %s, the pointer of %d", done, w.current(all[0]), e.LastToken)
	}
}

// A bell whose name is blocked in Redis by a dead task rings under a new one,
// also after a FLUSHALL, when Redis does not know the queue's name any more.
func TestABlockedBellRingsAnew(t *testing.T) {
	t.Parallel()
	for _, emptied := range []bool{false, true} {
		t.Run(fmt.Sprintf("after a flush %t", emptied), func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			w := newWorld(t, server)
			w.handle("ok", writes("x"))
			w.worker()
			w.ends(w.dispatch("ok", "before"), storage.JobDone)
			if emptied {
				server.FlushAll(t)
			}
			job := w.dispatch("ok", "sales", jobs.Delay(time.Second))
			// What is left of a bell whose worker died before it claimed: an archived task.
			id := fmt.Sprintf("%s-%d", job.ID, job.Generation)
			w.must(w.redis.Client.HSet(w.ctx, "asynq:{"+w.redis.Namespace+":default}:t:"+id, "msg", "", "state", "archived").Err())
			if got := w.ends(job, storage.JobDone); got.Generation < 2 {
				t.Errorf("generation %d: the bell was not blocked, the test shows nothing", got.Generation)
			}
		})
	}
}

func TestRedisURLsKeepTheirSecret(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://:hunter2@host:port/0", "redis://:hunter2@ho st/0", "http://:hunter2@host/0", "redis://:hunter2%zz@host"} {
		if _, err := jobs.OpenRedis(t.Context(), url, "x"); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v", err)
		}
	}
}
