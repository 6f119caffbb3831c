package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

func TestDrillPayload(t *testing.T) {
	t.Parallel()
	kind := jobs.DrillKind()
	for payload, field := range map[string]string{
		`{"seconds": 4, "rows": 40}`:             "",
		`{"seconds": 300, "rows": 10000}`:        "",
		`{"seconds": 0, "rows": 40}`:             "payload.seconds",
		`{"seconds": 301, "rows": 40}`:           "payload.seconds",
		`{"seconds": 4}`:                         "payload.rows",
		`{"seconds": 4, "rows": 10001}`:          "payload.rows",
		`{"seconds": 4, "rows": 40, "token": 1}`: "payload.token",
		`{"seconds": "4", "rows": 40}`:           "payload.seconds",
	} {
		task, err := kind.Decode(jobs.Payload{Version: 1, Body: json.RawMessage(payload)})
		var bad *invalid.Error
		switch {
		case field == "" && (err != nil || task.Key == "" || task.Render == nil):
			t.Errorf("%s: %v", payload, err)
		case field != "" && (!errors.As(err, &bad) || bad.Problems[0].Field != field):
			t.Errorf("%s: %v, want a problem with %s", payload, err, field)
		}
	}
}

// drillWorld is a world that knows drills.
func drillWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, redistest.Shared(t))
	var err error
	w.registry, err = jobs.NewRegistry(w.testKind(), jobs.DrillKind())
	w.must(err)
	w.dispatcher = jobs.NewDispatcher(w.store, w.registry)
	return w
}

func (w *world) drill(options ...jobs.Option) storage.Job {
	w.t.Helper()
	r, err := w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: jobs.DrillName, Payload: json.RawMessage(`{"seconds": 1, "rows": 5}`)}, options...)
	w.must(err)
	return r.Job
}

// Each line of the file says which token wrote it, and writing takes its time.
func TestDrillWritesSlowly(t *testing.T) {
	t.Parallel()
	w := drillWorld(t)
	w.worker()
	job := w.ends(w.drill(), storage.JobDone)
	a := w.attempts(job)[0]
	want := "token,row\r\n"
	for row := range 5 {
		want += strconv.FormatInt(a.Token, 10) + "," + strconv.Itoa(row+1) + "\r\n"
	}
	if got := w.current(job); got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
	if took := a.SealedAt.Sub(a.StartedAt); took < time.Second || a.Rows != 5 || a.RowsExpected == nil {
		t.Errorf("it took %s for %d rows", took, a.Rows)
	}
}

// What a drill removes is what its queue is called, to the letter.
func TestForgetQueue(t *testing.T) {
	t.Parallel()
	w := drillWorld(t)
	id := strings.TrimPrefix(w.redis.Namespace, "t")
	ours := jobs.Redis{Client: w.redis.Client, Namespace: "[t]?*" + id}
	other := jobs.Redis{Client: w.redis.Client, Namespace: "txy" + id} // what ours would match as a pattern
	bells := map[string]string{}
	for _, r := range []struct {
		redis jobs.Redis
		queue string
	}{{ours, "drill-1"}, {ours, "drill-10"}, {other, "drill-1"}} {
		bell, err := r.redis.RingTwice(w.ctx, storage.Job{ID: uuid.New(), Queue: r.queue})
		w.must(err)
		bells[r.redis.Namespace+":"+r.queue] = bell
	}
	n, err := ours.ForgetQueue(w.ctx, "drill-1")
	w.must(err)
	if n < 2 {
		t.Errorf("%d keys were removed", n)
	}
	for _, c := range []struct {
		redis   jobs.Redis
		queue   string
		pending int64
	}{{ours, "drill-1", 0}, {ours, "drill-10", 1}, {other, "drill-1", 1}} {
		name := c.redis.Namespace + ":" + c.queue
		pending, err := c.redis.Pending(w.ctx, c.queue)
		w.must(err)
		heard, err := c.redis.Heard(w.ctx, c.queue, bells[name])
		w.must(err)
		known, err := w.redis.Client.SIsMember(w.ctx, "asynq:queues", name).Result()
		w.must(err)
		if gone := c.pending == 0; pending != c.pending || heard != gone || known == gone {
			t.Errorf("%s: %d bells, heard %t, known %t", name, pending, heard, known)
		}
	}
}

// A second bell wakes a worker, which is not given a job that another has.
func TestRingTwice(t *testing.T) {
	t.Parallel()
	w := drillWorld(t)
	w.worker()
	job := w.drill()
	w.until("the job runs", func() bool { return w.job(job.ID).State == storage.JobRunning })
	bell, err := w.redis.RingTwice(w.ctx, job)
	w.must(err)
	w.until("the bell was heard", func() bool {
		heard, err := w.redis.Heard(w.ctx, job.Queue, bell)
		w.must(err)
		return heard
	})
	if job := w.ends(job, storage.JobDone); job.Attempts != 1 {
		t.Errorf("%d attempts", job.Attempts)
	}
}

func TestForgetLeaseAndMark(t *testing.T) {
	t.Parallel()
	w := drillWorld(t)
	left := func() time.Duration {
		t.Helper()
		left, err := w.redis.LeaseLeft(w.ctx, "x")
		w.must(err)
		return left
	}
	if got := left(); got != 0 {
		t.Errorf("nobody's lease lasts %s", got)
	}
	lease, err := w.leaser.Acquire(w.ctx, "x")
	w.must(err)
	if got := left(); got <= 0 || got > shortLease {
		t.Errorf("a new lease of %s lasts %s", shortLease, got)
	}
	w.must(w.redis.ForgetLease(w.ctx, "x"))
	if got := left(); got != 0 {
		t.Errorf("a lease that was removed lasts %s", got)
	}
	<-lease.Context().Done() // within its time, or the test hangs
	if cause := context.Cause(lease.Context()); !errors.Is(cause, jobs.ErrLeaseLost) {
		t.Errorf("the lease ended because of %v", cause)
	}

	marked := func() bool {
		t.Helper()
		marked, err := w.redis.Marked(w.ctx)
		w.must(err)
		return marked
	}
	if marked() {
		t.Error("there is a mark before any relay")
	}
	stop := w.worker()
	w.until("a relay has left its mark", marked)
	stop()
	w.must(w.redis.ForgetMark(w.ctx))
	if marked() {
		t.Error("the mark was not removed")
	}
}

// Only the entries of these processes on this host go.
func TestForgetServers(t *testing.T) {
	t.Parallel()
	w := drillWorld(t)
	host := w.redis.Namespace
	for _, list := range []string{"asynq:servers", "asynq:workers"} {
		for _, pid := range []string{"1", "11", "2"} {
			entry := list + ":{" + host + ":" + pid + ":x}"
			w.must(w.redis.Client.ZAdd(w.ctx, list, redis.Z{Score: 1e12, Member: entry}).Err())
			w.must(w.redis.Client.Set(w.ctx, entry, "x", time.Minute).Err())
		}
	}
	w.must(w.redis.ForgetServers(w.ctx, host, []int{1, 2}))
	for _, list := range []string{"asynq:servers", "asynq:workers"} {
		for pid, want := range map[string]int64{"1": 0, "11": 1, "2": 0} {
			entry := list + ":{" + host + ":" + pid + ":x}"
			n, err := w.redis.Client.Exists(w.ctx, entry).Result()
			w.must(err)
			err = w.redis.Client.ZScore(w.ctx, list, entry).Err()
			if n != want || (err == nil) != (want == 1) {
				t.Errorf("%s: %d keys, in the list: %v", entry, n, err)
			}
		}
		w.must(w.redis.Client.ZRem(w.ctx, list, list+":{"+host+":11:x}").Err())
	}
}
