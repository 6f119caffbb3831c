package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// gauge is how many of a name run at once, and the most there were.
type gauge struct {
	mu        sync.Mutex
	now, most map[string]int
}

func (g *gauge) run(name string, work func()) {
	g.mu.Lock()
	g.now[name]++
	g.most[name] = max(g.most[name], g.now[name])
	g.mu.Unlock()
	work()
	g.mu.Lock()
	g.now[name]--
	g.mu.Unlock()
}

// Caps hold on two workers together, for plain jobs and exports, and one tenant
// cannot starve others.
func TestCaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	g := &gauge{now: map[string]int{}, most: map[string]int{}}
	gate := make(chan struct{})
	w.does("work", func(_ context.Context, work *jobs.Work, _ plainPayload) (any, error) {
		g.run("tenant "+work.Job().Tenant, func() { g.run("kind "+work.Job().Kind, func() { <-gate }) })
		return nil, nil
	})
	w.handle("work", func(_ context.Context, r *jobs.Run) error {
		g.run("tenant big", func() { g.run("exports", func() { <-gate }) })
		return writeFile(r, "x")
	})
	for _, c := range []storage.Cap{{Scope: "tenant", Name: "*", MaxRunning: 3}, {Scope: "kind", Name: "other", MaxRunning: 2}, {Scope: "kind", Name: "test", MaxRunning: 1}} {
		w.must(w.store.SetCap(w.ctx, c))
	}
	var items []jobs.Item
	for i := range 30 { // the big one comes first
		raw, _ := json.Marshal(plainPayload{Do: "work", N: i})
		items = append(items, jobs.Item{Request: jobs.Request{Kind: []string{"plain", "other"}[i%2], Tenant: "big", Payload: raw}})
	}
	for i := range 4 {
		items = append(items, jobs.Item{Request: jobs.Request{Kind: "test", Tenant: "big", Payload: payload("work", fmt.Sprint("e", i))}})
	}
	raw, _ := json.Marshal(plainPayload{Do: "work"})
	items = append(items, jobs.Item{Request: jobs.Request{Kind: "plain", Tenant: "small", Payload: raw}})
	receipts, err := w.dispatcher.DispatchAll(w.ctx, nil, items)
	w.must(err)
	w.worker()
	w.worker()
	w.until("the small tenant's job runs while the big one's wait", func() bool {
		return w.job(receipts[len(receipts)-1].Job.ID).State == storage.JobRunning
	})
	close(gate)
	for _, r := range receipts {
		w.ends(r.Job, storage.JobDone)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, most := range map[string]int{"tenant big": 3, "kind other": 2, "exports": 1, "tenant small": 1} {
		if g.most[name] > most || g.most[name] == 0 {
			t.Errorf("%s: %d at once, want at most %d", name, g.most[name], most)
		}
	}
	for _, r := range receipts {
		if got := w.job(r.Job.ID); got.Attempts != 1 {
			t.Errorf("waiting for a cap was counted: %d attempts", got.Attempts)
		}
	}
}

func TestPausedQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	var ran atomic.Int64
	w.does("work", func(context.Context, *jobs.Work, plainPayload) (any, error) { ran.Add(1); return nil, nil })
	w.handle("work", func(_ context.Context, r *jobs.Run) error { ran.Add(1); return writeFile(r, "x") })
	w.must(w.store.PauseQueue(w.ctx, "slow", "me"))
	w.must(w.store.PauseQueue(w.ctx, "slow", "me"))
	held := []storage.Job{w.ask1("work", jobs.Queue("slow")), w.dispatch("work", "sales", jobs.Queue("slow"))}
	w.worker(func(c *jobs.WorkerConfig) { c.Queues = map[string]int{"slow": 1, "default": 1} })
	for _, job := range []storage.Job{w.ask1("work"), w.dispatch("work", "stock")} {
		w.ends(job, storage.JobDone)
	}
	w.until("the export was laid aside", func() bool {
		var aside bool
		w.ask(&aside, "SELECT ring_at = 'infinity' FROM fenceline.jobs WHERE queue = 'slow' AND export_id IS NOT NULL")
		return aside
	})
	queues, err := w.store.Queues(w.ctx)
	w.must(err)
	if len(queues) != 2 || queues[1].Name != "slow" || queues[1].PausedAt == nil || queues[1].Waiting != 2 || queues[1].OldestWait <= 0 || queues[0].PausedAt != nil {
		t.Errorf("queues %+v", queues)
	}
	if ran.Load() != 2 {
		t.Errorf("%d ran", ran.Load())
	}
	w.must(w.store.ResumeQueue(w.ctx, "slow"))
	for _, job := range held {
		w.ends(job, storage.JobDone)
	}
}

func TestMaintenanceAndDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.does("work", func(context.Context, *jobs.Work, plainPayload) (any, error) { return nil, nil })
	w.handle("work", writes("x"))
	w.must(w.store.SetMaintenance(w.ctx, true, "moving house"))
	list := []storage.Job{w.ask1("work"), w.dispatch("work", "sales")}
	stop := w.worker()
	w.until("the export was held", func() bool {
		var held bool
		w.ask(&held, "SELECT count(*) = 1 FROM fenceline.jobs WHERE generation > 1 AND state = 'queued'")
		return held
	})
	m, err := w.store.MaintenanceMode(w.ctx)
	w.must(err)
	if m.Since == nil || m.Note != "moving house" {
		t.Errorf("%+v", m)
	}
	w.must(w.store.SetMaintenance(w.ctx, false, ""))
	w.exec("UPDATE fenceline.jobs SET ring_at = clock_timestamp() WHERE state = 'queued'")
	for _, job := range list {
		w.ends(job, storage.JobDone)
	}
	workers, err := w.store.Workers(w.ctx, 1<<40, 10)
	w.must(err)
	w.must(w.store.AskWorker(w.ctx, workers[0].Name, "drain"))
	w.until("it drains", func() bool {
		job := w.ask1("work")
		got := w.job(job.ID)
		return got.State == storage.JobQueued && w.stays(job)
	})
	w.must(w.store.AskWorker(w.ctx, workers[0].Name, ""))
	w.until("all is done", func() bool {
		var left int
		w.ask(&left, "SELECT count(*) FROM fenceline.jobs WHERE state <> 'done'")
		return left == 0
	})
	stop()
}

// stays reports whether a job still waits after the relay has rung for its queue a few times.
func (w *world) stays(job storage.Job) bool {
	for range 20 {
		if w.job(job.ID).State != storage.JobQueued {
			return false
		}
		_, _, err := w.store.Promote(w.ctx, 1)
		w.must(err)
	}
	return true
}
