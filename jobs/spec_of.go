package jobs

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// SpecOf is what would ask for the same job again, now: its work and how it is to
// run. When it is due, its idempotency key and its unique key belong to the first
// request alone and are left out. Sealed values are masked in jobs that people
// read, so they have to be put in again.
func SpecOf(job storage.Job) Spec {
	s := Spec{Kind: job.Kind, Tenant: job.Tenant, Payload: job.Payload, Priority: job.Priority, Tags: job.Tags, Backoff: backoffText(job.Backoff)}
	if job.Queue != "default" {
		s.Queue = job.Queue
	}
	usual := usualAttempts
	if job.RetryUntil != nil {
		usual = mostAttempts
		s.RetryFor = max(job.RetryUntil.Sub(job.CreatedAt).Round(time.Second), time.Second).String()
	}
	if job.MaxAttempts != usual && job.MaxAttempts > 0 {
		s.MaxAttempts = &job.MaxAttempts
	}
	if timeout := time.Duration(job.TimeoutSeconds) * time.Second; timeout > 0 && timeout != usualTimeout {
		s.Timeout = timeout.String()
	}
	return s
}

// backoffText is a rule as [Spec] writes it; empty for the usual one, and for one
// that only Go can say.
func backoffText(raw json.RawMessage) string {
	var b Backoff
	if len(raw) == 0 || json.Unmarshal(raw, &b) != nil {
		return ""
	}
	text := func(seconds float64) string { return time.Duration(seconds * float64(time.Second)).String() }
	switch {
	case len(b.Seconds) > 0 && b.Jitter == 0:
		waits := make([]string, len(b.Seconds))
		for i, s := range b.Seconds {
			waits[i] = text(s)
		}
		return strings.Join(waits, ",")
	case len(b.Seconds) == 0 && b.Factor == 2 && b.Jitter == 0.25:
		return fmt.Sprintf("exp:%s:%s", text(b.First), text(b.Max))
	}
	return ""
}
