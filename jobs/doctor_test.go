package jobs_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/localredis"
	"github.com/fenceline/fenceline/jobs/redistest"
)

func openRedis(t *testing.T, url string) jobs.Redis {
	t.Helper()
	r, err := jobs.OpenRedis(t.Context(), url, "doctor")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Client.Close() })
	return r
}

func factsOf(t *testing.T, r jobs.Redis) jobs.RedisFacts {
	t.Helper()
	l, err := r.Layout(t.Context())
	if err != nil || len(l.Primaries) != 1 || l.Primaries[0].Err != nil {
		t.Fatalf("%+v, %v", l, err)
	}
	return l.Primaries[0].RedisFacts
}

func TestFactsOfRedis(t *testing.T) {
	t.Parallel()
	r := openRedis(t, redistest.Server(t).URL())
	look := func() jobs.RedisFacts {
		t.Helper()
		return factsOf(t, r)
	}
	f := look()
	if f.Server != "redis" && f.Server != "valkey" || !strings.Contains(f.Version, ".") || f.Role != "master" || f.Policy != "noeviction" ||
		f.UsedMemory == 0 || f.MaxMemory != 0 || f.AppendOnly || f.Save {
		t.Errorf("as redistest starts it: %+v", f)
	}
	for name, value := range map[string]string{"maxmemory-policy": "allkeys-lru", "maxmemory": "50000000", "save": "3600 1", "appendonly": "yes"} {
		if err := r.Client.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if f = look(); f.Policy != "allkeys-lru" || f.MaxMemory != 50_000_000 || !f.AppendOnly || !f.Save {
		t.Errorf("changed: %+v", f)
	}
	if err := r.Client.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil { // of nobody
		t.Fatal(err)
	}
	if f = look(); f.Role != "slave" {
		t.Errorf("a replica: %+v", f)
	}
}

// The built-in Redis says little, but which it is.
func TestFactsOfTheBuiltInRedis(t *testing.T) {
	t.Parallel()
	s, err := localredis.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	f := factsOf(t, openRedis(t, s.URL()))
	if f.Server != "miniredis" || f.Role != "master" || f.Version == "" {
		t.Errorf("%+v", f)
	}
}

func TestLatencyAndClockOfRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	r := openRedis(t, server.URL())
	if took, err := r.Latency(t.Context()); err != nil || took <= 0 {
		t.Errorf("%s, %v", took, err)
	}
	hourAgo := func() time.Time { return time.Now().Add(-time.Hour) }
	if ahead, within, err := r.Clock(t.Context(), hourAgo); err != nil || (ahead-time.Hour).Abs() > time.Second+within {
		t.Errorf("%s ± %s, %v", ahead, within, err)
	}
	server.Pause(t)
	defer server.Resume(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Latency(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("frozen: %v", err)
	}
}

func TestWorkersThatAreAlive(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	w, stranger := newWorld(t, server), newWorld(t, server)
	list := func() []jobs.WorkerFacts {
		t.Helper()
		found, err := w.redis.Workers()
		w.must(err)
		return found
	}
	stranger.worker()
	w.until("the stranger has told Redis of itself", func() bool {
		found, err := stranger.redis.Workers()
		return err == nil && len(found) == 1
	})
	if found := list(); len(found) != 0 { // another namespace on the same server
		t.Errorf("before: %+v", found)
	}
	stop := w.worker(func(c *jobs.WorkerConfig) { c.Queues, c.Concurrency = map[string]int{"slow": 1, "default": 3}, 5 })
	w.until("the worker has told Redis of itself", func() bool { return len(list()) == 1 })
	found := list()[0]
	if found.PID != os.Getpid() || found.Host == "" || found.Concurrency != 5 || !slices.Equal(found.Queues, []string{"default", "slow"}) {
		t.Errorf("%+v", found)
	}
	stop()
	if found := list(); len(found) != 0 {
		t.Errorf("after: %+v", found)
	}
}
