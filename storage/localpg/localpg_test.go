package localpg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// quick are settings for tests whose data need not outlive the machine.
func quick() map[string]string { return map[string]string{"fsync": "off"} }

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// started is a running server that is stopped after the test.
func started(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(within(t, time.Minute), Options{Dir: dir, Settings: quick()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// query runs statements and returns the only value of the last one.
func query(t *testing.T, url string, statements ...string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var value string
	for i, statement := range statements {
		if i < len(statements)-1 {
			_, err = conn.Exec(t.Context(), statement)
		} else {
			err = conn.QueryRow(t.Context(), statement).Scan(&value)
		}
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return value
}

// remember leaves a trace in the database that recall finds again.
func remember(t *testing.T, s *Server, word string) {
	t.Helper()
	query(t, s.URL(maintenance), "CREATE TABLE words (word text)", "INSERT INTO words VALUES ('"+word+"') RETURNING word")
}

func recall(t *testing.T, s *Server) string {
	t.Helper()
	return query(t, s.URL(maintenance), "SELECT word FROM words")
}

// One cluster serves all of these, because making one takes a second.
func TestServer(t *testing.T) {
	t.Parallel()
	s := started(t, t.TempDir())
	t.Run("is private and UTF-8", func(t *testing.T) { checkSettings(t, s) })
	t.Run("lets nobody in without the password", func(t *testing.T) { checkPassword(t, s) })
	t.Run("creates a database for many at once", func(t *testing.T) { checkEnsureDatabase(t, s) })
	t.Run("serves only its own folder", func(t *testing.T) { checkServes(t, s) })
	t.Run("refuses a second owner", func(t *testing.T) { checkInUse(t, s) })
	stop(t, s)
	if err := Remove(t.Context(), s.options.Dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.options.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Remove: %v", err)
	}
	if err := Remove(t.Context(), s.options.Dir); err != nil {
		t.Errorf("removing nothing: %v", err)
	}
}

func checkSettings(t *testing.T, s *Server) {
	for setting, want := range map[string]string{
		"server_encoding": "UTF8", "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
		"fsync": "off", "synchronous_commit": "on", "shared_buffers": "64MB", "max_connections": "100",
	} {
		if got := query(t, s.URL(maintenance), "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	if got := query(t, s.URL(maintenance), "SELECT datcollate FROM pg_database WHERE datname = 'postgres'"); got != "C.UTF-8" && got != "C" {
		t.Errorf("collation %q", got)
	}
}

func checkPassword(t *testing.T, s *Server) {
	info, err := os.Stat(s.file(passwordName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("password file: %v, %v", info, err)
	}
	wrong := strings.Replace(s.URL(maintenance), s.password, "guess", 1)
	if conn, err := pgx.Connect(t.Context(), wrong); err == nil {
		conn.Close(t.Context())
		t.Error("a wrong password is let in")
	}
}

func checkEnsureDatabase(t *testing.T, s *Server) {
	name := `odd "name"/ü`
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := s.EnsureDatabase(t.Context(), name); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := query(t, s.URL(name), "SELECT current_database()"); got != name {
		t.Errorf("connected to %q", got)
	}
	for _, bad := range []string{"", strings.Repeat("x", maxName+1)} {
		if err := s.EnsureDatabase(t.Context(), bad); err == nil {
			t.Errorf("the name %q was taken", bad)
		}
	}
}

// Another PostgreSQL with the pid of ours is a stranger too.
func checkServes(t *testing.T, s *Server) {
	file, err := readPostmaster(s.data())
	if err != nil || file.pid != s.Pid() {
		t.Fatalf("postmaster.pid: %v, %v, want %d", file, err, s.Pid())
	}
	if !serves(file, s.data()) {
		t.Error("the server does not know its own folder")
	}
	if serves(file, t.TempDir()) {
		t.Error("the server claims another folder")
	}
	if serves(postmaster{pid: os.Getpid(), started: file.started}, s.data()) {
		t.Error("a test is taken for a server")
	}
}

func checkInUse(t *testing.T, s *Server) {
	_, err := Start(within(t, 100*time.Millisecond), Options{Dir: s.options.Dir})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("second start: %v", err)
	}
	if err := Remove(within(t, 100*time.Millisecond), s.options.Dir); !errors.Is(err, ErrInUse) {
		t.Errorf("remove: %v", err)
	}
	if got := query(t, s.URL(maintenance), "SELECT 'alive'"); got != "alive" {
		t.Error(got)
	}
}

func TestRestarts(t *testing.T) {
	t.Parallel()
	s := started(t, filepath.Join(t.TempDir(), "not", "there", "yet"))
	remember(t, s, "kept")
	stop(t, s)
	if !ended(s.Done()) {
		t.Error("Done is open after Stop")
	}
	stop(t, s)
	s = restarted(t, s, s.URL("x"))

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(over); err != nil {
		t.Errorf("stop without time: %v", err)
	}
	s = restarted(t, s, s.URL("x"))
	stop(t, s)

	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s = restarted(t, s, "")
	stop(t, s)

	s.options.Settings["nonsense"] = "1"
	_, err = s.Restart(within(t, time.Minute))
	if err == nil || !strings.Contains(err.Error(), `"nonsense"`) || !strings.Contains(err.Error(), s.options.Dir) {
		t.Errorf("the server's own words are missing: %v", err)
	}
	delete(s.options.Settings, "nonsense")
	s = restarted(t, s, "") // the failed start has left the folder free and whole
	stop(t, s)

	if err := os.Remove(s.file(passwordName)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restart(t.Context()); err == nil || !strings.Contains(err.Error(), s.file(passwordName)) {
		t.Errorf("without its password: %v", err)
	}
}

// restarted is the server after another start, which has kept the data and, when
// one is given, the address.
func restarted(t *testing.T, s *Server, url string) *Server {
	t.Helper()
	again, err := s.Restart(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, again) })
	if got := recall(t, again); got != "kept" {
		t.Errorf("after a restart: %q", got)
	}
	if url != "" && again.URL("x") != url {
		t.Errorf("the address changed from %s to %s", url, again.URL("x"))
	}
	return again
}

func TestOwnersAtOnceTakeTurns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var owners, served atomic.Int32
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			s, err := Start(within(t, time.Minute), Options{Dir: dir, Settings: quick()})
			if errors.Is(err, ErrInUse) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			if owners.Add(1) > 1 {
				t.Error("two servers on one folder")
			}
			served.Add(1)
			owners.Add(-1)
			stop(t, s)
		})
	}
	wg.Wait()
	if served.Load() == 0 {
		t.Error("nobody was served")
	}
}

func TestPassingCauses(t *testing.T) {
	t.Parallel()
	ended := errors.New("exit status 1")
	for words, want := range map[string]bool{
		`LOG:  could not bind IPv4 address "127.0.0.1": Address already in use`:  true,
		"FATAL:  could not create any TCP/IP sockets":                            true,
		"FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use": true,
		`FATAL:  unrecognized configuration parameter "nonsense"`:                false,
	} {
		if got := passing(fmt.Errorf("start: %w", &startError{ended, words})); got != want {
			t.Errorf("%s: %v", words, got)
		}
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"Options.Dir": {},
		"port":        {Dir: t.TempDir(), Settings: map[string]string{"port": "5432"}},
	} {
		if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := Start(over, Options{Dir: dir, Settings: quick()}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "data*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
