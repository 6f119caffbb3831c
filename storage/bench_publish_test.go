package storage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/localpg"
)

const (
	benchClients = 32
	benchEach    = 150 // publications of each client
	benchExports = 1000
)

// benchScript is what [storage.Store] sends for one publication: token, seal, publish.
const benchScript = `\set i :i + 1
\set n :client_id * 1000000 + :i
SELECT * FROM fenceline.begin_attempt(md5('job' || :n)::uuid, md5('attempt' || :n)::uuid, 'pgbench');
SELECT fenceline.seal_attempt(md5('attempt' || :n)::uuid, 1, now(), NULL, '[{"ordinal":1,"name":"a.csv","object":"1-a.csv","format":"csv","media_type":"text/csv","size":1,"sha256":"0000000000000000000000000000000000000000000000000000000000000000","rows":1}]');
SELECT * FROM fenceline.publish_attempt(md5('attempt' || :n)::uuid);
`

// BenchmarkPublish takes jobs from their token to their publication: ours, and
// pgbench that sends the same statements over as many connections, in turns.
func BenchmarkPublish(b *testing.B) {
	bin, err := localpg.Find()
	if err != nil {
		b.Fatal(err)
	}
	var ratios []float64
	for b.Loop() {
		w := newWorld(b)
		store, err := storage.Open(w.ctx, w.url, storage.Options{MaxConns: benchClients})
		w.must(err)
		theirs := w.pgbench(filepath.Join(bin, "pgbench"))
		ours := w.publishAll(store)
		store.Close()
		b.ReportMetric(ours, "ours/s")
		b.ReportMetric(theirs, "pgbench/s")
		ratios = append(ratios, ours/theirs)
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x-pgbench")
}

// fillJobs makes the jobs of the clients, over a thousand exports, with ids that their number says.
func (w *world) fillJobs(salt string) {
	w.t.Helper()
	w.exec(fmt.Sprintf(`INSERT INTO fenceline.exports (tenant, kind, key) SELECT 'bench', 'report', 'e' || i FROM generate_series(0, %d) i ON CONFLICT DO NOTHING`, benchExports-1))
	w.exec(fmt.Sprintf(`INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, payload, payload_version, max_attempts, max_crashes, timeout_seconds, request_hash)
		SELECT md5('%s' || (c * 1000000 + i))::uuid, 'bench', 'report', 'default', e.id, '{}', 1, 3, 5, 3600, ''
		FROM generate_series(0, %d) c, generate_series(1, %d) i JOIN fenceline.exports e ON e.tenant = 'bench' AND e.key = 'e' || (i * 7919 %% %d)`,
		salt, benchClients-1, benchEach, benchExports))
	w.exec("ANALYZE")
}

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

func (w *world) pgbench(program string) float64 {
	w.t.Helper()
	w.fillJobs("job")
	script := filepath.Join(w.t.TempDir(), "publish.sql")
	w.must(os.WriteFile(script, []byte(benchScript), 0o600))
	cmd := exec.CommandContext(w.ctx, program, "-n", "-f", script, "-c", strconv.Itoa(benchClients), "-j", "2", "-t", strconv.Itoa(benchEach), "-D", "i=0", "-M", "prepared", w.url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("pgbench: %v\n%s", err, out)
	}
	m := tps.FindSubmatch(out)
	if m == nil || !strings.Contains(string(out), fmt.Sprintf("%d/%d", benchClients*benchEach, benchClients*benchEach)) {
		w.t.Fatalf("pgbench said:\n%s", out)
	}
	rate, err := strconv.ParseFloat(string(m[1]), 64)
	w.must(err)
	w.decided(benchClients * benchEach)
	return rate
}

func (w *world) decided(n int) {
	w.t.Helper()
	var got int
	w.must(w.conn().QueryRow(w.ctx, "SELECT count(*) FROM fenceline.attempts WHERE verdict IN ('published', 'superseded', 'fenced')").Scan(&got))
	if got != n {
		w.t.Fatalf("%d attempts were decided, want %d", got, n)
	}
}

func (w *world) publishAll(store *storage.Store) float64 {
	w.t.Helper()
	rate := w.publishRound(store, "ours")
	w.decided(2 * benchClients * benchEach)
	return rate
}

// publishRound makes the jobs of the clients, publishes one attempt of each, and answers how many a second.
func (w *world) publishRound(store *storage.Store, salt string) float64 {
	w.t.Helper()
	w.fillJobs(salt)
	ids := w.jobsOf(salt)
	sealed := storage.Sealed{Rows: 1, DataAsOf: time.Now(), Files: []storage.File{{Name: "a.csv", Object: "1-a.csv", Format: "csv", MediaType: "text/csv", Size: 1, SHA256: make([]byte, 32), Rows: 1}}}
	began := time.Now()
	var clients sync.WaitGroup
	for _, list := range ids {
		clients.Go(func() {
			for _, id := range list {
				if err := publishOne(w.ctx, store, id, sealed); err != nil {
					w.t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	return benchClients * benchEach / time.Since(began).Seconds()
}

// jobsOf are the jobs that [world.fillJobs] made, by client.
func (w *world) jobsOf(salt string) [][]uuid.UUID {
	w.t.Helper()
	ids := make([][]uuid.UUID, benchClients)
	rows, err := w.conn().Query(w.ctx, fmt.Sprintf("SELECT c, md5('%s' || (c * 1000000 + i))::uuid FROM generate_series(0, %d) c, generate_series(1, %d) i", salt, benchClients-1, benchEach))
	w.must(err)
	for rows.Next() {
		var c int
		var id uuid.UUID
		w.must(rows.Scan(&c, &id))
		ids[c] = append(ids[c], id)
	}
	w.must(rows.Err())
	return ids
}

func publishOne(ctx context.Context, store *storage.Store, job uuid.UUID, sealed storage.Sealed) error {
	b, err := store.BeginAttempt(ctx, job, "bench")
	if err != nil {
		return err
	}
	if err := store.Seal(ctx, b.ID, sealed); err != nil {
		return err
	}
	if err := store.Publish(ctx, b.ID); err != nil && !errors.Is(err, storage.ErrFenced) {
		return err
	}
	return nil
}
