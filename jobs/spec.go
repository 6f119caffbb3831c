package jobs

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
)

// Spec asks for a job in JSON: one form for files, the command line and the API.
// Times that last are written as Go writes them, such as 90s or 2h30m; moments
// as in RFC 3339. What is empty is not said. [Spec.Item] checks it.
type Spec struct {
	Kind     string          `json:"kind"`
	Tenant   string          `json:"tenant,omitempty"`
	Payload  json.RawMessage `json:"payload,omitempty"`
	Queue    string          `json:"queue,omitempty"`
	Priority int             `json:"priority,omitempty"`
	Tags     []string        `json:"tags,omitempty"`
	Delay    string          `json:"delay,omitempty"`
	At       string          `json:"at,omitempty"`
	// MaxAttempts is nil for the usual.
	MaxAttempts *int `json:"max_attempts,omitempty"`
	// Backoff is one wait (5s), a list (1s,10s,60s), or exp:FIRST:MOST.
	Backoff        string `json:"backoff,omitempty"`
	RetryUntil     string `json:"retry_until,omitempty"`
	RetryFor       string `json:"retry_for,omitempty"`
	Timeout        string `json:"timeout,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Unique is pending, active, or for how long.
	Unique    string `json:"unique,omitempty"`
	UniqueKey string `json:"unique_key,omitempty"`
	// Debounce is QUIET:MOST, such as 30s:5m.
	Debounce    string `json:"debounce,omitempty"`
	DebounceKey string `json:"debounce_key,omitempty"`
}

// Fields are the fields by their names in JSON, to be read into.
func (s *Spec) Fields() map[string]any {
	return map[string]any{
		"kind": &s.Kind, "tenant": &s.Tenant, "payload": &s.Payload, "queue": &s.Queue, "priority": &s.Priority, "tags": &s.Tags,
		"delay": &s.Delay, "at": &s.At, "max_attempts": &s.MaxAttempts, "backoff": &s.Backoff, "retry_until": &s.RetryUntil,
		"retry_for": &s.RetryFor, "timeout": &s.Timeout, "idempotency_key": &s.IdempotencyKey, "unique": &s.Unique,
		"unique_key": &s.UniqueKey, "debounce": &s.Debounce, "debounce_key": &s.DebounceKey,
	}
}

// ParseSpec reads a spec strictly. Refused fields are an [*invalid.Error]; field
// is the path of the whole, such as jobs[3], or empty.
func ParseSpec(raw []byte, field string) (Spec, error) {
	var s Spec
	prefix, what := "", "job"
	if field != "" {
		prefix, what = field+".", field
	}
	return s, invalid.Object(raw, what, prefix, s.Fields())
}

// Item is the request with its options. What is not written as it should be is an
// [*invalid.Error]; whether the values fit is seen by the [Dispatcher].
func (s Spec) Item() (Item, error) {
	r := &specReader{}
	item := Item{Request: Request{Kind: s.Kind, Tenant: s.Tenant, Payload: s.Payload}}
	add := func(yes bool, o Option) {
		if yes {
			item.Options = append(item.Options, o)
		}
	}
	add(s.Queue != "", Queue(s.Queue))
	add(s.Priority != 0, Priority(s.Priority))
	add(len(s.Tags) > 0, Tags(s.Tags...))
	add(s.Delay != "", Delay(r.span("delay", s.Delay)))
	add(s.At != "", At(r.moment("at", s.At)))
	add(s.RetryUntil != "", RetryUntil(r.moment("retry_until", s.RetryUntil)))
	add(s.RetryFor != "", RetryFor(r.span("retry_for", s.RetryFor)))
	if s.MaxAttempts != nil { // after those that would change it
		add(true, MaxAttempts(*s.MaxAttempts))
	}
	add(s.Backoff != "", r.backoff(s.Backoff))
	add(s.Timeout != "", Timeout(r.span("timeout", s.Timeout)))
	add(s.IdempotencyKey != "", IdempotencyKey(s.IdempotencyKey))
	add(s.Unique != "", r.unique(s))
	add(s.Debounce != "", r.debounce(s))
	r.alone("unique_key", s.UniqueKey, s.Unique, "unique")
	r.alone("debounce_key", s.DebounceKey, s.Debounce, "debounce")
	if s.Debounce != "" && (s.Unique != "" || s.Delay != "" || s.At != "") {
		r.refused.Add("debounce", s.Debounce, "does not go with unique, delay or at: it says itself when the job runs")
	}
	if s.RetryUntil != "" && s.RetryFor != "" {
		r.refused.Add("retry_until", s.RetryUntil, "and retry_for cannot both be given")
	}
	return item, r.refused.OrNil()
}

// specReader reads the texts of a spec and keeps what is wrong with them.
type specReader struct{ refused invalid.Error }

func (r *specReader) span(field, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil && text != "" {
		r.refused.Add(field, text, "must be a duration such as 30s, 15m or 2h30m")
	}
	return d
}

func (r *specReader) moment(field, text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil && text != "" {
		r.refused.Add(field, text, "must be a time such as 2026-12-24T18:00:00+01:00 (RFC 3339)")
	}
	return t
}

func (r *specReader) backoff(text string) Option {
	if rest, ok := strings.CutPrefix(text, "exp:"); ok {
		first, most, found := strings.Cut(rest, ":")
		if !found {
			r.refused.Add("backoff", text, "must be exp:FIRST:MOST, such as exp:2s:10m")
		}
		return BackoffExponential(r.span("backoff", first), r.span("backoff", most))
	}
	var waits []time.Duration
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" && text != "" {
			r.refused.Add("backoff", text, "must be one wait (5s), a list (1s,10s,60s) or exp:2s:10m")
			break
		}
		waits = append(waits, r.span("backoff", part))
	}
	return BackoffList(waits...)
}

func (r *specReader) unique(s Spec) Option {
	switch s.Unique {
	case "pending":
		return UniqueWhilePending(s.UniqueKey)
	case "active":
		return UniqueWhileActive(s.UniqueKey)
	}
	d, err := time.ParseDuration(s.Unique)
	if err != nil && s.Unique != "" {
		r.refused.Add("unique", s.Unique, "must be pending, active, or for how long, such as 30m")
	}
	return UniqueFor(d, s.UniqueKey)
}

func (r *specReader) debounce(s Spec) Option {
	quiet, most, found := strings.Cut(s.Debounce, ":")
	if !found && s.Debounce != "" {
		r.refused.Add("debounce", s.Debounce, "must be QUIET:MOST, such as 30s:5m")
	}
	return Debounce(r.span("debounce", quiet), r.span("debounce", most), s.DebounceKey)
}

func (r *specReader) alone(field, value, other, needs string) {
	if value != "" && other == "" {
		r.refused.Add(field, value, "needs %s beside it", needs)
	}
}

// ParseSpecs reads a list of specs, each at its place under field; at most twenty problems are named.
func ParseSpecs(list []json.RawMessage, field string) ([]Item, error) {
	items := make([]Item, len(list))
	all := new(invalid.Error)
	for i, raw := range list {
		var err error
		if items[i], err = parseItem(raw, fmt.Sprintf("%s[%d]", field, i)); err != nil {
			joined, ok := invalid.Join(all.OrNil(), err).(*invalid.Error)
			if !ok {
				return nil, err
			}
			if all = joined; len(all.Problems) >= 20 {
				break
			}
		}
	}
	return items, all.OrNil()
}

func parseItem(raw []byte, field string) (Item, error) {
	s, err := ParseSpec(raw, field)
	if err != nil {
		return Item{}, err
	}
	item, err := s.Item()
	return item, under(field+".", err)
}

// under puts a path before the fields that an error names.
func under(prefix string, err error) error {
	bad, ok := err.(*invalid.Error) //nolint:errorlint // it was made here
	if !ok {
		return err
	}
	for i := range bad.Problems {
		bad.Problems[i].Field = prefix + bad.Problems[i].Field
	}
	return bad
}

// ParseBatch reads {tenant, title, key, jobs, chains, then, catch, finally, allow_failures},
// whose jobs are as in [Spec].
func ParseBatch(raw []byte) (BatchRequest, error) {
	var r BatchRequest
	var then, catch, finally json.RawMessage
	var specs []json.RawMessage
	var chains [][]json.RawMessage
	err := invalid.Object(raw, "batch", "", map[string]any{
		"tenant": &r.Tenant, "title": &r.Title, "key": &r.Key, "jobs": &specs, "chains": &chains, "allow_failures": &r.AllowFailures,
		"then": &then, "catch": &catch, "finally": &finally,
	})
	if err != nil {
		return r, err
	}
	refused := make([]error, 0, len(chains)+4)
	keep := func(err error) { refused = append(refused, err) }
	r.Jobs, err = ParseSpecs(specs, "jobs")
	keep(err)
	for i, c := range chains {
		items, err := ParseSpecs(c, fmt.Sprintf("chains[%d]", i))
		keep(err)
		r.Chains = append(r.Chains, items)
	}
	for _, call := range []struct {
		field string
		raw   json.RawMessage
		into  **Item
	}{{"then", then, &r.Then}, {"catch", catch, &r.Catch}, {"finally", finally, &r.Finally}} {
		if call.raw != nil {
			item, err := parseItem(call.raw, call.field)
			keep(err)
			*call.into = &item
		}
	}
	return r, invalid.Join(refused...)
}

// ParseChain reads {tenant, jobs}, whose jobs are as in [Spec]; the tenant is for those that name none.
func ParseChain(raw []byte) (tenant string, items []Item, err error) {
	var specs []json.RawMessage
	if err := invalid.Object(raw, "chain", "", map[string]any{"tenant": &tenant, "jobs": &specs}); err != nil {
		return "", nil, err
	}
	items, err = ParseSpecs(specs, "jobs")
	for i := range items {
		if items[i].Tenant == "" {
			items[i].Tenant = tenant
		}
	}
	return tenant, items, err
}
