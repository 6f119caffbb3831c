package leasetest

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
)

func exclusive(t *testing.T, st *stage) {
	a, b := st.leaser(t, "a"), st.leaser(t, "b")
	lease := take(t, a, "x")
	other := take(t, a, "y") // another resource is free
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	// It is held far beyond its time to live, because it is renewed.
	for end := time.Now().Add(2 * st.TTL); time.Now().Before(end); <-look.C {
		busy(t, b, "x")
	}
	busy(t, a, "x") // not for its own process either
	if lease.Context().Err() != nil || other.Context().Err() != nil {
		t.Fatal("a healthy lease ended")
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lease.Context().Err() == nil {
		t.Error("a released lease's context goes on")
	}
	next := follow(t, b, "x")
	if st.Order != "" && (next.Order().Name != st.Order || next.Order().Number <= lease.Order().Number) {
		t.Errorf("the order went from %q to %q; want a %s that rises", lease.Order(), next.Order(), st.Order)
	}
	if st.Order == "" && next.Order() != (jobs.LeaseOrder{}) {
		t.Errorf("the order is %q; the service gives none", next.Order())
	}
}

func renewalNeverTakesAnew(t *testing.T, st *stage) {
	l := st.leaser(t, "a")
	lease := take(t, l, "x")
	st.Take(t, st.server, st.options("a"), "x")
	lost(t, lease)
	if _, err := l.Holder(t.Context(), "x"); !errors.Is(err, jobs.ErrLeaseFree) {
		t.Errorf("after it was lost somebody holds it: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error("releasing a lost lease:", err)
	}
}

func strangersRelease(t *testing.T, st *stage) {
	a, b := st.leaser(t, "a"), st.leaser(t, "b")
	old := take(t, a, "x")
	st.Take(t, st.server, st.options("a"), "x")
	next := follow(t, b, "x")
	if err := old.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	busy(t, a, "x")
	if next.Context().Err() != nil {
		t.Error("the stranger's release ended the lease")
	}
}

func killedHolder(t *testing.T, st *stage) {
	h := st.holder(t, "x")
	l := st.leaser(t, "b")
	busy(t, l, "x")
	h.kill()
	follow(t, l, "x")
}

func frozenHolder(t *testing.T, st *stage) {
	h := st.holder(t, "x")
	l := st.leaser(t, "b")
	busy(t, l, "x")
	h.freeze(t)
	next := follow(t, l, "x")
	h.thaw(t)
	if said := h.next(t); !strings.HasPrefix(said, "lost") {
		t.Errorf("the holder that woke up said %q; want that its lease was lost", said)
	}
	if next.Context().Err() != nil {
		t.Error("the holder that woke up took the lease away")
	}
}

func holderIsTold(t *testing.T, st *stage) {
	l := st.leaser(t, "w-7")
	if _, err := l.Holder(t.Context(), "x"); !errors.Is(err, jobs.ErrLeaseFree) {
		t.Fatalf("of a free lease: %v", err)
	}
	lease := take(t, l, "x")
	got, err := st.leaser(t, "b").Holder(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if st.Owners && got.Owner != "w-7" {
		t.Errorf("the owner is %q", got.Owner)
	}
	if age := time.Since(got.Since); st.Since && (age < -patience || age > patience) {
		t.Errorf("it was taken %s ago", age)
	}
	if got.Order != lease.Order() {
		t.Errorf("the holder's order is %q, the lease's %q", got.Order, lease.Order())
	}
}

// dialsAsTold ends what the given way to dial made: nothing may reach the service by another.
func dialsAsTold(t *testing.T, st *stage) {
	w := &wires{}
	o := st.options("a")
	o.Dial = w.dial
	l, end, err := st.Open(t.Context(), st.server.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	lease := take(t, l, "x")
	w.cut()
	lost(t, lease)
	if _, err := l.Acquire(t.Context(), "y"); err == nil || errors.Is(err, jobs.ErrLeaseBusy) {
		t.Errorf("acquire without a connection: %v; want an error that is not busy", err)
	}
	follow(t, st.leaser(t, "b"), "x")
}

// wires are connections that can be cut.
type wires struct {
	mu    sync.Mutex
	over  bool
	conns []net.Conn
}

func (w *wires) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		_ = conn.Close() // nothing was said
		return nil, errors.New("the wire is cut")
	}
	w.conns = append(w.conns, conn)
	return conn, nil
}

func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for _, c := range w.conns {
		_ = c.Close() // it may be closed
	}
}

// nothingLeft runs alone: it counts the goroutines of the whole process.
func nothingLeft(t *testing.T, st *stage) {
	before := runtime.NumGoroutine()
	l, end, err := st.Open(t.Context(), st.server.URL(), st.options("a"))
	if err != nil {
		t.Fatal(err)
	}
	lease := take(t, l, "x")
	if st.Left(t, st.server, st.prefix) == 0 {
		t.Fatal("a held lease leaves nothing to count; the count proves nothing")
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	end()
	until(t, "the service keeps nothing", func() bool { return st.Left(t, st.server, st.prefix) == 0 })
	until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

func serviceGone(t *testing.T, st *stage, hurt func(*testing.T, Server)) {
	l := st.leaser(t, "a")
	lease := take(t, l, "x")
	hurt(t, st.server)
	lost(t, lease)
	if _, err := l.Acquire(t.Context(), "x"); err == nil || errors.Is(err, jobs.ErrLeaseBusy) {
		t.Errorf("acquire without a service: %v; want an error that is not busy", err)
	}
}
