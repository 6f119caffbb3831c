package jobs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/storage"
)

// DefaultTenant is the tenant of requests that name none.
const DefaultTenant = "default"

// maxPayload bounds a payload, in bytes.
const maxPayload = 1 << 20

// Request asks for an export.
type Request struct {
	Kind    string          // report, invoice, or one that the program registered
	Tenant  string          // empty is [DefaultTenant]
	Payload json.RawMessage // the kind's own, in its newest version
}

// Receipt is the answer to a request that was accepted: the job is in the
// database (once the transaction commits) and will come to an end.
type Receipt struct {
	Job storage.Job
	// Reused says that the idempotency key named a job that was there already.
	Reused bool
}

// Dispatcher accepts requests (step 1). It is safe for concurrent use.
//
// It writes to PostgreSQL only. When the row is committed, PostgreSQL itself
// tells the relays, and they ring the bell in Redis: so a dispatch inside a
// caller's transaction needs no hook after the commit, and a Redis that is down
// delays jobs but refuses none.
type Dispatcher struct {
	store    Sink
	registry *Registry
	inserts  *inserts // nil when the sink is no store
}

// Sink is where a [Dispatcher] puts what it has checked: a [*storage.Store], or
// the memory of a test (package jobstest). Errors and what answers for a job that
// is there already are those of the store.
type Sink interface {
	// Transaction runs fn in a transaction of its own; a memory may give it nil.
	Transaction(ctx context.Context, fn func(storage.Tx) error) error
	InsertJob(ctx context.Context, tx storage.Tx, n storage.NewJob) (job storage.Job, created bool, err error)
	InsertJobs(ctx context.Context, tx storage.Tx, list []storage.NewJob) ([]storage.Inserted, error)
	CreateBatch(ctx context.Context, tx storage.Tx, b storage.Batch) (storage.Batch, error)
	// JobIn reads a job, also one that tx has inserted.
	JobIn(ctx context.Context, tx storage.Tx, id uuid.UUID) (storage.Job, error)
}

// NewDispatcher prepares a dispatcher for the kinds of a registry.
func NewDispatcher(store *storage.Store, registry *Registry) *Dispatcher {
	d := NewDispatcherInto(store, registry)
	d.inserts = &inserts{store: store}
	return d
}

// NewDispatcherInto is [NewDispatcher] for a sink that need not be a database.
func NewDispatcherInto(sink Sink, registry *Registry) *Dispatcher {
	return &Dispatcher{store: sink, registry: registry}
}

// Kinds lists the kinds that can be dispatched.
func (d *Dispatcher) Kinds() []string { return d.registry.Names() }

// Check refuses a request as Dispatch would, and inserts nothing.
func (d *Dispatcher) Check(ctx context.Context, r Request) error {
	_, err := d.prepare(ctx, r, nil)
	return err
}

// Dispatch checks a request and inserts its job in the caller's transaction tx,
// or in one of its own when tx is nil. What is wrong with the request is an
// [*invalid.Error] that names the fields; nothing was inserted then.
func (d *Dispatcher) Dispatch(ctx context.Context, tx storage.Tx, r Request, options ...Option) (Receipt, error) {
	job, err := d.prepare(ctx, r, options)
	if err != nil {
		return Receipt{}, err
	}
	var receipt Receipt
	if tx == nil && job.Batch == nil && d.inserts != nil {
		receipt, err = d.insertAlone(ctx, job)
	} else {
		err = d.in(ctx, tx, func(tx storage.Tx) error {
			j, created, err := d.store.InsertJob(ctx, tx, job)
			if err == nil && !created {
				err = d.registry.sameSecrets(job, j)
			}
			receipt = Receipt{Job: masked(j), Reused: !created}
			return err
		})
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("dispatch %s: %w", r.Kind, err)
	}
	return receipt, nil
}

// insertAlone inserts a job together with those that others dispatch in the same
// instant: one round trip and one commit for all, and each has its own answer.
func (d *Dispatcher) insertAlone(ctx context.Context, n storage.NewJob) (Receipt, error) {
	in, err := d.inserts.do(ctx, n)
	if err != nil {
		return Receipt{}, err
	}
	if in.Created {
		return Receipt{Job: masked(in.Job)}, nil
	}
	there, err := d.store.JobIn(ctx, nil, in.ID)
	if err == nil {
		err = d.registry.sameSecrets(n, there)
	}
	return Receipt{Job: masked(there), Reused: true}, err
}

// in runs fn in the caller's transaction, or in one of its own when there is none.
func (d *Dispatcher) in(ctx context.Context, tx storage.Tx, fn func(storage.Tx) error) error {
	if tx != nil {
		return fn(tx)
	}
	return d.store.Transaction(ctx, fn)
}

func (d *Dispatcher) prepare(ctx context.Context, r Request, options []Option) (storage.NewJob, error) {
	kind, err := d.registry.kind(r.Kind)
	if err != nil {
		return storage.NewJob{}, err
	}
	if len(r.Payload) > maxPayload {
		return storage.NewJob{}, invalid.New("payload", "", "has %d bytes, %d are allowed", len(r.Payload), maxPayload)
	}
	payload, err := canonicalJSON(r.Payload)
	if err != nil {
		return storage.NewJob{}, err
	}
	tenant := cmp.Or(r.Tenant, DefaultTenant)
	hidden, err := d.registry.findSecrets(kind, payload)
	if err != nil {
		return storage.NewJob{}, err
	}
	task, err := kind.Decode(Payload{Version: kind.Version, Tenant: tenant, Body: payload})
	if err != nil {
		return storage.NewJob{}, hidden.Error(err)
	}
	job := storage.NewJob{
		Tenant: tenant, Kind: kind.Name, Key: task.Key, Title: task.Title, Queue: "default",
		Payload: payload, PayloadVersion: kind.Version, MaxAttempts: usualAttempts, MaxCrashes: 5, Timeout: usualTimeout,
	}
	for _, o := range options {
		o(&job)
	}
	job.Payload = hidden.masked // what follows is kept or shown: it must not tell secrets
	job.RequestHash = requestHash(job)
	if err := checkJob(job, task.Render != nil); err != nil {
		return job, hidden.Error(err)
	}
	finishUnique(&job)
	if err := d.registry.sealSecrets(kind, &job, hidden); err != nil || task.Check == nil {
		return job, err
	}
	return job, hidden.Error(task.Check(ctx)) // last: it asks others
}

// requestHash covers what an idempotency key stands for.
func requestHash(n storage.NewJob) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q %d\n", n.Kind, n.PayloadVersion)
	h.Write(n.Payload)
	return h.Sum(nil)
}

// canonicalJSON is the payload with its keys in order and its numbers as they
// were written, so that two spellings of the same request are the same request.
func canonicalJSON(raw json.RawMessage) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil || v == nil {
		return nil, invalid.New("payload", "", "must be a JSON object")
	}
	if dec.More() {
		return nil, invalid.New("payload", "", "holds more than one JSON value")
	}
	if err := invalid.Twice(raw); err != nil {
		return nil, err
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the payload: %w", err)
	}
	nul, replaced := 0, 0
	eachText(v, func(text string) {
		nul += strings.Count(text, "\x00")
		replaced += strings.Count(text, "\ufffd")
	})
	if nul > 0 {
		return nil, invalid.New("payload", "", "holds the character U+0000, which PostgreSQL cannot store")
	}
	// The decoder puts U+FFFD for what is no text, without a word.
	if !utf8.Valid(raw) || replaced != report.Replacements(raw) {
		return nil, invalid.New("payload", "", "holds bytes that are no UTF-8, or half of a surrogate pair")
	}
	return out, nil
}

// eachText calls fn with every name and text of a decoded JSON value.
func eachText(v any, fn func(string)) {
	switch v := v.(type) {
	case string:
		fn(v)
	case []any:
		for _, item := range v {
			eachText(item, fn)
		}
	case map[string]any:
		for name, item := range v {
			fn(name)
			eachText(item, fn)
		}
	}
}
