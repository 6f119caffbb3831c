package storage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// garbage is every reason once: silent, lost, replaced, to be probed, of a deleted export.
func (s *swept) garbage() map[string]storage.Begun {
	s.t.Helper()
	all := map[string]storage.Begun{}
	_, all["silent"] = s.attempt("silent")
	job, b := s.attempt("lost")
	_, err := s.store.EndAttempt(s.ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "disk full", Counts: true, Final: true})
	s.must(err)
	all["lost"] = b
	for range 2 {
		_, b := s.attempt("replaced")
		s.must(s.store.Publish(s.ctx, s.seal(b).ID))
		if _, there := all["replaced"]; !there {
			all["replaced"] = b
		}
	}
	job, b = s.attempt("deleted")
	s.must(s.store.Publish(s.ctx, s.seal(b).ID))
	s.must(s.store.DeleteExport(s.ctx, everything, job.ExportID))
	all["export-deleted"] = b
	return all
}

func TestSweepPlanIsWhatTheRunDoes(t *testing.T) {
	t.Parallel()
	for _, o := range []storage.SweepOptions{
		everyAge,
		{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Hour},
		{Grace: -time.Hour, Quarantine: time.Hour, Superseded: -time.Hour},
		{Grace: -time.Hour, Quarantine: -time.Hour, Superseded: -time.Hour, Limit: 3},
		{Grace: -time.Hour, Quarantine: -time.Hour, Superseded: -time.Hour, Tenant: "acme"},
		{Grace: -time.Hour, Quarantine: -time.Hour, Superseded: -time.Hour, Tenant: "globex"},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			t.Parallel()
			s := newSwept(t)
			s.garbage()
			var told []string
			totals, err := s.sweep(o).Plan(s.ctx, func(it storage.SweepItem) error {
				told = append(told, fmt.Sprintf("%s %s %d", it.Action, it.Attempt, it.Bytes))
				return nil
			})
			s.must(err)
			res := s.run(o)
			var condemned, deleted int64
			for _, r := range totals.Reasons {
				if r.Action == "condemn" {
					condemned += r.Items
				} else {
					deleted += r.Items
				}
			}
			if int64(res.Planned) != totals.Items || int64(res.Condemned) != condemned || int64(res.Deleted) != deleted || res.Skipped+res.Failed != 0 || totals.Limited != (res.Stopped == "limit") {
				t.Errorf("planned %+v, done %+v", totals, res)
			}
			var did []string
			for d := range s.deletions(res.ID) {
				did = append(did, fmt.Sprintf("delete %s %d", d.Attempt, d.Recorded))
			}
			wanted := slices.DeleteFunc(told, func(text string) bool { return !strings.HasPrefix(text, "delete") })
			slices.Sort(did)
			if slices.Sort(wanted); !slices.Equal(did, wanted) {
				t.Errorf("deleted %q, planned %q", did, wanted)
			}
			if len(told) == 0 && o.Tenant != "globex" && o.Grace < 0 {
				t.Error("nothing was planned")
			}
		})
	}
}

// deletions are the lines of the log of one run.
func (s *swept) deletions(run int64) func(yield func(storage.Deletion) bool) {
	return func(yield func(storage.Deletion) bool) {
		f := storage.DeletionFilter{Run: run, Limit: 2}
		for {
			page, err := s.store.Deletions(s.ctx, f)
			s.must(err)
			for _, d := range page.Items {
				if !yield(d) {
					return
				}
			}
			if f.After = page.Next; f.After == "" {
				return
			}
		}
	}
}

func TestEveryDeletionIsOnRecord(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	all := s.garbage()
	res := s.run(everyAge)
	whys := map[uuid.UUID]storage.Deletion{}
	for d := range s.deletions(res.ID) {
		whys[d.Attempt] = d
	}
	for reason, says := range map[string]string{"silent": "was condemned", "lost": "was failed", "replaced": "replaced by a newer", "export-deleted": "export that was deleted"} {
		d := whys[all[reason].ID]
		if !strings.Contains(d.Why, says) || d.Tenant != "acme" || d.Token != all[reason].Token || d.Bytes != 5 || d.RunID != res.ID || time.Since(d.At).Abs() > time.Hour {
			t.Errorf("%s: %+v", reason, d)
		}
	}
	if len(whys) != 4 || whys[all["replaced"].ID].Files != 1 {
		t.Errorf("the log: %+v", whys)
	}
	// A tombstone that holds nothing is no deletion, one that holds something again is.
	s.exec("UPDATE fenceline.attempts SET probe_at = now() WHERE probe_at IS NOT NULL")
	again := s.run(everyAge)
	if again.Probed != 4 || len(slices.Collect(s.deletions(again.ID))) != 0 {
		t.Errorf("probes: %+v", again)
	}
	job, err := s.store.Job(s.ctx, everything, s.jobOf(all["lost"].ID))
	s.must(err)
	s.write(job, all["lost"])
	s.exec("UPDATE fenceline.attempts SET probe_at = now() WHERE probe_at IS NOT NULL")
	third := s.run(everyAge)
	if list := slices.Collect(s.deletions(third.ID)); len(list) != 1 || list[0].Attempt != all["lost"].ID || list[0].Bytes != 5 {
		t.Errorf("the log of the probe: %+v", list)
	}
	for _, sql := range []string{"UPDATE fenceline.sweep_deletions SET why = 'x'", "DELETE FROM fenceline.sweep_deletions"} {
		if s.tryExec(sql) == nil {
			t.Errorf("%s: was accepted", sql)
		}
	}
}

func (s *swept) jobOf(attempt uuid.UUID) (id uuid.UUID) {
	s.t.Helper()
	s.must(s.query("SELECT job_id FROM fenceline.attempts WHERE id = $1", attempt).Scan(&id))
	return id
}

func TestSweepIsSwitchedOff(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	job, b := s.attempt("sales")
	s.must(s.store.SwitchSweep(s.ctx, false, "nadia", "moving the files"))
	_, err := s.sweep(everyAge).Run(s.ctx)
	if !errors.Is(err, storage.ErrOff) || !strings.Contains(err.Error(), "nadia") || !strings.Contains(err.Error(), "moving the files") {
		t.Errorf("run: %v", err)
	}
	s.there(job, b, true)
	s.attemptState(b.ID, storage.AttemptRunning)
	if len(s.plan(everyAge)) != 2 {
		t.Error("a plan is not shown while it is off")
	}
	s.must(s.store.SwitchSweep(s.ctx, true, "nadia", ""))
	own := everyAge
	own.Off = true
	if _, err := s.sweep(own).Run(s.ctx); !errors.Is(err, storage.ErrOff) {
		t.Errorf("run of a process that is not to: %v", err)
	}
	s.run(everyAge)
	s.there(job, b, false)
}

// many is so many orphans, of one export each, with their files.
func (s *swept) many(n int) {
	s.t.Helper()
	for i := range n {
		_, b := s.attempt(fmt.Sprintf("many-%d", i))
		_, err := s.store.EndAttempt(s.ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "x", Counts: true, Final: true})
		s.must(err)
	}
}

func (s *swept) left() int { return len(s.plan(everyAge)) }

// A run that is switched off, or told to end, in its middle ends between two items; the next goes on.
func TestSweepStopsInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct {
		stopped string
		err     error
	}{"off": {"off", storage.ErrOff}, "interrupted": {"interrupted", context.Canceled}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSwept(t)
			const orphans = 230 // more than a batch
			s.many(orphans)
			ctx, cancel := context.WithCancel(s.ctx)
			defer cancel()
			store, err := storage.Open(s.ctx, s.url, storage.Options{Watch: func(_ context.Context, sql string) func(error) {
				if !strings.Contains(sql, "bury_attempts") {
					return nil
				}
				return func(error) {
					if name == "off" {
						s.must(s.store.SwitchSweep(s.ctx, false, "nadia", ""))
					} else {
						cancel()
					}
				}
			}})
			s.must(err)
			t.Cleanup(store.Close)
			res, err := storage.NewSweep(store, s.local, everyAge).Run(ctx)
			if !errors.Is(err, how.err) || res.Stopped != how.stopped || res.Deleted == 0 || res.Deleted == orphans {
				t.Fatalf("%+v, %v", res, err)
			}
			if left := s.left(); left != orphans-res.Deleted {
				t.Errorf("%d are left after %d were deleted", left, res.Deleted)
			}
			runs, err := s.store.SweepRuns(s.ctx, 1)
			s.must(err)
			if runs[0].Stopped == nil || *runs[0].Stopped != how.stopped || runs[0].Deleted != int64(res.Deleted) || runs[0].FinishedAt == nil {
				t.Errorf("the record: %+v", runs[0])
			}
			s.must(s.store.SwitchSweep(s.ctx, true, "nadia", ""))
			s.run(everyAge)
			if s.left() != 0 {
				t.Error("the next run did not go on")
			}
		})
	}
}

func TestSweepKeepsItsBounds(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.many(12)
	few := everyAge
	few.Limit = 5
	for left := 12 - 5; left > -5; left -= 5 {
		res := s.run(few)
		want := "limit"
		if left <= 0 {
			want = "done"
		}
		if s.left() != max(left, 0) || res.Stopped != want {
			t.Errorf("%d are left, want %d: %+v", s.left(), left, res)
		}
	}
	s.many(3) // of the same exports
	brief := everyAge
	brief.Time = time.Nanosecond
	if res := s.run(brief); res.Stopped != "time" || s.left() != 3 {
		t.Errorf("a run without time: %+v, %d are left", res, s.left())
	}
	brief.Time, brief.Pace = time.Hour, 20
	if res := s.run(brief); res.Stopped != "done" || s.left() != 0 {
		t.Errorf("a run with time: %+v, %d are left", res, s.left())
	}
}

func TestSweepRefusesTooLargeAShare(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.garbage() // 5 of 6 files of 5 bytes, two of them of attempts that are still at work
	o := everyAge
	o.MaxShare, o.ShareFloor = 0.5, 1
	res, err := s.sweep(o).Run(s.ctx)
	if !errors.Is(err, storage.ErrTooMuch) || !strings.Contains(err.Error(), "--max-share") || res.Deleted+res.Condemned != 0 || res.Stopped != "share" {
		t.Fatalf("run: %+v, %v", res, err)
	}
	if s.left() == 0 {
		t.Error("it deleted")
	}
	runs, err := s.store.SweepRuns(s.ctx, 1)
	s.must(err)
	if *runs[0].Stopped != "share" || runs[0].Error == nil {
		t.Errorf("the record: %+v", runs[0])
	}
	o.ShareFloor = 1 << 20 // little is never too much
	if res := s.run(o); res.Deleted != 4 {
		t.Errorf("below the floor: %+v", res)
	}
}

// What cannot be deleted keeps nothing else from being deleted, whatever the limit.
func TestSweepGoesPastWhatFails(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.many(6)
	oldest := s.plan(everyAge)[:3]
	for _, it := range oldest { // a place that cannot be removed: it is not a folder of names but holds one that is busy
		dir := filepath.Join(s.local.Dir(), files.Place{Export: it.Export, Token: it.Token, Attempt: it.Attempt}.String())
		s.must(os.RemoveAll(dir))
		s.must(os.Symlink("/nonexistent/elsewhere", dir))
	}
	few := everyAge
	few.Limit = 2
	var deleted, failed int
	for range 3 {
		res, err := s.sweep(few).Run(s.ctx)
		s.must(err)
		deleted, failed = deleted+res.Deleted, failed+res.Failed
	}
	t.Logf("deleted %d, failed %d", deleted, failed)
	if deleted < 3 {
		t.Errorf("deleted %d, want the 3 that can be", deleted)
	}
}

// Tenants: the garbage of one is found by an index that begins with it.
func TestSweepOfOneTenant(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.garbage()
	job := newJob("theirs")
	job.Tenant = "globex"
	theirs := s.insert(job)
	b := s.begin(theirs)
	s.write(theirs, b)
	own := everyAge
	own.Tenant = "globex"
	if res := s.run(own); res.Condemned != 1 || res.Deleted != 1 {
		t.Errorf("the run of one tenant: %+v", res)
	}
	s.there(theirs, b, false)
	if n := s.left(); n != 5 {
		t.Errorf("%d of the others are left, want 5", n)
	}
	if s.tryExec("UPDATE fenceline.attempts SET tenant = 'acme' WHERE id = $1", b.ID) == nil {
		t.Error("an attempt went to another tenant")
	}
}

// The total of what is stored is that of a full count, whatever goes on at once.
func TestStoredTotal(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	done := make(chan error, 8)
	for part := range cap(done) {
		go func() {
			done <- func() error {
				for i := range 12 {
					job := s.insert(newJob(fmt.Sprintf("%d", (part*5+i)%7)))
					b, err := s.store.BeginAttempt(s.ctx, job.ID, "w")
					if err != nil {
						return err
					}
					if i%3 == 0 {
						if err := s.store.Heartbeat(s.ctx, b.ID, storage.Progress{Step: "write", Bytes: 100}); err != nil {
							return err
						}
						if _, err := s.store.EndAttempt(s.ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "x", Final: true}); err != nil {
							return err
						}
					} else if err := s.store.Seal(s.ctx, b.ID, sealing("a.csv")); err != nil {
						return err
					} else if err := s.store.Publish(s.ctx, b.ID); err != nil && !errors.Is(err, storage.ErrFenced) {
						return err
					}
					if i%4 == 1 {
						if _, err := s.sweep(storage.SweepOptions{Grace: time.Hour, Quarantine: -time.Hour, Superseded: -time.Hour}).Run(s.ctx); err != nil && !errors.Is(err, storage.ErrBusy) {
							return err
						}
					}
				}
				return s.store.FoldStored(s.ctx)
			}()
		}()
	}
	for range cap(done) {
		s.must(<-done)
	}
	var want storage.StoredTotal
	s.must(s.query("SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM fenceline.attempts WHERE state NOT IN ('running', 'deleted')").Scan(&want.Attempts, &want.Bytes))
	got, err := s.store.Stored(s.ctx)
	s.must(err)
	if got != want || want.Attempts == 0 {
		t.Errorf("the books say %+v, a full count %+v", got, want)
	}
	s.exec("INSERT INTO fenceline.stored VALUES (7, 7)")
	before, after, err := s.store.RecountStored(s.ctx)
	s.must(err)
	if after != want || before.Bytes != want.Bytes+7 {
		t.Errorf("counted afresh: %+v after %+v, want %+v", after, before, want)
	}
}

func TestWhatWaits(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.garbage()
	hour := storage.SweepOptions{Grace: -time.Hour, Quarantine: time.Hour, Superseded: -time.Hour}
	list, err := s.sweep(hour).Waiting(s.ctx)
	s.must(err)
	got := map[string]storage.Waiting{}
	for _, w := range list {
		got[w.Reason] = w
	}
	if w := got["silent"]; w.Due != 1 || w.Oldest.IsZero() {
		t.Errorf("silent: %+v", w)
	}
	if w := got["lost"]; w.Due != 0 || w.Later != 1 || time.Until(w.Next) < 30*time.Minute {
		t.Errorf("lost: %+v", w)
	}
	if w := got["replaced"]; w.Due != 1 || w.Bytes != 5 || w.Later != 0 || !w.Next.IsZero() {
		t.Errorf("replaced: %+v", w)
	}
	if w := got["export-deleted"]; w.Due != 1 || w.Bytes != 5 {
		t.Errorf("export-deleted: %+v", w)
	}
	s.run(everyAge)
	list, err = s.sweep(everyAge).Waiting(s.ctx)
	s.must(err)
	for _, w := range list {
		if w.Due != 0 || w.Later != 0 && w.Reason != "probe" {
			t.Errorf("after a run: %+v", w)
		}
	}
}
