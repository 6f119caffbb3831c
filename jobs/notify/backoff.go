package notify

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// waits are how long a delivery waits after each attempt that failed: about a
// day in all. After the last one it is dead.
var waits = [...]time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 8 * time.Hour,
}

// longestWait bounds how long a target may ask to be left alone (Retry-After).
const longestWait = 8 * time.Hour

// result is what came of one attempt to send.
type result struct {
	ok        bool
	status    int
	err       string
	answer    string
	after     time.Duration // not before that: the target asked to be left alone, or the deliverer lacks a key
	permanent bool          // trying again is of no use
	blameless bool          // it is the deliverer's: it stopped, or lacks a key
	gone      bool          // the target wants nothing more, ever
}

// outcome decides what a result means for the delivery; tries is which attempt it was.
func (r result) outcome(tries int) storage.DeliveryOutcome {
	o := storage.DeliveryOutcome{State: storage.DeliveryPending, Status: r.status, Error: r.err, Answer: r.answer, Blameless: r.blameless}
	switch {
	case r.ok:
		o.State, o.Error = storage.DeliveryDelivered, ""
	case r.blameless:
		o.Retry = r.after
	case r.gone:
		o.State, o.Disable = storage.DeliveryDead, "answered 410 Gone: it wants nothing more"
	case r.permanent || tries > len(waits):
		o.State = storage.DeliveryDead
	default:
		o.Retry = max(jitter(waits[max(tries, 1)-1]), min(r.after, longestWait))
	}
	return o
}

// jitter spreads what failed together: the wait, give or take a fifth.
func jitter(wait time.Duration) time.Duration { return wait - wait/5 + rand.N(2*wait/5) }

// retryAfter reads the header of RFC 9110 section 10.2.3: seconds, or a date, which
// is taken from the database's now; 0 when it says nothing that helps.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(longestWait.Seconds()))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), longestWait)
	}
	return 0
}
