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

// Batch is a set of jobs that were asked for together. What has become of it is
// counted from its jobs whenever somebody asks.
type Batch struct {
	ID          uuid.UUID `json:"id"`
	Tenant      string    `json:"tenant"`
	Key         string    `json:"key"`
	Title       string    `json:"title"`
	RequestedBy string    `json:"requested_by,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
	// StopOnFailure cancels what is left when a job has failed.
	StopOnFailure bool `json:"stop_on_failure"`
	// OnSuccess, OnFailure and OnEnd are requests of jobs, for when every job is done, when the first has failed,
	// and when all have ended. They are kept as they will be inserted, sealed fields and hash included: not for showing.
	OnSuccess   json.RawMessage `json:"-"`
	OnFailure   json.RawMessage `json:"-"`
	OnEnd       json.RawMessage `json:"-"`
	CancelledAt *time.Time      `json:"cancelled_at,omitempty"`
	SettledAt   *time.Time      `json:"settled_at,omitempty"` // when its end was seen
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

// ErrBatchEnded means that a batch takes no more jobs: it was cancelled, or its end was acted on.
var ErrBatchEnded = errors.New("the batch takes no more jobs")

// CreateBatch makes a batch in the caller's transaction, with jobs to follow in
// the same one: a batch without jobs is never settled.
func (s *Store) CreateBatch(ctx context.Context, tx Tx, b Batch) (Batch, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Batch{}, fmt.Errorf("make a batch id: %w", err)
	}
	if b.Key == "" {
		b.Key = id.String()
	}
	var out Batch
	res := tx.WithContext(ctx).Raw(`INSERT INTO fenceline.batches (id, tenant, key, title, requested_by, stop_on_failure, on_success, on_failure, on_end)
		VALUES (?, ?, ?, ?, ?, ?, ?::jsonb, ?::jsonb, ?::jsonb) ON CONFLICT (tenant, key) DO NOTHING RETURNING *`,
		id, b.Tenant, b.Key, b.Title, b.RequestedBy, b.StopOnFailure, jsonText(b.OnSuccess), jsonText(b.OnFailure), jsonText(b.OnEnd)).Scan(&out)
	if res.Error != nil {
		return Batch{}, fmt.Errorf("make batch %s: %w", b.Key, res.Error)
	}
	if res.RowsAffected == 0 {
		return Batch{}, fmt.Errorf("make batch: %w: a batch of tenant %s has the key %q", ErrKeyReused, b.Tenant, b.Key)
	}
	return out, nil
}

func jsonText(raw json.RawMessage) *string {
	if raw == nil {
		return nil
	}
	return new(string(raw))
}

// joinBatch is called after jobs were inserted into a batch, whose row their
// reference to it has locked: nobody settles it before the caller commits.
func joinBatch(tx Tx, id uuid.UUID) error {
	var b struct {
		Settled, Cancelled, Called bool
	}
	err := tx.Raw(`SELECT settled_at IS NOT NULL AS settled, cancelled_at IS NOT NULL AS cancelled,
		EXISTS (SELECT FROM fenceline.batch_calls c WHERE c.batch_id = b.id AND c.event IN ('success', 'end')) AS called
		FROM fenceline.batches b WHERE id = ?`, id).Scan(&b).Error
	if err != nil {
		return fmt.Errorf("look at batch %s: %w", id, err)
	}
	if b.Cancelled || b.Settled && b.Called {
		return fmt.Errorf("batch %s: %w", id, ErrBatchEnded)
	}
	if !b.Settled {
		return nil
	}
	if err := tx.Exec("UPDATE fenceline.batches SET settled_at = NULL WHERE id = ?", id).Error; err != nil {
		return fmt.Errorf("reopen batch %s: %w", id, err)
	}
	return nil
}

// OpenBatches are batches about whose jobs there may be something to do: all have
// ended, or one has failed that nothing was done about. At most limit.
func (s *Store) OpenBatches(ctx context.Context, limit int) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := s.db.WithContext(ctx).Raw(`SELECT b.id FROM fenceline.batches b WHERE b.settled_at IS NULL AND (
			NOT EXISTS (SELECT FROM fenceline.jobs j WHERE j.batch_id = b.id AND j.state IN ('queued', 'running', 'cancelling'))
				AND EXISTS (SELECT FROM fenceline.jobs j WHERE j.batch_id = b.id)
			OR (b.stop_on_failure AND b.cancelled_at IS NULL OR b.on_failure IS NOT NULL AND NOT EXISTS (
					SELECT FROM fenceline.batch_calls c WHERE c.batch_id = b.id AND c.event = 'failure'))
				AND EXISTS (SELECT FROM fenceline.jobs j WHERE j.batch_id = b.id AND j.state = 'failed'))
		ORDER BY b.id LIMIT ?`, limit).Scan(&ids).Error
	if err != nil {
		return nil, fmt.Errorf("look for batches that have ended: %w", err)
	}
	return ids, nil
}

// BatchCall is a job that a batch asks for when something has happened to it.
type BatchCall struct {
	Event   string          `json:"event"` // success, failure or end
	Request json.RawMessage `json:"-"`
	JobID   *uuid.UUID      `json:"job_id,omitempty"`
	Error   *string         `json:"error,omitempty"`
	At      time.Time       `json:"at"`
}

// SettleBatch looks, in the caller's transaction, what has become of a batch, and
// claims the calls that are due now: each is answered once, ever. stop says that
// what is left of the batch must be cancelled. Another who settles the same batch
// is skipped: nothing is due then.
func (s *Store) SettleBatch(ctx context.Context, tx Tx, id uuid.UUID) (b Batch, calls []BatchCall, stop bool, err error) {
	tx = tx.WithContext(ctx)
	res := tx.Raw("SELECT * FROM fenceline.batches WHERE id = ? AND settled_at IS NULL FOR UPDATE SKIP LOCKED", id).Scan(&b)
	if res.Error != nil || res.RowsAffected == 0 {
		return b, nil, false, res.Error
	}
	var has struct{ Live, Failed, Undone bool } // a statement of its own: it sees what was committed before the lock
	err = tx.Raw(`SELECT EXISTS (SELECT FROM fenceline.jobs WHERE batch_id = ? AND state IN ('queued', 'running', 'cancelling')) AS live,
		EXISTS (SELECT FROM fenceline.jobs WHERE batch_id = ? AND state = 'failed') AS failed,
		EXISTS (SELECT FROM fenceline.jobs WHERE batch_id = ? AND state = 'cancelled' AND (error IS NULL OR error NOT LIKE 'skipped: %')) AS undone`, id, id, id).Scan(&has).Error
	if err != nil {
		return b, nil, false, fmt.Errorf("look at the jobs of batch %s: %w", id, err)
	}
	due := map[string]json.RawMessage{}
	if has.Failed {
		due["failure"] = b.OnFailure
	}
	if !has.Live {
		due["end"] = b.OnEnd
		if !has.Failed && !has.Undone {
			due["success"] = b.OnSuccess
		}
		if err := tx.Exec("UPDATE fenceline.batches SET settled_at = clock_timestamp() WHERE id = ?", id).Error; err != nil {
			return b, nil, false, fmt.Errorf("settle batch %s: %w", id, err)
		}
	}
	for _, event := range []string{"failure", "success", "end"} {
		request := due[event]
		if request == nil {
			continue
		}
		res := tx.Exec("INSERT INTO fenceline.batch_calls (batch_id, event) VALUES (?, ?) ON CONFLICT DO NOTHING", id, event)
		if res.Error != nil {
			return b, nil, false, fmt.Errorf("claim the call of batch %s: %w", id, res.Error)
		}
		if res.RowsAffected == 1 {
			calls = append(calls, BatchCall{Event: event, Request: request})
		}
	}
	return b, calls, b.StopOnFailure && has.Failed && has.Live && b.CancelledAt == nil, nil
}

// RecordCall notes what came of a call that [Store.SettleBatch] answered: a job, or why there is none.
func (s *Store) RecordCall(ctx context.Context, tx Tx, batch uuid.UUID, event string, job uuid.UUID, failure string) error {
	var id *uuid.UUID
	if job != uuid.Nil {
		id = &job
	}
	err := tx.WithContext(ctx).Exec("UPDATE fenceline.batch_calls SET job_id = ?, error = ? WHERE batch_id = ? AND event = ?", id, nullable(failure), batch, event).Error
	if err != nil {
		return fmt.Errorf("record the call of batch %s: %w", batch, err)
	}
	return nil
}

// BatchCalls lists what was called for a batch.
func (s *Store) BatchCalls(ctx context.Context, batch uuid.UUID) ([]BatchCall, error) {
	list := []BatchCall{}
	if err := s.db.WithContext(ctx).Raw("SELECT event, job_id, error, at FROM fenceline.batch_calls WHERE batch_id = ? ORDER BY at", batch).Scan(&list).Error; err != nil {
		return nil, fmt.Errorf("list the calls of batch %s: %w", batch, err)
	}
	return list, nil
}

// CancelBatch cancels what is left of a batch: what waits at once, what runs when
// its worker confirms; nothing can be added any more. It answers how many jobs it
// was. When it fails half-way the next call goes on. A batch that has ended stays as it is.
func (s *Store) CancelBatch(ctx context.Context, scope Scope, id uuid.UUID) (n int64, err error) {
	if _, err := s.Batch(ctx, scope, id); err != nil {
		return 0, err
	}
	if _, err := s.pool.Exec(ctx, "UPDATE fenceline.batches SET cancelled_at = clock_timestamp() WHERE id = $1 AND cancelled_at IS NULL AND settled_at IS NULL", id); err != nil {
		return 0, fmt.Errorf("cancel batch %s: %w", id, err)
	}
	for {
		tag, err := s.pool.Exec(ctx, `SELECT fenceline.cancel_job(id) FROM (SELECT id FROM fenceline.jobs
			WHERE batch_id = $1 AND state IN ('queued', 'running') ORDER BY id LIMIT 1000) j`, id)
		if err != nil {
			return n, fmt.Errorf("cancel the jobs of batch %s: %w", id, err)
		}
		if n += tag.RowsAffected(); tag.RowsAffected() == 0 {
			return n, nil
		}
	}
}

// BatchOf is the batch that a job belongs to, or that has called it;
// [ErrNotFound] when there is none.
func (s *Store) BatchOf(ctx context.Context, job uuid.UUID) (Batch, error) {
	var b Batch
	res := s.db.WithContext(ctx).Raw(`SELECT b.* FROM fenceline.batches b WHERE b.id = coalesce(
		(SELECT batch_id FROM fenceline.jobs WHERE id = ?), (SELECT batch_id FROM fenceline.batch_calls WHERE job_id = ? LIMIT 1))`, job, job).Scan(&b)
	if res.Error != nil {
		return b, fmt.Errorf("read the batch of job %s: %w", job, res.Error)
	}
	if res.RowsAffected == 0 {
		return b, fmt.Errorf("batch of job %s: %w", job, ErrNotFound)
	}
	return b, nil
}
