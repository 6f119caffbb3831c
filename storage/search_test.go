package storage_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// many makes so many plain jobs at once, the oldest first, with a kind that a number decides.
func (w *world) many(n int, tenant, state string) {
	w.t.Helper()
	w.exec(`INSERT INTO fenceline.jobs (id, tenant, kind, queue, title, payload, payload_version, max_attempts, max_crashes, timeout_seconds, request_hash, requested_by, state, finished_at, error)
		SELECT (lpad(to_hex(i), 12, '0') || '7000800000000000' || lpad(to_hex(i), 4, '0'))::uuid, $2, CASE WHEN i % 5000 = 1 THEN 'rare' ELSE 'note' END, 'default', 'job ' || i, '{}', 1, 1, 1, 60, '\x00',
			CASE WHEN i % 2 = 0 THEN 'Ada' ELSE 'Grace' END, $3, CASE WHEN $3 IN ('done', 'failed') THEN now() END, CASE WHEN $3 = 'failed' THEN 'no luck' END
		FROM generate_series(1, $1::int) i`, n, tenant, state)
}

// A search looks at so many rows and no more, says so, and goes on there: in the end
// everything is found, each once.
func TestSearchJobsIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("ALTER TABLE fenceline.jobs DISABLE TRIGGER guard_new")
	const all = storage.SearchWindow*2 + 500
	w.many(all, "acme", "done")
	f := storage.JobSearch{JobFilter: storage.JobFilter{Kind: "rare"}}
	var found []uuid.UUID
	looked := 0
	for pages := 0; ; pages++ {
		page, err := w.store.SearchJobs(w.ctx, everything, f)
		w.must(err)
		for _, j := range page.Items {
			found = append(found, j.ID)
			if j.Payload != nil {
				t.Error("a list carries payloads")
			}
		}
		if page.Looked > 0 {
			looked++
		}
		if f.After = page.Next; f.After == "" || pages > 5 {
			break
		}
	}
	if want := all/5000 + 1; len(found) != want || looked != 2 {
		t.Errorf("found %d in %d windows, want %d in 2", len(found), looked, want)
	}
	if _, err := w.store.SearchJobs(w.ctx, everything, storage.JobSearch{JobFilter: storage.JobFilter{After: "rubbish"}}); !errors.Is(err, storage.ErrCursor) {
		t.Errorf("a broken cursor: %v", err)
	}
	if page, err := w.store.SearchJobs(w.ctx, storage.Scope{Tenant: "globex"}, storage.JobSearch{}); err != nil || len(page.Items) != 0 {
		t.Errorf("another tenant finds %d, %v", len(page.Items), err)
	}
	if page, err := w.store.SearchJobs(w.ctx, storage.Scope{Tenant: "globex"}, storage.JobSearch{JobFilter: storage.JobFilter{Tenant: "acme"}}); err != nil || len(page.Items) != 0 {
		t.Errorf("another tenant that names it finds %d, %v", len(page.Items), err)
	}
}

func TestSearchJobsByState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failed := w.fail("report", "a", "no luck")
	queued := w.insert(newJob("b"))
	running := w.insert(newJob("c"))
	w.begin(running)
	done, _ := w.published("d")
	for state, want := range map[storage.JobState]uuid.UUID{storage.JobFailed: failed.ID, storage.JobQueued: queued.ID, storage.JobRunning: running.ID, storage.JobDone: done.ID} {
		page, err := w.store.SearchJobs(w.ctx, everything, storage.JobSearch{JobFilter: storage.JobFilter{State: state}})
		w.must(err)
		if len(page.Items) != 1 || page.Items[0].ID != want {
			t.Errorf("%s: found %v, want %s", state, page.Items, want)
		}
	}
}

// Every job that matches is cancelled, however many they are (riverqueue/riverui#590), and no other.
func TestCancelMatching(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.many(storage.CountCap+1500, "acme", "queued")
	other := newJob("k")
	other.Tenant = "globex"
	theirs := w.insert(other)
	mine := storage.Scope{Tenant: "acme"}
	f := storage.JobSearch{RequestedBy: "Ada"}
	f.UpTo, _ = w.store.NewestJob(w.ctx, mine)
	late := newJob("late")
	late.RequestedBy = "Ada"
	after := w.insert(late)
	if n, err := w.store.CountCancellable(w.ctx, mine, storage.JobSearch{}); err != nil || n != storage.CountCap+1 {
		t.Errorf("counted %d, %v, want %d: more than are counted", n, err, storage.CountCap+1)
	}
	want := int64((storage.CountCap + 1500) / 2)
	if n, err := w.store.CountCancellable(w.ctx, mine, f); err != nil || n != want {
		t.Errorf("counted %d, %v, want %d", n, err, want)
	}
	if n, err := w.store.CancelMatching(w.ctx, mine, f); err != nil || n != want {
		t.Fatalf("cancelled %d, %v, want %d", n, err, want)
	}
	if n, err := w.store.CancelMatching(w.ctx, mine, f); err != nil || n != 0 {
		t.Errorf("a second time %d, %v, want none", n, err)
	}
	var left, cancelled int64
	w.must(w.query("SELECT count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'cancelled') FROM fenceline.jobs WHERE export_id IS NULL").Scan(&left, &cancelled))
	if left != want || cancelled != want {
		t.Errorf("%d wait and %d are cancelled, want %d each", left, cancelled, want)
	}
	w.jobState(theirs.ID, storage.JobQueued)
	w.jobState(after.ID, storage.JobQueued) // dispatched after the look
}

func TestRetryFailedUpTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fail("report", "a", "no luck")
	second := w.fail("report", "b", "no luck")
	if n, err := w.store.RetryFailed(w.ctx, everything, storage.FailedFilter{UpTo: first.ID}); err != nil || n != 1 {
		t.Errorf("retried %d, %v, want 1", n, err)
	}
	w.jobState(second.ID, storage.JobFailed)
	if n, err := w.store.RetryFailed(w.ctx, everything, storage.FailedFilter{RequestedBy: "nobody"}); err != nil || n != 0 {
		t.Errorf("retried %d of somebody else, %v", n, err)
	}
}
