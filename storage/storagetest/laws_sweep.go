package storagetest

import (
	"errors"
	"path"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// The scenes of L7 and L8: what is taken away, and what is told.

func condemnedThenDeleted(s *scene) {
	job := s.insert(newJob("sales"))
	b := s.begin(job)
	_, err := s.write(place(job, b), "half")
	s.must(err)
	kept := storage.SweepOptions{Grace: -time.Hour, Quarantine: time.Hour, Superseded: time.Hour}
	s.sweep(storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Hour})
	s.attemptIs(b, storage.AttemptRunning) // it has just given a heartbeat
	s.sweep(kept)
	s.attemptIs(b, storage.AttemptCondemned)
	s.there(job, b, true) // in quarantine
	s.sweep(atOnce)
	s.attemptIs(b, storage.AttemptDeleted)
	s.there(job, b, false)

	_, err = s.write(place(job, b), "from a worker that was frozen")
	s.must(err)
	s.probe()
	s.sweep(atOnce)
	s.there(job, b, false)

	old, replaced := s.published("sales")
	s.published("sales")
	s.sweep(kept)
	s.there(old, replaced, true) // for its readers
	s.sweep(atOnce)
	s.there(old, replaced, false)
	s.verify(storage.VerifyOptions{Sweep: atOnce, Drained: true})
}

// probe makes the clean-up look at its tombstones now and not in ten minutes.
func (s *scene) probe() {
	s.Helper()
	s.exec("UPDATE fenceline.attempts SET probe_at = clock_timestamp() WHERE probe_at IS NOT NULL")
}

// What Fenceline has not made, or the database has forgotten, is not its to take.
func strangersStay(s *scene) {
	job, b := s.published("sales")
	notes := path.Join(job.ExportID.String(), "notes.txt")
	s.must(s.Plant(notes, "mine"))
	forgotten := storage.Begun{ID: uuid.New(), Token: b.Token}
	_, err := s.write(place(job, forgotten), "whose?")
	s.must(err)
	s.published("sales")
	s.sweep(atOnce)
	s.sweep(atOnce)
	s.there(job, forgotten, true)
	left := 0
	s.must(s.Files.List(s.ctx, func(o files.Object) error {
		if o.Path == notes && o.Size == 4 && !o.Known {
			left++
		}
		return nil
	}))
	if left != 1 {
		s.Errorf("a stranger's file is there %d times", left)
	}
	s.there(job, b, false)
}

// Its files go when its readers have had their time, and nothing is published to it any more.
func exportDeleted(s *scene) {
	job, b := s.published("sales")
	late := s.insert(newJob("sales"))
	running := s.sealed(late)
	s.must(s.Store.DeleteExport(s.ctx, storage.Scope{All: true}, job.ExportID))
	if err := s.Store.Publish(s.ctx, running.ID); err == nil || !isOutcome(err) {
		s.Errorf("publish to a deleted export answered %v", err)
	}
	s.jobIs(late, storage.JobCancelled)
	s.sweep(storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Hour})
	s.there(job, b, true)
	s.holds()
	s.sweep(atOnce)
	s.there(job, b, false)
	s.there(late, running, false)
	s.verify(storage.VerifyOptions{Sweep: atOnce, Drained: true})
	if _, err := s.tryInsert(newJob("sales")); !errors.Is(err, storage.ErrGone) {
		s.Errorf("a job for a deleted export answered %v", err)
	}
}

// One notice for each publication, none for anything else.
func onlyPublicationNotifies(s *scene) {
	job, b := s.published("sales")
	s.must(s.Store.Publish(s.ctx, b.ID))
	s.notices(job, 1)

	late := s.insert(newJob("sales"))
	stale := s.sealed(late)
	s.published("sales")
	s.refused(s.Store.Publish(s.ctx, stale.ID), storage.ErrFenced)
	s.notices(late, 0)

	condemned := s.insert(newJob("condemned"))
	b = s.sealed(condemned)
	s.sweep(atOnce)
	s.refused(s.Store.Publish(s.ctx, b.ID), storage.ErrCondemned)
	s.notices(condemned, 0)

	cancelled := s.insert(newJob("cancelled"))
	b = s.sealed(cancelled)
	s.cancel(cancelled, storage.JobCancelling)
	s.refused(s.Store.Publish(s.ctx, b.ID), storage.ErrCancelled)
	s.notices(cancelled, 0)

	broken := s.insert(newJob("broken"))
	_, err := s.Store.EndAttempt(s.ctx, s.sealed(broken).ID, failed)
	s.must(err)
	s.notices(broken, 0)
	s.holds()
}

// notices fails unless a job has so many notices of publication.
func (s *scene) notices(job storage.Job, want int64) {
	s.Helper()
	if n := s.number("SELECT count(*) FROM fenceline.outbox WHERE job_id = $1 AND topic = 'export.published'", job.ID); n != want {
		s.Errorf("job %q has %d notices of its publication, want %d", job.Title, n, want)
	}
}

// The notice belongs to the publish: both come, or neither.
func publishRolledBack(s *scene) {
	first, current := s.published("sales")
	job := s.insert(newJob("sales"))
	b := s.sealed(job)
	tx, _ := s.hold("SELECT fenceline.publish_attempt($1)", b.ID)
	s.must(tx.Rollback(s.ctx))
	s.currentIs(first, current)
	s.attemptIs(b, storage.AttemptSealed)
	s.notices(job, 0)
	s.must(s.Store.Publish(s.ctx, b.ID))
	s.currentIs(job, b)
	s.notices(job, 1)
	s.holds()
}
