package jobstest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/jobstest"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

func TestAWholeFenceline(t *testing.T) {
	t.Parallel()
	f := jobstest.Start(t, mailKind(), fileKind("file", func() string { return "text" }))
	if job := f.WaitFor(f.Dispatch("mail", mail{To: "ada"}).ID, storage.JobDone); string(job.Result) != `{"attempt": 1}` {
		t.Errorf("result %s", job.Result)
	}
	file := f.WaitFor(f.Dispatch("file", nil).ID, storage.JobDone)
	if got := f.Published(file); len(got) != 1 || string(got["out.txt"]) != "text" {
		t.Errorf("published %q", got)
	}
	var n int
	if f.Value(&n, "SELECT count(*) FROM fenceline.jobs WHERE kind = ?", "mail"); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

func TestWithARedisOfItsOwn(t *testing.T) {
	t.Parallel()
	f := jobstest.StartWith(t, jobstest.Setup{RedisURL: redistest.Shared(t).URL(), Queues: map[string]int{"slow": 1}, SQL: bank,
		Kinds: takes(fencedTake)})
	f.WaitFor(f.Dispatch("take", nil, jobs.Queue("slow")).ID, storage.JobDone)
	if n, err := balance(t.Context(), f); n != int64(450) {
		t.Errorf("the balance is %v, %v", n, err)
	}
	// What a test brings itself is used.
	g := jobstest.StartWith(t, jobstest.Setup{DatabaseURL: f.URL, NoWorker: true})
	if n, err := balance(t.Context(), g); n != int64(450) {
		t.Errorf("the balance is %v, %v", n, err)
	}
}

func TestWhatWaitingForAJobSays(t *testing.T) {
	t.Parallel()
	f := jobstest.Start(t, mailKind())
	fails(t, func(s testing.TB) {
		g := jobstest.StartWith(s, jobstest.Setup{DatabaseURL: f.URL, NoWorker: true})
		g.WaitFor(f.WaitFor(f.Dispatch("mail", mail{To: "never"}).ID, storage.JobFailed).ID, storage.JobDone)
	}, "is failed, want done", "attempt 1, error: no such mailbox")
	fails(t, func(s testing.TB) {
		g := jobstest.StartWith(s, jobstest.Setup{DatabaseURL: f.URL, NoWorker: true, Patience: time.Millisecond}, mailKind())
		g.WaitFor(g.Dispatch("mail", mail{To: "ada"}, jobs.Queue("other"), jobs.Delay(time.Hour)).ID, storage.JobDone)
	}, "still queued", "it waits (later)", "serves default", "in queue other", "no worker")
	fails(t, func(s testing.TB) {
		jobstest.StartWith(s, jobstest.Setup{DatabaseURL: f.URL, NoWorker: true}, mailKind()).Dispatch("fax", nil)
	}, "fax")
	fails(t, func(s testing.TB) { jobstest.StartWith(s, jobstest.Setup{SQL: "nonsense"}) }, "nonsense")
}

// A day passes for what waits: delays, retries, periods and retention.
func TestTravel(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	f := jobstest.Start(t, mailKind(), fileKind("file", func() string { return "text" }),
		jobs.Handle("twice", func(context.Context, *jobs.Work, struct{}) (any, error) {
			if tries.Add(1) == 1 {
				return nil, errors.New("not yet")
			}
			return nil, nil
		}))
	published := f.WaitFor(f.Dispatch("file", nil).ID, storage.JobDone)
	delayed, later := f.Dispatch("mail", mail{To: "ada"}, jobs.Delay(24*time.Hour)), f.Dispatch("mail", mail{To: "bob"}, jobs.Delay(48*time.Hour))
	exported := f.Dispatch("file", nil, jobs.Delay(24*time.Hour))
	unique := f.Dispatch("mail", mail{To: "eve"}, jobs.UniqueFor(24*time.Hour, "eve"))
	retried := f.Dispatch("twice", nil, jobs.BackoffFixed(24*time.Hour))
	f.WaitFor(unique.ID, storage.JobDone)
	f.WaitUntil(retried.ID, "tried once", func(j storage.Job) bool { return j.Failures == 1 })
	if again := f.Dispatch("mail", mail{To: "eve"}, jobs.UniqueFor(24*time.Hour, "eve")); again.ID != unique.ID {
		t.Error("the period is over already")
	}
	f.Travel(24 * time.Hour)
	for _, job := range []storage.Job{delayed, exported, retried} {
		f.WaitFor(job.ID, storage.JobDone)
	}
	if again := f.Dispatch("mail", mail{To: "eve"}, jobs.UniqueFor(24*time.Hour, "eve")); again.ID == unique.ID {
		t.Error("the period is not over")
	}
	if state := f.Job(later.ID).State; state != storage.JobQueued {
		t.Errorf("a job with a delay of two days is %s after one", state)
	}
	if age := time.Since(*f.Job(published.ID).FinishedAt); age < 24*time.Hour || age > 25*time.Hour {
		t.Errorf("what ended before is %s old", age)
	}
	var alive int
	if f.Value(&alive, "SELECT count(*) FROM fenceline.workers WHERE heartbeat_at > clock_timestamp() - interval '1 hour'"); alive != 1 {
		t.Errorf("%d workers live", alive)
	}
}

// A job that runs is not lost on the way.
func TestTravelLeavesAloneWhatRuns(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	wait := func() string { begun <- struct{}{}; <-end; return "text" }
	f := jobstest.Start(t, fileKind("file", wait),
		jobs.Handle("wait", func(context.Context, *jobs.Work, struct{}) (any, error) { return wait(), nil }))
	plain, export := f.Dispatch("wait", nil), f.Dispatch("file", nil)
	<-begun
	<-begun
	f.Travel(365 * 24 * time.Hour)
	close(end)
	for _, job := range []storage.Job{plain, export} {
		if got := f.WaitFor(job.ID, storage.JobDone); got.Crashes != 0 || got.Attempts != 1 {
			t.Errorf("%d crashes, %d attempts", got.Crashes, got.Attempts)
		}
	}
	for _, d := range []time.Duration{0, -time.Second} {
		if err := jobstest.Travel(t.Context(), f.Store, d); err == nil {
			t.Errorf("time went by %s", d)
		}
	}
}
