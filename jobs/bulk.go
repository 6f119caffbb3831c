package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
)

// Item is one of many requests.
type Item struct {
	Request
	Options []Option
}

// maxItems bounds how many jobs one call may ask for.
const maxItems = 100_000

// DispatchAll is [Dispatcher.Dispatch] for many, all or none: a thousand go with
// each round trip. The options come before those of each item. The jobs of the
// receipts hold what was asked for; read them again for more.
func (d *Dispatcher) DispatchAll(ctx context.Context, tx storage.Tx, items []Item, options ...Option) ([]Receipt, error) {
	list, err := d.prepareAll(ctx, items, options)
	if err != nil {
		return nil, err
	}
	var receipts []Receipt
	err = d.in(ctx, tx, func(tx storage.Tx) error {
		receipts, err = d.insertAll(ctx, tx, list)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dispatch %s: %w", count.Of(len(items), "job"), err)
	}
	return receipts, nil
}

func (d *Dispatcher) prepareAll(ctx context.Context, items []Item, options []Option) ([]storage.NewJob, error) {
	if len(items) == 0 || len(items) > maxItems {
		return nil, invalid.New("jobs", "", "are %d: 1 to %d can be asked for at once", len(items), maxItems)
	}
	list := make([]storage.NewJob, len(items))
	all := new(invalid.Error)
	for i, item := range items {
		var err error
		list[i], err = d.prepare(ctx, item.Request, append(options[:len(options):len(options)], item.Options...))
		var bad *invalid.Error
		if errors.As(err, &bad) {
			for _, p := range bad.Problems {
				p.Field = fmt.Sprintf("jobs[%d].%s", i, p.Field)
				all.Problems = append(all.Problems, p)
			}
			if len(all.Problems) >= 20 {
				break
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("job %d of %d: %w", i+1, len(items), err)
		}
	}
	return list, all.OrNil()
}

func (d *Dispatcher) insertAll(ctx context.Context, tx storage.Tx, list []storage.NewJob) ([]Receipt, error) {
	inserted, err := d.store.InsertJobs(ctx, tx, list)
	if err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(list))
	for i, in := range inserted {
		n := list[i]
		if !in.Created && secret.HasSealed(n.Payload) {
			have, err := d.store.JobIn(ctx, tx, in.ID)
			if err == nil {
				err = d.registry.sameSecrets(n, have)
			}
			if err != nil {
				return nil, err
			}
		}
		receipts[i] = Receipt{Reused: !in.Created, Job: storage.Job{
			ID: in.ID, Tenant: n.Tenant, Kind: n.Kind, Queue: n.Queue, Title: n.Title, PayloadVersion: n.PayloadVersion, State: storage.JobQueued,
			Priority: n.Priority, Tags: n.Tags, MaxAttempts: n.MaxAttempts, BatchID: n.Batch, ChainID: n.Chain, AfterJob: n.After, RequestedBy: n.RequestedBy,
		}}
	}
	return receipts, nil
}

// Chain asks for jobs that run one after the other: each begins when the one
// before is done, and can read its result with [Work.Previous]. When one fails or
// is cancelled the rest are cancelled; retrying the failed one brings them back.
func (d *Dispatcher) Chain(ctx context.Context, tx storage.Tx, items []Item, options ...Option) ([]Receipt, error) {
	list, err := d.prepareAll(ctx, items, options)
	if err != nil {
		return nil, err
	}
	if err := link(list); err != nil {
		return nil, err
	}
	var receipts []Receipt
	err = d.in(ctx, tx, func(tx storage.Tx) error {
		receipts, err = d.insertAll(ctx, tx, list)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dispatch a chain of %s: %w", count.Of(len(items), "job"), err)
	}
	return receipts, nil
}

// link makes a chain of jobs that are about to be inserted.
func link(list []storage.NewJob) error {
	chain, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make the id of a chain: %w", err)
	}
	var before *uuid.UUID
	for i := range list {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("make a job id: %w", err)
		}
		if list[i].IdempotencyKey != "" || list[i].UniqueWhile != "" {
			return invalid.New(fmt.Sprintf("jobs[%d]", i), "", "of a chain cannot be unique or have an idempotency key: another job would answer in its place")
		}
		list[i] = list[i].WithID(id)
		list[i].Chain, list[i].After = &chain, before
		before = &id
	}
	return nil
}

// BatchRequest asks for jobs that belong together.
type BatchRequest struct {
	Tenant string // empty is [DefaultTenant]; all of its jobs are of it
	Title  string
	// Key, unless empty, is unique in the tenant: asking twice is refused with [storage.ErrKeyReused].
	Key  string
	Jobs []Item
	// Chains are jobs that run one after the other, side by side with the others.
	Chains [][]Item
	// AllowFailures lets the rest go on when a job has failed; otherwise it is cancelled.
	AllowFailures bool
	// Then is asked for when every job is done, Catch when the first has failed, Finally when all have ended,
	// each once. They can find the batch with [Work.Batch].
	Then, Catch, Finally *Item
	RequestedBy          string
}

// Batch makes a batch with its jobs, all or nothing. What has become of it is
// counted from its jobs: see [storage.Store.CountBatch]. A job of it can add
// more with [InBatch] while it runs.
func (d *Dispatcher) Batch(ctx context.Context, tx storage.Tx, r BatchRequest) (storage.Batch, []Receipt, error) {
	r.Tenant = cmp.Or(r.Tenant, DefaultTenant)
	b := storage.Batch{Tenant: r.Tenant, Title: cmp.Or(r.Title, "Batch"), Key: r.Key, RequestedBy: r.RequestedBy, StopOnFailure: !r.AllowFailures}
	list, err := d.prepareBatch(ctx, r, &b)
	if err != nil {
		return storage.Batch{}, nil, err
	}
	var receipts []Receipt
	err = d.in(ctx, tx, func(tx storage.Tx) error {
		var err error
		if b, err = d.store.CreateBatch(ctx, tx, b); err != nil {
			return err
		}
		for i := range list {
			list[i].Batch = &b.ID
		}
		receipts, err = d.insertAll(ctx, tx, list)
		return err
	})
	if err != nil {
		return storage.Batch{}, nil, fmt.Errorf("dispatch a batch of %s: %w", count.Of(len(list), "job"), err)
	}
	return b, receipts, nil
}

func (d *Dispatcher) prepareBatch(ctx context.Context, r BatchRequest, b *storage.Batch) ([]storage.NewJob, error) {
	if badText(r.Key, 500) || badText(r.Title, 500) {
		return nil, invalid.New("batch", r.Key, "has a key or title that is no UTF-8 of at most 500 bytes")
	}
	var list []storage.NewJob
	var refused []error
	add := func(items []Item, chain string) {
		items, err := ofTenant(items, r.Tenant)
		var part []storage.NewJob
		if err == nil {
			part, err = d.prepareAll(ctx, items, []Option{RequestedBy(r.RequestedBy)})
		}
		if err == nil && chain != "" {
			err = link(part)
		}
		if chain != "" {
			err = placed(chain, "jobs", err)
		}
		list, refused = append(list, part...), append(refused, err)
	}
	if len(r.Jobs) > 0 || len(r.Chains) == 0 {
		add(r.Jobs, "")
	}
	for i, c := range r.Chains {
		add(c, fmt.Sprintf("chains[%d]", i))
	}
	for _, call := range []struct {
		field string
		item  *Item
		into  *json.RawMessage
	}{{"then", r.Then, &b.OnSuccess}, {"catch", r.Catch, &b.OnFailure}, {"finally", r.Finally, &b.OnEnd}} {
		refused = append(refused, d.prepareCall(ctx, r, call.field, call.item, call.into))
	}
	return list, invalid.Join(refused...)
}

// prepareCall checks a callback now, so that it cannot be refused later.
func (d *Dispatcher) prepareCall(ctx context.Context, r BatchRequest, field string, item *Item, into *json.RawMessage) error {
	if item == nil {
		return nil
	}
	one, err := ofTenant([]Item{*item}, r.Tenant)
	if err != nil {
		return placed(field, "jobs[0]", err)
	}
	n, err := d.prepare(ctx, one[0].Request, append([]Option{RequestedBy(r.RequestedBy)}, one[0].Options...))
	var bad *invalid.Error
	if errors.As(err, &bad) {
		for i := range bad.Problems {
			bad.Problems[i].Field = field + "." + bad.Problems[i].Field
		}
		return bad
	}
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	*into, err = json.Marshal(n)
	return err
}

// placed names refused fields by where they are in a batch: chains[1][0].kind, not jobs[0].kind.
func placed(where, instead string, err error) error {
	var bad *invalid.Error
	if errors.As(err, &bad) {
		for i := range bad.Problems {
			if rest, ok := strings.CutPrefix(bad.Problems[i].Field, instead); ok {
				bad.Problems[i].Field = where + rest
			}
		}
	}
	return err
}

// ofTenant gives items the tenant of their batch, and refuses those of another.
func ofTenant(items []Item, tenant string) ([]Item, error) {
	out := make([]Item, len(items))
	for i, item := range items {
		if item.Tenant = cmp.Or(item.Tenant, tenant); item.Tenant != tenant {
			return nil, invalid.New(fmt.Sprintf("jobs[%d].tenant", i), item.Tenant, "is not the batch's, %s", tenant)
		}
		out[i] = item
	}
	return out, nil
}
