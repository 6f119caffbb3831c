package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage/localpg"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// nemesis hurts the system, one thing after the other, in the order that the
// seed gives.
func (c *chaos) nemesis(ctx context.Context, rng *rand.Rand) {
	freeze := func(ctx context.Context) { c.freezeWorker(ctx, rng.IntN(len(c.workers))) }
	kill := func(context.Context) { c.killWorker(rng.IntN(len(c.workers))) }
	deeds := []struct {
		name string
		do   func(context.Context)
	}{
		{"worker frozen past its lease", freeze}, {"worker frozen past its lease", freeze}, {"worker killed", kill},
		{"redis emptied", c.redis.flush}, {"redis restarted", c.redis.bounce}, {"redis failed over without the lock", c.redis.failOver},
		{"postgres killed", c.pg.killAndRestart}, {"connections terminated", c.pg.terminate}, {"disk full", c.fillDisk},
	}
	order := rng.Perm(len(deeds)) // each once before any twice
	for i := 0; ctx.Err() == nil; i++ {
		if i == len(order) {
			order, i = rng.Perm(len(deeds)), 0
		}
		d := deeds[order[i]]
		d.do(ctx)
		c.count(d.name)
		wait(ctx, time.Duration(rng.IntN(700))*time.Millisecond)
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (c *chaos) freezeWorker(ctx context.Context, i int) {
	w := c.workers[i]
	_ = w.Process.Signal(syscall.SIGSTOP)
	wait(ctx, 2500*time.Millisecond) // its lease is two seconds
	w.resume()
}

func (p *process) resume() { _ = p.Process.Signal(syscall.SIGCONT) }

func (c *chaos) killWorker(i int) {
	w := c.workers[i]
	_ = w.Process.Kill()
	<-w.exited
	c.workLog = append(c.workLog, w.output)
	c.workers[i] = c.startHurt("", "work")
}

// fillDisk takes all the room there is, for a while.
func (c *chaos) fillDisk(ctx context.Context) {
	path := filepath.Join(c.env["FILES_DIR"], ".FENCELINE.json-filler")
	f, err := os.Create(path)
	if err != nil {
		return
	}
	_, err = io.Copy(f, io.LimitReader(zeros{}, 1<<30))
	if err == nil {
		c.t.Error("the disk is not small: a gigabyte went onto it")
	}
	wait(ctx, 500*time.Millisecond)
	_ = f.Close()
	_ = os.Remove(path)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// smallDisk mounts a file system of a few megabytes.
func smallDisk(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("a small disk needs the right to mount a tmpfs (root): %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return dir
}

// pgServer is a PostgreSQL that can be killed.
type pgServer struct {
	mu     sync.Mutex
	t      *testing.T
	server *localpg.Server
	url    string
}

func newPGServer(t *testing.T) *pgServer {
	t.Helper()
	s := storagetest.Server(t, nil)
	if err := s.EnsureDatabase(t.Context(), "chaos"); err != nil {
		t.Fatal(err)
	}
	p := &pgServer{t: t, server: s, url: s.URL("chaos")}
	t.Cleanup(func() { _ = p.server.Stop(context.Background()) })
	return p
}

func (p *pgServer) killAndRestart(context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(p.server.Pid(), syscall.SIGKILL)
	<-p.server.Done()
	again, err := p.server.Restart(context.Background())
	if err != nil {
		p.t.Errorf("restart PostgreSQL: %v", err)
		return
	}
	if p.server = again; again.URL("chaos") != p.url {
		p.t.Error("PostgreSQL came back at another address")
	}
}

func (p *pgServer) terminate(ctx context.Context) {
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, _ = conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.5`)
}

func (p *pgServer) ensure(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	conn, err := pgx.Connect(t.Context(), p.url)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())
}

// redisPair is a primary with a replica behind one address that can be switched.
type redisPair struct {
	t       *testing.T
	primary *redistest.Redis
	replica *redistest.Redis
	door    net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newRedisPair(t *testing.T) *redisPair {
	t.Helper()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &redisPair{t: t, primary: redistest.Server(t), replica: redistest.Server(t), door: door, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = door.Close() })
	r.follow()
	go r.serve()
	return r
}

func (r *redisPair) url() string { return "redis://" + r.door.Addr().String() + "/0" }

func (r *redisPair) serve() {
	for {
		client, err := r.door.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		addr := r.primary.Addr()
		r.conns[client] = true
		r.mu.Unlock()
		go func() {
			defer r.forget(client)
			server, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			defer server.Close()
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			_, _ = io.Copy(client, server)
		}()
	}
}

func (r *redisPair) forget(c net.Conn) {
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
	_ = c.Close()
}

func (r *redisPair) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
}

func (r *redisPair) ask(s *redistest.Redis, args ...any) {
	opt, err := redis.ParseURL(s.URL())
	if err != nil {
		r.t.Error(err)
		return
	}
	opt.MaxRetries = -1
	client := redis.NewClient(opt)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = client.Do(ctx, args...).Err()
}

func (r *redisPair) follow() {
	host, port, _ := net.SplitHostPort(r.primary.Addr())
	r.ask(r.replica, "REPLICAOF", host, port)
}

func (r *redisPair) flush(context.Context) { r.ask(r.primary, "FLUSHALL") }

func (r *redisPair) bounce(ctx context.Context) {
	r.primary.Kill()
	r.cut()
	wait(ctx, 300*time.Millisecond)
	r.primary.Restart(r.t)
	r.follow()
}

// failOver promotes a replica that has not seen what the primary took last: a
// lock that was granted is free again.
func (r *redisPair) failOver(ctx context.Context) {
	r.replica.Pause(r.t)
	r.ask(r.primary, "CLIENT", "KILL", "TYPE", "replica")
	wait(ctx, 500*time.Millisecond)
	r.primary.Kill()
	r.replica.Resume(r.t)
	r.ask(r.replica, "REPLICAOF", "NO", "ONE")
	r.mu.Lock()
	r.primary, r.replica = r.replica, r.primary
	r.mu.Unlock()
	r.cut()
	r.replica.Restart(r.t)
	r.follow()
}

func (r *redisPair) ensure(t *testing.T) {
	t.Helper()
	u, err := url.Parse(r.primary.URL())
	if err != nil || u.Host == "" {
		t.Fatal("no primary", err)
	}
	r.ask(r.primary, "REPLICAOF", "NO", "ONE")
}
