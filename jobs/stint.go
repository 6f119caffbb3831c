package jobs

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// quota bounds how many jobs a worker begins. A slot takes a part before it asks
// for a job and gives it back when it got none. A nil quota bounds nothing. It is
// safe for concurrent use.
type quota struct {
	parts chan struct{}
	spent chan struct{} // closed when all were used
	used  atomic.Int64
	most  int64
}

func newQuota(most int) *quota {
	if most == 0 {
		return nil
	}
	q := &quota{parts: make(chan struct{}, most), spent: make(chan struct{}), most: int64(most)}
	for range most {
		q.parts <- struct{}{}
	}
	return q
}

// take waits until there is a part, unless at once; false when all were used.
func (q *quota) take(ctx context.Context, atOnce bool) bool {
	if q == nil {
		return true
	}
	select {
	case <-q.parts:
		return true
	default:
	}
	if atOnce {
		return false
	}
	select {
	case <-q.parts:
		return true
	case <-q.spent:
		return false
	case <-ctx.Done():
		return false
	}
}

// settle says whether a part that was taken was used.
func (q *quota) settle(used bool) {
	switch {
	case q == nil:
	case !used:
		q.parts <- struct{}{}
	case q.used.Add(1) == q.most:
		close(q.spent)
	}
}

// emptyEvery is how often a worker that ends when nothing is left looks.
const emptyEvery = 250 * time.Millisecond

// watchStint ends the worker when it has done what it was started for: so many
// jobs, so long, or until nothing waits. It goes on until ctx ends.
func (w *Worker) watchStint(ctx context.Context, stop func()) {
	var spent <-chan struct{}
	if w.quota != nil {
		spent = w.quota.spent
	}
	var over <-chan time.Time
	if w.conf.MaxTime > 0 {
		timer := time.NewTimer(w.conf.MaxTime)
		defer timer.Stop()
		over = timer.C
	}
	var look <-chan time.Time
	if w.conf.StopWhenEmpty {
		tick := time.NewTicker(emptyEvery)
		defer tick.Stop()
		look = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-spent:
			w.log.Info("has begun as many jobs as it may", "jobs", w.conf.MaxJobs)
			stop()
			return
		case <-over:
			w.log.Info("its time is over", "time", w.conf.MaxTime)
			stop()
			return
		case <-look:
			if w.empty(ctx) {
				w.log.Info("nothing is left in its queues")
				stop()
				return
			}
		}
	}
}

// empty reports whether nothing waits in the worker's queues that could run now,
// nothing runs here, and no batch has ended that would still call for a job.
// The end of a job may end its batch, and the end of a batch may bring a job: so
// the queues are looked at before and after the batches.
func (w *Worker) empty(ctx context.Context) bool {
	if !w.quiet(ctx) {
		return false
	}
	open, err := w.store.OpenBatches(ctx, 1)
	return err == nil && len(open) == 0 && w.quiet(ctx)
}

// quiet reports whether nothing waits in the worker's queues that could run now, and nothing runs here.
func (w *Worker) quiet(ctx context.Context) bool {
	queues, err := w.store.Queues(ctx)
	if err != nil {
		return false // the next look will tell
	}
	maintenance, err := w.store.MaintenanceMode(ctx)
	if err != nil {
		return false
	}
	for _, q := range queues {
		if _, ours := w.conf.Queues[q.Name]; ours && q.Waiting > 0 && q.PausedAt == nil && maintenance.Since == nil {
			return false
		}
	}
	return w.runs.idle() && w.exports.Load() == 0
}

// idle reports whether no run of a plain job is in hand, nor asked for: the answer may be on its way.
func (r *runs) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known) == 0
}

// tryExport makes an attempt at a job of an export, if the worker may begin one more.
func (w *Worker) tryExport(ctx context.Context, job storage.Job) {
	if !w.quota.take(ctx, false) {
		return
	}
	w.exports.Add(1)
	defer w.exports.Add(-1)
	w.quota.settle(w.work(ctx, job))
}
