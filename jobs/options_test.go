package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// order is what ran, one after the other.
type order struct {
	mu   sync.Mutex
	list []int
}

func (o *order) add(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, n)
}

func (o *order) now() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.list)
}

func (w *world) ordered() *order {
	o := new(order)
	w.does("order", func(_ context.Context, _ *jobs.Work, in plainPayload) (any, error) {
		o.add(in.N)
		return in.N, nil
	})
	return o
}

func one(c *jobs.WorkerConfig) { c.Concurrency = 1 }

func TestPriorityDecidesWhatRunsFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	o := w.ordered()
	_, err := w.dispatcher.DispatchAll(w.ctx, nil, []jobs.Item{
		plainItem("order", 3), plainItem("order", 5, jobs.Priority(-1)), plainItem("order", 1, jobs.Priority(10)), plainItem("order", 4), plainItem("order", 2, jobs.Priority(5)),
	})
	w.must(err)
	w.worker(one)
	w.until("all ran", func() bool { return len(o.now()) == 5 })
	if got := o.now(); !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
		t.Errorf("they ran in the order %v", got)
	}
}

func TestPriorityOfExports(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	o := new(order)
	for i := range 4 {
		w.handle(fmt.Sprint("h", i), func(_ context.Context, r *jobs.Run) error {
			o.add(i)
			return writeFile(r, "x")
		})
	}
	list := []storage.Job{w.dispatch("h2", "b"), w.dispatch("h3", "d", jobs.Priority(-5)), w.dispatch("h1", "c", jobs.Priority(1)), w.dispatch("h0", "a", jobs.Priority(9))}
	w.worker(one)
	for _, job := range list {
		w.ends(job, storage.JobDone)
	}
	if got := o.now(); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("they ran in the order %v", got)
	}
}

// A job is due when the database says so, and not before.
func TestDelayedJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.ordered()
	soon := w.ask1("order", jobs.Delay(50*time.Millisecond))
	late := w.ask1("order", jobs.At(time.Now().Add(time.Hour)))
	past := w.ask1("order", jobs.At(time.Now().Add(-time.Hour)))
	w.worker()
	w.ends(past, storage.JobDone)
	got := w.ends(soon, storage.JobDone)
	if got.StartedAt.Before(got.CreatedAt.Add(50 * time.Millisecond)) {
		t.Errorf("it began %s after it was asked for", got.StartedAt.Sub(got.CreatedAt))
	}
	if still := w.job(late.ID); still.State != storage.JobQueued || deref(still.WaitingFor) != "later" {
		t.Errorf("a job of the next hour is %s, waiting for %s", still.State, deref(still.WaitingFor))
	}
	w.exec("UPDATE fenceline.jobs SET due_at = clock_timestamp() WHERE id = $1", late.ID)
	w.ends(late, storage.JobDone)
}

func TestRetryUntil(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.does("fail", func(context.Context, *jobs.Work, plainPayload) (any, error) { return nil, errors.New("the real error") })
	w.handle("fail", func(context.Context, *jobs.Run) error { return errors.New("the real error") })
	over := w.ask1("fail", jobs.RetryFor(time.Hour), jobs.BackoffFixed(2*time.Hour)) // the retry would come too late
	export := w.dispatch("fail", "sales", jobs.RetryFor(time.Hour), jobs.BackoffFixed(2*time.Hour))
	again := w.ask1("fail", jobs.RetryFor(time.Hour), jobs.BackoffList(0, time.Millisecond, 2*time.Hour))
	w.worker()
	for job, failures := range map[uuid.UUID]int{over.ID: 1, export.ID: 1, again.ID: 3} {
		got := w.ends(w.job(job), storage.JobFailed)
		if got.Failures != failures || deref(got.Error) != "the real error" {
			t.Errorf("%s: %d failures, want %d; error %q", got.Title, got.Failures, failures, deref(got.Error))
		}
	}
}

// Case 44: uniqueness derives from rows that live, so nothing can be left behind.
func TestUniqueJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	ask := func(kind string, tenant string, options ...jobs.Option) jobs.Receipt {
		t.Helper()
		r, err := w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: kind, Tenant: tenant, Payload: json.RawMessage(`{"do":"order","n":1}`)}, options...)
		w.must(err)
		return r
	}
	for name, how := range map[string]jobs.Option{
		"pending": jobs.UniqueWhilePending("k"), "active": jobs.UniqueWhileActive("k"), "period": jobs.UniqueFor(time.Hour, "k"), "nokey": jobs.UniqueWhileActive(""),
	} {
		first := ask("plain", name, how)
		second := ask("plain", name, how)
		if first.Reused || !second.Reused || second.Job.ID != first.Job.ID {
			t.Errorf("%s: asked twice: reused %t, %t, the same job %t", name, first.Reused, second.Reused, first.Job.ID == second.Job.ID)
		}
		if other := ask("plain", name+".2", how); other.Reused {
			t.Errorf("%s: another tenant's job answered", name)
		}
		if other := ask("other", name, how); other.Reused {
			t.Errorf("%s: another kind's job answered", name)
		}
		if other := ask("plain", name); other.Reused {
			t.Errorf("%s: answered for a job that is not unique", name)
		}
		if name == "nokey" {
			if other := ask("plain", name, how, jobs.RequestedBy("somebody else")); other.Reused {
				t.Errorf("%s: another person's job answered", name)
			}
			continue
		}
		// While it runs, after its end, after a cancel.
		w.exec("UPDATE fenceline.jobs SET state = 'running', attempts = 1, run_id = gen_random_uuid(), worker_id = gen_random_uuid(), ready_at = NULL WHERE id = $1", first.Job.ID)
		if during := ask("plain", name, how); during.Reused != (name != "pending") {
			t.Errorf("%s: while it runs, another is reused: %t", name, during.Reused)
		}
		w.exec("UPDATE fenceline.jobs SET state = 'done', finished_at = clock_timestamp() WHERE id = $1", first.Job.ID)
		if after := ask("plain", name, how); after.Reused != (name != "active") {
			t.Errorf("%s: after its end, another is reused: %t", name, after.Reused)
		}
	}
	w.exec("UPDATE fenceline.jobs SET unique_until = clock_timestamp() - interval '1 second' WHERE tenant = 'period' AND unique_until IS NOT NULL")
	if late := ask("plain", "period", jobs.UniqueFor(time.Hour, "k")); late.Reused {
		t.Error("a period that is over still answers")
	}
}

// Many who ask at once get one job.
func TestUniqueUnderConcurrency(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	for name, how := range map[string]jobs.Option{"active": jobs.UniqueWhileActive("k"), "period": jobs.UniqueFor(time.Hour, "k"), "debounce": jobs.Debounce(time.Hour, time.Hour, "k")} {
		ids := make([]uuid.UUID, 20)
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() {
				r, err := w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "plain", Tenant: name, Payload: json.RawMessage(`{"do":"x"}`)}, how)
				if err != nil {
					t.Error(err)
				}
				ids[i] = r.Job.ID
			})
		}
		wg.Wait()
		distinct := map[uuid.UUID]bool{}
		for _, id := range ids {
			distinct[id] = true
		}
		if len(distinct) != 1 {
			t.Errorf("%s: %d jobs for one key", name, len(distinct))
		}
	}
}

func TestDebounce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	o := w.ordered()
	how := jobs.Debounce(time.Hour, 90*time.Minute, "k")
	var last jobs.Receipt
	for i := range 5 {
		var err error
		last, err = w.dispatcher.Dispatch(w.ctx, nil, plainItem("order", i).Request, how)
		w.must(err)
	}
	got := w.job(last.Job.ID)
	if !last.Reused || !strings.Contains(string(got.Payload), "4") {
		t.Errorf("reused %t, payload %s", last.Reused, got.Payload)
	}
	// Put off once more half an hour later: the bound holds.
	w.exec("UPDATE fenceline.jobs SET created_at = created_at - interval '1 hour', debounce_until = debounce_until - interval '1 hour', due_at = due_at - interval '1 hour'")
	_, err := w.dispatcher.Dispatch(w.ctx, nil, plainItem("order", 9).Request, how)
	w.must(err)
	var minutes float64
	w.ask(&minutes, "SELECT extract(epoch FROM due_at - clock_timestamp())::float8 / 60 FROM fenceline.jobs")
	if minutes < 25 || minutes > 30 {
		t.Errorf("it is due in %.1f minutes, want the bound in 30", minutes)
	}
	w.exec("UPDATE fenceline.jobs SET due_at = clock_timestamp()")
	w.worker()
	w.ends(last.Job, storage.JobDone)
	if got := o.now(); !slices.Equal(got, []int{9}) {
		t.Errorf("what ran: %v", got)
	}
	again, err := w.dispatcher.Dispatch(w.ctx, nil, plainItem("order", 10).Request, how)
	w.must(err)
	if again.Reused {
		t.Error("a job that has ended was put off")
	}
}

// What is dispatched in a transaction is seen at its commit, or never.
func TestBulkDispatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	o := w.ordered()
	w.handle("ok", writes("x"))
	w.worker()
	items := make([]jobs.Item, 2500)
	for i := range items {
		items[i] = plainItem("order", i, jobs.Tags("bulk", fmt.Sprint("n", i)))
		if i%1000 == 0 {
			items[i] = jobs.Item{Request: jobs.Request{Kind: "test", Payload: payload("ok", fmt.Sprint("key", i))}}
		}
	}
	rollback := errors.New("no")
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		_, err := w.dispatcher.DispatchAll(w.ctx, tx, items)
		w.must(err)
		return rollback
	})
	var n int
	if w.ask(&n, "SELECT count(*) FROM fenceline.jobs"); !errors.Is(err, rollback) || n != 0 {
		t.Errorf("%v, %d jobs after the rollback", err, n)
	}
	_, err = w.dispatcher.DispatchAll(w.ctx, nil, append(items[:10:10], jobs.Item{Request: jobs.Request{Kind: "plain", Payload: json.RawMessage(`{"n":1}`)}}))
	var bad *invalid.Error
	if !errors.As(err, &bad) || bad.Problems[0].Field != "jobs[10].do" {
		t.Errorf("a bad item is %v", err)
	}
	receipts, err := w.dispatcher.DispatchAll(w.ctx, nil, items)
	w.must(err)
	w.until("all are done", func() bool {
		w.ask(&n, "SELECT count(*) FROM fenceline.jobs WHERE state = 'done'")
		return n == len(items)
	})
	if len(o.now()) != len(items)-3 {
		t.Errorf("%d ran", len(o.now()))
	}
	if got := w.job(receipts[7].Job.ID); !slices.Equal(got.Tags, storage.Tags{"bulk", "n7"}) {
		t.Errorf("tags %q", got.Tags)
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	for field, options := range map[string][]jobs.Option{
		"priority": {jobs.Priority(101)}, "tags[0]": {jobs.Tags("")}, "at": {jobs.At(time.Now()), jobs.Delay(time.Second)}, "retry_for": {jobs.RetryFor(-1)},
		"unique_for": {jobs.UniqueFor(0, "k")}, "unique_key": {jobs.UniqueWhileActive(strings.Repeat("k", 501))}, "debounce": {jobs.Debounce(2*time.Second, time.Second, "")},
		"backoff": {jobs.BackoffExponential(0, time.Second)}, "max_attempts": {jobs.MaxAttempts(0)}, "queue": {jobs.Queue("a b")}, "timeout": {jobs.Timeout(time.Millisecond)},
	} {
		_, err := w.dispatcher.Dispatch(w.ctx, nil, plainItem("x", 1).Request, options...)
		var bad *invalid.Error
		if !errors.As(err, &bad) || bad.Problems[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A key that comes again with another request is refused, alone and among many, and keeps no other out.
func TestKeysOfOtherRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	first, err := w.dispatcher.Dispatch(w.ctx, nil, plainItem("x", 1).Request, jobs.IdempotencyKey("k"))
	w.must(err)
	again, err := w.dispatcher.Dispatch(w.ctx, nil, plainItem("x", 1).Request, jobs.IdempotencyKey("k"))
	w.must(err)
	if !again.Reused || again.Job.ID != first.Job.ID {
		t.Errorf("the same request made job %s, reused %t", again.Job.ID, again.Reused)
	}
	if _, err := w.dispatcher.Dispatch(w.ctx, nil, plainItem("x", 2).Request, jobs.IdempotencyKey("k")); !errors.Is(err, storage.ErrKeyReused) {
		t.Errorf("alone: %v", err)
	}
	many := []jobs.Item{plainItem("x", 3), plainItem("x", 2, jobs.IdempotencyKey("k"))}
	if _, err := w.dispatcher.DispatchAll(w.ctx, nil, many); !errors.Is(err, storage.ErrKeyReused) {
		t.Errorf("among many: %v", err)
	}
	out, err := w.store.InsertNow(w.ctx, []storage.NewJob{newJobOf(first.Job, "k", []byte("other")), newJobOf(first.Job, "l", []byte("new"))})
	w.must(err)
	if !errors.Is(out[0].Err, storage.ErrKeyReused) || out[1].Err != nil || !out[1].Created {
		t.Errorf("together: %v, %v", out[0].Err, out[1].Err)
	}
}

func newJobOf(j storage.Job, key string, hash []byte) storage.NewJob {
	return storage.NewJob{Tenant: j.Tenant, Kind: j.Kind, Queue: j.Queue, Title: j.Title, Payload: j.Payload, PayloadVersion: 1, MaxAttempts: 1, MaxCrashes: 1,
		Timeout: time.Minute, IdempotencyKey: key, RequestHash: hash}
}
