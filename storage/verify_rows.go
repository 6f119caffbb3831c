package storage

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// rowPass goes over a table by its key and compares each part with the tables
// beside it. A part is compared by one statement, in one snapshot: transactions
// that commit meanwhile are seen whole or not at all.
type rowPass struct {
	step  string
	first string // a key before all others
	total string
	// page answers how many rows the next part has and its last key. $1 is the key before it, $2 how many rows.
	page string
	// check answers how many attempts the part has, in the first row, and then the violations. $1 and $2 are the
	// keys before it and at its end, and $3, if it is aged, the age in seconds at which a job is stuck.
	check string
	aged  bool
	count func(*Summary) *int64
}

const firstID = "00000000-0000-0000-0000-000000000000"

var rowPasses = [...]rowPass{
	{
		step: "exports", first: firstID, total: "SELECT count(*) FROM fenceline.exports",
		page: `SELECT count(*), coalesce(max(id::text COLLATE "C"), '') FROM (
			SELECT id FROM fenceline.exports WHERE id > $1::uuid ORDER BY id LIMIT $2) p`,
		check: exportsSQL, count: func(s *Summary) *int64 { return &s.Exports },
	},
	{
		step: "jobs", first: firstID, total: "SELECT count(*) FROM fenceline.jobs",
		page: `SELECT count(*), coalesce(max(id::text COLLATE "C"), '') FROM (
			SELECT id FROM fenceline.jobs WHERE id > $1::uuid ORDER BY id LIMIT $2) p`,
		check: jobsSQL, aged: true, count: func(s *Summary) *int64 { return &s.Jobs },
	},
	{
		step: "notices", first: "0", total: "SELECT count(*) FROM fenceline.outbox",
		page: `SELECT count(*), coalesce(max(id)::text, '') FROM (
			SELECT id FROM fenceline.outbox WHERE id > $1::bigint ORDER BY id LIMIT $2) p`,
		check: noticesSQL, count: func(s *Summary) *int64 { return &s.Notices },
	},
}

// counted are the attempts that were published, whatever has become of them since.
const counted = `coalesce(a.state IN ('published', 'superseded') OR a.state = 'deleted' AND a.verdict IN ('published', 'superseded'), false)`

// exportsSQL looks at exports with their attempts. The order in which an export
// published is read off the outbox: its ids are drawn under the export's row
// lock, so they rise with every publication and need no clock. OFFSET 0 keeps the
// planner from joining whole tables: a part costs what the part has.
const exportsSQL = `
WITH page AS MATERIALIZED (
	SELECT e.id, e.issued_token, e.last_token, e.attempt_id, e.deleted_at, a.id AS current, a.export_id, a.token, a.state, a.verdict
	FROM fenceline.exports e
	LEFT JOIN LATERAL (SELECT * FROM fenceline.attempts WHERE id = e.attempt_id OFFSET 0) a ON true
	WHERE e.id > $1::uuid AND e.id <= $2::uuid),
tries AS MATERIALIZED (
	SELECT a.id, a.export_id, a.job_id, a.token, a.state, a.verdict, a.data_as_of, a.replaced_at, ` + counted + ` AS counted,
		n.notices, n.notice, j.id AS job, j.export_id AS job_export, e.attempt_id AS current, e.last_token, e.deleted_at
	FROM page e
	CROSS JOIN LATERAL (SELECT * FROM fenceline.attempts WHERE export_id = e.id OFFSET 0) a
	CROSS JOIN LATERAL (SELECT count(*) AS notices, min(o.id) AS notice FROM fenceline.outbox o
		WHERE o.attempt_id = a.id AND o.topic = 'export.published') n
	LEFT JOIN LATERAL (SELECT id, export_id FROM fenceline.jobs WHERE id = a.job_id OFFSET 0) j ON true),
history AS (
	SELECT *, lag(token) OVER (PARTITION BY export_id ORDER BY notice) AS token_before,
		lag(token) OVER rising AS lower, lag(data_as_of) OVER rising AS as_of_before
	FROM tries WHERE counted WINDOW rising AS (PARTITION BY export_id ORDER BY token)),
highest AS (
	SELECT e.id, e.issued_token, e.last_token, coalesce(max(t.token), 0) AS issued,
		coalesce(max(t.token) FILTER (WHERE t.counted), 0) AS published
	FROM page e LEFT JOIN tries t ON t.export_id = e.id GROUP BY e.id, e.issued_token, e.last_token)
SELECT (SELECT count(*) FROM tries), '' AS law, false AS warning, NULL::uuid AS export, NULL::uuid AS attempt, NULL::uuid AS job, '' AS what
UNION ALL
SELECT 0, 'L1', false, id, attempt_id, NULL, CASE
	WHEN current IS NULL THEN 'the pointer names an attempt that does not exist'
	ELSE format('the pointer names an attempt that is %s and not published', state) END
FROM page WHERE attempt_id IS NOT NULL AND state IS DISTINCT FROM 'published'
	AND NOT coalesce(deleted_at IS NOT NULL AND state = 'deleted' AND verdict = 'published', false)
UNION ALL
SELECT 0, 'L2', false, id, current, NULL, CASE
	WHEN export_id <> id THEN format('the pointer names an attempt of export %s', export_id)
	ELSE format('the pointer was moved with token %s, but its attempt has token %s', last_token, token) END
FROM page WHERE export_id <> id OR token <> last_token
UNION ALL
SELECT 0, 'L2', false, id, NULL, NULL, format('last_token is %s, but the highest token that was published is %s', last_token, published)
FROM highest WHERE last_token <> published
UNION ALL
SELECT 0, 'L2', false, id, NULL, NULL, format('issued_token is %s, but token %s was given out', issued_token, issued)
FROM highest WHERE issued_token < issued
UNION ALL
SELECT 0, 'L2', false, export_id, id, job_id, format('an attempt with token %s is published beside the current one with token %s', token, last_token)
FROM tries WHERE state = 'published' AND id IS DISTINCT FROM current
UNION ALL
SELECT 0, 'L2', false, export_id, id, job_id, format('token %s was published after token %s', token, token_before)
FROM history WHERE token < token_before AND notice IS NOT NULL
UNION ALL
SELECT 0, 'L3', false, export_id, id, job_id, format('token %s published data of %s, but token %s before it had data of %s',
	token, data_as_of AT TIME ZONE 'UTC', lower, as_of_before AT TIME ZONE 'UTC')
FROM history WHERE data_as_of < as_of_before
UNION ALL
SELECT 0, 'L3', false, export_id, id, job_id, format('token %s was published without saying of when its data is', token)
FROM tries WHERE counted AND data_as_of IS NULL
UNION ALL
SELECT 0, 'L4', false, export_id, id, job_id, CASE
	WHEN job IS NULL THEN 'the attempt belongs to a job that does not exist'
	ELSE format('the attempt belongs to a job of export %s', job_export) END
FROM tries WHERE job_export IS DISTINCT FROM export_id
UNION ALL
SELECT 0, 'L7', false, export_id, id, job_id, format('the files of token %s were deleted although it was %s', token, coalesce(verdict, 'not decided'))
FROM tries WHERE state = 'deleted' AND coalesce(verdict, '') NOT IN ('superseded', 'fenced', 'failed', 'cancelled', 'condemned')
	AND NOT coalesce(verdict = 'published' AND id = current AND deleted_at IS NOT NULL, false)
UNION ALL
SELECT 0, 'L7', false, export_id, id, job_id, format('token %s was replaced, but not recorded when: no clean-up will ever take its files', token)
FROM tries WHERE state = 'superseded' AND replaced_at IS NULL
UNION ALL
SELECT 0, 'L8', false, export_id, id, job_id, CASE
	WHEN counted THEN format('token %s was published with %s notices instead of one', token, notices)
	ELSE format('token %s is %s and was never published, but there is a notice of its publication', token, state) END
FROM tries WHERE notices <> CASE WHEN counted THEN 1 ELSE 0 END`

// jobsSQL looks at jobs with their attempts: what a job says must be what its attempts say.
const jobsSQL = `
WITH page AS MATERIALIZED (
	SELECT j.*, t.newest, t.published, t.publication, e.id AS export, e.last_token, a.id AS under, a.number AS under_number, a.token AS under_token,
		a.state AS under_state, a.verdict AS under_verdict, a.heartbeat_at, a.finished_at AS under_finished,
		clock_timestamp() - make_interval(secs => $3) AS stuck
	FROM fenceline.jobs j
	CROSS JOIN LATERAL (SELECT coalesce(max(a.number), 0) AS newest, count(*) FILTER (WHERE ` + counted + `) AS published,
		(array_agg(a.id) FILTER (WHERE ` + counted + `))[1] AS publication FROM fenceline.attempts a WHERE a.job_id = j.id) t
	LEFT JOIN LATERAL (SELECT * FROM fenceline.attempts WHERE id = j.attempt_id AND job_id = j.id OFFSET 0) a ON true
	LEFT JOIN LATERAL (SELECT * FROM fenceline.exports WHERE id = j.export_id OFFSET 0) e ON true
	WHERE j.id > $1::uuid AND j.id <= $2::uuid AND j.export_id IS NOT NULL),
plain AS MATERIALIZED (
	SELECT j.*, w.name AS worker, w.heartbeat_at, w.stopped_at, b.state AS before, b.finished_at AS before_finished, clock_timestamp() - make_interval(secs => $3) AS stuck
	FROM fenceline.jobs j LEFT JOIN fenceline.workers w ON w.id = j.worker_id LEFT JOIN fenceline.jobs b ON b.id = j.after_job
	WHERE j.id > $1::uuid AND j.id <= $2::uuid AND (j.export_id IS NULL OR j.waiting_for = 'chain') AND j.state IN ('queued', 'running', 'cancelling'))
SELECT 0::bigint, '' AS law, false AS warning, NULL::uuid AS export, NULL::uuid AS attempt, NULL::uuid AS job, '' AS what
UNION ALL
SELECT 0, 'L5', true, NULL, NULL, id, format('stuck: the job could run since %s UTC and does not; does a worker serve the queue %s?', ready_at AT TIME ZONE 'UTC', queue)
FROM plain WHERE state = 'queued' AND ready_at < stuck AND NOT EXISTS (SELECT FROM fenceline.queues q WHERE q.name = queue)
UNION ALL
SELECT 0, 'L5', true, NULL, NULL, id, format('stuck: the job is due since %s UTC and was not made ready; is a relay running?', due_at AT TIME ZONE 'UTC')
FROM plain WHERE state = 'queued' AND export_id IS NULL AND ready_at IS NULL AND due_at < stuck AND waiting_for IS DISTINCT FROM 'chain' AND waiting_for IS DISTINCT FROM 'cap'
UNION ALL
SELECT 0, 'L5', false, NULL, NULL, id, format('the job waits for the one before it in its chain, which is %s', coalesce(before, 'gone'))
FROM plain WHERE state = 'queued' AND waiting_for = 'chain' AND (before IS NULL OR before_finished IS NOT NULL)
UNION ALL
SELECT 0, 'L5', true, NULL, NULL, id, format('stuck: the job is %s on worker %s, which gave no heartbeat since %s UTC', state, coalesce(worker, worker_id::text),
	coalesce((coalesce(stopped_at, heartbeat_at) AT TIME ZONE 'UTC')::text, 'ever'))
FROM plain WHERE state IN ('running', 'cancelling') AND coalesce(stopped_at, heartbeat_at, '-infinity') < stuck
UNION ALL
SELECT 0, 'L4', false, export_id, NULL, id, format('%s attempts of the job were published', published)
FROM page WHERE published > 1
UNION ALL
SELECT 0, 'L4', false, export_id, attempt_id, id, 'the job is done, but no attempt of it was published'
FROM page WHERE state = 'done' AND published = 0
UNION ALL
SELECT 0, 'L6', false, export_id, publication, id, CASE
	WHEN state <> 'done' THEN format('the job is %s, but an attempt of it was published', state)
	ELSE format('the job is done by attempt %s, but another attempt of it was published', attempt_id) END
FROM page WHERE published = 1 AND (state <> 'done' OR attempt_id IS DISTINCT FROM publication)
UNION ALL
SELECT 0, 'L6', false, export_id, attempt_id, id, format('the job counts %s attempts, but attempt number %s was begun', attempts, newest)
FROM page WHERE attempts <> newest
UNION ALL
SELECT 0, 'L6', false, export_id, attempt_id, id, format('the job is %s under its attempt number %s, but number %s was begun', state, under_number, newest)
FROM page WHERE state IN ('running', 'cancelling') AND under_number <> newest
UNION ALL
SELECT 0, 'L5', false, export_id, attempt_id, id, format('the job is %s under an attempt that does not exist or is not its own: nobody will hand it on', state)
FROM page WHERE state IN ('running', 'cancelling') AND under IS NULL
UNION ALL
SELECT 0, 'L5', false, export_id, attempt_id, id, 'the job is superseded, but its attempt was not refused for a newer publication'
FROM page WHERE state = 'superseded' AND (under_verdict IS DISTINCT FROM 'fenced' OR under_token >= last_token)
UNION ALL
SELECT 0, 'L5', false, export_id, NULL, id, 'the job belongs to an export that does not exist'
FROM page WHERE export IS NULL
UNION ALL
SELECT 0, 'L5', true, export_id, NULL, id, format('stuck: the job was to be rung for at %s UTC and is not; is a relay running?', ring_at AT TIME ZONE 'UTC')
FROM page WHERE state = 'queued' AND greatest(due_at, ring_at) < stuck
UNION ALL
SELECT 0, 'L5', true, export_id, under, id, CASE
	WHEN under_finished IS NULL THEN format('stuck: the job is %s, but its attempt gave no heartbeat since %s UTC', state, heartbeat_at AT TIME ZONE 'UTC')
	ELSE format('stuck: the job is %s, but its attempt was %s at %s UTC', state, under_state, under_finished AT TIME ZONE 'UTC') END
FROM page WHERE state IN ('running', 'cancelling') AND coalesce(under_finished, heartbeat_at) < stuck`

// noticesSQL finds the notices that the attempts, where exportsSQL counts them, do not account for.
const noticesSQL = `
SELECT 0::bigint, '' AS law, false AS warning, NULL::uuid AS export, NULL::uuid AS attempt, NULL::uuid AS job, '' AS what
UNION ALL
SELECT 0, 'L8', false, o.export_id, o.attempt_id, o.job_id, format('notice %s of a publication names no attempt of that job and export', o.id)
FROM fenceline.outbox o
LEFT JOIN LATERAL (SELECT id FROM fenceline.attempts WHERE id = o.attempt_id AND export_id = o.export_id AND job_id = o.job_id OFFSET 0) a ON true
WHERE o.id > $1::bigint AND o.id <= $2::bigint AND o.topic = 'export.published' AND a.id IS NULL`

// rows goes over one table.
func (v *verifier) rows(ctx context.Context, p rowPass) error {
	var total int64
	if err := v.store.pool.QueryRow(ctx, p.total).Scan(&total); err != nil {
		return err
	}
	for after, done := p.first, int64(0); ; {
		var n int64
		var until string
		if err := v.store.pool.QueryRow(ctx, p.page, after, verifyPage).Scan(&n, &until); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		if err := v.compare(ctx, p, after, until); err != nil {
			return fmt.Errorf("after %s: %w", after, err)
		}
		after, done = until, done+n
		*p.count(&v.sum) += n
		v.progress(p.step, done, max(total, done))
	}
}

// compare reports the violations of one part as they come.
func (v *verifier) compare(ctx context.Context, p rowPass, after, until string) error {
	args := []any{after, until}
	if p.aged {
		args = append(args, v.opt.Stuck.Seconds())
	}
	rows, err := v.store.pool.Query(ctx, p.check, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var attempts int64
		var x Violation
		var export, attempt, job uuid.NullUUID
		if err := rows.Scan(&attempts, &x.Law, &x.Warning, &export, &attempt, &job, &x.What); err != nil {
			return err
		}
		v.sum.Attempts += attempts
		if x.Law != "" {
			x.Export, x.Attempt, x.Job = export.UUID, attempt.UUID, job.UUID
			v.found(x)
		}
	}
	return rows.Err()
}
