package storage_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
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

// write is an attempt at a job with one real file and its manifest, sealed.
func (w *world) write(f files.Store, job storage.Job, text string) storage.Begun {
	w.t.Helper()
	b := w.begin(job)
	p := files.Place{Export: job.ExportID, Token: b.Token, Attempt: b.ID}
	out, err := f.Create(w.ctx, p, "1-orders.csv")
	w.must(err)
	_, err = out.Write([]byte(text))
	w.must(err)
	done, err := out.Commit()
	w.must(err)
	sealed := storage.Sealed{Rows: 3, DataAsOf: time.Now(), Files: []storage.File{{
		Name: "orders.csv", Object: "1-orders.csv", Format: "csv", MediaType: "text/csv", Size: done.Size, SHA256: done.SHA256[:], Rows: 3,
	}}}
	w.must(w.store.WriteManifest(w.ctx, f, b.ID, sealed))
	w.must(w.store.Seal(w.ctx, b.ID, sealed))
	return b
}

// publishFile is a publication of the export with this key, with a real file.
func (w *world) publishFile(f files.Store, key, text string) (storage.Job, storage.Begun) {
	w.t.Helper()
	job := w.insert(newJob(key))
	b := w.write(f, job, text)
	w.must(w.store.Publish(w.ctx, b.ID))
	return job, b
}

func place(job storage.Job, b storage.Begun) files.Place {
	return files.Place{Export: job.ExportID, Token: b.Token, Attempt: b.ID}
}

// recover runs a recovery and answers what it found, by what.
func (w *world) recover(f files.Store, o storage.RecoverOptions) (storage.RecoverSummary, map[string][]storage.RecoverFinding, error) {
	found := map[string][]storage.RecoverFinding{}
	o.Found = func(x storage.RecoverFinding) { found[x.What] = append(found[x.What], x) }
	sum, err := storage.Recover(w.ctx, w.store, f, o)
	return sum, found, err
}

func (w *world) recovered(f files.Store, o storage.RecoverOptions) (storage.RecoverSummary, map[string][]storage.RecoverFinding) {
	w.t.Helper()
	sum, found, err := w.recover(f, o)
	w.must(err)
	if !sum.Done {
		w.t.Fatalf("not recovered: %+v", sum)
	}
	return sum, found
}

// lawful verifies every row and every file; strange is how many names nobody owns.
func (w *world) lawful(f files.Store, strange int64) storage.Summary {
	w.t.Helper()
	sum, err := storage.Verify(w.ctx, w.store, f, storage.VerifyOptions{Sweep: storage.SweepOptions{Superseded: time.Hour}}, func(v storage.Violation) {
		if !v.Warning {
			w.t.Error(v)
		}
	})
	w.must(err)
	if sum.Unknown != strange {
		w.t.Errorf("%d names without an owner, want %d", sum.Unknown, strange)
	}
	return sum
}

// stop closes the epoch as a process does that sees that the database is older than its files.
func (w *world) setBack(f files.Store) {
	w.t.Helper()
	m := w.mark(f)
	m.Beat += 5
	w.must(f.WriteMark(w.ctx, m))
	w.store = openStore(w.t, w.url)
	if err := w.store.Pair(w.ctx, f); !errors.Is(err, storage.ErrRecoveryNeeded) {
		w.t.Fatal(err)
	}
}

func TestRecoverBeginsAnEpochOnBothSides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.folder()
	w.must(w.store.Pair(w.ctx, f))
	_, first := w.publishFile(f, "e", "one")
	job := w.insert(newJob("e"))
	sealed := w.write(f, job, "two")
	was, err := w.store.Epoch(w.ctx)
	w.must(err)
	w.setBack(f)
	old := openStore(t, w.url) // a process that goes on, and has seen nothing

	dry, found, err := w.recover(f, storage.RecoverOptions{DryRun: true})
	w.must(err)
	if dry.Trouble == "" || dry.Done || dry.Pointers != 1 || len(found) != 0 || dry.Seen != sealed.Token {
		t.Errorf("dry run: %+v %v", dry, found)
	}
	w.stopped(f, sealed, "older than its files") // still

	sum, _ := w.recovered(f, storage.RecoverOptions{})
	if sum.Condemned != 1 || sum.Pointers != 1 || sum.Lost+sum.Unknown != 0 || sum.Number != was.Number+1 {
		t.Errorf("%+v", sum)
	}
	e, err := w.store.Epoch(w.ctx)
	w.must(err)
	if m := w.mark(f); m.Epoch != e.ID || e.ID == was.ID || e.ID != sum.Epoch || m.Beat != e.Confirmed || e.State != "open" || e.RecoveredAt == nil || m.Number != e.Number {
		t.Errorf("mark %+v\nepoch %+v", m, e)
	}
	w.attemptState(sealed.ID, storage.AttemptCondemned)
	if again := w.jobState(job.ID, storage.JobQueued); again.Crashes != 0 || again.Failures != 0 {
		t.Errorf("the job was blamed: %+v", again)
	}
	if err := old.Publish(w.ctx, sealed.ID); !errors.Is(err, storage.ErrCondemned) {
		t.Error(err)
	}
	next := w.write(f, job, "three")
	if next.Token <= sum.Seen || next.Token <= first.Token {
		t.Errorf("token %d after %d were seen", next.Token, sum.Seen)
	}
	w.must(old.Publish(w.ctx, next.ID))
	w.lawful(f, 0)
	if sum, _ := w.recovered(f, storage.RecoverOptions{}); sum.Trouble != "" || sum.Number != e.Number {
		t.Errorf("a second recovery: %+v", sum)
	}
}

func TestRecoverDoesNotRunBesideACleanUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.folder()
	tx, err := w.conn().Begin(w.ctx)
	w.must(err)
	_, err = tx.Exec(w.ctx, "SELECT pg_advisory_xact_lock(x'46454e4300000002'::bigint)")
	w.must(err)
	if _, _, err := w.recover(f, storage.RecoverOptions{}); !errors.Is(err, storage.ErrBusy) {
		t.Error(err)
	}
	w.must(tx.Rollback(w.ctx))
	w.recovered(f, storage.RecoverOptions{})
}

func TestRecoverKeepsPointersWithoutFilesUntilTheyAreGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.folder()
	w.must(w.store.Pair(w.ctx, f))
	job, b := w.publishFile(f, "e", "one")
	kept, _ := w.publishFile(f, "kept", "two")
	sealed := w.write(f, w.insert(newJob("g")), "three")
	path := filepath.Join(f.Dir(), place(job, b).String(), "1-orders.csv")
	w.must(os.Rename(path, path+".away"))
	w.setBack(f)

	sum, found, err := w.recover(f, storage.RecoverOptions{})
	if !errors.Is(err, storage.ErrFilesLost) || sum.Done || sum.Lost != 1 || len(found["lost"]) != 1 || found["lost"][0].Export != job.ExportID || found["lost"][0].Key != "e" {
		t.Fatalf("%v %+v %v", err, sum, found)
	}
	if err := w.store.Publish(w.ctx, sealed.ID); !errors.Is(err, storage.ErrRecoveryNeeded) || !strings.Contains(err.Error(), "has not finished") {
		t.Error(err)
	}
	w.recovered(f, storage.RecoverOptions{FilesLost: true})
	w.pointer(job.ExportID, b.Token) // it stays: a pointer never goes back
	lost := func(id uuid.UUID, want bool) {
		t.Helper()
		if e, err := w.store.Export(w.ctx, everything, id); err != nil || (e.FilesLostAt != nil) != want {
			t.Errorf("lost at %v, %v", e.FilesLostAt, err)
		}
	}
	lost(job.ExportID, true)
	lost(kept.ExportID, false)
	w.lawful(f, 1) // a warning that says so, and the name that we moved it to
	// The files are back: a later recovery says so too. A publication would as well.
	w.must(os.Rename(path+".away", path))
	w.recovered(f, storage.RecoverOptions{FilesLost: true})
	lost(job.ExportID, false)
	w.must(os.Rename(path, path+".away"))
	w.recovered(f, storage.RecoverOptions{FilesLost: true})
	lost(job.ExportID, true)
	w.publishFile(f, "e", "four")
	lost(job.ExportID, false)
}

// A worker of the lost time has written what the database does not know any more.
type lostWork struct {
	w    *world
	f    files.Store
	jobs map[string]storage.Job
	at   map[string]storage.Begun
}

// lose publishes in a copy of the database, and goes back to the original: the state of a backup.
func lose(t *testing.T, at shelf, publish func(l *lostWork), before ...func(l *lostWork)) *lostWork {
	t.Helper()
	w := newWorld(t)
	f := at.open(w)
	w.must(w.store.Pair(w.ctx, f))
	l := &lostWork{w: w, f: f, jobs: map[string]storage.Job{}, at: map[string]storage.Begun{}}
	l.jobs["waiting"] = w.insert(newJob("waiting"))
	l.jobs["e"], l.at["e"] = w.publishFile(f, "e", "before the backup")
	for _, more := range before {
		more(l)
	}
	w.store.Close()
	copied := w.copyDatabase()
	copied.exec("ALTER TABLE fenceline.epoch DISABLE TRIGGER guard")
	copied.exec("UPDATE fenceline.epoch SET fingerprint = NULL")
	copied.exec("ALTER TABLE fenceline.epoch ENABLE TRIGGER guard")
	backup := w
	l.w, l.f = copied, at.open(copied)
	publish(l)
	backup.store = openStore(t, w.url)
	l.w, l.f = backup, at.open(backup)
	backup.setBack(l.f)
	return l
}

func TestRecoverAdoptsWhatManifestsProve(t *testing.T) {
	t.Parallel()
	onEachShelf(t, recoverAdoptsWhatManifestsProve)
}

func recoverAdoptsWhatManifestsProve(t *testing.T, at shelf) {
	l := lose(t, at, func(l *lostWork) {
		l.jobs["second"], l.at["second"] = l.w.publishFile(l.f, "e", "second")
		l.jobs["third"], l.at["third"] = l.w.publishFile(l.f, "e", "third")
		l.jobs["new"], l.at["new"] = l.w.publishFile(l.f, "new", "an export that the backup never saw")
		l.at["waiting"] = l.w.write(l.f, l.jobs["waiting"], "of a job that waits in the backup")
		l.w.must(l.w.store.Publish(l.w.ctx, l.at["waiting"].ID))
	})
	w, f := l.w, l.f
	dry, found, err := w.recover(f, storage.RecoverOptions{DryRun: true, Adopt: true})
	w.must(err)
	if dry.Adopted != 4 || len(found["adoptable"]) != 4 {
		t.Errorf("dry run: %+v %v", dry, found)
	}
	sum, found := w.recovered(f, storage.RecoverOptions{Adopt: true})
	if sum.Adopted != 4 || sum.Unknown != 0 || len(found["adopted"]) != 4 {
		t.Errorf("%+v %v", sum, found)
	}
	w.pointer(l.jobs["e"].ExportID, l.at["third"].Token)
	w.attemptState(l.at["second"].ID, storage.AttemptSuperseded)
	w.attemptState(l.at["e"].ID, storage.AttemptSuperseded)
	w.pointer(l.jobs["new"].ExportID, l.at["new"].Token)
	for _, name := range []string{"second", "third", "new", "waiting"} {
		if job := w.jobState(l.jobs[name].ID, storage.JobDone); name != "waiting" && job.RequestedBy != "recovery" {
			t.Errorf("%s: %+v", name, job)
		}
	}
	var notices int
	w.must(w.query("SELECT count(*) FROM fenceline.outbox WHERE pending").Scan(&notices))
	if notices != 1 { // of the publication before the backup
		t.Errorf("%d notices", notices)
	}
	_, next := w.publishFile(f, "e", "after")
	for _, b := range l.at {
		if next.Token <= b.Token {
			t.Errorf("token %d comes again after %d", next.Token, b.Token)
		}
	}
	if sum := w.lawful(f, 0); sum.Violations != 0 {
		t.Errorf("%+v", sum)
	}
	if sum, _ := w.recovered(f, storage.RecoverOptions{Adopt: true}); sum.Adopted+sum.Unknown+sum.Lost != 0 {
		t.Errorf("a second time: %+v", sum)
	}
}

func TestRecoverAdoptsNothingThatIsNotProven(t *testing.T) {
	t.Parallel()
	why := map[string]string{
		"damaged": "has SHA-256", "short": "bytes, but", "missing": "is missing", "no manifest": "no manifest", "not read": "invalid character",
		"a stranger's": "is of installation", "another place's": "is of", "older data": "its data is older", "of a done job": "its job runs, or has ended",
	}
	places := map[string]files.Place{}
	at := shelf{t.TempDir()}
	l := lose(t, at, func(l *lostWork) {
		for name := range why {
			key, job := name, storage.Job{}
			if name == "older data" {
				key = "e"
			}
			job = l.w.insert(newJob(key))
			b := l.w.write(l.f, job, "the text of "+name)
			l.jobs[name], places[name] = job, place(job, b)
		}
	})
	file := func(name, object string) string {
		return filepath.Join(at.location, places[name].String(), object)
	}
	edit := func(name, old, new string) {
		t.Helper()
		raw, err := os.ReadFile(file(name, files.ManifestName))
		l.w.must(err)
		if !strings.Contains(string(raw), old) {
			t.Fatalf("%s has no %s", raw, old)
		}
		l.w.must(os.WriteFile(file(name, files.ManifestName), []byte(strings.ReplaceAll(string(raw), old, new)), 0o600))
	}
	id, err := l.w.store.Installation(l.w.ctx)
	l.w.must(err)
	l.w.must(os.WriteFile(file("damaged", "1-orders.csv"), []byte("the text of Damaged"), 0o600))
	l.w.must(os.WriteFile(file("short", "1-orders.csv"), nil, 0o600))
	l.w.must(os.Remove(file("missing", "1-orders.csv")))
	l.w.must(os.Remove(file("no manifest", files.ManifestName)))
	edit("not read", "{", "<")
	edit("a stranger's", id.String(), uuid.NewString())
	edit("another place's", places["another place's"].Attempt.String(), uuid.NewString())
	edit("older data", `"data_as_of":"20`, `"data_as_of":"19`)
	edit("of a done job", l.jobs["of a done job"].ID.String(), l.jobs["e"].ID.String())

	sum, found := l.w.recovered(l.f, storage.RecoverOptions{Adopt: true})
	if sum.Adopted != 0 || sum.Unknown != int64(len(why)) {
		t.Errorf("%+v %v", sum, found)
	}
	for name, p := range places {
		i := slices.IndexFunc(found["unknown"], func(x storage.RecoverFinding) bool { return x.Attempt == p.Attempt })
		if i < 0 || !strings.Contains(found["unknown"][i].Why, why[name]) {
			t.Errorf("%s: want %q in %v", name, why[name], found["unknown"])
		}
	}
	l.w.pointer(l.jobs["e"].ExportID, l.at["e"].Token)
	// They stay, whatever the clean-up does.
	_, err = storage.NewSweep(l.w.store, l.f, storage.SweepOptions{}).Run(l.w.ctx)
	l.w.must(err)
	for name, p := range places {
		if there, err := l.f.Present(l.w.ctx, p); err != nil || !there {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
	l.w.lawful(l.f, int64(len(why)))
}

func TestNothingIsCleanedUpSoonAfterARecovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.folder()
	w.must(w.store.Pair(w.ctx, f))
	job, first := w.publishFile(f, "e", "one")
	w.publishFile(f, "e", "two")
	w.setBack(f)
	w.recovered(f, storage.RecoverOptions{})
	_, err := storage.NewSweep(w.store, f, storage.SweepOptions{AfterRecovery: time.Hour}).Run(w.ctx)
	if !errors.Is(err, storage.ErrAfterRecovery) {
		t.Error(err)
	}
	if there, err := f.Present(w.ctx, place(job, first)); err != nil || !there {
		t.Errorf("the superseded files are gone: %v", err)
	}
	res, err := storage.NewSweep(w.store, f, storage.SweepOptions{}).Run(w.ctx)
	w.must(err)
	if res.Deleted != 1 {
		t.Errorf("%+v", res)
	}
}

func TestTheManifestTellsWhatTheFilesAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.folder()
	job, b := w.publishFile(f, "e", "one")
	m, err := storage.ReadManifest(w.ctx, f, place(job, b))
	w.must(err)
	sum := sha256.Sum256([]byte("one"))
	if m.Version != 1 || m.Tenant != "acme" || m.Kind != "report" || m.Key != "e" || m.Title != "e" || m.Job != job.ID || m.Attempt != b.ID || m.Token != b.Token ||
		m.DataAsOf.IsZero() || m.Rows != 3 || len(m.Files) != 1 || m.Files[0].SHA256 != fmt.Sprintf("%x", sum) || m.Files[0].Size != 3 || m.Files[0].Name != "orders.csv" {
		t.Errorf("%+v", m)
	}
	w.lawful(f, 0)
	path := filepath.Join(f.Dir(), place(job, b).String(), files.ManifestName)
	raw, err := os.ReadFile(path)
	w.must(err)
	for name, text := range map[string]string{
		"other files":     strings.Replace(string(raw), `"size":3`, `"size":4`, 1),
		"a later version": strings.Replace(string(raw), `"version":1`, `"version":2`, 1),
		"half of it":      string(raw[:len(raw)/2]),
	} {
		w.must(os.WriteFile(path, []byte(text), 0o600))
		found := map[string]int{}
		_, err := storage.Verify(w.ctx, w.store, f, storage.VerifyOptions{}, func(v storage.Violation) {
			if v.Warning && v.Attempt == b.ID && strings.Contains(v.What, "manifest") {
				found[v.Law]++
			}
		})
		w.must(err)
		if !maps.Equal(found, map[string]int{"L1": 1}) {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// Files of attempts that the database does not know any more stay, and stop no clean-up once a
// recovery has seen them, also where nothing is published again.
func TestStrangersStopNoCleanUpAfterARecovery(t *testing.T) {
	t.Parallel()
	for name, recover := range map[string]func(*world, *files.Local){
		"a backup was restored": func(w *world, f *files.Local) {
			w.setBack(f)
			w.recovered(f, storage.RecoverOptions{})
		},
		"a worker from before a recovery wrote late": func(w *world, f *files.Local) {
			w.recovered(f, storage.RecoverOptions{Adopt: true}) // as the error says
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			f := w.folder()
			job := w.insert(newJob("e"))
			b := w.begin(job)
			w.must(w.store.Pair(w.ctx, f))
			_, err := w.store.EndAttempt(w.ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "boom", Final: true})
			w.must(err)
			lost := files.Place{Export: job.ExportID, Token: b.Token + 1, Attempt: uuid.New()} // of an attempt after the backup
			w.writeAt(f, lost, "x")
			sweep := func() error {
				_, err := storage.NewSweep(w.store, f, storage.SweepOptions{Quarantine: -time.Hour}).Run(w.ctx)
				return err
			}
			if err := sweep(); !errors.Is(err, storage.ErrUnsafe) || !strings.Contains(err.Error(), "fenceline recover --adopt") {
				t.Fatalf("a token that nobody gave out: %v", err)
			}
			recover(w, f)
			w.must(sweep())
			w.attemptState(b.ID, storage.AttemptDeleted)
			if there, err := f.Present(w.ctx, lost); err != nil || !there {
				t.Errorf("the stranger's file is there: %t, %v", there, err)
			}
		})
	}
}

// writeAt writes a file that no attempt accounts for.
func (w *world) writeAt(f *files.Local, p files.Place, text string) {
	w.t.Helper()
	out, err := f.Create(w.ctx, p, "1-orders.csv")
	w.must(err)
	defer out.Abort()
	_, err = out.Write([]byte(text))
	w.must(err)
	_, err = out.Commit()
	w.must(err)
}
