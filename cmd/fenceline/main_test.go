package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// TestMain runs the tests, or, in a child process that a test has started, the
// program with what that test adds to it.
func TestMain(m *testing.M) {
	if os.Getenv("FENCELINE_TEST_PROGRAM") != "" {
		os.Exit(hurtProgram())
	}
	jobs.QuietRedis() // servers go away on purpose here
	os.Exit(storagetest.Main(m))
}

// binary builds the program once per test process, as a user would, and with the tags that the tests were built with.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fenceline-bin-")
	if err != nil {
		return "", err
	}
	return build(dir, func(b leaseBackend) bool { return b.open != nil })
})

// build compiles the program in a folder, with the clients of some of the services that need a tag.
func build(dir string, with func(leaseBackend) bool) (string, error) {
	path := filepath.Join(dir, "fenceline")
	var tags []string
	for _, b := range leaseBackends() {
		if b.tag != "" && with(b) {
			tags = append(tags, b.tag)
		}
	}
	out, err := exec.Command("go", "build", "-tags", strings.Join(tags, ","), "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
}

// site is a deployment for one test: servers of its own and a folder.
type site struct {
	t     *testing.T
	dir   string
	env   map[string]string
	kinds []jobs.Kind // besides the program's, for commands in this process
}

// newSite has PostgreSQL and Redis outside, as a deployment does.
func newSite(t *testing.T, redis *redistest.Redis) *site {
	t.Helper()
	dir := t.TempDir()
	url := storagetest.Database(t, func(ctx context.Context, url string) error {
		_, err := storage.Migrate(ctx, url)
		return err
	})
	return &site{t: t, dir: dir, env: map[string]string{
		"DATABASE_URL": url, "REDIS_URL": redis.URL(), "FILES_DIR": filepath.Join(dir, "files"), "REPORTS_DIR": filepath.Join(dir, "reports"),
		"FENCELINE_DATA": filepath.Join(dir, "data"), "FENCELINE_NAMESPACE": filepath.Base(dir) + fmt.Sprint(os.Getpid()) + t.Name(), "FENCELINE_LEASE": "3s",
	}}
}

// newPrivateSite has nothing: `up` starts its own servers.
func newPrivateSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	return &site{t: t, dir: dir, env: map[string]string{
		"FENCELINE_DATA": filepath.Join(dir, "data"), "REPORTS_DIR": filepath.Join(dir, "reports"), "FENCELINE_LEASE": "3s", "FENCELINE_ADDR": "127.0.0.1:0",
	}}
}

func (s *site) report(name, sql string) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Join(s.dir, "reports"), 0o750))
	s.must(os.WriteFile(filepath.Join(s.dir, "reports", name+".sql"), []byte(sql), 0o600))
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// result is what a command answered.
type result struct {
	code     int
	out, err string
}

// run runs a command in this process.
func (s *site) run(args ...string) result {
	s.t.Helper()
	var out, errs bytes.Buffer
	code := run(s.t.Context(), args, func(key string) string { return s.env[key] }, &out, &errs, extras{kinds: s.kinds})
	return result{code, out.String(), errs.String()}
}

// ok is run for commands that must succeed.
func (s *site) ok(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	if r.code != 0 {
		s.t.Fatalf("fenceline %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// asJSON decodes a command's --json answer.
func asJSON[T any](s *site, args ...string) T {
	s.t.Helper()
	var v T
	text := s.ok(append(args, "--json")...)
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		s.t.Fatalf("fenceline %s --json: %v in\n%s", strings.Join(args, " "), err, text)
	}
	return v
}

// process is a command that runs as a process of its own.
type process struct {
	*exec.Cmd
	t      *testing.T
	output *lines
	exited chan struct{}
	err    error
}

func (s *site) start(args ...string) *process {
	s.t.Helper()
	path, err := binary()
	s.must(err)
	return s.startProgram(path, args...)
}

func (s *site) startProgram(path string, args ...string) *process {
	s.t.Helper()
	return s.startChanged(func(*exec.Cmd) {}, path, args...)
}

// startChanged starts a program in a way that change has the last word on.
func (s *site) startChanged(change func(*exec.Cmd), path string, args ...string) *process {
	s.t.Helper()
	p := &process{Cmd: exec.Command(path, args...), t: s.t, output: &lines{}, exited: make(chan struct{})}
	p.Dir = s.dir
	p.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	for k, v := range s.env {
		p.Env = append(p.Env, k+"="+v)
	}
	p.Stdout, p.Stderr = p.output, p.output
	p.SysProcAttr = dieWithTest()
	change(p.Cmd)
	s.must(p.launch())
	s.t.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGCONT)
		_ = p.Process.Signal(syscall.SIGINT)
		select {
		case <-p.exited:
		case <-time.After(30 * time.Second):
			_ = p.Process.Kill()
			<-p.exited
		}
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", strings.Join(args, " "), p.output)
		}
	})
	return p
}

// launch starts the process from a thread that lives as long as it does: on
// Linux a death signal follows the thread, not the process, that started it.
func (p *process) launch() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread() // a thread that ended would take with it the children that others started on it before
		err := p.Start()
		started <- err
		if err == nil {
			p.err = p.Wait()
			close(p.exited)
		}
	}()
	return <-started
}

// says waits until the process has printed something.
func (p *process) says(text string) string {
	p.t.Helper()
	until(p.t, fmt.Sprintf("%q is printed", text), func() bool {
		select {
		case <-p.exited:
			p.t.Fatalf("the process ended (%v):\n%s", p.err, p.output)
		default:
		}
		return strings.Contains(p.output.String(), text)
	})
	return p.output.String()
}

// stop sends Ctrl-C and waits for the end.
func (p *process) stop() error {
	p.t.Helper()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return p.err
	case <-time.After(60 * time.Second):
		return errors.New("it did not stop")
	}
}

// lines is a buffer that a process writes and a test reads.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

var _ io.Writer = (*lines)(nil)

func until(t *testing.T, what string, yes func() bool) {
	t.Helper()
	deadline := time.NewTimer(3 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-deadline.C:
			t.Fatalf("it never came to this: %s", what)
		case <-tick.C:
		}
	}
}

// sql runs statements as any program could.
func (s *site) sql(statements ...string) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.env["DATABASE_URL"])
	s.must(err)
	defer conn.Close(s.t.Context())
	for _, sql := range statements {
		if _, err := conn.Exec(s.t.Context(), sql); err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// chaosJob dispatches a job of the kind that only tests have.
func (s *site) chaosJob(p chaosPayload) storage.Job {
	s.t.Helper()
	store, err := storage.Open(s.t.Context(), s.env["DATABASE_URL"], storage.Options{MaxConns: 1})
	s.must(err)
	defer store.Close()
	registry, err := jobs.NewRegistry(chaosKind())
	s.must(err)
	raw, err := json.Marshal(p)
	s.must(err)
	r, err := jobs.NewDispatcher(store, registry).Dispatch(s.t.Context(), nil, jobs.Request{Kind: "chaos", Payload: raw})
	s.must(err)
	return r.Job
}

func (s *site) job(id uuid.UUID) storage.Job {
	s.t.Helper()
	return asJSON[jobAnswer](s, "job", "show", id.String()).Job
}
