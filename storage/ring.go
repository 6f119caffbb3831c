package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Bell says which job to ring for, and under which name.
type Bell struct {
	ID         uuid.UUID
	Queue      string
	Generation int
}

// TakeBells answers up to limit jobs of exports that must be rung for now, and puts
// their next ring off by again: whoever takes a bell rings it, and if the ring is
// lost it comes back. Several relays may take bells at once; each bell goes to one.
// Jobs of paused queues are laid aside until [Store.ResumeQueue] brings them back.
func (s *Store) TakeBells(ctx context.Context, limit int, again time.Duration) ([]Bell, error) {
	var bells []Bell
	err := s.db.WithContext(ctx).Raw(`WITH due AS (
			SELECT j.id, q.name IS NOT NULL AS paused FROM fenceline.jobs j LEFT JOIN fenceline.queues q ON q.name = j.queue
			WHERE j.state = 'queued' AND j.export_id IS NOT NULL AND j.ring_at <= clock_timestamp()
			ORDER BY j.ring_at LIMIT ? FOR NO KEY UPDATE OF j SKIP LOCKED), taken AS (
		UPDATE fenceline.jobs j SET ring_at = CASE WHEN due.paused THEN 'infinity' ELSE clock_timestamp() + make_interval(secs => ?) END
		FROM due WHERE j.id = due.id RETURNING j.id, j.queue, j.generation, due.paused)
		SELECT id, queue, generation FROM taken WHERE NOT paused`, limit, again.Seconds()).Scan(&bells).Error
	if err != nil {
		return nil, fmt.Errorf("look for jobs to ring for: %w", err)
	}
	return bells, nil
}

// RingAgain brings bells back that could not be rung.
func (s *Store) RingAgain(ctx context.Context, bells []Bell, delay time.Duration) error {
	ids := make([]string, len(bells)) // as text: behind a pooler pgx knows no arrays of UUIDs
	for i, b := range bells {
		ids[i] = b.ID.String()
	}
	_, err := s.pool.Exec(ctx, `UPDATE fenceline.jobs SET ring_at = clock_timestamp() + make_interval(secs => $2)
		WHERE id = ANY ($1::uuid[]) AND state = 'queued'`, ids, delay.Seconds())
	if err != nil {
		return fmt.Errorf("put bells back: %w", err)
	}
	return nil
}

// NewGeneration renames a waiting job's bell, because the old name is blocked
// in Redis by a task that will never be delivered.
func (s *Store) NewGeneration(ctx context.Context, b Bell) error {
	_, err := s.pool.Exec(ctx, `UPDATE fenceline.jobs SET generation = generation + 1, ring_at = clock_timestamp()
		WHERE id = $1 AND generation = $2 AND state = 'queued'`, b.ID, b.Generation)
	if err != nil {
		return fmt.Errorf("rename the bell of job %s: %w", b.ID, err)
	}
	return nil
}

// RingAll makes every waiting job ring as soon as it is due: Redis was emptied.
func (s *Store) RingAll(ctx context.Context) (int64, error) {
	tag, err := s.pool.Exec(ctx, `UPDATE fenceline.jobs SET ring_at = due_at
		WHERE state = 'queued' AND export_id IS NOT NULL AND ring_at > due_at AND ring_at <> 'infinity'`)
	if err != nil {
		return 0, fmt.Errorf("ring for all waiting jobs: %w", err)
	}
	return tag.RowsAffected(), nil
}

// Lost is a job whose attempt gave no more heartbeat and that was handed on.
type Lost struct {
	JobID     uuid.UUID
	AttemptID uuid.UUID // zero for a plain job
	JobState  JobState  // queued, or failed or cancelled
	Worker    string
	Token     int64 // of the attempt
}

// HandOnLost gives jobs back to the queue whose attempt has been silent for
// longer than lease, by the database's clock.
func (s *Store) HandOnLost(ctx context.Context, lease time.Duration, limit int) ([]Lost, error) {
	var lost []Lost
	err := s.db.WithContext(ctx).Raw("SELECT * FROM fenceline.hand_on_lost(?, ?)", lease.Seconds(), limit).Scan(&lost).Error
	if err != nil {
		return nil, fmt.Errorf("hand on lost jobs: %w", err)
	}
	return lost, nil
}
