package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var (
	// ErrLeaseBusy means that somebody else holds the lease. It is an answer, not a fault: the job waits.
	ErrLeaseBusy = errors.New("another attempt holds the lease")
	// ErrLeaseLost is the cause with which a lease's context ends when the lease was not renewed in time.
	ErrLeaseLost = errors.New("the lease was lost")
	// errLeaseReleased ends the context of a lease that its holder gave back.
	errLeaseReleased = errors.New("the lease was released")
)

// Leaser hands out leases. A lease saves duplicate work and guards nothing: two
// holders at once are slower, never wrong.
type Leaser interface {
	// Acquire takes the lease on a resource without waiting; [ErrLeaseBusy] when it is held.
	Acquire(ctx context.Context, resource string) (*Lease, error)
}

// Lease is a held lease. It is renewed by itself until it is released or lost.
type Lease struct {
	ctx     context.Context
	release func(context.Context) error
}

// Context ends when the lease is lost ([ErrLeaseLost] is its cause), when it is
// released, or with the context that it was acquired with.
func (l *Lease) Context() context.Context { return l.ctx }

// Release gives the lease back if it is still ours; a stranger's stays. Releasing
// a lost lease is no error.
func (l *Lease) Release(ctx context.Context) error { return l.release(ctx) }

// AlwaysLeaser says yes to everybody. It exists to show that no law depends on a
// lease, and for those who would rather do work twice than run Redis for it.
type AlwaysLeaser struct{}

// Acquire succeeds always.
func (AlwaysLeaser) Acquire(ctx context.Context, _ string) (*Lease, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Lease{ctx: ctx, release: func(context.Context) error { cancel(errLeaseReleased); return nil }}, nil
}

// askFactor is the part of a lease's time that asking for it may take: what is
// left must be worth having, and a loaded Redis must get the time to answer.
const askFactor = 0.25

// RedisLeaser keeps leases as keys in Redis: SET NX PX with a random owner,
// renewed and deleted only while the owner is still us. It is safe for
// concurrent use.
type RedisLeaser struct {
	sync   *redsync.Redsync
	prefix string
	ttl    time.Duration
}

// NewRedisLeaser keeps leases under keys that begin with prefix, for ttl each,
// renewed three times per ttl.
func NewRedisLeaser(client redis.UniversalClient, prefix string, ttl time.Duration) *RedisLeaser {
	return &RedisLeaser{sync: redsync.New(goredis.NewPool(client)), prefix: prefix, ttl: ttl}
}

// Acquire takes the lease on a resource.
func (r *RedisLeaser) Acquire(ctx context.Context, resource string) (*Lease, error) {
	m := r.sync.NewMutex(r.prefix+resource, redsync.WithExpiry(r.ttl), redsync.WithTries(1), redsync.WithTimeoutFactor(askFactor))
	if err := m.TryLockContext(ctx); err != nil {
		var taken *redsync.ErrTaken
		if errors.As(err, &taken) {
			return nil, ErrLeaseBusy
		}
		return nil, fmt.Errorf("take the lease on %s: %w", resource, err)
	}
	held, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		renew(held, m, r.ttl, cancel)
	}()
	return &Lease{ctx: held, release: func(ctx context.Context) error {
		cancel(errLeaseReleased)
		<-done
		if _, err := m.UnlockContext(ctx); err != nil && !gone(err) {
			return fmt.Errorf("release the lease on %s: %w", resource, err)
		}
		return nil
	}}, nil
}

// renew extends the lease until ctx ends. It never takes a lease anew: once it
// was not ours for a moment, somebody else may have begun. When no answer comes
// it asks more often, until the time that Redis last promised is over by this
// machine's monotonic clock; then the lease counts as lost.
func renew(ctx context.Context, m *redsync.Mutex, ttl time.Duration, cancel context.CancelCauseFunc) {
	timer := time.NewTimer(ttl / 3)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		try, stop := context.WithDeadline(ctx, m.Until())
		_, err := m.ExtendContext(try)
		stop()
		switch {
		case err == nil:
			timer.Reset(ttl / 3)
		case ctx.Err() != nil:
			return
		case gone(err) || !time.Now().Before(m.Until()):
			cancel(fmt.Errorf("%w: %w", ErrLeaseLost, err))
			return
		default:
			timer.Reset(min(ttl/10, time.Until(m.Until())))
		}
	}
}

// gone reports whether Redis answered that the key is not ours any more.
func gone(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired)
}
