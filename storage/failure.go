package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// JobError is what went wrong with one attempt at a job.
type JobError struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Worker  string    `json:"worker"`
	Reason  string    `json:"reason"` // error, panic, timeout or crash
	Error   string    `json:"error"`
	Stack   *string   `json:"stack,omitempty"`
}

// JobErrors lists what went wrong with a job, the newest first, at most limit.
func (s *Store) JobErrors(ctx context.Context, job uuid.UUID, limit int) ([]JobError, error) {
	list := []JobError{}
	err := s.db.WithContext(ctx).Raw(`SELECT * FROM (
			SELECT attempt, at, worker, reason, error, stack FROM (SELECT * FROM fenceline.job_errors WHERE job_id = ? ORDER BY id DESC LIMIT ?) e
			UNION ALL SELECT number, finished_at, worker, reason, error, NULL FROM (SELECT * FROM fenceline.attempts
				WHERE job_id = ? AND error IS NOT NULL ORDER BY number DESC LIMIT ?) a) x ORDER BY at DESC LIMIT ?`, job, limit, job, limit, limit).Scan(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list the errors of job %s: %w", job, err)
	}
	return list, nil
}

// Failed lists failed jobs that match, the newest first, with their sealed values masked.
func (s *Store) Failed(ctx context.Context, scope Scope, f FailedFilter, after uuid.UUID, limit int) (Page[Job], error) {
	limit = pageSize(limit)
	q := f.of(s.db.WithContext(ctx), scope).Order("id DESC").Limit(limit + 1)
	if after != uuid.Nil {
		q = q.Where("id < ?", after)
	}
	page := Page[Job]{Items: []Job{}}
	if err := q.Find(&page.Items).Error; err != nil {
		return page, fmt.Errorf("list failed jobs: %w", err)
	}
	for i := range page.Items {
		page.Items[i].Payload = maskSealed(page.Items[i].Payload)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = page.Items[limit-1].ID.String()
	}
	return page, nil
}

// ForgetFailed takes failed jobs that match off the list: they become cancelled,
// with their errors kept until they are pruned. It answers how many there were.
func (s *Store) ForgetFailed(ctx context.Context, scope Scope, f FailedFilter) (n int64, err error) {
	for {
		db := s.db.WithContext(ctx)
		part := f.of(db, scope).Select("id").Order("id").Limit(retryPart)
		res := db.Exec("UPDATE fenceline.jobs SET state = 'cancelled' WHERE id IN (?) AND state = 'failed'", part)
		if res.Error != nil {
			return n, fmt.Errorf("forget failed jobs: %w", res.Error)
		}
		if n += res.RowsAffected; res.RowsAffected == 0 {
			return n, nil
		}
	}
}

// ForgetJob is [Store.ForgetFailed] for one job; [ErrNotFailed] when it has not failed.
func (s *Store) ForgetJob(ctx context.Context, scope Scope, id uuid.UUID) error {
	if _, err := s.Job(ctx, scope, id); err != nil {
		return err
	}
	tag, err := s.pool.Exec(ctx, "UPDATE fenceline.jobs SET state = 'cancelled' WHERE id = $1 AND state = 'failed'", id)
	if err != nil {
		return fmt.Errorf("forget job %s: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("forget job %s: %w", id, ErrNotFailed)
	}
	return nil
}

// Pruned is what a prune has removed.
type Pruned struct {
	Jobs    int64 `json:"jobs"`
	Batches int64 `json:"batches"`
	Workers int64 `json:"workers"`
}

// Prune removes plain jobs that are done or cancelled since longer than ended,
// failed ones since longer than failed, with their errors, and workers that are
// gone since longer than ended. The jobs of exports stay: they are the history of
// their publications. A batch goes as a whole, when it has ended since longer than
// both and none of its jobs makes an export. A thousand at a time; when it fails half-way those that it
// answers are gone.
func (s *Store) Prune(ctx context.Context, ended, failed time.Duration) (p Pruned, err error) {
	for {
		tag, err := s.pool.Exec(ctx, `DELETE FROM fenceline.jobs WHERE id IN (SELECT j.id FROM fenceline.jobs j
			WHERE j.finished_at < clock_timestamp() - make_interval(secs => $1) AND j.export_id IS NULL
				AND (j.state <> 'failed' OR j.finished_at < clock_timestamp() - make_interval(secs => $2))
				AND NOT EXISTS (SELECT FROM fenceline.outbox o WHERE o.job_id = j.id)
				AND (j.batch_id IS NULL OR EXISTS (SELECT FROM fenceline.batches b WHERE b.id = j.batch_id
					AND b.settled_at < clock_timestamp() - make_interval(secs => greatest($1, $2)))
					AND NOT EXISTS (SELECT FROM fenceline.jobs x WHERE x.batch_id = j.batch_id AND x.export_id IS NOT NULL))
			ORDER BY j.finished_at LIMIT 1000 FOR UPDATE SKIP LOCKED)`, ended.Seconds(), failed.Seconds())
		if err != nil {
			return p, fmt.Errorf("prune jobs: %w", err)
		}
		if p.Jobs += tag.RowsAffected(); tag.RowsAffected() == 0 {
			break
		}
	}
	if err := s.pruneBatches(ctx, max(ended, failed), &p); err != nil {
		return p, err
	}
	tag, err := s.pool.Exec(ctx, `DELETE FROM fenceline.workers w WHERE w.heartbeat_at < clock_timestamp() - make_interval(secs => $1)
		AND NOT EXISTS (SELECT FROM fenceline.jobs j WHERE j.worker_id = w.id AND j.state IN ('running', 'cancelling'))`, ended.Seconds())
	if err != nil {
		return p, fmt.Errorf("prune workers: %w", err)
	}
	p.Workers = tag.RowsAffected()
	return p, nil
}

// pruneBatches removes batches whose jobs are all gone.
func (s *Store) pruneBatches(ctx context.Context, older time.Duration, p *Pruned) error {
	err := s.pool.QueryRow(ctx, `WITH empty AS (
			SELECT b.id FROM fenceline.batches b WHERE b.settled_at < clock_timestamp() - make_interval(secs => $1)
				AND NOT EXISTS (SELECT FROM fenceline.jobs j WHERE j.batch_id = b.id)
			ORDER BY b.id LIMIT 10000 FOR UPDATE SKIP LOCKED), calls AS (
			DELETE FROM fenceline.batch_calls c USING empty WHERE c.batch_id = empty.id)
		SELECT count(*) FROM empty`, older.Seconds()).Scan(&p.Batches)
	if err != nil || p.Batches == 0 {
		if err != nil {
			err = fmt.Errorf("prune batches: %w", err)
		}
		return err
	}
	tag, err := s.pool.Exec(ctx, `DELETE FROM fenceline.batches b WHERE b.settled_at < clock_timestamp() - make_interval(secs => $1)
		AND NOT EXISTS (SELECT FROM fenceline.jobs j WHERE j.batch_id = b.id) AND NOT EXISTS (SELECT FROM fenceline.batch_calls c WHERE c.batch_id = b.id)`, older.Seconds())
	if err != nil {
		return fmt.Errorf("prune batches: %w", err)
	}
	p.Batches = tag.RowsAffected()
	return nil
}
