package storage

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// QueueDelay says why jobs of a queue do not run yet; Later and Held part its
// [Queue].Delayed as long as that is not capped.
type QueueDelay struct {
	Later int64 // their time has not come, or they are tried again later
	Held  int64 // they wait for a cap, a limit, a lease or the job before them
}

// QueueDelays parts the delayed jobs of queues, each counted to [CountCap]+1.
func (s *Store) QueueDelays(ctx context.Context, queues []Queue) (map[string]QueueDelay, error) {
	names := make([]string, len(queues))
	for i, q := range queues {
		names[i] = q.Name
	}
	var rows []struct {
		Name        string
		Later, Held int64
	}
	err := s.db.WithContext(ctx).Raw(`SELECT n.name, x.later, x.held FROM unnest(?::text[]) n(name), LATERAL (
			SELECT count(*) FILTER (WHERE NOT held) AS later, count(*) FILTER (WHERE held) AS held FROM (
				SELECT coalesce(j.waiting_for IN ('chain', 'cap', 'lease', 'overlap', 'circuit', 'rate'), false) AS held FROM fenceline.jobs j
				WHERE j.queue = n.name AND j.state = 'queued' AND j.ready_at IS NULL
					AND (j.due_at > clock_timestamp() OR j.export_id IS NULL OR j.waiting_for IN ('chain', 'cap')) LIMIT ?) d) x`,
		textArray(names), CountCap+1).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("count delayed jobs: %w", err)
	}
	delays := make(map[string]QueueDelay, len(rows))
	for _, r := range rows {
		delays[r.Name] = QueueDelay{r.Later, r.Held}
	}
	return delays, nil
}

// RunningJob is a job at work, with who has it.
type RunningJob struct {
	ID       uuid.UUID
	Kind     string
	Title    string
	Tenant   string
	State    JobState
	WorkerID *uuid.UUID // of a plain job
	Worker   *string    // of an export: the name
}

// RunningJobs lists what is at work on all workers, the oldest first, at most limit.
func (s *Store) RunningJobs(ctx context.Context, limit int) ([]RunningJob, error) {
	var list []RunningJob
	err := s.db.WithContext(ctx).Raw(`SELECT j.id, j.kind, j.title, j.tenant, j.state, CASE WHEN j.export_id IS NULL THEN j.worker_id END AS worker_id, a.worker
		FROM fenceline.jobs j LEFT JOIN fenceline.attempts a ON a.id = j.attempt_id WHERE j.state IN ('running', 'cancelling') ORDER BY j.id LIMIT ?`, limit).Scan(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list what runs: %w", err)
	}
	return list, nil
}
