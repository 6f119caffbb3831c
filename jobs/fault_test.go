package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// once hurts the first attempt that comes to a point and no other.
type once struct {
	point jobs.Point
	hurt  func(context.Context) error
	done  atomic.Bool
	met   chan struct{}
}

func newOnce(p jobs.Point, hurt func(context.Context) error) *once {
	return &once{point: p, hurt: hurt, met: make(chan struct{})}
}

func (o *once) At(ctx context.Context, p jobs.Point) error {
	if p != o.point || !o.done.CompareAndSwap(false, true) {
		return nil
	}
	close(o.met)
	return o.hurt(ctx)
}

func readsAndWrites(ctx context.Context, r *jobs.Run) error {
	sn, err := r.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer sn.Close()
	return writeFile(r, fmt.Sprint(r.Token()))
}

// Every step × {error, stall beyond the lease}: the job is published once, and
// the pointer and its file belong together. (kill -9 of a real process at every
// step is in cmd/fenceline, lost replies in storage.)
func TestFaultsAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, point := range jobs.Points() {
		t.Run(string(point)+"/error", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Shared(t))
			w.handle("work", readsAndWrites)
			fault := newOnce(point, func(context.Context) error { return errors.New("injected") })
			w.worker(func(c *jobs.WorkerConfig) { c.Faults = fault })
			job := w.dispatch("work", "sales")
			<-fault.met
			w.until("it waits or has ended", func() bool { j := w.job(job.ID); return j.State != storage.JobRunning })
			if w.job(job.ID).State == storage.JobQueued {
				w.due(job)
			}
			w.whole(w.ends(job, storage.JobDone))
		})
		t.Run(string(point)+"/stall", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Shared(t))
			w.leaser = jobs.AlwaysLeaser{} // only the database stands between the two
			w.handle("work", readsAndWrites)
			release := make(chan struct{})
			fault := newOnce(point, func(context.Context) error { <-release; return nil })
			w.worker(func(c *jobs.WorkerConfig) { c.Faults = fault })
			job := w.dispatch("work", "sales")
			<-fault.met
			// As if the process were frozen: its heartbeat is an hour old, whatever it still sends.
			w.exec("UPDATE fenceline.attempts SET heartbeat_at = now() - interval '1 hour'")
			second := w.dispatch("work", "sales")
			got := w.ends(second, storage.JobDone)
			before := w.current(got)
			close(release)
			w.until("the stalled job has ended", func() bool { return w.job(job.ID).State.Ended() })
			switch state := w.job(job.ID).State; state {
			case storage.JobDone, storage.JobSuperseded:
			default:
				t.Errorf("the stalled job is %s: %s", state, deref(w.job(job.ID).Error))
			}
			w.whole(second)
			if now := w.current(got); now < before {
				t.Errorf("the file went back from token %s to %s", before, now)
			}
		})
	}
}

// whole checks that the current file is the one of the pointer's token, and that
// no job published twice.
func (w *world) whole(job storage.Job) {
	w.t.Helper()
	e, err := w.store.Export(w.ctx, everything, job.ExportID)
	w.must(err)
	if got := w.current(job); got != fmt.Sprint(e.LastToken) {
		w.t.Errorf("the pointer has token %d, the file says %s", e.LastToken, got)
	}
	page, err := w.store.Jobs(w.ctx, everything, storage.JobFilter{ExportID: job.ExportID})
	w.must(err)
	for _, j := range page.Items {
		published := 0
		for _, a := range w.attempts(j) {
			if a.Verdict != nil && (*a.Verdict == storage.AttemptPublished || *a.Verdict == storage.AttemptSuperseded) {
				published++
			}
		}
		if want := map[bool]int{true: 1}[j.State == storage.JobDone]; published != want {
			w.t.Errorf("job %s is %s and published %d times", j.ID, j.State, published)
		}
	}
}
