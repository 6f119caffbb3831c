package storage_test

import (
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

func TestDoctorFindsJobsThatWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow := newJob("a")
	slow.Queue = "slow"
	old, _ := w.insert(slow), w.insert(newJob("b"))
	w.exec("UPDATE fenceline.jobs SET due_at = clock_timestamp() - interval '2 hours' WHERE id = $1", old.ID)
	q, err := w.doctor().Overdue(w.ctx, time.Hour)
	w.must(err)
	if len(q) != 1 || q[0].Queue != "slow" || q[0].Jobs != 1 || q[0].Oldest < 2*time.Hour || q[0].Oldest > 3*time.Hour {
		t.Errorf("%+v", q)
	}
	if q, err = w.doctor().Overdue(w.ctx, 0); err != nil || len(q) != 2 || q[0].Queue != "slow" {
		t.Errorf("%+v, %v", q, err)
	}
}

func TestDoctorFindsSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	quiet, stale := w.begin(w.insert(newJob("a"))), w.begin(w.insert(newJob("b")))
	w.exec("UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() - interval '2 hours'")
	w.handOn(2)
	w.begin(w.insert(newJob("c")))
	silent := func(grace, lease time.Duration) storage.SilentFacts {
		t.Helper()
		s, err := w.doctor().Silent(w.ctx, grace, lease)
		w.must(err)
		return s
	}
	if s := silent(time.Hour, time.Hour); s.Attempts != 2 || s.Jobs != 0 {
		t.Errorf("handed on: %+v", s)
	}
	w.exec("UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() - interval '5 hours' WHERE id NOT IN ($1, $2)", quiet.ID, stale.ID)
	if s := silent(3*time.Hour, time.Hour); s.Attempts != 1 || s.Jobs != 1 || s.Longest < 5*time.Hour {
		t.Errorf("left behind: %+v", s)
	}
	f, err := w.doctor().FutureHeartbeats(w.ctx, time.Second)
	w.must(err)
	if f.Attempts != 0 {
		t.Errorf("%+v", f)
	}
	w.exec("UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() + interval '2 hours' WHERE id = $1", stale.ID)
	if f, err = w.doctor().FutureHeartbeats(w.ctx, time.Second); err != nil || f.Attempts != 1 || f.Ahead < time.Hour {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestDoctorSumsUpAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if a, err := w.doctor().Attempts(w.ctx, 1000); err != nil || a != (storage.AttemptFacts{}) {
		t.Errorf("%+v, %v", a, err)
	}
	if yes, err := w.doctor().HasPublished(w.ctx); err != nil || yes {
		t.Errorf("published %t, %v", yes, err)
	}
	_, old := w.published("old")
	w.exec("UPDATE fenceline.attempts SET started_at = finished_at - interval '2 hours' WHERE id = $1", old.ID)
	_, _ = w.published("a")
	_, lost := w.published("b")
	w.exec("UPDATE fenceline.attempts SET reason = 'lease_lost' WHERE id = $1", lost.ID)
	w.begin(w.insert(newJob("c")))
	a, err := w.doctor().Attempts(w.ctx, 3)
	w.must(err)
	if a.Attempts != 3 || a.Published != 2 || a.Slowest <= 0 || a.Slowest > time.Hour || a.Outlived != 1 || a.Running != 1 || a.Silence <= 0 {
		t.Errorf("the newest three: %+v", a)
	}
	if a, err = w.doctor().Attempts(w.ctx, 1000); err != nil || a.Published != 3 || a.Slowest < time.Hour {
		t.Errorf("all: %+v, %v", a, err)
	}
	if yes, err := w.doctor().HasPublished(w.ctx); err != nil || !yes {
		t.Errorf("published %t, %v", yes, err)
	}
}

func TestDoctorLooksAtCleanUps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	look := func() storage.SweepFacts {
		t.Helper()
		s, err := w.doctor().Sweeps(w.ctx, storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Hour}, time.Hour)
		w.must(err)
		return s
	}
	if s := look(); s != (storage.SweepFacts{}) {
		t.Errorf("new: %+v", s)
	}
	w.exec("INSERT INTO fenceline.sweeps (worker, started_at, finished_at) VALUES ('w', clock_timestamp() - interval '4 hours', clock_timestamp() - interval '3 hours')")
	w.exec("INSERT INTO fenceline.sweeps (worker, started_at, finished_at, failed, error) VALUES ('w', clock_timestamp() - interval '2 hours', clock_timestamp(), 3, 'boom')")
	if s := look(); !s.Ever || !s.Finished || s.Began < time.Hour || s.Error != "boom" || s.Failed != 3 || !s.EverGood || s.SinceGood < 2*time.Hour || s.LockHeldBy != 0 {
		t.Errorf("broken off: %+v", s)
	}
	w.exec("INSERT INTO fenceline.sweeps (worker) VALUES ('w')")
	const key = 0x46454e43_00000002 // as in store.go: whoever changes it there tells the doctor
	conn, err := w.conn().Acquire(w.ctx)
	w.must(err)
	defer conn.Release()
	var pid int32
	w.must(conn.QueryRow(w.ctx, "SELECT pg_backend_pid() FROM pg_advisory_lock($1)", int64(key)).Scan(&pid))
	if s := look(); s.Finished || s.Error != "" || s.LockHeldBy != pid {
		t.Errorf("running: %+v, session %d", s, pid)
	}

	w.begin(w.insert(newJob("silent")))
	w.published("sales")
	w.published("sales")
	b := w.begin(w.insert(newJob("failed")))
	_, err = w.store.EndAttempt(w.ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "x", Counts: true})
	w.must(err)
	if s := look(); s.Overdue != 0 {
		t.Errorf("nothing is due yet: %+v", s)
	}
	for i, statement := range []string{
		"UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() - interval '3 hours' WHERE state = 'running'",
		"UPDATE fenceline.attempts SET replaced_at = clock_timestamp() - interval '3 hours' WHERE state = 'superseded'",
		"UPDATE fenceline.attempts SET finished_at = clock_timestamp() - interval '3 hours' WHERE state = 'failed'",
	} {
		w.exec(statement)
		if s := look(); s.Overdue != int64(i+1) {
			t.Errorf("%s: %+v", statement, s)
		}
	}
}
