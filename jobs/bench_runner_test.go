package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// measured is what a peer or we took for a number of no-op jobs.
type measured struct {
	Insert  float64   `json:"insert"` // seconds, before the work began
	Work    float64   `json:"work"`   // seconds until the database says that all are completed
	CPU     float64   `json:"cpu"`    // seconds of the process, during the work
	Latency []float64 `json:"latency"`
}

func (m measured) quantile(q float64) float64 {
	slices.Sort(m.Latency)
	if len(m.Latency) == 0 {
		return 0
	}
	return m.Latency[min(int(q*float64(len(m.Latency))), len(m.Latency)-1)] * 1000
}

// benchCount reads a number of the environment.
func benchCount(b *testing.B, name string, usual int) int {
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(name+":", err)
	}
	return n
}

// BenchmarkNoOp takes no-op jobs from their dispatch to their durable end: ours,
// River on the same PostgreSQL and asynq on the same Redis, in turns.
func BenchmarkNoOp(b *testing.B) {
	river := os.Getenv("FENCELINE_BENCH_RIVER")
	if river == "" {
		river = filepath.Join("..", "bin", "riverpeer")
	}
	if _, err := os.Stat(river); err != nil {
		b.Fatal("bin/riverpeer is missing: run `make bench-tools`")
	}
	n := benchCount(b, "FENCELINE_BENCH_JOBS", 10_000)
	for _, how := range []string{"bulk", "single", "idle"} {
		for _, workers := range []int{50, 500} {
			if how == "idle" && workers > 50 {
				continue
			}
			b.Run(fmt.Sprintf("%s/workers=%d", how, workers), func(b *testing.B) {
				jobsOf := n
				if how == "idle" {
					jobsOf = 40
				}
				var us, peer, bare []measured
				for b.Loop() {
					us = append(us, benchOurs(b, how, jobsOf, workers))
					peer = append(peer, benchRiver(b, river, how, jobsOf, workers))
					bare = append(bare, benchAsynq(b, how, jobsOf, workers))
				}
				reportPeers(b, how, jobsOf, us, peer, bare)
			})
		}
	}
}

func reportPeers(b *testing.B, how string, n int, us, peer, bare []measured) {
	rate := func(list []measured) float64 {
		rates := make([]float64, len(list))
		for i, m := range list {
			rates[i] = float64(n) / (m.Insert + m.Work)
		}
		slices.Sort(rates)
		return rates[len(rates)/2]
	}
	if how == "idle" {
		for name, list := range map[string][]measured{"ours": us, "river": peer, "asynq": bare} {
			b.ReportMetric(list[0].quantile(0.5), name+"-p50-ms")
			b.ReportMetric(list[0].quantile(0.99), name+"-p99-ms")
		}
		return
	}
	b.ReportMetric(rate(us), "ours/s")
	b.ReportMetric(rate(peer), "river/s")
	b.ReportMetric(rate(bare), "asynq/s")
	b.ReportMetric(rate(us)/rate(peer), "x-river")
	b.ReportMetric(rate(us)/rate(bare), "x-asynq")
	b.ReportMetric(us[0].CPU*10_000/float64(n), "ours-cpu-s/10k")
	b.ReportMetric(peer[0].CPU*10_000/float64(n), "river-cpu-s/10k")
	if how == "single" {
		b.ReportMetric(us[0].quantile(0.5), "ours-p50-ms")
		b.ReportMetric(peer[0].quantile(0.5), "river-p50-ms")
		b.ReportMetric(us[0].quantile(0.99), "ours-p99-ms")
		b.ReportMetric(peer[0].quantile(0.99), "river-p99-ms")
	}
}

// breathe lets a queue be idle for a while, or a database have its rest between
// two questions: what is measured here is time.
func breathe(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

func processSeconds() float64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}

// spread16 calls do for 0 to n-1 from several goroutines, or one after the other when idle.
func spread16(how string, n int, do func(i int)) {
	lanes := 16
	if how == "idle" {
		lanes = 1
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	for range lanes {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
				if how == "idle" {
					breathe(150 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
}

func benchOurs(b *testing.B, how string, n, workers int) measured {
	b.Helper()
	w := newWorld(b, redistest.Shared(b))
	var m measured
	asked, at := make([]time.Time, n), make([]time.Time, n)
	w.does("noop", func(_ context.Context, _ *jobs.Work, in plainPayload) (any, error) {
		at[in.N] = time.Now()
		return nil, nil
	})
	began := time.Now()
	if how == "bulk" {
		items := make([]jobs.Item, n)
		for i := range items {
			items[i] = plainItem("noop", i)
		}
		for from := 0; from < n; from += 1000 {
			_, err := w.dispatcher.DispatchAll(w.ctx, nil, items[from:min(from+1000, n)])
			w.must(err)
		}
	}
	m.Insert = time.Since(began).Seconds()
	m.CPU = processSeconds()
	stop := w.worker(func(c *jobs.WorkerConfig) { c.Concurrency, c.Lease = workers, 30*time.Second })
	if how == "idle" {
		breathe(time.Second)
	}
	began = time.Now()
	if how != "bulk" {
		spread16(how, n, func(i int) {
			asked[i] = time.Now()
			_, err := w.dispatcher.Dispatch(w.ctx, nil, plainItem("noop", i).Request)
			w.must(err)
		})
	}
	w.completed(n)
	m.Work = time.Since(began).Seconds()
	m.CPU = processSeconds() - m.CPU
	stop()
	for i := range asked {
		if !asked[i].IsZero() {
			m.Latency = append(m.Latency, at[i].Sub(asked[i]).Seconds())
		}
	}
	return m
}

// completed waits until the database says that n jobs are done.
func (w *world) completed(n int) {
	w.t.Helper()
	for {
		var done int
		w.ask(&done, "SELECT count(*) FROM fenceline.jobs WHERE state = 'done'")
		if done >= n {
			return
		}
		breathe(5 * time.Millisecond)
	}
}

func benchRiver(b *testing.B, river, how string, n, workers int) measured {
	b.Helper()
	url := newWorld(b, redistest.Shared(b)).url // its own tables beside ours, which stay empty
	cmd := exec.CommandContext(b.Context(), river, url, how, strconv.Itoa(n), strconv.Itoa(workers))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatal("river:", err)
	}
	var m measured
	if err := json.Unmarshal(out, &m); err != nil {
		b.Fatal(err)
	}
	return m
}

func benchAsynq(b *testing.B, how string, n, workers int) measured {
	b.Helper()
	w := newWorld(b, redistest.Shared(b))
	client := asynq.NewClientFromRedisClient(w.redis.Client)
	queue := w.redis.Namespace + ":bare"
	var m measured
	asked, at := make([]time.Time, n), make([]time.Time, n)
	var left atomic.Int64
	left.Store(int64(n))
	done := make(chan struct{})
	put := func(i int) {
		asked[i] = time.Now()
		_, err := client.Enqueue(asynq.NewTask("noop", []byte(strconv.Itoa(i))), asynq.Queue(queue))
		w.must(err)
	}
	began := time.Now()
	if how == "bulk" {
		spread16(how, n, put)
	}
	m.Insert = time.Since(began).Seconds()
	m.CPU = processSeconds()
	srv := asynq.NewServerFromRedisClient(w.redis.Client, asynq.Config{Concurrency: workers, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel})
	w.must(srv.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		i, err := strconv.Atoi(string(t.Payload()))
		if err != nil {
			return err
		}
		at[i] = time.Now()
		if left.Add(-1) == 0 {
			close(done)
		}
		return nil
	})))
	defer srv.Shutdown()
	if how == "idle" {
		breathe(time.Second)
	}
	began = time.Now()
	if how != "bulk" {
		spread16(how, n, put)
	}
	<-done
	m.Work = time.Since(began).Seconds()
	m.CPU = processSeconds() - m.CPU
	for i := range asked {
		m.Latency = append(m.Latency, at[i].Sub(asked[i]).Seconds())
	}
	return m
}

// BenchmarkFinished runs the same jobs beside ten thousand and beside a million that
// have ended, in turns: what is over must cost nothing.
func BenchmarkFinished(b *testing.B) {
	n := benchCount(b, "FENCELINE_BENCH_JOBS", 10_000)
	most := benchCount(b, "FENCELINE_BENCH_FINISHED", 1_000_000)
	var few, many []float64
	for b.Loop() {
		for i, finished := range []int{10_000, most} {
			w := newWorld(b, redistest.Shared(b))
			w.finished(finished)
			m := w.workOff(n)
			if i == 0 {
				few = append(few, m)
			} else {
				many = append(many, m)
			}
		}
	}
	slices.Sort(few)
	slices.Sort(many)
	b.ReportMetric(float64(n)/few[len(few)/2], "jobs/s-beside-10k")
	b.ReportMetric(float64(n)/many[len(many)/2], "jobs/s-beside-1M")
	b.ReportMetric(many[len(many)/2]/few[len(few)/2], "x-cost")
}

// finished fills the table with jobs that are done.
func (w *world) finished(n int) {
	w.t.Helper()
	w.exec(fmt.Sprintf(`DO $$ BEGIN
		SET LOCAL session_replication_role = replica; -- the guard lets jobs begin queued only
		INSERT INTO fenceline.jobs (id, tenant, kind, queue, title, payload, payload_version, state, attempts, max_attempts, max_crashes, timeout_seconds,
				request_hash, run_id, worker_id, created_at, started_at, finished_at)
			SELECT gen_random_uuid(), 'default', 'plain', 'default', 'plain', '{"do": "noop"}', 1, 'done', 1, 3, 5, 3600, '', gen_random_uuid(), gen_random_uuid(),
				t, t, t FROM (SELECT clock_timestamp() - i * interval '1 second' AS t FROM generate_series(1, %d) i) x;
	END $$`, n))
	w.exec("VACUUM (ANALYZE) fenceline.jobs")
}

// workOff dispatches n no-op jobs and answers the seconds until all are done.
func (w *world) workOff(n int) float64 {
	w.t.Helper()
	w.does("noop", func(context.Context, *jobs.Work, plainPayload) (any, error) { return nil, nil })
	items := make([]jobs.Item, n)
	for i := range items {
		items[i] = plainItem("noop", i)
	}
	began := time.Now()
	receipts, err := w.dispatcher.DispatchAll(w.ctx, nil, items)
	w.must(err)
	stop := w.worker(func(c *jobs.WorkerConfig) { c.Concurrency, c.Lease = 100, 30*time.Second })
	for left := true; left; breathe(5 * time.Millisecond) {
		w.ask(&left, "SELECT EXISTS (SELECT FROM fenceline.jobs WHERE state IN ('queued', 'running'))")
	}
	took := time.Since(began).Seconds()
	stop()
	for _, r := range receipts[:3] {
		w.ends(r.Job, storage.JobDone)
	}
	return took
}
