package storage

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// JobState is where a job stands. The database allows these edges and no others:
//
//	queued → running → done, superseded, failed, cancelling → cancelled
//	running → queued (retry, hand-over), queued → cancelled or failed, failed → queued (retried by hand)
type JobState string

// The states of a job.
const (
	JobQueued     JobState = "queued"
	JobRunning    JobState = "running"
	JobDone       JobState = "done"
	JobSuperseded JobState = "superseded"
	JobFailed     JobState = "failed"
	JobCancelling JobState = "cancelling"
	JobCancelled  JobState = "cancelled"
)

// Ended reports whether the job is over.
func (s JobState) Ended() bool {
	return s == JobDone || s == JobSuperseded || s == JobFailed || s == JobCancelled
}

// Job is one request to produce an export.
type Job struct {
	ID             uuid.UUID       `json:"id"`
	Tenant         string          `json:"tenant"`
	Kind           string          `json:"kind"`
	Queue          string          `json:"queue"`
	ExportID       uuid.UUID       `json:"export_id"`
	Title          string          `json:"title"`
	Payload        json.RawMessage `json:"payload,omitempty"`
	PayloadVersion int             `json:"payload_version"`
	State          JobState        `json:"state"`
	WaitingFor     *string         `json:"waiting_for,omitempty"` // lease, retry or later
	DueAt          time.Time       `json:"due_at"`
	Generation     int             `json:"generation"`
	AttemptID      *uuid.UUID      `json:"attempt_id,omitempty"`
	Attempts       int             `json:"attempts"`
	Failures       int             `json:"failures"` // errors of the work itself
	Crashes        int             `json:"crashes"`  // workers that fell silent
	MaxAttempts    int             `json:"max_attempts"`
	MaxCrashes     int             `json:"-"`
	TimeoutSeconds int             `json:"timeout_seconds"`
	IdempotencyKey *string         `json:"idempotency_key,omitempty"`
	BatchID        *uuid.UUID      `json:"batch_id,omitempty"`
	RequestHash    []byte          `json:"-"`
	RequestedBy    string          `json:"requested_by,omitempty"`
	Error          *string         `json:"error,omitempty"`
	CreatedAt      time.Time       `json:"created_at"`
	StartedAt      *time.Time      `json:"started_at,omitempty"`
	FinishedAt     *time.Time      `json:"finished_at,omitempty"`
}

// TableName names the table for gorm.
func (Job) TableName() string { return "fenceline.jobs" }

// NewJob is a job to be inserted.
type NewJob struct {
	Tenant, Kind, Key, Title, Queue string
	Payload                         json.RawMessage
	PayloadVersion                  int
	MaxAttempts, MaxCrashes         int
	Timeout                         time.Duration
	Delay                           time.Duration
	IdempotencyKey                  string     // empty for none
	Batch                           *uuid.UUID // nil for none
	RequestHash                     []byte     // of everything that the key stands for
	RequestedBy                     string
}

// InsertJob adds a job, and its export when it is the first, in the caller's
// transaction. created is false when the idempotency key (unique in its tenant)
// named an existing job with the same request; with another request the error
// is [ErrKeyReused].
func (s *Store) InsertJob(ctx context.Context, tx Tx, n NewJob) (job Job, created bool, err error) {
	tx = tx.WithContext(ctx)
	if n.IdempotencyKey != "" {
		job, err = jobByKey(tx, n)
		if !errors.Is(err, ErrNotFound) {
			return job, false, err
		}
	}
	export, err := ensureExport(tx, n)
	if err != nil {
		return Job{}, false, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Job{}, false, fmt.Errorf("make a job id: %w", err)
	}
	var waiting *string
	if n.Delay > 0 {
		waiting = new("later")
	}
	res := tx.Raw(`INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, title, payload, payload_version, waiting_for,
			due_at, ring_at, max_attempts, max_crashes, timeout_seconds, idempotency_key, request_hash, requested_by, batch_id)
		SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, due, due, ?, ?, ?, ?, ?, ?, ?::uuid FROM (SELECT clock_timestamp() + make_interval(secs => ?) AS due) d
		ON CONFLICT (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING RETURNING *`,
		id, n.Tenant, n.Kind, n.Queue, export, n.Title, string(n.Payload), n.PayloadVersion, waiting,
		n.MaxAttempts, n.MaxCrashes, int(n.Timeout.Seconds()), nullable(n.IdempotencyKey), n.RequestHash, n.RequestedBy,
		n.Batch, n.Delay.Seconds()).Scan(&job)
	if res.Error != nil {
		return Job{}, false, fmt.Errorf("insert the job: %w", res.Error)
	}
	if res.RowsAffected == 0 { // the key was taken between our look and our insert
		job, err = jobByKey(tx, n)
		return job, false, err
	}
	return job, true, nil
}

func jobByKey(tx Tx, n NewJob) (Job, error) {
	var job Job
	err := tx.Where("tenant = ? AND idempotency_key = ?", n.Tenant, n.IdempotencyKey).Take(&job).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Job{}, ErrNotFound
	}
	if err != nil {
		return Job{}, fmt.Errorf("look up idempotency key %q: %w", n.IdempotencyKey, err)
	}
	if !bytes.Equal(job.RequestHash, n.RequestHash) {
		return Job{}, fmt.Errorf("%w: %q belongs to job %s; use a new key, or send the same request", ErrKeyReused, n.IdempotencyKey, job.ID)
	}
	return job, nil
}

// ensureExport finds or makes the export. It does not lock an existing row: a
// caller's long transaction must not hold up the export's attempts.
func ensureExport(tx Tx, n NewJob) (uuid.UUID, error) {
	const look = "SELECT id, deleted_at FROM fenceline.exports WHERE tenant = ? AND kind = ? AND key = ?"
	for {
		var row struct {
			ID        uuid.UUID
			DeletedAt *time.Time
		}
		err := tx.Raw(look, n.Tenant, n.Kind, n.Key).Row().Scan(&row.ID, &row.DeletedAt)
		if err == nil && row.DeletedAt != nil {
			return uuid.Nil, fmt.Errorf("export %s %s: %w", n.Kind, n.Key, ErrGone)
		}
		if err == nil {
			return row.ID, nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return uuid.Nil, fmt.Errorf("look up export %s %s: %w", n.Kind, n.Key, err)
		}
		err = tx.Exec(`INSERT INTO fenceline.exports (tenant, kind, key, title) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			n.Tenant, n.Kind, n.Key, n.Title).Error
		if err != nil {
			return uuid.Nil, fmt.Errorf("insert export %s %s: %w", n.Kind, n.Key, err)
		}
	}
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Claimable reads a job that is waiting and due; [ErrNotDue] when it is not.
func (s *Store) Claimable(ctx context.Context, id uuid.UUID) (Job, error) {
	var job Job
	err := s.db.WithContext(ctx).Where("id = ? AND state = 'queued' AND due_at <= clock_timestamp()", id).Take(&job).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Job{}, ErrNotDue
	}
	if err != nil {
		return Job{}, fmt.Errorf("read job %s: %w", id, err)
	}
	return job, nil
}

// WaitForLease puts a job back because another attempt works on its export.
// Waiting is not an attempt and is counted nowhere. The end of that attempt
// wakes the job; should nobody wake it, it looks again by itself: after patience
// while an attempt on the export beats, after soon otherwise (its holder was
// between two steps, or is gone).
func (s *Store) WaitForLease(ctx context.Context, job Job, soon, patience time.Duration) error {
	err := s.db.WithContext(ctx).Exec(`UPDATE fenceline.jobs SET waiting_for = 'lease', generation = generation + 1, due_at = at, ring_at = at
		FROM (SELECT clock_timestamp() + make_interval(secs => CASE WHEN EXISTS (
			SELECT FROM fenceline.attempts WHERE export_id = ? AND state IN ('running', 'sealed') AND heartbeat_at > clock_timestamp() - interval '5 seconds')
			THEN ?::float8 ELSE ?::float8 END) AS at) w
		WHERE id = ? AND state = 'queued' AND due_at <= clock_timestamp()`,
		job.ExportID, patience.Seconds(), soon.Seconds(), job.ID).Error
	if err != nil {
		return fmt.Errorf("let job %s wait for the lease: %w", job.ID, err)
	}
	return nil
}

// WakeWaiting makes the oldest job due that waits for the lease on an export,
// and only that one: the next is woken by its end. Called after a lease was
// released, with the token of the attempt that held it, 0 when none was begun.
//
// It wakes nobody while an attempt with a newer token beats: that one wakes the
// next. Otherwise attempts that overlap, because the lease keeps nobody out, would
// each call a further one, whose token fences those at work, without end.
func (s *Store) WakeWaiting(ctx context.Context, export uuid.UUID, token int64) error {
	err := s.db.WithContext(ctx).Exec(`UPDATE fenceline.jobs SET due_at = clock_timestamp(), ring_at = clock_timestamp() WHERE id = (
		SELECT id FROM fenceline.jobs WHERE export_id = ? AND state = 'queued' AND waiting_for = 'lease' AND due_at > clock_timestamp()
		ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
		AND NOT EXISTS (SELECT FROM fenceline.attempts WHERE export_id = ? AND state IN ('running', 'sealed')
			AND token > ? AND heartbeat_at > clock_timestamp() - interval '5 seconds')`, export, export, token).Error
	if err != nil {
		return fmt.Errorf("wake a job that waits for export %s: %w", export, err)
	}
	return nil
}

// CancelJob cancels a job: at once when it waits, through [JobCancelling] when
// it runs. It answers the state afterwards; an ended job keeps its end.
func (s *Store) CancelJob(ctx context.Context, scope Scope, id uuid.UUID) (JobState, error) {
	if _, err := s.Job(ctx, scope, id); err != nil {
		return "", err
	}
	var state JobState
	err := decide(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, "SELECT fenceline.cancel_job($1)", id).Scan(&state)
	})
	if err != nil {
		return "", fmt.Errorf("cancel job %s: %w", id, err)
	}
	return state, nil
}

// DeleteExport deletes an export, softly: nothing publishes to it any more, its
// jobs are cancelled, and its files go with a later clean-up. It does not come
// back, and its key is not given to another.
func (s *Store) DeleteExport(ctx context.Context, scope Scope, id uuid.UUID) error {
	if _, err := s.Export(ctx, scope, id); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, "UPDATE fenceline.exports SET deleted_at = clock_timestamp() WHERE id = $1 AND deleted_at IS NULL", id); err != nil {
		return fmt.Errorf("delete export %s: %w", id, err)
	}
	_, err := s.pool.Exec(ctx, `SELECT fenceline.cancel_job(id) FROM fenceline.jobs WHERE export_id = $1 AND state IN ('queued', 'running')`, id)
	if err != nil {
		return fmt.Errorf("cancel the jobs of export %s: %w", id, err)
	}
	return nil
}
