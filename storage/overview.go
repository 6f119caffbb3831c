package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Overview are the numbers of now, each counted to [CountCap]+1 at most, and what
// has ended since the numbers by the minute were counted.
type Overview struct {
	// Running jobs are at work; Waiting ones are everything that is queued.
	Running, Waiting int64
	OldestWait       *time.Time // since when the oldest due job waits
	Workers          int64      // that beat within the last minute
	// Tail is what ended after [History]'s To.
	Tail Stat
	// TailAtLeast says that it is more than that: the end of it was not counted.
	TailAtLeast bool
}

// Overview counts what the scope sees now. Its cost grows neither with what has
// ended nor with what waits.
func (s *Store) Overview(ctx context.Context, scope Scope) (Overview, error) {
	o, err := s.waiting(ctx, scope)
	if err != nil {
		return o, fmt.Errorf("count jobs: %w", err)
	}
	var looked int64
	err = s.pool.QueryRow(ctx, `WITH r AS (SELECT rolled_to FROM fenceline.stats_roll), tail AS (
			SELECT state, export_id IS NOT NULL AS export, tenant FROM (SELECT state, export_id, tenant FROM fenceline.jobs
				WHERE finished_at >= (SELECT rolled_to FROM r) ORDER BY finished_at LIMIT $2) j
			UNION ALL SELECT state, export, tenant FROM (SELECT state, export, tenant FROM fenceline.stats_left
				WHERE finished_at >= (SELECT rolled_to FROM r) ORDER BY finished_at LIMIT $2) l
			UNION ALL SELECT 'fenced', true, (SELECT tenant FROM fenceline.exports e WHERE e.id = a.export_id) FROM (SELECT export_id FROM fenceline.attempts
				WHERE verdict = 'fenced' AND finished_at >= (SELECT rolled_to FROM r) ORDER BY finished_at LIMIT $2) a)
		SELECT (SELECT rolled_to FROM r), (SELECT count(*) FROM tail), count(*) FILTER (WHERE state = 'done' AND export), count(*) FILTER (WHERE state = 'done' AND NOT export),
			count(*) FILTER (WHERE state = 'failed'), count(*) FILTER (WHERE state = 'fenced')
		FROM tail WHERE `+scope.cond("tenant", 1), scope.Tenant, CountCap+1).
		Scan(&o.Tail.At, &looked, &o.Tail.Published, &o.Tail.Done, &o.Tail.Failed, &o.Tail.Fenced)
	if err != nil {
		return o, fmt.Errorf("count what has just ended: %w", err)
	}
	o.TailAtLeast = looked > CountCap
	return o, nil
}

func (s *Store) waiting(ctx context.Context, scope Scope) (o Overview, err error) {
	// The oldest of all tenants is the oldest of each one's oldest.
	oldest := `SELECT min(due_at) FROM fenceline.jobs WHERE state = 'queued' AND (waiting_for IS NOT DISTINCT FROM 'chain') = false AND tenant = $1 AND due_at <= now()`
	if scope.All {
		oldest = `WITH RECURSIVE tenants AS (
			(SELECT tenant FROM fenceline.jobs WHERE state = 'queued' ORDER BY tenant LIMIT 1)
			UNION ALL SELECT (SELECT j.tenant FROM fenceline.jobs j WHERE j.state = 'queued' AND j.tenant > t.tenant ORDER BY j.tenant LIMIT 1) FROM tenants t WHERE t.tenant IS NOT NULL)
		SELECT min(x.due_at) FROM (SELECT tenant FROM tenants WHERE tenant IS NOT NULL LIMIT 1000) t, LATERAL (SELECT j.due_at FROM fenceline.jobs j
			WHERE j.state = 'queued' AND (j.waiting_for IS NOT DISTINCT FROM 'chain') = false AND j.tenant = t.tenant AND j.due_at <= now() ORDER BY j.due_at LIMIT 1) x`
	}
	err = s.pool.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM (SELECT FROM fenceline.jobs WHERE state IN ('running', 'cancelling') AND `+scope.cond("tenant", 1)+` LIMIT $2) x),
		(SELECT count(*) FROM (SELECT FROM fenceline.jobs WHERE state = 'queued' AND `+scope.cond("tenant", 1)+` LIMIT $2) x),
		(SELECT count(*) FROM fenceline.workers WHERE stopped_at IS NULL AND heartbeat_at > clock_timestamp() - interval '1 minute'),
		(`+oldest+`)`, scope.Tenant, CountCap+1).Scan(&o.Running, &o.Waiting, &o.Workers, &o.OldestWait)
	return o, err
}

// FailedJob is a line of the newest failures.
type FailedJob struct {
	ID         uuid.UUID
	ExportID   *uuid.UUID
	Tenant     string
	Kind       string
	Title      string
	Error      string
	FinishedAt time.Time
}

// FencedAttempt is a line of the newest attempts that were fenced out.
type FencedAttempt struct {
	ID, ExportID, JobID uuid.UUID
	Tenant, Kind        string
	Title, Key          string
	Number              int
	Token               int64
	FencedBy            *int64
	Worker              string
	FinishedAt          time.Time
}

// Working is a line of what runs now.
type Working struct {
	Job
	Step         *string `gorm:"column:a_step"` // of an export's attempt
	Rows         *int64  `gorm:"column:a_rows"`
	RowsExpected *int64  `gorm:"column:a_expected"`
	Worker       string  `gorm:"column:a_worker"`
	BeganAt      time.Time
}

// Attention is what somebody may want to look at first.
type Attention struct {
	Failed  []FailedJob
	Fenced  []FencedAttempt
	Running []Working
}

// fencedLook bounds among how many of the newest fenced attempts those of one tenant are looked for.
const fencedLook = 1000

// Attention lists the newest of each, at most limit.
func (s *Store) Attention(ctx context.Context, scope Scope, limit int) (a Attention, err error) {
	db := s.db.WithContext(ctx)
	err = scope.where(db.Table("fenceline.jobs"), "tenant").Select("id, export_id, tenant, kind, title, error, finished_at").
		Where("state = 'failed'").Order("finished_at DESC, id DESC").Limit(limit).Scan(&a.Failed).Error
	if err != nil {
		return a, fmt.Errorf("list the newest failures: %w", err)
	}
	newest := db.Raw("SELECT * FROM fenceline.attempts WHERE verdict = 'fenced' ORDER BY finished_at DESC LIMIT ?", fencedLook)
	err = scope.where(db.Table("(?) a", newest).Joins("JOIN fenceline.exports e ON e.id = a.export_id AND e.deleted_at IS NULL"), "e.tenant").
		Select("a.id, a.export_id, a.job_id, e.tenant, e.kind, e.title, e.key, a.number, a.token, a.fenced_by, a.worker, a.finished_at").
		Order("a.finished_at DESC").Limit(limit).Scan(&a.Fenced).Error
	if err != nil {
		return a, fmt.Errorf("list the newest fenced attempts: %w", err)
	}
	running := scope.where(db.Table("fenceline.jobs"), "tenant").Where("state IN ('running', 'cancelling')").Order("started_at DESC, id DESC").Limit(limit)
	err = db.Table("(?) j", running).Joins("LEFT JOIN fenceline.attempts a ON a.id = j.attempt_id").
		Joins("LEFT JOIN fenceline.workers w ON w.id = j.worker_id").
		Select(`j.*, a.step AS a_step, a.rows AS a_rows, a.rows_expected AS a_expected, coalesce(a.worker, w.name, '') AS a_worker,
			coalesce(a.started_at, j.started_at) AS began_at`).
		Order("j.started_at DESC, j.id DESC").Scan(&a.Running).Error
	if err != nil {
		return a, fmt.Errorf("list what runs: %w", err)
	}
	for i := range a.Running {
		a.Running[i].Payload = maskSealed(a.Running[i].Payload)
	}
	return a, nil
}

// LastSweep is the newest clean-up, nil when there was none.
func (s *Store) LastSweep(ctx context.Context) (*SweepRun, error) {
	var runs []SweepRun
	if err := s.db.WithContext(ctx).Raw("SELECT * FROM fenceline.sweeps ORDER BY id DESC LIMIT 1").Scan(&runs).Error; err != nil {
		return nil, fmt.Errorf("look for the last clean-up: %w", err)
	}
	if len(runs) == 0 {
		return nil, nil
	}
	return &runs[0], nil
}
