package storage_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

// fail makes a job of a kind that failed for a reason.
func (w *world) fail(kind, key, reason string) storage.Job {
	w.t.Helper()
	n := newJob(key)
	n.Kind, n.MaxAttempts = kind, 1
	job := w.insert(n)
	_, err := w.store.EndAttempt(w.ctx, w.begin(job).ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: reason, Counts: true})
	w.must(err)
	return w.jobState(job.ID, storage.JobFailed)
}

func TestRetryAFailedJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.fail("report", "a", "no such table")
	if _, err := w.store.RetryJob(w.ctx, storage.Scope{Tenant: "globex"}, job.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant: %v", err)
	}
	again, err := w.store.RetryJob(w.ctx, everything, job.ID)
	if err != nil || again.State != storage.JobQueued || again.Failures != 0 || again.Error == nil || again.Generation <= job.Generation {
		t.Fatalf("%+v, %v", again, err)
	}
	bells, err := w.store.TakeBells(w.ctx, 10, 0)
	w.must(err)
	if len(bells) != 1 || bells[0].ID != job.ID {
		t.Errorf("its bell does not ring: %v", bells)
	}
	if _, err := w.store.RetryJob(w.ctx, everything, job.ID); !errors.Is(err, storage.ErrNotFailed) {
		t.Errorf("a job that waits: %v", err)
	}
	done := w.seal(w.begin(job))
	w.must(w.store.Publish(w.ctx, done.ID))
	if _, err := w.store.RetryJob(w.ctx, everything, job.ID); !errors.Is(err, storage.ErrNotFailed) {
		t.Errorf("a job that is done: %v", err)
	}
	if list := w.attempts(job); len(list) != 2 { // the first one's error is still there
		t.Errorf("%d attempts", len(list))
	}
}

func TestRetryAllThatMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		w.fail("report", fmt.Sprint("r", i), "No such TABLE: orders_%")
	}
	w.fail("invoice", "i", "no font")
	w.fail("report", "other", "division by zero")
	for _, c := range []struct {
		scope storage.Scope
		f     storage.FailedFilter
		want  int64
	}{
		{everything, storage.FailedFilter{}, 7}, {everything, storage.FailedFilter{Error: "table: orders_%"}, 5}, {everything, storage.FailedFilter{Error: "orders%table"}, 0},
		{everything, storage.FailedFilter{Kind: "invoice"}, 1}, {storage.Scope{Tenant: "globex"}, storage.FailedFilter{}, 0}, {everything, storage.FailedFilter{Queue: "slow"}, 0},
	} {
		if n, err := w.store.CountFailed(w.ctx, c.scope, c.f); err != nil || n != c.want {
			t.Errorf("%+v: %d, %v", c, n, err)
		}
	}
	if n, err := w.store.RetryFailed(w.ctx, everything, storage.FailedFilter{Error: "no such table"}); err != nil || n != 5 {
		t.Errorf("%d retried, %v", n, err)
	}
	if n, err := w.store.CountFailed(w.ctx, everything, storage.FailedFilter{}); err != nil || n != 2 {
		t.Errorf("%d left, %v", n, err)
	}
}
