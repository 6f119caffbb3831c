package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Worker is a process that runs jobs.
type Worker struct {
	ID          uuid.UUID       `json:"id"`
	Name        string          `json:"name"`
	Host        string          `json:"host"`
	PID         int             `json:"pid" gorm:"column:pid"`
	Version     string          `json:"version"`
	Queues      json.RawMessage `json:"queues"` // name to weight
	Concurrency int             `json:"concurrency"`
	Running     int             `json:"running"`
	// Asked is what it was asked to do: drain (take nothing new) or stop (end after what it runs).
	Asked       *string    `json:"asked,omitempty"`
	StartedAt   time.Time  `json:"started_at"`
	HeartbeatAt time.Time  `json:"heartbeat_at"`
	StoppedAt   *time.Time `json:"stopped_at,omitempty"`
	// Silent is for how long it has not beaten, by the database's clock; only lists fill it.
	Silent time.Duration `json:"-" gorm:"-"`
}

// TableName names the table for gorm.
func (Worker) TableName() string { return "fenceline.workers" }

// RegisterWorker makes a worker known. From then on it must beat: see
// [Store.BeatWorker]. A PostgreSQL that is away is waited for until ctx ends.
func (s *Store) RegisterWorker(ctx context.Context, w Worker) error {
	err := decide(ctx, func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, `INSERT INTO fenceline.workers (id, name, host, pid, version, queues, concurrency) VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7)
			ON CONFLICT (id) DO NOTHING`, w.ID, w.Name, w.Host, w.PID, w.Version, string(w.Queues), w.Concurrency)
		return err
	})
	if err != nil {
		return fmt.Errorf("make worker %s known: %w", w.Name, err)
	}
	return nil
}

// RunProgress is what a run has reported.
type RunProgress struct {
	Job      uuid.UUID       `json:"job"`
	Run      uuid.UUID       `json:"run"`
	Progress json.RawMessage `json:"progress"`
}

// WorkerOrders are what a worker learns from its beat.
type WorkerOrders struct {
	Asked string // drain, stop, unknown (the row is gone) or empty
	// Runs are the runs of plain jobs that the worker has, by the state of their job: running or cancelling.
	// A run that is missing was handed on.
	Runs map[uuid.UUID]JobState
}

// BeatWorker says that a worker lives and what it runs, for all its plain jobs at
// once, and answers what was decided meanwhile.
func (s *Store) BeatWorker(ctx context.Context, worker uuid.UUID, running int, progress []RunProgress) (WorkerOrders, error) {
	var changed *string
	if len(progress) > 0 {
		raw, err := json.Marshal(progress)
		if err != nil {
			return WorkerOrders{}, fmt.Errorf("encode progress: %w", err)
		}
		changed = new(string(raw))
	}
	rows, err := s.pool.Query(ctx, "SELECT o_run, coalesce(o_state, '') FROM fenceline.worker_beat($1, $2, $3::jsonb)", worker, running, changed)
	if err != nil {
		return WorkerOrders{}, fmt.Errorf("heartbeat of the worker: %w", err)
	}
	defer rows.Close()
	orders := WorkerOrders{Runs: map[uuid.UUID]JobState{}}
	for rows.Next() {
		var run *uuid.UUID
		var state string
		if err := rows.Scan(&run, &state); err != nil {
			return WorkerOrders{}, fmt.Errorf("heartbeat of the worker: %w", err)
		}
		if run == nil {
			orders.Asked = state
		} else {
			orders.Runs[*run] = JobState(state)
		}
	}
	if err := rows.Err(); err != nil {
		return WorkerOrders{}, fmt.Errorf("heartbeat of the worker: %w", err)
	}
	return orders, nil
}

// WorkerStopped says that a worker has ended. What it still had is handed on at
// the next look of a relay.
func (s *Store) WorkerStopped(ctx context.Context, worker uuid.UUID) error {
	if _, err := s.pool.Exec(ctx, "UPDATE fenceline.workers SET stopped_at = clock_timestamp(), running = 0 WHERE id = $1", worker); err != nil {
		return fmt.Errorf("record that the worker stopped: %w", err)
	}
	return nil
}

// Workers lists the workers that beat within the last while, the newest beat
// first, at most limit.
func (s *Store) Workers(ctx context.Context, while time.Duration, limit int) ([]Worker, error) {
	var list []struct {
		Worker
		Quiet     float64
		Restarted bool
	}
	err := s.db.WithContext(ctx).Raw(`SELECT *, extract(epoch FROM clock_timestamp() - heartbeat_at)::float8 AS quiet,
			EXISTS (SELECT FROM fenceline.installation i WHERE i.restart_at > started_at) AS restarted
		FROM fenceline.workers WHERE heartbeat_at > clock_timestamp() - make_interval(secs => ?) ORDER BY heartbeat_at DESC, id LIMIT ?`, while.Seconds(), limit).Scan(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	out := make([]Worker, len(list))
	for i, w := range list {
		out[i] = w.Worker
		out[i].Silent = time.Duration(w.Quiet * float64(time.Second))
		if w.Restarted && w.StoppedAt == nil { // its row does not say so, its next beat does
			stop := "stop"
			out[i].Asked = &stop
		}
	}
	return out, nil
}

// RunningOn lists what a worker runs now: jobs with their newest run or attempt, at most limit.
func (s *Store) RunningOn(ctx context.Context, w Worker, limit int) ([]Job, error) {
	var list []Job
	err := s.db.WithContext(ctx).Raw(`SELECT * FROM (
			SELECT j.* FROM fenceline.jobs j WHERE j.worker_id = ? AND j.state IN ('running', 'cancelling')
			UNION ALL SELECT j.* FROM fenceline.jobs j JOIN fenceline.attempts a ON a.id = j.attempt_id
				WHERE j.state IN ('running', 'cancelling') AND j.export_id IS NOT NULL AND a.worker = ?) r ORDER BY id LIMIT ?`, w.ID, w.Name, limit).Scan(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list what worker %s runs: %w", w.Name, err)
	}
	for i := range list {
		list[i].Payload = maskSealed(list[i].Payload)
	}
	return list, nil
}

// AskWorker asks a worker, by its name, to drain or to stop; with "" it goes on as usual.
// [ErrNotFound] when no such worker beats.
func (s *Store) AskWorker(ctx context.Context, name, what string) error {
	tag, err := s.pool.Exec(ctx, "UPDATE fenceline.workers SET asked = $2 WHERE name = $1 AND stopped_at IS NULL", name, nullable(what))
	if err != nil {
		return fmt.Errorf("ask worker %s: %w", name, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("worker %s: %w", name, ErrNotFound)
	}
	return nil
}

// RestartWorkers lets every worker that runs now end after what it has in hand;
// whoever started it starts it again. It answers how many there are.
func (s *Store) RestartWorkers(ctx context.Context) (int64, error) {
	var n int64
	err := s.pool.QueryRow(ctx, `WITH told AS (UPDATE fenceline.installation SET restart_at = clock_timestamp())
		SELECT count(*) FROM fenceline.workers WHERE stopped_at IS NULL AND heartbeat_at > clock_timestamp() - interval '1 minute'`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("restart workers: %w", err)
	}
	return n, nil
}
