package storage_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage"
)

// manyExports fills the database with more tenants' kinds and publications than one statement of a preview looks at. Most
// exports are reports of acme. All ages end half a day past a whole one, so that no test runs into a day's end.
const manyExports = `SET session_replication_role = replica; SELECT setseed(%f);
	CREATE TEMP TABLE made AS SELECT gen_random_uuid() AS id, gen_random_uuid() AS attempt, i, CASE WHEN i <= 600 THEN 'tiny-' || i WHEN i %% 10 < 7 THEN 'acme' ELSE 't' || i %% 3 END AS tenant,
			CASE WHEN i %% 10 < 6 THEN 'report' ELSE 'invoice' END AS kind, floor(random() * 40) + 0.5 AS age, (random() * 9)::int AS old, random() AS odd
		FROM generate_series(1, 1100) i;
	INSERT INTO fenceline.exports (id, tenant, kind, key, attempt_id, last_token, issued_token, published_at, pinned_at, pinned_by, deleted_at)
		SELECT id, tenant, kind, 'k' || i, CASE WHEN odd > 0.05 THEN attempt END, CASE WHEN odd > 0.05 THEN i * 100 + 50 ELSE 0 END, i * 100 + 50, CASE WHEN odd > 0.05 THEN now() - age * interval '24 hours' END,
			CASE WHEN odd > 0.95 THEN now() END, CASE WHEN odd > 0.95 THEN 'x' END, CASE WHEN odd BETWEEN 0.9 AND 0.95 THEN now() END FROM made;
	INSERT INTO fenceline.attempts (id, tenant, export_id, job_id, number, token, state, verdict, worker, rows, bytes, started_at, heartbeat_at, finished_at)
		SELECT attempt, tenant, id, gen_random_uuid(), 1, i * 100 + 50, 'published', 'published', 'w', 1, 1 + i, now(), now(), now() FROM made WHERE odd > 0.05;
	INSERT INTO fenceline.attempts (id, tenant, export_id, job_id, number, token, state, verdict, worker, rows, bytes, started_at, heartbeat_at, finished_at, replaced_at, pinned_at, pinned_by, doomed_at)
		SELECT gen_random_uuid(), tenant, id, gen_random_uuid(), 1, i * 100 + k, 'superseded', 'superseded', 'w', 1, 1000 + k, now(), now(), now(), now() - (age + (9 - k) * 4) * interval '24 hours',
			CASE WHEN luck < 0.05 THEN now() END, CASE WHEN luck < 0.05 THEN 'x' END, CASE WHEN luck > 0.95 THEN now() END
		FROM made, generate_series(1, old) k, LATERAL (SELECT random() + 0 * k AS luck) l WHERE odd > 0.05;
	INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, payload, payload_version, max_attempts, max_crashes, timeout_seconds, request_hash)
		SELECT gen_random_uuid(), tenant, kind, 'default', id, '{}', 1, 3, 5, 3600, '' FROM made WHERE i %% 17 = 0;
	INSERT INTO fenceline.holds (tenant, kind, export_id, note, placed_by) SELECT tenant, kind, id, 'x', 'x' FROM made WHERE i %% 19 = 0;
	INSERT INTO fenceline.holds (tenant, kind, note, placed_by) VALUES ('t1', 'invoice', 'x', 'x');
	RESET session_replication_role; DROP TABLE made; ANALYZE`

// dueSQL are publications that the clean-up would let go, by the functions it decides with.
const dueSQL = `SELECT a.id::text, a.state = 'published', a.bytes FROM fenceline.attempts a JOIN fenceline.exports e ON e.id = a.export_id AND e.deleted_at IS NULL,
		LATERAL fenceline.kept(a.id, $1) k
	WHERE a.state = 'superseded' AND a.doomed_at IS NULL AND k.until IS NULL
		OR a.state = 'published' AND k.what = 'current' AND k.until <= now() AND NOT EXISTS (SELECT FROM fenceline.jobs j WHERE j.export_id = e.id AND j.state IN ('queued', 'running', 'cancelling'))`

const reader = 60 * time.Hour

// bruteForce makes the change, looks at everything, and takes the change back.
func (w *world) bruteForce(c storage.RetentionChange) (p storage.RetentionPreview) {
	w.t.Helper()
	tx, err := w.conn().Begin(w.ctx)
	w.must(err)
	defer func() { w.must(tx.Rollback(w.ctx)) }()
	before := w.dueNow(tx)
	r := c.Rule
	_, err = tx.Exec(w.ctx, "DELETE FROM fenceline.retention WHERE tenant IS NOT DISTINCT FROM $1 AND kind IS NOT DISTINCT FROM $2", r.Tenant, r.Kind)
	if err == nil && !c.Remove {
		_, err = tx.Exec(w.ctx, "INSERT INTO fenceline.retention (tenant, kind, current_days, superseded_days, superseded_keep, set_by) VALUES ($1, $2, $3, $4, $5, 'x')", r.Tenant, r.Kind, r.CurrentDays, r.SupersededDays, r.SupersededKeep)
	}
	w.must(err)
	for id, a := range w.dueNow(tx) {
		if _, was := before[id]; was {
			continue
		}
		if a.current {
			p.Current, p.CurrentBytes = p.Current+1, p.CurrentBytes+a.bytes
		} else {
			p.Replaced, p.ReplacedBytes = p.Replaced+1, p.ReplacedBytes+a.bytes
		}
	}
	return p
}

type dueAttempt struct {
	current bool
	bytes   int64
}

func (w *world) dueNow(tx pgx.Tx) map[string]dueAttempt {
	w.t.Helper()
	due := map[string]dueAttempt{}
	rows, err := tx.Query(w.ctx, dueSQL, reader.Seconds())
	w.must(err)
	var id string
	var a dueAttempt
	_, err = pgx.ForEachRow(rows, []any{&id, &a.current, &a.bytes}, func() error {
		due[id] = a
		return nil
	})
	w.must(err)
	return due
}

// someRule is a rule for what there is, with numbers that often decide.
func someRule(r *rand.Rand) (rule storage.RetentionRule) {
	pick := func(of ...string) *string {
		if text := of[r.IntN(len(of))]; text != "" {
			return &text
		}
		return nil
	}
	days := func() *int {
		if r.IntN(4) == 0 {
			return nil
		}
		return new(r.IntN(50))
	}
	rule = storage.RetentionRule{Tenant: pick("", "", "acme", "t1", "tiny-7"), Kind: pick("", "report", "invoice"), CurrentDays: days(), SupersededDays: days()}
	if rule.SupersededDays != nil {
		rule.SupersededKeep = r.IntN(6)
	}
	return rule
}

// What a preview counts in pages is what becomes due, by looking at everything before and after.
func TestAPreviewOfManyCountsAllOfThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	w.exec(fmt.Sprintf(manyExports, r.Float64()))
	some := storage.RetentionPreview{}
	for range 30 {
		c := storage.RetentionChange{Rule: someRule(r), Remove: r.IntN(5) == 0}
		got, err := w.store.PreviewRetention(w.ctx, c, reader, time.Hour)
		w.must(err)
		want := w.bruteForce(c)
		want.Exports, want.LookedAt = got.Exports, got.LookedAt
		if got != want {
			t.Errorf("%s, removed %t: %+v\nwant %+v", c.Rule.Name(), c.Remove, got, want)
		}
		if got.LookedAt < got.Current+got.Replaced || got.Current > got.Exports {
			t.Errorf("%s: %+v", c.Rule.Name(), got)
		}
		some.Current, some.Replaced = max(some.Current, got.Current), max(some.Replaced, got.Replaced)
		if r.IntN(2) == 0 && !c.Remove {
			w.must(w.store.SetRetention(w.ctx, c.Rule, byAdmin))
		}
	}
	if some.Current < 10 || some.Replaced < 10 {
		t.Errorf("of all changes none had more than %d current and %d replaced ones: the test tests little", some.Current, some.Replaced)
	}
}

// When only days change, what cannot become due by it is not looked at.
func TestAPreviewLooksAtWhatMayBecomeDue(t *testing.T) {
	t.Parallel()
	w := newSwept(t)
	w.exec(fmt.Sprintf(manyExports, 0.5))
	days := func(current, replaced int) storage.RetentionChange {
		return storage.RetentionChange{Rule: storage.RetentionRule{Kind: new("report"), CurrentDays: &current, SupersededDays: &replaced}}
	}
	w.must(w.store.SetRetention(w.ctx, days(30, 40).Rule, byAdmin))
	for _, c := range []struct {
		current, replaced int
		sql               string
	}{
		{30, 40, "SELECT 0"},
		{35, 45, "SELECT 0"},
		{28, 40, "SELECT count(*) FROM fenceline.exports WHERE deleted_at IS NULL AND kind = 'report' AND published_at BETWEEN now() - interval '720 hours' AND now() - interval '672 hours'"},
		{30, 38, `SELECT count(*) FROM fenceline.attempts a WHERE state = 'superseded' AND replaced_at BETWEEN now() - interval '960 hours' AND now() - interval '912 hours'
			AND EXISTS (SELECT FROM fenceline.exports e WHERE e.tenant = a.tenant AND e.kind = 'report' AND e.deleted_at IS NULL)`},
	} {
		got, err := w.store.PreviewRetention(w.ctx, days(c.current, c.replaced), 0, time.Hour)
		w.must(err)
		if want := w.count(c.sql); got.LookedAt != want {
			t.Errorf("%d and %d days: looked at %d, want %d", c.current, c.replaced, got.LookedAt, want)
		}
	}
}

// When time is over, what was counted so far is answered; when the caller goes, it is an error.
func TestAPreviewThatEndsEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(fmt.Sprintf(manyExports, 0.5))
	c := storage.RetentionChange{Rule: storage.RetentionRule{CurrentDays: new(3)}}
	all, err := w.store.PreviewRetention(w.ctx, c, 0, time.Hour)
	w.must(err)
	ctx, cancel := context.WithCancel(w.ctx)
	statements, goes := 0, false
	slow, err := storage.Open(w.ctx, w.url, storage.Options{Watch: func(asked context.Context, sql string) func(error) {
		if strings.Contains(sql, "e.published_at, e.id, a.bytes") {
			if statements++; statements == 2 && goes {
				cancel()
			} else if statements == 2 {
				<-asked.Done()
			}
		}
		return func(error) {}
	}})
	w.must(err)
	t.Cleanup(slow.Close)
	p, err := slow.PreviewRetention(ctx, c, 0, 2*time.Second)
	if err != nil || !p.Partial || p.Current == 0 || p.Current >= all.Current || p.LookedAt == 0 || p.LookedAt >= all.LookedAt || p.Replaced != 0 {
		t.Errorf("with little time: %+v, %v; of %+v", p, err, all)
	}
	statements, goes = 0, true
	if p, err := slow.PreviewRetention(ctx, c, 0, time.Hour); err == nil {
		t.Errorf("the caller went, and got %+v", p)
	}
}
