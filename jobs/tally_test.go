package jobs_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
)

func TestTally(t *testing.T) {
	t.Parallel()
	r, err := jobs.OpenRedis(t.Context(), redistest.Shared(t).URL(), "tally-"+t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Client.Close() })
	tallies := []*jobs.Tally{jobs.NewTally(r), jobs.NewTally(r)}
	var let atomic.Int64
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			wait, err := tallies[i%2].Add(t.Context(), "a", 10, time.Minute, 1)
			switch {
			case err != nil:
				t.Error(err)
			case wait == 0:
				let.Add(1)
			case wait > time.Minute:
				t.Errorf("one waits %s", wait)
			}
		})
	}
	all.Wait()
	if let.Load() != 10 {
		t.Errorf("%d of 40 at once were let through, want 10", let.Load())
	}
	look := func(want bool) {
		t.Helper()
		if wait, err := tallies[0].Add(t.Context(), "a", 10, time.Minute, 0); err != nil || (wait > 0) != want {
			t.Errorf("blocked for %s, %v", wait, err)
		}
	}
	look(true)
	if _, err := tallies[1].Add(t.Context(), "a", 1<<30, time.Minute, -1); err != nil {
		t.Error(err)
	}
	look(false)
	if err := tallies[1].Clear(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if _, err := tallies[1].Add(t.Context(), "a", 1<<30, time.Minute, -1); err != nil {
		t.Error(err)
	}
	look(false)
	if _, err := tallies[0].Add(t.Context(), "b", 1, 30*time.Millisecond, 1); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(20 * time.Second); ; { // its window is over by itself
		wait, err := tallies[0].Add(t.Context(), "b", 1, 30*time.Millisecond, 0)
		if err == nil && wait == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("still blocked: %s, %v", wait, err)
		}
	}
}
