package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
)

// The contract that real services keep is in package leasetest; this one keeps nobody out.
func TestAlwaysLeaserSaysYes(t *testing.T) {
	t.Parallel()
	take := func() *jobs.Lease {
		t.Helper()
		lease, err := jobs.AlwaysLeaser{}.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	a, b := take(), take()
	if err := a.Release(t.Context()); err != nil || a.Context().Err() == nil || b.Context().Err() != nil {
		t.Error("releasing one touches the other, or not itself")
	}
	if _, err := (jobs.AlwaysLeaser{}).Holder(t.Context(), "x"); !errors.Is(err, jobs.ErrLeaseFree) {
		t.Errorf("a lease that keeps nobody out has a holder: %v", err)
	}
}

// falling is a service whose order falls, as that of one which was restored.
type falling struct {
	jobs.AlwaysLeaser
	next chan int64
}

func (f falling) Acquire(ctx context.Context, resource string) (*jobs.Lease, error) {
	return jobs.Grant{
		Resource: resource, TTL: time.Minute, Until: time.Now().Add(time.Minute), Order: jobs.LeaseOrder{Name: "revision", Number: <-f.next},
		Release: func(context.Context) error { return nil },
	}.Hold(ctx), nil
}

// A worker keeps the order of its lease with the attempt; the token alone decides.
func TestWorkersKeepTheOrderOfTheirLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	f := falling{next: make(chan int64, 2)}
	f.next <- 4211
	f.next <- 17
	w.leaser = f
	w.handle("ok", writes("text"))
	w.worker()
	job := w.dispatch("ok", "sales")
	w.until("the first is published", func() bool { return w.job(job.ID).State.Ended() })
	second := w.dispatch("ok", "sales")
	w.until("the second is published", func() bool { return w.job(second.ID).State.Ended() })
	attempts, err := w.store.Attempts(w.ctx, job.ExportID, 10)
	w.must(err)
	if len(attempts) != 2 || attempts[1].LeaseOrder.Number != 4211 || attempts[0].LeaseOrder.Number != 17 || attempts[0].State != "published" {
		t.Errorf("got %+v", attempts)
	}
}
