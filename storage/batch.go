package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Batch is a set of jobs that were asked for together. What has become of it is
// counted from its jobs whenever somebody asks.
type Batch struct {
	ID          uuid.UUID `json:"id"`
	Tenant      string    `json:"tenant"`
	Key         string    `json:"key"`
	Title       string    `json:"title"`
	RequestedBy string    `json:"requested_by,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
}

// TableName names the table for gorm.
func (Batch) TableName() string { return "fenceline.batches" }

// EnsureBatch finds the batch of a tenant and key, or makes it.
func (s *Store) EnsureBatch(ctx context.Context, b Batch) (Batch, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Batch{}, fmt.Errorf("make a batch id: %w", err)
	}
	var out Batch
	err = s.db.WithContext(ctx).Raw(`WITH made AS (
			INSERT INTO fenceline.batches (id, tenant, key, title, requested_by) VALUES (?, ?, ?, ?, ?) ON CONFLICT (tenant, key) DO NOTHING RETURNING *)
		SELECT * FROM made UNION ALL SELECT * FROM fenceline.batches WHERE tenant = ? AND key = ? LIMIT 1`,
		id, b.Tenant, b.Key, b.Title, b.RequestedBy, b.Tenant, b.Key).Scan(&out).Error
	if err == nil && out.ID == uuid.Nil { // made by another in the same instant: our statement did not see it
		err = s.db.WithContext(ctx).Where("tenant = ? AND key = ?", b.Tenant, b.Key).Take(&out).Error
	}
	if err != nil {
		return Batch{}, fmt.Errorf("make batch %s: %w", b.Key, err)
	}
	return out, nil
}

// Batch reads a batch; [ErrNotFound] when the scope does not see it.
func (s *Store) Batch(ctx context.Context, scope Scope, id uuid.UUID) (Batch, error) {
	var b Batch
	err := s.db.WithContext(ctx).Where("id = ?", id).Take(&b).Error
	if errors.Is(err, gorm.ErrRecordNotFound) || err == nil && !scope.Sees(b.Tenant) {
		return Batch{}, fmt.Errorf("batch %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return Batch{}, fmt.Errorf("read batch %s: %w", id, err)
	}
	return b, nil
}

// Batches lists the newest batches that a scope sees, at most limit, after the
// one with the id after (zero for the first page).
func (s *Store) Batches(ctx context.Context, scope Scope, after uuid.UUID, limit int) ([]Batch, error) {
	list := []Batch{}
	db := s.db.WithContext(ctx).Order("id DESC").Limit(limit)
	if !scope.All {
		db = db.Where("tenant = ?", scope.Tenant)
	}
	if after != uuid.Nil {
		db = db.Where("id < ?", after)
	}
	if err := db.Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list batches: %w", err)
	}
	return list, nil
}

// BatchCounts are the jobs of a batch by state; the states partition Total.
type BatchCounts struct {
	Total    int64              `json:"total"`
	States   map[JobState]int64 `json:"states"`
	Failures []BatchFailure     `json:"failures"` // by reason, the commonest first, at most twenty
}

// Ended reports whether every job of the batch has ended.
func (c BatchCounts) Ended() bool {
	return c.States[JobQueued]+c.States[JobRunning]+c.States[JobCancelling] == 0
}

// BatchFailure is how many jobs of a batch failed for one reason.
type BatchFailure struct {
	Error string    `json:"error"`
	Count int64     `json:"count"`
	Job   uuid.UUID `json:"job"` // one of them
}

// CountBatch counts the jobs of a batch.
func (s *Store) CountBatch(ctx context.Context, id uuid.UUID) (BatchCounts, error) {
	c := BatchCounts{States: map[JobState]int64{}, Failures: []BatchFailure{}}
	var rows []struct {
		State JobState
		N     int64
	}
	db := s.db.WithContext(ctx)
	err := errors.Join(
		db.Raw("SELECT state, count(*) AS n FROM fenceline.jobs WHERE batch_id = ? GROUP BY state", id).Scan(&rows).Error,
		db.Raw(`SELECT error, count(*) AS count, (min(id::text))::uuid AS job FROM fenceline.jobs WHERE batch_id = ? AND state = 'failed'
			GROUP BY error ORDER BY count DESC, error LIMIT 20`, id).Scan(&c.Failures).Error)
	if err != nil {
		return c, fmt.Errorf("count batch %s: %w", id, err)
	}
	for _, r := range rows {
		c.States[r.State] = r.N
		c.Total += r.N
	}
	return c, nil
}

// RetryBatch queues the failed jobs of a batch again, with their errors kept and
// their failures counted anew, and answers how many there were.
func (s *Store) RetryBatch(ctx context.Context, scope Scope, id uuid.UUID) (int64, error) {
	if _, err := s.Batch(ctx, scope, id); err != nil {
		return 0, err
	}
	return s.RetryFailed(ctx, scope, FailedFilter{Batch: id})
}

// BatchFile is a file that a job of a batch has published.
type BatchFile struct {
	Job     uuid.UUID
	Title   string
	Export  uuid.UUID
	Attempt uuid.UUID
	Token   int64
	File
}

// BatchFiles are the files that the jobs of a batch have published and that are
// still there, by job, a page of at most limit jobs after the given one.
func (s *Store) BatchFiles(ctx context.Context, id, after uuid.UUID, limit int) ([]BatchFile, error) {
	list := []BatchFile{}
	err := s.db.WithContext(ctx).Raw(`SELECT j.id AS job, j.title, a.export_id AS export, a.id AS attempt, a.token, f.*
		FROM (SELECT id, title, attempt_id FROM fenceline.jobs WHERE batch_id = ? AND state = 'done' AND id > ? ORDER BY id LIMIT ?) j
		JOIN fenceline.attempts a ON a.id = j.attempt_id AND a.state IN ('published', 'superseded')
		JOIN fenceline.files f ON f.attempt_id = a.id ORDER BY j.id, f.name`, id, after, limit).Scan(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list the files of batch %s: %w", id, err)
	}
	return list, nil
}
