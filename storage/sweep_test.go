package storage_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// swept is a world with files on disk.
type swept struct {
	*world
	local *files.Local
}

func newSwept(t testing.TB) *swept {
	t.Helper()
	w := newWorld(t)
	id, err := w.store.Installation(w.ctx)
	w.must(err)
	local, err := files.OpenLocal(filepath.Join(t.TempDir(), "files"), id)
	w.must(err)
	t.Cleanup(func() { _ = local.Close() })
	return &swept{w, local}
}

// everyAge makes all garbage due at once.
var everyAge = storage.SweepOptions{Grace: -time.Hour, Quarantine: -time.Hour, Superseded: -time.Hour, Worker: "test"}

func (s *swept) sweep(o storage.SweepOptions) *storage.Sweep {
	return storage.NewSweep(s.store, s.local, o)
}

func (s *swept) run(o storage.SweepOptions) storage.SweepResult {
	s.t.Helper()
	res, err := s.sweep(o).Run(s.ctx)
	s.must(err)
	return res
}

// plan is everything that a run would do.
func (s *swept) plan(o storage.SweepOptions) (items []storage.SweepItem) {
	s.t.Helper()
	_, err := s.sweep(o).Plan(s.ctx, func(it storage.SweepItem) error {
		items = append(items, it)
		return nil
	})
	s.must(err)
	return items
}

func (s *swept) place(job storage.Job, b storage.Begun) files.Place {
	return files.Place{Export: job.ExportID, Token: b.Token, Attempt: b.ID}
}

// attempt begins an attempt of a new job and writes its file.
func (s *swept) attempt(key string) (storage.Job, storage.Begun) {
	s.t.Helper()
	job := s.insert(newJob(key))
	b := s.begin(job)
	s.write(job, b)
	return job, b
}

func (s *swept) write(job storage.Job, b storage.Begun) {
	s.t.Helper()
	w, err := s.local.Create(s.ctx, s.place(job, b), "1-orders.csv")
	s.must(err)
	defer w.Abort()
	_, err = io.WriteString(w, "12345")
	s.must(err)
	_, err = w.Commit()
	s.must(err)
}

func (s *swept) there(job storage.Job, b storage.Begun, want bool) {
	s.t.Helper()
	got, err := s.local.Present(s.ctx, s.place(job, b))
	s.must(err)
	if got != want {
		s.t.Errorf("files of token %d are there: %t, want %t", b.Token, got, want)
	}
}

func TestSweepDeletesWhatLostAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	job1, replaced := s.attempt("sales")
	s.seal(replaced)
	s.must(s.store.Publish(s.ctx, replaced.ID))
	job2, current := s.attempt("sales")
	s.seal(current)
	job3, late := s.attempt("stock") // fenced by a newer job
	_, winner := s.attempt("stock")
	s.seal(winner)
	s.must(s.store.Publish(s.ctx, winner.ID))
	s.seal(late)
	fencedFor(t, s.store.Publish(s.ctx, late.ID), "newer_job", winner.Token)
	s.must(s.store.Publish(s.ctx, current.ID))
	job4, silent := s.attempt("silent")
	job5, working := s.attempt("working")

	// The silent one was last heard of an hour ago, the working one just now.
	s.exec("UPDATE fenceline.attempts SET heartbeat_at = now() - interval '1 hour' WHERE id = $1", silent.ID)
	s.exec("UPDATE fenceline.attempts SET finished_at = now() - interval '1 hour' WHERE id = $1", late.ID)
	opt := storage.SweepOptions{Grace: time.Minute, Quarantine: time.Minute, Superseded: time.Hour}

	plan := s.plan(opt)
	var planned []int64
	for _, it := range plan {
		planned = append(planned, it.Token)
	}
	if slices.Sort(planned); !slices.Equal(planned, []int64{late.Token, silent.Token}) {
		t.Fatalf("planned tokens %v, want the fenced %d and the silent %d", planned, late.Token, silent.Token)
	}
	res := s.run(opt)
	if res.Planned != len(plan) || res.Condemned != 1 || res.Deleted != 1 || res.Bytes != 5 || res.Failed != 0 {
		t.Errorf("first run: %+v", res)
	}
	s.there(job3, late, false)
	s.attemptState(late.ID, storage.AttemptDeleted)
	s.there(job4, silent, true) // condemned now, deleted after its quarantine
	s.attemptState(silent.ID, storage.AttemptCondemned)
	opt.Quarantine = -time.Second
	s.run(opt)
	s.there(job4, silent, false)

	s.there(job1, replaced, true) // its readers' hour is not over
	opt.Superseded = -time.Second
	s.run(opt)
	s.there(job1, replaced, false)
	s.there(job2, current, true)
	s.there(job5, working, true)
	s.pointer(job2.ExportID, current.Token)
	if a := s.attemptState(late.ID, storage.AttemptDeleted); a.Verdict == nil || *a.Verdict != storage.AttemptFenced {
		t.Errorf("the tombstone forgot its verdict: %v", a.Verdict)
	}
	s.seal(working)
	s.must(s.store.Publish(s.ctx, working.ID))
}

// A grace of zero condemns what is alive: slower, never wrong.
func TestSweepWithoutGraceIsStillSafe(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	job, b := s.attempt("sales")
	s.seal(b)
	s.run(everyAge)
	s.there(job, b, false)
	if err := s.store.Publish(s.ctx, b.ID); !errors.Is(err, storage.ErrCondemned) {
		t.Errorf("publish of a condemned attempt: %v", err)
	}
	s.pointer(job.ExportID, 0)
}

// A frozen worker may finish its rename after its folder was deleted.
func TestSweepProbesTombstones(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	job, b := s.attempt("sales")
	s.run(everyAge)
	s.there(job, b, false)
	s.write(job, b)
	if res := s.run(everyAge); res.Planned != 0 {
		t.Errorf("probed before its time: %+v", res)
	}
	for range 3 {
		s.exec("UPDATE fenceline.attempts SET probe_at = now() WHERE probe_at IS NOT NULL")
		if res := s.run(everyAge); res.Probed != 1 {
			t.Errorf("probe: %+v", res)
		}
		s.there(job, b, false)
		s.write(job, b)
	}
	var left int
	s.must(s.query("SELECT count(*) FROM fenceline.attempts WHERE probe_at IS NOT NULL").Scan(&left))
	if left != 0 {
		t.Error("a tombstone is probed for ever")
	}
}

func TestSweepStopsOnWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	refuses := func(t *testing.T, s *swept, job storage.Job, b storage.Begun) {
		t.Helper()
		res, err := s.sweep(everyAge).Run(s.ctx)
		if !errors.Is(err, storage.ErrUnsafe) {
			t.Errorf("run: %+v, %v; want to refuse", res, err)
		}
		s.there(job, b, true)
		if runs, err := s.store.SweepRuns(s.ctx, 1); err != nil || len(runs) != 1 || runs[0].Error == nil {
			t.Errorf("the refusal is not in the record: %+v, %v", runs, err)
		}
	}
	t.Run("a folder of another installation", func(t *testing.T) {
		t.Parallel()
		s := newSwept(t)
		job, b := s.attempt("sales")
		s.exec("SELECT fenceline.condemn_attempts(ARRAY[$1::uuid], -3600)", b.ID)
		s.exec("UPDATE fenceline.installation SET id = gen_random_uuid()")
		refuses(t, s, job, b)
	})
	t.Run("a token that was never given out", func(t *testing.T) {
		t.Parallel()
		s := newSwept(t)
		job, b := s.attempt("sales")
		s.exec("SELECT fenceline.condemn_attempts(ARRAY[$1::uuid], -3600)", b.ID)
		s.write(job, storage.Begun{ID: uuid.New(), Token: b.Token + 1000})
		refuses(t, s, job, b)
	})
	t.Run("a database that knows nothing", func(t *testing.T) {
		t.Parallel()
		s := newSwept(t)
		job, b := storage.Job{ExportID: uuid.New()}, storage.Begun{ID: uuid.New(), Token: 7}
		s.write(job, b)
		refuses(t, s, job, b)
	})
	t.Run("another run", func(t *testing.T) {
		t.Parallel()
		s := newSwept(t)
		conn, err := s.conn().Acquire(s.ctx)
		s.must(err)
		defer conn.Release()
		_, err = conn.Exec(s.ctx, "SELECT pg_advisory_lock(x'46454e4300000002'::bigint)")
		s.must(err)
		if _, err := s.sweep(everyAge).Run(s.ctx); !errors.Is(err, storage.ErrBusy) {
			t.Errorf("run beside another: %v", err)
		}
		_, err = conn.Exec(s.ctx, "SELECT pg_advisory_unlock(x'46454e4300000002'::bigint)")
		s.must(err)
		s.run(everyAge) // and the lock was given back
		s.run(everyAge)
	})
}

func TestSweepLeavesUnknownFilesAlone(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	job, b := s.attempt("sales")
	stranger := storage.Begun{ID: uuid.New(), Token: b.Token - 1 + 1} // a token that was given out, an attempt that is not known
	s.write(job, stranger)
	notes := filepath.Join(s.local.Dir(), job.ExportID.String(), "notes.txt")
	s.must(os.WriteFile(notes, []byte("mine"), 0o600))
	res := s.run(everyAge)
	if len(res.Unknown) != 2 {
		t.Errorf("unknown: %v", res.Unknown)
	}
	s.there(job, stranger, true)
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
	s.there(job, b, false)
}

// What cannot be deleted is reported and tried again; the rest goes on.
func TestSweepGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	job1, stuck := s.attempt("stuck")
	job2, fine := s.attempt("fine")
	// A file where the folder should be removed from: the folder's parent is not one.
	dir := filepath.Join(s.local.Dir(), job1.ExportID.String())
	s.must(os.Rename(dir, dir+".away"))
	s.must(os.Symlink("/nonexistent", dir))
	res, err := s.sweep(everyAge).Run(s.ctx)
	if err == nil && res.Failed != 1 || err != nil && !errors.Is(err, storage.ErrUnsafe) {
		t.Fatalf("run: %+v, %v", res, err)
	}
	s.must(os.Remove(dir))
	s.must(os.Rename(dir+".away", dir))
	s.run(everyAge)
	s.there(job1, stuck, false)
	s.there(job2, fine, false)
	runs, err := s.store.SweepRuns(s.ctx, 10)
	s.must(err)
	if len(runs) != 2 || runs[0].FinishedAt == nil {
		t.Errorf("the record holds %+v", runs)
	}
}

func TestADeletedExportLosesItsFiles(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	job, b := s.attempt("sales")
	s.must(s.store.Publish(s.ctx, s.seal(b).ID))
	kept, other := s.attempt("stock")
	s.must(s.store.Publish(s.ctx, s.seal(other).ID))
	late, running := s.attempt("sales")
	s.must(s.store.DeleteExport(s.ctx, everything, job.ExportID))

	s.run(storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Hour})
	s.there(job, b, true) // somebody may be reading it
	if err := s.store.Publish(s.ctx, s.seal(running).ID); !errors.Is(err, storage.ErrCancelled) && !errors.Is(err, storage.ErrGone) {
		t.Errorf("publish to a deleted export: %v", err)
	}
	s.jobState(late.ID, storage.JobCancelled)
	elsewhere := everyAge
	elsewhere.Tenant = "globex"
	if res := s.run(elsewhere); res.Planned != 0 {
		t.Errorf("another tenant's sweep planned %+v", res)
	}
	ours := everyAge
	ours.Tenant = "acme"
	s.run(ours)
	s.there(job, b, false)
	s.there(late, running, false)
	s.there(kept, other, true)
	if a := s.attemptState(b.ID, storage.AttemptDeleted); *a.Verdict != storage.AttemptPublished {
		t.Errorf("the tombstone's verdict is %s", *a.Verdict)
	}
	if err := s.tryExec("UPDATE fenceline.exports SET deleted_at = NULL WHERE id = $1", job.ExportID); err == nil {
		t.Error("a deleted export came back")
	}
	if err := s.tryExec("UPDATE fenceline.attempts SET state = 'deleted' WHERE id = $1", other.ID); err == nil {
		t.Error("the current attempt of a living export was deleted")
	}
	if err := s.store.DeleteExport(s.ctx, everything, job.ExportID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("deleting it again: %v", err)
	}
	err := s.store.Transaction(s.ctx, func(tx storage.Tx) error {
		_, _, err := s.store.InsertJob(s.ctx, tx, newJob("sales"))
		return err
	})
	if !errors.Is(err, storage.ErrGone) {
		t.Errorf("a job for a deleted export: %v", err)
	}
}
