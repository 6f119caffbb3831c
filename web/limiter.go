package web

import (
	"context"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/fenceline/fenceline/jobs"
)

// maxTracked bounds how many addresses or names a limiter remembers.
const maxTracked = 4096

// limiter counts failures per address, or per name, in windows of time. With a
// tally it counts together with the other processes, and for itself besides: that
// holds while the tally gives no answer. Its memory is bounded: when too many
// addresses are tracked, those whose window is over are forgotten, and when there
// are none, all are. It is safe for concurrent use.
type limiter struct {
	name   string // tells its counts from those of others
	most   int
	window time.Duration
	shared *jobs.Tally // nil: every process counts for itself
	now    func() time.Time

	mu   sync.Mutex
	seen map[string]tally
}

type tally struct {
	count int
	ends  time.Time
}

func newLimiter(name string, most int, window time.Duration, shared *jobs.Tally) *limiter {
	return &limiter{name: name, most: most, window: window, shared: shared, now: time.Now, seen: map[string]tally{}}
}

// together is what all processes say, or what this one says when they cannot be asked.
func (l *limiter) together(ctx context.Context, key string, most, n int, own time.Duration) time.Duration {
	if l.shared == nil {
		return own
	}
	wait, err := l.shared.Add(ctx, l.name+" "+key, most, l.window, n)
	if err != nil {
		return own
	}
	return wait
}

// blocked answers for how long an address must wait; zero when it need not.
func (l *limiter) blocked(ctx context.Context, key string) time.Duration {
	l.mu.Lock()
	t, now := l.seen[key], l.now()
	l.mu.Unlock()
	own := time.Duration(0)
	if t.count >= l.most && now.Before(t.ends) {
		own = t.ends.Sub(now)
	}
	return l.together(ctx, key, l.most, 0, own)
}

// failed counts a failure.
func (l *limiter) failed(ctx context.Context, key string) {
	l.mu.Lock()
	l.count(key)
	l.mu.Unlock()
	l.together(ctx, key, math.MaxInt32, 1, 0)
}

// take counts a try before its outcome is known, or answers for how long to wait.
func (l *limiter) take(ctx context.Context, key string) time.Duration {
	if l.shared != nil {
		if wait, err := l.shared.Add(ctx, l.name+" "+key, l.most, l.window, 1); err == nil {
			if wait == 0 {
				_ = l.takeOwn(key) // for when the tally is away
			}
			return wait
		}
	}
	return l.takeOwn(key)
}

func (l *limiter) takeOwn(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, now := l.seen[key], l.now()
	if t.count >= l.most && now.Before(t.ends) {
		return t.ends.Sub(now)
	}
	l.count(key)
	return 0
}

// giveBack takes back what [limiter.take] counted, because the try was none that failed.
func (l *limiter) giveBack(ctx context.Context, key string) {
	l.mu.Lock()
	if t := l.seen[key]; t.count > 0 {
		t.count--
		l.seen[key] = t
	}
	l.mu.Unlock()
	l.together(ctx, key, math.MaxInt32, -1, 0)
}

// clear forgets what was counted.
func (l *limiter) clear(ctx context.Context, key string) {
	l.mu.Lock()
	delete(l.seen, key)
	l.mu.Unlock()
	if l.shared != nil {
		_ = l.shared.Clear(ctx, l.name+" "+key) // else its window ends soon
	}
}

func (l *limiter) count(key string) {
	now := l.now()
	t, known := l.seen[key]
	if !known && len(l.seen) >= maxTracked {
		l.forget(now)
	}
	if !now.Before(t.ends) {
		t = tally{ends: now.Add(l.window)}
	}
	t.count++
	l.seen[key] = t
}

func (l *limiter) forget(now time.Time) {
	for key, t := range l.seen {
		if !now.Before(t.ends) {
			delete(l.seen, key)
		}
	}
	if len(l.seen) >= maxTracked {
		clear(l.seen)
	}
}

// clientKey is what an address is counted under: itself, or the /64 of an IPv6
// address, of which one customer usually has all.
func clientKey(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	prefix, err := ip.Prefix(64)
	if err != nil {
		return ip.String()
	}
	return prefix.String()
}
