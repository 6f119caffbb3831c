package web

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/localredis"
	"github.com/fenceline/fenceline/storage"
)

// work starts a real worker, with a relay and a Redis of its own, until the test
// ends. faults may be nil.
func (w *world) work(name string, faults jobs.Faults) {
	w.t.Helper()
	server := must(localredis.Start("127.0.0.1:0"))(w.t)
	w.t.Cleanup(server.Stop)
	redis := must(jobs.OpenRedis(w.ctx, server.URL(), "t"+strings.ReplaceAll(uuid.NewString(), "-", "")))(w.t)
	w.t.Cleanup(func() { _ = redis.Client.Close() })
	log := slog.New(slog.NewTextHandler(w.log, nil))
	const lease = 10 * time.Second
	parts := []func(context.Context) error{
		jobs.NewWorker(jobs.WorkerConfig{
			Store: w.store, Files: w.files, Registry: w.registry, Redis: redis, Leaser: redis.Leaser(name, lease), Name: name, Log: log,
			Concurrency: 2, Queues: map[string]int{"default": 1}, Lease: lease, Grace: 5 * time.Second, Faults: faults,
		}).Run,
		jobs.NewRelay(w.store, redis, lease, log).Run,
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() {
			if err := part(ctx); err != nil {
				w.t.Error(err)
			}
		})
	}
	w.t.Cleanup(func() { cancel(); wg.Wait() })
}

// holdAt stops attempts at points until the channel of the point is closed or they are cancelled.
type holdAt map[jobs.Point]chan struct{}

func (h holdAt) At(ctx context.Context, p jobs.Point) error {
	until, held := h[p]
	if !held {
		return nil
	}
	select {
	case <-until:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// The bar only grows over a whole run, and is full when the files are published and not before.
func TestProgressOfAWholeRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sealed := holdAt{jobs.PointSealed: make(chan struct{})}
	w.work("w-1", sealed)
	who := w.person("Nadia", "")
	receipt := must(w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "report", Tenant: "acme", Payload: []byte(`{"report":"slow","params":{"rows":1500}}`)}))(t)
	seen := map[string]bool{}
	last, released := 0, false
	eventually(t, "the job is published", func() bool {
		j, attempts := w.look(receipt.Job.ID)
		p := jobProgress(j, attempts)
		seen[strings.Fields(p.Step)[0]] = true
		if p.Percent < last {
			t.Errorf("the bar went back from %d to %d (%s)", last, p.Percent, p.Step)
		}
		last = p.Percent
		if (p.Percent == 100) != (j.State == storage.JobDone) {
			t.Errorf("the bar is at %d while the job is %s", p.Percent, j.State)
		}
		if p.Percent == atPublish && !released {
			w.get("/jobs/"+j.ID.String(), who).want(t, 200, "95 %", "publishing 1,500 rows", `<li class="now">publish`)
			close(sealed[jobs.PointSealed])
			released = true
		}
		return j.State == storage.JobDone
	})
	if !seen["writing,"] || !seen["publishing"] {
		t.Errorf("on the way the steps %v were seen", seen)
	}
	w.get("/jobs/"+receipt.Job.ID.String(), who).want(t, 200, "100 %", "Published: 1,500 rows", "rows/s")
}

func (w *world) look(id uuid.UUID) (storage.Job, []storage.Attempt) {
	w.t.Helper()
	attempts := must(w.store.JobAttempts(w.ctx, id, 10))(w.t)
	return must(w.store.Job(w.ctx, principalAll.scope, id))(w.t), attempts
}
