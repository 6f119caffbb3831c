-- The protocol's steps as functions: every caller, in any language, passes the
-- same guards, each step is one round trip, and every statement inside one sees
-- what was committed before that statement (READ COMMITTED).

-- +goose Up

-- +goose StatementBegin
CREATE FUNCTION fenceline.require_read_committed() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the protocol runs in READ COMMITTED, not in %: a snapshot older than the row lock cannot see who won it',
            current_setting('transaction_isolation') USING ERRCODE = 'FL003';
    END IF;
END $$;
-- +goose StatementEnd

-- begin_attempt (step 3): gives the job an attempt and the attempt its token, or says why not:
-- begun, not_due (taken by another worker, not due, or ended), gone (export deleted), unknown.
-- The token is drawn after the export's row lock is won, so the tokens of one export rise in
-- commit order; it is drawn by a transaction that writes, so a crash cannot hand it out twice.
-- +goose StatementBegin
CREATE FUNCTION fenceline.begin_attempt(p_job uuid, p_attempt uuid, p_worker text,
    OUT outcome text, OUT token bigint, OUT number int) LANGUAGE plpgsql AS $$
DECLARE
    e fenceline.exports;
    j fenceline.jobs;
BEGIN
    PERFORM fenceline.require_read_committed();
    SELECT x.* INTO e FROM fenceline.exports x WHERE x.id = (SELECT export_id FROM fenceline.jobs WHERE id = p_job) FOR NO KEY UPDATE;
    IF NOT FOUND THEN outcome := 'unknown'; RETURN; END IF;
    SELECT * INTO j FROM fenceline.jobs WHERE id = p_job FOR NO KEY UPDATE;
    IF j.attempt_id = p_attempt AND j.state IN ('running', 'cancelling') THEN  -- asked again after a lost reply
        SELECT a.token, a.number INTO token, number FROM fenceline.attempts a WHERE a.id = p_attempt;
        outcome := 'begun';
        RETURN;
    END IF;
    IF j.state <> 'queued' OR j.due_at > clock_timestamp() THEN outcome := 'not_due'; RETURN; END IF;
    IF e.deleted_at IS NOT NULL THEN
        UPDATE fenceline.jobs SET state = 'failed', error = 'the export was deleted', finished_at = clock_timestamp() WHERE id = p_job;
        outcome := 'gone';
        RETURN;
    END IF;
    token := nextval('fenceline.fence_tokens');
    IF token <= e.issued_token THEN
        RAISE EXCEPTION 'the sequence fenceline.fence_tokens gave % although % was given out before: it was set back (restore or logical replication)',
            token, e.issued_token USING ERRCODE = 'FL002',
            HINT = 'SELECT setval(''fenceline.fence_tokens'', (SELECT max(issued_token) FROM fenceline.exports))';
    END IF;
    number := j.attempts + 1;
    UPDATE fenceline.exports SET issued_token = begin_attempt.token, changed_at = clock_timestamp(),
        title = CASE WHEN j.title <> '' THEN j.title ELSE title END WHERE id = e.id;
    INSERT INTO fenceline.attempts (id, export_id, job_id, number, token, worker)
        VALUES (p_attempt, e.id, p_job, begin_attempt.number, begin_attempt.token, p_worker);
    UPDATE fenceline.jobs SET state = 'running', waiting_for = NULL, attempt_id = p_attempt, attempts = begin_attempt.number,
        started_at = coalesce(started_at, clock_timestamp()) WHERE id = p_job;
    outcome := 'begun';
END $$;
-- +goose StatementEnd

-- heartbeat: keeps an attempt alive, records its progress and says what was decided about it meanwhile.
-- mine is false when the job was handed on.
-- +goose StatementBegin
CREATE FUNCTION fenceline.heartbeat(aid uuid, p_step text, p_rows bigint, p_expected bigint, p_bytes bigint,
    OUT attempt_state text, OUT job_state text, OUT mine boolean) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fenceline.attempts a SET heartbeat_at = clock_timestamp(), step = p_step,
        rows = CASE WHEN a.state = 'running' THEN p_rows ELSE a.rows END,
        bytes = CASE WHEN a.state = 'running' THEN p_bytes ELSE a.bytes END,
        rows_expected = coalesce(p_expected, a.rows_expected)
    WHERE a.id = aid AND a.state IN ('running', 'sealed');
    SELECT a.state, j.state, j.attempt_id IS NOT DISTINCT FROM aid INTO attempt_state, job_state, mine
        FROM fenceline.attempts a JOIN fenceline.jobs j ON j.id = a.job_id WHERE a.id = aid;
END $$;
-- +goose StatementEnd

-- seal_attempt (step 5, last part): records the files, all at once. Answers sealed or the state it was found in.
-- p_files is [{ordinal, name, object, format, media_type, size, sha256 (hex), rows}].
-- +goose StatementBegin
CREATE FUNCTION fenceline.seal_attempt(aid uuid, p_rows bigint, p_data_as_of timestamptz, p_warnings jsonb, p_files jsonb)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    a fenceline.attempts;
BEGIN
    PERFORM fenceline.require_read_committed();
    SELECT * INTO a FROM fenceline.attempts WHERE id = aid FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF a.state <> 'running' THEN RETURN a.state; END IF;
    INSERT INTO fenceline.files (attempt_id, ordinal, name, object, format, media_type, size, sha256, rows)
        SELECT aid, f.ordinal, f.name, f.object, f.format, f.media_type, f.size, decode(f.sha256, 'hex'), f.rows
        FROM jsonb_to_recordset(p_files) AS f(ordinal int, name text, object text, format text, media_type text,
            size bigint, sha256 text, rows bigint);
    UPDATE fenceline.attempts SET state = 'sealed', step = 'publish', sealed_at = clock_timestamp(), heartbeat_at = clock_timestamp(),
        rows = p_rows, data_as_of = coalesce(p_data_as_of, a.started_at), warnings = p_warnings,
        bytes = (SELECT sum(size) FROM fenceline.files WHERE attempt_id = aid)
    WHERE id = aid;
    RETURN 'sealed';
END $$;
-- +goose StatementEnd

-- publish_attempt (step 6): published; fenced (fenced_by says by which token, reason by whom); cancelled; gone; unknown;
-- or the state in which the attempt was found. Calling it again is safe and answers what was decided, also after its
-- files were cleaned up.
--
-- FOR NO KEY UPDATE on the export is enough to keep two publishers apart, and unlike FOR UPDATE it does not
-- wait for a caller's open transaction that has just inserted a job of the same export.
-- +goose StatementBegin
CREATE FUNCTION fenceline.publish_attempt(aid uuid, OUT outcome text, OUT reason text, OUT fenced_by bigint) LANGUAGE plpgsql AS $$
DECLARE
    a fenceline.attempts;
    e fenceline.exports;
    j fenceline.jobs;
BEGIN
    PERFORM fenceline.require_read_committed();
    SELECT * INTO a FROM fenceline.attempts WHERE id = aid FOR UPDATE;        -- condemn needs this row too
    IF NOT FOUND THEN outcome := 'unknown'; RETURN; END IF;
    IF a.state <> 'sealed' THEN                                               -- condemned, cancelled, already decided
        outcome := CASE WHEN a.state = 'deleted' THEN a.verdict ELSE a.state END; reason := a.reason; fenced_by := a.fenced_by;
        RETURN;
    END IF;
    SELECT * INTO e FROM fenceline.exports WHERE id = a.export_id FOR NO KEY UPDATE;
    SELECT * INTO j FROM fenceline.jobs WHERE id = a.job_id FOR NO KEY UPDATE;

    IF e.last_token >= a.token THEN
        outcome := 'fenced'; fenced_by := e.last_token;
        reason := CASE WHEN (SELECT job_id FROM fenceline.attempts WHERE id = e.attempt_id) = a.job_id
            THEN 'newer_attempt' ELSE 'newer_job' END;
    ELSIF j.attempt_id IS DISTINCT FROM aid OR j.state NOT IN ('running', 'cancelling', 'cancelled') THEN
        outcome := 'fenced'; reason := 'handed_on';                           -- the job went to another worker, or was given up
        fenced_by := (SELECT token FROM fenceline.attempts WHERE id = j.attempt_id AND id <> aid);
    ELSIF j.state <> 'running' THEN
        outcome := 'cancelled'; reason := 'cancelled';
    ELSIF e.deleted_at IS NOT NULL THEN
        outcome := 'gone'; reason := 'export_deleted';
    ELSE
        UPDATE fenceline.attempts SET state = 'superseded', replaced_at = clock_timestamp()
            WHERE id = e.attempt_id;                                          -- before the next line: unique index
        UPDATE fenceline.attempts SET state = 'published', finished_at = clock_timestamp(), reason = NULL WHERE id = aid;
        UPDATE fenceline.exports SET last_token = a.token, attempt_id = a.id, published_at = clock_timestamp(), changed_at = clock_timestamp()
            WHERE id = e.id AND last_token < a.token;
        UPDATE fenceline.jobs SET state = 'done', finished_at = clock_timestamp(), error = NULL WHERE id = j.id;
        INSERT INTO fenceline.outbox (topic, export_id, job_id, attempt_id) VALUES ('export.published', e.id, j.id, aid);
        outcome := 'published';
        RETURN;
    END IF;

    UPDATE fenceline.attempts t SET state = CASE publish_attempt.outcome WHEN 'gone' THEN 'failed' ELSE publish_attempt.outcome END,
        finished_at = clock_timestamp(), reason = publish_attempt.reason, fenced_by = publish_attempt.fenced_by WHERE t.id = aid;
    IF j.attempt_id = aid AND j.state IN ('running', 'cancelling') THEN       -- L6: a stale attempt changes no job
        UPDATE fenceline.jobs SET finished_at = clock_timestamp(),
            state = CASE WHEN j.state = 'cancelling' THEN 'cancelled' WHEN publish_attempt.outcome = 'gone' THEN 'failed' ELSE 'superseded' END,
            error = CASE WHEN publish_attempt.outcome = 'gone' THEN 'the export was deleted' ELSE error END
        WHERE id = j.id;
    END IF;
END $$;
-- +goose StatementEnd

-- end_attempt: an attempt that will not publish gives up, and its job goes back or ends.
--   p_state  failed, fenced (a newer token was seen) or cancelled
--   p_final  no retry whatever max_attempts says
--   p_counts whether it was the job's failure; a release (worker stopped, lease lost) is not
-- Answers what became of the job (queued, failed, cancelled), stale when the job is no longer
-- this attempt's, or the state in which the attempt was found. An attempt that lost its job is
-- fenced, whatever made it give up.
-- +goose StatementBegin
CREATE FUNCTION fenceline.end_attempt(aid uuid, p_state text, p_reason text, p_error text, p_counts boolean, p_final boolean,
    p_delay_seconds double precision) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    a fenceline.attempts;
    e fenceline.exports;
    j fenceline.jobs;
    due timestamptz := clock_timestamp() + make_interval(secs => p_delay_seconds);
    lost int := CASE WHEN p_counts THEN 1 ELSE 0 END;
    ruling text := p_state;
    why text := p_reason;
    ahead bigint;
BEGIN
    PERFORM fenceline.require_read_committed();
    SELECT * INTO a FROM fenceline.attempts WHERE id = aid FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF a.state NOT IN ('running', 'sealed') THEN RETURN a.state; END IF;
    SELECT * INTO e FROM fenceline.exports WHERE id = a.export_id FOR NO KEY UPDATE;
    SELECT * INTO j FROM fenceline.jobs WHERE id = a.job_id FOR NO KEY UPDATE;
    IF j.attempt_id IS DISTINCT FROM aid THEN
        ruling := 'fenced';
        why := CASE WHEN e.last_token < a.token THEN 'handed_on'
            WHEN (SELECT job_id FROM fenceline.attempts WHERE id = e.attempt_id) = a.job_id THEN 'newer_attempt' ELSE 'newer_job' END;
        ahead := CASE WHEN e.last_token > a.token THEN e.last_token ELSE (SELECT token FROM fenceline.attempts WHERE id = j.attempt_id) END;
    ELSIF j.state IN ('cancelling', 'cancelled') THEN
        ruling := 'cancelled';
    ELSIF p_state = 'fenced' THEN
        ahead := e.issued_token;
    END IF;
    UPDATE fenceline.attempts SET state = ruling, reason = why, error = p_error, fenced_by = ahead, finished_at = clock_timestamp()
        WHERE id = aid;
    IF j.attempt_id IS DISTINCT FROM aid OR j.state NOT IN ('running', 'cancelling') THEN RETURN 'stale'; END IF;
    UPDATE fenceline.exports SET changed_at = clock_timestamp() WHERE id = e.id;
    IF j.state = 'cancelling' THEN
        UPDATE fenceline.jobs SET state = 'cancelled', finished_at = clock_timestamp() WHERE id = j.id;
        RETURN 'cancelled';
    END IF;
    IF p_final OR (p_counts AND j.failures + 1 >= j.max_attempts) THEN
        UPDATE fenceline.jobs SET state = 'failed', failures = failures + lost, error = coalesce(p_error, p_reason),
            finished_at = clock_timestamp() WHERE id = j.id;
        INSERT INTO fenceline.outbox (topic, export_id, job_id, attempt_id) VALUES ('job.failed', j.export_id, j.id, aid);
        RETURN 'failed';
    END IF;
    UPDATE fenceline.jobs SET state = 'queued', failures = failures + lost, error = coalesce(p_error, error), attempt_id = NULL,
        waiting_for = CASE WHEN p_counts THEN 'retry' WHEN p_state = 'fenced' THEN 'lease' END,
        generation = generation + 1, due_at = due, ring_at = due WHERE id = j.id;
    RETURN 'queued';
END $$;
-- +goose StatementEnd

-- hand_on_lost: gives the jobs of attempts that no longer beat (or were condemned) back to the queue, and returns
-- them. The attempts stay as they are: should one of them only have been frozen, publish refuses it.
-- Only jobs are locked here: taking the attempts too would be the wrong order.
-- +goose StatementBegin
CREATE FUNCTION fenceline.hand_on_lost(p_lease_seconds double precision, p_limit int)
RETURNS TABLE (job_id uuid, attempt_id uuid, job_state text, worker text, token bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.require_read_committed();
    RETURN QUERY
    WITH lost AS (
        SELECT j.id, j.attempt_id AS aid, a.worker AS w, a.token AS t FROM fenceline.jobs j JOIN fenceline.attempts a ON a.id = j.attempt_id
        WHERE j.state IN ('running', 'cancelling')
          AND (a.state NOT IN ('running', 'sealed') OR a.heartbeat_at < clock_timestamp() - make_interval(secs => p_lease_seconds))
        LIMIT p_limit FOR UPDATE OF j SKIP LOCKED
    ), handed AS (
        UPDATE fenceline.jobs j SET
            state = CASE WHEN j.state = 'cancelling' THEN 'cancelled' WHEN j.crashes + 1 >= j.max_crashes THEN 'failed' ELSE 'queued' END,
            crashes = j.crashes + 1, waiting_for = NULL, generation = j.generation + 1,
            due_at = clock_timestamp(), ring_at = clock_timestamp(),
            attempt_id = CASE WHEN j.state = 'cancelling' OR j.crashes + 1 >= j.max_crashes THEN j.attempt_id END,
            finished_at = CASE WHEN j.state = 'cancelling' OR j.crashes + 1 >= j.max_crashes THEN clock_timestamp() END,
            error = CASE WHEN j.state <> 'cancelling' AND j.crashes + 1 >= j.max_crashes
                THEN format('%s workers in a row gave no more heartbeat while they ran this job%s', j.crashes + 1, coalesce('; last error: ' || j.error, '')) ELSE j.error END
        FROM lost WHERE j.id = lost.id AND j.attempt_id = lost.aid
        RETURNING j.id, j.export_id, lost.aid, j.state, lost.w, lost.t
    ), told AS (
        INSERT INTO fenceline.outbox (topic, export_id, job_id, attempt_id)
        SELECT 'job.failed', h.export_id, h.id, h.aid FROM handed h WHERE h.state = 'failed'
    )
    SELECT h.id, h.aid, h.state, h.w, h.t FROM handed h;
END $$;
-- +goose StatementEnd

-- cancel_job: a queued job is cancelled at once; a running one is cancelling until its worker confirms, and
-- cannot publish any more. Answers the state after the call, or unknown.
-- +goose StatementBegin
CREATE FUNCTION fenceline.cancel_job(p_job uuid) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    s text;
BEGIN
    PERFORM fenceline.require_read_committed();
    SELECT state INTO s FROM fenceline.jobs WHERE id = p_job FOR NO KEY UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF s = 'queued' THEN
        UPDATE fenceline.jobs SET state = 'cancelled', finished_at = clock_timestamp(), waiting_for = NULL WHERE id = p_job;
        RETURN 'cancelled';
    ELSIF s = 'running' THEN
        UPDATE fenceline.jobs SET state = 'cancelling' WHERE id = p_job;
        RETURN 'cancelling';
    END IF;
    RETURN s;
END $$;
-- +goose StatementEnd

-- condemn_attempts (step 7): those of the given attempts that gave no heartbeat for the grace can never publish
-- again. Age only decides when to try; the proof is the row lock, which a publish needs too: exactly one of the two
-- wins, and a row that is held is skipped.
-- +goose StatementBegin
CREATE FUNCTION fenceline.condemn_attempts(p_ids uuid[], p_grace_seconds double precision) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.require_read_committed();
    RETURN QUERY
    WITH old AS (
        SELECT id FROM fenceline.attempts WHERE id = ANY (p_ids) AND state IN ('running', 'sealed')
           AND heartbeat_at < clock_timestamp() - make_interval(secs => p_grace_seconds)
        FOR UPDATE SKIP LOCKED
    )
    UPDATE fenceline.attempts a SET state = 'condemned', finished_at = clock_timestamp(), reason = 'no_heartbeat'
    FROM old WHERE a.id = old.id RETURNING a.id;
END $$;
-- +goose StatementEnd

-- Whoever waits for news is told at commit, in one message per transaction and text: "fenceline_jobs" wakes the
-- relays, "fenceline_changes" the pages (it carries the export's id).
-- +goose StatementBegin
CREATE FUNCTION fenceline.tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'jobs' THEN
        IF NEW.state = 'queued' AND NEW.ring_at <= clock_timestamp() THEN
            PERFORM pg_notify('fenceline_jobs', '');
        END IF;
    END IF;
    PERFORM pg_notify('fenceline_changes', NEW.export_id::text);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER tell_new AFTER INSERT ON fenceline.jobs FOR EACH ROW EXECUTE FUNCTION fenceline.tell();
CREATE TRIGGER tell AFTER UPDATE ON fenceline.jobs FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state OR OLD.due_at IS DISTINCT FROM NEW.due_at) EXECUTE FUNCTION fenceline.tell();
CREATE TRIGGER tell AFTER UPDATE ON fenceline.attempts FOR EACH ROW EXECUTE FUNCTION fenceline.tell();
