package storage

import (
	"context"
	"fmt"
	"time"
)

// QueueFacts are the jobs of a queue that have been due for too long.
type QueueFacts struct {
	Queue  string
	Jobs   int64
	Oldest time.Duration // since when the first of them is due
}

// Overdue lists the queues with jobs that have been due for longer than a time
// and are not begun, the longest first. Those that wait for another job, or for
// room under a cap, are not due.
func (d *Doctor) Overdue(ctx context.Context, longer time.Duration) ([]QueueFacts, error) {
	q, err := lookFor[QueueFacts](ctx, d, `SELECT queue, count(*), (extract(epoch FROM clock_timestamp() - min(due_at)) * 1e9)::bigint FROM fenceline.jobs
		WHERE state = 'queued' AND due_at < clock_timestamp() - make_interval(secs => $1) AND waiting_for IS DISTINCT FROM 'chain' AND waiting_for IS DISTINCT FROM 'cap' GROUP BY queue ORDER BY min(due_at)`, longer.Seconds())
	if err != nil {
		return nil, fmt.Errorf("look for jobs that wait: %w", err)
	}
	return q, nil
}

// MaintenanceFacts are what holds jobs back on purpose.
type MaintenanceFacts struct {
	Since  *time.Time // nil: no maintenance
	Note   string
	Paused []string // queues
}

// Maintenance looks for what holds jobs back on purpose.
func (d *Doctor) Maintenance(ctx context.Context) (MaintenanceFacts, error) {
	m, err := lookAt[MaintenanceFacts](ctx, d, `SELECT maintenance_since, coalesce(maintenance_note, ''),
		(SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM fenceline.queues) FROM fenceline.installation`)
	if err != nil {
		return m, fmt.Errorf("look for maintenance: %w", err)
	}
	return m, nil
}

// NoticeFacts are about who is to be told of something, each counted to [CountCap]+1 at most.
type NoticeFacts struct {
	Unsent int64         // notices and deliveries that have been due for too long
	Oldest time.Duration // since when the first of those is due
	Dead   int64         // deliveries that were given up
}

// Notices looks for what nobody has sent for longer than a time, and for what was given up.
func (d *Doctor) Notices(ctx context.Context, longer time.Duration) (NoticeFacts, error) {
	n, err := lookAt[NoticeFacts](ctx, d, `WITH late AS (
			(SELECT created_at AS due FROM fenceline.outbox WHERE pending AND created_at < clock_timestamp() - make_interval(secs => $1) LIMIT $2)
			UNION ALL (SELECT d.next_at FROM fenceline.deliveries d JOIN fenceline.notify_targets t ON t.id = d.target_id AND t.disabled_at IS NULL
				WHERE d.state = 'pending' AND d.next_at < clock_timestamp() - make_interval(secs => $1) LIMIT $2))
		SELECT (SELECT count(*) FROM late), coalesce((SELECT (extract(epoch FROM clock_timestamp() - min(due)) * 1e9)::bigint FROM late), 0),
			(SELECT count(*) FROM (SELECT FROM fenceline.deliveries WHERE state = 'dead' LIMIT $2) x)`, longer.Seconds(), CountCap+1)
	if err != nil {
		return n, fmt.Errorf("look for notices: %w", err)
	}
	return n, nil
}

// SilentFacts are about running attempts that give no heartbeat.
type SilentFacts struct {
	Attempts int64         // silent for longer than the grace
	Jobs     int64         // that still belong to an attempt that was silent for longer than the lease
	Longest  time.Duration // of those
}

// Silent looks for attempts that nobody has condemned and for jobs that nobody
// has handed on.
func (d *Doctor) Silent(ctx context.Context, grace, lease time.Duration) (SilentFacts, error) {
	s, err := lookAt[SilentFacts](ctx, d, `SELECT
		(SELECT count(*) FROM fenceline.attempts WHERE state IN ('running', 'sealed') AND heartbeat_at < clock_timestamp() - make_interval(secs => $1)),
		count(*), coalesce(extract(epoch FROM clock_timestamp() - min(a.heartbeat_at)) * 1e9, 0)::bigint
		FROM fenceline.jobs j JOIN fenceline.attempts a ON a.id = j.attempt_id
		WHERE j.state IN ('running', 'cancelling') AND a.heartbeat_at < clock_timestamp() - make_interval(secs => $2)`, grace.Seconds(), lease.Seconds())
	if err != nil {
		return s, fmt.Errorf("look for silent attempts: %w", err)
	}
	return s, nil
}

// SweepFacts are about the clean-up: what it did last and what it has left.
type SweepFacts struct {
	Ever         bool          // a run was begun
	Began        time.Duration // ago, the newest run
	Finished     bool          // the newest run
	Failed       int64         // items of the newest run
	Error        string        // of the newest run
	SinceGood    time.Duration // since the newest run that finished without an error
	EverGood     bool          // there was one
	Overdue      int64         // attempts that could have been condemned or deleted for longer than the given time
	LockHeldBy   int32         // the session that holds the clean-up's lock, 0 for nobody
	LockIdleSecs int64         // since that session has last done anything; 0 when this role may not see it
}

// Sweeps reads the record of the clean-ups and counts what has been due for
// longer than overdue under the given options.
func (d *Doctor) Sweeps(ctx context.Context, o SweepOptions, overdue time.Duration) (SweepFacts, error) {
	s, err := lookAt[SweepFacts](ctx, d, `WITH newest AS (SELECT * FROM fenceline.sweeps WHERE tenant IS NULL ORDER BY id DESC LIMIT 1),
		good AS (SELECT finished_at FROM fenceline.sweeps WHERE finished_at IS NOT NULL AND error IS NULL AND tenant IS NULL ORDER BY id DESC LIMIT 1),
		holder AS (SELECT l.pid, a.state_change FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND l.classid = ($5::bigint >> 32)::oid AND l.objid = ($5::bigint & 4294967295)::oid AND l.granted LIMIT 1)
		SELECT EXISTS (SELECT FROM newest), coalesce((SELECT extract(epoch FROM clock_timestamp() - started_at) * 1e9 FROM newest), 0)::bigint,
		coalesce((SELECT finished_at IS NOT NULL FROM newest), false), coalesce((SELECT failed FROM newest), 0), coalesce((SELECT error FROM newest), ''),
		coalesce((SELECT extract(epoch FROM clock_timestamp() - finished_at) * 1e9 FROM good), 0)::bigint, EXISTS (SELECT FROM good),
		(SELECT count(*) FROM fenceline.attempts WHERE state IN ('running', 'sealed') AND heartbeat_at < clock_timestamp() - make_interval(secs => $1::float8 + $4::float8))
		+ (SELECT count(*) FROM fenceline.attempts WHERE state IN ('fenced', 'failed', 'cancelled', 'condemned') AND stay_until IS NULL
			AND finished_at < (SELECT clock_timestamp()) - make_interval(secs => $2::float8 + $4::float8))
		+ (SELECT count(*) FROM fenceline.attempts WHERE state = 'superseded' AND stay_until IS NULL
			AND replaced_at < (SELECT clock_timestamp()) - make_interval(secs => $3::float8 + $4::float8))
		+ (SELECT count(*) FROM fenceline.attempts WHERE state = 'superseded' AND stay_until < 'infinity'
			AND stay_until < (SELECT clock_timestamp()) - make_interval(secs => $4::float8)),
		coalesce((SELECT pid FROM holder), 0), coalesce((SELECT extract(epoch FROM clock_timestamp() - state_change) FROM holder), 0)::bigint`,
		o.Grace.Seconds(), o.Quarantine.Seconds(), o.Superseded.Seconds(), overdue.Seconds(), sweepLock)
	if err != nil {
		return s, fmt.Errorf("look at the clean-ups: %w", err)
	}
	return s, nil
}

// FutureFacts are about heartbeats that have not happened yet.
type FutureFacts struct {
	Attempts int64
	Ahead    time.Duration // of the database's clock, the farthest
}

// FutureHeartbeats looks for attempts whose last heartbeat lies ahead of the
// database's clock by more than a time. Only the database writes that time.
func (d *Doctor) FutureHeartbeats(ctx context.Context, more time.Duration) (FutureFacts, error) {
	f, err := lookAt[FutureFacts](ctx, d, `SELECT count(*), coalesce(extract(epoch FROM max(heartbeat_at) - clock_timestamp()) * 1e9, 0)::bigint
		FROM fenceline.attempts WHERE state IN ('running', 'sealed') AND heartbeat_at > clock_timestamp() + make_interval(secs => $1)`, more.Seconds())
	if err != nil {
		return f, fmt.Errorf("look for heartbeats in the future: %w", err)
	}
	return f, nil
}

// AttemptFacts sum up the newest attempts.
type AttemptFacts struct {
	Attempts  int64         // that were looked at
	Published int64         // of them
	Slowest   time.Duration // 99 of 100 that published took no longer
	// Outlived are those whose worker lived but was taken for lost: its lease was over, or its job was with another.
	Outlived int64
	Running  int64         // that still hold their job
	Silence  time.Duration // the longest since the last heartbeat of one that runs
}

// Attempts sums up at most the given number of the newest attempts.
func (d *Doctor) Attempts(ctx context.Context, newest int) (AttemptFacts, error) {
	a, err := lookAt[AttemptFacts](ctx, d, `WITH a AS (
			SELECT a.*, a.state IN ('running', 'sealed') AND j.attempt_id = a.id AS runs
			FROM (SELECT * FROM fenceline.attempts ORDER BY token DESC LIMIT $1) a JOIN fenceline.jobs j ON j.id = a.job_id)
		SELECT count(*), count(*) FILTER (WHERE verdict IN ('published', 'superseded')),
		coalesce(extract(epoch FROM percentile_disc(0.99) WITHIN GROUP (ORDER BY finished_at - started_at)
			FILTER (WHERE verdict IN ('published', 'superseded'))) * 1e9, 0)::bigint,
		count(*) FILTER (WHERE reason IN ('lease_lost', 'handed_on', 'newer_attempt')),
		count(*) FILTER (WHERE runs), coalesce(extract(epoch FROM clock_timestamp() - min(heartbeat_at) FILTER (WHERE runs)) * 1e9, 0)::bigint
		FROM a`, newest)
	if err != nil {
		return a, fmt.Errorf("sum up the newest attempts: %w", err)
	}
	return a, nil
}

// HasPublished tells whether any pointer names files.
func (d *Doctor) HasPublished(ctx context.Context) (bool, error) {
	row, err := lookAt[struct{ Yes bool }](ctx, d, "SELECT EXISTS (SELECT FROM fenceline.attempts WHERE state = 'published')")
	if err != nil {
		return false, fmt.Errorf("look for publications: %w", err)
	}
	return row.Yes, nil
}
