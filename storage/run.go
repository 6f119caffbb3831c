package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Finish is how a run of a plain job ends.
type Finish struct {
	Job uuid.UUID `json:"job"`
	Run uuid.UUID `json:"-"`
	// Outcome is done; failed, which counts and may be tried again; released, which waits again and was no
	// attempt; or cancelled, which gives the job up.
	Outcome string          `json:"outcome"`
	Reason  string          `json:"reason,omitempty"` // of a failure: error, panic or timeout
	Error   string          `json:"error,omitempty"`
	Stack   string          `json:"stack,omitempty"`
	Final   bool            `json:"final,omitempty"` // trying again is of no use
	Delay   float64         `json:"delay,omitempty"` // seconds until it is due again
	Waiting string          `json:"waiting_for,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	// Progress is what was reported last; nil when nothing changed.
	Progress json.RawMessage `json:"progress,omitempty"`
}

// Want asks for jobs of a queue, one for each name of a run to be. The names are
// new and random, so that the question can be asked again.
type Want struct {
	Queue string      `json:"queue"`
	Runs  []uuid.UUID `json:"runs"`
}

// Claimed is a plain job that a worker is to run.
type Claimed struct {
	Run uuid.UUID
	Job Job // without what only lists need
}

// Turned is the answer to a turn.
type Turned struct {
	// Ended says by run what became of its job: done, queued, failed or cancelled, or stale when the run
	// was not the job's newest any more, and nothing was changed.
	Ended   map[uuid.UUID]string
	Claimed []Claimed
}

// Turn ends runs and claims jobs for a worker, all in one statement and one
// commit: what many do at once costs them one round trip and one fsync. It is
// sent until it is answered; [ErrUnknownOutcome] when ctx ends first.
func (s *Store) Turn(ctx context.Context, worker uuid.UUID, finish []Finish, wants []Want) (Turned, error) {
	byRun := make(map[uuid.UUID]Finish, len(finish))
	for _, f := range finish {
		byRun[f.Run] = f
	}
	ends, err := json.Marshal(byRun)
	if err != nil {
		return Turned{}, fmt.Errorf("encode the ends of runs: %w", err)
	}
	asks, err := json.Marshal(wants)
	if err != nil {
		return Turned{}, fmt.Errorf("encode what is wanted: %w", err)
	}
	var turned Turned
	again := false
	err = decide(ctx, func(ctx context.Context) error {
		turned, err = s.turn(ctx, worker, finish, string(ends), wants, string(asks), again)
		again = true
		return err
	})
	if err != nil {
		return Turned{}, fmt.Errorf("end and claim runs: %w", err)
	}
	return turned, nil
}

const noRun = `NULL::uuid, NULL::text, NULL::text, NULL::text, NULL::text, NULL::text, 0, 0, 0, 0, 0, 0, 0, 0, NULL::text, NULL::text,
	NULL::uuid, NULL::uuid, NULL::uuid, NULL::timestamptz, NULL::timestamptz, NULL::text`

const (
	turnEnds   = "SELECT o_run, o_state, " + noRun + " FROM fenceline.finish_runs($1::jsonb)"
	turnClaims = "SELECT * FROM fenceline.claim_runs($1, $2::jsonb, $3)"
	turnBoth   = "SELECT o_run, o_state, " + noRun + " FROM fenceline.finish_runs($4::jsonb) UNION ALL " + turnClaims
)

func (s *Store) turn(ctx context.Context, worker uuid.UUID, finish []Finish, ends string, wants []Want, asks string, again bool) (Turned, error) {
	sql, args := turnBoth, []any{worker, asks, again, ends}
	switch {
	case len(finish) == 0:
		sql, args = turnClaims, args[:3]
	case len(wants) == 0:
		sql, args = turnEnds, []any{ends}
	}
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return Turned{}, err
	}
	defer rows.Close()
	turned := Turned{Ended: make(map[uuid.UUID]string, len(finish))}
	for rows.Next() {
		var (
			c                             Claimed
			state                         string
			id                            *uuid.UUID
			tenant, kind, queue           *string
			title, payload, backoff, tags *string
			created                       *time.Time
			by                            *string
		)
		j := &c.Job
		err := rows.Scan(&c.Run, &state, &id, &tenant, &kind, &queue, &title, &payload, &j.PayloadVersion, &j.Attempts, &j.Failures, &j.Crashes, &j.Releases,
			&j.MaxAttempts, &j.TimeoutSeconds, &j.Generation, &backoff, &tags, &j.BatchID, &j.ChainID, &j.AfterJob, &j.RetryUntil, &created, &by)
		if err != nil {
			return Turned{}, err
		}
		if id == nil {
			turned.Ended[c.Run] = state
			continue
		}
		j.ID, j.Tenant, j.Kind, j.Queue, j.Title, j.Payload, j.CreatedAt, j.RequestedBy = *id, *tenant, *kind, *queue, *title, json.RawMessage(*payload), *created, *by
		j.State, j.RunID, j.WorkerID = JobRunning, &c.Run, &worker
		if backoff != nil {
			j.Backoff = json.RawMessage(*backoff)
		}
		if err := json.Unmarshal([]byte(*tags), (*[]string)(&j.Tags)); err != nil {
			return Turned{}, err
		}
		turned.Claimed = append(turned.Claimed, c)
	}
	return turned, rows.Err()
}

// ResultOf is what a job left behind for the next one of its chain: the result of
// a plain job, or which export it published.
func (s *Store) ResultOf(ctx context.Context, job uuid.UUID) (json.RawMessage, error) {
	var result *string
	err := s.pool.QueryRow(ctx, `SELECT coalesce(j.result, CASE WHEN j.export_id IS NOT NULL THEN
			jsonb_build_object('export_id', j.export_id, 'attempt_id', j.attempt_id, 'token', a.token, 'rows', a.rows) END)::text
		FROM fenceline.jobs j LEFT JOIN fenceline.attempts a ON a.id = j.attempt_id WHERE j.id = $1`, job).Scan(&result)
	if err != nil {
		return nil, fmt.Errorf("read the result of job %s: %w", job, err)
	}
	if result == nil {
		return nil, nil
	}
	return json.RawMessage(*result), nil
}

// Promote makes plain jobs ready whose time has come, at most limit, and answers
// how many, and when the next one is due (zero when none waits).
func (s *Store) Promote(ctx context.Context, limit int) (n int, next time.Duration, err error) {
	var seconds *float64
	err = s.pool.QueryRow(ctx, `SELECT fenceline.promote($1), (SELECT extract(epoch FROM min(due_at) - clock_timestamp())::float8 FROM (
			SELECT due_at FROM fenceline.jobs WHERE state = 'queued' AND export_id IS NULL AND ready_at IS NULL
				AND waiting_for IS DISTINCT FROM 'chain' AND waiting_for IS DISTINCT FROM 'cap' AND due_at > clock_timestamp() ORDER BY due_at LIMIT 1) d)`,
		limit).Scan(&n, &seconds)
	if err != nil {
		return 0, 0, fmt.Errorf("make jobs ready: %w", err)
	}
	if seconds != nil {
		next = max(time.Duration(*seconds*float64(time.Second)), time.Millisecond)
	}
	return n, next, nil
}

// ReadyQueues are the queues that hold plain jobs which may be taken now, with how
// many, counted up to most. Paused queues are left out.
func (s *Store) ReadyQueues(ctx context.Context, most int) (map[string]int, error) {
	rows, err := s.pool.Query(ctx, `WITH RECURSIVE q AS (
			(SELECT queue FROM fenceline.jobs WHERE state = 'queued' AND ready_at IS NOT NULL ORDER BY queue LIMIT 1)
			UNION ALL SELECT (SELECT j.queue FROM fenceline.jobs j WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.queue > q.queue ORDER BY j.queue LIMIT 1)
			FROM q WHERE q.queue IS NOT NULL)
		SELECT queue, (SELECT count(*) FROM (SELECT FROM fenceline.jobs j WHERE j.queue = q.queue AND j.state = 'queued' AND j.ready_at IS NOT NULL LIMIT $1) x)
		FROM q WHERE queue IS NOT NULL AND NOT EXISTS (SELECT FROM fenceline.queues p WHERE p.name = q.queue)
			AND NOT EXISTS (SELECT FROM fenceline.installation WHERE maintenance_since IS NOT NULL)`, most)
	if err != nil {
		return nil, fmt.Errorf("look for queues with work: %w", err)
	}
	defer rows.Close()
	ready := map[string]int{}
	for rows.Next() {
		var queue string
		var n int
		if err := rows.Scan(&queue, &n); err != nil {
			return nil, fmt.Errorf("look for queues with work: %w", err)
		}
		ready[queue] = n
	}
	return ready, rows.Err()
}

// Unpark lets jobs that waited for a cap try again, as far as there is room.
func (s *Store) Unpark(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, "SELECT fenceline.unpark()"); err != nil {
		return fmt.Errorf("wake jobs that wait for a cap: %w", err)
	}
	return nil
}

// GiveBack releases runs of plain jobs that a worker was given without knowing
// it, because the answer to its claim was lost.
func (s *Store) GiveBack(ctx context.Context, worker uuid.UUID, runs []uuid.UUID) error {
	ids := make([]string, len(runs)) // as text: behind a pooler pgx knows no arrays of UUIDs
	for i, id := range runs {
		ids[i] = id.String()
	}
	_, err := s.pool.Exec(ctx, `SELECT fenceline.finish_runs(coalesce(jsonb_object_agg(run_id, jsonb_build_object('job', id, 'outcome', 'released')), '{}'))
		FROM fenceline.jobs WHERE worker_id = $1 AND state IN ('running', 'cancelling') AND run_id = ANY ($2::text[]::uuid[])`, worker, ids)
	if err != nil {
		return fmt.Errorf("give runs back: %w", err)
	}
	return nil
}
