package web

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// throttle lets each caller make so many requests in the long run and some at
// once: a bucket of tokens that fills steadily. Its memory is bounded: when too
// many callers are tracked, those whose buckets are full are forgotten, and when
// there are none, all are. It is safe for concurrent use.
type throttle struct {
	perSecond, burst float64
	now              func() time.Time

	mu      sync.Mutex
	buckets map[string]bucket
}

type bucket struct {
	left float64
	at   time.Time
}

// newThrottle lets so many requests a minute through, and a sixth of that at once; 0 is any number.
func newThrottle(perMinute int) *throttle {
	return &throttle{perSecond: float64(perMinute) / 60, burst: max(float64(perMinute)/6, 1), now: time.Now, buckets: map[string]bucket{}}
}

// take answers for how long a caller must wait; zero when the request may go on.
func (t *throttle) take(key string) time.Duration {
	if t.perSecond <= 0 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	b, known := t.buckets[key]
	if !known {
		if len(t.buckets) >= maxTracked {
			t.forget(now)
		}
		b = bucket{t.burst, now}
	}
	b = bucket{t.filled(b, now), now}
	defer func() { t.buckets[key] = b }()
	if b.left >= 1 {
		b.left--
		return 0
	}
	return time.Duration((1 - b.left) / t.perSecond * float64(time.Second))
}

func (t *throttle) filled(b bucket, now time.Time) float64 {
	return min(t.burst, b.left+now.Sub(b.at).Seconds()*t.perSecond)
}

func (t *throttle) forget(now time.Time) {
	for key, b := range t.buckets {
		if t.filled(b, now) >= t.burst {
			delete(t.buckets, key)
		}
	}
	if len(t.buckets) >= maxTracked {
		clear(t.buckets)
	}
}

// rateError says that a caller of the API has to wait.
type rateError struct{ wait time.Duration }

// Error says for how long.
func (e *rateError) Error() string {
	return fmt.Sprintf("More requests came than API_RATE allows. Wait %s and try again.", showDuration(max(e.wait.Round(time.Second), time.Second)))
}

// withinRate counts a request of the API. Pages are not counted: people who click are slow.
func (s *Server) withinRate(r *http.Request, who principal) error {
	if wait := s.rate.take(fmt.Sprint(who.token, who.user, who.name, who.scope)); wait > 0 {
		return &rateError{wait}
	}
	return nil
}
