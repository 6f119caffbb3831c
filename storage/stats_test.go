package storage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceline/fenceline/storage"
)

// ledger is what the test itself did.
type ledger struct{ published, done, failed, fenced, waits atomic.Int64 }

// fast makes the database's clock run, for those who connect by the answered
// address, sixty times as fast: a minute takes a second.
func (w *world) fast() string {
	w.t.Helper()
	w.exec("CREATE SCHEMA fake")
	base := time.Now().UTC().Format(time.RFC3339Nano)
	w.exec(fmt.Sprintf(`CREATE FUNCTION fake.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
		$$ SELECT timestamptz '%s' + (pg_catalog.clock_timestamp() - timestamptz '%s') * 60 $$`, base, base))
	u, err := url.Parse(w.url)
	w.must(err)
	q := u.Query()
	q.Set("search_path", "fake,pg_catalog")
	u.RawQuery = q.Encode()
	return u.String()
}

// statsWorker does work of every kind and writes down what.
type statsWorker struct {
	*world
	ledger *ledger
	pool   *pgxpool.Pool
	queue  string
	id     uuid.UUID
}

func (w *statsWorker) plain() (job, run uuid.UUID) {
	n := newJob("")
	n.Queue, n.Tenant, n.MaxAttempts = w.queue, w.queue, 1
	w.insert(n)
	return w.claim()
}

func (w *statsWorker) claim() (job, run uuid.UUID) {
	run = uuid.New()
	for {
		turned, err := w.store.Turn(w.ctx, w.id, nil, []storage.Want{{Queue: w.queue, Runs: []uuid.UUID{run}}})
		w.must(err)
		if len(turned.Claimed) == 1 {
			return turned.Claimed[0].Job.ID, run
		}
	}
}

func (w *statsWorker) end(job, run uuid.UUID, outcome string) {
	_, err := w.store.Turn(w.ctx, w.id, []storage.Finish{{Job: job, Run: run, Outcome: outcome, Reason: "error", Error: "no", Final: true}}, nil)
	w.must(err)
}

// late ends a run in a transaction that commits only when its minute was counted.
func (w *statsWorker) late(job, run uuid.UUID) {
	tx, err := w.pool.Begin(w.ctx)
	w.must(err)
	ends, err := json.Marshal(map[uuid.UUID]storage.Finish{run: {Job: job, Outcome: "done"}})
	w.must(err)
	var counted bool
	_, err = tx.Exec(w.ctx, "SELECT fenceline.finish_runs($1)", string(ends))
	w.must(err)
	for !counted {
		w.must(w.pool.QueryRow(w.ctx, "SELECT rolled_to > $1 FROM fenceline.stats_roll", w.finished(tx, job)).Scan(&counted))
	}
	w.must(tx.Commit(w.ctx))
}

func (w *statsWorker) finished(tx interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, job uuid.UUID) (at time.Time) {
	w.must(tx.QueryRow(w.ctx, "SELECT finished_at FROM fenceline.jobs WHERE id = $1", job).Scan(&at))
	return at
}

func (w *statsWorker) step(i int) {
	count := func(numbers ...*atomic.Int64) {
		for _, n := range numbers {
			n.Add(1)
		}
	}
	l := w.ledger
	switch i % 6 {
	case 0, 1:
		n := newJob(fmt.Sprint(w.queue, i))
		n.Tenant = w.queue
		job := w.insert(n)
		if i%6 == 1 {
			_, err := w.store.EndAttempt(w.ctx, w.begin(job).ID, storage.Ending{State: storage.AttemptFenced, Reason: "newer_token"})
			w.must(err)
			count(&l.fenced)
		} else {
			count(&l.waits)
		}
		w.must(w.store.Publish(w.ctx, w.seal(w.begin(job)).ID))
		count(&l.published)
	case 2:
		job, run := w.plain()
		w.end(job, run, "done")
		count(&l.done, &l.waits)
	case 3:
		job, run := w.plain()
		w.end(job, run, "failed")
		_, err := w.store.RetryJob(w.ctx, everything, job)
		w.must(err)
		job, run = w.claim()
		w.end(job, run, "done")
		count(&l.failed, &l.waits, &l.done)
	case 4:
		job, run := w.plain()
		w.end(job, run, "failed")
		w.must(w.store.ForgetJob(w.ctx, everything, job))
		count(&l.failed, &l.waits)
	case 5:
		job, run := w.plain()
		w.late(job, run)
		count(&l.done, &l.waits)
	}
}

const rollFast = "SELECT fenceline.roll_stats(interval '2 minutes')" // two seconds

// What is kept equals what happened, although rows commit late, vanish and come
// back, and rollers die and work at once.
func TestStatsAreExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := w.fast()
	w.store = openStore(t, address)
	pool, err := pgxpool.New(w.ctx, address)
	w.must(err)
	t.Cleanup(pool.Close)
	var l ledger
	working, stop := context.WithCancel(w.ctx)
	var rollers, workers sync.WaitGroup
	for n := range 2 {
		rollers.Go(func() { rollUntil(t, working, pool, n == 0) })
	}
	rollers.Go(func() {
		for working.Err() == nil {
			if _, err := w.store.Prune(w.ctx, 0, 24*time.Hour); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for n := range 3 {
		workers.Go(func() {
			s := &statsWorker{w, &l, pool, fmt.Sprintf("t%d", n), uuid.New()}
			for i := range 18 {
				s.step(i)
			}
		})
	}
	workers.Wait()
	stop()
	rollers.Wait()
	w.sealed(pool)
	for _, table := range []string{"stats_minutes", "stats_hours"} {
		for _, which := range []string{"tenant = ''", "tenant <> ''"} {
			var got [5]int64
			w.must(pool.QueryRow(w.ctx, "SELECT sum(published)::bigint, sum(done)::bigint, sum(failed)::bigint, sum(fenced)::bigint, sum(waits)::bigint FROM fenceline."+table+" WHERE "+which).
				Scan(&got[0], &got[1], &got[2], &got[3], &got[4]))
			if want := [5]int64{l.published.Load(), l.done.Load(), l.failed.Load(), l.fenced.Load(), l.waits.Load()}; got != want {
				t.Errorf("%s of %s hold published, done, failed, fenced, waits %v, want %v", table, which, got, want)
			}
		}
	}
	var wrong int
	w.must(pool.QueryRow(w.ctx, "SELECT count(*) FROM fenceline.stats_minutes m WHERE waits <> (SELECT sum(b) FROM unnest(wait_buckets) b)").Scan(&wrong))
	if wrong != 0 {
		t.Errorf("in %d rows the buckets do not add up to the waits", wrong)
	}
}

// rollUntil rolls until ctx ends. A roller that dies does all of it and loses it.
func rollUntil(t *testing.T, ctx context.Context, pool *pgxpool.Pool, dies bool) {
	for ctx.Err() == nil {
		err := pgx.BeginFunc(context.WithoutCancel(ctx), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(context.WithoutCancel(ctx), rollFast); err != nil {
				t.Errorf("roll: %v", err)
			}
			if dies {
				return context.Canceled
			}
			return nil
		})
		if err != nil && !dies {
			t.Error(err)
		}
	}
}

// sealed rolls until everything that has ended is counted for good.
func (w *world) sealed(pool *pgxpool.Pool) {
	w.t.Helper()
	var now time.Time
	w.must(pool.QueryRow(w.ctx, "SELECT clock_timestamp()").Scan(&now))
	deadline := time.Now().Add(2 * time.Minute)
	for final := false; !final; {
		if time.Now().After(deadline) {
			w.t.Fatal("the numbers did not become final in two minutes")
		}
		_, err := pool.Exec(w.ctx, rollFast)
		w.must(err)
		w.must(pool.QueryRow(w.ctx, "SELECT final_to > $1 FROM fenceline.stats_roll", now).Scan(&final))
	}
}
