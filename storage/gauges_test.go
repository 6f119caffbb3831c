package storage_test

import (
	"testing"

	"github.com/fenceline/fenceline/storage"
)

// What waits is cancelled, plain jobs and exports, whatever they wait for; what
// runs goes on, and other queues are left alone.
func TestClearQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := newJob("")
	plain.Kind = "plain"
	later := plain
	later.Delay = 3600 * 1e9
	other := plain
	other.Queue = "other"
	runs := w.insert(newJob("runs"))
	w.begin(runs)
	waiting := []storage.Job{w.insert(newJob("waits")), w.insert(plain), w.insert(later)}
	apart := w.insert(other)
	if n, err := w.store.CountWaiting(w.ctx, "default"); err != nil || n != 3 {
		t.Errorf("%d wait, %v", n, err)
	}
	if n, err := w.store.ClearQueue(w.ctx, "default"); err != nil || n != 3 {
		t.Errorf("%d were cancelled, %v", n, err)
	}
	for _, job := range waiting {
		if got := w.jobState(job.ID, storage.JobCancelled); got.Error == nil {
			t.Error("why is not kept")
		}
	}
	w.jobState(runs.ID, storage.JobRunning)
	w.jobState(apart.ID, storage.JobQueued)
	g, err := w.store.Gauges(w.ctx)
	w.must(err)
	if g != (storage.Gauges{}) {
		t.Errorf("%+v", g)
	}
}
