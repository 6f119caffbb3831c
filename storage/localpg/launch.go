package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	portName = "port"
	// startTimeout leaves room for the recovery of a gigabyte of log.
	startTimeout = 2 * time.Minute
	// retryPause is between two tries of a start that failed for a passing cause.
	retryPause = 100 * time.Millisecond
)

// launch starts the server and returns when it answers. stale is what endEarlier
// returned.
func (s *Server) launch(ctx context.Context, stale int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.try(ctx, stale)
		if err == nil {
			s.log.Info("PostgreSQL is ready", "pid", s.Pid(), "port", s.port, "dir", s.options.Dir, "as", s.as.name)
			return writeFile(s.file(portName), strconv.Itoa(s.port))
		}
		if !passing(err) || !pause(ctx, retryPause) {
			return err
		}
		s.log.Info("PostgreSQL did not start, trying again", "cause", err)
	}
}

// try is one start on one port.
func (s *Server) try(ctx context.Context, stale int) error {
	var err error
	if s.port, err = freePort(s.file(portName)); err != nil {
		return err
	}
	if err := trimLog(s.file(logName)); err != nil {
		return err
	}
	log, err := os.OpenFile(s.file(logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	cmd := s.as.command(syscall.SIGINT, filepath.Join(s.bin, "postgres"), s.flags()...)
	cmd.Dir = s.options.Dir
	cmd.Stdout, cmd.Stderr = log, log
	if stale != 0 {
		// The lock file names a process that is not PostgreSQL, but it lives, and so
		// PostgreSQL would refuse to start. It ignores its own ancestors, and takes one
		// of them from here, as pg_ctl does. Deleting the file would also delete the
		// protection against backends that outlived their postmaster.
		cmd.Env = append(cmd.Env, "PG_GRANDPARENT_PID="+strconv.Itoa(stale))
	}
	if s.child, err = spawn(cmd); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		s.abandon()
		return &startError{err, tail(s.file(logName), from)}
	}
	return nil
}

// ready waits for a real connection.
func (s *Server) ready(ctx context.Context) error {
	for {
		conn, err := s.connect(ctx)
		if ended(s.child.done) {
			// Whoever answered on this port was somebody else.
			if conn != nil {
				conn.Close(ctx)
			}
			return fmt.Errorf("the server ended (%v)", s.child.err)
		}
		if err == nil {
			return conn.Close(ctx)
		}
		if !pause(ctx, pollEvery) {
			return fmt.Errorf("the server did not answer in time: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

func (s *Server) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return pgx.Connect(ctx, s.URL(maintenance))
}

// abandon ends a server that did not become ready.
func (s *Server) abandon() {
	// Whatever fails here ends in Kill, and a Kill that fails leaves the next start
	// to stop the server.
	ctx, cancel := context.WithTimeout(context.Background(), immediateWait)
	defer cancel()
	_ = shutdown(s.child.process, s.bin, immediate)
	if !wait(ctx, s.child.done) {
		_ = s.child.process.Kill()
	}
}

// flags are the settings of this start as arguments, in a stable order.
func (s *Server) flags() []string {
	settings := map[string]string{
		"shared_buffers":     "64MB",
		"max_connections":    "100",
		"synchronous_commit": "on",
		"log_destination":    "stderr",
		"logging_collector":  "off",
		"log_checkpoints":    "off",
		"lc_messages":        "C", // passing reads them
	}
	for name, value := range s.options.Settings {
		settings[name] = value
	}
	var flags []string
	for name, value := range settings {
		flags = append(flags, name+"="+value)
	}
	slices.Sort(flags)
	// No Unix socket: its path may be longer than the 107 bytes that fit, and it
	// would make Windows differ.
	flags = append(flags, "listen_addresses=127.0.0.1", "port="+strconv.Itoa(s.port), "unix_socket_directories=")
	args := []string{"-D", s.data()}
	for _, flag := range flags {
		args = append(args, "-c", flag)
	}
	return args
}

// freePort is the port in the file when it is free now and a free one otherwise.
// Another process may still take it first: launch tries again then.
func freePort(file string) (int, error) {
	kept, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	if port, err := strconv.ParseUint(strings.TrimSpace(string(kept)), 10, 16); err == nil && port > 0 {
		if l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.FormatUint(port, 10))); err == nil {
			return int(port), l.Close()
		}
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// startError is a failed start with the last lines of the server's log.
type startError struct {
	err error
	log string
}

func (e *startError) Error() string {
	if e.log == "" {
		return e.err.Error()
	}
	return e.err.Error() + "; its last words:\n" + e.log
}

func (e *startError) Unwrap() error { return e.err }

// passing tells whether a start failed for a cause that goes away: somebody was
// faster at the port, or backends of a killed postmaster are still ending.
func passing(err error) bool {
	failed, ok := errors.AsType[*startError](err)
	return ok && (strings.Contains(failed.log, "Address already in use") ||
		strings.Contains(failed.log, "could not create any TCP/IP sockets") ||
		strings.Contains(failed.log, "pre-existing shared memory block"))
}
