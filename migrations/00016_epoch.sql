-- The epoch: which life of this database it is, and by what the database knows itself.
--
-- The file store carries the same epoch in its mark. When what one side remembers
-- does not fit the other, or the database does not know itself any more (restored
-- from a backup, a promoted replica, a copy beside the original), nothing is
-- published and nothing cleaned up (FL004) until `fenceline recover` has run.

-- +goose Up

-- One row.
CREATE TABLE fenceline.epoch (
    singleton    boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    id           uuid NOT NULL DEFAULT gen_random_uuid(),
    number       bigint NOT NULL DEFAULT 1 CHECK (number > 0),
    state        text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'stopped', 'recovering')),
    reason       text,   -- why it is stopped
    next_id      uuid,   -- the epoch that a recovery is about to begin
    -- by what the database knows itself: "<system identifier> <timeline> <oid of the database>", each ? where nobody may
    -- ask. NULL until the first start: the copies of a template are different databases
    fingerprint  text,
    database     text,   -- its name then, for people
    beats        bigint NOT NULL DEFAULT 0 CHECK (beats >= 0), -- how often the file store was told how far we are
    confirmed    bigint NOT NULL DEFAULT 0, -- the newest beat that certainly stands in its mark
    began_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    recovered_at timestamptz,
    CHECK (confirmed >= 0 AND confirmed <= beats),
    CHECK ((state = 'recovering') = (next_id IS NOT NULL)),
    CHECK ((state = 'stopped') <= (reason IS NOT NULL))
);
INSERT INTO fenceline.epoch DEFAULT VALUES;

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'the epoch is not deleted' USING ERRCODE = 'FL001';
    END IF;
    IF NEW.number < OLD.number OR NEW.beats < OLD.beats OR NEW.confirmed < OLD.confirmed THEN
        RAISE EXCEPTION 'the epoch does not go back' USING ERRCODE = 'FL001';
    END IF;
    IF NEW.id <> OLD.id AND (OLD.state <> 'recovering' OR NEW.id IS DISTINCT FROM OLD.next_id OR NEW.number <= OLD.number)
        OR NEW.id = OLD.id AND NEW.state = 'open' AND OLD.state <> 'open' THEN
        RAISE EXCEPTION 'only a recovery begins an epoch' USING ERRCODE = 'FL001', HINT = 'fenceline recover';
    END IF;
    IF NEW.id = OLD.id AND OLD.fingerprint IS NOT NULL AND NEW.fingerprint IS DISTINCT FROM OLD.fingerprint THEN
        RAISE EXCEPTION 'what an epoch remembers of its database never changes' USING ERRCODE = 'FL001', HINT = 'fenceline recover';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON fenceline.epoch FOR EACH ROW EXECUTE FUNCTION fenceline.guard_epoch();

-- database_here: the fingerprint of the database that this session is in. It is asked for once in a session: a server
-- does not get another identifier while it runs, nor another timeline once it takes writes. The timeline is that of
-- the log that is being written: pg_control_checkpoint() still answers the old one for a while after a promotion.
-- +goose StatementBegin
CREATE FUNCTION fenceline.database_here() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    here text := current_setting('fenceline.here', true);
    system text;
    line text;
BEGIN
    IF here <> '' THEN RETURN here; END IF;
    BEGIN
        SELECT system_identifier INTO system FROM pg_catalog.pg_control_system();
    EXCEPTION WHEN OTHERS THEN NULL; -- a managed PostgreSQL may not let us
    END;
    BEGIN
        line := ltrim(substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8), '0');
    EXCEPTION WHEN OTHERS THEN NULL; -- nor say where its log is; a standby writes none
    END;
    here := format('%s %s %s', coalesce(system, '?'), coalesce(line, '?'), (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()));
    IF NOT pg_is_in_recovery() THEN
        PERFORM set_config('fenceline.here', here, false);
    END IF;
    RETURN here;
END $$;
-- +goose StatementEnd

-- other_database: in what two fingerprints differ, in words; NULL when they are of one database as far as is known.
-- +goose StatementBegin
CREATE FUNCTION fenceline.other_database(remembered text, here text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    was text[] := string_to_array(remembered, ' ');
    is_ text[] := string_to_array(here, ' ');
BEGIN
    IF was[1] <> is_[1] AND was[1] <> '?' AND is_[1] <> '?' THEN
        RETURN format('this database is in another cluster (system identifier %s) than the one that the epoch began in (%s): restored from a dump, or a copy',
            is_[1], was[1]);
    ELSIF was[3] <> is_[3] THEN
        RETURN format('this database (oid %s) is another one of the cluster than the one that the epoch began in (oid %s): a copy beside the original, or restored from a dump',
            is_[3], was[3]);
    ELSIF was[2] <> is_[2] AND was[2] <> '?' AND is_[2] <> '?' THEN
        RETURN format('the database is on timeline %s, the epoch began on timeline %s: a standby was promoted, or a backup restored', is_[2], was[2]);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- epoch_trouble: why nothing may be published or cleaned up here, in words; NULL when nothing is wrong. It changes nothing.
-- +goose StatementBegin
CREATE FUNCTION fenceline.epoch_trouble() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    e fenceline.epoch;
    here text := fenceline.database_here();
BEGIN
    SELECT * INTO e FROM fenceline.epoch;
    IF NOT FOUND THEN
        RETURN 'the row of fenceline.epoch is missing';
    ELSIF e.state = 'recovering' THEN
        RETURN 'a recovery was begun and has not finished';
    ELSIF e.state = 'stopped' THEN
        RETURN e.reason;
    ELSIF e.fingerprint IS NULL OR e.fingerprint = here THEN
        RETURN NULL;
    END IF;
    RETURN fenceline.other_database(e.fingerprint, here);
END $$;
-- +goose StatementEnd

-- require_epoch: raises FL004 unless all is well. It takes no lock on the epoch: a publication that is on its way must not
-- keep a clean-up waiting, nor the other way round.
-- +goose StatementBegin
CREATE FUNCTION fenceline.require_epoch() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    trouble text := fenceline.epoch_trouble();
BEGIN
    IF trouble IS NOT NULL THEN
        RAISE EXCEPTION 'recovery is needed: %', trouble USING ERRCODE = 'FL004', HINT = 'fenceline recover';
    END IF;
END $$;
-- +goose StatementEnd

-- begin_attempt (step 3): as before, and besides: held while recovery is needed.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.begin_attempt(p_job uuid, p_attempt uuid, p_worker text,
    OUT outcome text, OUT token bigint, OUT number int) LANGUAGE plpgsql AS $$
DECLARE
    e fenceline.exports;
    j fenceline.jobs;
    capped boolean;
BEGIN
    PERFORM fenceline.require_read_committed();
    capped := fenceline.lock_caps();
    SELECT x.* INTO e FROM fenceline.exports x WHERE x.id = (SELECT export_id FROM fenceline.jobs WHERE id = p_job) FOR NO KEY UPDATE;
    IF NOT FOUND THEN outcome := 'unknown'; RETURN; END IF;
    SELECT * INTO j FROM fenceline.jobs WHERE id = p_job FOR NO KEY UPDATE;
    IF j.attempt_id = p_attempt AND j.state IN ('running', 'cancelling') THEN  -- asked again after a lost reply
        SELECT a.token, a.number INTO token, number FROM fenceline.attempts a WHERE a.id = p_attempt;
        outcome := 'begun';
        RETURN;
    END IF;
    IF j.state <> 'queued' OR j.due_at > clock_timestamp() OR j.waiting_for IN ('chain', 'cap') THEN outcome := 'not_due'; RETURN; END IF;
    IF e.deleted_at IS NOT NULL THEN
        UPDATE fenceline.jobs SET state = 'failed', error = 'the export was deleted', finished_at = clock_timestamp() WHERE id = p_job;
        outcome := 'gone';
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM fenceline.queues WHERE name = j.queue) THEN  -- rung for again when it goes on
        UPDATE fenceline.jobs SET ring_at = 'infinity', generation = generation + 1 WHERE id = p_job;
        outcome := 'held';
        RETURN;
    ELSIF EXISTS (SELECT FROM fenceline.installation WHERE maintenance_since IS NOT NULL) THEN
        UPDATE fenceline.jobs SET ring_at = clock_timestamp() + interval '5 seconds', generation = generation + 1 WHERE id = p_job;
        outcome := 'held';
        RETURN;
    ELSIF capped AND fenceline.cap_room(j.queue, j.kind, j.tenant) <= 0 THEN
        UPDATE fenceline.jobs SET waiting_for = 'cap', ring_at = 'infinity', generation = generation + 1 WHERE id = p_job;
        outcome := 'held';
        RETURN;
    END IF;
    IF fenceline.epoch_trouble() IS NOT NULL THEN  -- its token could be one that was given out before
        UPDATE fenceline.jobs SET ring_at = clock_timestamp() + interval '5 seconds', generation = generation + 1 WHERE id = p_job;
        outcome := 'held';
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

-- heartbeat: as before, and besides: a beat that was on its way while the attempt was sealed does not set its step back.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.heartbeat(aid uuid, p_step text, p_rows bigint, p_expected bigint, p_bytes bigint,
    OUT attempt_state text, OUT job_state text, OUT mine boolean) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fenceline.attempts a SET heartbeat_at = clock_timestamp(),
        step = CASE WHEN a.state = 'running' THEN p_step ELSE a.step END,
        rows = CASE WHEN a.state = 'running' THEN p_rows ELSE a.rows END,
        bytes = CASE WHEN a.state = 'running' THEN p_bytes ELSE a.bytes END,
        rows_expected = coalesce(p_expected, a.rows_expected)
    WHERE a.id = aid AND a.state IN ('running', 'sealed');
    SELECT a.state, j.state, j.attempt_id IS NOT DISTINCT FROM aid INTO attempt_state, job_state, mine
        FROM fenceline.attempts a JOIN fenceline.jobs j ON j.id = a.job_id WHERE a.id = aid;
END $$;
-- +goose StatementEnd

-- publish_attempt (step 6): as before, and besides: FL004 while recovery is needed. A recovery condemns every unfinished
-- attempt under its row lock after the epoch was closed, so a call that looked before that finds its attempt condemned.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.publish_attempt(aid uuid, OUT outcome text, OUT reason text, OUT fenced_by bigint) LANGUAGE plpgsql AS $$
DECLARE
    a fenceline.attempts;
    e fenceline.exports;
    j fenceline.jobs;
BEGIN
    PERFORM fenceline.require_read_committed();
    PERFORM fenceline.require_epoch();                                        -- FL004; a recovery condemns what has passed here
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

-- publish_attempt_in_epoch: publish_attempt for a caller that knows which epoch its files are of.
-- +goose StatementBegin
CREATE FUNCTION fenceline.publish_attempt_in_epoch(aid uuid, p_epoch uuid, OUT outcome text, OUT reason text, OUT fenced_by bigint) LANGUAGE plpgsql AS $$
DECLARE
    e fenceline.epoch;
BEGIN
    SELECT * INTO e FROM fenceline.epoch;
    IF p_epoch IS NOT NULL AND p_epoch IS DISTINCT FROM e.id THEN
        RAISE EXCEPTION 'recovery is needed: the files are of epoch %, the database is of epoch %', p_epoch, e.id USING ERRCODE = 'FL004', HINT = 'fenceline recover';
    END IF;
    SELECT p.outcome, p.reason, p.fenced_by INTO outcome, reason, fenced_by FROM fenceline.publish_attempt(aid) p;
END $$;
-- +goose StatementEnd

-- condemn_attempts (step 7): as before, and besides: FL004 while recovery is needed.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.condemn_attempts(p_ids uuid[], p_grace_seconds double precision) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.require_read_committed();
    PERFORM fenceline.require_epoch();
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

-- Nothing is buried either.
-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_burial() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.require_epoch();
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard_burial BEFORE UPDATE OF state ON fenceline.attempts FOR EACH ROW
    WHEN (NEW.state = 'deleted' AND OLD.state <> 'deleted') EXECUTE FUNCTION fenceline.guard_burial();

-- An export whose current files are known to be lost. The next publication clears it.
ALTER TABLE fenceline.exports ADD COLUMN files_lost_at timestamptz;
CREATE INDEX exports_files_lost ON fenceline.exports (files_lost_at, id) WHERE files_lost_at IS NOT NULL;
-- +goose StatementBegin
CREATE FUNCTION fenceline.found_again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.files_lost_at := NULL;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER found_again BEFORE UPDATE OF attempt_id ON fenceline.exports FOR EACH ROW
    WHEN (OLD.files_lost_at IS NOT NULL AND NEW.attempt_id IS DISTINCT FROM OLD.attempt_id) EXECUTE FUNCTION fenceline.found_again();

-- condemn_unfinished: part of a recovery. Unfinished attempts may never publish again, and their jobs wait for another
-- one; it was nobody's failure. Answers how many there were, at most p_limit. Waits for publishers: one of the two wins.
-- +goose StatementBegin
CREATE FUNCTION fenceline.condemn_unfinished(p_limit int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    ids uuid[];
BEGIN
    PERFORM fenceline.require_read_committed();
    IF NOT EXISTS (SELECT FROM fenceline.epoch WHERE state = 'recovering') THEN
        RAISE EXCEPTION 'only a recovery condemns what is alive' USING ERRCODE = 'FL001';
    END IF;
    WITH live AS (
        SELECT id FROM fenceline.attempts WHERE state IN ('running', 'sealed') ORDER BY id LIMIT p_limit FOR UPDATE
    ), condemned AS (
        UPDATE fenceline.attempts a SET state = 'condemned', finished_at = clock_timestamp(), reason = 'recovery' FROM live WHERE a.id = live.id RETURNING a.id
    ) SELECT array_agg(id) INTO ids FROM condemned;
    PERFORM FROM fenceline.jobs j WHERE j.attempt_id = ANY (ids) AND j.state IN ('running', 'cancelling') ORDER BY j.id FOR NO KEY UPDATE;
    UPDATE fenceline.jobs j SET state = CASE WHEN j.state = 'cancelling' THEN 'cancelled' ELSE 'queued' END,
        finished_at = CASE WHEN j.state = 'cancelling' THEN clock_timestamp() END,
        attempt_id = CASE WHEN j.state = 'cancelling' THEN j.attempt_id END,
        waiting_for = NULL, generation = j.generation + 1, due_at = clock_timestamp(), ring_at = clock_timestamp()
        WHERE j.attempt_id = ANY (ids) AND j.state IN ('running', 'cancelling');
    RETURN coalesce(cardinality(ids), 0);
END $$;
-- +goose StatementEnd

-- adopt_attempt: part of a recovery. Makes an attempt whose rows were lost the current one of its export, as its manifest
-- tells; the caller has compared every file with it. p is the manifest: {tenant, kind, key, title, export, job, attempt,
-- token, rows, data_as_of, files: as for seal_attempt}. It goes the way of every attempt, from running over sealed to
-- published, so that all guards look at it. Its notice waits for nobody: whether they were told before is not known. Answers adopted, or why
-- not: known (there is such an attempt, or its token is taken), older (something newer is published), stale (its data is
-- older), gone (its export was deleted), other (its export has another name here), decided (its job is not waiting).
-- +goose StatementBegin
CREATE FUNCTION fenceline.adopt_attempt(p jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    e fenceline.exports;
    j fenceline.jobs;
    aid uuid := p ->> 'attempt';
    t bigint := p ->> 'token';
    n int;
    as_of timestamptz := p ->> 'data_as_of';
BEGIN
    PERFORM fenceline.require_read_committed();
    IF NOT EXISTS (SELECT FROM fenceline.epoch WHERE state = 'recovering') THEN
        RAISE EXCEPTION 'only a recovery adopts files' USING ERRCODE = 'FL001';
    END IF;
    IF EXISTS (SELECT FROM fenceline.attempts WHERE id = aid OR token = t) THEN RETURN 'known'; END IF;
    IF t > (SELECT last_value FROM fenceline.fence_tokens) THEN
        RAISE EXCEPTION 'token % is above the sequence fenceline.fence_tokens, which must be raised first', t USING ERRCODE = 'FL002';
    END IF;
    INSERT INTO fenceline.exports (id, tenant, kind, key, title) VALUES ((p ->> 'export')::uuid, p ->> 'tenant', p ->> 'kind', p ->> 'key', p ->> 'title')
        ON CONFLICT DO NOTHING;
    SELECT * INTO e FROM fenceline.exports WHERE id = (p ->> 'export')::uuid FOR NO KEY UPDATE;
    IF NOT FOUND OR e.tenant <> p ->> 'tenant' OR e.kind <> p ->> 'kind' OR e.key <> p ->> 'key' THEN RETURN 'other'; END IF;
    IF e.deleted_at IS NOT NULL THEN RETURN 'gone'; END IF;
    IF e.last_token >= t THEN RETURN 'older'; END IF;
    IF as_of < (SELECT data_as_of FROM fenceline.attempts WHERE id = e.attempt_id) THEN RETURN 'stale'; END IF;
    SELECT * INTO j FROM fenceline.jobs WHERE id = (p ->> 'job')::uuid FOR NO KEY UPDATE;
    IF FOUND AND (j.state <> 'queued' OR j.export_id IS DISTINCT FROM e.id) THEN RETURN 'decided'; END IF;
    IF NOT FOUND THEN
        INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, title, payload, payload_version, max_attempts, max_crashes, timeout_seconds,
            request_hash, requested_by) VALUES ((p ->> 'job')::uuid, e.tenant, e.kind, 'default', e.id, p ->> 'title', '{}', 1, 1, 1, 3600, '', 'recovery')
            RETURNING * INTO j;
    END IF;
    n := 1 + coalesce((SELECT max(number) FROM fenceline.attempts WHERE job_id = j.id), 0);
    UPDATE fenceline.exports SET issued_token = greatest(issued_token, t), changed_at = clock_timestamp() WHERE id = e.id;
    INSERT INTO fenceline.attempts (id, export_id, job_id, number, token, worker) VALUES (aid, e.id, j.id, n, t, 'recovery');
    UPDATE fenceline.jobs SET state = 'running', waiting_for = NULL, attempt_id = aid, attempts = greatest(attempts, n),
        started_at = coalesce(started_at, clock_timestamp()) WHERE id = j.id;
    PERFORM fenceline.seal_attempt(aid, (p ->> 'rows')::bigint, as_of, NULL, p -> 'files');
    UPDATE fenceline.attempts SET state = 'superseded', replaced_at = clock_timestamp() WHERE id = e.attempt_id;
    UPDATE fenceline.attempts SET state = 'published', finished_at = clock_timestamp(), reason = 'adopted' WHERE id = aid;
    UPDATE fenceline.exports SET last_token = t, attempt_id = aid, published_at = clock_timestamp(), changed_at = clock_timestamp() WHERE id = e.id;
    UPDATE fenceline.jobs SET state = 'done', finished_at = clock_timestamp(), error = NULL WHERE id = j.id;
    INSERT INTO fenceline.outbox (topic, export_id, job_id, attempt_id, pending) VALUES ('export.published', e.id, j.id, aid, false);
    RETURN 'adopted';
END $$;
-- +goose StatementEnd
