package storagetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage/localpg"
)

// endVariable tells TestEnd, in a process of its own, how to end.
const endVariable = "STORAGETEST_END"

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func do(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func value(t *testing.T, conn *pgx.Conn, query string) string {
	t.Helper()
	var v string
	if err := conn.QueryRow(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

var (
	prepareCalls atomic.Int32
	// leaked keeps a connection open, which the garbage collector would close.
	leaked = make(chan *pgx.Conn, 1)
)

// prepareMarks makes a table, and forgets to close its connection.
func prepareMarks(ctx context.Context, url string) error {
	prepareCalls.Add(1)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	leaked <- conn
	_, err = conn.Exec(ctx, "CREATE TABLE marks (mark text); INSERT INTO marks VALUES ('prepared')")
	return err
}

func TestDatabasesAreCopiesOfOnePreparation(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	urls := make([]string, 12)
	for i := range urls {
		wg.Go(func() { urls[i] = Database(t, prepareMarks) })
	}
	wg.Wait()
	if n := prepareCalls.Load(); n != 1 {
		t.Errorf("prepared %d times", n)
	}
	seen := make(map[string]bool)
	for _, url := range urls {
		conn := connect(t, url)
		if got := value(t, conn, "SELECT string_agg(mark, ',') FROM marks"); got != "prepared" {
			t.Errorf("marks %q", got)
		}
		do(t, conn, "INSERT INTO marks VALUES ('mine')")
		seen[url] = true
	}
	if len(seen) != len(urls) {
		t.Errorf("%d databases for %d", len(seen), len(urls))
	}
}

func TestEmptyDatabase(t *testing.T) {
	t.Parallel()
	conn := connect(t, Database(t, nil))
	if got := value(t, conn, "SELECT count(*)::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"); got != "0" {
		t.Errorf("%s tables", got)
	}
	for setting, want := range map[string]string{
		"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on", "max_connections": "300", "server_encoding": "UTF8",
	} {
		if got := value(t, conn, "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
}

func TestDatabaseIsDroppedUnderAConnection(t *testing.T) {
	t.Parallel()
	var user *pgx.Conn
	t.Run("user", func(t *testing.T) {
		url := Database(t, nil)
		var err error
		if user, err = pgx.Connect(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	})
	defer user.Close(t.Context())
	name := user.Config().Database
	conn := connect(t, Database(t, nil))
	if got := value(t, conn, "SELECT count(*)::text FROM pg_database WHERE datname = '"+name+"'"); got != "0" {
		t.Errorf("%s is still there", name)
	}
}

func TestReadyRefuses(t *testing.T) {
	t.Parallel()
	Database(t, prepareMarks)
	ctx := t.Context()
	if _, _, err := new(cluster).ready(ctx, nil); err == nil || !strings.Contains(err.Error(), "storagetest.Main") {
		t.Errorf("without Main: %v", err)
	}
	other := func(context.Context, string) error { return nil }
	if _, _, err := process.ready(ctx, other); err == nil || !strings.Contains(err.Error(), "two different prepare functions") {
		t.Errorf("another function: %v", err)
	}

	broken := &cluster{open: true, server: process.server}
	broken.names.Store(1<<30 + process.names.Add(1)) // names of its own
	wrong := errors.New("migration 7 is wrong")
	fails := func(context.Context, string) error { return wrong }
	for range 2 {
		if _, _, err := broken.ready(ctx, fails); !errors.Is(err, wrong) {
			t.Errorf("failed preparation: %v", err)
		}
	}
}

func TestServerSurvivesItsKilling(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("user", func(t *testing.T) {
		s := Server(t, map[string]string{"max_connections": "7"})
		url = s.URL(maintenance)
		conn := connect(t, url)
		if got := value(t, conn, "SHOW max_connections"); got != "7" {
			t.Errorf("max_connections = %s", got)
		}
		do(t, conn, "CREATE TABLE kept ()")
		postmaster, err := os.FindProcess(s.Pid())
		if err != nil {
			t.Fatal(err)
		}
		if err := postmaster.Kill(); err != nil {
			t.Fatal(err)
		}
		<-s.Done()
		again, err := s.Restart(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := stop(again); err != nil {
				t.Error(err)
			}
		})
		if got := value(t, connect(t, again.URL(maintenance)), "SELECT count(*)::text FROM kept"); got != "0" {
			t.Error(got)
		}
	})
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		conn.Close(t.Context())
		t.Error("the server outlived its test")
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	old := time.Now().Add(-2 * leftOver)
	folder := func(name string, changed time.Time) string {
		t.Helper()
		dir := filepath.Join(temp, name)
		if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, changed, changed); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	left, young := folder(folderPrefix+"left", old), folder(folderPrefix+"young", time.Now())
	strange := folder("strange", old)
	if err := sweep(t.Context(), temp, time.Now().Add(-leftOver)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{left: false, young: true, strange: true} {
		if got := exists(dir); got != want {
			t.Errorf("%s: there %v, want %v", dir, got, want)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestSweepSparesARunningServer(t *testing.T) {
	t.Parallel()
	Database(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	// Only the folder of this process: another one of this machine is not ours to try.
	if err := localpg.Remove(ctx, process.dir); !errors.Is(err, localpg.ErrInUse) {
		t.Errorf("got %v", err)
	}
	if !exists(filepath.Join(process.dir, "data")) {
		t.Error("the data is gone")
	}
}

// TestEnd is the test of the processes that TestMainCleansUp starts.
func TestEnd(t *testing.T) {
	how := os.Getenv(endVariable)
	if how == "" {
		return
	}
	fmt.Println("url:", Database(t, nil))
	switch how {
	case "panic":
		go func() { panic("as a test would") }()
		select {}
	case "fail":
		t.Error("as a test would")
	}
}

func TestMainCleansUp(t *testing.T) {
	t.Parallel()
	for how, code := range map[string]int{"pass": 0, "fail": 1, "panic": 2} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			url := endProcess(t, how, temp, code)
			gone := func() bool {
				conn, err := pgx.Connect(t.Context(), url)
				if err == nil {
					conn.Close(t.Context())
				}
				return err != nil
			}
			if how != "panic" {
				if left, _ := filepath.Glob(filepath.Join(temp, folderPrefix+"*")); len(left) > 0 || !gone() {
					t.Errorf("left behind: %v, server gone: %v", left, gone())
				}
				return
			}
			if runtime.GOOS == "linux" {
				eventually(t, "the server ends with its process", gone)
			}
			if err := sweep(t.Context(), temp, time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(filepath.Join(temp, folderPrefix+"*")); len(left) > 0 {
				t.Errorf("not swept: %v", left)
			}
		})
	}
}

// endProcess runs TestEnd and returns the URL of the database that it used.
func endProcess(t *testing.T, how, temp string, code int) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestEnd$")
	cmd.Env = append(os.Environ(), endVariable+"="+how, "TMPDIR="+temp, "TMP="+temp)
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("exit code %d, %v, want %d:\n%s", got, err, code, out)
	}
	for line := range strings.Lines(string(out)) {
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "url: "); ok {
			return url
		}
	}
	t.Fatalf("no database was used:\n%s", out)
	return ""
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for end := time.After(20 * time.Second); !ok(); {
		select {
		case <-poll.C:
		case <-end:
			t.Fatal("never: " + what)
		}
	}
}
