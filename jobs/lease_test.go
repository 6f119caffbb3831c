package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
)

// leaseServer is a Redis of any kind that can be hurt.
type leaseServer interface {
	URL() string
	Kill()
	Pause(testing.TB)
	Resume(testing.TB)
}

// leaseServers are the kinds of Redis that keep the contract of leases.
func leaseServers() map[string]func(*testing.T) leaseServer {
	calm := 20 * time.Second // nobody is called dead here
	return map[string]func(*testing.T) leaseServer{
		"single":   func(t *testing.T) leaseServer { return redistest.Server(t) },
		"TLS":      func(t *testing.T) leaseServer { return redistest.Server(t, redistest.TLS()) },
		"sentinel": func(t *testing.T) leaseServer { return redistest.Sentinel(t, calm) },
		"cluster":  func(t *testing.T) leaseServer { return redistest.Cluster(t, calm) },
		"sentinel and TLS": func(t *testing.T) leaseServer {
			return redistest.Sentinel(t, calm, redistest.TLS(), redistest.Password("p/w d"))
		},
		"cluster and TLS": func(t *testing.T) leaseServer {
			return redistest.Cluster(t, calm, redistest.TLS(), redistest.Password("p/w d"))
		},
	}
}

// The contract of leases holds on every kind of Redis, with the clients that
// workers have.
func TestLeases(t *testing.T) {
	t.Parallel()
	for kind, start := range leaseServers() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			for name, play := range map[string]func(*testing.T, leaseServer){
				"exclusive while healthy": leaseIsExclusiveWhileHealthy, "a renewal never takes it anew": renewalNeverTakesTheLeaseAnew,
				"a release by a stranger does nothing": releaseByAStrangerDoesNothing, "a crashed holder is followed": aCrashedHolderIsFollowedWithinItsTime,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					play(t, r)
				})
			}
		})
	}
}

func leaser(t *testing.T, r leaseServer, ttl time.Duration) (*jobs.RedisLeaser, redis.UniversalClient) {
	t.Helper()
	client := openRedis(t, r.URL()).Client
	return jobs.NewRedisLeaser(client, t.Name()+":", ttl), client
}

// leaseTime is how long the leases of these tests live. A quarter of it is what
// asking may take, so it must be long enough for a machine that is busy.
const leaseTime = 6 * time.Second

// acquire takes a lease that nobody holds. A server that did not answer in time is
// asked again, as a worker would; what that try may have left behind expires.
func acquire(t *testing.T, l jobs.Leaser, resource string) *jobs.Lease {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	unanswered := false
	for deadline := time.Now().Add(30 * time.Second); ; <-look.C {
		lease, err := l.Acquire(t.Context(), resource)
		if err == nil {
			return lease
		}
		busy := errors.Is(err, jobs.ErrLeaseBusy)
		if busy && !unanswered || time.Now().After(deadline) {
			t.Fatal(err)
		}
		unanswered = unanswered || !busy
		if !busy {
			t.Logf("asked again: %v", err)
		}
	}
}

// isBusy fails the test unless a lease is somebody else's. No answer is no answer.
func isBusy(t *testing.T, l jobs.Leaser, resource string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, err := l.Acquire(t.Context(), resource)
		switch {
		case errors.Is(err, jobs.ErrLeaseBusy):
			return
		case err == nil:
			t.Fatalf("%s has a second holder", resource)
		case time.Now().After(deadline):
			t.Fatal(err)
		}
	}
}

func lost(t *testing.T, lease *jobs.Lease, within time.Duration) {
	t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-lease.Context().Done():
		if cause := context.Cause(lease.Context()); !errors.Is(cause, jobs.ErrLeaseLost) {
			t.Errorf("the lease ended because of %v", cause)
		}
	case <-timer.C:
		t.Errorf("the lease was not lost within %s", within)
	}
}

func leaseIsExclusiveWhileHealthy(t *testing.T, r leaseServer) {
	t.Helper()
	a, _ := leaser(t, r, leaseTime)
	b, _ := leaser(t, r, leaseTime)
	lease := acquire(t, a, "x")
	acquire(t, a, "y") // another resource is free
	// It is held far beyond its time to live, because it is renewed.
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(2 * leaseTime); time.Now().Before(end); <-look.C {
		isBusy(t, b, "x")
	}
	if err := lease.Context().Err(); err != nil {
		t.Fatal("the lease ended:", context.Cause(lease.Context()))
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lease.Context().Err() == nil {
		t.Error("a released lease's context goes on")
	}
	acquire(t, b, "x")
}

func renewalNeverTakesTheLeaseAnew(t *testing.T, r leaseServer) {
	t.Helper()
	l, client := leaser(t, r, leaseTime)
	lease := acquire(t, l, "x")
	if n, err := client.Del(t.Context(), t.Name()+":x").Result(); err != nil || n != 1 {
		t.Fatal("the key is not where it was expected", n, err)
	}
	lost(t, lease, 30*time.Second)
	if n, _ := client.Exists(t.Context(), t.Name()+":x").Result(); n != 0 {
		t.Error("the key came back")
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error("releasing a lost lease:", err)
	}
}

func releaseByAStrangerDoesNothing(t *testing.T, r leaseServer) {
	t.Helper()
	l, client := leaser(t, r, leaseTime)
	old := acquire(t, l, "x")
	if err := client.Del(t.Context(), t.Name()+":x").Err(); err != nil { // as if it had expired while its holder was frozen
		t.Fatal(err)
	}
	next := acquire(t, l, "x")
	if err := old.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	isBusy(t, l, "x")
	if next.Context().Err() != nil {
		t.Error("the new holder lost it:", context.Cause(next.Context()))
	}
}

func TestLeaseIsLostWhenRedisIs(t *testing.T) {
	t.Parallel()
	for kind, start := range leaseServers() {
		if strings.Contains(kind, "TLS") { // a server that is silent says no more with it
			continue
		}
		for name, hurt := range map[string]func(*testing.T, leaseServer){
			"frozen": func(t *testing.T, r leaseServer) { r.Pause(t); t.Cleanup(func() { r.Resume(t) }) },
			"killed": func(_ *testing.T, r leaseServer) { r.Kill() },
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				r := start(t)
				l, _ := leaser(t, r, leaseTime)
				lease := acquire(t, l, "x")
				hurt(t, r)
				lost(t, lease, 30*time.Second)
				if _, err := l.Acquire(t.Context(), "x"); err == nil || errors.Is(err, jobs.ErrLeaseBusy) {
					t.Errorf("acquire without a server: %v; want an error that is not busy", err)
				}
			})
		}
	}
}

func aCrashedHolderIsFollowedWithinItsTime(t *testing.T, r leaseServer) {
	t.Helper()
	l, client := leaser(t, r, leaseTime)
	if err := client.Set(t.Context(), t.Name()+":x", "somebody who is dead", time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-look.C {
		lease, err := l.Acquire(t.Context(), "x")
		if err == nil {
			_ = lease.Release(t.Context())
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestAlwaysLeaserSaysYes(t *testing.T) {
	t.Parallel()
	a, b := acquire(t, jobs.AlwaysLeaser{}, "x"), acquire(t, jobs.AlwaysLeaser{}, "x")
	if err := a.Release(t.Context()); err != nil || a.Context().Err() == nil || b.Context().Err() != nil {
		t.Error("releasing one touches the other, or not itself")
	}
}
