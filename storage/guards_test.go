package storage_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceline/fenceline/storage"
)

// The database is the last guard, also against our own mistakes: each of these
// is what broken code could send, in plain SQL.
func TestTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Export e: token 1 superseded, 2 published, 3 running, 4 sealed; f: 5 fenced, 6 published by another job.
	first, one := w.published("e")
	second, two := w.published("e")
	running := w.begin(w.insert(newJob("e")))
	sealed := w.seal(w.begin(w.insert(newJob("e"))))
	loser := w.insert(newJob("f"))
	five := w.begin(loser)
	other, six := w.published("f")
	w.seal(five)
	fencedFor(t, w.store.Publish(w.ctx, five.ID), "newer_job", six.Token)
	w.must(w.store.Audit(w.ctx, deed("Nadia", "acme", "job.cancelled", first.ID.String())))
	w.link(two)

	w.user("Ada", "", storage.RoleAdmin)
	w.exec(`INSERT INTO fenceline.sweep_deletions (run_id, attempt_id, export_id, tenant, token, state, files, recorded, bytes, why)
		VALUES (1, $1, $2, 'acme', 5, 'fenced', 1, 5, 5, 'a test')`, five.ID, other.ExportID)

	w.exec("UPDATE fenceline.epoch SET fingerprint = fenceline.database_here()") // as the first start does

	const guard, unique, foreign, check = "FL001", "23505", "23503", "23514"
	for _, c := range []struct {
		name string
		code string
		sql  string
		args []any
	}{
		{"a lower last_token", guard, "UPDATE fenceline.exports SET last_token = 1 WHERE id = $1", []any{first.ExportID}},
		{"a lower issued_token", "FL002", "UPDATE fenceline.exports SET issued_token = 3 WHERE id = $1", []any{first.ExportID}},
		{"last_token above issued_token", check, "UPDATE fenceline.exports SET last_token = 1000 WHERE id = $1", []any{first.ExportID}},
		{"the pointer back to an older attempt", guard, "UPDATE fenceline.exports SET attempt_id = $2, last_token = $3 WHERE id = $1", []any{first.ExportID, one.ID, one.Token}},
		{"the pointer to another attempt with the same token", guard, "UPDATE fenceline.exports SET attempt_id = $2 WHERE id = $1", []any{first.ExportID, one.ID}},
		{"the pointer to nothing", guard, "UPDATE fenceline.exports SET attempt_id = NULL, published_at = NULL, last_token = 0 WHERE id = $1", []any{first.ExportID}},
		{"the pointer to a sealed attempt", guard, "UPDATE fenceline.exports SET attempt_id = $2, last_token = $3 WHERE id = $1", []any{first.ExportID, sealed.ID, sealed.Token}},
		{"a token that is not the attempt's", foreign, "UPDATE fenceline.exports SET last_token = $2 WHERE id = $1", []any{first.ExportID, sealed.Token}},
		{"the pointer to an attempt of another export", foreign, `UPDATE fenceline.exports SET attempt_id = $2, last_token = $3, issued_token = $3 WHERE id = $1`,
			[]any{first.ExportID, six.ID, six.Token}},
		{"another key for an export", guard, "UPDATE fenceline.exports SET key = 'x' WHERE id = $1", []any{first.ExportID}},
		{"an export that begins with tokens", guard, "INSERT INTO fenceline.exports (tenant, kind, key, issued_token) VALUES ('a', 'b', 'c', 7)", nil},
		{"an export to be deleted", guard, "DELETE FROM fenceline.exports WHERE id = $1", []any{first.ExportID}},

		{"an export that expired and is not deleted", check, "UPDATE fenceline.exports SET expired = true WHERE id = $1", []any{first.ExportID}},
		{"a second export of a key", unique, "INSERT INTO fenceline.exports (tenant, kind, key) SELECT tenant, kind, key FROM fenceline.exports WHERE id = $1", []any{first.ExportID}},
		{"a pin of nobody", check, "UPDATE fenceline.exports SET pinned_at = now() WHERE id = $1", []any{first.ExportID}},
		{"a pin of a publication by nobody", check, "UPDATE fenceline.attempts SET pinned_at = now() WHERE id = $1", []any{one.ID}},
		{"a hold that is over when it begins", guard, "INSERT INTO fenceline.holds (tenant, note, placed_by, released_at, released_by) VALUES ('acme', 'n', 'a', now(), 'a')", nil},
		{"a hold on an export of another tenant", guard, "INSERT INTO fenceline.holds (tenant, kind, export_id, note, placed_by) VALUES ('globex', 'report', $1, 'n', 'a')", []any{first.ExportID}},
		{"a second rule for everything", unique, "INSERT INTO fenceline.retention (set_by) VALUES ('a'), ('b')", nil},

		{"a user without a role", "23502", "INSERT INTO fenceline.users (name) VALUES ('Eve')", nil},
		{"a password that is not hashed", check, "UPDATE fenceline.users SET password = 'hunter2', password_at = now()", nil},
		{"a password since never", check, "UPDATE fenceline.users SET password_at = NULL", nil},
		{"the last admin to be demoted", "FL011", "UPDATE fenceline.users SET role = 'operator'", nil},
		{"the last admin to be of a tenant", "FL011", "UPDATE fenceline.users SET tenant = 'acme'", nil},
		{"the last admin to be disabled", "FL011", "UPDATE fenceline.users SET disabled_at = now()", nil},
		{"the last admin to be deleted", "FL011", "DELETE FROM fenceline.users", nil},
		{"one identity of two users", unique, `INSERT INTO fenceline.identities (issuer, subject, user_id) SELECT 'i', 's', id FROM fenceline.users, generate_series(1, 2)`, nil},
		{"a user of an unknown role", check, "INSERT INTO fenceline.users (name, role) VALUES ('Eve', 'owner')", nil},
		{"a token with an unknown verb", check, "INSERT INTO fenceline.api_tokens (name, secret_hash, verbs) VALUES ('ci', sha256('x'), '{view,rule}')", nil},
		{"a token that may do nothing", check, "INSERT INTO fenceline.api_tokens (name, secret_hash, verbs) VALUES ('ci', sha256('x'), '{}')", nil},

		{"an epoch to be deleted", guard, "DELETE FROM fenceline.epoch", nil},
		{"another epoch without a recovery", guard, "UPDATE fenceline.epoch SET id = gen_random_uuid(), number = number + 1", nil},
		{"a second epoch", unique, "INSERT INTO fenceline.epoch DEFAULT VALUES", nil},
		{"another database for an epoch", guard, "UPDATE fenceline.epoch SET fingerprint = '1 2 3'", nil},
		{"beats that go back", guard, "UPDATE fenceline.epoch SET beats = -1", nil},
		{"a confirmed beat that was not made", check, "UPDATE fenceline.epoch SET confirmed = beats + 1", nil},
		{"an upload of an attempt that does not run", guard, "INSERT INTO fenceline.uploads (attempt_id, upload_id, object) VALUES ($1, 'u', '1-a')", []any{sealed.ID}},
		{"an upload of nobody", guard, "INSERT INTO fenceline.uploads (attempt_id, upload_id, object) VALUES (gen_random_uuid(), 'u', '1-a')", nil},
		{"a recovery without a next epoch", check, "UPDATE fenceline.epoch SET state = 'recovering'", nil},
		{"unfinished attempts to be condemned without a recovery", guard, "SELECT fenceline.condemn_unfinished(10)", nil},
		{"files to be adopted without a recovery", guard, "SELECT fenceline.adopt_attempt('{}')", nil},

		{"running to published", guard, "UPDATE fenceline.attempts SET state = 'published', finished_at = now() WHERE id = $1", []any{running.ID}},
		{"a second published attempt of an export", unique, "UPDATE fenceline.attempts SET state = 'published', finished_at = now() WHERE id = $1", []any{sealed.ID}},
		{"the current attempt to superseded", guard, "UPDATE fenceline.attempts SET state = 'superseded' WHERE id = $1", []any{two.ID}},
		{"the current attempt to deleted", guard, "UPDATE fenceline.attempts SET state = 'deleted' WHERE id = $1", []any{two.ID}},
		{"superseded to published", guard, "UPDATE fenceline.attempts SET state = 'published' WHERE id = $1", []any{one.ID}},
		{"fenced to sealed", guard, "UPDATE fenceline.attempts SET state = 'sealed', finished_at = NULL WHERE id = $1", []any{five.ID}},
		{"a sealed attempt with other rows", guard, "UPDATE fenceline.attempts SET rows = 9 WHERE id = $1", []any{sealed.ID}},
		{"another tenant for an attempt", guard, "UPDATE fenceline.attempts SET tenant = 'globex' WHERE id = $1", []any{running.ID}},
		{"another token for an attempt", guard, "UPDATE fenceline.attempts SET token = 99 WHERE id = $1", []any{running.ID}},
		{"a running attempt without files to sealed", guard, "UPDATE fenceline.attempts SET state = 'sealed' WHERE id = $1", []any{running.ID}},
		{"an attempt that begins sealed", guard, `INSERT INTO fenceline.attempts (id, export_id, job_id, number, token, state, worker)
			VALUES (gen_random_uuid(), $1, $2, 9, 900, 'sealed', 'w')`, []any{first.ExportID, first.ID}},
		{"the same token twice", unique, `INSERT INTO fenceline.attempts (id, export_id, job_id, number, token, worker)
			VALUES (gen_random_uuid(), $1, $2, 9, $3, 'w')`, []any{first.ExportID, first.ID, one.Token}},
		{"an attempt to be deleted", guard, "DELETE FROM fenceline.attempts WHERE id = $1", []any{five.ID}},

		{"done to queued", guard, "UPDATE fenceline.jobs SET state = 'queued', finished_at = NULL WHERE id = $1", []any{second.ID}},
		{"superseded to running", guard, "UPDATE fenceline.jobs SET state = 'running', finished_at = NULL WHERE id = $1", []any{loser.ID}},
		{"another export for a job", guard, "UPDATE fenceline.jobs SET export_id = $2 WHERE id = $1", []any{first.ID, other.ExportID}},
		{"a job to be deleted that attempts are of", foreign, "DELETE FROM fenceline.jobs WHERE id = $1", []any{first.ID}},
		{"a job that begins done", guard, `INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, payload, payload_version, max_attempts,
			max_crashes, timeout_seconds, request_hash, state, finished_at) VALUES (gen_random_uuid(), 'a', 'b', 'c', $1, '{}', 1, 1, 1, 1, '', 'done', now())`, []any{first.ExportID}},

		{"a deletion on record to be changed", guard, "UPDATE fenceline.sweep_deletions SET bytes = 0", nil},
		{"a deletion on record to go", guard, "DELETE FROM fenceline.sweep_deletions", nil},
		{"a deletion without a reason", check, `INSERT INTO fenceline.sweep_deletions (run_id, attempt_id, export_id, tenant, token, state, files, recorded, bytes, why)
			VALUES (1, $1, $2, 'acme', 1, 'failed', 0, 0, 0, '')`, []any{five.ID, first.ExportID}},

		{"a file to be changed", guard, "UPDATE fenceline.files SET size = 1 WHERE attempt_id = $1", []any{two.ID}},
		{"a file to be deleted", guard, "DELETE FROM fenceline.files WHERE attempt_id = $1", []any{two.ID}},
		{"a file for a published attempt", guard, `INSERT INTO fenceline.files (attempt_id, ordinal, name, object, format, media_type, size, sha256)
			VALUES ($1, 2, 'b', '2-b', 'csv', 'text/csv', 1, sha256(''))`, []any{two.ID}},
		{"an object name with a path", check, `INSERT INTO fenceline.files (attempt_id, ordinal, name, object, format, media_type, size, sha256)
			VALUES ($1, 2, 'b', '../b', 'csv', 'text/csv', 1, sha256(''))`, []any{running.ID}},
		{"an audit entry to be changed", guard, "UPDATE fenceline.audit SET actor = 'Gus'", nil},
		{"an audit entry to be deleted", guard, "DELETE FROM fenceline.audit", nil},
		{"a young audit entry to be deleted, whatever is set", guard, "WITH x AS MATERIALIZED (SELECT set_config('fenceline.forgets_audit', 'yes', true)) DELETE FROM fenceline.audit USING x", nil},
		{"the audit log to be emptied", guard, "TRUNCATE fenceline.audit", nil},
		{"an audit entry of an unknown kind of actor", check, "INSERT INTO fenceline.audit (id, actor, actor_kind, action) VALUES (gen_random_uuid(), 'x', 'robot', 'a.b')", nil},
		{"a link to open another file", guard, "UPDATE fenceline.links SET attempt_id = $1", []any{one.ID}},
		{"a link to open for longer", guard, "UPDATE fenceline.links SET expires_at = expires_at + interval '1 day'", nil},
		{"a link to be used less often", guard, "UPDATE fenceline.links SET uses = -1", nil},
		{"a link to be used too often", check, "UPDATE fenceline.links SET uses = 3", nil},
		{"a link to what was never published", guard, `INSERT INTO fenceline.links (id, secret_hash, export_id, attempt_id, file_name, made_by, expires_at)
			VALUES (gen_random_uuid(), sha256('y'), $1, $2, $3, 'x', now() + interval '1 day')`, []any{first.ExportID, sealed.ID, fileOf}},
		{"a link to the publication of another export", guard, `INSERT INTO fenceline.links (id, secret_hash, export_id, attempt_id, file_name, made_by, expires_at)
			VALUES (gen_random_uuid(), sha256('y'), $1, $2, $3, 'x', now() + interval '1 day')`, []any{first.ExportID, six.ID, fileOf}},
		{"a link to a file that the publication has not", foreign, `INSERT INTO fenceline.links (id, secret_hash, export_id, attempt_id, file_name, made_by, expires_at)
			VALUES (gen_random_uuid(), sha256('y'), $1, $2, 'other.csv', 'x', now() + interval '1 day')`, []any{first.ExportID, two.ID}},

		{"two notices of one publication", unique, `INSERT INTO fenceline.outbox (topic, export_id, job_id, attempt_id)
			VALUES ('export.published', $1, $2, $3)`, []any{second.ExportID, second.ID, two.ID}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := w.tryExec(c.sql, c.args...)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != c.code {
				t.Errorf("got %v, want to be refused with %s", err, c.code)
			}
		})
	}
}

// Every pair of states: what is not an allowed edge is refused.
func TestStateEdges(t *testing.T) {
	t.Parallel()
	attemptEdges := map[string][]string{
		"running": {"sealed", "fenced", "failed", "cancelled", "condemned"}, "sealed": {"published", "fenced", "failed", "cancelled", "condemned"},
		"published": {"superseded"}, "superseded": {"deleted"}, "fenced": {"deleted"}, "failed": {"deleted"}, "cancelled": {"deleted"}, "condemned": {"deleted"}, "deleted": {},
	}
	jobEdges := map[string][]string{
		"queued": {"running", "failed", "cancelled"}, "running": {"queued", "done", "superseded", "failed", "cancelling", "cancelled"},
		"cancelling": {"cancelled"}, "failed": {"queued", "cancelled"}, "done": {}, "superseded": {}, "cancelled": {},
	}
	w := newWorld(t)
	for _, m := range []struct {
		table, finished string
		edges           map[string][]string
	}{
		{"attempts", "running sealed", attemptEdges}, {"jobs", "queued running cancelling", jobEdges},
	} {
		tx := w.probe(m.table)
		for from, allowed := range m.edges {
			for to := range m.edges {
				if to == from {
					continue
				}
				refused := w.edgeRefused(tx, from, to)
				if ok := slices.Contains(allowed, to); ok == refused {
					t.Errorf("%s: %s → %s: refused %t, allowed %t", m.table, from, to, refused, ok)
				}
			}
		}
		w.must(tx.Rollback(w.ctx)) // it holds locks on the tables
	}
}

// probe makes a copy of a table that has nothing but the guard: the other
// constraints would refuse much of what the guard must refuse by itself.
func (w *world) probe(table string) pgx.Tx {
	w.t.Helper()
	tx, err := w.conn().Begin(w.ctx)
	w.must(err)
	function := map[string]string{"attempts": "guard_attempt", "jobs": "guard_job"}[table]
	for _, sql := range []string{
		fmt.Sprintf("CREATE TEMP TABLE probe_%[1]s ON COMMIT DROP AS SELECT * FROM fenceline.%[1]s WITH NO DATA", table),
		fmt.Sprintf("ALTER TABLE probe_%s RENAME TO probe", table),
		// so that the rules about files and publications are not what refuses
		"ALTER TABLE fenceline.files DISABLE TRIGGER ALL", "ALTER TABLE fenceline.attempts DISABLE TRIGGER ALL",
		`INSERT INTO fenceline.files (attempt_id, ordinal, name, object, format, media_type, size, sha256)
			VALUES ('00000000-0000-0000-0000-000000000000', 1, 'a', '1-a', 'csv', 'text/csv', 1, sha256(''))`,
		`INSERT INTO fenceline.attempts (id, export_id, job_id, number, token, state, worker, finished_at)
			VALUES ('00000000-0000-0000-0000-000000000000', gen_random_uuid(), '00000000-0000-0000-0000-000000000000', 1, 1, 'superseded', 'w', now())`,
		fmt.Sprintf("CREATE TRIGGER guard BEFORE UPDATE ON probe FOR EACH ROW EXECUTE FUNCTION fenceline.%s()", function),
	} {
		if _, err := tx.Exec(w.ctx, sql); err != nil {
			w.t.Fatalf("%s: %v", sql, err)
		}
	}
	return tx
}

func (w *world) edgeRefused(tx pgx.Tx, from, to string) bool {
	w.t.Helper()
	inner, err := tx.Begin(w.ctx) // a savepoint
	w.must(err)
	defer func() { _ = inner.Rollback(w.ctx) }()
	_, err = inner.Exec(w.ctx, "INSERT INTO probe (id, state) VALUES ('00000000-0000-0000-0000-000000000000', $1)", from)
	w.must(err)
	_, err = inner.Exec(w.ctx, "UPDATE probe SET state = $1", to)
	var pg *pgconn.PgError
	if err != nil && (!errors.As(err, &pg) || pg.Code != "FL001") {
		w.t.Fatalf("%s → %s: %v", from, to, err)
	}
	return err != nil
}

// A snapshot older than the row lock cannot see who won it: refused, not risked.
func TestProtocolRefusesOtherIsolations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.seal(w.begin(w.insert(newJob("e"))))
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		tx, err := w.conn().Begin(w.ctx)
		w.must(err)
		_, err = tx.Exec(w.ctx, "SET TRANSACTION ISOLATION LEVEL "+level)
		w.must(err)
		_, err = tx.Exec(w.ctx, "SELECT fenceline.publish_attempt($1)", b.ID)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "FL003" {
			t.Errorf("%s: %v", level, err)
		}
		_ = tx.Rollback(w.ctx)
	}
	w.attemptState(b.ID, storage.AttemptSealed)
}
