package localpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	superuser = "fenceline"
	// maintenance is the database that every cluster has.
	maintenance = "postgres"
	// maxName is NAMEDATALEN-1: longer names are cut by PostgreSQL with only a notice.
	maxName = 63

	lockWait      = 5 * time.Second
	fastWait      = 10 * time.Second
	immediateWait = 7 * time.Second // the server itself kills what is left after 5
	pollEvery     = 20 * time.Millisecond
)

// ErrInUse is returned when a running process owns the folder.
var ErrInUse = errors.New("the folder is in use by another running process")

// Options say where and how a server runs.
type Options struct {
	// Dir is the server's own folder; it is made when it is missing, with mode
	// 0700. Nothing else may be kept there.
	Dir string
	// Bin is the folder of initdb and postgres. Empty: the newest that is found,
	// or, when Dir holds a cluster, the one of the cluster's version.
	Bin string
	// Log is told about starts, waits and an unexpected end. Nil: nobody is.
	Log *slog.Logger
	// Settings are further settings as in postgresql.conf, such as "fsync": "off"
	// (which also makes initdb skip its sync). They win over the defaults of this
	// package, but the address and the port are not theirs to set.
	Settings map[string]string
}

// Server is a running server. The one who started it must call [Server.Stop]. All
// methods are safe for concurrent use.
type Server struct {
	options  Options
	bin      string
	as       identity
	log      *slog.Logger
	password string
	port     int
	child    *child
	stopping atomic.Bool
	done     chan struct{}
}

// Start returns when the server answers a query. The first start makes the
// cluster, which takes about a second. ctx limits the start, not the life of the
// server. Errors are [ErrNotInstalled], [ErrInUse] (after some seconds of
// waiting), or what initdb or the server said.
func Start(ctx context.Context, o Options) (*Server, error) {
	return start(ctx, o, candidates)
}

// start is Start with the choice of users left to the caller, so that a test can
// take the ones that this machine would not need.
func start(ctx context.Context, o Options, users func(dir string) []identity) (*Server, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := makeFolder(o.Dir); err != nil {
		return nil, fmt.Errorf("make the folder of the PostgreSQL server: %w", err)
	}
	release, err := acquire(ctx, o.Dir, o.Log)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL in %s: %w", o.Dir, err)
	}
	s := &Server{options: o, log: o.Log, done: make(chan struct{})}
	if err := s.bringUp(ctx, users(o.Dir)); err != nil {
		release()
		return nil, err
	}
	go s.watch(release)
	return s, nil
}

// bringUp does everything that needs the lock.
func (s *Server) bringUp(ctx context.Context, users []identity) (err error) {
	if s.bin, err = pickBin(s.options.Bin, s.data()); err != nil {
		return err
	}
	if s.as, err = choose(users, s.options.Dir, s.bin); err != nil {
		return err
	}
	stale, err := endEarlier(ctx, s.data(), s.bin, s.log)
	if err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return fmt.Errorf("prepare PostgreSQL in %s: %w", s.options.Dir, err)
	}
	if err := s.launch(ctx, stale); err != nil {
		return fmt.Errorf("start PostgreSQL in %s: %w", s.options.Dir, err)
	}
	return nil
}

// complete checks the options and fills what was left out.
func (o Options) complete() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("start PostgreSQL: no folder was given for its data (Options.Dir)")
	}
	for _, name := range []string{"port", "listen_addresses", "unix_socket_directories", "data_directory"} {
		if value, ok := o.Settings[name]; ok {
			return o, fmt.Errorf("start PostgreSQL: the setting %s (%q) cannot be given: it is decided at every start", name, value)
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	o.Dir, err = filepath.Abs(o.Dir)
	return o, err
}

// Restart stops the server when it still runs and starts another on the same
// folder with the same options. The new one has the same URL unless somebody
// took the port in between. The receiver is of no further use.
func (s *Server) Restart(ctx context.Context) (*Server, error) {
	if err := s.Stop(ctx); err != nil {
		return nil, err
	}
	return Start(ctx, s.options)
}

// URL is the address of a database on this server, with the password in it:
// postgres://…?sslmode=disable. The database need not exist.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Pid is the process id of the postmaster.
func (s *Server) Pid() int { return s.child.process.Pid }

// Done is closed when the server has ended, whether by Stop or by itself.
func (s *Server) Done() <-chan struct{} { return s.done }

// EnsureDatabase creates an empty database unless one of that name exists. Several
// callers may ask for the same name at once.
func (s *Server) EnsureDatabase(ctx context.Context, name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("create database %q: a name has 1 to %d bytes, this one has %d", name, maxName, len(name))
	}
	conn, err := pgx.Connect(ctx, s.URL(maintenance))
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists); err != nil {
		return fmt.Errorf("look for database %s: %w", name, err)
	}
	if exists {
		return nil
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	// A second creator sees 42P04, or, when both are at it, the unique index of pg_database.
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && (pgErr.Code == "42P04" || pgErr.Code == "23505") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// Stop ends the server: a fast shutdown, which cuts connections and writes
// everything out; when that takes more than ten seconds or ctx ends, an immediate
// one, after which the next start recovers from the log (nothing committed is
// lost). It may be called again, and after the server ended by itself.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	if ended(s.done) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fastWait)
	defer cancel()
	err := shutdown(s.child.process, s.bin, fast)
	if wait(ctx, s.done) {
		return nil
	}
	s.log.Warn("PostgreSQL did not shut down in time, stopping it at once", "pid", s.Pid(), "error", err)
	err = shutdown(s.child.process, s.bin, immediate)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), immediateWait)
	defer cancel()
	if wait(last, s.done) {
		return nil
	}
	err = errors.Join(err, s.child.process.Kill())
	last, cancel = context.WithTimeout(context.WithoutCancel(ctx), immediateWait)
	defer cancel()
	if wait(last, s.done) {
		return nil
	}
	return errors.Join(fmt.Errorf("stop PostgreSQL in %s: process %d does not end", s.options.Dir, s.Pid()), err)
}

// Remove deletes the folder of a server with all its data. A server that was left
// behind there is stopped first. The folder of a running owner is refused with
// [ErrInUse]; a folder that does not exist is no error.
func Remove(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	log := slog.New(slog.DiscardHandler)
	release, err := acquire(ctx, dir, log)
	if err != nil {
		return fmt.Errorf("remove the PostgreSQL server in %s: %w", dir, err)
	}
	defer release()
	data := filepath.Join(dir, dataName)
	bin, _ := pickBin("", data) // only Windows needs it, for pg_ctl
	if _, err := endEarlier(ctx, data, bin, log); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		release() // an open file cannot be deleted there
	}
	return removeAll(ctx, dir)
}

// removeAll deletes a folder into which processes that are just ending may still
// write.
func removeAll(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, immediateWait)
	defer cancel()
	for {
		err := os.RemoveAll(dir)
		if err == nil || !pause(ctx, pollEvery) {
			return err
		}
	}
}

// data is the folder of the cluster.
func (s *Server) data() string { return filepath.Join(s.options.Dir, dataName) }

// file is a file of ours beside the cluster.
func (s *Server) file(name string) string { return filepath.Join(s.options.Dir, name) }

// watch waits for the end of the server and keeps its log small until then.
func (s *Server) watch(release func()) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for !ended(s.child.done) {
		select {
		case <-s.child.done:
		case <-tick.C:
			if err := trimLog(s.file(logName)); err != nil {
				s.log.Warn("cannot cut the log of PostgreSQL", "error", err)
			}
		}
	}
	if !s.stopping.Load() {
		s.log.Error("PostgreSQL ended by itself", "pid", s.Pid(), "error", s.child.err,
			"log", s.file(logName), "last", tail(s.file(logName), 0))
	}
	release()
	close(s.done)
}

// makeFolder makes the server's folder for us alone; what lies above it stays
// open, because the server may run as another user.
func makeFolder(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// wait is true when done was closed before ctx ended.
func wait(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return ended(done)
	}
}

// pause is false when ctx ended before d was over.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
