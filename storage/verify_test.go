package storage_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// rested is how a system at rest is looked at: replaced files are kept for an
// hour, all other garbage is due at once.
var rested = storage.VerifyOptions{Sweep: storage.SweepOptions{Grace: time.Hour, Superseded: time.Hour}}

const content = "12345" // of every file, see swept.write

// sealed is an attempt with its file, recorded as it is.
func (s *swept) sealed(key string) (storage.Job, storage.Begun) {
	s.t.Helper()
	job, b := s.attempt(key)
	s.sealTrue(b)
	return job, b
}

func (s *swept) sealTrue(b storage.Begun) {
	s.t.Helper()
	sealed, sum := sealing("orders.csv"), sha256.Sum256([]byte(content))
	sealed.Files[0].SHA256 = sum[:]
	s.must(s.store.Seal(s.ctx, b.ID, sealed))
}

func (s *swept) publishedTrue(key string) (storage.Job, storage.Begun) {
	s.t.Helper()
	job, b := s.sealed(key)
	s.must(s.store.Publish(s.ctx, b.ID))
	return job, b
}

func (s *swept) verify(o storage.VerifyOptions) ([]storage.Violation, storage.Summary) {
	s.t.Helper()
	var found []storage.Violation
	sum, err := storage.Verify(s.ctx, s.store, s.local, o, func(v storage.Violation) { found = append(found, v) })
	s.must(err)
	return found, sum
}

func (s *swept) nothing(when string, o storage.VerifyOptions) storage.Summary {
	s.t.Helper()
	found, sum := s.verify(o)
	for _, v := range found {
		s.t.Errorf("%s: %s", when, v)
	}
	return sum
}

func drained(o storage.VerifyOptions) storage.VerifyOptions {
	o.Drained = true
	return o
}

// everyState leaves an export in each state that there is, and jobs in all of theirs.
func everyState(s *swept) {
	s.t.Helper()
	late, stale := s.attempt("sales")
	s.publishedTrue("sales")
	s.publishedTrue("sales")
	s.sealTrue(stale)
	if err := s.store.Publish(s.ctx, stale.ID); !errors.Is(err, storage.ErrFenced) {
		s.t.Fatal(err)
	}
	s.jobState(late.ID, storage.JobSuperseded)

	lost, frozen := s.sealed("lost") // handed on and done by the second attempt
	s.handOn(1)
	again := s.begin(lost)
	s.write(lost, again)
	s.sealTrue(again)
	s.must(s.store.Publish(s.ctx, again.ID))
	if err := s.store.Publish(s.ctx, frozen.ID); !errors.Is(err, storage.ErrFenced) {
		s.t.Fatal(err)
	}
	for key, ending := range map[string]storage.Ending{
		"failed":   {State: storage.AttemptFailed, Reason: "error", Error: "x", Counts: true, Final: true},
		"retry":    {State: storage.AttemptFailed, Reason: "error", Error: "x", Counts: true, Retry: time.Hour},
		"released": {State: storage.AttemptFailed, Reason: "worker_stopped"},
	} {
		_, b := s.attempt(key)
		_, err := s.store.EndAttempt(s.ctx, b.ID, ending)
		s.must(err)
	}
	cancelled, b := s.attempt("cancelled")
	_, err := s.store.CancelJob(s.ctx, everything, cancelled.ID)
	s.must(err)
	_, err = s.store.EndAttempt(s.ctx, b.ID, storage.Ending{State: storage.AttemptCancelled, Reason: "cancelled"})
	s.must(err)
	s.insert(newJob("queued"))
	_, condemned := s.attempt("condemned") // its job is still running: nobody has handed it on yet
	s.exec("SELECT fenceline.condemn_attempts(ARRAY[$1::uuid], -3600)", condemned.ID)
	s.attempt("writing")
	s.sealed("complete")
	deleted, _ := s.publishedTrue("deleted")
	s.must(s.store.DeleteExport(s.ctx, everything, deleted.ExportID))
}

func TestVerifyFindsNothingWhereNothingIsWrong(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.nothing("an empty database", rested)
	everyState(s)
	sum := s.nothing("every state", rested)
	want := storage.Summary{
		Exports: 11, Jobs: 13, Attempts: 13, Notices: 5, Files: 5, Bytes: 25, Hashed: true, Garbage: 7, GarbageBytes: 35, Elapsed: sum.Elapsed,
	}
	if sum != want || sum.Elapsed <= 0 {
		t.Errorf("summary\n%+v, want\n%+v", sum, want)
	}
	quick := rested
	quick.SizesOnly = true
	if sum := s.nothing("sizes only", quick); sum.Hashed || sum.Files != 5 {
		t.Errorf("sizes only: %+v", sum)
	}
	if _, err := storage.Verify(t.Context(), s.store, s.local, drained(rested), nil); !errors.Is(err, storage.ErrNotDrained) {
		t.Errorf("drained before any clean-up: %v", err)
	}
	s.run(storage.SweepOptions{Grace: time.Hour, Quarantine: -time.Hour, Superseded: time.Hour})
	if sum := s.nothing("drained", drained(rested)); sum.Garbage != 0 || sum.Files != 5 {
		t.Errorf("after the clean-up: %+v", sum)
	}
	s.run(everyAge) // takes what is replaced, running or sealed too
	all := storage.VerifyOptions{Sweep: everyAge}
	if sum := s.nothing("drained of all", drained(all)); sum.Files != 2 {
		t.Errorf("after the whole clean-up: %+v", sum)
	}
}

func TestVerifyWorksBehindAPooler(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.store = openStore(t, pooled(s.url))
	everyState(s)
	s.exec("DELETE FROM fenceline.outbox WHERE false")
	if sum := s.nothing("every state", rested); sum.Exports != 11 || sum.Files != 5 || sum.Garbage != 7 {
		t.Errorf("summary %+v", sum)
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.publishedTrue("sales")
	ctx, cancel := context.WithCancel(t.Context())
	o := rested
	o.Progress = func(p storage.VerifyProgress) {
		if p.Step == "files" {
			cancel()
		}
	}
	if _, err := storage.Verify(ctx, s.store, s.local, o, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.exec("UPDATE fenceline.installation SET id = gen_random_uuid()")
	if _, err := storage.Verify(t.Context(), s.store, s.local, rested, nil); !errors.Is(err, files.ErrOtherInstallation) {
		t.Errorf("the files of another database: %v", err)
	}
}

// Between the look at a row and the look at its files a publication is replaced
// and its files are cleaned up: nothing is wrong.
func TestVerifyLooksAgainBeforeItReports(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"files", "folders"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newSwept(t)
			s.publishedTrue("a")
			s.publishedTrue("b")
			s.run(everyAge)
			o, once := drained(storage.VerifyOptions{Sweep: everyAge}), false
			o.Progress = func(p storage.VerifyProgress) {
				if p.Step != step || once {
					return
				}
				once = true
				s.publishedTrue("a")
				s.publishedTrue("b")
				if res := s.run(everyAge); res.Deleted != 2 {
					t.Errorf("nothing was taken away: %+v", res)
				}
			}
			if s.nothing("moved meanwhile", o); !once {
				t.Error("nothing moved: the test shows nothing")
			}
		})
	}
}

// Beside a worker that publishes and a clean-up that waits for nothing.
func TestVerifyBesideALiveSystem(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.must(s.churn("a")) // so that a clean-up has finished
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	published := 0
	go func() {
		for ctx.Err() == nil {
			if err := s.churn("a", "b", "c"); err != nil {
				ended <- err
				return
			}
			published += 3
		}
		ended <- nil
	}()
	for range 15 {
		s.nothing("live", storage.VerifyOptions{Sweep: everyAge})
		s.nothing("live and drained", drained(storage.VerifyOptions{Sweep: storage.SweepOptions{Grace: time.Hour}}))
	}
	stop()
	if err := <-ended; err != nil || published == 0 {
		t.Errorf("%d publications meanwhile, %v", published, err)
	}
}

// churn publishes to each export and cleans up in the middle.
func (s *swept) churn(keys ...string) error {
	for _, key := range keys {
		_, b := s.attempt(key)
		_, err := s.sweep(storage.SweepOptions{Grace: time.Hour, Quarantine: -time.Hour, Superseded: -time.Hour}).Run(s.ctx)
		s.sealTrue(b)
		if err = errors.Join(err, s.store.Publish(s.ctx, b.ID)); err != nil {
			return err
		}
	}
	return nil
}

// damage is something that cannot happen, done by force to an export of its own.
type damage struct {
	name string
	law  string
	says string
	do   func(s *swept, d *damaged)
}

// damaged is an export with a replaced and a current publication.
type damaged struct {
	export            uuid.UUID
	oldJob, job       storage.Job
	old, cur          storage.Begun
	others            []storage.Job // of the same export, that the damage was done to
	oldPlace, current string        // folders
}

// force changes rows that nothing is allowed to change.
func (s *swept) force(sql string, args ...any) {
	s.t.Helper()
	tx, err := s.conn().Begin(s.ctx)
	s.must(err)
	defer func() { _ = tx.Rollback(s.ctx) }()
	_, err = tx.Exec(s.ctx, "SET LOCAL session_replication_role = replica")
	s.must(err)
	tag, err := tx.Exec(s.ctx, sql, args...)
	if err != nil || tag.RowsAffected() == 0 {
		s.t.Fatalf("%s: %s, %v", sql, tag, err)
	}
	s.must(tx.Commit(s.ctx))
}

func (s *swept) newDamaged(key string) *damaged {
	s.t.Helper()
	d := &damaged{}
	d.oldJob, d.old = s.publishedTrue(key)
	d.job, d.cur = s.publishedTrue(key)
	d.export = d.job.ExportID
	d.oldPlace = filepath.Join(s.local.Dir(), s.place(d.oldJob, d.old).String())
	d.current = filepath.Join(s.local.Dir(), s.place(d.job, d.cur).String())
	return d
}

// more is another attempt of the export, of a job of its own.
func (d *damaged) more(s *swept) (storage.Job, storage.Begun) {
	s.t.Helper()
	job, b := s.attempt(d.job.Title)
	d.others = append(d.others, job)
	return job, b
}

// concerns reports whether a violation is about the export or one of its jobs.
func (d *damaged) concerns(v storage.Violation) bool {
	if v.Export == d.export || v.Job == d.job.ID || v.Job == d.oldJob.ID {
		return true
	}
	for _, j := range d.others {
		if v.Job == j.ID {
			return true
		}
	}
	return false
}

// find does all damages to one database and answers what is found for each.
func find(t *testing.T, s *swept, damages []damage, o storage.VerifyOptions, check func(t *testing.T, c damage, found []storage.Violation)) {
	t.Helper()
	for _, index := range []string{"attempts_one_published", "attempts_one_publication_per_job", "outbox_once"} {
		s.exec("DROP INDEX fenceline." + index)
	}
	worlds := map[string]*damaged{}
	for _, c := range damages {
		worlds[c.name] = s.newDamaged(c.name)
		c.do(s, worlds[c.name])
	}
	s.exec("INSERT INTO fenceline.sweeps (worker, finished_at) VALUES ('test', now())") // so that it counts as drained
	healthy := s.newDamaged("healthy")
	all, _ := s.verify(o)
	for _, c := range damages {
		t.Run(c.name, func(t *testing.T) {
			var mine []storage.Violation
			for _, v := range all {
				if worlds[c.name].concerns(v) {
					mine = append(mine, v)
				}
			}
			check(t, c, mine)
		})
	}
	for _, v := range all {
		if healthy.concerns(v) {
			t.Errorf("nothing was done to this export: %s", v)
		}
	}
}

func must(t *testing.T, found []storage.Violation, c damage, warning bool) {
	t.Helper()
	for _, v := range found {
		if v.Law == c.law && strings.Contains(v.What, c.says) && v.Warning == warning {
			return
		}
	}
	t.Errorf("want %s %q as a warning: %t, found %d:", c.law, c.says, warning, len(found))
	for _, v := range found {
		t.Error(v)
	}
}

func TestVerifyFindsDamage(t *testing.T) {
	t.Parallel()
	find(t, newSwept(t), rowDamages(), rested, func(t *testing.T, c damage, found []storage.Violation) {
		must(t, found, c, strings.HasPrefix(c.says, "stuck"))
	})
}

func TestVerifyFindsDamagedFiles(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	find(t, s, fileDamages(), rested, func(t *testing.T, c damage, found []storage.Violation) { must(t, found, c, false) })
	all, _ := s.verify(rested)
	quick := rested
	quick.SizesOnly = true
	if sizes, _ := s.verify(quick); len(sizes) != len(all)-1 { // all but the other bytes
		t.Errorf("by sizes %d damages are found, by hashes %d", len(sizes), len(all))
	}
}

// What a clean-up takes is only garbage, until it has had its turn.
func TestVerifyFindsWhatACleanUpLeft(t *testing.T) {
	t.Parallel()
	o := storage.VerifyOptions{Sweep: storage.SweepOptions{Grace: time.Hour, Superseded: 24 * time.Hour}}
	s := newSwept(t)
	find(t, s, leftDamages(), drained(o), func(t *testing.T, c damage, found []storage.Violation) { must(t, found, c, false) })
	found, sum := s.verify(o)
	for _, v := range found {
		t.Errorf("not drained: %s", v)
	}
	if want := int64(len(leftDamages()) - 1); sum.Garbage != want || sum.GarbageBytes == 0 { // all but the silent one
		t.Errorf("%d folders of garbage with %d bytes, want %d", sum.Garbage, sum.GarbageBytes, want)
	}
}

// Names that nobody accounts for are only said, unless the files must be exactly those that are owned.
func TestVerifyFindsStrangers(t *testing.T) {
	t.Parallel()
	for _, o := range []storage.VerifyOptions{rested, drained(rested)} {
		s := newSwept(t)
		find(t, s, strangeDamages(), o, func(t *testing.T, c damage, found []storage.Violation) { must(t, found, c, !o.Drained) })
		s.must(os.Mkdir(filepath.Join(s.local.Dir(), uuid.NewString()), 0o750))
		s.must(os.WriteFile(filepath.Join(s.local.Dir(), "thesis.doc"), nil, 0o600))
		s.write(storage.Job{ExportID: uuid.New()}, storage.Begun{ID: uuid.New(), Token: 3})
		found, sum := s.verify(o)
		for _, says := range []string{"there is no such export", "thesis.doc"} {
			must(t, found, damage{law: "L7", says: says}, !o.Drained)
		}
		if sum.Unknown != int64(len(strangeDamages())+3) {
			t.Errorf("%d names are unknown", sum.Unknown)
		}
	}
}

// An object that cannot be read is as bad as one that is missing.
func TestVerifyReportsWhatItCannotOpen(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	job, b := s.publishedTrue("sales")
	object := filepath.Join(s.local.Dir(), s.place(job, b).String(), "1-orders.csv")
	s.must(os.Remove(object))
	s.must(os.Symlink("/etc/hostname", object)) // leads outside of the root
	found, _ := s.verify(rested)
	must(t, found, damage{law: "L1", says: "cannot be opened"}, false)
}

func (s *swept) writeFile(path, text string) {
	s.t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	s.must(err)
	_, err = io.WriteString(f, text)
	s.must(errors.Join(err, f.Close()))
}
