-- The job runner: plain jobs, workers, queues, caps, chains, callbacks of batches.
--
-- A plain job publishes nothing, so it needs no attempt row and no token: its
-- run is named in the job's own row, and whoever does not carry that name changes
-- nothing (L6). The order of row locks stays: attempt, then export, then job.

-- +goose Up

ALTER TABLE fenceline.installation
    ADD COLUMN maintenance_since timestamptz,
    ADD COLUMN maintenance_note  text,
    ADD COLUMN restart_at        timestamptz; -- workers that began before end after what they run

-- A worker beats for all that it runs: one write a second, however many jobs.
CREATE TABLE fenceline.workers (
    id           uuid PRIMARY KEY,
    name         text NOT NULL CHECK (name <> ''),
    host         text NOT NULL,
    pid          int NOT NULL,
    version      text NOT NULL,
    queues       jsonb NOT NULL, -- name to weight
    concurrency  int NOT NULL CHECK (concurrency > 0),
    running      int NOT NULL DEFAULT 0,
    asked        text CHECK (asked IN ('drain', 'stop')), -- to take nothing new; to end after what it runs
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stopped_at   timestamptz
);
CREATE INDEX workers_recent ON fenceline.workers (heartbeat_at DESC, id);

-- Only queues that somebody paused have a row.
CREATE TABLE fenceline.queues (
    name      text PRIMARY KEY CHECK (name <> ''),
    paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused_by text NOT NULL DEFAULT ''
);

-- How many jobs of a queue, a kind or a tenant may run at once, on all workers
-- together. The tenant * stands for every tenant without a row of its own.
CREATE TABLE fenceline.caps (
    scope       text NOT NULL CHECK (scope IN ('queue', 'kind', 'tenant')),
    name        text NOT NULL CHECK (name <> ''),
    max_running int NOT NULL CHECK (max_running >= 0),
    PRIMARY KEY (scope, name)
);

ALTER TABLE fenceline.jobs
    ALTER COLUMN export_id DROP NOT NULL,     -- NULL: a plain job
    ADD COLUMN priority smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN -100 AND 100),
    ADD COLUMN tags text[] NOT NULL DEFAULT '{}',
    ADD COLUMN backoff jsonb,                 -- NULL: doubling from two seconds
    ADD COLUMN retry_until timestamptz,       -- no retry becomes due after it
    ADD COLUMN releases int NOT NULL DEFAULT 0,
    ADD COLUMN ready_at timestamptz,          -- since when a plain job may be taken; NULL while it waits
    ADD COLUMN run_id uuid,                   -- of a plain job: the name of its newest run
    ADD COLUMN worker_id uuid,                -- who makes that run
    ADD COLUMN progress jsonb,
    ADD COLUMN result jsonb,
    ADD COLUMN unique_key text CHECK (unique_key <> ''),
    ADD COLUMN unique_while text CHECK (unique_while IN ('pending', 'active', 'period')),
    ADD COLUMN unique_until timestamptz,
    ADD COLUMN debounce_until timestamptz,    -- repeated requests put it off, up to here
    ADD COLUMN chain_id uuid,
    ADD COLUMN after_job uuid REFERENCES fenceline.jobs ON DELETE SET NULL,
    DROP CONSTRAINT jobs_check,
    DROP CONSTRAINT jobs_waiting_for_check,
    ADD CONSTRAINT jobs_attended CHECK ((state IN ('running', 'cancelling')) <= (attempt_id IS NOT NULL OR run_id IS NOT NULL AND worker_id IS NOT NULL)),
    ADD CONSTRAINT jobs_plain CHECK (export_id IS NOT NULL OR attempt_id IS NULL),
    ADD CONSTRAINT jobs_ready_only_plain CHECK (ready_at IS NULL OR export_id IS NULL),
    ADD CONSTRAINT jobs_unique_how CHECK ((unique_key IS NULL) = (unique_while IS NULL) AND (unique_until IS NOT NULL) = (unique_while IS NOT DISTINCT FROM 'period')),
    ADD CONSTRAINT jobs_waiting_for_check CHECK (waiting_for IN
        ('lease', 'retry', 'later', 'rate', 'overlap', 'circuit', 'cap', 'chain', 'released'));

DROP INDEX fenceline.jobs_to_ring;
CREATE INDEX jobs_to_ring ON fenceline.jobs (ring_at) WHERE state = 'queued' AND export_id IS NOT NULL;
DROP INDEX fenceline.jobs_of_export;
CREATE INDEX jobs_of_export ON fenceline.jobs (export_id, id DESC) WHERE export_id IS NOT NULL;
DROP INDEX fenceline.jobs_active;
CREATE INDEX jobs_active ON fenceline.jobs (attempt_id) WHERE state IN ('running', 'cancelling') AND export_id IS NOT NULL;
CREATE INDEX jobs_running ON fenceline.jobs (worker_id) WHERE state IN ('running', 'cancelling');
CREATE INDEX jobs_ready ON fenceline.jobs (queue, priority DESC, ready_at, id) WHERE state = 'queued' AND ready_at IS NOT NULL;
CREATE INDEX jobs_urgent ON fenceline.jobs (queue, priority DESC, due_at) WHERE state = 'queued' AND export_id IS NOT NULL AND waiting_for IS NULL;
CREATE INDEX jobs_to_come ON fenceline.jobs (due_at) WHERE state = 'queued' AND export_id IS NULL AND ready_at IS NULL
    AND waiting_for IS DISTINCT FROM 'chain' AND waiting_for IS DISTINCT FROM 'cap';
CREATE INDEX jobs_of_queue_waiting ON fenceline.jobs (queue, due_at) WHERE state = 'queued' AND ready_at IS NULL;
CREATE INDEX jobs_capped ON fenceline.jobs (tenant, kind, queue, priority DESC, id) WHERE state = 'queued' AND waiting_for = 'cap';
CREATE INDEX jobs_of_chain ON fenceline.jobs (chain_id, id) WHERE chain_id IS NOT NULL;
CREATE INDEX jobs_after ON fenceline.jobs (after_job) WHERE after_job IS NOT NULL;
CREATE INDEX jobs_tagged ON fenceline.jobs USING gin (tags) WHERE tags <> '{}';
CREATE INDEX jobs_finished_plain ON fenceline.jobs (finished_at) WHERE finished_at IS NOT NULL AND export_id IS NULL;
CREATE INDEX jobs_of_batch_live ON fenceline.jobs (batch_id) WHERE batch_id IS NOT NULL AND state IN ('queued', 'running', 'cancelling');
CREATE INDEX schedule_runs_of_job ON fenceline.schedule_runs (job_id) WHERE job_id IS NOT NULL;

-- Uniqueness derives from the rows that live, so it cannot outlive them.
CREATE UNIQUE INDEX jobs_unique_pending ON fenceline.jobs (tenant, kind, unique_key) WHERE unique_while = 'pending' AND state = 'queued' AND attempts = 0;
CREATE UNIQUE INDEX jobs_unique_active ON fenceline.jobs (tenant, kind, unique_key) WHERE unique_while = 'active' AND state IN ('queued', 'running', 'cancelling');
CREATE INDEX jobs_unique_period ON fenceline.jobs (tenant, kind, unique_key, unique_until DESC) WHERE unique_while = 'period';

-- What went wrong with each run of a plain job; exports keep theirs in attempts.
CREATE TABLE fenceline.job_errors (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id  uuid NOT NULL REFERENCES fenceline.jobs ON DELETE CASCADE,
    attempt int NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    worker  text NOT NULL,
    reason  text NOT NULL, -- error, panic, timeout, crash
    error   text NOT NULL,
    stack   text
);
CREATE INDEX job_errors_of_job ON fenceline.job_errors (job_id, id);

ALTER TABLE fenceline.schedule_runs DROP CONSTRAINT schedule_runs_job_id_fkey;
ALTER TABLE fenceline.schedule_runs ADD CONSTRAINT schedule_runs_job_id_fkey FOREIGN KEY (job_id) REFERENCES fenceline.jobs ON DELETE SET NULL;

ALTER TABLE fenceline.outbox ALTER COLUMN export_id DROP NOT NULL, DROP CONSTRAINT outbox_topic_check,
    ADD CONSTRAINT outbox_topic_check CHECK (topic ~ '^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$' AND length(topic) <= 100);
CREATE INDEX outbox_of_job ON fenceline.outbox (job_id);

ALTER TABLE fenceline.batches
    ADD COLUMN stop_on_failure boolean NOT NULL DEFAULT false,
    ADD COLUMN on_success jsonb, -- requests of jobs, checked when the batch was made
    ADD COLUMN on_failure jsonb,
    ADD COLUMN on_end     jsonb,
    ADD COLUMN cancelled_at timestamptz,
    ADD COLUMN settled_at   timestamptz; -- its jobs have ended and what is called then was asked for
CREATE INDEX batches_open ON fenceline.batches (id) WHERE settled_at IS NULL;

-- Each callback of a batch is asked for once, whoever sees first that it is due.
CREATE TABLE fenceline.batch_calls (
    batch_id uuid NOT NULL REFERENCES fenceline.batches ON DELETE RESTRICT,
    event    text NOT NULL CHECK (event IN ('success', 'failure', 'end')),
    job_id   uuid REFERENCES fenceline.jobs ON DELETE SET NULL,
    error    text,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (batch_id, event)
);
CREATE INDEX batch_calls_of_job ON fenceline.batch_calls (job_id) WHERE job_id IS NOT NULL;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.guard_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id <> OLD.id OR NEW.tenant <> OLD.tenant OR NEW.kind <> OLD.kind OR NEW.export_id IS DISTINCT FROM OLD.export_id THEN
        RAISE EXCEPTION 'job %: its identity never changes', OLD.id USING ERRCODE = 'FL001';
    END IF;
    IF NEW.state <> OLD.state AND NOT (CASE OLD.state
        WHEN 'queued'     THEN NEW.state IN ('running', 'failed', 'cancelled')
        WHEN 'running'    THEN NEW.state IN ('queued', 'done', 'superseded', 'failed', 'cancelling', 'cancelled')
        WHEN 'cancelling' THEN NEW.state = 'cancelled'
        WHEN 'failed'     THEN NEW.state IN ('queued', 'cancelled')                        -- retried, forgotten
        WHEN 'cancelled'  THEN NEW.state = 'queued' AND NEW.waiting_for IS NOT DISTINCT FROM 'chain' -- the job before it is retried
        ELSE false END) THEN
        RAISE EXCEPTION 'job %: cannot go from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'FL001';
    END IF;
    IF NEW.state = 'done' AND OLD.state <> 'done' AND NEW.export_id IS NOT NULL THEN -- apart: the question costs even where its answer does not matter
        IF NOT EXISTS (SELECT FROM fenceline.attempts WHERE job_id = NEW.id AND state IN ('published', 'superseded')) THEN
            RAISE EXCEPTION 'job %: is done only when an attempt of it was published', OLD.id USING ERRCODE = 'FL001';
        END IF;
    END IF;
    IF NEW.run_id IS DISTINCT FROM OLD.run_id AND NOT (OLD.state = 'queued' AND NEW.state = 'running') THEN
        RAISE EXCEPTION 'job %: a run gets its name when it begins and keeps it', OLD.id USING ERRCODE = 'FL001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- after_job_ended does in the deciding transaction what hangs on the end of a job,
-- whoever ended it: the notice of a failure, the next job of a chain, and a word
-- to the relays when a batch may be over.
-- +goose StatementBegin
CREATE FUNCTION fenceline.after_job_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'failed' THEN
        INSERT INTO fenceline.outbox (topic, export_id, job_id, attempt_id) VALUES ('job.failed', NEW.export_id, NEW.id, NEW.attempt_id);
    END IF;
    IF NEW.chain_id IS NOT NULL AND NEW.state IN ('done', 'superseded') THEN
        UPDATE fenceline.jobs SET waiting_for = NULL, due_at = clock_timestamp(), ring_at = clock_timestamp(),
            ready_at = CASE WHEN export_id IS NULL THEN clock_timestamp() END
        WHERE after_job = NEW.id AND state = 'queued' AND waiting_for = 'chain';
    ELSIF NEW.chain_id IS NOT NULL AND NOT (OLD.state = 'failed' AND NEW.state = 'cancelled') THEN
        UPDATE fenceline.jobs SET state = 'cancelled', finished_at = clock_timestamp(), waiting_for = NULL, ready_at = NULL,
            error = format('the job before it in its chain was not done: it %s', CASE NEW.state WHEN 'failed' THEN 'failed' ELSE 'was cancelled' END)
        WHERE after_job = NEW.id AND state = 'queued' AND waiting_for = 'chain';
    END IF;
    IF NEW.batch_id IS NOT NULL AND (NEW.state = 'failed' OR NOT EXISTS (SELECT FROM fenceline.jobs
        WHERE batch_id = NEW.batch_id AND state IN ('queued', 'running', 'cancelling'))) THEN
        PERFORM pg_notify('fenceline_jobs', '');
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ended AFTER UPDATE OF state ON fenceline.jobs FOR EACH ROW
    WHEN (NEW.state IS DISTINCT FROM OLD.state AND NEW.state IN ('done', 'superseded', 'failed', 'cancelled')
        AND (NEW.state = 'failed' OR NEW.chain_id IS NOT NULL OR NEW.batch_id IS NOT NULL))
    EXECUTE FUNCTION fenceline.after_job_ended();

-- A job that is retried reopens its batch and brings back what waited behind it in its chain.
-- +goose StatementBegin
CREATE FUNCTION fenceline.after_job_retried() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.batch_id IS NOT NULL THEN
        UPDATE fenceline.batches SET settled_at = NULL WHERE id = NEW.batch_id AND settled_at IS NOT NULL;
    END IF;
    IF NEW.chain_id IS NOT NULL THEN
        UPDATE fenceline.jobs SET state = 'queued', waiting_for = 'chain', finished_at = NULL, error = NULL, due_at = clock_timestamp()
        WHERE after_job = NEW.id AND state = 'cancelled' AND started_at IS NULL;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER retried AFTER UPDATE OF state ON fenceline.jobs FOR EACH ROW
    WHEN (OLD.state IN ('failed', 'cancelled') AND NEW.state = 'queued' AND (NEW.batch_id IS NOT NULL OR NEW.chain_id IS NOT NULL))
    EXECUTE FUNCTION fenceline.after_job_retried();

-- Plain jobs tell nobody by themselves: whoever makes one ready says so once for many.
DROP TRIGGER tell_new ON fenceline.jobs;
CREATE TRIGGER tell_new AFTER INSERT ON fenceline.jobs FOR EACH ROW WHEN (NEW.export_id IS NOT NULL) EXECUTE FUNCTION fenceline.tell();
-- Called only where it has something to say: jobs begin queued as a rule.
DROP TRIGGER guard_new ON fenceline.jobs;
CREATE TRIGGER guard_new BEFORE INSERT ON fenceline.jobs FOR EACH ROW WHEN (NEW.state <> 'queued') EXECUTE FUNCTION fenceline.guard_new();
DROP TRIGGER tell ON fenceline.jobs;
CREATE TRIGGER tell AFTER UPDATE ON fenceline.jobs FOR EACH ROW
    WHEN (NEW.export_id IS NOT NULL AND (OLD.state IS DISTINCT FROM NEW.state OR OLD.due_at IS DISTINCT FROM NEW.due_at)) EXECUTE FUNCTION fenceline.tell();
-- +goose StatementBegin
CREATE FUNCTION fenceline.tell_ready() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('fenceline_jobs', NEW.queue);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER tell_ready AFTER UPDATE OF ready_at ON fenceline.jobs FOR EACH ROW
    WHEN (NEW.state = 'queued' AND NEW.ready_at IS NOT NULL AND OLD.ready_at IS DISTINCT FROM NEW.ready_at) EXECUTE FUNCTION fenceline.tell_ready();


-- Functions that take a few rows out of a table that may be large find them by an index, whatever the planner knows of
-- the table: it was empty when most plans were made, and a plan that reads all of it stays for the session. So there
-- are no joins with such a table here, only questions by its keys (OFFSET 0 keeps them apart).

-- insert_jobs (step 1): inserts jobs, and exports that are new, in the caller's transaction and in one round trip. p_jobs
-- is a list of objects with the names of the columns; key names the export and is left out for a plain job; delay, unique_for and
-- retry_for are seconds from now. Answers one row for each: created is false when an idempotency key, a unique key or a debounced
-- job answered instead, id NULL when that one ended in this instant and the row must be sent again, gone when the export was deleted:
-- then nothing was inserted, and only those rows are answered. Sending the same rows again changes nothing.
-- +goose StatementBegin
CREATE FUNCTION fenceline.insert_jobs(p_jobs jsonb)
RETURNS TABLE (o_ord int, o_id uuid, o_created boolean, o_gone boolean, o_export uuid, o_due timestamptz, o_at timestamptz) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    n record;
    idle text[];
BEGIN
    IF p_jobs @? '$[*].key' THEN
    -- In order, so that two bulk inserts do not wait for each other in a circle.
    INSERT INTO fenceline.exports (tenant, kind, key, title)
        SELECT DISTINCT ON (r.tenant, r.kind, r.key) r.tenant, r.kind, r.key, r.title
        FROM jsonb_to_recordset(p_jobs) AS r(tenant text, kind text, key text, title text)
        WHERE r.key IS NOT NULL AND (SELECT e.id FROM fenceline.exports e WHERE e.tenant = r.tenant AND e.kind = r.kind AND e.key = r.key) IS NULL
        ORDER BY r.tenant, r.kind, r.key
        ON CONFLICT DO NOTHING;
    RETURN QUERY SELECT r.ord, e.id, false, true, e.id, NULL::timestamptz, NULL::timestamptz
        FROM jsonb_to_recordset(p_jobs) AS r(ord int, tenant text, kind text, key text), LATERAL (
            SELECT x.id FROM fenceline.exports x WHERE x.tenant = r.tenant AND x.kind = r.kind AND x.key = r.key AND x.deleted_at IS NOT NULL OFFSET 0) e
        WHERE r.key IS NOT NULL;
    IF FOUND THEN RETURN; END IF;
    END IF;

    -- Workers look again as long as a queue holds something ready, so only one that held nothing needs a word.
    SELECT array_agg(q.queue) INTO idle FROM (
        SELECT DISTINCT r.queue FROM jsonb_to_recordset(p_jobs) AS r(queue text, key text, delay float8, due_at timestamptz, after_job uuid)
        WHERE r.key IS NULL AND coalesce(r.delay, 0) <= 0 AND r.after_job IS NULL) q
    WHERE (SELECT j.id FROM fenceline.jobs j WHERE j.queue = q.queue AND j.state = 'queued' AND j.ready_at IS NOT NULL LIMIT 1) IS NULL;

    INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, title, payload, payload_version, priority, tags, backoff, retry_until,
            waiting_for, due_at, ring_at, ready_at, max_attempts, max_crashes, timeout_seconds, idempotency_key, request_hash,
            requested_by, batch_id, chain_id, after_job)
        SELECT r.id, r.tenant, r.kind, r.queue, e.id, r.title, r.payload, r.payload_version, coalesce(r.priority, 0), coalesce(r.tags, '{}'), r.backoff,
            coalesce(r.retry_until, d.now + make_interval(secs => r.retry_for)), d.waits,
            d.due, CASE WHEN d.waits = 'chain' THEN 'infinity' ELSE d.due END, CASE WHEN r.key IS NULL AND d.waits IS NULL THEN d.now END,
            r.max_attempts, r.max_crashes, r.timeout_seconds, r.idempotency_key, decode(r.request_hash, 'hex'),
            coalesce(r.requested_by, ''), r.batch_id, r.chain_id, r.after_job
        FROM jsonb_to_recordset(p_jobs) AS r(id uuid, tenant text, kind text, key text, queue text, title text, payload jsonb, payload_version int,
            priority smallint, tags text[], backoff jsonb, retry_until timestamptz, retry_for float8, delay float8, due_at timestamptz,
            max_attempts int, max_crashes int, timeout_seconds int, idempotency_key text, request_hash text, requested_by text,
            batch_id uuid, chain_id uuid, after_job uuid, unique_key text)
        LEFT JOIN LATERAL (SELECT x.id FROM fenceline.exports x WHERE x.tenant = r.tenant AND x.kind = r.kind AND x.key = r.key OFFSET 0) e ON r.key IS NOT NULL
        CROSS JOIN LATERAL (SELECT t.now, t.due, CASE WHEN r.after_job IS NOT NULL THEN 'chain' WHEN t.due > t.now THEN 'later' END AS waits
            FROM (SELECT c.now, greatest(coalesce(r.due_at, c.now + make_interval(secs => coalesce(r.delay, 0))), c.now) AS due
                FROM (SELECT clock_timestamp() AS now) c) t) d
        WHERE r.unique_key IS NULL AND (r.key IS NULL OR e.id IS NOT NULL)
        ON CONFLICT DO NOTHING; -- an idempotency key, or the same row sent again after a lost reply

    IF p_jobs @? '$[*].unique_key' THEN
        FOR n IN SELECT j.value FROM jsonb_array_elements(p_jobs) WITH ORDINALITY j(value, ord) WHERE j.value ? 'unique_key' ORDER BY j.ord
        LOOP
            PERFORM fenceline.insert_unique_job(n.value);
        END LOOP;
    END IF;

    PERFORM pg_notify('fenceline_jobs', q) FROM unnest(idle) q;
    RETURN QUERY SELECT r.ord, coalesce(j.id, i.id, u.id), j.id IS NOT NULL, false, j.export_id, j.due_at, j.created_at
        FROM jsonb_to_recordset(p_jobs) AS r(ord int, id uuid, tenant text, kind text, idempotency_key text, unique_key text, unique_while text)
        LEFT JOIN LATERAL (SELECT * FROM fenceline.jobs x WHERE x.id = r.id OFFSET 0) j ON true
        LEFT JOIN LATERAL (SELECT x.id FROM fenceline.jobs x WHERE j.id IS NULL AND x.tenant = r.tenant AND x.idempotency_key = r.idempotency_key OFFSET 0) i ON true
        LEFT JOIN LATERAL (SELECT o.id FROM fenceline.jobs o WHERE j.id IS NULL AND i.id IS NULL
            AND o.tenant = r.tenant AND o.kind = r.kind AND o.unique_key = r.unique_key AND o.unique_while = r.unique_while
            AND (o.unique_while = 'pending' AND o.state = 'queued' AND o.attempts = 0
                OR o.unique_while = 'active' AND o.state IN ('queued', 'running', 'cancelling')
                OR o.unique_while = 'period' AND o.unique_until > clock_timestamp() AND o.state <> 'cancelled')
            ORDER BY o.id DESC LIMIT 1) u ON true;
END $$;
-- +goose StatementEnd

-- insert_unique_job inserts one job that has a unique key, unless another answers for it. A debounced request puts the job that
-- waits off and gives it the newer payload.
-- +goose StatementBegin
CREATE FUNCTION fenceline.insert_unique_job(p_job jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    r record;
    export uuid;
    now timestamptz := clock_timestamp();
    due timestamptz;
BEGIN
    SELECT * INTO r FROM jsonb_to_record(p_job) AS x(id uuid, tenant text, kind text, key text, queue text, title text, payload jsonb, payload_version int,
        priority smallint, tags text[], backoff jsonb, retry_until timestamptz, retry_for float8, delay float8, due_at timestamptz,
        max_attempts int, max_crashes int, timeout_seconds int, idempotency_key text, request_hash text, requested_by text,
        batch_id uuid, unique_key text, unique_while text, unique_for float8, debounce_for float8);
    IF r.key IS NOT NULL THEN
        SELECT e.id INTO export FROM fenceline.exports e WHERE e.tenant = r.tenant AND e.kind = r.kind AND e.key = r.key;
        IF NOT FOUND THEN RETURN; END IF;
    END IF;
    IF r.unique_while = 'period' THEN
        -- No index can know the time, so those who ask for the same key ask one after the other.
        PERFORM pg_advisory_xact_lock(hashtextextended(r.tenant || E'\x01' || r.kind || E'\x01' || r.unique_key, 20261130));
        PERFORM FROM fenceline.jobs o WHERE o.tenant = r.tenant AND o.kind = r.kind AND o.unique_key = r.unique_key AND o.unique_while = 'period'
            AND o.unique_until > clock_timestamp() AND o.state <> 'cancelled';
        IF FOUND THEN RETURN; END IF;
    END IF;
    due := greatest(coalesce(r.due_at, now + make_interval(secs => coalesce(r.delay, 0))), now);
    IF r.debounce_for IS NOT NULL THEN
        INSERT INTO fenceline.jobs AS j (id, tenant, kind, queue, export_id, title, payload, payload_version, priority, tags, backoff, retry_until,
                waiting_for, due_at, ring_at, max_attempts, max_crashes, timeout_seconds, request_hash, requested_by, batch_id,
                unique_key, unique_while, debounce_until)
            VALUES (r.id, r.tenant, r.kind, r.queue, export, r.title, r.payload, r.payload_version, coalesce(r.priority, 0), coalesce(r.tags, '{}'), r.backoff,
                coalesce(r.retry_until, now + make_interval(secs => r.retry_for)), 'later', due, due, r.max_attempts, r.max_crashes, r.timeout_seconds,
                decode(r.request_hash, 'hex'), coalesce(r.requested_by, ''), r.batch_id, r.unique_key, r.unique_while, now + make_interval(secs => r.debounce_for))
            ON CONFLICT (tenant, kind, unique_key) WHERE unique_while = 'pending' AND state = 'queued' AND attempts = 0
            DO UPDATE SET payload = excluded.payload, payload_version = excluded.payload_version, title = excluded.title, request_hash = excluded.request_hash,
                requested_by = excluded.requested_by, waiting_for = 'later', ready_at = NULL, generation = j.generation + 1,
                due_at = greatest(least(excluded.due_at, j.debounce_until), clock_timestamp()), ring_at = greatest(least(excluded.due_at, j.debounce_until), clock_timestamp())
            WHERE j.export_id IS NOT DISTINCT FROM excluded.export_id AND j.debounce_until IS NOT NULL;
        RETURN;
    END IF;
    INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, title, payload, payload_version, priority, tags, backoff, retry_until,
            waiting_for, due_at, ring_at, ready_at, max_attempts, max_crashes, timeout_seconds, idempotency_key, request_hash,
            requested_by, batch_id, unique_key, unique_while, unique_until)
        VALUES (r.id, r.tenant, r.kind, r.queue, export, r.title, r.payload, r.payload_version, coalesce(r.priority, 0), coalesce(r.tags, '{}'), r.backoff,
            coalesce(r.retry_until, now + make_interval(secs => r.retry_for)), CASE WHEN due > now THEN 'later' END, due, due,
            CASE WHEN export IS NULL AND due <= now THEN now END, r.max_attempts, r.max_crashes, r.timeout_seconds, r.idempotency_key,
            decode(r.request_hash, 'hex'), coalesce(r.requested_by, ''), r.batch_id, r.unique_key, r.unique_while, now + make_interval(secs => r.unique_for))
        ON CONFLICT DO NOTHING;
END $$;
-- +goose StatementEnd

-- cap_room is how many more jobs of a queue, kind and tenant may run; NULL for any number.
-- +goose StatementBegin
CREATE FUNCTION fenceline.cap_room(p_queue text, p_kind text, p_tenant text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT min(c.max_running - (SELECT count(*)::int FROM fenceline.jobs j WHERE j.state IN ('running', 'cancelling')
                AND CASE c.scope WHEN 'queue' THEN j.queue = p_queue WHEN 'kind' THEN j.kind = p_kind ELSE j.tenant = p_tenant END))
        FROM fenceline.caps c
        WHERE c.scope = 'queue' AND c.name = p_queue OR c.scope = 'kind' AND c.name = p_kind
            OR c.scope = 'tenant' AND (c.name = p_tenant OR c.name = '*' AND NOT EXISTS (
                SELECT FROM fenceline.caps o WHERE o.scope = 'tenant' AND o.name = p_tenant)));
END $$;
-- +goose StatementEnd

-- lock_caps lets one transaction at a time count and claim, while there are caps; answers whether there are any.
-- +goose StatementBegin
CREATE FUNCTION fenceline.lock_caps() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM fenceline.caps) THEN RETURN false; END IF;
    PERFORM pg_advisory_xact_lock(5063539405717766147);  -- "FENC" and 3
    RETURN true;
END $$;
-- +goose StatementEnd

-- unpark lets jobs that waited for a cap try again, as many as have room; answers how many. It looks once at each
-- group of tenant, kind and queue that waits, so no group stands in the way of another.
-- +goose StatementBegin
CREATE FUNCTION fenceline.unpark() RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    g record;
    room int;
    woken int;
    total int := 0;
    taken jsonb := '{}';
BEGIN
    IF NOT EXISTS (SELECT FROM fenceline.jobs WHERE state = 'queued' AND waiting_for = 'cap') THEN RETURN 0; END IF;
    FOR g IN
        WITH RECURSIVE groups AS (
            (SELECT tenant, kind, queue FROM fenceline.jobs WHERE state = 'queued' AND waiting_for = 'cap' ORDER BY tenant, kind, queue LIMIT 1)
            UNION ALL
            SELECT n.* FROM groups p, LATERAL (SELECT j.tenant, j.kind, j.queue FROM fenceline.jobs j WHERE j.state = 'queued' AND j.waiting_for = 'cap'
                AND (j.tenant, j.kind, j.queue) > (p.tenant, p.kind, p.queue) ORDER BY j.tenant, j.kind, j.queue LIMIT 1) n)
        SELECT * FROM groups
    LOOP
        room := least(coalesce(fenceline.cap_room(g.queue, g.kind, g.tenant), 500), 500)
            - greatest(coalesce((taken ->> ('q' || g.queue))::int, 0), coalesce((taken ->> ('k' || g.kind))::int, 0), coalesce((taken ->> ('t' || g.tenant))::int, 0));
        CONTINUE WHEN room <= 0;
        UPDATE fenceline.jobs SET waiting_for = NULL, generation = generation + 1, ring_at = clock_timestamp(),
            ready_at = CASE WHEN export_id IS NULL THEN clock_timestamp() END
        WHERE id IN (SELECT id FROM fenceline.jobs WHERE state = 'queued' AND waiting_for = 'cap' AND tenant = g.tenant AND kind = g.kind AND queue = g.queue
            ORDER BY priority DESC, id LIMIT room FOR NO KEY UPDATE SKIP LOCKED);
        GET DIAGNOSTICS woken = ROW_COUNT;
        total := total + woken;
        taken := taken || jsonb_build_object('q' || g.queue, coalesce((taken ->> ('q' || g.queue))::int, 0) + woken,
            'k' || g.kind, coalesce((taken ->> ('k' || g.kind))::int, 0) + woken, 't' || g.tenant, coalesce((taken ->> ('t' || g.tenant))::int, 0) + woken);
    END LOOP;
    IF total > 0 THEN PERFORM pg_notify('fenceline_jobs', ''); END IF;
    RETURN total;
END $$;
-- +goose StatementEnd

-- begin_attempt (step 3): as before, and besides: held when the queue is paused, a cap is reached or maintenance goes on. Waiting for
-- that is no attempt: no token is drawn.
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

-- claim_runs gives a worker plain jobs to run. p_wants is [{queue, runs: [names of runs to be]}]; at most one job for each name. Sent again after
-- a lost reply it answers what those names have got. Nothing from paused queues or during maintenance.
-- +goose StatementBegin
CREATE FUNCTION fenceline.claim_runs(p_worker uuid, p_wants jsonb, p_again boolean)
RETURNS TABLE (o_run uuid, o_state text, o_id uuid, o_tenant text, o_kind text, o_queue text, o_title text, o_payload text, o_version int, o_attempts int,
    o_failures int, o_crashes int, o_releases int, o_max int, o_timeout int, o_generation int, o_backoff text, o_tags text, o_batch uuid, o_chain uuid,
    o_after uuid, o_retry_until timestamptz, o_created timestamptz, o_by text)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    w record;
    c record;
    mine uuid[] := '{}';
    ids uuid[];
    picked int;
    capped boolean;
BEGIN
    PERFORM fenceline.require_read_committed();
    IF p_again THEN
        mine := ARRAY(SELECT j.id FROM fenceline.jobs j WHERE j.worker_id = p_worker AND j.state IN ('running', 'cancelling')
            AND j.run_id IN (SELECT x::uuid FROM jsonb_array_elements(p_wants) v, jsonb_array_elements_text(v -> 'runs') x));
    ELSIF EXISTS (SELECT FROM fenceline.installation WHERE maintenance_since IS NOT NULL) THEN
        RETURN;
    ELSE
        capped := fenceline.lock_caps();
        IF capped THEN PERFORM fenceline.unpark(); END IF;
        FOR w IN SELECT r.queue, r.runs FROM jsonb_to_recordset(p_wants) AS r(queue text, runs uuid[])
            WHERE NOT EXISTS (SELECT FROM fenceline.queues q WHERE q.name = r.queue)
        LOOP
            IF NOT capped THEN
                ids := ARRAY(SELECT j.id FROM fenceline.jobs j WHERE j.queue = w.queue AND j.state = 'queued' AND j.ready_at IS NOT NULL
                    ORDER BY j.priority DESC, j.ready_at, j.id LIMIT cardinality(w.runs) FOR NO KEY UPDATE SKIP LOCKED);
                UPDATE fenceline.jobs j SET state = 'running', run_id = w.runs[array_position(ids, j.id)], worker_id = p_worker, attempts = j.attempts + 1,
                    waiting_for = NULL, ready_at = NULL, started_at = coalesce(j.started_at, clock_timestamp()) WHERE j.id = ANY (ids);
                mine := mine || ids;
                CONTINUE;
            END IF;
            picked := 0;
            FOR c IN SELECT j.id, j.kind, j.tenant FROM fenceline.jobs j WHERE j.queue = w.queue AND j.state = 'queued' AND j.ready_at IS NOT NULL
                ORDER BY j.priority DESC, j.ready_at, j.id LIMIT cardinality(w.runs) + 500 FOR NO KEY UPDATE SKIP LOCKED
            LOOP
                EXIT WHEN picked >= cardinality(w.runs);
                IF fenceline.cap_room(w.queue, c.kind, c.tenant) <= 0 THEN
                    UPDATE fenceline.jobs SET waiting_for = 'cap', ready_at = NULL WHERE id = c.id;
                    CONTINUE;
                END IF;
                picked := picked + 1;
                mine := mine || c.id;
                UPDATE fenceline.jobs j SET state = 'running', run_id = w.runs[picked], worker_id = p_worker, attempts = j.attempts + 1,
                    waiting_for = NULL, ready_at = NULL, started_at = coalesce(j.started_at, clock_timestamp()) WHERE j.id = c.id;
            END LOOP;
        END LOOP;
    END IF;
    RETURN QUERY SELECT j.run_id, 'claimed'::text, j.id, j.tenant, j.kind, j.queue, j.title, j.payload::text, j.payload_version, j.attempts, j.failures, j.crashes, j.releases,
        j.max_attempts, j.timeout_seconds, j.generation, j.backoff::text, to_jsonb(j.tags)::text, j.batch_id, j.chain_id, j.after_job, j.retry_until,
        j.created_at, j.requested_by
    FROM fenceline.jobs j WHERE j.id = ANY (mine);
END $$;
-- +goose StatementEnd

-- run_ruling is what becomes of a job when its run ends.
-- +goose StatementBegin
CREATE FUNCTION fenceline.run_ruling(p_state text, p_outcome text, p_final boolean, p_failures int, p_max int, p_due timestamptz, p_until timestamptz)
RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p_state = 'cancelling' OR p_outcome = 'cancelled' THEN 'cancelled'
        WHEN p_outcome = 'done' THEN 'done'
        WHEN p_outcome = 'failed' AND (p_final OR p_failures + 1 >= p_max OR p_due > p_until) THEN 'failed'
        ELSE 'queued' END
$$;
-- +goose StatementEnd

-- finish_runs ends runs of plain jobs. p_runs maps the names of runs to {job, outcome, reason, error, stack, final, delay, waiting_for, result, progress} with outcome
--   done, failed (counts; final: no retry), released (waits again, no attempt), cancelled (given up for good, error says why)
-- Answers what became of each job, or stale when the run is not its newest or was handed on: then nothing was changed (L6). Sent again it
-- answers what was decided.
-- +goose StatementBegin
CREATE FUNCTION fenceline.finish_runs(p_runs jsonb) RETURNS TABLE (o_run uuid, o_state text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    ids uuid[] := ARRAY(SELECT (v.value ->> 'job')::uuid FROM jsonb_each(p_runs) v);
    at timestamptz := clock_timestamp();
    ended jsonb;
BEGIN
    PERFORM fenceline.require_read_committed();
    WITH done AS (
        UPDATE fenceline.jobs j SET
            state = fenceline.run_ruling(j.state, p_runs #>> ARRAY[j.run_id::text, 'outcome'], (p_runs #>> ARRAY[j.run_id::text, 'final'])::boolean, j.failures, j.max_attempts,
                at + make_interval(secs => coalesce((p_runs #>> ARRAY[j.run_id::text, 'delay'])::float8, 0)), j.retry_until),
            finished_at = CASE WHEN fenceline.run_ruling(j.state, p_runs #>> ARRAY[j.run_id::text, 'outcome'], (p_runs #>> ARRAY[j.run_id::text, 'final'])::boolean, j.failures, j.max_attempts,
                at + make_interval(secs => coalesce((p_runs #>> ARRAY[j.run_id::text, 'delay'])::float8, 0)), j.retry_until) <> 'queued' THEN clock_timestamp() END,
            attempts = j.attempts - CASE WHEN p_runs #>> ARRAY[j.run_id::text, 'outcome'] = 'released' AND j.state = 'running' THEN 1 ELSE 0 END,
            releases = j.releases + CASE WHEN p_runs #>> ARRAY[j.run_id::text, 'outcome'] = 'released' THEN 1 ELSE 0 END,
            failures = j.failures + CASE WHEN p_runs #>> ARRAY[j.run_id::text, 'outcome'] = 'failed' THEN 1 ELSE 0 END,
            error = CASE WHEN j.state = 'running' AND p_runs #>> ARRAY[j.run_id::text, 'outcome'] = 'done' THEN NULL ELSE coalesce(p_runs #>> ARRAY[j.run_id::text, 'error'], j.error) END,
            result = CASE WHEN j.state = 'running' AND p_runs #>> ARRAY[j.run_id::text, 'outcome'] = 'done' THEN p_runs #> ARRAY[j.run_id::text, 'result'] END,
            progress = coalesce(p_runs #> ARRAY[j.run_id::text, 'progress'], j.progress)
        -- By the key, never by the index of what runs: that one is full of what has just ended.
        WHERE j.id = ANY (ids) AND p_runs ? j.run_id::text AND CASE WHEN j.state IN ('running', 'cancelling') THEN true ELSE false END
        RETURNING j.id, j.run_id, j.state, j.attempts, j.worker_id, j.due_at
    ), kept AS (
        INSERT INTO fenceline.job_errors (job_id, attempt, worker, reason, error, stack)
        SELECT d.id, d.attempts, coalesce((SELECT w.name FROM fenceline.workers w WHERE w.id = d.worker_id), ''), f.value ->> 'reason', coalesce(f.value ->> 'error', ''), f.value ->> 'stack'
        FROM done d, LATERAL (SELECT p_runs -> d.run_id::text AS value) f WHERE f.value ->> 'outcome' = 'failed'
    )
    SELECT jsonb_object_agg(d.run_id, d.state) INTO ended FROM done d;
    -- Those that wait again: a statement of its own, because few do.
    IF ended IS NOT NULL AND jsonb_path_exists(ended, '$.* ? (@ == "queued")') THEN
        UPDATE fenceline.jobs j SET generation = j.generation + 1, due_at = d.due,
            waiting_for = CASE WHEN d.due > clock_timestamp() THEN CASE WHEN d.f ->> 'outcome' = 'failed' THEN 'retry' ELSE coalesce(d.f ->> 'waiting_for', 'released') END END,
            ready_at = CASE WHEN d.due <= clock_timestamp() THEN clock_timestamp() END
        FROM (SELECT e.key::uuid AS run, (p_runs #>> ARRAY[e.key, 'job'])::uuid AS job, p_runs -> e.key AS f,
                at + make_interval(secs => coalesce((p_runs #>> ARRAY[e.key, 'delay'])::float8, 0)) AS due
            FROM jsonb_each_text(ended) e WHERE e.value = 'queued') d
        WHERE j.id = ANY (ids) AND j.id = d.job AND j.run_id = d.run AND j.state = 'queued';
        PERFORM pg_notify('fenceline_jobs', 'later'); -- the relays look when the next one is due
    END IF;
    RETURN QUERY SELECT v.key::uuid, coalesce(ended ->> v.key, (SELECT CASE WHEN o.state IN ('running', 'cancelling') THEN 'stale' ELSE o.state END
            FROM fenceline.jobs o WHERE o.id = (v.value ->> 'job')::uuid AND o.run_id = v.key::uuid), 'stale')
        FROM jsonb_each(p_runs) v;
END $$;
-- +goose StatementEnd

-- promote makes plain jobs ready whose time has come; answers how many.
-- +goose StatementBegin
CREATE FUNCTION fenceline.promote(p_limit int) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    n int;
BEGIN
    UPDATE fenceline.jobs SET ready_at = clock_timestamp(), waiting_for = NULL WHERE id IN (
        SELECT id FROM fenceline.jobs WHERE state = 'queued' AND export_id IS NULL AND ready_at IS NULL
            AND waiting_for IS DISTINCT FROM 'chain' AND waiting_for IS DISTINCT FROM 'cap' AND due_at <= clock_timestamp()
        ORDER BY due_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
-- +goose StatementEnd

-- worker_beat says that a worker lives and what it runs, and answers the runs of plain jobs that it has, by
-- their state, with what the worker is asked to do in the first row.
--   p_progress is [{job, run, progress}] of those whose progress has changed
-- +goose StatementBegin
CREATE FUNCTION fenceline.worker_beat(p_worker uuid, p_running int, p_progress jsonb) RETURNS TABLE (o_run uuid, o_state text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    request text;
BEGIN
    UPDATE fenceline.workers w SET heartbeat_at = clock_timestamp(), running = p_running, stopped_at = NULL WHERE w.id = p_worker
        RETURNING coalesce(w.asked, CASE WHEN w.started_at < (SELECT restart_at FROM fenceline.installation) THEN 'stop' END) INTO request;
    IF NOT FOUND THEN request := 'unknown'; END IF;
    IF p_progress IS NOT NULL THEN
        UPDATE fenceline.jobs j SET progress = p.progress FROM jsonb_to_recordset(p_progress) AS p(job uuid, run uuid, progress jsonb)
            WHERE j.id = p.job AND j.run_id = p.run AND j.state IN ('running', 'cancelling');
    END IF;
    RETURN QUERY SELECT NULL::uuid, request
        UNION ALL SELECT j.run_id, j.state FROM fenceline.jobs j WHERE j.worker_id = p_worker AND j.state IN ('running', 'cancelling') AND j.export_id IS NULL;
END $$;
-- +goose StatementEnd

-- hand_on_lost: as before for exports; besides, plain jobs whose worker no longer beats or has stopped.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.hand_on_lost(p_lease_seconds double precision, p_limit int)
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
        RETURNING j.id, lost.aid, j.state, lost.w, lost.t
    )
    SELECT h.id, h.aid, h.state, h.w, h.t FROM handed h;
    RETURN QUERY
    WITH lost AS (
        SELECT j.id, j.run_id AS run, coalesce(w.name, j.worker_id::text) AS w FROM fenceline.jobs j LEFT JOIN fenceline.workers w ON w.id = j.worker_id
        WHERE j.state IN ('running', 'cancelling') AND j.export_id IS NULL
          AND (w.id IS NULL OR w.stopped_at IS NOT NULL OR w.heartbeat_at < clock_timestamp() - make_interval(secs => p_lease_seconds))
        LIMIT p_limit FOR UPDATE OF j SKIP LOCKED
    ), handed AS (
        UPDATE fenceline.jobs j SET
            state = CASE WHEN j.state = 'cancelling' THEN 'cancelled' WHEN j.crashes + 1 >= j.max_crashes THEN 'failed' ELSE 'queued' END,
            crashes = j.crashes + 1, waiting_for = NULL, generation = j.generation + 1, due_at = clock_timestamp(),
            ready_at = CASE WHEN j.state <> 'cancelling' AND j.crashes + 1 < j.max_crashes THEN clock_timestamp() END,
            finished_at = CASE WHEN j.state = 'cancelling' OR j.crashes + 1 >= j.max_crashes THEN clock_timestamp() END,
            error = CASE WHEN j.state <> 'cancelling' AND j.crashes + 1 >= j.max_crashes
                THEN format('%s workers in a row gave no more heartbeat while they ran this job%s', j.crashes + 1, coalesce('; last error: ' || j.error, '')) ELSE j.error END
        FROM lost WHERE j.id = lost.id AND j.run_id = lost.run
        RETURNING j.id, j.state, j.attempts, lost.w
    ), kept AS (
        INSERT INTO fenceline.job_errors (job_id, attempt, worker, reason, error)
        SELECT h.id, h.attempts, h.w, 'crash', 'the worker gave no more heartbeat' FROM handed h
    )
    SELECT h.id, NULL::uuid, h.state, h.w, 0::bigint FROM handed h;
END $$;
-- +goose StatementEnd

-- end_attempt: as before; a failure that could only be retried after retry_until is final, and the notice of it is
-- written by the trigger on the job's end.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.end_attempt(aid uuid, p_state text, p_reason text, p_error text, p_counts boolean, p_final boolean,
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
    IF p_final OR p_counts AND (j.failures + 1 >= j.max_attempts OR due > j.retry_until) THEN
        UPDATE fenceline.jobs SET state = 'failed', failures = failures + lost, error = coalesce(p_error, p_reason),
            finished_at = clock_timestamp() WHERE id = j.id;
        RETURN 'failed';
    END IF;
    UPDATE fenceline.jobs SET state = 'queued', failures = failures + lost, error = coalesce(p_error, error), attempt_id = NULL,
        waiting_for = CASE WHEN p_counts THEN 'retry' WHEN p_state = 'fenced' THEN 'lease' END,
        generation = generation + 1, due_at = due, ring_at = due WHERE id = j.id;
    RETURN 'queued';
END $$;
-- +goose StatementEnd
