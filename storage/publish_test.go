package storage_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func fencedFor(t *testing.T, err error, reason string, by int64) {
	t.Helper()
	var f *storage.FencedError
	if !errors.As(err, &f) || !errors.Is(err, storage.ErrFenced) {
		t.Fatalf("got %v, want to be fenced", err)
	}
	if f.Reason != reason || f.By != by {
		t.Fatalf("fenced for %s by %d, want %s by %d", f.Reason, f.By, reason, by)
	}
}

func TestPublishMovesThePointer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job, b := w.published("sales")
	w.jobState(job.ID, storage.JobDone)
	w.attemptState(b.ID, storage.AttemptPublished)
	w.pointer(job.ExportID, b.Token)

	next, b2 := w.published("sales")
	if next.ExportID != job.ExportID {
		t.Fatal("the same key is another export")
	}
	a := w.attemptState(b.ID, storage.AttemptSuperseded)
	if a.ReplacedAt == nil {
		t.Error("it is not recorded when the first publication was replaced")
	}
	w.pointer(job.ExportID, b2.Token)
	w.jobState(job.ID, storage.JobDone)
}

func TestPublishTwiceIsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, b := w.published("sales")
	w.must(w.store.Publish(w.ctx, b.ID))
	w.published("sales")
	w.must(w.store.Publish(w.ctx, b.ID)) // it was published, also when it has been replaced since
	var notices int
	w.must(w.query("SELECT count(*) FROM fenceline.outbox WHERE attempt_id = $1", b.ID).Scan(&notices))
	if notices != 1 {
		t.Errorf("%d notices were written for one publication", notices)
	}
}

func TestPublishIsFencedByANewerJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.insert(newJob("sales"))
	stale := w.begin(old)
	_, newer := w.published("sales")
	w.seal(stale)
	fencedFor(t, w.store.Publish(w.ctx, stale.ID), "newer_job", newer.Token)
	w.jobState(old.ID, storage.JobSuperseded)
	w.attemptState(stale.ID, storage.AttemptFenced)
	w.pointer(old.ExportID, newer.Token)
}

func TestPublishIsFencedByANewerAttemptOfTheSameJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.insert(newJob("sales"))
	frozen := w.seal(w.begin(job))
	w.handOn(1)
	second := w.seal(w.begin(job))
	w.must(w.store.Publish(w.ctx, second.ID))
	fencedFor(t, w.store.Publish(w.ctx, frozen.ID), "newer_attempt", second.Token)
	w.jobState(job.ID, storage.JobDone) // L6: the stale attempt changed nothing
	w.pointer(job.ExportID, second.Token)
}

func TestPublishIsFencedWhenTheJobWasHandedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.insert(newJob("sales"))
	frozen := w.seal(w.begin(job))
	w.handOn(1)
	fencedFor(t, w.store.Publish(w.ctx, frozen.ID), "handed_on", 0)
	w.jobState(job.ID, storage.JobQueued)

	second := w.begin(job) // and also while the second one works
	third := w.jobState(job.ID, storage.JobRunning)
	if third.Crashes != 1 || third.Failures != 0 {
		t.Errorf("crashes %d failures %d, want 1 and 0", third.Crashes, third.Failures)
	}
	w.seal(second)
	w.must(w.store.Publish(w.ctx, second.ID))
}

func TestPublishOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		before  func(w *world, job storage.Job, b storage.Begun)
		want    error
		attempt storage.AttemptState
		job     storage.JobState
	}{
		{"condemned", func(w *world, _ storage.Job, b storage.Begun) {
			w.exec("SELECT fenceline.condemn_attempts(ARRAY[$1::uuid], -3600)", b.ID)
		}, storage.ErrCondemned, storage.AttemptCondemned, storage.JobRunning},
		{"cancelled", func(w *world, job storage.Job, _ storage.Begun) {
			state, err := w.store.CancelJob(w.ctx, everything, job.ID)
			w.must(err)
			if state != storage.JobCancelling {
				w.t.Fatalf("a running job is %s after cancel", state)
			}
		}, storage.ErrCancelled, storage.AttemptCancelled, storage.JobCancelled},
		{"gone", func(w *world, job storage.Job, _ storage.Begun) {
			w.exec("UPDATE fenceline.exports SET deleted_at = now() WHERE id = $1", job.ExportID)
		}, storage.ErrGone, storage.AttemptFailed, storage.JobFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			job := w.insert(newJob("sales"))
			b := w.seal(w.begin(job))
			c.before(w, job, b)
			if err := w.store.Publish(w.ctx, b.ID); !errors.Is(err, c.want) {
				t.Fatalf("publish: %v, want %v", err, c.want)
			}
			w.attemptState(b.ID, c.attempt)
			w.jobState(job.ID, c.job)
			var current int
			w.must(w.query("SELECT count(attempt_id) FROM fenceline.exports").Scan(&current))
			if current != 0 {
				t.Error("the pointer moved")
			}
		})
	}
	t.Run("not sealed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		b := w.begin(w.insert(newJob("sales")))
		if err := w.store.Publish(w.ctx, b.ID); err == nil || errors.Is(err, storage.ErrFenced) {
			t.Fatalf("publish before seal: %v", err)
		}
		w.attemptState(b.ID, storage.AttemptRunning)
	})
	t.Run("unknown attempt", func(t *testing.T) {
		t.Parallel()
		if err := newWorld(t).store.Publish(t.Context(), uuid.New()); !errors.Is(err, storage.ErrNotFound) {
			t.Fatalf("publish: %v", err)
		}
	})
}

// Publish and condemn need the same row: exactly one wins, whoever is first.
func TestPublishOrCondemnNeverBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var published, condemned int
	for i := range 60 {
		job := w.insert(newJob(fmt.Sprint("sales", i)))
		b := w.seal(w.begin(job))
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { err = w.store.Publish(w.ctx, b.ID) })
		wg.Go(func() { w.exec("SELECT fenceline.condemn_attempts(ARRAY[$1::uuid], -3600)", b.ID) })
		wg.Wait()
		a, readErr := w.store.Attempt(w.ctx, b.ID)
		w.must(readErr)
		switch {
		case err == nil && a.State == storage.AttemptPublished:
			published++
			w.pointer(job.ExportID, b.Token)
		case errors.Is(err, storage.ErrCondemned) && a.State == storage.AttemptCondemned:
			condemned++
			w.pointer(job.ExportID, 0)
		default:
			t.Fatalf("publish said %v, the attempt is %s", err, a.State)
		}
	}
	t.Logf("%d published, %d condemned", published, condemned)
}

// Many jobs of one export race to publish: tokens only rise, one is current.
func TestPublishUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 15 {
				job := w.insert(newJob("hot"))
				b := w.begin(job)
				if err := w.store.Seal(w.ctx, b.ID, sealing("a.csv")); err != nil {
					t.Error(err)
				}
				if err := w.store.Publish(w.ctx, b.ID); err != nil && !errors.Is(err, storage.ErrFenced) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var bad, current int
	w.must(w.query(`SELECT count(*) FROM (SELECT token, lag(token) OVER (ORDER BY finished_at) AS before
		FROM fenceline.attempts WHERE verdict IN ('published', 'superseded')) x WHERE token <= before`).Scan(&bad))
	w.must(w.query(`SELECT count(*) FROM fenceline.attempts WHERE state = 'published'`).Scan(&current))
	if bad != 0 || current != 1 {
		t.Errorf("%d publications with a token that did not rise, %d current", bad, current)
	}
}

// A dispatch in a caller's transaction that stays open must not hold up the
// export's running attempt.
func TestOpenDispatchDoesNotBlockPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.insert(newJob("sales"))
	b := w.seal(w.begin(job))
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		if _, _, err := w.store.InsertJob(w.ctx, tx, newJob("sales")); err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() { done <- w.store.Publish(w.ctx, b.ID) }()
		select {
		case err := <-done:
			return err
		case <-time.After(60 * time.Second):
			return errors.New("publish waits for a dispatch that has not committed")
		}
	}))
	w.jobState(job.ID, storage.JobDone)
}

// Publish waits for a condemn that has not committed, and then sees it.
func TestPublishWaitsForACondemnInProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.seal(w.begin(w.insert(newJob("sales"))))
	tx, err := w.conn().Begin(w.ctx)
	w.must(err)
	defer func() { _ = tx.Rollback(w.ctx) }()
	_, err = tx.Exec(w.ctx, "SELECT fenceline.condemn_attempts(ARRAY[$1::uuid], -3600)", b.ID)
	w.must(err)
	done := make(chan error, 1)
	go func() { done <- w.store.Publish(w.ctx, b.ID) }()
	w.until("publish waits for the row", `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
		AND wait_event_type = 'Lock' AND query LIKE '%publish_attempt%')`)
	w.must(tx.Commit(w.ctx))
	if err := <-done; !errors.Is(err, storage.ErrCondemned) {
		t.Errorf("publish: %v", err)
	}
}

// until polls a question to the database until its answer is yes.
func (w *world) until(what, question string) {
	w.t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var yes bool
		w.must(w.query(question).Scan(&yes))
		if yes {
			return
		}
		select {
		case <-deadline.C:
			w.t.Fatalf("it never came to this: %s", what)
		case <-tick.C:
		}
	}
}
