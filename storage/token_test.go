package storage_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// Tokens of one export rise in the order in which their transactions commit.
func TestTokensRiseInCommitOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var export string
	for range 12 {
		wg.Go(func() {
			for range 10 {
				job := w.insert(newJob("hot"))
				before := w.issued(job.ExportID.String())
				b := w.begin(job)
				if b.Token <= before {
					t.Errorf("token %d was given out although %d had been committed before", b.Token, before)
				}
				mu.Lock()
				export = job.ExportID.String()
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var distinct, highest int64
	w.must(w.query("SELECT count(DISTINCT token), max(token) FROM fenceline.attempts").Scan(&distinct, &highest))
	if distinct != 120 || highest != w.issued(export) {
		t.Errorf("%d distinct tokens up to %d, the export says %d", distinct, highest, w.issued(export))
	}
}

func (w *world) issued(export string) (n int64) {
	w.t.Helper()
	w.must(w.query("SELECT issued_token FROM fenceline.exports WHERE id = $1", export).Scan(&n))
	return n
}

func TestBeginClaimsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.insert(newJob("sales"))
	var mu sync.Mutex
	var begun int
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			_, err := w.store.BeginAttempt(w.ctx, job.ID, "w")
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				begun++
			} else if !errors.Is(err, storage.ErrNotDue) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if begun != 1 {
		t.Errorf("%d of 10 workers began the job", begun)
	}
}

func TestBeginRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	later := newJob("later")
	later.Delay = 3_600_000_000_000
	if _, err := w.store.BeginAttempt(w.ctx, w.insert(later).ID, "w"); !errors.Is(err, storage.ErrNotDue) {
		t.Errorf("a job that is not due: %v", err)
	}
	done, _ := w.published("done")
	if _, err := w.store.BeginAttempt(w.ctx, done.ID, "w"); !errors.Is(err, storage.ErrNotDue) {
		t.Errorf("a job that has ended: %v", err)
	}
	gone := w.insert(newJob("gone"))
	w.exec("UPDATE fenceline.exports SET deleted_at = now() WHERE id = $1", gone.ExportID)
	if _, err := w.store.BeginAttempt(w.ctx, gone.ID, "w"); !errors.Is(err, storage.ErrGone) {
		t.Errorf("a job of a deleted export: %v", err)
	}
	w.jobState(gone.ID, storage.JobFailed)
}

// A sequence that a restore or logical replication left behind must not hand
// out old tokens; the message says what to run, and that repairs it.
func TestASequenceSetBackIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.published("sales")
	job, _ := w.published("sales")
	w.exec("SELECT setval('fenceline.fence_tokens', 1)")
	next := w.insert(newJob("sales"))
	_, err := w.store.BeginAttempt(w.ctx, next.ID, "w")
	if !errors.Is(err, storage.ErrSequenceBehind) {
		t.Fatalf("got %v", err)
	}
	w.jobState(next.ID, storage.JobQueued)
	_, repair, found := strings.Cut(err.Error(), "run: ")
	if !found {
		t.Fatalf("the error does not say what to run: %v", err)
	}
	w.exec(repair)
	if b := w.begin(next); b.Token <= w.jobToken(job) {
		t.Errorf("token %d after the repair", b.Token)
	}
	// The same for an export that was never given the token that comes now.
	w.exec("SELECT setval('fenceline.fence_tokens', 1)")
	if _, err := w.store.BeginAttempt(w.ctx, w.insert(newJob("another")).ID, "w"); !errors.Is(err, storage.ErrSequenceBehind) {
		t.Errorf("a token of another export: %v", err)
	}
}

func (w *world) jobToken(job storage.Job) (n int64) {
	w.t.Helper()
	w.must(w.query("SELECT max(token) FROM fenceline.attempts WHERE job_id = $1", job.ID).Scan(&n))
	return n
}

// A snapshot is only for the newest token: older data must not come under a
// younger look.
func TestSnapshotIsForTheNewestTokenOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.insert(newJob("sales"))
	old := w.begin(job)
	sn, err := w.store.Snapshot(w.ctx, job.ExportID, old.Token)
	w.must(err)
	defer sn.Close()
	newer := w.begin(w.insert(newJob("sales")))
	_, err = w.store.Snapshot(w.ctx, job.ExportID, old.Token)
	fencedFor(t, err, "newer_token", newer.Token)

	// The old one's view stays what it was.
	rows, err := sn.Query(w.ctx, "SELECT issued_token, NULL, true, 'ü', '\\x01ff'::bytea, now() FROM fenceline.exports", nil)
	w.must(err)
	if !rows.Next() {
		t.Fatal("no row", rows.Err())
	}
	v := rows.Values()
	if string(v[0]) != "1" || v[1] != nil || string(v[2]) != "t" || string(v[3]) != "ü" || string(v[4]) != `\x01ff` || !strings.HasSuffix(string(v[5]), "+00") {
		t.Errorf("values arrive as %q", v)
	}
	if rows.Next() || rows.Err() != nil {
		t.Error("more rows, or an error:", rows.Err())
	}
	if _, err := sn.Query(w.ctx, "DELETE FROM fenceline.outbox", nil); err == nil {
		t.Error("a snapshot can write")
	}
}

// The order of the lease stands beside the token, for people: a lower one wins as well as a higher one.
func TestAttemptsKeepTheOrderOfTheirLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, order := range []storage.LeaseOrder{{Name: "revision", Number: 4211}, {Name: "transition"}, {}} {
		job := w.insert(newJob("sales"))
		b, err := w.store.BeginUnder(w.ctx, job.ID, "w-1", order)
		w.must(err)
		w.must(w.store.Publish(w.ctx, w.seal(b).ID))
		list, err := w.store.Attempts(w.ctx, job.ExportID, 1)
		w.must(err)
		if list[0].Token != b.Token || list[0].LeaseOrder != order {
			t.Errorf("token %d has the order %q, want %d with %q", list[0].Token, list[0].LeaseOrder, b.Token, order)
		}
		said, err := json.Marshal(list[0])
		w.must(err)
		if want := fmt.Sprintf(`"lease_order":{"name":%q,"number":%d}`, order.Name, order.Number); strings.Contains(string(said), want) != (order.Name != "") {
			t.Errorf("of %q JSON says %s", order, said)
		}
		if order.Name != "" {
			w.code("another order", w.tryExec("UPDATE fenceline.attempts SET lease_order_number = 1"), "FL001")
		}
	}
	job := w.insert(newJob("costs")) // a worker of before knows of no order
	var outcome string
	w.must(w.query("SELECT outcome FROM fenceline.begin_attempt($1, $2, 'old')", job.ID, uuid.New()).Scan(&outcome))
	if outcome != "begun" {
		t.Errorf("an older worker is answered %s", outcome)
	}
}
