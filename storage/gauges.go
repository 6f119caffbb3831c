package storage

import (
	"context"
	"fmt"
	"time"
)

// Gauges are numbers about the whole installation, for metrics.
type Gauges struct {
	Failed  int64 // jobs on the list of failed ones, counted up to [CountCap]+1
	Workers int64 // that beat within the last minute
}

// Gauges counts what [Store.Queues] does not.
func (s *Store) Gauges(ctx context.Context) (g Gauges, err error) {
	err = s.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM (SELECT FROM fenceline.jobs WHERE state = 'failed' LIMIT $1) f),
		(SELECT count(*) FROM fenceline.workers WHERE stopped_at IS NULL AND heartbeat_at > clock_timestamp() - interval '1 minute')`,
		CountCap+1).Scan(&g.Failed, &g.Workers)
	if err != nil {
		return g, fmt.Errorf("count failed jobs and workers: %w", err)
	}
	return g, nil
}

// CountWaiting is how many jobs of a queue wait for anything, counted up to twice [CountCap]+1.
func (s *Store) CountWaiting(ctx context.Context, queue string) (n int64, err error) {
	// In two parts, each of which has its index.
	err = s.pool.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM (SELECT FROM fenceline.jobs WHERE queue = $1 AND state = 'queued' AND ready_at IS NOT NULL LIMIT $2) a)
		+ (SELECT count(*) FROM (SELECT FROM fenceline.jobs WHERE queue = $1 AND state = 'queued' AND ready_at IS NULL LIMIT $2) b)`,
		queue, CountCap+1).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count what waits in queue %s: %w", queue, err)
	}
	return n, nil
}

// ClearQueue cancels every job that waits in a queue by now, for whatever it
// waits, and answers how many it was; what runs goes on. What waits behind one of
// them in a chain is cancelled with it and not counted. When it fails half-way
// those that it answers are cancelled.
func (s *Store) ClearQueue(ctx context.Context, queue string) (n int64, err error) {
	var now time.Time
	if err := s.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return 0, fmt.Errorf("clear queue %s: %w", queue, err)
	}
	for {
		tag, err := s.pool.Exec(ctx, `UPDATE fenceline.jobs SET state = 'cancelled', finished_at = clock_timestamp(), waiting_for = NULL, ready_at = NULL,
				error = 'its queue was cleared'
			WHERE state = 'queued' AND id IN (
				(SELECT id FROM fenceline.jobs WHERE queue = $1 AND state = 'queued' AND ready_at IS NOT NULL AND created_at <= $2 LIMIT 1000)
				UNION ALL
				(SELECT id FROM fenceline.jobs WHERE queue = $1 AND state = 'queued' AND ready_at IS NULL AND created_at <= $2 LIMIT 1000))`, queue, now)
		if err != nil {
			return n, fmt.Errorf("clear queue %s: %w", queue, err)
		}
		if n += tag.RowsAffected(); tag.RowsAffected() == 0 {
			return n, nil
		}
	}
}
