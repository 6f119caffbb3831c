//go:build unix

package localpg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ownerVariable makes this test binary a process that owns the server in the named
// folder, until it is killed; binVariable is its Options.Bin.
const (
	ownerVariable = "LOCALPG_TEST_OWNER"
	binVariable   = "LOCALPG_TEST_BIN"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerVariable); dir != "" {
		own(dir)
	}
	os.Exit(m.Run())
}

func own(dir string) {
	s, err := Start(context.Background(), Options{Dir: dir, Bin: os.Getenv(binVariable), Settings: quick()})
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println(s.Pid())
	<-s.Done()
	os.Exit(2)
}

// ownedElsewhere starts an owner process.
func ownedElsewhere(t *testing.T, dir, bin string) (owner *exec.Cmd, out *bufio.Scanner) {
	t.Helper()
	owner = exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerVariable+"="+dir, binVariable+"="+bin)
	pipe, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = owner.Process.Kill() // dead already unless the test failed early
		_ = owner.Wait()
	})
	return owner, bufio.NewScanner(pipe)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	for !ok() {
		if !pause(ctx, 2*time.Millisecond) {
			t.Error("never: " + what)
			return
		}
	}
}

func TestKilledOwnerLeavesTheFolderUsable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner, out := ownedElsewhere(t, dir, "")
	if !out.Scan() {
		t.Fatal("the owner said nothing")
	}
	old, err := strconv.Atoi(out.Text())
	if err != nil {
		t.Fatalf("the owner said %q", out.Text())
	}
	s := attach(t, dir)
	remember(t, s, "survivor")
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	next := started(t, dir)
	if got := recall(t, next); got != "survivor" {
		t.Errorf("after the kill: %q", got)
	}
	if serves(postmaster{pid: old}, next.data()) {
		t.Errorf("the old server %d still runs beside %d", old, next.Pid())
	}
}

// attach is enough of a server that others own to make its URL.
func attach(t *testing.T, dir string) *Server {
	t.Helper()
	s := &Server{options: Options{Dir: dir}}
	port, err := os.ReadFile(s.file(portName))
	if err != nil {
		t.Fatal(err)
	}
	if s.port, err = strconv.Atoi(strings.TrimSpace(string(port))); err != nil {
		t.Fatal(err)
	}
	if s.password, err = keepPassword(s.file(passwordName), false); err != nil {
		t.Fatal(err)
	}
	return s
}

// scripted is a folder of programs whose initdb is the given shell script.
func scripted(t *testing.T, initdb string) (bin string) {
	t.Helper()
	bin = programs(t, t.TempDir())
	if err := os.WriteFile(filepath.Join(bin, "initdb"), []byte("#!/bin/sh\n"+initdb), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}

// findData sets $data from the arguments of initdb.
const findData = `for a; do case $a in --pgdata=*) data=${a#--pgdata=};; esac; done
`

func TestOwnerKilledDuringInitdb(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner, _ := ownedElsewhere(t, dir, scripted(t, findData+`mkdir "$data/base"; echo 15 >"$data/PG_VERSION"; exec sleep 600`))
	half := func() []string {
		found, _ := filepath.Glob(filepath.Join(dir, unfinished+"*", "PG_VERSION"))
		return found
	}
	eventually(t, "initdb begins", func() bool { return len(half()) > 0 })
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	s := started(t, dir)
	if got := query(t, s.URL(maintenance), "SELECT 'whole'"); got != "whole" {
		t.Error(got)
	}
	if left := half(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestInitdbWithoutTheLocale(t *testing.T) {
	t.Parallel()
	bin := scripted(t, findData+`case "$*" in
*--locale=C) echo 15 >"$data/PG_VERSION";;
*) echo 'initdb: error: invalid locale name "C.UTF-8"' >&2; exit 1;;
esac`)
	s := &Server{options: Options{Dir: t.TempDir()}, bin: bin}
	if err := s.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.data(), "PG_VERSION")); err != nil {
		t.Error(err)
	}
}

func TestFailedInitdbSaysWhy(t *testing.T) {
	t.Parallel()
	s := &Server{options: Options{Dir: t.TempDir()}, bin: scripted(t, "echo 'no space left' >&2; exit 1")}
	if err := s.initialize(t.Context()); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(s.options.Dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What an earlier server may have left on a folder, one after the other.
func TestEarlierServer(t *testing.T) {
	t.Parallel()
	told := new(journal)
	o := Options{Dir: t.TempDir(), Settings: quick(), Log: slog.New(slog.NewTextHandler(told, nil))}
	s, err := Start(within(t, time.Minute), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	remember(t, s, "kept")

	s = afterKilledPostmaster(t, s, told)
	s = afterRecycledPid(t, s)
	afterServerLeftBehind(t, s, told)
}

// journal is a log that a test may read while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// afterKilledPostmaster kills the server while one of its backends is frozen: the
// start must fail on the shared memory that is still in use, and succeed as soon as
// the backend has gone.
func afterKilledPostmaster(t *testing.T, s *Server, told *journal) *Server {
	t.Helper()
	conn, err := s.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	backend := int(conn.PgConn().PID())
	if err := errors.Join(syscall.Kill(backend, syscall.SIGSTOP), s.child.process.Kill()); err != nil {
		t.Fatal(err)
	}
	thaw := sync.OnceValue(func() error { return syscall.Kill(backend, syscall.SIGCONT) })
	t.Cleanup(func() { _ = thaw() })
	if !wait(within(t, 10*time.Second), s.Done()) {
		t.Fatal("nobody noticed")
	}
	if !regexp.MustCompile(`level=ERROR .*ended by itself`).MatchString(told.String()) {
		t.Errorf("nothing was said:\n%s", told)
	}
	go func() {
		eventually(t, "a start fails", func() bool { return strings.Contains(told.String(), "shared memory block") })
		if err := thaw(); err != nil {
			t.Error(err)
		}
	}()
	return restarted(t, s, "")
}

// afterRecycledPid gives the pid in the lock file to a process that is no server.
func afterRecycledPid(t *testing.T, s *Server) *Server {
	t.Helper()
	file := filepath.Join(s.data(), "postmaster.pid")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	stranger := exec.Command("sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- stranger.Wait() }()
	t.Cleanup(func() { _ = stranger.Process.Kill() })
	_, rest, _ := strings.Cut(string(text), "\n")
	stale := strconv.Itoa(stranger.Process.Pid) + "\n" + rest
	if err := os.WriteFile(file, []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.as.own(file); err != nil {
		t.Fatal(err)
	}
	again := restarted(t, s, "")
	select {
	case err := <-ended:
		t.Errorf("the stranger was killed: %v", err)
	default:
	}
	return again
}

// afterServerLeftBehind is what a killed owner leaves where there is no death
// signal (any system but Linux): a server that goes on, with a lock that nobody
// holds.
func afterServerLeftBehind(t *testing.T, s *Server, told *journal) {
	t.Helper()
	stop(t, s)
	if err := s.launch(within(t, time.Minute), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.abandon)
	left := s.child
	next, err := Start(within(t, time.Minute), s.options)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, next)
	if !ended(left.done) {
		t.Error("the server that was left behind still runs")
	}
	if got := recall(t, next); got != "kept" {
		t.Errorf("got %q", got)
	}
	if want := fmt.Sprintf("pid=%d", left.process.Pid); !strings.Contains(told.String(), "stopping an earlier PostgreSQL server on this folder\" "+want) {
		t.Errorf("nothing was said about %s:\n%s", want, told)
	}
}

func TestReadPostmaster(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"":                              0,
		"12":                            0, // being written
		"12\n/data\n1700000000\n5432\n": 12,
		"-12\n/data\n1700000000\n":      0,
		"rubbish\n/data\n1700000000\n":  0,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "postmaster.pid"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readPostmaster(dir); err != nil || got.pid != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
