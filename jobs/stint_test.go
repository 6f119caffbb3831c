package jobs_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// starts runs a worker with a relay; ended gets what the worker answered.
func (w *world) starts(change func(*jobs.WorkerConfig)) (*jobs.Worker, <-chan error) {
	w.t.Helper()
	conf := jobs.WorkerConfig{
		Store: w.store, Files: w.files, Registry: w.registry, Redis: w.redis, Leaser: w.leaser, Name: "w-" + uuid.NewString()[:4], Log: w.log,
		Concurrency: 8, Queues: map[string]int{"default": 1}, Lease: shortLease, Grace: 5 * time.Second,
	}
	change(&conf)
	worker := jobs.NewWorker(conf)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ended <- worker.Run(ctx) })
	wg.Go(func() { _ = jobs.NewRelay(w.store, w.redis, conf.Lease, w.log).Run(ctx) })
	w.t.Cleanup(func() { cancel(); wg.Wait() })
	return worker, ended
}

// asked waits for a worker that ends by itself.
func (w *world) asked(ended <-chan error) {
	w.t.Helper()
	w.until("the worker has ended", func() bool { return len(ended) == 1 })
	if err := <-ended; !errors.Is(err, jobs.ErrAskedToStop) {
		w.t.Errorf("it ended with %v", err)
	}
}

func (w *world) count(sql string) (n int) {
	w.t.Helper()
	w.ask(&n, "SELECT count(*) FROM fenceline.jobs WHERE "+sql)
	return n
}

// Bounded to ten jobs, plain ones and exports, a worker begins ten, and ends when they have ended.
func TestMaxJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.does("work", func(context.Context, *jobs.Work, plainPayload) (any, error) { return nil, nil })
	w.handle("write", writes("x"))
	for range 12 {
		w.ask1("work")
		w.dispatch("write", uuid.NewString())
	}
	_, ended := w.starts(func(c *jobs.WorkerConfig) { c.MaxJobs = 10 })
	w.asked(ended)
	if done, left := w.count("state = 'done'"), w.count("state = 'queued' AND attempts = 0"); done != 10 || left != 14 {
		t.Errorf("%d are done, %d wait", done, left)
	}
}

func TestMaxTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	begun, goOn := make(chan struct{}), make(chan struct{})
	w.does("work", func(context.Context, *jobs.Work, plainPayload) (any, error) {
		close(begun)
		<-goOn
		return nil, nil
	})
	job := w.ask1("work")
	_, ended := w.starts(func(c *jobs.WorkerConfig) { c.MaxTime = 50 * time.Millisecond; c.Concurrency = 1 })
	select {
	case <-begun: // what has begun is ended
		close(goOn)
		w.asked(ended)
		w.ends(job, storage.JobDone)
	case err := <-ended: // its time was over before
		if !errors.Is(err, jobs.ErrAskedToStop) || w.job(job.ID).State != storage.JobQueued {
			t.Errorf("it ended with %v, the job is %s", err, w.job(job.ID).State)
		}
	}
}

// It ends when nothing could run now: not before the callback of a batch, and whatever is due later.
func TestStopWhenEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	var ran atomic.Int64
	w.does("work", func(context.Context, *jobs.Work, plainPayload) (any, error) { ran.Add(1); return nil, nil })
	later, other := w.ask1("work", jobs.Delay(time.Hour)), w.ask1("work", jobs.Queue("other"))
	finally := plainItem("work", 1)
	_, _, err := w.dispatcher.Batch(w.ctx, nil, jobs.BatchRequest{Jobs: []jobs.Item{plainItem("work", 0)}, Chains: [][]jobs.Item{{plainItem("work", 0), plainItem("work", 0)}}, Finally: &finally})
	w.must(err)
	_, ended := w.starts(func(c *jobs.WorkerConfig) { c.StopWhenEmpty = true })
	w.asked(ended)
	if ran.Load() != 4 || w.job(later.ID).State != storage.JobQueued || w.job(other.ID).State != storage.JobQueued {
		t.Errorf("%d ran; later is %s, the other queue's %s", ran.Load(), w.job(later.ID).State, w.job(other.ID).State)
	}
}

// What maintenance holds back could not run now.
func TestStopWhenEmptyInMaintenance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.does("work", func(context.Context, *jobs.Work, plainPayload) (any, error) { return nil, nil })
	held := w.ask1("work")
	w.must(w.store.SetMaintenance(w.ctx, true, ""))
	_, ended := w.starts(func(c *jobs.WorkerConfig) { c.StopWhenEmpty = true })
	w.asked(ended)
	if j := w.job(held.ID); j.State != storage.JobQueued {
		t.Errorf("a job ran in maintenance: %s", j.State)
	}
}

// A backlog on one queue makes its slots grow up to the bound, never beyond; when
// it is gone they go. All the while no more run than fit.
func TestAutoscale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	var now, most [2]atomic.Int64
	goOn := make(chan struct{})
	work := func(i int) func(context.Context, *jobs.Work, plainPayload) (any, error) {
		return func(context.Context, *jobs.Work, plainPayload) (any, error) {
			n := now[i].Add(1)
			defer now[i].Add(-1)
			for m := most[i].Load(); n > m && !most[i].CompareAndSwap(m, n); m = most[i].Load() {
			}
			<-goOn
			return nil, nil
		}
	}
	w.does("busy", work(0))
	w.does("calm", work(1))
	for range 30 {
		w.ask1("busy", jobs.Queue("busy"))
	}
	w.ask1("calm", jobs.Queue("calm"))
	worker, _ := w.starts(func(c *jobs.WorkerConfig) {
		c.Queues = map[string]int{"busy": 1, "calm": 1}
		c.Concurrency, c.Autoscale, c.AutoscaleWait = 5, map[string]jobs.Bounds{"busy": {Least: 1, Most: 4}, "calm": {Least: 1, Most: 4}}, 10*time.Millisecond
	})
	if got := worker.Slots(); !maps.Equal(got, map[string]int{"busy": 1, "calm": 1}) {
		t.Errorf("it begins with %v", got)
	}
	w.until("the backlog has all the slots that it may", func() bool { return now[0].Load() == 4 && now[1].Load() == 1 })
	if got := worker.Slots(); got["busy"] != 4 || got["calm"] != 1 {
		t.Errorf("slots %v", got)
	}
	close(goOn)
	w.until("all are done", func() bool { return w.count("state <> 'done'") == 0 })
	w.until("the idle slots are gone", func() bool { return maps.Equal(worker.Slots(), map[string]int{"busy": 1, "calm": 1}) })
	if most[0].Load() != 4 || most[1].Load() != 1 {
		t.Errorf("at most %d and %d ran at once", most[0].Load(), most[1].Load())
	}
}

func TestQueueMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	begun, goOn := make(chan struct{}), make(chan struct{})
	w.does("work", func(context.Context, *jobs.Work, plainPayload) (any, error) {
		begun <- struct{}{}
		<-goOn
		return nil, nil
	})
	w.does("fail", func(context.Context, *jobs.Work, plainPayload) (any, error) {
		return nil, jobs.Permanent(errors.New("no"))
	})
	w.worker(func(c *jobs.WorkerConfig) { c.Concurrency = 1 })
	w.ends(w.ask1("fail"), storage.JobFailed)
	running := w.ask1("work")
	<-begun
	w.ask1("work", jobs.Queue("mail"))
	m := jobs.NewQueueMetrics(w.store, w.log)
	registry := prometheus.NewPedanticRegistry()
	w.must(registry.Register(m))
	got := gathered(t, registry)
	want := map[string]float64{
		"fenceline_jobs_failed": 1, "fenceline_workers": 1, "fenceline_queue_running default": 1, "fenceline_queue_running mail": 0,
		"fenceline_queue_waiting default": 0, "fenceline_queue_waiting mail": 1, "fenceline_queue_oldest_wait_seconds default": 0,
	}
	for name, value := range want {
		if v, there := got[name]; !there || v != value {
			t.Errorf("%s is %v (%v), want %v", name, v, there, value)
		}
	}
	if got["fenceline_queue_oldest_wait_seconds mail"] <= 0 || len(got) != len(want)+1 {
		t.Errorf("all: %v", got)
	}
	close(goOn)
	w.ends(running, storage.JobDone)
}

// gathered are the values of all metrics, by name and label.
func gathered(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			values[name] = m.GetGauge().GetValue()
		}
	}
	return values
}
