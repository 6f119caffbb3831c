package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// askFactor is the part of a lease's time that asking for it may take: what is
// left must be worth having, and a loaded Redis must get the time to answer.
const askFactor = 0.25

// LeaseOptions are what every backend is told.
type LeaseOptions struct {
	// Owner is what the holder calls itself, for [Leaser.Holder]; a random part is added, so that two
	// processes of one name do not pass for each other.
	Owner string
	// Prefix begins the names of all leases, so that several installations can share a service.
	Prefix string
	// TTL is how long a lease lives without a renewal.
	TTL time.Duration
	// Dial makes every connection to the service, also to the addresses that the service answers with; nil
	// is the system's. Names and encryption are not its business: TLS is spoken over what it answers. It must
	// give up when its context ends, and be safe for concurrent use.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
}

// RedisLeaser keeps leases as keys in Redis: SET NX PX with a random owner,
// renewed and deleted only while the owner is still us. With several clients of
// servers that know nothing of each other it is Redlock: a lease is had when more
// than half of them gave it, for the time that is left of it then, less what
// their clocks may have drifted apart. It is safe for concurrent use.
type RedisLeaser struct {
	sync    *redsync.Redsync
	clients []redis.UniversalClient
	opt     LeaseOptions
}

// NewRedisLeaser keeps leases at one Redis of any kind, or at several independent
// ones. The caller closes the clients, which have a way to dial of their own.
func NewRedisLeaser(o LeaseOptions, clients ...redis.UniversalClient) *RedisLeaser {
	pools := make([]redsyncredis.Pool, len(clients))
	for i, c := range clients {
		pools[i] = goredis.NewPool(c)
	}
	return &RedisLeaser{sync: redsync.New(pools...), clients: clients, opt: o}
}

// Acquire takes the lease on a resource.
func (r *RedisLeaser) Acquire(ctx context.Context, resource string) (*Lease, error) {
	m := r.sync.NewMutex(r.opt.Prefix+resource, redsync.WithExpiry(r.opt.TTL), redsync.WithTries(1), redsync.WithTimeoutFactor(askFactor),
		redsync.WithGenValueFunc(func() (string, error) { return newOwner(r.opt.Owner), nil }))
	if err := m.TryLockContext(ctx); err != nil {
		var taken *redsync.ErrTaken
		if errors.As(err, &taken) {
			return nil, ErrLeaseBusy
		}
		return nil, fmt.Errorf("take the lease on %s: %w", resource, err)
	}
	return Grant{
		Resource: resource, TTL: r.opt.TTL, Until: m.Until(),
		Renew: func(ctx context.Context) (time.Time, error) {
			_, err := m.ExtendContext(ctx)
			return m.Until(), lostTo(err)
		},
		Release: func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return lostTo(err)
		},
	}.Hold(ctx), nil
}

// lostTo is the error of a lease that Redis says is not ours any more.
func lostTo(err error) error {
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return fmt.Errorf("%w: %w", ErrLeaseLost, err)
	}
	return err
}

// Holder answers who holds a lease: with several servers, who holds it at more than half of them.
func (r *RedisLeaser) Holder(ctx context.Context, resource string) (LeaseHolder, error) {
	votes, answers := map[string]int{}, 0
	var failures []error
	for _, c := range r.clients {
		value, err := c.Get(ctx, r.opt.Prefix+resource).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			failures = append(failures, err)
			continue
		}
		answers++
		if err == nil {
			votes[value]++
		}
	}
	quorum := len(r.clients)/2 + 1
	for value, n := range votes {
		if n >= quorum {
			return parseOwner(value), nil
		}
	}
	if answers < quorum {
		return LeaseHolder{}, fmt.Errorf("look up the lease on %s: %w", resource, errors.Join(failures...))
	}
	return LeaseHolder{}, ErrLeaseFree
}

// Servers asks all servers at once whether they answer, and counts those that do.
// One with replicas, or a cluster, counts as one.
func (r *RedisLeaser) Servers(ctx context.Context) (up, all int) {
	answers := make(chan error, len(r.clients))
	for _, c := range r.clients {
		go func() { answers <- c.Ping(ctx).Err() }()
	}
	for range r.clients {
		if <-answers == nil {
			up++
		}
	}
	return up, len(r.clients)
}

// newOwner is a value that no other lease has: when it was taken by the holder's
// clock, a random part, and who took it.
func newOwner(name string) string {
	return strconv.FormatInt(time.Now().UnixMilli(), 10) + " " + rand.Text() + " " + name
}

func parseOwner(value string) LeaseHolder {
	at, rest, _ := strings.Cut(value, " ")
	_, name, ok := strings.Cut(rest, " ")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !ok { // of an older worker
		return LeaseHolder{Owner: value}
	}
	return LeaseHolder{Owner: name, Since: time.UnixMilli(ms).UTC()}
}
