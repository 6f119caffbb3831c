package storage_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// benchOrphans is how many orphans the clean-up has to find.
const benchOrphans = 1000

// asShipped is what a clean-up goes by that nobody has set up otherwise, without its rests.
func asShipped() storage.SweepOptions {
	return storage.SweepOptions{Grace: 15 * time.Minute, Quarantine: 10 * time.Minute, Superseded: 7 * 24 * time.Hour, MaxShare: 0.5, Worker: "bench"}
}

// BenchmarkSweepAmong cleans up a thousand orphans among ten thousand files and among a
// million (FENCELINE_BENCH_FILES), in turns: real files in real folders, ten versions of
// each export, of which half are stamped by the rules already. What is reported is the
// cost among many against that among few. Then it audits both, and reports what that
// holds in memory at its peak.
func BenchmarkSweepAmong(b *testing.B) {
	few, many := newSwept(b), newSwept(b)
	few.fillVersions(10_000)
	many.fillVersions(benchFiles())
	b.ResetTimer()
	var ratios []float64
	for range b.N {
		for turn := range 5 {
			f, m := few.sweepTook(turn), many.sweepTook(turn)
			fmt.Printf("among few %s, among many %s\n", f, m)
			ratios = append(ratios, float64(m)/float64(f))
		}
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x-few")
	small, _ := few.auditHolds(10_000)
	large, took := many.auditHolds(int64(benchFiles()))
	b.ReportMetric(float64(small)/(1<<20), "MiB-audit-few")
	b.ReportMetric(float64(large)/(1<<20), "MiB-audit-many")
	b.ReportMetric(float64(benchFiles())/took.Seconds(), "audited/s")
}

// benchFiles is how many files there are in the large store.
func benchFiles() int {
	if n, err := strconv.Atoi(os.Getenv("FENCELINE_BENCH_FILES")); err == nil {
		return n
	}
	return 1_000_000
}

// sweepTook makes new orphans, cleans them up, and answers how long that took.
func (s *swept) sweepTook(turn int) time.Duration {
	s.t.Helper()
	s.orphans(fmt.Sprint("turn", turn), benchOrphans)
	s.exec("CHECKPOINT") // what the filling left to write is not the clean-up's
	began := time.Now()
	res := s.run(asShipped())
	took := time.Since(began)
	if res.Deleted != benchOrphans || res.Failed+res.Skipped+res.Condemned != 0 {
		s.t.Fatalf("the clean-up: %+v", res)
	}
	return took
}

// fillVersions makes so many published files on disk and in the database: ten of an
// export, one of them current. The rows are put past the triggers, which know no past.
func (s *swept) fillVersions(n int) {
	s.t.Helper()
	s.exec(`SET session_replication_role = replica; SET synchronous_commit = off;
	INSERT INTO fenceline.exports (id, tenant, kind, key, title) SELECT gen_random_uuid(), 't' || i % 20, 'report', 'e' || i, 'Export ' || i FROM generate_series(1, ` + strconv.Itoa(n/10) + `) i;
	INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, payload, payload_version, state, attempts, max_attempts, max_crashes, timeout_seconds, request_hash, finished_at)
		SELECT gen_random_uuid(), e.tenant, e.kind, 'default', e.id, jsonb_build_object('v', v), 1, 'done', 1, 3, 3, 3600, '', now() - (10 - v) * interval '8 hours' - interval '1 hour'
		FROM fenceline.exports e, generate_series(1, 10) v;
	INSERT INTO fenceline.attempts (id, tenant, export_id, job_id, number, token, state, verdict, worker, rows, bytes, started_at, sealed_at, finished_at, replaced_at, stay_until)
		SELECT gen_random_uuid(), j.tenant, j.export_id, j.id, 1, nextval('fenceline.fence_tokens'), x.state, x.state, 'w-1', 3, 5, j.finished_at, j.finished_at, j.finished_at, x.replaced,
			CASE WHEN v <= 5 THEN x.replaced + interval '7 days' END
		FROM fenceline.jobs j, LATERAL (SELECT (j.payload ->> 'v')::int AS v) p,
			LATERAL (SELECT CASE WHEN v = 10 THEN 'published' ELSE 'superseded' END AS state, CASE WHEN v < 10 THEN j.finished_at + interval '8 hours' END AS replaced) x ORDER BY v;
	INSERT INTO fenceline.files (attempt_id, ordinal, name, object, format, media_type, size, sha256, rows)
		SELECT id, 1, 'orders.csv', '1-orders.csv', 'csv', 'text/csv', 5, sha256('12345'), 3 FROM fenceline.attempts;
	UPDATE fenceline.exports e SET attempt_id = a.id, last_token = a.token, issued_token = a.token, published_at = a.finished_at, look_at = a.finished_at + interval '30 days'
		FROM fenceline.attempts a WHERE a.export_id = e.id AND a.state = 'published';
	RESET session_replication_role; RESET synchronous_commit; ANALYZE`)
	s.exec("VACUUM")
	_, _, err := s.store.RecountStored(s.ctx)
	s.must(err)
	s.writeThose("TRUE")
}

// orphans makes attempts of as many exports that failed an hour ago, with their files.
func (s *swept) orphans(mark string, n int) {
	s.t.Helper()
	s.exec(fmt.Sprintf(`SET session_replication_role = replica;
	CREATE TEMP TABLE chosen AS SELECT id, tenant, kind, gen_random_uuid() AS job FROM fenceline.exports ORDER BY md5(id::text || '%[1]s') LIMIT %[2]d;
	INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, payload, payload_version, state, attempts, max_attempts, max_crashes, timeout_seconds, request_hash, finished_at, error)
		SELECT job, tenant, kind, 'default', id, '{}', 1, 'failed', 1, 3, 3, 3600, '', now() - interval '1 hour', 'disk full' FROM chosen;
	INSERT INTO fenceline.attempts (id, tenant, export_id, job_id, number, token, state, verdict, worker, bytes, started_at, heartbeat_at, finished_at, error)
		SELECT gen_random_uuid(), tenant, id, job, 1, nextval('fenceline.fence_tokens'), 'failed', 'failed', '%[1]s', 5, now() - interval '2 hours', now() - interval '1 hour', now() - interval '1 hour', 'disk full' FROM chosen;
	UPDATE fenceline.exports e SET issued_token = a.token FROM fenceline.attempts a WHERE a.export_id = e.id AND a.worker = '%[1]s';
	DROP TABLE chosen; RESET session_replication_role`, mark, n))
	s.writeThose("worker = '" + mark + "'")
}

// writeThose writes the files of attempts where the attempts themselves never wrote.
func (s *swept) writeThose(which string) {
	s.t.Helper()
	rows, err := s.conn().Query(s.ctx, "SELECT export_id, token, id FROM fenceline.attempts WHERE "+which)
	s.must(err)
	defer rows.Close()
	for rows.Next() {
		var p files.Place
		s.must(rows.Scan(&p.Export, &p.Token, &p.Attempt))
		dir := filepath.Join(s.local.Dir(), p.String())
		s.must(os.MkdirAll(dir, 0o700))
		s.must(os.WriteFile(filepath.Join(dir, files.ObjectName(1, "orders.csv")), []byte("12345"), 0o600))
	}
	s.must(rows.Err())
}

// auditHolds is the highest that the memory of the process came to above what it was before, and the time.
func (s *swept) auditHolds(want int64) (held uint64, took time.Duration) {
	s.t.Helper()
	runtime.GC()
	before := heapAndStacks()
	done := make(chan struct{})
	var peak uint64
	var watch sync.WaitGroup
	watch.Go(func() {
		look := time.NewTicker(time.Millisecond)
		defer look.Stop()
		for {
			select {
			case <-done:
				return
			case <-look.C:
				peak = max(peak, heapAndStacks())
			}
		}
	})
	began := time.Now()
	sum, err := s.sweep(asShipped()).Audit(s.ctx, func(storage.AuditFinding) error { return nil })
	took = time.Since(began)
	close(done)
	watch.Wait()
	s.must(err)
	if got := sum.Classes[storage.ClassCurrent].Objects + sum.Classes[storage.ClassRetained].Objects; got != want || len(sum.Classes) != 2 {
		s.t.Fatalf("the audit: %+v", sum)
	}
	held = peak - min(before, peak)
	fmt.Printf("the audit of %d files held %.1f MiB and took %s\n", want, float64(held)/(1<<20), took) // now: to remove them takes minutes
	return held, took
}

func heapAndStacks() (n uint64) {
	read := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64() + read[1].Value.Uint64()
}

// BenchmarkPublishBesideSweep publishes over 32 connections, alone and beside a clean-up as it is
// shipped that has orphans to delete all the while, in turns. What is reported is the rate beside
// it against that alone, on average.
func BenchmarkPublishBesideSweep(b *testing.B) {
	s := newSwept(b)
	s.fillVersions(50_000)
	store, err := storage.Open(s.ctx, s.url, storage.Options{MaxConns: benchClients})
	s.must(err)
	defer store.Close()
	s.publishRound(store, "warm")
	b.ResetTimer()
	var ratios []float64
	for n := range b.N {
		for turn := range 6 {
			mark := fmt.Sprintf("r%d-%d", n, turn)
			s.orphans(mark, 8_000)
			s.exec("CHECKPOINT")
			alone, beside, deleted := 0.0, 0.0, 0
			for half := range 2 { // each is the first one in every other turn, because what was written before costs the first one
				if half == turn%2 {
					alone = s.publishRound(store, mark+"a")
				} else {
					beside, deleted = s.besideSweep(func() float64 { return s.publishRound(store, mark+"b") })
				}
			}
			fmt.Printf("alone %.0f/s, beside a clean-up %.0f/s, which deleted %d\n", alone, beside, deleted)
			ratios = append(ratios, beside/alone)
			s.run(asShipped()) // what is left
		}
	}
	sum := 0.0
	for _, r := range ratios {
		sum += r
	}
	b.ReportMetric(sum/float64(len(ratios)), "x-alone")
}

// besideSweep runs a clean-up for as long as something takes; it must not be done before.
func (s *swept) besideSweep(something func() float64) (rate float64, deleted int) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.ctx)
	o := asShipped()
	o.Pace = 20
	var res storage.SweepResult
	var sweeping sync.WaitGroup
	sweeping.Go(func() { res, _ = s.sweep(o).Run(ctx) })
	rate = something()
	if stop(); ctx.Err() == nil {
		s.t.Fatal("not stopped")
	}
	sweeping.Wait()
	if res.Deleted == 0 || res.Stopped == "" || res.Failed != 0 {
		s.t.Fatalf("the clean-up beside it: %+v", res)
	}
	return rate, res.Deleted
}
