package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/jobs/processtest"
)

// sharerVariable makes this test binary a process that starts the shared server
// and then waits to be killed.
const sharerVariable = "REDISTEST_SHARER"

func TestMain(m *testing.M) {
	if os.Getenv(sharerVariable) != "" {
		r, err := sharedServer()
		fmt.Println(r.Addr(), err)
		select {}
	}
	os.Exit(m.Run())
}

func connect(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries, o.DialerRetries = -1, 1
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

func set(t *testing.T, c *redis.Client, key string) {
	t.Helper()
	if err := c.Set(t.Context(), key, "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, c *redis.Client) int64 {
	t.Helper()
	n, err := c.DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestServerIsEmptyAndForgetful(t *testing.T) {
	t.Parallel()
	r := Server(t)
	c := connect(t, r.URL())
	if n := count(t, c); n != 0 {
		t.Errorf("%d keys at the start", n)
	}
	for name, want := range map[string]string{
		"save": "", "appendonly": "no", "databases": "16", "maxmemory-policy": "noeviction", "bind": "127.0.0.1",
	} {
		got, err := c.ConfigGet(t.Context(), name).Result()
		if err != nil || got[name] != want {
			t.Errorf("%s = %q, %v, want %q", name, got[name], err, want)
		}
	}
	set(t, c, "a")
	other := connect(t, strings.TrimSuffix(r.URL(), "0")+"7")
	set(t, other, "b")
	r.FlushAll(t)
	if n := count(t, c) + count(t, other); n != 0 {
		t.Errorf("%d keys after FlushAll", n)
	}
}

func TestRestartKeepsThePortOnly(t *testing.T) {
	t.Parallel()
	r := Server(t)
	addr, c := r.Addr(), connect(t, r.URL())
	for name, end := range map[string]func(){"running": func() {}, "stopped": r.Stop, "killed": r.Kill, "frozen": func() { r.Pause(t) }} {
		set(t, c, "a")
		end()
		r.Restart(t)
		if r.Addr() != addr {
			t.Fatalf("%s: moved from %s to %s", name, addr, r.Addr())
		}
		c.Ping(t.Context()) // the old connection is dead, and the client finds out
		if n := count(t, c); n != 0 {
			t.Errorf("%s: %d keys", name, n)
		}
	}
}

func TestStopAndKill(t *testing.T) {
	t.Parallel()
	r := Server(t)
	for _, end := range []func(){r.Stop, r.Kill} {
		end()
		end()
		if c, err := net.Dial("tcp", r.Addr()); err == nil {
			c.Close()
			t.Error("somebody answers")
		}
		r.Restart(t)
	}
	r.Pause(t)
	begin := time.Now()
	r.Stop()
	if took := time.Since(begin); took >= stopTimeout {
		t.Errorf("a frozen server was not asked to stop, it was killed after %v", took)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	r := Server(t)
	c := connect(t, r.URL())
	set(t, c, "before")
	r.Pause(t)
	answered := make(chan error, 1)
	go func() { answered <- c.Set(t.Context(), "during", "x", 0).Err() }()
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	o := *c.Options()
	o.ContextTimeoutEnabled = true
	second := redis.NewClient(&o)
	defer second.Close()
	if err := second.Ping(brief).Err(); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a frozen server: %v", err)
	}
	r.Resume(t)
	if err := <-answered; err != nil {
		t.Errorf("after Resume: %v", err)
	}
	if n := count(t, c); n != 2 {
		t.Errorf("%d keys", n)
	}
}

func TestSharedIsOneServerThatNobodyStops(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	servers := make([]*Redis, 8)
	for i := range servers {
		wg.Go(func() { servers[i] = Shared(t) })
	}
	wg.Wait()
	for _, r := range servers {
		if processtest.EndsWithUs && r != servers[0] {
			t.Error("more than one server")
		}
	}
	if !processtest.EndsWithUs {
		return
	}
	r := servers[0]
	for name, call := range map[string]func(){
		"Stop": r.Stop, "Kill": r.Kill, "FlushAll": func() { r.FlushAll(t) },
		"Restart": func() { r.Restart(t) }, "Pause": func() { r.Pause(t) }, "Resume": func() { r.Resume(t) },
	} {
		if !panics(call) {
			t.Errorf("%s worked on the shared server", name)
		}
	}
	set(t, connect(t, r.URL()), t.Name())
}

func panics(call func()) (did bool) {
	defer func() { did = recover() != nil }()
	call()
	return false
}

func TestSharedEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	if !processtest.EndsWithUs {
		return // Shared is Server there
	}
	sharer := exec.Command(os.Args[0])
	sharer.Env = append(os.Environ(), sharerVariable+"=1")
	out, err := sharer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sharer.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || rest != "<nil>" {
		t.Fatalf("the process said %q, %v", line, err)
	}
	if err := connect(t, "redis://"+addr).Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := sharer.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sharer.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		c.Close()
		if !pause(ctx) {
			t.Fatal("the server outlived its process")
		}
	}
}

func TestTakenPortIsNoticed(t *testing.T) {
	t.Parallel()
	first := Server(t)
	second := &Redis{bin: first.bin, dir: t.TempDir(), port: first.port}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := second.launch(ctx); !errors.Is(err, errPortTaken) {
		t.Errorf("got %v", err)
	}
}

func TestBrokenServerSaysWhy(t *testing.T) {
	t.Parallel()
	r := &Redis{bin: "redis-server", dir: "/nowhere/at/all", port: 1}
	if err := r.launch(t.Context()); err == nil || !strings.Contains(err.Error(), "/nowhere/at/all") && !strings.Contains(err.Error(), "No such file") {
		t.Errorf("got %v", err)
	}
}
