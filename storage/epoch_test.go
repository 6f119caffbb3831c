package storage_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// folder is the file store of a world, opened as a process does.
func (w *world) folder() *files.Local {
	w.t.Helper()
	return w.folderAt(w.t.TempDir())
}

func (w *world) folderAt(dir string) *files.Local {
	w.t.Helper()
	id, err := w.store.Installation(w.ctx)
	w.must(err)
	f, err := files.OpenLocal(dir, id)
	w.must(err)
	w.t.Cleanup(func() { _ = f.Close() })
	return f
}

func (w *world) mark(f files.Store) files.Mark {
	w.t.Helper()
	m, err := f.ReadMark(w.ctx)
	w.must(err)
	return m
}

// stopped checks that nothing is published and nothing cleaned up, whoever tries, and says why.
func (w *world) stopped(f files.Store, sealed storage.Begun, why string) {
	w.t.Helper()
	if err := w.store.Publish(w.ctx, sealed.ID); !errors.Is(err, storage.ErrRecoveryNeeded) || !strings.Contains(err.Error(), why) {
		w.t.Errorf("publish says %v, want %q", err, why)
	}
	w.attemptState(sealed.ID, storage.AttemptSealed)
	_, err := storage.NewSweep(w.store, f, storage.SweepOptions{}).Run(w.ctx)
	if !errors.Is(err, storage.ErrRecoveryNeeded) || !strings.Contains(err.Error(), why) {
		w.t.Errorf("the clean-up says %v, want %q", err, why)
	}
}

func (w *world) refusesPlainly(sql string, args ...any) {
	w.t.Helper()
	var pg *pgconn.PgError
	if err := w.tryExec(sql, args...); !errors.As(err, &pg) || pg.Code != "FL004" {
		w.t.Errorf("%s: %v, want FL004", sql, err)
	}
}

func TestTheFirstPairingTellsBothSides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.folder()
	w.published("e") // what an older version left: a mark without an epoch
	w.must(w.store.Pair(w.ctx, f))
	e, err := w.store.Epoch(w.ctx)
	w.must(err)
	m := w.mark(f)
	if m.Epoch != e.ID || m.Beat != 1 || m.Token != 1 || m.Fingerprint == "" || m.Fingerprint != e.Here || e.Confirmed != 1 || e.Fingerprint != e.Here || e.Trouble != "" {
		t.Errorf("mark %+v\nepoch %+v", m, e)
	}
	if system, line := e.Known(); !system || !line {
		t.Errorf("fingerprint %q", e.Here)
	}
	w.published("e")
	w.must(openStore(t, w.url).Pair(w.ctx, f)) // another process: nothing to tell yet, within a minute
	if m := w.mark(f); m.Beat != 1 {
		t.Errorf("beat %d", m.Beat)
	}
}

func TestACopyBesideTheOriginalStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.folder()
	sealed := w.seal(w.begin(w.insert(newJob("e"))))
	w.must(w.store.Pair(w.ctx, f))
	w.store.Close()

	copied := w.copyDatabase()
	copied.stopped(f, sealed, "a copy beside the original")
	copied.refusesPlainly("SELECT fenceline.publish_attempt($1)", sealed.ID)
	copied.refusesPlainly("SELECT fenceline.condemn_attempts(ARRAY[$1::uuid], -1)", sealed.ID)
	if err := copied.store.Pair(w.ctx, f); !errors.Is(err, storage.ErrRecoveryNeeded) {
		t.Errorf("the copy pairs: %v", err)
	}
	// Its jobs wait; nothing is lost.
	job := copied.insert(newJob("g"))
	if _, err := copied.store.BeginAttempt(w.ctx, job.ID, "w"); !errors.Is(err, storage.ErrHeld) {
		t.Errorf("a job of the copy begins: %v", err)
	}
	copied.jobState(job.ID, storage.JobQueued)
	// The original goes on.
	w.store = openStore(t, w.url)
	w.must(w.store.Pair(w.ctx, f))
	w.must(w.store.Publish(w.ctx, sealed.ID))
}

// copyDatabase copies the database beside the original, as CREATE DATABASE … TEMPLATE does.
func (w *world) copyDatabase() *world {
	w.t.Helper()
	conf, err := pgx.ParseConfig(w.url)
	w.must(err)
	name := conf.Database + "_copy_" + uuid.NewString()[:8]
	admin := strings.Replace(w.url, "/"+conf.Database, "/postgres", 1)
	run := func(ctx context.Context, sql string) error {
		conn, err := pgx.Connect(ctx, admin)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, sql)
		return err
	}
	w.must(run(w.ctx, `CREATE DATABASE "`+name+`" TEMPLATE "`+conf.Database+`"`))
	w.t.Cleanup(func() {
		if err := run(context.Background(), `DROP DATABASE "`+name+`" WITH (FORCE)`); err != nil {
			w.t.Error(err)
		}
	})
	url := strings.Replace(w.url, "/"+conf.Database, "/"+name, 1)
	return &world{t: w.t, ctx: w.ctx, url: url, store: openStore(w.t, url)}
}

func TestADatabaseOlderThanItsFilesStops(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]func(*files.Mark){
		"a beat":  func(m *files.Mark) { m.Beat++ },
		"a token": func(m *files.Mark) { m.Token = 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			f := w.folder()
			sealed := w.seal(w.begin(w.insert(newJob("e"))))
			w.must(w.store.Pair(w.ctx, f))
			m := w.mark(f)
			ahead(&m) // what the files heard after the backup was taken
			w.must(f.WriteMark(w.ctx, m))
			w.store = openStore(t, w.url) // a new process, or the old one some seconds later
			if err := w.store.Pair(w.ctx, f); !errors.Is(err, storage.ErrRecoveryNeeded) {
				t.Fatal(err)
			}
			w.stopped(f, sealed, "older than its files")
			w.refusesPlainly("SELECT fenceline.publish_attempt($1)", sealed.ID) // other languages too
		})
	}
}

func TestFilesOlderThanTheDatabaseStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.folder()
	w.must(w.store.Pair(w.ctx, f))
	before := w.mark(f)
	w.exec("UPDATE fenceline.epoch SET beats = beats + 3, confirmed = beats + 3")
	_, err := storage.NewSweep(w.store, f, storage.SweepOptions{}).Run(w.ctx)
	if !errors.Is(err, storage.ErrRecoveryNeeded) || !strings.Contains(err.Error(), "the files are older") {
		t.Error(err)
	}
	// An empty folder in its place, such as one whose volume is not mounted.
	if err := openStore(t, w.url).Pair(w.ctx, w.folder()); !errors.Is(err, storage.ErrRecoveryNeeded) || !strings.Contains(err.Error(), "do not know this database") {
		t.Error(err)
	}
	before.Epoch = uuid.New()
	w.must(f.WriteMark(w.ctx, before))
	if err := openStore(t, w.url).Pair(w.ctx, f); !errors.Is(err, storage.ErrRecoveryNeeded) || !strings.Contains(err.Error(), "the files are of epoch") {
		t.Error(err)
	}
}

func TestAProcessThatBelievesInAnotherEpochDoesNotPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sealed := w.seal(w.begin(w.insert(newJob("e"))))
	w.refusesPlainly("SELECT fenceline.publish_attempt_in_epoch($1, gen_random_uuid())", sealed.ID)
	w.attemptState(sealed.ID, storage.AttemptSealed)
}

// What may be published depends on the timeline: the one that is written, not the one of the last checkpoint.
func TestTheTimelineIsThatOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sealed := w.seal(w.begin(w.insert(newJob("e"))))
	w.exec("UPDATE fenceline.epoch SET fingerprint = fenceline.database_here()")
	w.exec("ALTER TABLE fenceline.epoch DISABLE TRIGGER guard")
	w.exec(`UPDATE fenceline.epoch SET fingerprint = regexp_replace(fingerprint, ' 1 ', ' 2 ')`)
	w.exec("ALTER TABLE fenceline.epoch ENABLE TRIGGER guard")
	if err := w.store.Publish(w.ctx, sealed.ID); !errors.Is(err, storage.ErrRecoveryNeeded) || !strings.Contains(err.Error(), "timeline 1, the epoch began on timeline 2") {
		t.Error(err)
	}
}

// Where the server hides its identifier or its timeline the rest decides.
func TestUnknownPartsOfAFingerprintDecideNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		remembered, here string
		same             bool
	}{
		{"7 1 5", "7 1 5", true}, {"? 1 5", "7 1 5", true}, {"7 1 5", "? ? 5", true}, {"7 ? 5", "7 3 5", true},
		{"7 1 5", "8 1 5", false}, {"7 1 5", "7 2 5", false}, {"? ? 5", "? ? 6", false},
	} {
		var other *string
		w.must(w.query("SELECT fenceline.other_database($1, $2)", c.remembered, c.here).Scan(&other))
		if (other == nil) != c.same {
			t.Errorf("%q and %q: %v", c.remembered, c.here, other)
		}
	}
}
