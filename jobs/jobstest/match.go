package jobstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

// Sent is a job that was dispatched to a fake dispatcher.
type Sent struct {
	// Job is the row that the database would hold, with secret fields masked.
	Job storage.Job
	// Payload is what the handler would get, with secret fields as they were given.
	Payload json.RawMessage
	// Request is what was asked for, options included.
	Request storage.NewJob
	// InTx says that it was dispatched in a transaction of the caller's. A fake cannot know whether that was committed.
	InTx bool
	// Asked is how often it was asked for: more than once when a unique or idempotency key gave the job that was there.
	Asked int
}

// String is one line for people, without secrets.
func (s Sent) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.Job.Kind, s.Job.Payload)
	say := func(yes bool, format string, args ...any) {
		if yes {
			fmt.Fprintf(&b, " · "+format, args...)
		}
	}
	say(true, "queue %s", s.Job.Queue)
	say(s.Job.Tenant != "default", "tenant %s", s.Job.Tenant)
	say(len(s.Job.Tags) > 0, "tags %s", strings.Join(s.Job.Tags, ", "))
	say(s.Job.Priority != 0, "priority %d", s.Job.Priority)
	say(s.Request.Delay > 0, "delay %s", s.Request.Delay)
	say(!s.Request.At.IsZero(), "at %s", s.Request.At.Format(time.RFC3339))
	say(s.Request.IdempotencyKey != "", "idempotency key %q", s.Request.IdempotencyKey)
	say(s.Job.UniqueWhile != nil, "unique (%s)", s.Request.UniqueWhile)
	say(s.Job.ChainID != nil, "in a chain")
	say(s.Job.BatchID != nil, "in a batch")
	say(s.InTx, "in a transaction")
	say(s.Asked > 1, "asked for %d times", s.Asked)
	return b.String()
}

// Decode reads the payload.
func (s Sent) Decode(into any) error { return json.Unmarshal(s.Payload, into) }

// Matcher is a condition on a dispatched job.
type Matcher struct {
	says string
	is   func(Sent) bool
}

// That is a condition of the test's own, in its own words.
func That(says string, is func(Sent) bool) Matcher { return Matcher{says, is} }

// OnQueue wants the queue.
func OnQueue(name string) Matcher {
	return That("on queue "+name, func(s Sent) bool { return s.Job.Queue == name })
}

// OfTenant wants the tenant.
func OfTenant(name string) Matcher {
	return That("of tenant "+name, func(s Sent) bool { return s.Job.Tenant == name })
}

// Tagged wants all of these tags, among others.
func Tagged(words ...string) Matcher {
	return That("tagged "+strings.Join(words, ", "), func(s Sent) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(s.Job.Tags, w) })
	})
}

// WithPriority wants the priority.
func WithPriority(p int) Matcher {
	return That(fmt.Sprintf("with priority %d", p), func(s Sent) bool { return s.Job.Priority == p })
}

// Delayed wants the delay that was asked for; zero for none.
func Delayed(d time.Duration) Matcher {
	return That("delayed by "+d.String(), func(s Sent) bool { return s.Request.Delay == d && s.Request.At.IsZero() })
}

// DueAt wants the time that was asked for.
func DueAt(t time.Time) Matcher {
	return That("due at "+t.Format(time.RFC3339Nano), func(s Sent) bool { return s.Request.At.Equal(t) })
}

// WithMaxAttempts wants the bound of failures.
func WithMaxAttempts(n int) Matcher {
	return That(fmt.Sprintf("with %s at most", count.Of(n, "attempt")), func(s Sent) bool { return s.Job.MaxAttempts == n })
}

// WithIdempotencyKey wants the key.
func WithIdempotencyKey(key string) Matcher {
	return That(fmt.Sprintf("with idempotency key %q", key), func(s Sent) bool { return s.Request.IdempotencyKey == key })
}

// InTransaction wants a job that was dispatched in a transaction of the caller's.
func InTransaction() Matcher {
	return That("in a transaction", func(s Sent) bool { return s.InTx })
}

// InBatch wants a job of the batch.
func InBatch(id uuid.UUID) Matcher {
	return That("in batch "+id.String(), func(s Sent) bool { return s.Job.BatchID != nil && *s.Job.BatchID == id })
}

// WithPayload wants this payload and nothing else, whatever the order of its
// fields: JSON as bytes, or a value that encodes to it.
func WithPayload(payload any) Matcher {
	raw, err := rawOf(payload)
	return That("with payload "+saying(raw, err), func(s Sent) bool {
		return err == nil && reflect.DeepEqual(valueOf(raw), valueOf(s.Payload))
	})
}

// WithFields wants a payload in which these fields have these values, at any depth;
// what else it holds does not matter. Lists are compared as a whole.
func WithFields(fields any) Matcher {
	raw, err := rawOf(fields)
	return That("with fields "+saying(raw, err), func(s Sent) bool {
		return err == nil && holds(valueOf(s.Payload), valueOf(raw))
	})
}

// Where wants a payload, decoded into T, for which the function says yes.
func Where[T any](says string, is func(T) bool) Matcher {
	return That("where "+says, func(s Sent) bool {
		var v T
		return s.Decode(&v) == nil && is(v)
	})
}

// rawOf is a payload as JSON.
func rawOf(payload any) (json.RawMessage, error) {
	switch p := payload.(type) {
	case json.RawMessage:
		return p, nil
	case []byte:
		return p, nil
	case string:
		return json.RawMessage(p), nil
	case nil:
		return json.RawMessage("{}"), nil
	}
	return json.Marshal(payload)
}

func saying(raw json.RawMessage, err error) string {
	if err != nil {
		return "that is no JSON: " + err.Error()
	}
	return string(raw)
}

// valueOf decodes JSON with its numbers as they are written.
func valueOf(raw json.RawMessage) any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return fmt.Errorf("no JSON: %s", raw) // equal to nothing
	}
	return v
}

func holds(whole, part any) bool {
	want, ok := part.(map[string]any)
	if !ok {
		return reflect.DeepEqual(whole, part)
	}
	have, ok := whole.(map[string]any)
	if !ok {
		return false
	}
	for name, v := range want {
		if w, there := have[name]; !there || !holds(w, v) {
			return false
		}
	}
	return true
}
