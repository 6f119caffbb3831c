-- The fence: exports, jobs, attempts, files, and what the database itself refuses.
--
-- Everything lives in the schema "fenceline", so that Fenceline can share a
-- database with the application whose rows it exports.
--
-- Order of row locks, everywhere: attempt, then export, then job. A statement
-- that takes them in another order can deadlock with a publish.

-- +goose Up

-- One row: which installation this is. The file store carries the same id, so
-- that a clean-up never runs over the files of another database.
CREATE TABLE fenceline.installation (
    singleton  boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    id         uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO fenceline.installation DEFAULT VALUES;

-- CACHE stays 1: with a cache two sessions hand out numbers out of order.
CREATE SEQUENCE fenceline.fence_tokens AS bigint CACHE 1 NO CYCLE;

CREATE TABLE fenceline.exports (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant       text NOT NULL CHECK (tenant <> ''),
    kind         text NOT NULL CHECK (kind <> ''),
    key          text NOT NULL CHECK (key <> ''),
    title        text NOT NULL DEFAULT '',
    issued_token bigint NOT NULL DEFAULT 0,
    last_token   bigint NOT NULL DEFAULT 0,
    attempt_id   uuid,
    published_at timestamptz,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- softly deleted: nothing publishes to it any more, the sweep removes its files later, the rows stay as tombstones
    deleted_at   timestamptz,
    UNIQUE (tenant, kind, key),
    CHECK (last_token >= 0 AND last_token <= issued_token),
    CHECK ((attempt_id IS NULL) = (last_token = 0)),
    CHECK ((attempt_id IS NULL) = (published_at IS NULL))
);
CREATE INDEX exports_recent ON fenceline.exports (changed_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX exports_recent_of_tenant ON fenceline.exports (tenant, changed_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX exports_deleted ON fenceline.exports (deleted_at, id) WHERE deleted_at IS NOT NULL;

CREATE TABLE fenceline.jobs (
    id              uuid PRIMARY KEY,
    tenant          text NOT NULL CHECK (tenant <> ''),
    kind            text NOT NULL,
    queue           text NOT NULL CHECK (queue <> ''),
    export_id       uuid NOT NULL REFERENCES fenceline.exports ON DELETE RESTRICT,
    title           text NOT NULL DEFAULT '',
    payload         jsonb NOT NULL,
    payload_version int NOT NULL CHECK (payload_version > 0),
    state           text NOT NULL DEFAULT 'queued' CHECK (state IN
                    ('queued', 'running', 'done', 'superseded', 'failed', 'cancelling', 'cancelled')),
    -- what a queued job waits for: lease (another attempt works on the export), retry, later
    waiting_for     text CHECK (waiting_for IN ('lease', 'retry', 'later')),
    due_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- when the relay must ring for the job (again)
    ring_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    generation      int NOT NULL DEFAULT 1,
    attempt_id      uuid,
    attempts        int NOT NULL DEFAULT 0,
    failures        int NOT NULL DEFAULT 0,
    crashes         int NOT NULL DEFAULT 0,
    max_attempts    int NOT NULL CHECK (max_attempts > 0),
    max_crashes     int NOT NULL CHECK (max_crashes > 0),
    timeout_seconds int NOT NULL CHECK (timeout_seconds > 0),
    idempotency_key text CHECK (idempotency_key <> ''),
    request_hash    bytea NOT NULL,
    requested_by    text NOT NULL DEFAULT '',
    error           text,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at      timestamptz,
    finished_at     timestamptz,
    CHECK ((state IN ('running', 'cancelling')) <= (attempt_id IS NOT NULL)),
    CHECK ((state IN ('done', 'superseded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CHECK (state <> 'failed' OR error IS NOT NULL)
);
CREATE UNIQUE INDEX jobs_idempotency ON fenceline.jobs (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_to_ring ON fenceline.jobs (ring_at) WHERE state = 'queued';
CREATE INDEX jobs_active ON fenceline.jobs (attempt_id) WHERE state IN ('running', 'cancelling');
CREATE INDEX jobs_of_export ON fenceline.jobs (export_id, id DESC);
CREATE INDEX jobs_waiting_for_lease ON fenceline.jobs (export_id, id) WHERE state = 'queued' AND waiting_for = 'lease';
CREATE INDEX jobs_of_tenant ON fenceline.jobs (tenant, id DESC);
CREATE INDEX jobs_finished ON fenceline.jobs (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE fenceline.attempts (
    id            uuid PRIMARY KEY,
    export_id     uuid NOT NULL REFERENCES fenceline.exports ON DELETE RESTRICT,
    job_id        uuid NOT NULL REFERENCES fenceline.jobs ON DELETE RESTRICT,
    number        int NOT NULL CHECK (number > 0),
    token         bigint NOT NULL UNIQUE CHECK (token > 0),
    state         text NOT NULL DEFAULT 'running' CHECK (state IN
                  ('running', 'sealed', 'published', 'superseded', 'fenced', 'failed', 'cancelled', 'condemned', 'deleted')),
    -- how it came out, kept when the state has moved on to deleted
    verdict       text CHECK (verdict IN ('published', 'superseded', 'fenced', 'failed', 'cancelled', 'condemned')),
    worker        text NOT NULL,
    step          text NOT NULL DEFAULT 'read' CHECK (step IN ('count', 'read', 'write', 'seal', 'publish')),
    rows          bigint NOT NULL DEFAULT 0,
    rows_expected bigint,
    bytes         bigint NOT NULL DEFAULT 0,
    data_as_of    timestamptz,
    warnings      jsonb,
    reason        text,        -- why it ended, in a word: see storage/attempt.go
    error         text,
    fenced_by     bigint,      -- the token that was ahead of it
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    sealed_at     timestamptz,
    finished_at   timestamptz, -- when it got its verdict
    replaced_at   timestamptz, -- when a newer publication superseded it
    deleted_at    timestamptz, -- when its files were gone
    probe_at      timestamptz, -- when its folder must be looked at again: a frozen worker may still finish a rename
    probes        int NOT NULL DEFAULT 0,
    UNIQUE (export_id, id, token),
    UNIQUE (job_id, number),
    CHECK ((state IN ('running', 'sealed')) = (finished_at IS NULL))
);
-- L2, L4: the last word, whatever the code above it does.
CREATE UNIQUE INDEX attempts_one_published ON fenceline.attempts (export_id) WHERE state = 'published';
CREATE UNIQUE INDEX attempts_one_publication_per_job ON fenceline.attempts (job_id) WHERE state IN ('published', 'superseded');
CREATE INDEX attempts_unfinished ON fenceline.attempts (heartbeat_at) WHERE state IN ('running', 'sealed');
CREATE INDEX attempts_unfinished_of_export ON fenceline.attempts (export_id) WHERE state IN ('running', 'sealed');
CREATE INDEX attempts_to_delete ON fenceline.attempts (finished_at, id) WHERE state IN ('fenced', 'failed', 'cancelled', 'condemned');
CREATE INDEX attempts_superseded ON fenceline.attempts (replaced_at, id) WHERE state = 'superseded';
CREATE INDEX attempts_to_probe ON fenceline.attempts (probe_at, id) WHERE probe_at IS NOT NULL;
CREATE INDEX attempts_fenced ON fenceline.attempts (finished_at) WHERE verdict = 'fenced';
CREATE INDEX attempts_of_export ON fenceline.attempts (export_id, token DESC);

-- The pointer names an attempt of the same export, with the token it was published under.
ALTER TABLE fenceline.exports ADD CONSTRAINT exports_pointer
    FOREIGN KEY (id, attempt_id, last_token) REFERENCES fenceline.attempts (export_id, id, token) ON DELETE RESTRICT;
ALTER TABLE fenceline.jobs ADD CONSTRAINT jobs_attempt
    FOREIGN KEY (attempt_id) REFERENCES fenceline.attempts (id) ON DELETE RESTRICT;

CREATE TABLE fenceline.files (
    attempt_id uuid NOT NULL REFERENCES fenceline.attempts ON DELETE RESTRICT,
    ordinal    int NOT NULL CHECK (ordinal > 0),
    name       text NOT NULL CHECK (name <> ''),   -- what a person sees and downloads
    object     text NOT NULL CHECK (object ~ '^[0-9]+-[A-Za-z0-9._-]+$'), -- the name in the attempt's folder
    format     text NOT NULL,
    media_type text NOT NULL,
    size       bigint NOT NULL CHECK (size >= 0),
    sha256     bytea NOT NULL CHECK (length(sha256) = 32),
    rows       bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (attempt_id, ordinal),
    UNIQUE (attempt_id, name),
    UNIQUE (attempt_id, object)
);

-- Side effects leave only through here, written by the transaction that decides (L8).
CREATE TABLE fenceline.outbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic        text NOT NULL CHECK (topic IN ('export.published', 'job.failed')),
    export_id    uuid NOT NULL REFERENCES fenceline.exports ON DELETE RESTRICT,
    job_id       uuid NOT NULL REFERENCES fenceline.jobs ON DELETE RESTRICT,
    attempt_id   uuid REFERENCES fenceline.attempts ON DELETE RESTRICT,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    delivered_at timestamptz
);
-- One notice per deciding event, whatever is repeated.
CREATE UNIQUE INDEX outbox_once ON fenceline.outbox (attempt_id) WHERE topic = 'export.published';

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_export() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id <> OLD.id OR NEW.tenant <> OLD.tenant OR NEW.kind <> OLD.kind OR NEW.key <> OLD.key THEN
        RAISE EXCEPTION 'export %: its identity never changes', OLD.id USING ERRCODE = 'FL001';
    END IF;
    IF NEW.issued_token < OLD.issued_token THEN
        RAISE EXCEPTION 'export %: issued_token would fall from % to %; the sequence fenceline.fence_tokens was set back',
            OLD.id, OLD.issued_token, NEW.issued_token USING ERRCODE = 'FL002',
            HINT = 'SELECT setval(''fenceline.fence_tokens'', (SELECT max(issued_token) FROM fenceline.exports))';
    END IF;
    IF NEW.last_token < OLD.last_token THEN
        RAISE EXCEPTION 'export %: last_token would fall from % to %', OLD.id, OLD.last_token, NEW.last_token USING ERRCODE = 'FL001';
    END IF;
    IF NEW.attempt_id IS DISTINCT FROM OLD.attempt_id AND NEW.last_token <= OLD.last_token THEN
        RAISE EXCEPTION 'export %: the pointer moves only with a higher token, not from % to %',
            OLD.id, OLD.last_token, NEW.last_token USING ERRCODE = 'FL001';
    END IF;
    IF NEW.attempt_id IS DISTINCT FROM OLD.attempt_id AND NOT EXISTS (
        SELECT FROM fenceline.attempts WHERE id = NEW.attempt_id AND state = 'published') THEN
        RAISE EXCEPTION 'export %: attempt % is not published', OLD.id, NEW.attempt_id USING ERRCODE = 'FL001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE UPDATE ON fenceline.exports FOR EACH ROW EXECUTE FUNCTION fenceline.guard_export();

-- Deleting is for good: what was deleted may have lost its files already.
-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_undelete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'export %: was deleted and does not come back', OLD.id USING ERRCODE = 'FL001';
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard_undelete BEFORE UPDATE OF deleted_at ON fenceline.exports FOR EACH ROW
    WHEN (OLD.deleted_at IS NOT NULL AND NEW.deleted_at IS DISTINCT FROM OLD.deleted_at) EXECUTE FUNCTION fenceline.guard_undelete();

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'exports' THEN
        IF NEW.last_token <> 0 OR NEW.issued_token <> 0 THEN
            RAISE EXCEPTION 'export %: begins without tokens', NEW.id USING ERRCODE = 'FL001';
        END IF;
    ELSIF TG_TABLE_NAME = 'jobs' THEN
        IF NEW.state <> 'queued' THEN
            RAISE EXCEPTION 'job %: begins queued, not %', NEW.id, NEW.state USING ERRCODE = 'FL001';
        END IF;
    ELSIF NEW.state <> 'running' THEN
        RAISE EXCEPTION 'attempt %: begins running, not %', NEW.id, NEW.state USING ERRCODE = 'FL001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard_new BEFORE INSERT ON fenceline.exports FOR EACH ROW EXECUTE FUNCTION fenceline.guard_new();
CREATE TRIGGER guard_new BEFORE INSERT ON fenceline.jobs FOR EACH ROW EXECUTE FUNCTION fenceline.guard_new();
CREATE TRIGGER guard_new BEFORE INSERT ON fenceline.attempts FOR EACH ROW EXECUTE FUNCTION fenceline.guard_new();

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id <> OLD.id OR NEW.export_id <> OLD.export_id OR NEW.job_id <> OLD.job_id OR NEW.token <> OLD.token
        OR NEW.number <> OLD.number OR NEW.worker <> OLD.worker THEN
        RAISE EXCEPTION 'attempt %: its identity never changes', OLD.id USING ERRCODE = 'FL001';
    END IF;
    IF OLD.state NOT IN ('running') AND (NEW.rows <> OLD.rows OR NEW.bytes <> OLD.bytes
        OR NEW.data_as_of IS DISTINCT FROM OLD.data_as_of) THEN
        RAISE EXCEPTION 'attempt %: what was sealed never changes', OLD.id USING ERRCODE = 'FL001';
    END IF;
    IF NEW.state = OLD.state THEN
        RETURN NEW;
    END IF;
    IF NOT (CASE OLD.state
        WHEN 'running'    THEN NEW.state IN ('sealed', 'fenced', 'failed', 'cancelled', 'condemned')
        WHEN 'sealed'     THEN NEW.state IN ('published', 'fenced', 'failed', 'cancelled', 'condemned')
        WHEN 'published'  THEN NEW.state = 'superseded' OR NEW.state = 'deleted' AND EXISTS (
            SELECT FROM fenceline.exports WHERE id = NEW.export_id AND deleted_at IS NOT NULL)
        WHEN 'deleted'    THEN false
        ELSE NEW.state = 'deleted' END) THEN
        RAISE EXCEPTION 'attempt %: cannot go from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'FL001';
    END IF;
    IF NEW.state NOT IN ('running', 'sealed', 'deleted') THEN
        NEW.verdict := NEW.state;
    END IF;
    IF NEW.state IN ('sealed', 'published') AND NOT EXISTS (SELECT FROM fenceline.files WHERE attempt_id = NEW.id) THEN
        RAISE EXCEPTION 'attempt %: has no files to be %', OLD.id, NEW.state USING ERRCODE = 'FL001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE UPDATE ON fenceline.attempts FOR EACH ROW EXECUTE FUNCTION fenceline.guard_attempt();

-- A pointer never names an attempt that is no longer published: checked at commit, because
-- a publish supersedes the old attempt before it moves the pointer.
-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_pointer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM fenceline.exports WHERE id = NEW.export_id AND attempt_id = NEW.id
        AND NOT (NEW.state = 'deleted' AND deleted_at IS NOT NULL)) THEN
        RAISE EXCEPTION 'attempt % is the current one of its export and cannot be %', NEW.id, NEW.state USING ERRCODE = 'FL001';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER guard_pointer AFTER UPDATE OF state ON fenceline.attempts
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.state = 'published' AND NEW.state <> 'published') EXECUTE FUNCTION fenceline.guard_pointer();

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id <> OLD.id OR NEW.tenant <> OLD.tenant OR NEW.kind <> OLD.kind OR NEW.export_id <> OLD.export_id THEN
        RAISE EXCEPTION 'job %: its identity never changes', OLD.id USING ERRCODE = 'FL001';
    END IF;
    IF NEW.state <> OLD.state AND NOT (CASE OLD.state
        WHEN 'queued'     THEN NEW.state IN ('running', 'failed', 'cancelled')
        WHEN 'running'    THEN NEW.state IN ('queued', 'done', 'superseded', 'failed', 'cancelling', 'cancelled')
        WHEN 'cancelling' THEN NEW.state = 'cancelled'
        WHEN 'failed'     THEN NEW.state = 'queued'
        ELSE false END) THEN
        RAISE EXCEPTION 'job %: cannot go from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'FL001';
    END IF;
    IF NEW.state = 'done' AND OLD.state <> 'done' AND NOT EXISTS (
        SELECT FROM fenceline.attempts WHERE job_id = NEW.id AND state IN ('published', 'superseded')) THEN
        RAISE EXCEPTION 'job %: is done only when an attempt of it was published', OLD.id USING ERRCODE = 'FL001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE UPDATE ON fenceline.jobs FOR EACH ROW EXECUTE FUNCTION fenceline.guard_job();

-- Files are recorded once, while their attempt runs, and never change; the rows stay as long as the attempt's.
-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_file() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION 'the file % of attempt % never changes', OLD.name, OLD.attempt_id USING ERRCODE = 'FL001';
    END IF;
    IF NOT EXISTS (SELECT FROM fenceline.attempts WHERE id = NEW.attempt_id AND state = 'running') THEN
        RAISE EXCEPTION 'attempt % no longer takes files', NEW.attempt_id USING ERRCODE = 'FL001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE ON fenceline.files FOR EACH ROW EXECUTE FUNCTION fenceline.guard_file();

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of fenceline.% are tombstones and are not deleted', TG_TABLE_NAME USING ERRCODE = 'FL001';
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard_delete BEFORE DELETE ON fenceline.attempts FOR EACH ROW EXECUTE FUNCTION fenceline.guard_delete();
CREATE TRIGGER guard_delete BEFORE DELETE ON fenceline.exports FOR EACH ROW EXECUTE FUNCTION fenceline.guard_delete();
