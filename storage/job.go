package storage

import (
	"context"
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

// JobStates lists the states, in the order in which a job can pass them.
func JobStates() []JobState {
	return []JobState{JobQueued, JobRunning, JobDone, JobSuperseded, JobFailed, JobCancelling, JobCancelled}
}

// Ended reports whether the job is over.
func (s JobState) Ended() bool {
	return s == JobDone || s == JobSuperseded || s == JobFailed || s == JobCancelled
}

// Job is one request: to produce an export, or, as a plain job, to do other work.
type Job struct {
	ID             uuid.UUID       `json:"id"`
	Tenant         string          `json:"tenant"`
	Kind           string          `json:"kind"`
	Queue          string          `json:"queue"`
	ExportID       uuid.UUID       `json:"export_id,omitzero"` // zero for a plain job
	Title          string          `json:"title"`
	Payload        json.RawMessage `json:"payload,omitempty"`
	PayloadVersion int             `json:"payload_version"`
	State          JobState        `json:"state"`
	// WaitingFor is lease, retry, later, rate, overlap, circuit, cap, chain or released.
	WaitingFor     *string         `json:"waiting_for,omitempty"`
	DueAt          time.Time       `json:"due_at"`
	Priority       int             `json:"priority"` // higher is sooner, among plain jobs of a queue
	Tags           Tags            `json:"tags,omitempty" gorm:"type:text[]"`
	Generation     int             `json:"generation"`
	AttemptID      *uuid.UUID      `json:"attempt_id,omitempty"`
	RunID          *uuid.UUID      `json:"run_id,omitempty"`    // of a plain job: its newest run
	WorkerID       *uuid.UUID      `json:"worker_id,omitempty"` // of a plain job: who makes or made that run
	Attempts       int             `json:"attempts"`
	Failures       int             `json:"failures"` // errors of the work itself
	Crashes        int             `json:"crashes"`  // workers that fell silent
	Releases       int             `json:"releases"` // times that it was put back to wait, which is no attempt
	MaxAttempts    int             `json:"max_attempts"`
	MaxCrashes     int             `json:"-"`
	TimeoutSeconds int             `json:"timeout_seconds"`
	Backoff        json.RawMessage `json:"backoff,omitempty"`
	RetryUntil     *time.Time      `json:"retry_until,omitempty"`
	IdempotencyKey *string         `json:"idempotency_key,omitempty"`
	UniqueKey      *string         `json:"unique_key,omitempty"`
	UniqueWhile    *string         `json:"unique_while,omitempty"` // pending, active or period
	BatchID        *uuid.UUID      `json:"batch_id,omitempty"`
	ChainID        *uuid.UUID      `json:"chain_id,omitempty"`
	AfterJob       *uuid.UUID      `json:"after_job,omitempty"` // the job before it in its chain
	Progress       json.RawMessage `json:"progress,omitempty"`
	Result         json.RawMessage `json:"result,omitempty"`
	RequestHash    []byte          `json:"-"`
	RequestedBy    string          `json:"requested_by,omitempty"`
	Error          *string         `json:"error,omitempty"`
	CreatedAt      time.Time       `json:"created_at"`
	StartedAt      *time.Time      `json:"started_at,omitempty"`
	FinishedAt     *time.Time      `json:"finished_at,omitempty"`
}

// Plain reports whether the job publishes no export.
func (j Job) Plain() bool { return j.ExportID == uuid.Nil }

// TableName names the table for gorm.
func (Job) TableName() string { return "fenceline.jobs" }

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Claimable reads a job that is waiting and due; [ErrNotDue] when it is not.
func (s *Store) Claimable(ctx context.Context, id uuid.UUID) (Job, error) {
	var job Job
	err := s.db.WithContext(ctx).Where("id = ? AND state = 'queued' AND due_at <= clock_timestamp() AND waiting_for IS DISTINCT FROM 'chain' AND waiting_for IS DISTINCT FROM 'cap'", id).Take(&job).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Job{}, ErrNotDue
	}
	if err != nil {
		return Job{}, fmt.Errorf("read job %s: %w", id, err)
	}
	return job, nil
}

// MoreUrgent is a job of an export that is due in the queue of another one and has
// a higher priority; the zero job when there is none. Of several it answers the
// most urgent.
func (s *Store) MoreUrgent(ctx context.Context, than Job) (Job, error) {
	var job Job
	err := s.db.WithContext(ctx).Raw(`SELECT * FROM fenceline.jobs WHERE queue = ? AND state = 'queued' AND export_id IS NOT NULL AND priority > ?
		AND due_at <= clock_timestamp() AND waiting_for IS NULL ORDER BY priority DESC, due_at LIMIT 1`, than.Queue, than.Priority).Scan(&job).Error
	if err != nil {
		return Job{}, fmt.Errorf("look for more urgent jobs: %w", err)
	}
	return job, nil
}

// PutBack lets a waiting job of an export wait for longer. That is no attempt.
func (s *Store) PutBack(ctx context.Context, job Job, after time.Duration, why, failure string) error {
	_, err := s.pool.Exec(ctx, `UPDATE fenceline.jobs SET waiting_for = $2, releases = releases + 1, generation = generation + 1, error = coalesce($4, error),
		due_at = clock_timestamp() + make_interval(secs => $3), ring_at = clock_timestamp() + make_interval(secs => $3)
		WHERE id = $1 AND state = 'queued' AND due_at <= clock_timestamp()`, job.ID, why, max(after, 0).Seconds(), nullable(failure))
	if err != nil {
		return fmt.Errorf("put job %s back: %w", job.ID, err)
	}
	return nil
}

// SkipJob cancels a job that waits, for a reason that is kept.
func (s *Store) SkipJob(ctx context.Context, id uuid.UUID, reason string) error {
	_, err := s.pool.Exec(ctx, `UPDATE fenceline.jobs SET state = 'cancelled', finished_at = clock_timestamp(), waiting_for = NULL, error = $2
		WHERE id = $1 AND state = 'queued'`, id, reason)
	if err != nil {
		return fmt.Errorf("skip job %s: %w", id, err)
	}
	return nil
}

// WaitForLease puts a job back because another attempt works on its export.
// Waiting is not an attempt and is counted nowhere. The end of that attempt
// wakes the job; should nobody wake it, it looks again by itself: after patience
// while an attempt on the export beats, after soon otherwise (its holder was
// between two steps, or is gone).
func (s *Store) WaitForLease(ctx context.Context, job Job, soon, patience time.Duration) error {
	err := s.db.WithContext(ctx).Exec(`UPDATE fenceline.jobs SET waiting_for = 'lease', releases = releases + 1, generation = generation + 1, due_at = at, ring_at = at
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
//
// Jobs that wait for a cap are woken too, as far as there is room now.
func (s *Store) WakeWaiting(ctx context.Context, export uuid.UUID, token int64) error {
	_, err := s.pool.Exec(ctx, `WITH woken AS (UPDATE fenceline.jobs SET due_at = clock_timestamp(), ring_at = clock_timestamp() WHERE id = (
		SELECT id FROM fenceline.jobs WHERE export_id = $1 AND state = 'queued' AND waiting_for = 'lease' AND due_at > clock_timestamp()
		ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
		AND NOT EXISTS (SELECT FROM fenceline.attempts WHERE export_id = $1 AND state IN ('running', 'sealed')
			AND token > $2 AND heartbeat_at > clock_timestamp() - interval '5 seconds'))
		SELECT fenceline.unpark()`, export, token)
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
// jobs are cancelled, and its files go with a later clean-up; until then
// [Store.RestoreExport] brings it back. Its key is not given to another. [ErrOnHold]
// when it is on hold, [ErrPinned] when it is pinned; see [Store.UnpinExport]. With an
// entry, whose action and object it fills in, the log says so exactly when it is done.
func (s *Store) DeleteExport(ctx context.Context, scope Scope, id uuid.UUID, log ...AuditEntry) error {
	err := s.deleteExport(ctx, scope, id, log)
	if err != nil {
		return fmt.Errorf("delete export %s: %w", id, err)
	}
	_, err = s.pool.Exec(ctx, `SELECT fenceline.cancel_job(id) FROM fenceline.jobs WHERE export_id = $1 AND state IN ('queued', 'running')`, id)
	if err != nil {
		return fmt.Errorf("cancel the jobs of export %s: %w", id, err)
	}
	return nil
}
