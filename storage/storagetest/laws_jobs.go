package storagetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// The scenes of L4, L5 and L6: what becomes of jobs.

// Every bell may be rung many times: one of those who hear it begins.
func deliveredManyTimes(s *scene) {
	job := s.insert(newJob("sales"))
	var begun atomic.Int32
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			_, err := s.Store.BeginAttempt(s.ctx, job.ID, "w")
			if err == nil {
				begun.Add(1)
			} else if !errors.Is(err, storage.ErrNotDue) {
				s.Errorf("begin answered %v", err)
			}
		})
	}
	wg.Wait()
	if n := begun.Load(); n != 1 {
		s.Errorf("%d of 6 deliveries began the job", n)
	}
	done, _ := s.published("stock")
	if _, err := s.Store.BeginAttempt(s.ctx, done.ID, "w"); !errors.Is(err, storage.ErrNotDue) {
		s.Errorf("a job that is done was delivered again, and begin answered %v", err)
	}
	s.holds()
}

// A job is handed on because its worker was silent, but that one lives and both
// publish, in either order. Only the one that has the job may.
func handedOnAlive(s *scene) {
	for _, staleFirst := range []bool{false, true} {
		job := s.insert(newJob("sales"))
		stale := s.sealed(job)
		s.handOn()
		second := s.sealed(job)
		if staleFirst {
			s.refused(s.Store.Publish(s.ctx, stale.ID), storage.ErrFenced)
			s.jobIs(job, storage.JobRunning)
		}
		if err := s.Store.Publish(s.ctx, second.ID); err != nil {
			s.Errorf("publish of the attempt that has the job answered %v", err)
		}
		if !staleFirst {
			s.refused(s.Store.Publish(s.ctx, stale.ID), storage.ErrFenced)
		}
		s.jobIs(job, storage.JobDone)
		s.currentIs(job, second)
	}
	s.holds()
}

func publishRepeated(s *scene) {
	_, b := s.published("sales")
	s.must(s.Store.Publish(s.ctx, b.ID))
	job, next := s.published("sales")
	s.must(s.Store.Publish(s.ctx, b.ID)) // it was published, although it has been replaced since
	s.sweep(atOnce)
	s.must(s.Store.Publish(s.ctx, b.ID)) // and its files are gone
	s.currentIs(job, next)
	s.verify(storage.VerifyOptions{Sweep: atOnce, Drained: true})
}

// Whatever an attempt had done when it was lost, another one does the job.
func lostAtEveryStep(s *scene) {
	for step, lose := range map[string]func(job storage.Job){
		"begun":     func(job storage.Job) { s.begin(job) },
		"written":   func(job storage.Job) { _, err := s.write(place(job, s.begin(job)), "half"); s.must(err) },
		"sealed":    func(job storage.Job) { s.sealed(job) },
		"condemned": func(job storage.Job) { s.sealed(job); s.sweep(atOnce) },
	} {
		job := s.insert(newJob(step))
		lose(job)
		// A condemned attempt's heartbeat may be young: the worker may live.
		lease := -time.Hour
		if step == "condemned" {
			lease = time.Hour
		}
		lost, err := s.Store.HandOnLost(s.ctx, lease, 100)
		s.must(err)
		if len(lost) != 1 || lost[0].JobID != job.ID || lost[0].JobState != storage.JobQueued {
			s.Fatalf("%s: handed on %+v", step, lost)
		}
		again := s.sealed(job)
		s.must(s.Store.Publish(s.ctx, again.ID))
		s.jobIs(job, storage.JobDone)
	}
	s.begin(s.insert(newJob("alive")))
	if lost, err := s.Store.HandOnLost(s.ctx, time.Hour, 100); err != nil || len(lost) != 0 {
		s.Errorf("a job whose attempt lives was handed on: %+v, %v", lost, err)
	}
	s.holds()
}

// Failures and crashes are counted to an end.
func everyJobEnds(s *scene) {
	failing := s.insert(newJob("failing"))
	for range failing.MaxAttempts {
		_, err := s.Store.EndAttempt(s.ctx, s.begin(failing).ID, failed)
		s.must(err)
	}
	s.jobIs(failing, storage.JobFailed)
	if got := s.text("SELECT error FROM fenceline.jobs WHERE id = $1", failing.ID); got != failed.Error {
		s.Errorf("the job failed for %q", got)
	}
	crashing := s.insert(newJob("crashing"))
	for range crashing.MaxCrashes {
		s.begin(crashing)
		s.handOn()
	}
	s.jobIs(crashing, storage.JobFailed)
	s.holds()
}

// A cancelled job cannot publish any more, however its attempt hears of it.
func cancelledAnywhere(s *scene) {
	waiting := s.insert(newJob("waiting"))
	s.cancel(waiting, storage.JobCancelled)
	if _, err := s.Store.BeginAttempt(s.ctx, waiting.ID, "w"); !errors.Is(err, storage.ErrNotDue) {
		s.Errorf("a cancelled job was begun: %v", err)
	}
	for how, hear := range map[string]func(b storage.Begun){
		"told": func(b storage.Begun) {
			if err := s.Store.Heartbeat(s.ctx, b.ID, storage.Progress{Step: "publish"}); !errors.Is(err, storage.ErrCancelled) {
				s.Errorf("the heartbeat of a cancelled job answered %v", err)
			}
			_, err := s.Store.EndAttempt(s.ctx, b.ID, stopped)
			s.must(err)
		},
		"publishes": func(b storage.Begun) { s.refused(s.Store.Publish(s.ctx, b.ID), storage.ErrCancelled) },
		"lost":      func(storage.Begun) { s.handOn() },
	} {
		job := s.insert(newJob(how))
		b := s.sealed(job)
		s.cancel(job, storage.JobCancelling)
		hear(b)
		s.jobIs(job, storage.JobCancelled)
	}
	s.holds()
}

func (s *scene) cancel(job storage.Job, want storage.JobState) {
	s.Helper()
	state, err := s.Store.CancelJob(s.ctx, storage.Scope{All: true}, job.ID)
	s.must(err)
	if state != want {
		s.Fatalf("the job is %s after cancel, want %s", state, want)
	}
}

// The bell may be lost as often as it likes.
func rungUntilBegun(s *scene) {
	job := s.insert(newJob("sales"))
	rings := func() int {
		bells, err := s.Store.TakeBells(s.ctx, 10, 0)
		s.must(err)
		return len(bells)
	}
	for range 3 {
		if n := rings(); n != 1 {
			s.Errorf("%d bells ring for the waiting job", n)
		}
	}
	if _, err := s.Store.TakeBells(s.ctx, 10, time.Hour); err != nil { // put off, and then Redis was emptied
		s.Fatalf("take bells: %v", err)
	}
	_, err := s.Store.RingAll(s.ctx)
	s.must(err)
	if n := rings(); n != 1 {
		s.Errorf("%d bells ring after Redis was emptied", n)
	}
	b := s.begin(job)
	if n := rings(); n != 0 {
		s.Errorf("%d bells ring for a job that runs", n)
	}
	_, err = s.Store.EndAttempt(s.ctx, b.ID, released)
	s.must(err)
	if n := rings(); n != 1 {
		s.Errorf("%d bells ring for a job that was given back", n)
	}
	s.holds()
}

// Whatever an attempt says that has lost its job, the job is another's, or done.
func staleAttemptGivesUp(s *scene) {
	final := failed
	final.Final = true
	for _, e := range []storage.Ending{failed, final, released, overtook, stopped} {
		job := s.insert(newJob("sales"))
		first := s.begin(job)
		s.handOn()
		second := s.begin(job)
		s.handOn()
		has := s.sealed(job)
		s.endsStale(first, e)
		s.jobIs(job, storage.JobRunning)
		s.must(s.Store.Publish(s.ctx, has.ID))
		s.endsStale(second, e)
		s.jobIs(job, storage.JobDone)
		s.currentIs(job, has)
	}
	s.holds()
}

// endsStale fails unless the end of an attempt touches no job.
func (s *scene) endsStale(b storage.Begun, e storage.Ending) {
	s.Helper()
	if became, err := s.Store.EndAttempt(s.ctx, b.ID, e); err != nil || became != "stale" {
		s.Errorf("the end of a stale attempt as %s answered %q, %v", e.State, became, err)
	}
}
