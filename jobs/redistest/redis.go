// Package redistest gives tests a real redis-server: a child process on a free
// loopback port that keeps nothing on disk and ends with the test.
//
// Take [Server] for a test that flushes, kills, freezes or restarts Redis, and
// [Shared] for all others, which keep apart by the names of their keys. [Sentinel]
// and [Cluster] are several of them. A test that only needs some Redis to be there
// may use package localredis, which is in process; what is promised about Redis
// must be shown on the real one.
//
// The program is the Debian package redis-server (or redis of Homebrew). Where it
// is missing the test fails: a check that cannot run has not passed.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/jobs/processtest"
)

const (
	// startTimeout and stopTimeout are generous: a loaded machine is slow.
	startTimeout = 20 * time.Second
	stopTimeout  = 5 * time.Second
	pollEvery    = 5 * time.Millisecond
	// portTries is how often a port may be taken between finding and using it.
	portTries = 10
)

// Redis is a redis-server. Its methods are safe for concurrent use, but two tests
// that stop and start one server at once will disturb each other.
type Redis struct {
	bin    string
	dir    string
	port   int
	shared bool
	conf   config
	// extra are further arguments; sentinel, when it is not empty, is the configuration of one.
	extra    []string
	sentinel string

	mu    sync.Mutex
	child *processtest.Process // the latest; it may have ended
}

// Server starts a server for this test alone and stops it after the test.
func Server(t testing.TB, options ...Option) *Redis {
	t.Helper()
	return own(t, &Redis{conf: configure(t, options)})
}

// own starts a server that was described.
func own(t testing.TB, r *Redis) *Redis {
	t.Helper()
	r.dir = t.TempDir()
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

// Shared is one server for all tests of this process. It is started by the first
// caller and ends with the process. It cannot be flushed, stopped or frozen. Where
// a process cannot bind its children to its own life (any system but Linux) each
// caller gets a server of its own.
func Shared(t testing.TB) *Redis {
	t.Helper()
	if !processtest.EndsWithUs {
		return Server(t)
	}
	r, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sharedServer starts the server of the process once.
var sharedServer = sync.OnceValues(func() (*Redis, error) {
	r := &Redis{dir: "/"} // nothing is written
	err := r.start()
	r.shared = true
	return r, err
})

// Addr is the address as host:port.
func (r *Redis) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) }

// URL is the address as redis://host:port/0, or as jobs.OpenRedis takes it when
// the server has options.
func (r *Redis) URL() string { return r.conf.url("redis", r.Addr(), "/0", nil) }

// FlushAll deletes every key in every database.
func (r *Redis) FlushAll(t testing.TB) {
	t.Helper()
	r.mustOwn("FlushAll")
	// Not the test's context, which has ended when its cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c := r.client()
	defer c.Close()
	if err := c.FlushAll(ctx).Err(); err != nil {
		t.Fatalf("flush Redis: %v", err)
	}
}

// Stop ends the server as an operator would: connections are closed, everything is
// forgotten. A stopped server may be stopped again, or started by Restart.
func (r *Redis) Stop() {
	r.mustOwn("Stop")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.child.Terminate(stopTimeout)
}

// Kill ends the server with SIGKILL and returns when it is gone.
func (r *Redis) Kill() {
	r.mustOwn("Kill")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.child.Kill()
}

// Restart stops the server if it runs and starts it, empty, on the same port.
func (r *Redis) Restart(t testing.TB) {
	t.Helper()
	r.mustOwn("Restart")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.child.Terminate(stopTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := r.launch(ctx)
		if err == nil {
			return
		}
		// Somebody's outgoing connection may have the port for a moment.
		if !errors.Is(err, errPortTaken) || !pause(ctx) {
			t.Fatalf("restart Redis on port %d: %v", r.port, err)
		}
	}
}

// Pause freezes the server (SIGSTOP): connections stay open and nobody answers.
// It returns when the server has stopped.
func (r *Redis) Pause(t testing.TB) { t.Helper(); r.signal(t, "Pause", (*processtest.Process).Freeze) }

// Resume lets a frozen server go on (SIGCONT).
func (r *Redis) Resume(t testing.TB) { t.Helper(); r.signal(t, "Resume", (*processtest.Process).Thaw) }

func (r *Redis) signal(t testing.TB, what string, send func(*processtest.Process) error) {
	t.Helper()
	r.mustOwn(what)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := send(r.child); err != nil {
		t.Fatalf("%s of Redis: %v", what, err)
	}
}

// mustOwn panics on the shared server, because other tests are using it.
func (r *Redis) mustOwn(what string) {
	if r.shared {
		panic("redistest: " + what + " on the server that all tests share: take one from redistest.Server")
	}
}

// start finds a port and launches the server on it.
func (r *Redis) start() (err error) {
	if r.bin, err = exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("redis-server is missing: install it (Debian: apt-get install redis-server; macOS: brew install redis): %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for range portTries {
		if r.port, err = freePort(); err != nil {
			return err
		}
		if err = r.launch(ctx); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("start Redis: %w", err)
	}
	return nil
}

var errPortTaken = errors.New("the port is taken")

// launch starts the server on its port and returns when it answers.
func (r *Redis) launch(ctx context.Context) error {
	args, err := r.arguments()
	if err != nil {
		return err
	}
	c, err := processtest.Spawn(r.bin, args...)
	if err != nil {
		return err
	}
	if err := r.ready(ctx, c); err != nil {
		c.Kill()
		said := c.Output()
		if strings.Contains(said, "Address already in use") || strings.Contains(said, "port number too high") { // its second port is 10,000 above
			return errPortTaken
		}
		return fmt.Errorf("%w; it said:\n%s", err, c.Output())
	}
	r.child = c
	return nil
}

func (r *Redis) arguments() ([]string, error) {
	port := []string{"--port", strconv.Itoa(r.port)}
	if r.conf.tls != nil {
		port = append([]string{"--port", "0", "--tls-port", strconv.Itoa(r.port)}, r.conf.secure()...)
	}
	args := append([]string{"--bind", "127.0.0.1", "--dir", r.dir}, port...)
	if r.sentinel != "" { // keeps what it learns in its file, and finds it there when it is started again
		name := filepath.Join(r.dir, "sentinel.conf")
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			if err := os.WriteFile(name, []byte(r.sentinel), 0o600); err != nil {
				return nil, err
			}
		}
		return append([]string{name, "--sentinel"}, args...), nil
	}
	args = append(args, "--save", "", "--appendonly", "no", "--databases", "16", "--maxmemory-policy", "noeviction", "--daemonize", "no")
	if r.conf.password != "" {
		args = append(args, "--requirepass", r.conf.password, "--masterauth", r.conf.password)
	}
	if r.conf.socket != "" {
		args = append(args, "--unixsocket", r.conf.socket)
	}
	return append(args, r.extra...), nil
}

// ready waits until this very process answers on the port: somebody else's server
// could be there.
func (r *Redis) ready(ctx context.Context, c *processtest.Process) error {
	client := r.client()
	defer client.Close()
	ours := "process_id:" + strconv.Itoa(c.Pid()) + "\r\n"
	for {
		info, err := client.Info(ctx, "server").Result()
		if err == nil && strings.Contains(info, ours) {
			return nil
		}
		if c.Ended() {
			return errors.New("the server ended")
		}
		if !pause(ctx) {
			return fmt.Errorf("the server did not answer in time: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

// client is a connection without patience, so that polling stays quick.
func (r *Redis) client() *redis.Client {
	o := &redis.Options{Addr: r.Addr(), Password: r.conf.password, MaxRetries: -1, DialerRetries: 1}
	if r.conf.tls != nil {
		o.TLSConfig = r.conf.tls.Client()
	}
	return redis.NewClient(o)
}

// Do sends a command to this very server and answers what it said.
func (r *Redis) Do(t testing.TB, args ...any) any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c := r.client()
	defer c.Close()
	answer, err := c.Do(ctx, args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return answer
}

func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// pause is false when ctx ended.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
