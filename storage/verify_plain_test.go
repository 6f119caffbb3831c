package storage_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// plainJob inserts a job that publishes nothing.
func (w *world) plainJob(change ...func(*storage.NewJob)) uuid.UUID {
	w.t.Helper()
	n := newJob("")
	for _, c := range change {
		c(&n)
	}
	out, err := w.store.InsertNow(w.ctx, []storage.NewJob{n})
	w.must(err)
	w.must(out[0].Err)
	return out[0].ID
}

func TestVerifyKnowsPlainJobs(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	first := s.plainJob()
	chain := uuid.New()
	s.plainJob(func(n *storage.NewJob) { n.Chain, n.After = &chain, &first })
	worker := uuid.New()
	s.must(s.store.RegisterWorker(s.ctx, storage.Worker{ID: worker, Name: "w-1", Version: "test", Queues: []byte("{}"), Concurrency: 1}))
	turned, err := s.store.Turn(s.ctx, worker, nil, []storage.Want{{Queue: "default", Runs: []uuid.UUID{uuid.New()}}})
	s.must(err)
	if len(turned.Claimed) != 1 || turned.Claimed[0].Job.ID != first {
		t.Fatalf("claimed %+v", turned.Claimed)
	}
	if found, _ := s.verify(storage.VerifyOptions{}); len(found) != 0 {
		t.Errorf("all is well, and it found %+v", found)
	}
	s.force("UPDATE fenceline.workers SET heartbeat_at = now() - interval '1 hour'")
	found, _ := s.verify(storage.VerifyOptions{})
	if len(found) != 1 || !strings.Contains(found[0].What, "stuck: the job is running on worker w-1") {
		t.Errorf("a silent worker: %+v", found)
	}
	s.force("UPDATE fenceline.jobs SET state = 'done', finished_at = now() WHERE id = $1", first)
	if found, _ = s.verify(storage.VerifyOptions{}); len(found) != 1 || !strings.Contains(found[0].What, "waits for the one before it in its chain, which is done") {
		t.Errorf("a chain that was not continued: %+v", found)
	}
}
