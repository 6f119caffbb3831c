package storage_test

import (
	"context"
	"testing"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// watchedRemoval calls look before it removes anything.
type watchedRemoval struct {
	files.Store
	look func()
}

func (f watchedRemoval) Remove(ctx context.Context, p files.Place) (int64, error) {
	f.look()
	return f.Store.Remove(ctx, p)
}

// Whatever goes on for long and lets only one of its kind run keeps no view of the
// rows open meanwhile: VACUUM clears nothing away that anybody may still look at.
func TestLocksKeepNoViewOpen(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	looked := 0
	look := func() {
		looked++
		var locks, views int
		s.must(s.query(`SELECT count(*), count(backend_xmin) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'idle in transaction'`).Scan(&locks, &views))
		if locks == 0 || views > 0 {
			t.Errorf("%d of %d transactions that hold a lock see rows", views, locks)
		}
	}
	s.publishFile(s.local, "kept", "kept")
	job := s.insert(newJob("lost"))
	_, err := s.store.EndAttempt(s.ctx, s.world.write(s.local, job, "a").ID, storage.Ending{State: storage.AttemptFailed, Reason: "failed", Final: true})
	s.must(err)
	_, err = storage.NewSweep(s.store, watchedRemoval{s.local, look}, everyAge).Run(s.ctx)
	s.must(err)
	if looked != 1 {
		t.Fatalf("the clean-up removed the files of %d attempts", looked)
	}
	_, err = storage.Recover(s.ctx, s.store, s.local, storage.RecoverOptions{Adopt: true, Step: func(string) { look() }})
	s.must(err)
	if looked < 5 {
		t.Fatalf("looked only %d times", looked)
	}
}
