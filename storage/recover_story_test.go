package storage_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/localpg"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// primary is a server of its own with a database in use, and the files beside it.
func primary(t *testing.T, at shelf, settings map[string]string) (*localpg.Server, *world, files.Store) {
	t.Helper()
	server := storagetest.Server(t, settings)
	if err := server.EnsureDatabase(t.Context(), "fenceline"); err != nil {
		t.Fatal(err)
	}
	if err := migrate(t.Context(), server.URL("fenceline")); err != nil {
		t.Fatal(err)
	}
	w := worldAt(t, server.URL("fenceline"))
	f := at.open(w)
	w.must(w.store.Pair(w.ctx, f))
	return server, w, f
}

func worldAt(t *testing.T, url string) *world {
	t.Helper()
	return &world{t: t, ctx: t.Context(), url: url, store: openStore(t, url)}
}

// program runs one of PostgreSQL's programs.
func program(t testing.TB, name string, args ...string) {
	t.Helper()
	bin, err := localpg.Find()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, filepath.Join(bin, name), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// dataFolder is where a server keeps its cluster.
func (w *world) dataFolder() (dir string) {
	w.t.Helper()
	w.must(w.query("SHOW data_directory").Scan(&dir))
	return dir
}

// baseBackup takes one of a server; [startBackup] starts it.
func (w *world) baseBackup(server *localpg.Server) (dir string) {
	w.t.Helper()
	dir, err := os.MkdirTemp("", "fenceline-pg-")
	w.must(err)
	w.t.Cleanup(func() {
		if err := localpg.Remove(context.Background(), dir); err != nil {
			w.t.Error(err)
		}
	})
	program(w.t, "pg_basebackup", "-d", server.URL("postgres"), "-D", filepath.Join(dir, "data"), "-X", "stream", "-c", "fast")
	password, err := os.ReadFile(filepath.Join(filepath.Dir(w.dataFolder()), "password"))
	w.must(err)
	w.must(os.WriteFile(filepath.Join(dir, "password"), password, 0o600))
	return dir
}

// startBackup starts a base backup; signal is the name of a file that says how.
func startBackup(t *testing.T, dir, signal string, settings map[string]string) *localpg.Server {
	t.Helper()
	if signal != "" {
		if err := os.WriteFile(filepath.Join(dir, "data", signal), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]string{"fsync": "off", "archive_mode": "off", "max_connections": "300"}
	for name, value := range settings {
		all[name] = value
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	server, err := localpg.Start(ctx, localpg.Options{Dir: dir, Settings: all})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return server
}

func TestAPointInTimeRestoreWaitsForRecovery(t *testing.T) {
	t.Parallel()
	onEachShelf(t, aPointInTimeRestoreWaitsForRecovery)
}

func aPointInTimeRestoreWaitsForRecovery(t *testing.T, at shelf) {
	server, w, f := primary(t, at, map[string]string{"archive_mode": "on", "archive_command": "mkdir -p ../archive && cp %p ../archive/%f"})
	first, before := w.publishFile(f, "e", "before the backup")
	dir := w.baseBackup(server)
	_, second := w.publishFile(f, "e", "in the archive")
	waits := w.insert(newJob("g"))
	sealed := w.write(f, waits, "sealed at the point in time")
	w.exec("SELECT pg_create_restore_point('there')")
	_, lost := w.publishFile(f, "e", "after the point in time")
	w.must(w.store.Publish(w.ctx, sealed.ID))
	archive := filepath.Join(filepath.Dir(w.dataFolder()), "archive")
	w.exec("SELECT pg_switch_wal()")
	w.until("the log is archived", "SELECT last_archived_wal >= pg_walfile_name(pg_current_wal_lsn() - 1) OR archived_count > 2 FROM pg_stat_archiver")
	w.must(server.Stop(w.ctx))

	restored := worldAt(t, startBackup(t, dir, "recovery.signal", map[string]string{
		"restore_command": "cp " + archive + "/%f %p", "recovery_target_name": "there", "recovery_target_action": "promote",
	}).URL("fenceline"))
	restored.until("the restore is done", "SELECT NOT pg_is_in_recovery()")
	f = at.open(restored)
	restored.pointer(first.ExportID, second.Token)
	restored.stopped(f, sealed, "timeline")
	restored.refusesPlainly("SELECT fenceline.publish_attempt($1)", sealed.ID)
	job := restored.insert(newJob("e"))
	if _, err := restored.store.BeginAttempt(w.ctx, job.ID, "w"); !errors.Is(err, storage.ErrHeld) {
		t.Errorf("a job begins: %v", err)
	}

	sum, found := restored.recovered(f, storage.RecoverOptions{})
	if sum.Condemned != 1 || sum.Lost != 0 || sum.Unknown != 1 || len(found["unknown"]) != 1 || found["unknown"][0].Token != lost.Token || sum.Seen < lost.Token {
		t.Errorf("%+v %v", sum, found)
	}
	restored.lawful(f, 1)
	restored.jobState(waits.ID, storage.JobQueued)
	if sum, found := restored.recovered(f, storage.RecoverOptions{Adopt: true}); sum.Adopted != 1 {
		t.Errorf("%+v %v", sum, found)
	}
	restored.pointer(first.ExportID, lost.Token)
	restored.goesOn(f, job, max(before.Token, second.Token, lost.Token, sealed.Token))
	restored.lawful(f, 0)
}

// goesOn publishes and cleans up again, with tokens above all that there were.
func (w *world) goesOn(f files.Store, job storage.Job, above int64) {
	w.t.Helper()
	next := w.write(f, job, "after the recovery")
	if next.Token <= above {
		w.t.Errorf("token %d comes again: %d was given out", next.Token, above)
	}
	w.must(w.store.Publish(w.ctx, next.ID))
	_, err := storage.NewSweep(w.store, f, storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Hour}).Run(w.ctx)
	w.must(err)
}

// A base backup that is started as it is has the identifier and the timeline of its original: only the
// files know better.
func TestABackupWithoutANewTimelineWaitsForRecovery(t *testing.T) {
	t.Parallel()
	onEachShelf(t, aBackupWithoutANewTimelineWaitsForRecovery)
}

func aBackupWithoutANewTimelineWaitsForRecovery(t *testing.T, at shelf) {
	server, w, f := primary(t, at, nil)
	first, _ := w.publishFile(f, "e", "before the backup")
	sealed := w.write(f, w.insert(newJob("g")), "sealed")
	dir := w.baseBackup(server)
	_, lost := w.publishFile(f, "e", "after the backup")
	m := w.mark(f)
	m.At = m.At.Add(-time.Hour) // an hour later the files hear of it
	w.must(f.WriteMark(w.ctx, m))
	w.must(openStore(t, w.url).Pair(w.ctx, f))
	w.must(server.Stop(w.ctx))

	restored := worldAt(t, startBackup(t, dir, "", nil).URL("fenceline"))
	f = at.open(restored)
	e, err := restored.store.Epoch(w.ctx)
	w.must(err)
	if e.Trouble != "" {
		t.Fatalf("the database itself knows: %s", e.Trouble)
	}
	if err := restored.store.Pair(w.ctx, f); !errors.Is(err, storage.ErrRecoveryNeeded) {
		t.Fatal(err)
	}
	restored.stopped(f, sealed, "older than its files")
	sum, _ := restored.recovered(f, storage.RecoverOptions{Adopt: true})
	if sum.Adopted != 1 || sum.Condemned != 1 {
		t.Errorf("%+v", sum)
	}
	restored.pointer(first.ExportID, lost.Token)
	restored.goesOn(f, restored.insert(newJob("e")), lost.Token)
	restored.lawful(f, 0)
}

func TestOfTwoPromotedStandbysOneGoesOn(t *testing.T) {
	t.Parallel()
	onEachShelf(t, ofTwoPromotedStandbysOneGoesOn)
}

func ofTwoPromotedStandbysOneGoesOn(t *testing.T, at shelf) {
	server, w, f := primary(t, at, nil)
	standby := func() *world {
		return worldAt(t, startBackup(t, w.baseBackup(server), "standby.signal", map[string]string{"primary_conninfo": server.URL("postgres")}).URL("fenceline"))
	}
	a, b := standby(), standby()
	_, before := w.publishFile(f, "e", "replicated")
	sealed := w.write(f, w.insert(newJob("g")), "sealed")
	for _, s := range []*world{a, b} {
		s.until("it has caught up", "SELECT count(*) = 1 FROM fenceline.attempts WHERE state = 'sealed'")
	}
	w.must(server.Stop(w.ctx))
	var fingerprints []string
	for _, s := range []*world{a, b} {
		s.exec("SELECT pg_promote()")
		s.stopped(f, sealed, "a standby was promoted")
		e, err := s.store.Epoch(w.ctx)
		w.must(err)
		fingerprints = append(fingerprints, e.Here)
	}
	if fingerprints[0] != fingerprints[1] || !strings.Contains(fingerprints[0], " 2 ") {
		t.Errorf("nothing but the epoch tells them apart: %q", fingerprints)
	}
	f = at.open(a)
	sum, _ := a.recovered(f, storage.RecoverOptions{})
	if sum.Lost+sum.Unknown != 0 || sum.Condemned != 1 { // nothing was lost: it was a planned one
		t.Errorf("%+v", sum)
	}
	a.goesOn(f, a.insert(newJob("e")), max(before.Token, sealed.Token))
	a.lawful(f, 0)
	b.stopped(f, sealed, "a standby was promoted")
	w.must(a.store.Pair(w.ctx, f))
	// Whoever recovers the other one as well takes the files over: the first one stops.
	b.recovered(f, storage.RecoverOptions{Adopt: true})
	last := a.write(f, a.insert(newJob("e")), "too late")
	a.store = openStore(t, a.url)
	if err := a.store.Pair(w.ctx, f); !errors.Is(err, storage.ErrRecoveryNeeded) {
		t.Errorf("both go on: %v", err)
	}
	a.attemptState(last.ID, storage.AttemptSealed)
	b.goesOn(f, b.insert(newJob("e")), last.Token)
}

func TestADumpInAnotherClusterWaitsForRecovery(t *testing.T) {
	t.Parallel()
	onEachShelf(t, aDumpInAnotherClusterWaitsForRecovery)
}

func aDumpInAnotherClusterWaitsForRecovery(t *testing.T, at shelf) {
	w := newWorld(t) // production
	f := at.open(w)
	w.must(w.store.Pair(w.ctx, f))
	first, before := w.publishFile(f, "e", "before the dump")
	sealed := w.write(f, w.insert(newJob("g")), "sealed")
	dump := filepath.Join(t.TempDir(), "dump")
	program(t, "pg_dump", "-Fc", "-f", dump, "-d", w.url)
	_, lost := w.publishFile(f, "e", "after the dump")

	other := storagetest.Server(t, nil)
	w.must(other.EnsureDatabase(w.ctx, "staging"))
	program(t, "pg_restore", "-d", other.URL("staging"), dump)
	staging := worldAt(t, other.URL("staging"))
	theirs := at.open(staging)
	staging.stopped(theirs, sealed, "another cluster") // staging at production's files: nothing happens
	staging.refusesPlainly("SELECT fenceline.publish_attempt($1)", sealed.ID)
	w.must(w.store.Publish(w.ctx, sealed.ID)) // and production goes on

	sum, _ := staging.recovered(theirs, storage.RecoverOptions{Adopt: true}) // production is given up
	if sum.Adopted != 1 || sum.Condemned != 1 {                              // what the dump has as sealed is condemned, whatever became of it
		t.Errorf("%+v", sum)
	}
	staging.pointer(first.ExportID, lost.Token)
	staging.goesOn(theirs, staging.insert(newJob("e")), max(before.Token, lost.Token, sealed.Token))
	staging.lawful(theirs, 0)
	late := w.write(f, w.insert(newJob("e")), "production does not know yet")
	w.store = openStore(t, w.url)
	if err := w.store.Pair(w.ctx, f); !errors.Is(err, storage.ErrRecoveryNeeded) || !strings.Contains(err.Error(), "the files are of epoch") {
		t.Errorf("two databases publish into the same files: %v", err)
	}
	_, err := storage.NewSweep(w.store, f, storage.SweepOptions{}).Run(w.ctx)
	if !errors.Is(err, storage.ErrRecoveryNeeded) {
		t.Error(err)
	}
	w.attemptState(late.ID, storage.AttemptSealed)
}

func TestAnotherFolderIsNoRecovery(t *testing.T) {
	t.Parallel()
	w, strangers := newWorld(t), newWorld(t)
	strangers.exec("UPDATE fenceline.installation SET id = $1", uuid.New()) // all tests' databases are copies of one
	f, theirs := w.folder(), strangers.folder()
	w.must(w.store.Pair(w.ctx, f))
	w.must(strangers.store.Pair(w.ctx, theirs))
	before := strangers.mark(theirs)
	for name, err := range map[string]error{
		"recover":  second(storage.Recover(w.ctx, w.store, theirs, storage.RecoverOptions{FilesLost: true, Adopt: true})),
		"clean up": second(storage.NewSweep(w.store, theirs, storage.SweepOptions{}).Run(w.ctx)),
	} {
		if !errors.Is(err, files.ErrOtherInstallation) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := strangers.mark(theirs); after != before {
		t.Errorf("the strangers' mark was changed: %+v", after)
	}
	// A copy of our own folder from before: pointers name files that it does not have.
	job, b := w.publishFile(f, "e", "one")
	old := filepath.Join(t.TempDir(), "old")
	w.must(os.CopyFS(old, os.DirFS(f.Dir())))
	w.must(os.RemoveAll(filepath.Join(old, place(job, b).String())))
	m := w.mark(f)
	m.At = m.At.Add(-time.Hour)
	w.must(f.WriteMark(w.ctx, m))
	w.must(openStore(t, w.url).Pair(w.ctx, f))
	g := w.folderAt(old)
	w.store = openStore(t, w.url)
	if err := w.store.Pair(w.ctx, g); !errors.Is(err, storage.ErrRecoveryNeeded) || !strings.Contains(err.Error(), "the files are older") {
		t.Error(err)
	}
	sum, found, err := w.recover(g, storage.RecoverOptions{})
	if !errors.Is(err, storage.ErrFilesLost) || sum.Lost != 1 || found["lost"][0].Export != job.ExportID {
		t.Errorf("%v %+v %v", err, sum, found)
	}
	// With the right folder again the recovery finishes.
	w.recovered(f, storage.RecoverOptions{})
	w.goesOn(f, w.insert(newJob("e")), b.Token)
	w.lawful(f, 0)
}

func second[T any](_ T, err error) error { return err }
