package storage_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/localpg"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// ownWorld is a world on a server that the test may kill.
func ownWorld(t *testing.T) (*world, *localpg.Server) {
	t.Helper()
	server := storagetest.Server(t, nil)
	if err := server.EnsureDatabase(t.Context(), "fenceline"); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, ctx: t.Context(), url: server.URL("fenceline")}
	w.must(migrate(w.ctx, w.url))
	w.store = openStore(t, w.url)
	return w, server
}

// kill ends a server without any warning, and waits until it is gone.
func kill(t *testing.T, server *localpg.Server) {
	t.Helper()
	if err := syscall.Kill(server.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-server.Done()
}

// PostgreSQL dies right after it has given out a token: none is given out twice.
func TestCrashAfterAllocation(t *testing.T) {
	t.Parallel()
	w, server := ownWorld(t)
	job := w.insert(newJob("sales"))
	last := w.begin(job).Token
	for range 3 {
		kill(t, server)
		again, err := server.Restart(w.ctx)
		w.must(err)
		t.Cleanup(func() { _ = again.Stop(context.Background()) })
		if server = again; server.URL("fenceline") != w.url {
			t.Fatal("the server came back at another address")
		}
		w.store = openStore(t, w.url)
		next := w.begin(w.insert(newJob("sales")))
		if next.Token <= last {
			t.Errorf("token %d was given out after %d", next.Token, last)
		}
		last = next.Token
	}
	if got := w.jobState(job.ID, storage.JobRunning); got.Attempts != 1 { // what was committed is there
		t.Errorf("%d attempts", got.Attempts)
	}
}

// replicaOf makes a standby of a server.
func replicaOf(t *testing.T, server *localpg.Server) *localpg.Server {
	t.Helper()
	bin, err := localpg.Find()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "fenceline-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := localpg.Remove(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := u.User.Password()
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(bin, "pg_basebackup"), "-d", server.URL("postgres"), "-D", filepath.Join(dir, "data"), "-R", "-X", "stream", "-c", "fast").CombinedOutput()
	if err != nil {
		t.Fatalf("pg_basebackup: %v %s", err, out)
	}
	standby, err := localpg.Start(t.Context(), localpg.Options{Dir: dir, Settings: map[string]string{"fsync": "off", "max_connections": "300"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop(context.Background()) })
	return standby
}

// An asynchronous standby is promoted that had not received everything: the
// attempts of the lost timeline can never publish, and tokens go on rising from
// what the new primary knows.
func TestPromotionOfAStandbyThatLaggedBehind(t *testing.T) {
	t.Parallel()
	w, primary := ownWorld(t)
	id, err := w.store.Installation(w.ctx)
	w.must(err)
	folder, err := files.OpenLocal(t.TempDir(), id)
	w.must(err)
	t.Cleanup(func() { _ = folder.Close() })
	w.must(w.store.Pair(w.ctx, folder)) // as every process does that starts
	job, known := w.published("sales")
	standby := replicaOf(t, primary)
	behind := &world{t: t, ctx: t.Context(), url: standby.URL("fenceline")}
	behind.until("the standby has the first publication", "SELECT count(*) = 1 FROM fenceline.attempts WHERE state = 'published'")
	if err := openStore(t, behind.url).Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("a standby passes for a primary: %v", err)
	}

	// The standby stops receiving; the primary goes on and publishes.
	var sender int
	w.must(w.query("SELECT pid FROM pg_stat_replication").Scan(&sender))
	w.must(syscall.Kill(sender, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(sender, syscall.SIGKILL) })
	for range 40 { // a sequence logs 32 numbers ahead: fewer would hide the lag
		w.begin(w.insert(newJob("other")))
	}
	lostJob := w.insert(newJob("sales"))
	lost := w.seal(w.begin(lostJob))
	kill(t, primary)

	behind.exec("SELECT pg_promote()")
	behind.until("the standby is promoted", "SELECT NOT pg_is_in_recovery()")
	behind.store = openStore(t, behind.url)
	if err := behind.store.Publish(t.Context(), known.ID); !errors.Is(err, storage.ErrRecoveryNeeded) {
		t.Errorf("publish before anybody has said that the timeline is the one to go on with: %v", err)
	}
	// No file was ever written here, which the recovery has to be told.
	if sum, err := storage.Recover(w.ctx, behind.store, folder, storage.RecoverOptions{FilesLost: true}); err != nil || !sum.Done || sum.Trouble == "" {
		t.Fatalf("recover: %+v, %v", sum, err)
	}
	if err := behind.store.Publish(t.Context(), lost.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("publish of an attempt of the lost timeline: %v", err)
	}
	if err := behind.store.Heartbeat(t.Context(), lost.ID, storage.Progress{Step: "write"}); err == nil {
		t.Error("an attempt of the lost timeline may go on")
	}
	if _, err := behind.store.EndAttempt(t.Context(), lost.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Counts: true}); err != nil {
		t.Error(err)
	}
	behind.pointer(job.ExportID, known.Token)
	if _, err := behind.store.Job(t.Context(), everything, lostJob.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the job of the lost timeline: %v", err)
	}
	next := behind.begin(behind.insert(newJob("sales")))
	if next.Token <= known.Token {
		t.Errorf("token %d after %d", next.Token, known.Token)
	}
	behind.seal(next)
	behind.must(behind.store.Publish(t.Context(), next.ID))
	behind.pointer(job.ExportID, next.Token)
}

// While a publish is on its way PostgreSQL dies; asked again after its return it
// answers what was decided.
func TestPublishAcrossACrash(t *testing.T) {
	t.Parallel()
	w, server := ownWorld(t)
	job := w.insert(newJob("sales"))
	b := w.seal(w.begin(job))
	// A transaction that nobody ends holds the row: the publish waits for it when the server dies.
	holder, err := pgx.Connect(w.ctx, w.url)
	w.must(err)
	defer holder.Close(context.Background())
	_, err = holder.Exec(w.ctx, "BEGIN; SELECT FROM fenceline.attempts FOR UPDATE")
	w.must(err)
	done := make(chan error, 1)
	go func() { done <- w.store.Publish(w.ctx, b.ID) }()
	w.until("publish waits", "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%publish_attempt%')")
	kill(t, server)
	again, err := server.Restart(w.ctx)
	w.must(err)
	t.Cleanup(func() { _ = again.Stop(context.Background()) })
	if err := <-done; err != nil {
		t.Fatalf("publish: %v", err)
	}
	w.jobState(job.ID, storage.JobDone)
	w.pointer(job.ExportID, b.Token)
}
