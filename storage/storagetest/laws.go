package storagetest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// T is what a law needs of a test. A [*testing.T] has it, and so has a recorder
// of failures, by which a test shows that a broken protocol breaks a law.
// Errorf and Logf may be called from several goroutines.
type T interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Deployment is an installation that belongs to one law alone: a migrated
// database without rows and an empty file store. The laws know no lease.
type Deployment struct {
	Store *storage.Store
	Files files.Store
	URL   string // of the database, for statements past the store
	// Plant puts something of somebody else's at a path below the root of the files.
	Plant func(path, text string) error
	// Look is step 4: it opens the snapshot of an attempt with this token and answers what a query
	// for one text reads in it, and a time that the answer is not older than. nil is [storage.Store.Snapshot].
	Look func(ctx context.Context, export uuid.UUID, token int64, query string) (value string, asOf time.Time, err error)
	// Sweep is one run of step 7. nil is [storage.Sweep.Run].
	Sweep func(ctx context.Context, o storage.SweepOptions) error
}

// Deploy opens a store on a migrated database and an empty folder for its
// files. Both are closed after the test.
func Deploy(t testing.TB, url string) Deployment {
	t.Helper()
	dir := filepath.Join(quickFolder(t), "files")
	return DeployAt(t, url, dir, func(path, text string) error {
		return os.WriteFile(filepath.Join(dir, filepath.FromSlash(path)), []byte(text), 0o600)
	})
}

// DeployAt is [Deploy] with the files at a location (see [files.ParseURL]), where
// plant can put something of somebody else's.
func DeployAt(t testing.TB, url, location string, plant func(path, text string) error) Deployment {
	t.Helper()
	store, err := storage.Open(t.Context(), url, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	id, err := store.Installation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept, err := files.Open(t.Context(), location, id, store.Uploads())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	return Deployment{Store: store, Files: kept, URL: url, Plant: plant}
}

// quickFolder is in memory where the system has such a place: files are synced
// there at no cost, as the databases of tests are, and no test here outlives a crash
// of the machine.
func quickFolder(t testing.TB) string {
	t.Helper()
	const memory, prefix = "/dev/shm", "fenceline-files-"
	left, _ := filepath.Glob(filepath.Join(memory, prefix+"*"))
	for _, dir := range left { // of test processes that were killed
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > leftOver {
			_ = os.RemoveAll(dir)
		}
	}
	dir, err := os.MkdirTemp(memory, prefix)
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// law is one scene in which a law could be broken, played on a deployment of its own.
type law struct {
	name string
	play func(*scene)
}

// laws are all scenes. Each drives the protocol to a moment at which a guard
// decides, by holding locks and not by luck, and the last one does everything at once.
var laws = [...]law{
	{"L1 the files of the pointer are whole", pointerIsWhole},
	{"L1 a clean-up in the middle of a publish", sweepDuringPublish},
	{"L1 a publish after a clean-up", publishAfterSweep},
	{"L1 a clean-up without mercy", sweepWithoutMercy},
	{"L2 a lower token comes later", lowerTokenLater},
	{"L2 the database itself refuses", databaseRefuses},
	{"L2 tokens rise in the order of commits", tokensRise},
	{"L2 two publish at once", twoPublishAtOnce},
	{"L3 the older token looks last", olderTokenLooksLast},
	{"L4 a job is delivered many times", deliveredManyTimes},
	{"L4 a job is handed on while its attempt lives", handedOnAlive},
	{"L4 a publish is repeated", publishRepeated},
	{"L5 an attempt is lost at every step", lostAtEveryStep},
	{"L5 every job ends", everyJobEnds},
	{"L5 a job is cancelled", cancelledAnywhere},
	{"L5 a job is rung for until it is begun", rungUntilBegun},
	{"L6 a stale attempt gives up", staleAttemptGivesUp},
	{"L7 condemned, then deleted, then probed", condemnedThenDeleted},
	{"L7 what has another owner stays", strangersStay},
	{"L7 an export is deleted", exportDeleted},
	{"L8 only a publication notifies", onlyPublicationNotifies},
	{"L8 a publish that is rolled back", publishRolledBack},
	{"L9 everything at once and nobody holds a lease", storm},
}

// Laws plays every scene of the laws of package storage, each as a subtest with
// what open gives it. A store or a kind of file store may be used for exports
// when all of them pass.
func Laws(t *testing.T, open func(t *testing.T) Deployment) {
	t.Helper()
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.on(t, open(t))
		})
	}
}

// on plays the law and ends whatever the scene left open.
func (l law) on(t T, d Deployment) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	pool, err := pgxpool.New(ctx, d.URL)
	if err != nil {
		cancel()
		t.Fatalf("connect: %v", err)
	}
	s := &scene{T: t, ctx: ctx, Deployment: d, pool: pool}
	defer pool.Close()
	defer s.letGo()
	defer cancel()
	l.play(s)
}
