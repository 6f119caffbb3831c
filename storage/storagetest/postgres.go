// Package storagetest gives tests a real PostgreSQL: one private server for each
// test process, one database for each test.
//
// A package whose tests need a database calls [Main] from its TestMain and
// [Database] in every test. A test that kills or freezes the server takes one of
// its own with [Server]. There is no mock and no other dialect, and where
// PostgreSQL is not installed the tests fail: a check that cannot run has not
// passed.
//
// [Laws] is the protocol as a suite: whoever writes another store or another
// place for files runs it over theirs.
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage/localpg"
)

const (
	// folderPrefix names the temporary folders, so that what a killed test process
	// left is found by the next one.
	folderPrefix = "fenceline-pg-"
	// leftOver is the age at which a folder without owner was left by a killed
	// process, and not made a moment ago by one that is about to start its server.
	leftOver = time.Hour

	maintenance = "postgres"
	empty       = "template0" // what every cluster has and nobody can enter

	startTimeout = 2 * time.Minute
	callTimeout  = time.Minute
)

// settings make a server quick that need not outlive the machine. What a crash of
// the server does is unchanged: commits still wait for the log to be written, only
// not for the disk.
func settings() map[string]string {
	return map[string]string{
		"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on", "max_connections": "300",
	}
}

// cluster is the server of a process.
type cluster struct {
	names atomic.Int64 // of databases

	mu       sync.Mutex
	open     bool // Main is there to stop it
	server   *localpg.Server
	dir      string
	err      error   // of start or prepare; neither is tried twice
	function uintptr // the prepare function that made the template
	template string
}

// process is the only state of the package: the tests of a process share a server
// because each server costs a second.
var process = new(cluster)

// Main runs the tests of a package and then stops their server, also when a test
// has called runtime.Goexit or panicked in Main's own goroutine. Use it as
//
//	func TestMain(m *testing.M) { os.Exit(storagetest.Main(m)) }
//
// A test that panics, runs into its timeout or is killed ends the process at once.
// On Linux the server then ends by its death signal; the folder is removed by the
// next process that calls Main.
func Main(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := sweep(ctx, os.TempDir(), time.Now().Add(-leftOver)); err != nil {
		fmt.Fprintln(os.Stderr, "storagetest: what an earlier test process left cannot be removed:", err)
	}
	process.begin()
	defer func() {
		if err := process.end(); err != nil {
			fmt.Fprintln(os.Stderr, "storagetest:", err)
			code = max(code, 1)
		}
	}()
	return m.Run()
}

// Database makes a database for this test and returns its URL. It is dropped after
// the test, whoever is still connected.
//
// prepare fills a database, for instance with the migrations, and closes its
// connections. It is run once in a process; every database is a copy of what it
// made. All tests of a process give the same function (another one fails the
// test), or nil for an empty database.
func Database(t testing.TB, prepare func(ctx context.Context, url string) error) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, template, err := process.ready(ctx, prepare)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("test_%d", process.names.Add(1))
	if err := execute(server, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatalf("make a database for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := execute(server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the database of the test: %v", err)
		}
	})
	return server.URL(name)
}

// Server starts a server for this test alone, for tests that kill it. It is stopped
// and deleted after the test. The given settings win over the quick ones of
// this package. A server that the test gets from [localpg.Server.Restart] is the
// test's own to stop.
func Server(t testing.TB, given map[string]string) *localpg.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	all := settings()
	maps.Copy(all, given)
	dir, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(dir); err != nil {
			t.Error(err)
		}
	})
	server, err := localpg.Start(ctx, localpg.Options{Dir: dir, Settings: all})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(server); err != nil {
			t.Error(err)
		}
	})
	return server
}

func (c *cluster) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = true
}

// end stops and deletes the server if a test has started it.
func (c *cluster) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = false
	if c.server != nil {
		if err := stop(c.server); err != nil {
			return err
		}
	}
	if c.dir == "" {
		return nil
	}
	return remove(c.dir)
}

// ready is the running server and the name of the database to copy. The first
// callers wait for the first of them.
func (c *cluster) ready(ctx context.Context, prepare func(context.Context, string) error) (*localpg.Server, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open {
		return nil, "", errors.New("nobody would stop the PostgreSQL server of these tests: " +
			"add func TestMain(m *testing.M) { os.Exit(storagetest.Main(m)) } to the package")
	}
	if c.server == nil && c.err == nil {
		c.err = c.start(ctx)
	}
	if c.err != nil || prepare == nil {
		return c.server, empty, c.err
	}
	function := reflect.ValueOf(prepare).Pointer()
	if c.function == 0 {
		c.function = function
		c.err = c.fill(ctx, prepare)
	}
	if c.function != function {
		return nil, "", errors.New("storagetest.Database got two different prepare functions in one process: only the first is run, so give all tests the same")
	}
	return c.server, c.template, c.err
}

func (c *cluster) start(ctx context.Context) (err error) {
	if c.dir, err = os.MkdirTemp("", folderPrefix); err != nil {
		return err
	}
	c.server, err = localpg.Start(ctx, localpg.Options{Dir: c.dir, Settings: settings()})
	return err
}

// fill makes the template and closes it: a database is only copied while nobody is
// connected to it.
func (c *cluster) fill(ctx context.Context, prepare func(context.Context, string) error) error {
	c.template = fmt.Sprintf("prepared_%d", c.names.Add(1))
	if err := execute(c.server, "CREATE DATABASE "+c.template+" TEMPLATE "+empty); err != nil {
		return fmt.Errorf("make the template of the test databases: %w", err)
	}
	if err := prepare(ctx, c.server.URL(c.template)); err != nil {
		return fmt.Errorf("prepare the template of the test databases: %w", err)
	}
	return execute(c.server,
		"ALTER DATABASE "+c.template+" WITH ALLOW_CONNECTIONS false",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+c.template+"'")
}

// execute runs statements as the superuser, beside all test databases.
func execute(server *localpg.Server, statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.URL(maintenance))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func stop(server *localpg.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return server.Stop(ctx)
}

func remove(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return localpg.Remove(ctx, dir)
}

// sweep removes the folders in temp that were last changed before the given time
// and that nobody owns.
func sweep(ctx context.Context, temp string, before time.Time) error {
	dirs, err := filepath.Glob(filepath.Join(temp, folderPrefix+"*"))
	if err != nil {
		return err
	}
	var failed []error
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || info.ModTime().After(before) {
			continue // removed by somebody else, or too young
		}
		if err := localpg.Remove(ctx, dir); err != nil && !errors.Is(err, localpg.ErrInUse) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
