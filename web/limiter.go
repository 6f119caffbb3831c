package web

import (
	"net/netip"
	"sync"
	"time"
)

// maxTracked bounds how many addresses or names a limiter remembers.
const maxTracked = 4096

// limiter counts failures per address, or per name, in windows of time. Its memory is bounded:
// when too many addresses are tracked, those whose window is over are forgotten,
// and when there are none, all are. It is safe for concurrent use.
type limiter struct {
	most   int
	window time.Duration
	now    func() time.Time

	mu   sync.Mutex
	seen map[string]tally
}

type tally struct {
	count int
	ends  time.Time
}

func newLimiter(most int, window time.Duration) *limiter {
	return &limiter{most: most, window: window, now: time.Now, seen: map[string]tally{}}
}

// blocked answers for how long an address must wait; zero when it need not.
func (l *limiter) blocked(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, now := l.seen[key], l.now()
	if t.count < l.most || !now.Before(t.ends) {
		return 0
	}
	return t.ends.Sub(now)
}

// failed counts a failure.
func (l *limiter) failed(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(key)
}

// take counts a try before its outcome is known, or answers for how long to wait.
func (l *limiter) take(key string) time.Duration {
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
func (l *limiter) giveBack(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.seen[key]; t.count > 0 {
		t.count--
		l.seen[key] = t
	}
}

// clear forgets what was counted.
func (l *limiter) clear(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, key)
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
