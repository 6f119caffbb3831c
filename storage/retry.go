package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// ErrNotFailed is the error for retrying a job that has not failed.
var ErrNotFailed = errors.New("the job has not failed")

// retrySet is what makes a failed job wait again: its errors are kept with its
// attempts, its failures and crashes are counted anew.
const retrySet = `state = 'queued', finished_at = NULL, attempt_id = NULL, failures = 0, crashes = 0,
	waiting_for = NULL, generation = generation + 1, due_at = clock_timestamp(), ring_at = clock_timestamp()`

// RetryJob queues a failed job again and answers it as it is now.
func (s *Store) RetryJob(ctx context.Context, scope Scope, id uuid.UUID) (Job, error) {
	if _, err := s.Job(ctx, scope, id); err != nil {
		return Job{}, err
	}
	var job Job
	res := s.db.WithContext(ctx).Raw("UPDATE fenceline.jobs SET "+retrySet+" WHERE id = ? AND state = 'failed' RETURNING *", id).Scan(&job)
	if res.Error != nil {
		return Job{}, fmt.Errorf("retry job %s: %w", id, res.Error)
	}
	if res.RowsAffected == 0 {
		return Job{}, fmt.Errorf("retry job %s: %w", id, ErrNotFailed)
	}
	return job, nil
}

// FailedFilter chooses failed jobs. What is empty does not choose.
type FailedFilter struct {
	Kind  string
	Queue string
	Error string // a part of the error's text, in capitals or not
	Batch uuid.UUID
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
	if f.Batch != uuid.Nil {
		db = db.Where("batch_id = ?", f.Batch)
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

// RetryFailed queues every failed job again that matches, and answers how many
// there were. When it fails half-way, those that it answers are queued.
func (s *Store) RetryFailed(ctx context.Context, scope Scope, f FailedFilter) (n int64, err error) {
	for {
		db := s.db.WithContext(ctx)
		part := f.of(db, scope).Select("id").Order("id").Limit(retryPart)
		res := db.Exec("UPDATE fenceline.jobs SET "+retrySet+" WHERE id IN (?) AND state = 'failed'", part)
		if res.Error != nil {
			return n, fmt.Errorf("retry failed jobs: %w", res.Error)
		}
		if n += res.RowsAffected; res.RowsAffected == 0 {
			return n, nil
		}
	}
}
