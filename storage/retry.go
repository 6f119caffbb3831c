package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
)

// ErrNotFailed is the error for retrying a job that has not failed.
var ErrNotFailed = errors.New("the job has not failed")

// retrySet is what makes a failed job wait again: its errors are kept with its
// attempts, its failures and crashes are counted anew.
const retrySet = `state = 'queued', finished_at = NULL, attempt_id = NULL, failures = 0, crashes = 0,
	waiting_for = NULL, generation = generation + 1, due_at = clock_timestamp(), ring_at = clock_timestamp(),
	ready_at = CASE WHEN export_id IS NULL THEN clock_timestamp() END, retry_until = NULL`

// retryable are those with a unique key whose place no other one has taken.
const retryable = `unique_while = 'active' AND NOT EXISTS (SELECT FROM fenceline.jobs o
	WHERE o.tenant = jobs.tenant AND o.kind = jobs.kind AND o.unique_key = jobs.unique_key AND o.unique_while = 'active'
		AND o.state IN ('queued', 'running', 'cancelling'))`

// ErrNotUnique means that another job of the same unique key waits or runs.
var ErrNotUnique = errors.New("another job of the same unique key waits or runs")

// RetryJob queues a failed job again and answers it as it is now.
func (s *Store) RetryJob(ctx context.Context, scope Scope, id uuid.UUID) (Job, error) {
	if _, err := s.Job(ctx, scope, id); err != nil {
		return Job{}, err
	}
	var job Job
	res := s.db.WithContext(ctx).Raw("UPDATE fenceline.jobs SET "+retrySet+" WHERE id = ? AND state = 'failed' RETURNING *", id).Scan(&job)
	if notUnique(res.Error) {
		return Job{}, fmt.Errorf("retry job %s: %w", id, ErrNotUnique)
	}
	if res.Error != nil {
		return Job{}, fmt.Errorf("retry job %s: %w", id, res.Error)
	}
	if res.RowsAffected == 0 {
		return Job{}, fmt.Errorf("retry job %s: %w", id, ErrNotFailed)
	}
	job.Payload = maskSealed(job.Payload)
	return job, nil
}

// FailedFilter chooses failed jobs. What is empty does not choose.
type FailedFilter struct {
	Kind  string
	Queue string
	Error string // a part of the error's text, in capitals or not
	Tag   string
	Batch uuid.UUID
	// RequestedBy is who asked for them.
	RequestedBy string
	// UpTo leaves out what was dispatched after this job; the zero id does not.
	UpTo uuid.UUID
	// Tenant is within what the scope sees.
	Tenant string
	Group  uuid.UUID // of [Store.FailedGroups]
	// Until leaves alone what has failed later: what somebody has not seen.
	Until time.Time
}

func (f FailedFilter) of(db *gorm.DB, scope Scope) *gorm.DB {
	db = scope.where(db.Table("fenceline.jobs").Where("state = 'failed'"), "tenant")
	if f.Kind != "" {
		db = db.Where("kind = ?", f.Kind)
	}
	if f.Queue != "" {
		db = db.Where("queue = ?", f.Queue)
	}
	if f.Error != "" {
		db = db.Where("position(lower(?) IN lower(error)) > 0", f.Error)
	}
	if f.Tag != "" {
		db = db.Where("tags @> ARRAY[?]::text[] AND tags <> '{}'", f.Tag)
	}
	if f.Batch != uuid.Nil {
		db = db.Where("batch_id = ?", f.Batch)
	}
	if f.RequestedBy != "" {
		db = db.Where("requested_by = ?", f.RequestedBy)
	}
	if f.UpTo != uuid.Nil {
		db = db.Where("id <= ?", f.UpTo)
	}
	if f.Tenant != "" {
		db = db.Where("tenant = ?", f.Tenant)
	}
	if f.Group != uuid.Nil {
		db = db.Where("failed_group = ?", f.Group)
	}
	if !f.Until.IsZero() {
		db = db.Where("finished_at <= ?", f.Until)
	}
	return db
}

// CountFailed is how many failed jobs of the scope match.
func (s *Store) CountFailed(ctx context.Context, scope Scope, f FailedFilter) (n int64, err error) {
	if err := f.of(s.db.WithContext(ctx), scope).Count(&n).Error; err != nil {
		return 0, fmt.Errorf("count failed jobs: %w", err)
	}
	return n, nil
}

// retryPart is how many jobs one statement queues again: no long transaction.
const retryPart = 1000

func notUnique(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505" && strings.HasPrefix(pg.ConstraintName, "jobs_unique")
}

// RetryFailed queues every failed job again that matches, and answers how many
// there were. Of several with one unique key one is queued, none while another waits or runs. When it fails half-way, those that it answers are queued.
func (s *Store) RetryFailed(ctx context.Context, scope Scope, f FailedFilter) (int64, error) {
	n, err := s.retryParts(ctx, func(db *gorm.DB) *gorm.DB {
		return f.of(db, scope).Where("unique_while IS DISTINCT FROM 'active'").Select("id").Order("id").Limit(retryPart)
	})
	if err != nil {
		return n, err
	}
	more, err := s.retryParts(ctx, func(db *gorm.DB) *gorm.DB {
		return f.of(db, scope).Where(retryable).Select("DISTINCT ON (tenant, kind, unique_key) id").Order("tenant, kind, unique_key, id").Limit(retryPart)
	})
	return n + more, err
}

func (s *Store) retryParts(ctx context.Context, part func(*gorm.DB) *gorm.DB) (n int64, err error) {
	for {
		db := s.db.WithContext(ctx)
		res := db.Exec("UPDATE fenceline.jobs SET "+retrySet+" WHERE id IN (?) AND state = 'failed'", part(db))
		if notUnique(res.Error) { // one was dispatched in this instant; the next look sees it
			continue
		}
		if res.Error != nil {
			return n, fmt.Errorf("retry failed jobs: %w", res.Error)
		}
		if n += res.RowsAffected; res.RowsAffected == 0 {
			return n, nil
		}
	}
}
