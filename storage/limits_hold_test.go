package storage_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func (w *world) hold(store *storage.Store, key storage.LimitKey, h storage.Holder) (storage.Hold, uuid.UUID) {
	w.t.Helper()
	owner := uuid.New()
	got, err := store.TakeHold(w.ctx, key, owner, h, true)
	w.must(err)
	return got, owner
}

// Forty jobs, two workers, one hold, and nobody who looks again by himself: only the ends of holders wake what waits. Never two at
// once, and none is forgotten.
func TestAHoldWakesWhoWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stores := []*storage.Store{w.store, openStore(t, w.url)}
	jobs := w.plain(40)
	var mu sync.Mutex
	inside, worst, done := 0, 0, 0
	var wg sync.WaitGroup
	for i, h := range jobs {
		wg.Go(func() {
			store := stores[i%2]
			for {
				w.due(h)
				if t.Failed() {
					return
				}
				h = w.runs(h)
				got, owner := w.hold(store, acme("k"), h)
				if !got.Taken {
					w.putBack(h, "overlap", time.Hour)
					continue
				}
				mu.Lock()
				inside++
				worst = max(worst, inside)
				mu.Unlock()
				_, err := store.Now(w.ctx) // some work
				mu.Lock()
				inside--
				done++
				mu.Unlock()
				w.must(errors.Join(err, store.ReleaseHold(w.ctx, acme("k"), owner)))
				w.end(h)
				return
			}
		})
	}
	wg.Wait()
	if worst != 1 || done != len(jobs) {
		t.Errorf("%d at once, %d of %d done", worst, done, len(jobs))
	}
	var left int
	w.must(w.query("SELECT (SELECT count(*) FROM fenceline.limit_waiters) + (SELECT count(*) FROM fenceline.limit_holds)").Scan(&left))
	if left != 0 {
		t.Errorf("%d rows are left", left)
	}
}

// due waits until a job is due.
func (w *world) due(h storage.Holder) {
	w.t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for due := false; !due; {
		if err := w.query("SELECT state = 'queued' AND due_at <= clock_timestamp() FROM fenceline.jobs WHERE id = $1", h.Job).Scan(&due); err != nil {
			w.t.Error(err)
			return
		}
		select {
		case <-deadline.C:
			w.t.Errorf("nobody woke job %s", h.Job)
			return
		case <-tick.C:
		}
	}
}

// locked waits until a statement of this database waits for a lock.
func (w *world) locked() {
	w.t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for waits := false; !waits; {
		w.must(w.query("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')").Scan(&waits))
		select {
		case <-deadline.C:
			w.t.Fatal("nobody waits for a lock")
		case <-tick.C:
		}
	}
}

// The hold is let go after a job found it taken and before, or while, that job goes to wait: nobody is there to be woken, so the job is
// due at once.
func TestAHoldThatIsLetGoJustBeforeTheWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.running(4)
	due := func(h storage.Holder, want bool) {
		t.Helper()
		var got, ready bool
		w.must(w.query("SELECT due_at <= clock_timestamp(), ready_at IS NOT NULL FROM fenceline.jobs WHERE id = $1", h.Job).Scan(&got, &ready))
		if got != want || ready != want {
			t.Errorf("due: %v, ready: %v, want %v", got, ready, want)
		}
	}
	_, owner := w.hold(w.store, acme("k"), run[0])
	for _, h := range run[1:] {
		w.hold(w.store, acme("k"), h)
	}
	w.putBack(run[1], "overlap", time.Hour)
	due(run[1], false)
	w.putBack(run[2], "overlap", time.Hour)
	due(run[2], false)
	tx, err := w.conn().Begin(w.ctx)
	w.must(err)
	defer func() { _ = tx.Rollback(w.ctx) }()
	_, err = tx.Exec(w.ctx, "SELECT fenceline.release_hold('acme', 'k', $1)", owner)
	w.must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.putBack(run[3], "overlap", time.Hour)
	}()
	w.locked()
	w.must(tx.Commit(w.ctx))
	<-done
	due(run[1], true) // the first in line was woken
	due(run[2], false)
	due(run[3], true) // and this one would not have been
}

func TestAHoldEndsWithItsRun(t *testing.T) {
	t.Parallel()
	ends := map[string]func(w *world, h storage.Holder){
		"handed on": func(w *world, h storage.Holder) {
			w.exec("UPDATE fenceline.jobs SET state = 'queued', generation = generation + 1, worker_id = NULL WHERE id = $1", h.Job)
		},
		"taken by another": func(w *world, h storage.Holder) {
			w.exec("UPDATE fenceline.jobs SET state = 'queued', generation = generation + 1 WHERE id = $1", h.Job)
			w.runs(h)
		},
		"done": func(w *world, h storage.Holder) { w.end(h) },
		"failed": func(w *world, h storage.Holder) {
			w.exec("UPDATE fenceline.jobs SET state = 'failed', error = 'x', finished_at = now() WHERE id = $1", h.Job)
		},
	}
	w := newWorld(t)
	for name, end := range ends {
		two := w.running(2)
		got, owner := w.hold(w.store, acme(name), two[0])
		if busy, _ := w.hold(w.store, acme(name), two[1]); !got.Taken || busy.Taken || busy.By != two[0].Job {
			t.Fatalf("%s: %+v, then %+v", name, got, busy)
		}
		end(w, two[0])
		if got, _ := w.hold(w.store, acme(name), two[1]); !got.Taken {
			t.Errorf("%s: the hold outlived its run", name)
		}
		w.must(w.store.ReleaseHold(w.ctx, acme(name), owner)) // the old run wakes up
		if third, _ := w.hold(w.store, acme(name), w.running(1)[0]); third.Taken {
			t.Errorf("%s: a run that lost the hold let it go", name)
		}
	}
}

// An export has no name for its run before its attempt begins; the job's generation stands for it.
func TestAHoldOfAnExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.insert(newJob("a"))
	h := storage.Holder{Job: job.ID, Generation: job.Generation}
	other := w.running(1)[0]
	busy := func(when string, want bool) {
		t.Helper()
		got, owner := w.hold(w.store, acme("k"), other)
		if got.Taken == want {
			t.Errorf("%s: %+v", when, got)
		}
		if got.Taken {
			w.must(w.store.ReleaseHold(w.ctx, acme("k"), owner))
		}
	}
	if got, _ := w.hold(w.store, acme("k"), h); !got.Taken {
		t.Fatal("not taken")
	}
	if again, _ := w.hold(w.store, acme("k"), h); again.Taken || !again.Own {
		t.Errorf("a second worker that answers for the same job gets %+v", again)
	}
	busy("before the attempt", true)
	b := w.begin(job)
	busy("during the attempt", true)
	if _, err := w.store.EndAttempt(w.ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "x", Counts: true}); err != nil {
		t.Fatal(err)
	}
	busy("after the attempt", false)
	h.Generation++
	if got, _ := w.hold(w.store, acme("k"), h); !got.Taken {
		t.Fatal("not taken for the second attempt")
	}
	w.exec("UPDATE fenceline.limit_holds SET taken_at = taken_at - interval '31 seconds'")
	busy("a worker that died before its attempt", false)
}
