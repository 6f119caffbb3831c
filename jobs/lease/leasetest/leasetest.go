// Package leasetest is the contract of leases as tests that every backend passes
// against its real server. A backend's package calls [Main] from TestMain and
// [Run] from a test.
//
// What happens to a holder is done to a real process: the test program starts
// itself once more as a holder, and stops it with SIGSTOP or SIGKILL.
package leasetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
)

// Open makes the leaser of a process for a service at an address, and what ends it.
type Open func(ctx context.Context, address string, o jobs.LeaseOptions) (jobs.Leaser, func(), error)

// Server is a lock service that a test may hurt. It is for one test and ends with it.
type Server interface {
	// URL is what [Open] takes.
	URL() string
	// Kill ends it, as a crash does.
	Kill()
	// Pause freezes it, and Resume lets it go on.
	Pause(testing.TB)
	Resume(testing.TB)
}

// Backend is a kind of lease and its servers.
type Backend struct {
	Open  Open
	Start func(*testing.T) Server
	// Take ends the lease on a resource behind its holder's back, as if its time were over.
	Take func(t *testing.T, s Server, o jobs.LeaseOptions, resource string)
	// Left counts what the service still keeps under a prefix: keys, nodes, objects, locks.
	Left func(t *testing.T, s Server, prefix string) int
	// TTL is how long the leases of the tests live; a few seconds, so that a loaded machine renews in time.
	TTL time.Duration
	// Order is the name of the number that the service gives; empty when it gives none.
	Order string
	// Owners is whether the service tells who holds a lease, and Since whether it tells since when.
	Owners, Since bool
}

// patience bounds every wait: the machine may be busy with other tests.
const patience = 60 * time.Second

// Run plays the contract and makes the test that calls it a parallel one. Each part has a prefix of its own on a server that the
// healthy parts share; those that hurt the server have one each.
func Run(t *testing.T, b Backend) {
	t.Helper()
	shared := b.Start(t)
	t.Run("nothing is left behind", func(t *testing.T) { nothingLeft(t, newStage(t, b, shared)) })
	t.Parallel() // from here on nobody counts goroutines
	healthy := map[string]func(*testing.T, *stage){
		"exclusive while healthy":              exclusive,
		"a renewal never takes it anew":        renewalNeverTakesAnew,
		"a release by a stranger does nothing": strangersRelease,
		"a killed holder is followed":          killedHolder,
		"a frozen holder is followed":          frozenHolder,
		"who holds it":                         holderIsTold,
		"it dials as it is told":               dialsAsTold,
	}
	for name, play := range healthy {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, newStage(t, b, shared))
		})
	}
	for name, hurt := range map[string]func(*testing.T, Server){
		"a frozen service ends the lease": func(t *testing.T, s Server) { s.Pause(t); t.Cleanup(func() { s.Resume(t) }) },
		"a killed service ends the lease": func(_ *testing.T, s Server) { s.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, b, b.Start(t))
			serviceGone(t, st, hurt)
		})
	}
}

// stage is one part's share of a server.
type stage struct {
	Backend
	server Server
	prefix string
}

func newStage(t *testing.T, b Backend, s Server) *stage {
	return &stage{Backend: b, server: s, prefix: prefixOf(t)}
}

func (st *stage) options(owner string) jobs.LeaseOptions {
	return jobs.LeaseOptions{Owner: owner, Prefix: st.prefix, TTL: st.TTL}
}

// leaser is that of a process of its own.
func (st *stage) leaser(t *testing.T, owner string) jobs.Leaser {
	t.Helper()
	l, end, err := st.Open(t.Context(), st.server.URL(), st.options(owner))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return l
}

// take takes a lease that nobody holds. A service that did not answer in time is
// asked again, as a worker would; what that try may have left behind expires.
func take(t *testing.T, l jobs.Leaser, resource string) *jobs.Lease {
	t.Helper()
	unanswered := false
	var lease *jobs.Lease
	until(t, "the lease is had", func() bool {
		var err error
		if lease, err = l.Acquire(t.Context(), resource); err == nil {
			return true
		}
		busy := errors.Is(err, jobs.ErrLeaseBusy)
		if busy && !unanswered {
			t.Fatal(err)
		}
		if !busy {
			t.Logf("asked again: %v", err)
		}
		unanswered = unanswered || !busy
		return false
	})
	return lease
}

// follow takes a lease as soon as whoever holds it lets go or is gone.
func follow(t *testing.T, l jobs.Leaser, resource string) *jobs.Lease {
	t.Helper()
	var lease *jobs.Lease
	until(t, "the lease is free", func() bool {
		var err error
		lease, err = l.Acquire(t.Context(), resource)
		return err == nil
	})
	return lease
}

// busy fails the test unless the lease is somebody else's. No answer is no answer.
func busy(t *testing.T, l jobs.Leaser, resource string) {
	t.Helper()
	until(t, "an answer comes", func() bool {
		_, err := l.Acquire(t.Context(), resource)
		if err == nil {
			t.Fatalf("%s has a second holder", resource)
		}
		return errors.Is(err, jobs.ErrLeaseBusy)
	})
}

// lost waits until a lease's context ends, with the cause that it was lost.
func lost(t *testing.T, lease *jobs.Lease) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-lease.Context().Done():
		if cause := context.Cause(lease.Context()); !errors.Is(cause, jobs.ErrLeaseLost) {
			t.Errorf("the lease ended because of %v", cause)
		}
	case <-timer.C:
		t.Fatal("the lease was not lost")
	}
}

// until polls for a condition that another process brings about.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); !holds(); <-look.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// prefixOf begins the names of a part's leases.
func prefixOf(t *testing.T) string {
	return strings.NewReplacer("/", "-", " ", "-", "'", "").Replace(strings.ToLower(t.Name())) + "-"
}
