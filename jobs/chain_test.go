package jobs_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

func TestChainsPassTheResultOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.does("add", func(ctx context.Context, work *jobs.Work, in plainPayload) (any, error) {
		var before int
		if _, err := work.Previous(ctx, &before); err != nil {
			return nil, err
		}
		return before + in.N, nil
	})
	w.handle("ok", writes("x"))
	var of struct {
		Token int64 `json:"token"`
	}
	w.does("read", func(ctx context.Context, work *jobs.Work, _ plainPayload) (any, error) {
		there, err := work.Previous(ctx, &of)
		if !there {
			return nil, errors.Join(err, errors.New("no result of the export"))
		}
		return nil, err
	})
	export := jobs.Item{Request: jobs.Request{Kind: "test", Payload: payload("ok", "sales")}}
	receipts, err := w.dispatcher.Chain(w.ctx, nil, []jobs.Item{plainItem("add", 1), plainItem("add", 10), plainItem("add", 100), export, plainItem("read", 0)})
	w.must(err)
	if first := w.job(receipts[1].Job.ID); deref(first.WaitingFor) != "chain" {
		t.Errorf("the second waits for %q", deref(first.WaitingFor))
	}
	w.worker()
	w.ends(receipts[4].Job, storage.JobDone)
	if got := w.job(receipts[2].Job.ID); string(got.Result) != "111" {
		t.Errorf("the third answers %s", got.Result)
	}
	if of.Token == 0 {
		t.Error("the job after the export got no token")
	}
}

func TestAChainStopsWhereItFailsAndGoesOnWhenRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	o := w.ordered()
	var well atomic.Bool
	w.does("maybe", func(context.Context, *jobs.Work, plainPayload) (any, error) {
		if !well.Load() {
			return nil, jobs.Permanent(errors.New("not yet"))
		}
		return nil, nil
	})
	receipts, err := w.dispatcher.Chain(w.ctx, nil, []jobs.Item{plainItem("order", 1), plainItem("maybe", 0), plainItem("order", 2), plainItem("order", 3)})
	w.must(err)
	w.worker()
	w.ends(receipts[1].Job, storage.JobFailed)
	for _, r := range receipts[2:] {
		if got := w.ends(r.Job, storage.JobCancelled); deref(got.Error) == "" {
			t.Error("a job behind a failure does not say why it was cancelled")
		}
	}
	well.Store(true)
	_, err = w.store.RetryJob(w.ctx, everything, receipts[1].Job.ID)
	w.must(err)
	w.ends(receipts[3].Job, storage.JobDone)
	if got := o.now(); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("what ran: %v", got)
	}
	// Cancelling the first cancels all.
	receipts, err = w.dispatcher.Chain(w.ctx, nil, []jobs.Item{plainItem("order", 4, jobs.Delay(time.Hour)), plainItem("order", 5), plainItem("order", 6)})
	w.must(err)
	_, err = w.store.CancelJob(w.ctx, everything, receipts[0].Job.ID)
	w.must(err)
	for _, r := range receipts {
		w.ends(r.Job, storage.JobCancelled)
	}
	_, err = w.dispatcher.Chain(w.ctx, nil, []jobs.Item{plainItem("order", 1, jobs.UniqueWhileActive("k"))})
	if bad := new(invalid.Error); !errors.As(err, &bad) {
		t.Errorf("a unique job in a chain: %v", err)
	}
}

func TestBatchesCallWhenTheyEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	o := w.ordered()
	w.does("fail", func(context.Context, *jobs.Work, plainPayload) (any, error) {
		return nil, jobs.Permanent(errors.New("no luck"))
	})
	w.does("more", func(ctx context.Context, work *jobs.Work, _ plainPayload) (any, error) {
		b, _, err := work.Batch(ctx)
		if err != nil {
			return nil, err
		}
		_, err = w.dispatcher.Dispatch(ctx, nil, plainItem("order", 3).Request, jobs.InBatch(b.ID))
		return nil, err
	})
	w.does("called", func(ctx context.Context, work *jobs.Work, in plainPayload) (any, error) {
		b, there, err := work.Batch(ctx)
		if !there || b.Title != "all" && b.Title != "some" {
			return nil, errors.Join(err, errors.New("a call does not find its batch"))
		}
		o.add(in.N)
		return nil, nil
	})
	call := func(n int) *jobs.Item { item := plainItem("called", n); return &item }
	stop := w.worker()
	all, _, err := w.dispatcher.Batch(w.ctx, nil, jobs.BatchRequest{Title: "all", Jobs: []jobs.Item{plainItem("order", 1), plainItem("more", 0)},
		Chains: [][]jobs.Item{{plainItem("order", 2), plainItem("order", 4)}}, Then: call(10), Catch: call(11), Finally: call(12)})
	w.must(err)
	w.until("both calls of a good batch came", func() bool { return slices.Contains(o.now(), 10) && slices.Contains(o.now(), 12) })
	got := o.now()
	if slices.Sort(got); !slices.Equal(got, []int{1, 2, 3, 4, 10, 12}) {
		t.Errorf("what ran: %v", got)
	}
	c, err := w.store.CountBatch(w.ctx, all.ID)
	w.must(err)
	if c.Total != 5 || c.States[storage.JobDone] != 5 {
		t.Errorf("counts %+v", c)
	}
	_, err = w.dispatcher.Dispatch(w.ctx, nil, plainItem("order", 5).Request, jobs.InBatch(all.ID))
	if !errors.Is(err, storage.ErrBatchEnded) {
		t.Errorf("adding to a batch whose end was acted on: %v", err)
	}
	// One fails: the rest is cancelled, unless failures are allowed.
	for _, allow := range []bool{false, true} {
		some, receipts, err := w.dispatcher.Batch(w.ctx, nil, jobs.BatchRequest{Title: "some", AllowFailures: allow,
			Jobs: []jobs.Item{plainItem("fail", 0), plainItem("order", 7, jobs.Delay(time.Hour))}, Then: call(20), Catch: call(21), Finally: call(22)})
		w.must(err)
		w.ends(receipts[0].Job, storage.JobFailed)
		w.until("the failure was called", func() bool {
			calls, err := w.store.BatchCalls(w.ctx, some.ID)
			return err == nil && len(calls) > 0
		})
		if allow {
			w.exec("UPDATE fenceline.jobs SET due_at = clock_timestamp() WHERE id = $1", receipts[1].Job.ID)
			w.ends(receipts[1].Job, storage.JobDone)
		} else {
			w.ends(receipts[1].Job, storage.JobCancelled)
		}
		w.until("the end was called", func() bool {
			calls, err := w.store.BatchCalls(w.ctx, some.ID)
			return err == nil && len(calls) == 2 && calls[0].Event == "failure" && calls[1].Event == "end" && calls[1].JobID != nil
		})
	}
	w.until("the calls ran", func() bool { return len(o.now()) >= 6+2+3 })
	stop()
	got = o.now()
	if slices.Contains(got, 20) {
		t.Error("a batch with a failure called its success")
	}
}

// A prune takes a batch as a whole or not at all, so that its counts stay true; a
// job that was skipped is none that is missing.
func TestPruneTakesBatchesWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	o := w.ordered()
	w.handle("ok", writes("x"))
	w.does("skip", func(context.Context, *jobs.Work, plainPayload) (any, error) { return nil, jobs.Skip("nothing to do") })
	then := plainItem("order", 9)
	plain, _, err := w.dispatcher.Batch(w.ctx, nil, jobs.BatchRequest{Jobs: []jobs.Item{plainItem("order", 1), plainItem("skip", 0)}, Then: &then})
	w.must(err)
	mixed, _, err := w.dispatcher.Batch(w.ctx, nil, jobs.BatchRequest{Jobs: []jobs.Item{plainItem("order", 2), {Request: jobs.Request{Kind: "test", Payload: payload("ok", "sales")}}}})
	w.must(err)
	open, _, err := w.dispatcher.Batch(w.ctx, nil, jobs.BatchRequest{Jobs: []jobs.Item{plainItem("order", 3), plainItem("order", 4, jobs.Delay(time.Hour))}})
	w.must(err)
	alone := w.ask1("order")
	stop := w.worker()
	w.until("all that can ran, and the call of a batch with a skipped job", func() bool { return slices.Contains(o.now(), 9) && len(o.now()) == 5 })
	w.ends(alone, storage.JobDone)
	w.until("two have settled", func() bool {
		var n int
		w.ask(&n, "SELECT count(*) FROM fenceline.batches WHERE settled_at IS NOT NULL")
		return n == 2
	})
	stop()
	p, err := w.store.Prune(w.ctx, 0, 0)
	w.must(err)
	if p.Jobs != 4 || p.Batches != 1 { // the lone one, the call, and the two of the batch
		t.Errorf("%+v", p)
	}
	if _, err := w.store.Batch(w.ctx, everything, plain.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the batch that was pruned: %v", err)
	}
	for _, b := range []storage.Batch{mixed, open} {
		if c, err := w.store.CountBatch(w.ctx, b.ID); err != nil || c.Total != 2 {
			t.Errorf("a batch that stays counts %d jobs, %v", c.Total, err)
		}
	}
}
