package web

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// bigWorld fills the world's database as years of use would: n jobs, three
// attempts for each, an export for ten jobs, and counts them by the minute.
func (w *world) bigWorld(n int) {
	w.t.Helper()
	// Rows of the past, past what the triggers allow only today.
	steps := []string{"SET session_replication_role = replica; SET synchronous_commit = off; SET work_mem = '256MB'", fillExports, fillJobs, fillAttempts, fillPointers, fillRest,
		"UPDATE fenceline.stats_roll SET final_to = date_bin('1 hour', now() - interval '7 days', '2000-01-01Z'), rolled_to = date_bin('1 hour', now() - interval '7 days', '2000-01-01Z'), seal_to = NULL, seal_xid = NULL",
		"RESET session_replication_role; SELECT setval('fenceline.fence_tokens', (SELECT max(token) FROM fenceline.attempts)); ANALYZE"}
	all := ""
	for _, step := range steps {
		all += step + ";\n"
	}
	if err := w.store.Exec(w.ctx, fmt.Sprintf("SELECT set_config('big.n', '%d', false);\n", n)+all); err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.Exec(w.ctx, "VACUUM"); err != nil {
		w.t.Fatal(err)
	}
	for more := true; more; {
		more = must(w.store.RollStats(w.ctx))(w.t)
	}
}

// Half of all rows are of the tenant acme, the rest of twenty others.
const fillExports = `INSERT INTO fenceline.exports (id, tenant, kind, key, title, created_at, changed_at)
	SELECT gen_random_uuid(), CASE WHEN i % 2 = 0 THEN 'acme' ELSE 't' || i % 20 END, CASE WHEN i % 5 = 0 THEN 'invoice' ELSE 'report' END, 'key-' || i, 'Export ' || i,
		now() - interval '90 days' * random(), now() - interval '30 days' * random()
	FROM generate_series(1, current_setting('big.n')::int / 10) i`

// Three of four jobs make an export. In a hundred two have failed, in forty ways, one was cancelled; a few wait and run.
const fillJobs = `CREATE TEMP TABLE big_exports AS SELECT row_number() OVER () AS r, id, tenant, kind, title FROM fenceline.exports;
	CREATE UNIQUE INDEX ON big_exports (r);
	CREATE TEMP TABLE big AS SELECT i, x.at, CASE WHEN i > n - 50 THEN 'running' WHEN i > n * 0.998 THEN 'queued' WHEN i % 50 = 7 THEN 'failed' WHEN i % 100 = 8 THEN 'cancelled' ELSE 'done' END AS state,
			i % 4 <> 0 AS exporting, 1 + i % (n / 10) AS r
		FROM (SELECT current_setting('big.n')::int AS n) c, generate_series(1, n) i, LATERAL (SELECT now() - interval '30 days' * ((n - i)::float8 / n) AS at) x;
	INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, title, payload, payload_version, state, due_at, ring_at, ready_at, attempts, max_attempts, max_crashes, timeout_seconds,
			request_hash, requested_by, error, created_at, started_at, finished_at, tags, failed_group, run_id, worker_id)
		SELECT (lpad(to_hex((extract(epoch FROM b.at) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(b.i % 4096), 3, '0') || '8' || substr(md5(b.i::text), 1, 15))::uuid,
			e.tenant, CASE WHEN b.exporting THEN e.kind ELSE 'note' END, CASE WHEN b.i % 10 = 0 THEN 'slow' ELSE 'default' END, CASE WHEN b.exporting THEN e.id END, e.title,
			'{"report":"orders","params":{"from":"2026-01-01"},"format":"csv"}', 1, b.state, b.at, b.at, CASE WHEN b.state = 'queued' AND NOT b.exporting THEN b.at END,
			CASE WHEN b.i % 9 = 0 THEN 2 ELSE 1 END, 3, 3, 3600, 'x', CASE WHEN b.i % 3 = 0 THEN 'Nadia' ELSE 'token app' END, f.error, b.at,
			CASE WHEN b.state <> 'queued' THEN b.at + interval '1 second' * random() END, CASE WHEN b.state NOT IN ('queued', 'running') THEN b.at + interval '1 second' * (1 + 30 * random()) END,
			CASE WHEN b.i % 7 = 0 THEN ARRAY['month-end', 'team-' || b.i % 30] ELSE '{}' END,
			fenceline.error_group(CASE WHEN b.exporting THEN e.kind ELSE 'note' END, f.error), CASE WHEN b.state = 'running' THEN gen_random_uuid() END, CASE WHEN b.state = 'running' THEN gen_random_uuid() END
		FROM big b JOIN big_exports e USING (r), LATERAL (SELECT CASE WHEN b.state = 'failed' THEN (ARRAY['relation "x" does not exist', 'division by zero', 'timeout after 30 s', 'no font for it'])[1 + b.i / 50 % 4] || repeat('!', b.i / 200 % 10) END AS error) f`

// Four for each job that makes an export; only the last one of a job was ever published.
const fillAttempts = `INSERT INTO fenceline.attempts (id, tenant, export_id, job_id, number, token, state, verdict, worker, rows, bytes, started_at, heartbeat_at, finished_at, replaced_at, deleted_at, error, reason)
	SELECT gen_random_uuid(), j.tenant, j.export_id, j.id, k, row_number() OVER (ORDER BY j.id, k), s.state, CASE WHEN s.state IN ('running') THEN NULL ELSE v.verdict END, 'w-' || k, 1000, 200000, j.started_at, j.started_at,
		CASE WHEN s.state <> 'running' THEN coalesce(j.finished_at, j.started_at) END, CASE WHEN v.verdict = 'superseded' THEN j.finished_at + interval '1 hour' END, CASE WHEN s.state = 'deleted' THEN now() END,
		CASE WHEN v.verdict = 'failed' THEN 'connection reset' END, v.verdict
	FROM fenceline.jobs j, generate_series(1, 4) k,
		LATERAL (SELECT CASE WHEN k = 4 AND j.state = 'done' THEN 'superseded' WHEN k = 3 AND j.attempts = 2 THEN 'fenced' ELSE 'failed' END AS verdict) v,
		LATERAL (SELECT CASE WHEN k = 4 AND j.state = 'running' THEN 'running' WHEN v.verdict = 'superseded' THEN 'superseded' WHEN j.created_at > now() - interval '8 hours' THEN v.verdict ELSE 'deleted' END AS state) s
	WHERE j.export_id IS NOT NULL AND j.state <> 'queued'`

const fillPointers = `CREATE TEMP TABLE current AS SELECT DISTINCT ON (export_id) export_id, id, token, finished_at FROM fenceline.attempts WHERE state = 'superseded' ORDER BY export_id, token DESC;
	UPDATE fenceline.attempts a SET state = 'published', verdict = 'published', replaced_at = NULL FROM current c WHERE a.id = c.id;
	UPDATE fenceline.attempts SET state = 'deleted', deleted_at = now() WHERE state = 'superseded' AND replaced_at < now() - interval '2 days';
	UPDATE fenceline.exports e SET attempt_id = c.id, last_token = c.token, issued_token = c.token + 4, published_at = c.finished_at, changed_at = c.finished_at FROM current c WHERE c.export_id = e.id;
	UPDATE fenceline.exports e SET issued_token = greatest(e.issued_token, m.t) FROM (SELECT export_id, max(token) AS t FROM fenceline.attempts GROUP BY 1) m WHERE m.export_id = e.id;
	INSERT INTO fenceline.files (attempt_id, ordinal, name, object, format, media_type, size, sha256, rows)
		SELECT id, 1, 'orders.csv', '1-orders.csv', 'csv', 'text/csv', 200000, sha256(id::text::bytea), 1000 FROM fenceline.attempts WHERE state IN ('published', 'superseded');
	UPDATE fenceline.jobs j SET attempt_id = a.id FROM fenceline.attempts a WHERE a.job_id = j.id AND a.number = 4 AND j.state = 'running'`

const fillRest = `INSERT INTO fenceline.batches (id, tenant, key, title, created_at, settled_at) SELECT gen_random_uuid(), 'acme', 'b' || i, 'Batch ' || i, now() - i * interval '1 hour', now() FROM generate_series(1, 500) i;
	UPDATE fenceline.jobs j SET batch_id = b.id FROM (SELECT id, row_number() OVER (ORDER BY id) AS r FROM fenceline.batches) b, (SELECT id, row_number() OVER (ORDER BY id) AS r FROM fenceline.jobs
		WHERE tenant = 'acme' AND state IN ('done', 'failed') LIMIT current_setting('big.n')::int / 50) x WHERE x.id = j.id AND b.r = 1 + x.r % 500;
	INSERT INTO fenceline.audit (id, at, actor, actor_kind, tenant, action, object_kind, object_id)
		SELECT gen_random_uuid(), now() - interval '60 days' * random(), CASE WHEN i % 3 = 0 THEN 'Nadia' ELSE 'app' END, 'user', CASE WHEN i % 2 = 0 THEN 'acme' ELSE 't' || i % 20 END, 'export.downloaded', 'export', i::text
		FROM generate_series(1, current_setting('big.n')::int / 5) i;
	INSERT INTO fenceline.workers (id, name, host, pid, version, queues, concurrency) SELECT gen_random_uuid(), 'w-' || i, 'host', i, 'v1', '{"default": 1}', 20 FROM generate_series(1, 20) i;
	INSERT INTO fenceline.schedules (name, cron, zone, tenant, kind, payload) SELECT 'nightly-' || i, '0 6 * * *', 'UTC', 'acme', 'report', '{"report":"orders","params":{"from":"2026-01-01"},"format":"csv"}' FROM generate_series(1, 200) i;
	INSERT INTO fenceline.schedule_runs (tenant, outcome, schedule, fire_at, fire_key) SELECT 'acme', 'skipped', 'nightly-' || i, now() - d * interval '1 day', (now() - d * interval '1 day')::text FROM generate_series(1, 200) i, generate_series(1, 60) d;
	INSERT INTO fenceline.invoice_series (tenant, name, prefix, digits, first, next) VALUES ('acme', 'INV', 'INV-', 6, 1, 5001);
	INSERT INTO fenceline.invoices (id, tenant, series, n, number, document) SELECT gen_random_uuid(), 'acme', 'INV', i, 'INV-' || lpad(i::text, 6, '0'), '{}' FROM generate_series(1, 5000) i;
	INSERT INTO fenceline.sweeps (worker, started_at, finished_at, deleted, bytes) SELECT 'w-1', now() - i * interval '1 hour', now() - i * interval '1 hour', 10, 1000000 FROM generate_series(1, 500) i`

// samples are an address for each GET route, by its path in the table of routes.
// A route of which there is none here fails the tests, so that each new page is measured.
func (w *world) samples() map[string][]string {
	w.t.Helper()
	one := func(sql string) string {
		w.t.Helper()
		var id uuid.UUID
		if err := w.store.Transaction(w.ctx, func(tx storage.Tx) error { return tx.Raw(sql).Row().Scan(&id) }); err != nil {
			w.t.Fatalf("%s: %v", sql, err)
		}
		return id.String()
	}
	export := one("SELECT id FROM fenceline.exports WHERE tenant = 'acme' AND attempt_id IS NOT NULL ORDER BY changed_at DESC LIMIT 1")
	job := one("SELECT id FROM fenceline.jobs WHERE tenant = 'acme' AND state = 'failed' AND export_id IS NOT NULL ORDER BY id DESC LIMIT 1")
	batch := one("SELECT id FROM fenceline.batches LIMIT 1")
	group := one("SELECT failed_group FROM fenceline.jobs WHERE state = 'failed' ORDER BY id DESC LIMIT 1")
	return map[string][]string{
		"/healthz": {"/healthz"}, "/readyz": {"/readyz"}, "/signin": {"/signin"}, "/static/{file}": {w.server.assets.urls["app.css"]}, "/metrics": {"/metrics"},
		"/{$}": {"/", "/?window=day", "/?window=week"}, "/exports": {"/exports", "/exports?q=Export+9999", "/exports?kind=invoice"}, "/exports/{id}": {"/exports/" + export},
		"/exports/{id}/delete": {"/exports/" + export + "/delete"}, "/invoices": {"/invoices"}, "/invoices/series/{name}": {"/invoices/series/INV?tenant=acme"},
		"/jobs": {"/jobs", "/jobs?state=failed", "/jobs?state=done&kind=note", "/jobs?tag=team-3", "/jobs?tag=month-end", "/jobs?tag=month-end&state=failed", "/jobs?state=queued"}, "/jobs/{id}": {"/jobs/" + job},
		"/jobs/bulk": {"/jobs/bulk?do=retry", "/jobs/bulk?do=cancel"}, "/new": {"/new"}, "/new/{report}": {"/new/orders"}, "/cleanup": {"/cleanup"}, "/lab": {"/lab"},
		"/failed": {"/failed", "/failed?kind=report", "/failed?tag=month-end", "/failed?tenant=acme"}, "/failed/{group}": {"/failed/" + group}, "/failed/all": {"/failed/all?do=retry", "/failed/all?do=forget&kind=note"},
		"/queues": {"/queues"}, "/batches": {"/batches"}, "/batches/{id}": {"/batches/" + batch}, "/schedules": {"/schedules"}, "/schedules/-/new": {"/schedules/-/new"},
		"/schedules/{name}": {"/schedules/nightly-7"}, "/schedules/{name}/edit": {"/schedules/nightly-7/edit"},
		"/api/v1/jobs": {"/api/v1/jobs", "/api/v1/jobs?state=failed"}, "/api/v1/jobs/{id}": {"/api/v1/jobs/" + job}, "/api/v1/failed": {"/api/v1/failed"},
		"/api/v1/failed/groups": {"/api/v1/failed/groups"}, "/api/v1/queues": {"/api/v1/queues"}, "/api/v1/lab": {"/api/v1/lab"}, "/api/v1/workers": {"/api/v1/workers"}, "/api/v1/exports": {"/api/v1/exports"},
		"/api/v1/exports/{id}": {"/api/v1/exports/" + export}, "/api/v1/reports": {"/api/v1/reports"}, "/api/v1/invoices/schema": {"/api/v1/invoices/schema"},
		"/api/v1/series/{name}": {"/api/v1/series/INV?tenant=acme"}, "/api/v1/batches": {"/api/v1/batches"}, "/api/v1/batches/{id}": {"/api/v1/batches/" + batch},
		"/api/v1/schedules": {"/api/v1/schedules"}, "/api/v1/schedules/{name}": {"/api/v1/schedules/nightly-7"}, "/api/v1/schedules/{name}/runs": {"/api/v1/schedules/nightly-7/runs"},
		"/audit": {"/audit", "/audit?actor=Nadia"}, "/targets": {"/targets"}, "/targets/new": {"/targets/new"}, "/api/v1/audit": {"/api/v1/audit"}, "/api/v1/exports/{id}/links": {"/api/v1/exports/" + export + "/links"},
		"/api/v1/sweep/deletions": {"/api/v1/sweep/deletions"}, "/api/v1/sweep/plan": {"/api/v1/sweep/plan"}, "/api/v1/sweeps": {"/api/v1/sweeps"},
		"/settings": {"/settings"}, "/settings/users": {"/settings/users"}, "/settings/users/{id}": {"/settings/users/" + one("SELECT id FROM fenceline.users LIMIT 1")}, "/settings/tokens": {"/settings/tokens"},
		"/settings/tenants": {"/settings/tenants"}, "/settings/retention": {"/settings/retention"},
		"/settings/retention/change": {"/settings/retention/change?kind=report&current_days=29", "/settings/retention/change?kind=report&superseded_days=7"}, "/settings/kept": {"/settings/kept"}, "/settings/kept/hold": {"/settings/kept/hold?tenant=acme", "/settings/kept/hold?tenant=acme&kind=report"}, "/settings/deleted": {"/settings/deleted"},
		"/exports/{id}/keep": {"/exports/" + export + "/keep"}, "/api/v1/retention/in-force": {"/api/v1/retention/in-force"}, "/api/v1/retention/kept": {"/api/v1/retention/kept"}, "/api/v1/retention/deleted": {"/api/v1/retention/deleted"}, "/settings/presets": {"/settings/presets"},
		"/api/v1/notify/targets": {"/api/v1/notify/targets"}, "/api/v1/notify/deliveries": {"/api/v1/notify/deliveries"},
		"/api/docs": {"/api/docs"}, "/api/openapi.json": {"/api/openapi.json"}, "/api/v1/retention": {"/api/v1/retention"},
	}
}

// notMeasured are the GET routes without a sample, and why.
func notMeasured() map[string]string {
	return map[string]string{
		"/events": "does not end", "/exports/{id}/files/{name}": "is a file", "/api/v1/exports/{id}/files/{name}": "is a file", "/batches/{id}/zip": "is files",
		"/exports/{id}/attempts/{attempt}/files/{name}": "is a file", "/api/v1/exports/{id}/attempts/{attempt}/files/{name}": "is a file", "/api/v1/events": "does not end", "/api/v1/jobs/{id}/events": "does not end",
		"/l/{secret}": "is for whoever holds a secret", "/l/{secret}/file": "is a file", "/targets/{id}": "is one row",
		"/signin/provider": "leads elsewhere", "/signin/callback": "comes from elsewhere",
		"/api/v1/notify/targets/{id}": "is one row", "/api/v1/notify/deliveries/{id}": "is one row",
	}
}

// sampled is each GET route of the table with its addresses.
func (w *world) sampled(t testing.TB) map[string][]string {
	t.Helper()
	all, skip := w.samples(), notMeasured()
	found := map[string][]string{}
	for _, rt := range w.server.routes() {
		if rt.method != "GET" || skip[rt.path] != "" {
			continue
		}
		if len(all[rt.path]) == 0 {
			t.Errorf("GET %s has no sample here: name an address of it, or say in notMeasured why not", rt.path)
		}
		found[rt.path] = all[rt.path]
	}
	return found
}
