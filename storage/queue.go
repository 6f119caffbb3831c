package storage

import (
	"context"
	"fmt"
	"time"
)

// Queue is how much a queue holds now. Counts stop at [CountCap]+1.
type Queue struct {
	Name string `json:"name"`
	// Waiting are jobs that could run now; Delayed wait for a time, a retry, a cap or another job.
	Waiting int64 `json:"waiting"`
	Delayed int64 `json:"delayed"`
	Running int64 `json:"running"`
	// OldestWait is for how long the job has waited that could have run first; zero when none waits.
	OldestWait time.Duration `json:"-"`
	// OldestWaitSeconds is OldestWait for JSON.
	OldestWaitSeconds float64    `json:"oldest_wait_seconds"`
	PausedAt          *time.Time `json:"paused_at,omitempty"`
	PausedBy          string     `json:"paused_by,omitempty"`
	MaxRunning        *int       `json:"max_running,omitempty"` // its cap
}

// Queues are the queues that hold something, are paused or capped, or are served
// by a worker that beats, by name. The cost grows with what waits and runs, up to
// [CountCap] for each, never with what has ended.
func (s *Store) Queues(ctx context.Context) ([]Queue, error) {
	list := []Queue{}
	err := s.db.WithContext(ctx).Raw(`WITH RECURSIVE ready AS (
			(SELECT queue FROM fenceline.jobs WHERE state = 'queued' AND ready_at IS NOT NULL ORDER BY queue LIMIT 1)
			UNION ALL SELECT (SELECT j.queue FROM fenceline.jobs j WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.queue > r.queue ORDER BY j.queue LIMIT 1)
			FROM ready r WHERE r.queue IS NOT NULL
		), waits AS (
			(SELECT queue FROM fenceline.jobs WHERE state = 'queued' AND ready_at IS NULL ORDER BY queue LIMIT 1)
			UNION ALL SELECT (SELECT j.queue FROM fenceline.jobs j WHERE j.state = 'queued' AND j.ready_at IS NULL AND j.queue > w.queue ORDER BY j.queue LIMIT 1)
			FROM waits w WHERE w.queue IS NOT NULL
		), running AS (
			SELECT queue, count(*) AS n FROM fenceline.jobs WHERE state IN ('running', 'cancelling') GROUP BY queue
		), names AS (
			SELECT queue AS name FROM ready UNION SELECT queue FROM waits UNION SELECT queue FROM running UNION SELECT name FROM fenceline.queues
			UNION SELECT name FROM fenceline.caps WHERE scope = 'queue'
			UNION SELECT jsonb_object_keys(queues) FROM fenceline.workers WHERE stopped_at IS NULL AND heartbeat_at > clock_timestamp() - interval '1 minute'
		)
		SELECT n.name, p.paused_at, coalesce(p.paused_by, '') AS paused_by, c.max_running, coalesce(r.n, 0) AS running,
			least(plain.n + due.n, ?) AS waiting, delayed.n AS delayed,
			greatest(extract(epoch FROM clock_timestamp() - least(plain.oldest, due.oldest))::float8, 0) AS oldest_wait_seconds
		FROM names n LEFT JOIN fenceline.queues p ON p.name = n.name LEFT JOIN fenceline.caps c ON c.scope = 'queue' AND c.name = n.name
		LEFT JOIN running r ON r.queue = n.name,
		LATERAL (SELECT count(*) AS n, min(ready_at) AS oldest FROM (SELECT j.ready_at FROM fenceline.jobs j WHERE j.queue = n.name AND j.state = 'queued' AND j.ready_at IS NOT NULL
			ORDER BY j.priority DESC, j.ready_at LIMIT ?) x) plain,
		LATERAL (SELECT count(*) AS n, min(due_at) AS oldest FROM (SELECT j.due_at FROM fenceline.jobs j WHERE j.queue = n.name AND j.state = 'queued' AND j.ready_at IS NULL
			AND j.export_id IS NOT NULL AND j.due_at <= clock_timestamp() AND j.waiting_for IS DISTINCT FROM 'chain' AND j.waiting_for IS DISTINCT FROM 'cap' ORDER BY j.due_at LIMIT ?) x) due,
		LATERAL (SELECT count(*) AS n FROM (SELECT FROM fenceline.jobs j WHERE j.queue = n.name AND j.state = 'queued' AND j.ready_at IS NULL
			AND (j.due_at > clock_timestamp() OR j.export_id IS NULL OR j.waiting_for IN ('chain', 'cap')) LIMIT ?) x) delayed
		WHERE n.name IS NOT NULL ORDER BY n.name`, CountCap+1, CountCap+1, CountCap+1, CountCap+1).Scan(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	for i := range list {
		list[i].OldestWait = time.Duration(list[i].OldestWaitSeconds * float64(time.Second))
	}
	return list, nil
}

// PauseQueue lets nothing of a queue begin until [Store.ResumeQueue]; what runs goes on.
func (s *Store) PauseQueue(ctx context.Context, name, by string) error {
	if _, err := s.pool.Exec(ctx, "INSERT INTO fenceline.queues (name, paused_by) VALUES ($1, $2) ON CONFLICT DO NOTHING", name, by); err != nil {
		return fmt.Errorf("pause queue %s: %w", name, err)
	}
	return nil
}

// ResumeQueue ends a pause; [ErrNotFound] when there is none.
func (s *Store) ResumeQueue(ctx context.Context, name string) error {
	return s.Transaction(ctx, func(tx Tx) error {
		res := tx.Exec("DELETE FROM fenceline.queues WHERE name = ?", name)
		if res.Error != nil {
			return fmt.Errorf("resume queue %s: %w", name, res.Error)
		}
		if res.RowsAffected == 0 {
			return fmt.Errorf("queue %s is not paused: %w", name, ErrNotFound)
		}
		err := tx.Exec(`UPDATE fenceline.jobs SET ring_at = greatest(due_at, clock_timestamp()) WHERE state = 'queued' AND export_id IS NOT NULL
			AND ring_at = 'infinity' AND queue = ? AND waiting_for IS DISTINCT FROM 'chain' AND waiting_for IS DISTINCT FROM 'cap'`, name).Error
		if err != nil {
			return fmt.Errorf("bring the jobs of queue %s back: %w", name, err)
		}
		return tell(tx)
	})
}

// tell wakes the relays at commit.
func tell(tx Tx) error {
	if err := tx.Exec("SELECT pg_notify('fenceline_jobs', '')").Error; err != nil {
		return fmt.Errorf("wake the relays: %w", err)
	}
	return nil
}

// Cap bounds how many jobs of a queue, a kind or a tenant run at once, on all
// workers together.
type Cap struct {
	Scope      string `json:"scope"` // queue, kind or tenant
	Name       string `json:"name"`  // of the tenant, * is each that has no cap of its own
	MaxRunning int    `json:"max_running"`
}

// Caps lists all caps.
func (s *Store) Caps(ctx context.Context) ([]Cap, error) {
	list := []Cap{}
	if err := s.db.WithContext(ctx).Raw("SELECT * FROM fenceline.caps ORDER BY scope, name").Scan(&list).Error; err != nil {
		return nil, fmt.Errorf("list caps: %w", err)
	}
	return list, nil
}

// SetCap sets or changes a cap. What runs above it goes on.
func (s *Store) SetCap(ctx context.Context, c Cap) error {
	return s.Transaction(ctx, func(tx Tx) error {
		err := tx.Exec("INSERT INTO fenceline.caps (scope, name, max_running) VALUES (?, ?, ?) ON CONFLICT (scope, name) DO UPDATE SET max_running = excluded.max_running",
			c.Scope, c.Name, c.MaxRunning).Error
		if err != nil {
			return fmt.Errorf("set the cap of %s %s: %w", c.Scope, c.Name, err)
		}
		return tell(tx)
	})
}

// DeleteCap removes a cap; [ErrNotFound] when there is none.
func (s *Store) DeleteCap(ctx context.Context, scope, name string) error {
	tag, err := s.pool.Exec(ctx, "DELETE FROM fenceline.caps WHERE scope = $1 AND name = $2", scope, name)
	if err != nil {
		return fmt.Errorf("delete the cap of %s %s: %w", scope, name, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("cap of %s %s: %w", scope, name, ErrNotFound)
	}
	return s.Unpark(ctx)
}

// Maintenance is whether workers begin nothing, since when and why.
type Maintenance struct {
	Since *time.Time `json:"since,omitempty"` // nil: no maintenance
	Note  string     `json:"note,omitempty"`
}

// MaintenanceMode reads whether maintenance goes on.
func (s *Store) MaintenanceMode(ctx context.Context) (Maintenance, error) {
	var m Maintenance
	err := s.pool.QueryRow(ctx, "SELECT maintenance_since, coalesce(maintenance_note, '') FROM fenceline.installation").Scan(&m.Since, &m.Note)
	if err != nil {
		return m, fmt.Errorf("look for maintenance: %w", err)
	}
	return m, nil
}

// SetMaintenance begins or ends maintenance: jobs are accepted and wait, workers
// begin nothing, schedules do not fire. What runs goes on.
func (s *Store) SetMaintenance(ctx context.Context, on bool, note string) error {
	return s.Transaction(ctx, func(tx Tx) error {
		err := tx.Exec(`UPDATE fenceline.installation SET maintenance_since = CASE WHEN ? THEN coalesce(maintenance_since, clock_timestamp()) END,
			maintenance_note = CASE WHEN ? THEN ? END`, on, on, note).Error
		if err != nil {
			return fmt.Errorf("set maintenance: %w", err)
		}
		return tell(tx)
	})
}
