package jobs

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// runs are the runs of plain jobs that a worker has in hand, from the question
// for one to the answer about its end. It is safe for concurrent use.
type runs struct {
	mu        sync.Mutex
	known     map[uuid.UUID]*inHand
	lingering map[string]bool
	strangers map[uuid.UUID]bool // runs that the database has and we do not, at the last look
}

type inHand struct {
	work   *Work // nil while it was only asked for
	cancel context.CancelCauseFunc
}

func newRuns() *runs {
	return &runs{known: map[uuid.UUID]*inHand{}, lingering: map[string]bool{}, strangers: map[uuid.UUID]bool{}}
}

func (r *runs) expect(run uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[run] = &inHand{}
}

func (r *runs) begin(w *Work, cancel context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[*w.job.RunID] = &inHand{work: w, cancel: cancel}
}

func (r *runs) drop(run uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, run)
}

// lingers marks or unmarks a queue as being looked at again; marking one that is marked answers false.
func (r *runs) lingers(queue string, yes bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if yes && r.lingering[queue] {
		return false
	}
	r.lingering[queue] = yes
	return true
}

// working are the runs that have begun, with the progress they have made since the last call.
func (r *runs) working() (map[uuid.UUID]*inHand, []storage.RunProgress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := map[uuid.UUID]*inHand{}
	var progress []storage.RunProgress
	for run, h := range r.known {
		if h.work == nil {
			continue
		}
		now[run] = h
		if news := h.work.news(); news != nil {
			progress = append(progress, storage.RunProgress{Job: h.work.job.ID, Run: run, Progress: news})
		}
	}
	return now, progress
}

// obey ends the runs that were cancelled or handed on, of those that had begun
// before the database was asked. It answers the runs that the database has given
// us and that we know nothing of, seen twice in a row: the answer to their claim
// was lost for good.
func (r *runs) obey(before map[uuid.UUID]*inHand, orders map[uuid.UUID]storage.JobState) []uuid.UUID {
	for run, h := range before {
		switch state, mine := orders[run]; {
		case !mine:
			h.cancel(&storage.FencedError{Reason: "handed_on"})
		case state == storage.JobCancelling:
			h.cancel(storage.ErrCancelled)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var lost []uuid.UUID
	strangers := map[uuid.UUID]bool{}
	for run := range orders {
		if r.known[run] != nil {
			continue
		}
		strangers[run] = true
		if r.strangers[run] {
			lost = append(lost, run)
		}
	}
	r.strangers = strangers
	return lost
}
