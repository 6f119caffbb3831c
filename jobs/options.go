package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// Option changes how a job runs.
type Option func(*storage.NewJob)

// Queue chooses the queue; "default" otherwise. A worker must serve it.
func Queue(name string) Option { return func(n *storage.NewJob) { n.Queue = name } }

// Priority lets a job run before those of its queue with a lower one, from -100 to
// 100; 0 otherwise. What runs already is not interrupted.
func Priority(p int) Option { return func(n *storage.NewJob) { n.Priority = p } }

// Tags are words to find the job by.
func Tags(words ...string) Option {
	return func(n *storage.NewJob) { n.Tags = append(n.Tags, words...) }
}

// Delay lets the job wait before it is due.
func Delay(d time.Duration) Option { return func(n *storage.NewJob) { n.Delay = d } }

// At is when the job is due; a time that is over means now.
func At(t time.Time) Option { return func(n *storage.NewJob) { n.At = t } }

// MaxAttempts is how often the job may fail before it is failed; 3 otherwise.
// Waiting, hand-overs and crashed workers do not count.
func MaxAttempts(n int) Option { return func(j *storage.NewJob) { j.MaxAttempts = n } }

const (
	usualAttempts = 3
	mostAttempts  = 1000
	usualTimeout  = time.Hour
)

// RetryUntil ends trying again at a time, and until then the job is tried as often
// as fits, unless [MaxAttempts] comes after it.
func RetryUntil(t time.Time) Option {
	return func(n *storage.NewJob) { n.RetryUntil, n.MaxAttempts = t, mostAttempts }
}

// RetryFor is [RetryUntil] for a time from now, by the database's clock.
func RetryFor(d time.Duration) Option {
	return func(n *storage.NewJob) { n.RetryFor, n.MaxAttempts = d, mostAttempts }
}

// BackoffFixed waits for the same time after each failure.
func BackoffFixed(d time.Duration) Option { return BackoffList(d) }

// BackoffList waits for these times after the first, second, … failure; the last one stays.
func BackoffList(waits ...time.Duration) Option {
	b := Backoff{}
	for _, d := range waits {
		b.Seconds = append(b.Seconds, d.Seconds())
	}
	return WithBackoff(b)
}

// BackoffExponential waits for first, then twice as long each time, up to most,
// with a quarter of jitter. The usual is from two seconds to ten minutes.
func BackoffExponential(first, most time.Duration) Option {
	return WithBackoff(Backoff{First: first.Seconds(), Factor: 2, Max: most.Seconds(), Jitter: 0.25})
}

// WithBackoff sets the rule itself.
func WithBackoff(b Backoff) Option {
	return func(n *storage.NewJob) { n.Backoff, _ = json.Marshal(b) } // NaN and the like are refused by the check: it finds nothing
}

// Timeout bounds each attempt; an hour otherwise. Whole seconds.
func Timeout(d time.Duration) Option { return func(n *storage.NewJob) { n.Timeout = d } }

// IdempotencyKey makes repeated requests one job: the same key (in its tenant)
// with the same kind and payload gives the job that is there, with another one
// it is refused with [storage.ErrKeyReused].
func IdempotencyKey(key string) Option {
	return func(n *storage.NewJob) { n.IdempotencyKey = key }
}

// UniqueWhilePending gives the job that is there instead of a second one with the
// same key (in its tenant and kind), until its first run begins. Without a key
// the payload, the export and who asks are the key.
func UniqueWhilePending(key string) Option { return unique("pending", key, 0) }

// UniqueWhileActive is [UniqueWhilePending] until the job has ended. It derives
// from the row that waits or runs: no lock is left behind by whatever dies.
func UniqueWhileActive(key string) Option { return unique("active", key, 0) }

// UniqueFor is [UniqueWhilePending] for a time from now, whatever becomes of the
// job, unless it is cancelled.
func UniqueFor(d time.Duration, key string) Option { return unique("period", key, d) }

func unique(how, key string, d time.Duration) Option {
	return func(n *storage.NewJob) { n.UniqueWhile, n.UniqueKey, n.UniqueFor = how, key, d }
}

// Debounce waits until the same was not asked for during quiet, at most for most in
// all, and then does it once, with the newest payload. Without a key it is the
// export, or for a plain job all of its kind and tenant.
func Debounce(quiet, most time.Duration, key string) Option {
	return func(n *storage.NewJob) {
		n.UniqueWhile, n.UniqueKey, n.Delay, n.Debounce = "pending", key, quiet, most
	}
}

// InBatch puts the job into a batch.
func InBatch(id uuid.UUID) Option { return func(n *storage.NewJob) { n.Batch = &id } }

// RequestedBy records who asked.
func RequestedBy(who string) Option { return func(n *storage.NewJob) { n.RequestedBy = who } }

// finishUnique gives a unique key its scope: a key never answers for another
// export, and without a key who asks belongs to it.
func finishUnique(n *storage.NewJob) {
	if n.UniqueWhile == "" {
		return
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", n.Key, n.UniqueKey)
	if n.UniqueKey == "" && n.Debounce == 0 {
		fmt.Fprintf(h, "%q %d\n%s", n.RequestedBy, n.PayloadVersion, n.Payload)
	}
	prefix := n.UniqueKey
	if prefix != "" {
		prefix = "key " + prefix + " "
	}
	n.UniqueKey = prefix + hex.EncodeToString(h.Sum(nil)[:16])
}

// namePattern is what names of tenants and queues may look like. They are never
// part of a path or a statement; the bounds keep them readable.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// CheckName refuses a name of a tenant or queue that is none.
func CheckName(field, name string) error {
	if !namePattern.MatchString(name) {
		return invalid.New(field, name, "must be 1 to 63 letters, digits, dots, hyphens or underscores")
	}
	return nil
}

const (
	longest     = 365 * 24 * time.Hour
	mostTags    = 20
	longestTag  = 100
	mostBackoff = 100
)

func checkJob(n storage.NewJob, export bool) error {
	refused := new(invalid.Error)
	merge := func(err error) {
		if joined := invalid.Join(refused.OrNil(), err); joined != nil {
			refused, _ = joined.(*invalid.Error)
		}
	}
	merge(CheckName("tenant", n.Tenant))
	merge(CheckName("queue", n.Queue))
	if export && (n.Key == "" || len(n.Key) > 2000 || !utf8.ValidString(n.Key)) {
		refused.Add("key", n.Key, "must be 1 to 2000 bytes of UTF-8")
	}
	if k := n.IdempotencyKey; badText(k, 255) {
		refused.Add("idempotency_key", k, "must be at most 255 bytes of UTF-8")
	}
	if n.MaxAttempts < 1 || n.MaxAttempts > mostAttempts {
		refused.Add("max_attempts", fmt.Sprint(n.MaxAttempts), "must be 1 to 1000")
	}
	if n.Timeout < time.Second || n.Timeout > 7*24*time.Hour {
		refused.Add("timeout", n.Timeout.String(), "must be from a second to a week")
	}
	if n.Priority < -100 || n.Priority > 100 {
		refused.Add("priority", fmt.Sprint(n.Priority), "must be -100 to 100")
	}
	checkTimes(refused, n)
	checkTags(refused, n.Tags)
	checkUnique(refused, n)
	checkBackoff(refused, n.Backoff)
	return refused.OrNil()
}

func badText(s string, most int) bool {
	return len(s) > most || !utf8.ValidString(s) || strings.ContainsRune(s, 0)
}

func checkTimes(refused *invalid.Error, n storage.NewJob) {
	if n.Delay < 0 || n.Delay > longest {
		refused.Add("delay", n.Delay.String(), "must be from zero to a year")
	}
	if n.Delay > 0 && !n.At.IsZero() {
		refused.Add("at", n.At.Format(time.RFC3339), "and a delay cannot both be given")
	}
	if y := n.At.Year(); !n.At.IsZero() && (y < 2000 || y > 2200) {
		refused.Add("at", n.At.Format(time.RFC3339), "must be in the years 2000 to 2200")
	}
	if n.RetryFor < 0 || n.RetryFor > longest {
		refused.Add("retry_for", n.RetryFor.String(), "must be from zero to a year")
	}
	if y := n.RetryUntil.Year(); !n.RetryUntil.IsZero() && (y < 2000 || y > 2200) {
		refused.Add("retry_until", n.RetryUntil.Format(time.RFC3339), "must be in the years 2000 to 2200")
	}
}

func checkTags(refused *invalid.Error, tags []string) {
	if len(tags) > mostTags {
		refused.Add("tags", "", "are %d, %d are allowed", len(tags), mostTags)
	}
	for i, t := range tags {
		if t == "" || badText(t, longestTag) {
			refused.Add(fmt.Sprintf("tags[%d]", i), t, "must be 1 to %d bytes of UTF-8", longestTag)
		}
	}
}

func checkUnique(refused *invalid.Error, n storage.NewJob) {
	if badText(n.UniqueKey, 500) {
		refused.Add("unique_key", n.UniqueKey, "must be at most 500 bytes of UTF-8")
	}
	if n.UniqueWhile == "period" && (n.UniqueFor < time.Second || n.UniqueFor > longest) {
		refused.Add("unique_for", n.UniqueFor.String(), "must be from a second to a year")
	}
	if n.Debounce != 0 && (n.Debounce < n.Delay || n.Debounce > longest || n.Delay <= 0) {
		refused.Add("debounce", n.Delay.String()+" / "+n.Debounce.String(), "must be a time of quiet above zero, and a bound that is not shorter, up to a year")
	}
	if n.Debounce != 0 && n.IdempotencyKey != "" {
		refused.Add("debounce", "", "and an idempotency key exclude each other: a debounced job is the same job with a newer payload")
	}
	if n.UniqueWhile != "" && (n.After != nil || n.Debounce != 0 && n.Batch != nil) {
		refused.Add("unique", "", "does not go with a chain, nor debounce with a batch")
	}
}

func checkBackoff(refused *invalid.Error, raw json.RawMessage) {
	if raw == nil {
		return
	}
	var b Backoff
	if err := json.Unmarshal(raw, &b); err != nil {
		refused.Add("backoff", "", "is not valid JSON: %s", err)
		return
	}
	bad := len(b.Seconds) > mostBackoff || len(b.Seconds) == 0 && (b.First <= 0 || b.Factor < 1 || b.Max < b.First || b.Max > longest.Seconds()) || b.Jitter < 0 || b.Jitter > 1
	for _, s := range b.Seconds {
		bad = bad || s < 0 || s > longest.Seconds()
	}
	if bad {
		refused.Add("backoff", string(raw), "must be up to %d waits in seconds (at most a year), or first > 0, factor >= 1, max >= first, and a jitter from 0 to 1", mostBackoff)
	}
}
