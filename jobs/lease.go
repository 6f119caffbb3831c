package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenceline/fenceline/storage"
)

var (
	// ErrLeaseBusy means that somebody else holds the lease. It is an answer, not a fault: the job waits.
	ErrLeaseBusy = errors.New("another attempt holds the lease")
	// ErrLeaseLost is the cause with which a lease's context ends when the lease was not renewed in time,
	// and what a [Grant] answers when its service says that the lease is somebody else's or nobody's.
	ErrLeaseLost = errors.New("the lease was lost")
	// ErrLeaseFree means that nobody holds the lease that was asked for.
	ErrLeaseFree = errors.New("nobody holds the lease")
	// errLeaseReleased ends the context of a lease that its holder gave back.
	errLeaseReleased = errors.New("the lease was released")
)

// Leaser hands out leases. A lease saves duplicate work and guards nothing: two
// holders at once are slower, never wrong. It is safe for concurrent use.
type Leaser interface {
	// Acquire takes the lease on a resource without waiting; [ErrLeaseBusy] when it is held.
	Acquire(ctx context.Context, resource string) (*Lease, error)
	// Holder answers who holds the lease on a resource; [ErrLeaseFree] when nobody does.
	Holder(ctx context.Context, resource string) (LeaseHolder, error)
}

// LeaseHolder is who holds a lease, for people: by the time it is read, the lease
// may be somebody else's.
type LeaseHolder struct {
	// Owner is what its holder calls itself.
	Owner string `json:"owner"`
	// Since is when it was taken, by a clock of the holder or of the service; zero when neither tells.
	Since time.Time  `json:"since,omitzero"`
	Order LeaseOrder `json:"order,omitzero"`
}

// LeaseOrder is a number by which a service orders those who held a lease; see [storage.LeaseOrder].
type LeaseOrder = storage.LeaseOrder

// Lease is a held lease. It is renewed by itself until it is released or lost.
type Lease struct {
	ctx     context.Context
	release func(context.Context) error
	order   LeaseOrder
}

// Context ends when the lease is lost ([ErrLeaseLost] is its cause), when it is
// released, or with the context that it was acquired with.
func (l *Lease) Context() context.Context { return l.ctx }

// Order is the number that the lease's service gave it.
func (l *Lease) Order() LeaseOrder { return l.order }

// Release gives the lease back if it is still ours; a stranger's stays. Releasing
// a lost lease is no error.
func (l *Lease) Release(ctx context.Context) error { return l.release(ctx) }

// Grant is a lease as its service gave it: what [Grant.Hold] keeps alive.
type Grant struct {
	// Resource is what the lease is on, for errors.
	Resource string
	// TTL is how long the service keeps the lease without a renewal. It is renewed three times in that time.
	TTL time.Duration
	// Until is when the service may give the lease to somebody else, by the monotonic clock of this machine:
	// counted from before it was asked, never from a time that another machine told.
	Until time.Time
	// Renew asks for more time and answers the new Until; [ErrLeaseLost] when the service says that the lease
	// is not ours. It never takes a lease anew: once it was not ours, somebody else may have begun.
	Renew func(context.Context) (time.Time, error)
	// Release gives the lease back unless it is somebody else's; [ErrLeaseLost] is no error.
	Release func(context.Context) error
	// Lost tells that the service ended the lease, with the reason; nil when it tells nothing by itself.
	Lost  <-chan error
	Order LeaseOrder
}

// Hold keeps a lease until it is released, lost, or ctx ends. Its goroutine ends
// before [Lease.Release] answers, or with the lease.
func (g Grant) Hold(ctx context.Context) *Lease {
	held, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.keep(held, cancel)
	}()
	return &Lease{ctx: held, order: g.Order, release: func(ctx context.Context) error {
		cancel(errLeaseReleased)
		<-done
		if err := g.Release(ctx); err != nil && !errors.Is(err, ErrLeaseLost) {
			return fmt.Errorf("release the lease on %s: %w", g.Resource, err)
		}
		return nil
	}}
}

// keep renews until ctx ends. When no answer comes it asks more often, until the
// time that the service last promised is over; then the lease counts as lost.
func (g Grant) keep(ctx context.Context, cancel context.CancelCauseFunc) {
	timer := time.NewTimer(g.TTL / 3)
	defer timer.Stop()
	for until := g.Until; ; {
		select {
		case <-ctx.Done():
			return
		case err := <-g.Lost:
			cancel(fmt.Errorf("%w: %w", ErrLeaseLost, err))
			return
		case <-timer.C:
		}
		try, stop := context.WithDeadline(ctx, until)
		next, err := g.Renew(try)
		stop()
		switch {
		case err == nil:
			until = next
			timer.Reset(g.TTL / 3)
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrLeaseLost):
			cancel(err)
			return
		case !time.Now().Before(until):
			cancel(fmt.Errorf("%w: %w", ErrLeaseLost, err))
			return
		default:
			timer.Reset(min(g.TTL/10, time.Until(until)))
		}
	}
}

// AlwaysLeaser says yes to everybody. It exists to show that no law depends on a
// lease, and for those who would rather do work twice than run a service for it.
type AlwaysLeaser struct{}

// Acquire succeeds always.
func (AlwaysLeaser) Acquire(ctx context.Context, _ string) (*Lease, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Lease{ctx: ctx, release: func(context.Context) error { cancel(errLeaseReleased); return nil }}, nil
}

// Holder answers that nobody holds anything: nobody is kept out.
func (AlwaysLeaser) Holder(context.Context, string) (LeaseHolder, error) {
	return LeaseHolder{}, ErrLeaseFree
}
