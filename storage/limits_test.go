package storage_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func acme(key string) storage.LimitKey { return storage.LimitKey{Tenant: "acme", Key: key} }

// plain inserts plain jobs that wait to be taken.
func (w *world) plain(n int) []storage.Holder {
	w.t.Helper()
	list := make([]storage.Holder, n)
	ids := make([]string, n)
	for i := range list {
		list[i].Job = uuid.Must(uuid.NewV7())
		ids[i] = list[i].Job.String()
	}
	w.exec(`INSERT INTO fenceline.jobs (id, tenant, kind, queue, payload, payload_version, max_attempts, max_crashes, timeout_seconds, request_hash, ready_at)
		SELECT id, 'acme', 'mail', 'default', '{}', 1, 3, 3, 60, '', clock_timestamp() FROM unnest($1::uuid[]) id`, ids)
	return list
}

// runs lets a job run: its holder names the run.
func (w *world) runs(h storage.Holder) storage.Holder {
	w.t.Helper()
	run := uuid.New()
	w.must(w.query(`UPDATE fenceline.jobs SET state = 'running', waiting_for = NULL, ready_at = NULL, run_id = $2, worker_id = $2
		WHERE id = $1 AND state = 'queued' RETURNING generation`, h.Job, run).Scan(&h.Generation))
	h.Run = &run
	return h
}

func (w *world) running(n int) []storage.Holder {
	list := w.plain(n)
	for i := range list {
		list[i] = w.runs(list[i])
	}
	return list
}

// putBack lets a running job wait, as its worker does.
func (w *world) putBack(h storage.Holder, why string, after time.Duration) {
	w.t.Helper()
	w.exec(`UPDATE fenceline.jobs SET state = 'queued', waiting_for = $2, generation = generation + 1, worker_id = NULL, ready_at = NULL,
		due_at = clock_timestamp() + make_interval(secs => $3) WHERE id = $1 AND run_id = $4 AND state = 'running'`, h.Job, why, after.Seconds(), h.Run)
}

func (w *world) end(h storage.Holder) {
	w.t.Helper()
	w.exec("UPDATE fenceline.jobs SET state = 'done', finished_at = clock_timestamp() WHERE id = $1", h.Job)
}

func (w *world) limits(scope storage.Scope, f storage.LimitFilter) []storage.Limit {
	w.t.Helper()
	var all []storage.Limit
	for {
		page, err := w.store.Limits(w.ctx, scope, f)
		w.must(err)
		all = append(all, page.Items...)
		if f.After = page.Next; page.Next == "" {
			return all
		}
	}
}

func TestLimitsAreListedResetAndPruned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.running(4)
	hour := storage.Rate{Every: time.Hour, Burst: 1}
	w.turn(acme("rate"), hour, run[0].Job)
	waits := w.turn(acme("rate"), hour, run[1].Job)
	w.putBack(run[1], "rate", waits.Wait)
	w.turn(storage.LimitKey{Key: "all"}, hour, run[0].Job)
	w.turn(storage.LimitKey{Tenant: "other", Key: "rate"}, hour, uuid.New())
	w.hold(w.store, acme("hold"), run[0])
	w.hold(w.store, acme("hold"), run[2])
	w.putBack(run[2], "overlap", time.Hour)
	for range 3 {
		w.leave("circuit", run[0], storage.CircuitFailed)
	}
	w.enter("circuit", run[3])
	w.putBack(run[3], "circuit", time.Hour)

	text := func(list []storage.Limit) (out []string) {
		for _, l := range list {
			out = append(out, fmt.Sprintf("%s %s/%s %s %d", l.Type, l.Tenant, l.Key, l.State, l.Waiting))
		}
		return out
	}
	want := []string{"circuit acme/circuit open 1", "hold acme/hold held 1", "rate /all busy 0", "rate acme/rate busy 1", "rate other/rate busy 0"}
	for _, size := range []int{0, 1, 2, 4, 5} {
		if got := text(w.limits(everything, storage.LimitFilter{Limit: size})); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %q, want %q", size, got, want)
		}
	}
	if got := text(w.limits(storage.Scope{Tenant: "other"}, storage.LimitFilter{})); !slices.Equal(got, want[4:]) {
		t.Errorf("another tenant sees %q", got)
	}
	if got, err := w.store.Circuits(w.ctx, everything, storage.LimitFilter{}); err != nil || !slices.Equal(text(got.Items), want[:1]) {
		t.Errorf("circuits are %v, %v", got, err)
	}
	if _, err := w.store.Limits(w.ctx, everything, storage.LimitFilter{After: "x"}); !errors.Is(err, storage.ErrCursor) {
		t.Errorf("a wrong cursor: %v", err)
	}

	for _, c := range []struct {
		scope storage.Scope
		key   storage.LimitKey
		woken int64
		err   error
	}{
		{storage.Scope{Tenant: "other"}, acme("rate"), 0, storage.ErrNotFound},
		{storage.Scope{Tenant: "acme"}, storage.LimitKey{Key: "all"}, 0, storage.ErrNotFound},
		{storage.Scope{}, storage.LimitKey{Key: "all"}, 0, storage.ErrNotFound},
		{everything, acme("none"), 0, storage.ErrNotFound},
		{storage.Scope{Tenant: "acme"}, acme("rate"), 1, nil},
		{everything, acme("hold"), 1, nil},
		{everything, acme("circuit"), 1, nil},
		{everything, acme("circuit"), 0, storage.ErrNotFound},
	} {
		if woken, err := w.store.ResetLimit(w.ctx, c.scope, c.key); woken != c.woken || !errors.Is(err, c.err) {
			t.Errorf("reset %+v: %d woken, %v", c.key, woken, err)
		}
	}
	var waiting int
	w.must(w.query("SELECT count(*) FROM fenceline.jobs WHERE state = 'queued' AND due_at > clock_timestamp()").Scan(&waiting))
	if waiting != 0 {
		t.Errorf("%d jobs still wait", waiting)
	}
}

// What is at rest goes, what means something stays.
func TestPruneLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.running(4)
	tick := storage.Rate{Every: time.Microsecond, Burst: 1}
	w.turn(acme("old"), tick, run[0].Job)
	w.turn(acme("new"), tick, run[0].Job)
	w.turn(acme("busy"), storage.Rate{Every: time.Hour, Burst: 1}, run[0].Job)
	w.turn(acme("busy"), storage.Rate{Every: time.Hour, Burst: 1}, run[1].Job)
	w.must(w.store.GiveBackRate(w.ctx, acme("old"), time.Now().Add(-time.Hour)))
	w.exec("UPDATE fenceline.limit_rates SET prune_after = clock_timestamp() - interval '1 second' WHERE key <> 'new'")
	w.hold(w.store, acme("left"), run[2])
	w.hold(w.store, acme("held"), run[3])
	w.exec("UPDATE fenceline.limit_holds SET taken_at = taken_at - interval '1 hour'")
	w.hold(w.store, acme("left"), run[0])
	w.hold(w.store, acme("held"), run[1])
	w.exec("UPDATE fenceline.limit_waiters SET since = since - interval '1 hour'")
	w.end(run[2])
	w.end(run[1]) // waited for "held" no longer
	w.leave("fresh", run[0], storage.CircuitFailed)
	w.leave("stale", run[0], storage.CircuitFailed)
	w.exec("UPDATE fenceline.limit_circuits SET expires_at = clock_timestamp() WHERE key = 'stale'")

	n, err := w.store.PruneLimits(w.ctx)
	w.must(err)
	if n != 5 {
		t.Errorf("pruned %d rows, want the rate, the slot and the hold, the circuit, and the one that waited", n)
	}
	var left []string
	for _, l := range w.limits(everything, storage.LimitFilter{}) {
		left = append(left, l.Key)
	}
	if want := []string{"fresh", "held", "busy", "new"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
	if n, err := w.store.PruneLimits(w.ctx); err != nil || n != 0 {
		t.Errorf("again: %d, %v", n, err)
	}
}

// Behind a pooler pgx does not ask for the types of parameters: every call must do without.
func TestLimitsWithoutTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store = openStore(t, pooled(w.url))
	run := w.running(1)[0]
	hour := storage.Rate{Every: time.Hour, Burst: 1}
	turn := w.turn(acme("r"), hour, run.Job)
	w.turn(acme("r"), hour, uuid.New())
	w.must(w.store.GiveBackRate(w.ctx, acme("r"), turn.Slot))
	_, owner := w.hold(w.store, acme("h"), run)
	w.hold(w.store, acme("h"), storage.Holder{Job: uuid.New()}) // an export's run has no name
	for range 3 {
		w.enter("c", run)
		w.leave("c", run, storage.CircuitFailed)
	}
	if _, _, err := w.store.Cancelled(w.ctx, run.Job); err != nil {
		t.Error(err)
	}
	if list := w.limits(everything, storage.LimitFilter{Limit: 1}); len(list) != 3 {
		t.Errorf("%+v", list)
	}
	w.must(w.store.ReleaseHold(w.ctx, acme("h"), owner))
	if _, err := w.store.ResetLimit(w.ctx, everything, acme("c")); err != nil {
		t.Error(err)
	}
	if _, err := w.store.PruneLimits(w.ctx); err != nil {
		t.Error(err)
	}
}
