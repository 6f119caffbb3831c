package storage

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// NewJob is a job to be inserted.
type NewJob struct {
	Tenant, Kind, Title, Queue string
	Key                        string // of the export; empty for a plain job
	Payload                    json.RawMessage
	PayloadVersion             int
	Priority                   int
	Tags                       []string
	MaxAttempts, MaxCrashes    int
	Timeout                    time.Duration
	Backoff                    json.RawMessage // nil for the usual
	RetryUntil                 time.Time       // zero for no bound
	RetryFor                   time.Duration   // the same from now, by the database's clock
	Delay                      time.Duration
	At                         time.Time  // when it is due; zero for now, or after Delay
	IdempotencyKey             string     // empty for none
	Batch                      *uuid.UUID // nil for none
	RequestHash                []byte     // of everything that the key stands for
	RequestedBy                string
	// UniqueKey, unless empty, is unique in the tenant and kind: while a job of it waits for its first run
	// ("pending"), waits or runs ("active"), or for UniqueFor ("period").
	UniqueKey, UniqueWhile string
	UniqueFor              time.Duration
	// Debounce, unless zero, lets a repeated request put the waiting one off, for this long in all. It goes with "pending".
	Debounce time.Duration
	// Chain and After make it wait for another job of the same chain to be done.
	Chain, After *uuid.UUID

	id uuid.UUID
}

// Inserted is what became of a [NewJob].
type Inserted struct {
	ID uuid.UUID
	// Created is false when a job that was there already answered for it.
	Created bool
}

// jobRecord is a row for the function insert_jobs.
type jobRecord struct {
	Ord            int             `json:"ord"`
	ID             uuid.UUID       `json:"id"`
	Tenant         string          `json:"tenant"`
	Kind           string          `json:"kind"`
	Key            string          `json:"key,omitempty"`
	Queue          string          `json:"queue"`
	Title          string          `json:"title"`
	Payload        json.RawMessage `json:"payload"`
	PayloadVersion int             `json:"payload_version"`
	Priority       int             `json:"priority,omitempty"`
	Tags           []string        `json:"tags,omitempty"`
	Backoff        json.RawMessage `json:"backoff,omitempty"`
	RetryUntil     time.Time       `json:"retry_until,omitzero"`
	RetryFor       float64         `json:"retry_for,omitempty"`
	Delay          float64         `json:"delay,omitempty"`
	DueAt          time.Time       `json:"due_at,omitzero"`
	MaxAttempts    int             `json:"max_attempts"`
	MaxCrashes     int             `json:"max_crashes"`
	TimeoutSeconds int             `json:"timeout_seconds"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	RequestHash    string          `json:"request_hash"`
	RequestedBy    string          `json:"requested_by,omitempty"`
	BatchID        *uuid.UUID      `json:"batch_id,omitempty"`
	ChainID        *uuid.UUID      `json:"chain_id,omitempty"`
	AfterJob       *uuid.UUID      `json:"after_job,omitempty"`
	UniqueKey      string          `json:"unique_key,omitempty"`
	UniqueWhile    string          `json:"unique_while,omitempty"`
	UniqueFor      float64         `json:"unique_for,omitempty"`
	DebounceFor    float64         `json:"debounce_for,omitempty"`
}

func (n NewJob) record(ord int) jobRecord {
	return jobRecord{
		Ord: ord, ID: n.id, Tenant: n.Tenant, Kind: n.Kind, Key: n.Key, Queue: n.Queue, Title: n.Title, Payload: n.Payload, PayloadVersion: n.PayloadVersion,
		Priority: n.Priority, Tags: n.Tags, Backoff: n.Backoff, RetryUntil: n.RetryUntil, RetryFor: n.RetryFor.Seconds(), Delay: n.Delay.Seconds(), DueAt: n.At,
		MaxAttempts: n.MaxAttempts, MaxCrashes: n.MaxCrashes, TimeoutSeconds: int(n.Timeout.Seconds()), IdempotencyKey: n.IdempotencyKey,
		RequestHash: hex.EncodeToString(n.RequestHash), RequestedBy: n.RequestedBy, BatchID: n.Batch, ChainID: n.Chain, AfterJob: n.After,
		UniqueKey: n.UniqueKey, UniqueWhile: n.UniqueWhile, UniqueFor: n.UniqueFor.Seconds(), DebounceFor: n.Debounce.Seconds(),
	}
}

// WithID gives the job an id of its own choosing, so that others can be inserted
// that name it. Without, it gets one.
func (n NewJob) WithID(id uuid.UUID) NewJob {
	n.id = id
	return n
}

// ID is the id that was chosen with [NewJob.WithID]; zero when none was.
func (n NewJob) ID() uuid.UUID { return n.id }

// InsertJob is [Store.InsertJobs] for one, and answers the job. With an
// idempotency key that belongs to another request the error is [ErrKeyReused].
func (s *Store) InsertJob(ctx context.Context, tx Tx, n NewJob) (job Job, created bool, err error) {
	list, err := s.InsertJobs(ctx, tx, []NewJob{n})
	if err != nil {
		return Job{}, false, err
	}
	err = tx.WithContext(ctx).Where("id = ?", list[0].ID).Take(&job).Error
	if err != nil {
		return Job{}, false, fmt.Errorf("read the inserted job: %w", err)
	}
	return job, list[0].Created, nil
}

// insertPart is how many jobs one statement inserts.
const insertPart = 1000

// InsertJobs adds jobs, and their exports when they are the first, in the
// caller's transaction, a thousand with each round trip. A job that was there
// already answers for one with the same idempotency key (unique in its tenant)
// or unique key; when the idempotency key came with another request the error is
// [ErrKeyReused]. [ErrGone] means that an export was deleted. After an error
// the transaction must be rolled back.
func (s *Store) InsertJobs(ctx context.Context, tx Tx, list []NewJob) ([]Inserted, error) {
	out := make([]Inserted, len(list))
	for from := 0; from < len(list); from += insertPart {
		part := list[from:min(from+insertPart, len(list))]
		if err := s.insertPart(tx.WithContext(ctx), part, out[from:]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Store) insertPart(tx Tx, part []NewJob, out []Inserted) error {
	records := make([]jobRecord, len(part))
	for i := range part {
		if part[i].id == uuid.Nil {
			id, err := uuid.NewV7()
			if err != nil {
				return fmt.Errorf("make a job id: %w", err)
			}
			part[i] = part[i].WithID(id)
		}
		records[i] = part[i].record(i)
	}
	for try := 0; len(records) > 0; try++ {
		if try == 10 { // the caller's transaction looks at an old snapshot
			return fmt.Errorf("insert the job: another one has its key, and this transaction cannot see it; use READ COMMITTED")
		}
		rows, err := insertRecords(tx, records)
		if err != nil {
			return err
		}
		var again []jobRecord // what answered for them ended in that instant
		for _, r := range rows {
			switch {
			case r.Gone:
				return fmt.Errorf("export %s %s: %w", part[r.Ord].Kind, part[r.Ord].Key, ErrGone)
			case r.ID == uuid.Nil:
				again = append(again, part[r.Ord].record(r.Ord))
			default:
				out[r.Ord] = Inserted{ID: r.ID, Created: r.Created}
			}
		}
		records = again
	}
	return settleInserted(tx, part, out)
}

type insertedRow struct {
	Ord     int       `gorm:"column:o_ord"`
	ID      uuid.UUID `gorm:"column:o_id"`
	Created bool      `gorm:"column:o_created"`
	Gone    bool      `gorm:"column:o_gone"`
	Export  uuid.UUID `gorm:"column:o_export"`
	Due     time.Time `gorm:"column:o_due"`
	At      time.Time `gorm:"column:o_at"`
}

func insertRecords(tx Tx, records []jobRecord) ([]insertedRow, error) {
	raw, err := json.Marshal(records)
	if err != nil {
		return nil, fmt.Errorf("encode jobs: %w", err)
	}
	var rows []insertedRow
	if err := tx.Raw("SELECT * FROM fenceline.insert_jobs(?::jsonb)", string(raw)).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("insert the job: %w", err)
	}
	return rows, nil
}

// settleInserted looks at what was answered by jobs that were there, and at the batches that were added to.
func settleInserted(tx Tx, part []NewJob, out []Inserted) error {
	there, err := requestsOf(tx, part, out)
	if err != nil {
		return err
	}
	batches := map[uuid.UUID]bool{}
	for i, n := range part {
		if err := there[out[i].ID].same(n); err != nil {
			return err
		}
		if out[i].Created && n.Batch != nil {
			batches[*n.Batch] = true
		}
	}
	for id := range batches {
		if err := joinBatch(tx, id); err != nil {
			return err
		}
	}
	return nil
}

// request is what an idempotency key stands for.
type request struct {
	ID             uuid.UUID
	RequestHash    []byte
	IdempotencyKey *string
}

// same refuses a job that came with the key of another request.
func (r request) same(n NewJob) error {
	if n.IdempotencyKey == "" || r.IdempotencyKey == nil || *r.IdempotencyKey != n.IdempotencyKey || bytes.Equal(r.RequestHash, n.RequestHash) {
		return nil
	}
	return fmt.Errorf("%w: %q belongs to job %s; use a new key, or send the same request", ErrKeyReused, n.IdempotencyKey, r.ID)
}

// requestsOf reads, in one question, the requests of the jobs that answered for others with their keys.
func requestsOf(tx Tx, list []NewJob, out []Inserted) (map[uuid.UUID]request, error) {
	var ids []uuid.UUID
	for i, n := range list {
		if !out[i].Created && out[i].ID != uuid.Nil && n.IdempotencyKey != "" {
			ids = append(ids, out[i].ID)
		}
	}
	there := make(map[uuid.UUID]request, len(ids))
	if len(ids) == 0 {
		return there, nil
	}
	var rows []request
	if err := tx.Raw("SELECT id, request_hash, idempotency_key FROM fenceline.jobs WHERE id IN ?", ids).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("look up idempotency keys: %w", err)
	}
	for _, r := range rows {
		there[r.ID] = r
	}
	return there, nil
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Dispatched is what became of a [NewJob] that was inserted by itself.
type Dispatched struct {
	Inserted
	Job Job   // as it was inserted; only when it was created
	Err error // of this job: [ErrGone] or [ErrKeyReused]; nothing was inserted for it
}

// job is the job as insert_jobs has made it.
func (n NewJob) job(r insertedRow) Job {
	j := Job{
		ID: r.ID, Tenant: n.Tenant, Kind: n.Kind, Queue: n.Queue, ExportID: r.Export, Title: n.Title, Payload: n.Payload, PayloadVersion: n.PayloadVersion,
		State: JobQueued, DueAt: r.Due, Priority: n.Priority, Tags: n.Tags, Generation: 1, MaxAttempts: n.MaxAttempts, MaxCrashes: n.MaxCrashes,
		TimeoutSeconds: int(n.Timeout.Seconds()), Backoff: n.Backoff, IdempotencyKey: nullable(n.IdempotencyKey), UniqueKey: nullable(n.UniqueKey),
		UniqueWhile: nullable(n.UniqueWhile), BatchID: n.Batch, ChainID: n.Chain, AfterJob: n.After, RequestHash: n.RequestHash, RequestedBy: n.RequestedBy, CreatedAt: r.At,
	}
	if r.Due.After(r.At) && (n.Delay > 0 || !n.At.IsZero()) {
		j.WaitingFor = new("later")
	}
	switch {
	case !n.RetryUntil.IsZero():
		j.RetryUntil = &n.RetryUntil
	case n.RetryFor > 0: // a few microseconds from what is in the row
		j.RetryUntil = new(r.At.Add(n.RetryFor))
	}
	return j
}

// InsertNow inserts jobs in one statement of its own, up to a thousand, each for
// itself: what is wrong with one keeps no other out. It may be sent again after a
// lost reply, and is, until it is answered. Jobs of batches need a transaction: see
// [Store.InsertJobs].
func (s *Store) InsertNow(ctx context.Context, list []NewJob) ([]Dispatched, error) {
	out := make([]Dispatched, len(list))
	left := make([]jobRecord, len(list))
	for i := range list {
		if list[i].id == uuid.Nil {
			id, err := uuid.NewV7()
			if err != nil {
				return nil, fmt.Errorf("make a job id: %w", err)
			}
			list[i] = list[i].WithID(id)
		}
		left[i] = list[i].record(i)
	}
	for len(left) > 0 {
		rows, err := s.insertNow(ctx, left)
		if err != nil {
			return nil, err
		}
		gone := len(rows) > 0 && rows[0].Gone
		settled := map[int]bool{}
		for _, r := range rows {
			if r.Gone {
				out[r.Ord].Err = fmt.Errorf("export %s %s: %w", list[r.Ord].Kind, list[r.Ord].Key, ErrGone)
			} else if r.ID != uuid.Nil {
				out[r.Ord] = Dispatched{Inserted: Inserted{ID: r.ID, Created: r.Created}}
				if r.Created {
					out[r.Ord].Job = list[r.Ord].job(r)
				}
			}
			settled[r.Ord] = r.Gone || r.ID != uuid.Nil
		}
		left = slices.DeleteFunc(left, func(r jobRecord) bool { return settled[r.Ord] })
		if len(settled) == 0 && !gone {
			break // no row at all: cannot be
		}
	}
	inserted := make([]Inserted, len(out))
	for i, o := range out {
		inserted[i] = o.Inserted
	}
	there, err := requestsOf(s.db.WithContext(ctx), list, inserted)
	if err != nil {
		return nil, err
	}
	for i, n := range list {
		if out[i].Err == nil {
			out[i].Err = there[out[i].ID].same(n)
		}
	}
	return out, nil
}

func (s *Store) insertNow(ctx context.Context, records []jobRecord) (rows []insertedRow, err error) {
	raw, err := json.Marshal(records)
	if err != nil {
		return nil, fmt.Errorf("encode jobs: %w", err)
	}
	err = decide(ctx, func(ctx context.Context) error {
		rows = rows[:0]
		found, err := s.pool.Query(ctx, "SELECT o_ord, o_id, o_created, o_gone, o_export, o_due, o_at FROM fenceline.insert_jobs($1::jsonb)", string(raw))
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var r insertedRow
			var id, export *uuid.UUID
			var due, at *time.Time
			if err := found.Scan(&r.Ord, &id, &r.Created, &r.Gone, &export, &due, &at); err != nil {
				return err
			}
			r.ID, r.Export, r.Due, r.At = orZero(id), orZero(export), orZero(due), orZero(at)
			rows = append(rows, r)
		}
		return found.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("insert the job: %w", err)
	}
	return rows, nil
}
