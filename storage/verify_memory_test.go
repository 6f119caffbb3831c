package storage_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// bulkSQL makes jobs and attempts with numbers from the first to the second. Those up to the third are publications of
// one export and have files; each of the others is a failed attempt of an export of its own whose files were deleted.
const bulkSQL = `
	SET LOCAL session_replication_role = replica;
	CREATE TEMP TABLE n ON COMMIT DROP AS SELECT i, i <= %[3]d AS publication, i = %[3]d AS current,
			CASE WHEN i <= %[3]d THEN md5('wide') ELSE md5('e' || i) END::uuid AS e, md5('j' || i)::uuid AS j, md5('a' || i)::uuid AS a
		FROM generate_series(%[1]d, %[2]d) AS i;
	INSERT INTO fenceline.exports (id, tenant, kind, key, issued_token)
		SELECT e, 'acme', 'report', e::text, max(i) FROM n GROUP BY e ON CONFLICT DO NOTHING;
	UPDATE fenceline.attempts SET state = 'superseded', verdict = 'superseded', replaced_at = now() WHERE state = 'published';
	UPDATE fenceline.exports x SET attempt_id = a, last_token = i, issued_token = i, published_at = now() FROM n WHERE current AND x.id = e;
	INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, payload, payload_version, state, error, attempt_id, attempts, max_attempts,
			max_crashes, timeout_seconds, request_hash, finished_at)
		SELECT j, 'acme', 'report', 'default', e, '{}', 1, CASE WHEN publication THEN 'done' ELSE 'failed' END, 'x', a, 1, 1, 1, 1, '', now() FROM n;
	INSERT INTO fenceline.attempts (id, export_id, job_id, number, token, state, verdict, worker, data_as_of, finished_at, replaced_at)
		SELECT a, e, j, 1, i, state, CASE state WHEN 'deleted' THEN 'failed' ELSE state END, 'w', now(), now(), CASE state WHEN 'superseded' THEN now() END
		FROM n, LATERAL (SELECT CASE WHEN current THEN 'published' WHEN publication THEN 'superseded' ELSE 'deleted' END) AS s(state);
	INSERT INTO fenceline.files (attempt_id, ordinal, name, object, format, media_type, size, sha256)
		SELECT a, 1, 'orders.csv', '1-orders.csv', 'csv', 'text/csv', 5, '\x%[4]x' FROM n WHERE publication;
	INSERT INTO fenceline.outbox (topic, export_id, job_id, attempt_id) SELECT 'export.published', e, j, a FROM n WHERE publication ORDER BY i`

// bulk makes many rows at once, past all guards, and the files of the publications.
func (s *swept) bulk(first, last, publications int) {
	s.t.Helper()
	sum := sha256.Sum256([]byte(content))
	conn, err := s.conn().Acquire(s.ctx)
	s.must(err)
	defer conn.Release()
	s.must(conn.Conn().PgConn().Exec(s.ctx, fmt.Sprintf(bulkSQL, first, last, publications, sum)).Close())
	rows, err := conn.Query(s.ctx, "SELECT export_id, token, id FROM fenceline.attempts WHERE token BETWEEN $1 AND $2 AND state <> 'deleted'", first, last)
	s.must(err)
	defer rows.Close()
	one := filepath.Join(s.t.TempDir(), "one")
	s.must(os.WriteFile(one, []byte(content), 0o600))
	for rows.Next() {
		var p files.Place
		s.must(rows.Scan(&p.Export, &p.Token, &p.Attempt))
		dir := filepath.Join(s.local.Dir(), p.String())
		s.must(os.MkdirAll(dir, 0o750))
		s.must(os.Link(one, filepath.Join(dir, "1-orders.csv")))
	}
	s.must(rows.Err())
}

// highWater is the most memory that was in use while everything was looked at.
func (s *swept) highWater(rows, files int64) (most uint64) {
	s.t.Helper()
	o := rested
	o.Progress = func(p storage.VerifyProgress) {
		if p.Done%500 != 0 { // a collection for each file would take the time of the test
			return
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	}
	sum := s.nothing("in bulk", o)
	if sum.Jobs != rows || sum.Attempts != rows || sum.Files != files || !sum.Hashed || most == 0 {
		s.t.Errorf("%+v", sum)
	}
	return most
}

// Not in parallel: what other tests allocate would be counted too.
func TestVerifyNeedsTheSameMemoryForAnyNumber(t *testing.T) {
	s := newSwept(t)
	s.bulk(1, 2_000, 1_000)
	few := s.highWater(2_000, 1_000)
	s.bulk(2_001, 20_000, 4_000)
	many := s.highWater(20_000, 3_000)
	t.Logf("2,000 exports: %d KB, 20,000: %d KB", few>>10, many>>10)
	if many > few+200<<10 { // the ids of 18,000 exports, kept once, would be more
		t.Errorf("%d exports need %d KB, %d need %d KB", 2_000, few>>10, 20_000, many>>10)
	}
}
