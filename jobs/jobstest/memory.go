package jobstest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// memory is a [jobs.Sink] that keeps what it is given, and answers for what is
// there already as the database does. It is safe for concurrent use.
type memory struct {
	mu      sync.Mutex
	sent    []Sent
	batches []storage.Batch
}

// Transaction runs fn without one.
func (m *memory) Transaction(_ context.Context, fn func(storage.Tx) error) error { return fn(nil) }

// InsertJob keeps one job.
func (m *memory) InsertJob(ctx context.Context, tx storage.Tx, n storage.NewJob) (storage.Job, bool, error) {
	list, err := m.InsertJobs(ctx, tx, []storage.NewJob{n})
	if err != nil {
		return storage.Job{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent[m.at(list[0].ID)].Job, list[0].Created, nil
}

// InsertJobs keeps jobs, all or none.
func (m *memory) InsertJobs(_ context.Context, tx storage.Tx, list []storage.NewJob) ([]storage.Inserted, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := append([]Sent(nil), m.sent...)
	out := make([]storage.Inserted, len(list))
	for i, n := range list {
		var err error
		if out[i], err = m.insert(n, tx != nil); err != nil {
			m.sent = before
			return nil, err
		}
	}
	return out, nil
}

func (m *memory) insert(n storage.NewJob, inTx bool) (storage.Inserted, error) {
	i, err := m.answering(n)
	if err != nil {
		return storage.Inserted{}, err
	}
	if i >= 0 {
		there := &m.sent[i]
		there.Asked++
		if n.Debounce != 0 {
			there.Job.Payload, there.Job.DueAt = n.Payload, earlier(due(n), there.Job.CreatedAt.Add(there.Request.Debounce))
		}
		return storage.Inserted{ID: there.Job.ID}, nil
	}
	if n.ID() == uuid.Nil {
		id, err := uuid.NewV7()
		if err != nil {
			return storage.Inserted{}, fmt.Errorf("make a job id: %w", err)
		}
		n = n.WithID(id)
	}
	m.sent = append(m.sent, Sent{Job: jobOf(n), Request: n, InTx: inTx, Asked: 1})
	return storage.Inserted{ID: n.ID(), Created: true}, nil
}

// answering finds the job that answers for a new one; -1 for none. Nothing runs in a
// memory, so what is unique until it begins or ends is so for good.
func (m *memory) answering(n storage.NewJob) (int, error) {
	for i, there := range m.sent {
		r := there.Request
		if n.IdempotencyKey != "" && r.IdempotencyKey == n.IdempotencyKey && r.Tenant == n.Tenant {
			if !bytes.Equal(r.RequestHash, n.RequestHash) {
				return -1, fmt.Errorf("%w: %q belongs to job %s; use a new key, or send the same request", storage.ErrKeyReused, n.IdempotencyKey, there.Job.ID)
			}
			return i, nil
		}
		same := n.UniqueKey != "" && r.UniqueKey == n.UniqueKey && r.UniqueWhile == n.UniqueWhile && r.Tenant == n.Tenant && r.Kind == n.Kind
		if same && (n.UniqueWhile != "period" || time.Now().Before(there.Job.CreatedAt.Add(r.UniqueFor))) {
			return i, nil
		}
	}
	return -1, nil
}

// JobIn reads a job.
func (m *memory) JobIn(_ context.Context, _ storage.Tx, id uuid.UUID) (storage.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.at(id)
	if i < 0 {
		return storage.Job{}, fmt.Errorf("job %s: %w", id, storage.ErrNotFound)
	}
	return m.sent[i].Job, nil
}

func (m *memory) at(id uuid.UUID) int {
	for i, s := range m.sent {
		if s.Job.ID == id {
			return i
		}
	}
	return -1
}

// CreateBatch keeps a batch.
func (m *memory) CreateBatch(_ context.Context, _ storage.Tx, b storage.Batch) (storage.Batch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, err := uuid.NewV7()
	if err != nil {
		return storage.Batch{}, fmt.Errorf("make a batch id: %w", err)
	}
	b.ID, b.Key, b.CreatedAt = id, cmp.Or(b.Key, id.String()), time.Now()
	for _, there := range m.batches {
		if there.Tenant == b.Tenant && there.Key == b.Key {
			return storage.Batch{}, fmt.Errorf("%w: batch %q is there already", storage.ErrKeyReused, b.Key)
		}
	}
	m.batches = append(m.batches, b)
	return b, nil
}

func due(n storage.NewJob) time.Time {
	now := time.Now()
	if n.At.IsZero() {
		return now.Add(n.Delay)
	}
	return later(n.At, now)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// exportIDs is the namespace of the ids that exports get without a database.
const exportIDs = "6f1f6c86-6a4c-4f5b-8f0e-3d2b1f3c9a10"

// jobOf is the row that the database would make of a request.
func jobOf(n storage.NewJob) storage.Job {
	now := time.Now()
	j := storage.Job{
		ID: n.ID(), Tenant: n.Tenant, Kind: n.Kind, Queue: n.Queue, Title: n.Title, Payload: n.Payload, PayloadVersion: n.PayloadVersion,
		State: storage.JobQueued, DueAt: later(due(n), now), Priority: n.Priority, Tags: n.Tags, Generation: 1,
		MaxAttempts: n.MaxAttempts, MaxCrashes: n.MaxCrashes, TimeoutSeconds: int(n.Timeout.Seconds()), Backoff: n.Backoff,
		BatchID: n.Batch, ChainID: n.Chain, AfterJob: n.After, RequestHash: n.RequestHash, RequestedBy: n.RequestedBy, CreatedAt: now,
		IdempotencyKey: orNil(n.IdempotencyKey), UniqueKey: orNil(n.UniqueKey), UniqueWhile: orNil(n.UniqueWhile),
	}
	if n.Key != "" {
		j.ExportID = uuid.NewSHA1(uuid.MustParse(exportIDs), fmt.Appendf(nil, "%q %q %q", n.Tenant, n.Kind, n.Key))
	}
	switch {
	case n.After != nil:
		j.WaitingFor = orNil("chain")
	case j.DueAt.After(now):
		j.WaitingFor = orNil("later")
	}
	if until := n.RetryUntil; !until.IsZero() {
		j.RetryUntil = &until
	} else if n.RetryFor > 0 {
		until = now.Add(n.RetryFor)
		j.RetryUntil = &until
	}
	return j
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
