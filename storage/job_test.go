package storage_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage"
)

func TestMigrateByManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("CREATE DATABASE not_migrated")
	url := strings.Replace(w.url, "/"+w.conn().Config().ConnConfig.Database+"?", "/not_migrated?", 1)
	t.Cleanup(func() { _ = w.dropDatabase("not_migrated") })
	if n, err := storage.Pending(t.Context(), url); err != nil || n == 0 {
		t.Fatalf("pending before: %d, %v", n, err)
	}
	var ran [6]int
	var wg sync.WaitGroup
	for i := range ran {
		wg.Go(func() {
			var err error
			if ran[i], err = storage.Migrate(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range ran {
		sum += n
	}
	pending, err := storage.Pending(t.Context(), url)
	if err != nil || pending != 0 || sum == 0 {
		t.Errorf("%d migrations run in all, %d pending, %v", sum, pending, err)
	}
}

func (w *world) dropDatabase(name string) error {
	conn, err := pgx.Connect(context.Background(), w.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
	return err
}

func TestInsertIsInvisibleUntilCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rollback := errors.New("no")
	var id uuid.UUID
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		job, created, err := w.store.InsertJob(w.ctx, tx, newJob("sales"))
		w.must(err)
		id = job.ID
		if !created {
			t.Error("the job was there already")
		}
		bells, err := w.store.TakeBells(w.ctx, 10, time.Minute)
		w.must(err)
		if len(bells) != 0 {
			t.Error("a job was rung for before its commit")
		}
		return rollback
	})
	if !errors.Is(err, rollback) {
		t.Fatal(err)
	}
	if _, err := w.store.Job(w.ctx, everything, id); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a job that was rolled back: %v", err)
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keyed := newJob("sales")
	keyed.IdempotencyKey = "k1"
	var mu sync.Mutex
	ids := map[uuid.UUID]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			job := w.insert(keyed)
			mu.Lock()
			defer mu.Unlock()
			ids[job.ID] = true
		})
	}
	wg.Wait()
	if len(ids) != 1 {
		t.Errorf("the same key made %d jobs", len(ids))
	}
	other := keyed
	other.RequestHash = []byte("another")
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		_, _, err := w.store.InsertJob(w.ctx, tx, other)
		return err
	})
	if !errors.Is(err, storage.ErrKeyReused) {
		t.Errorf("the same key with another request: %v", err)
	}
	stranger := other
	stranger.Tenant = "globex"
	if job := w.insert(stranger); ids[job.ID] {
		t.Error("a key was shared across tenants")
	}
}

func TestEndAttempt(t *testing.T) {
	t.Parallel()
	failure := storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "disk full", Counts: true}
	for _, c := range []struct {
		name     string
		ending   storage.Ending
		became   string
		job      storage.JobState
		failures int
		attempt  storage.AttemptState
	}{
		{"a failure is tried again", failure, "queued", storage.JobQueued, 1, storage.AttemptFailed},
		{"a final one is not", storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "x", Counts: true, Final: true}, "failed", storage.JobFailed, 1, storage.AttemptFailed},
		{"a release does not count", storage.Ending{State: storage.AttemptFailed, Reason: "worker_stopped"}, "queued", storage.JobQueued, 0, storage.AttemptFailed},
		{"fenced before reading", storage.Ending{State: storage.AttemptFenced, Reason: "newer_token"}, "queued", storage.JobQueued, 0, storage.AttemptFenced},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			job := w.insert(newJob("sales"))
			b := w.begin(job)
			became, err := w.store.EndAttempt(w.ctx, b.ID, c.ending)
			w.must(err)
			if became != c.became {
				t.Errorf("the job became %s, want %s", became, c.became)
			}
			got := w.jobState(job.ID, c.job)
			if got.Failures != c.failures || got.Crashes != 0 {
				t.Errorf("failures %d crashes %d", got.Failures, got.Crashes)
			}
			if c.ending.Error != "" && (got.Error == nil || *got.Error != c.ending.Error) {
				t.Errorf("the job's error is %v", got.Error)
			}
			w.attemptState(b.ID, c.attempt)
			if again, err := w.store.EndAttempt(w.ctx, b.ID, c.ending); err != nil || again != string(c.attempt) {
				t.Errorf("ending it again: %s, %v", again, err)
			}
		})
	}
	t.Run("the last failure fails the job and tells", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		job := w.insert(newJob("sales"))
		for range 3 {
			_, err := w.store.EndAttempt(w.ctx, w.begin(job).ID, failure)
			w.must(err)
		}
		w.jobState(job.ID, storage.JobFailed)
		var notices int
		w.must(w.query("SELECT count(*) FROM fenceline.outbox WHERE topic = 'job.failed'").Scan(&notices))
		if notices != 1 {
			t.Errorf("%d notices", notices)
		}
	})
	t.Run("L6: a stale attempt fails nobody's job", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		job := w.insert(newJob("sales"))
		stale := w.begin(job)
		w.handOn(1)
		w.begin(job)
		final := failure
		final.Final = true
		if err := w.store.Heartbeat(w.ctx, stale.ID, storage.Progress{Step: "write"}); !errors.Is(err, storage.ErrFenced) {
			t.Errorf("heartbeat: %v", err)
		}
		became, err := w.store.EndAttempt(w.ctx, stale.ID, final)
		w.must(err)
		if a := w.attemptState(stale.ID, storage.AttemptFenced); became != "stale" || *a.Reason != "handed_on" || *a.FencedBy != stale.Token+1 {
			t.Errorf("the job became %s, the attempt was fenced for %s", became, *a.Reason)
		}
		if got := w.jobState(job.ID, storage.JobRunning); got.Failures != 0 || got.Error != nil {
			t.Error("the stale attempt left its error at the job")
		}
	})
	t.Run("a cancelled job ends cancelled", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		job := w.insert(newJob("sales"))
		b := w.begin(job)
		_, err := w.store.CancelJob(w.ctx, everything, job.ID)
		w.must(err)
		if err := w.store.Heartbeat(w.ctx, b.ID, storage.Progress{Step: "write"}); !errors.Is(err, storage.ErrCancelled) {
			t.Errorf("heartbeat: %v", err)
		}
		if became, err := w.store.EndAttempt(w.ctx, b.ID, failure); err != nil || became != "cancelled" {
			t.Errorf("became %s, %v", became, err)
		}
		w.jobState(job.ID, storage.JobCancelled)
		w.attemptState(b.ID, storage.AttemptCancelled)
	})
}

func TestHandOnLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alive := w.insert(newJob("alive"))
	w.begin(alive)
	if lost, err := w.store.HandOnLost(w.ctx, time.Minute, 10); err != nil || len(lost) != 0 {
		t.Fatalf("an attempt that beats was handed on: %v %v", lost, err)
	}
	// An attempt that was condemned is lost at once, whatever its heartbeat.
	condemned := w.begin(w.insert(newJob("condemned")))
	w.exec("SELECT fenceline.condemn_attempts(ARRAY[$1::uuid], -3600)", condemned.ID)
	lost, err := w.store.HandOnLost(w.ctx, time.Minute, 10)
	w.must(err)
	if len(lost) != 1 || lost[0].AttemptID != condemned.ID || lost[0].Worker != "w-1" {
		t.Fatalf("lost: %+v", lost)
	}
	if err := w.store.Heartbeat(w.ctx, condemned.ID, storage.Progress{Step: "write"}); !errors.Is(err, storage.ErrCondemned) {
		t.Errorf("heartbeat of a condemned attempt: %v", err)
	}
	// A job that kills every worker ends failed, with the reason.
	for range 3 {
		w.handOn(1)
		if j, _ := w.store.Job(w.ctx, everything, alive.ID); j.State == storage.JobQueued {
			w.begin(alive)
		}
	}
	if got := w.jobState(alive.ID, storage.JobFailed); got.Crashes != 3 || got.Failures != 0 || got.Error == nil {
		t.Errorf("crashes %d failures %d error %v", got.Crashes, got.Failures, got.Error)
	}
	last := w.attempts(alive)[0] // and should its last worker wake up, it is too late
	if err := w.store.Heartbeat(w.ctx, last.ID, storage.Progress{Step: "write"}); !errors.Is(err, storage.ErrFenced) {
		t.Errorf("heartbeat for a job that was given up: %v", err)
	}
	w.seal(storage.Begun{ID: last.ID})
	fencedFor(t, w.store.Publish(w.ctx, last.ID), "handed_on", 0)
	w.jobState(alive.ID, storage.JobFailed)

	// A cancelled job whose worker died is cancelled.
	gone := w.insert(newJob("cancelled"))
	b := w.begin(gone)
	_, err = w.store.CancelJob(w.ctx, everything, gone.ID)
	w.must(err)
	w.handOn(1)
	w.jobState(gone.ID, storage.JobCancelled)
	if err := w.store.Heartbeat(w.ctx, b.ID, storage.Progress{Step: "write"}); !errors.Is(err, storage.ErrCancelled) {
		t.Errorf("heartbeat for a cancelled job: %v", err)
	}
	if err := w.store.Publish(w.ctx, w.seal(b).ID); !errors.Is(err, storage.ErrCancelled) {
		t.Errorf("publish for a cancelled job: %v", err)
	}
}

func TestBells(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.insert(newJob("sales"))
	bells, err := w.store.TakeBells(w.ctx, 10, time.Hour)
	w.must(err)
	if len(bells) != 1 || bells[0] != (storage.Bell{ID: job.ID, Queue: "default", Generation: 1}) {
		t.Fatalf("bells: %+v", bells)
	}
	expect := func(want int, when string) []storage.Bell {
		t.Helper()
		got, err := w.store.TakeBells(w.ctx, 10, time.Hour)
		w.must(err)
		if len(got) != want {
			t.Fatalf("%s: %d bells, want %d", when, len(got), want)
		}
		return got
	}
	expect(0, "a bell that was taken")
	w.must(w.store.RingAgain(w.ctx, bells, 0))
	expect(1, "a bell that was put back")
	n, err := w.store.RingAll(w.ctx)
	w.must(err)
	if n != 1 {
		t.Errorf("after a flush %d ring again", n)
	}
	w.must(w.store.NewGeneration(w.ctx, bells[0]))
	if got := expect(1, "a bell with a new name"); got[0].Generation != 2 {
		t.Errorf("generation %d", got[0].Generation)
	}
	// Waiting for the lease is no attempt; its end wakes the job.
	younger := w.insert(newJob("sales"))
	w.must(w.store.WaitForLease(w.ctx, job, time.Hour, time.Hour))
	w.must(w.store.WaitForLease(w.ctx, younger, time.Hour, time.Hour))
	expect(0, "jobs that wait for the lease")
	w.must(w.store.WakeWaiting(w.ctx, job.ExportID, 0))
	if got := expect(1, "a job that was woken"); got[0].Generation != 3 {
		t.Errorf("generation %d", got[0].Generation)
	}
	if got := w.jobState(job.ID, storage.JobQueued); got.Attempts != 0 || got.Failures != 0 {
		t.Error("waiting was counted")
	}
	w.must(w.store.WakeWaiting(w.ctx, job.ExportID, 0))
	if got := expect(1, "the next one"); got[0].ID != younger.ID {
		t.Error("not the next one was woken")
	}
	// It looks again soon unless an attempt on the export beats.
	holder := w.begin(job)
	w.must(w.store.WaitForLease(w.ctx, younger, time.Hour, time.Hour))
	w.must(w.store.WakeWaiting(w.ctx, job.ExportID, holder.Token-1))
	expect(0, "a job that waits while a newer attempt than the one that ended is at work")
	w.must(w.store.WakeWaiting(w.ctx, job.ExportID, holder.Token))
	expect(1, "a job that waits when the newest attempt has ended")
	for beat, want := range map[string]bool{"now()": false, "now() - interval '1 minute'": true} {
		w.exec("UPDATE fenceline.attempts SET heartbeat_at = "+beat+" WHERE id = $1", holder.ID)
		w.exec("UPDATE fenceline.jobs SET due_at = now(), ring_at = now() + interval '1 day' WHERE id = $1", younger.ID)
		w.must(w.store.WaitForLease(w.ctx, younger, 0, time.Hour))
		got, err := w.store.TakeBells(w.ctx, 10, time.Hour)
		w.must(err)
		if (len(got) == 1) != want {
			t.Errorf("with a heartbeat at %s it looks again soon: %t", beat, len(got) == 1)
		}
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job, _ := w.published("sales")
	for _, c := range []struct {
		scope storage.Scope
		sees  bool
	}{
		{storage.Scope{}, false}, {storage.Scope{Tenant: "globex"}, false}, {storage.Scope{Tenant: "acme"}, true}, {everything, true},
	} {
		_, jobErr := w.store.Job(w.ctx, c.scope, job.ID)
		_, exportErr := w.store.Export(w.ctx, c.scope, job.ExportID)
		_, cancelErr := w.store.CancelJob(w.ctx, c.scope, job.ID)
		exports, err := w.store.Exports(w.ctx, c.scope, storage.ExportFilter{})
		w.must(err)
		jobs, err := w.store.Jobs(w.ctx, c.scope, storage.JobFilter{})
		w.must(err)
		o, err := w.store.Overview(w.ctx, c.scope)
		w.must(err)
		for what, saw := range map[string]bool{
			"job": jobErr == nil, "export": exportErr == nil, "cancel": cancelErr == nil,
			"exports": len(exports.Items) == 1, "jobs": len(jobs.Items) == 1, "overview": o.Tail.Published == 1,
		} {
			if saw != c.sees {
				t.Errorf("%+v sees the %s: %t", c.scope, what, saw)
			}
		}
	}
}

func TestPagesCoverEverythingOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := map[uuid.UUID]bool{}
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		want[w.insert(newJob(key)).ExportID] = true
	}
	after := ""
	for range 10 {
		page, err := w.store.Exports(w.ctx, everything, storage.ExportFilter{Limit: 2, After: after})
		w.must(err)
		for _, e := range page.Items {
			if !want[e.ID] {
				t.Errorf("export %s twice, or a stranger", e.Key)
			}
			delete(want, e.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(want) != 0 {
		t.Errorf("%d exports were on no page", len(want))
	}
	if _, err := w.store.Exports(w.ctx, everything, storage.ExportFilter{After: "x"}); !errors.Is(err, storage.ErrCursor) {
		t.Errorf("a made-up cursor: %v", err)
	}
	if page, err := w.store.Exports(w.ctx, everything, storage.ExportFilter{Search: "%"}); err != nil || len(page.Items) != 0 {
		t.Errorf("a percent sign is a wildcard: %d, %v", len(page.Items), err)
	}
}
