-- The clean-up at scale: whose garbage it is, how much lies in the store, who
-- has switched it off, and what it has deleted.

-- +goose Up

-- Whose attempt it is, so that the clean-up of one tenant does not read everybody's.
-- These triggers are quiet while old rows get it: nobody waits for that news.
ALTER TABLE fenceline.attempts ADD COLUMN tenant text;
ALTER TABLE fenceline.attempts DISABLE TRIGGER USER;
UPDATE fenceline.attempts a SET tenant = e.tenant FROM fenceline.exports e WHERE e.id = a.export_id;
ALTER TABLE fenceline.attempts ENABLE TRIGGER USER;

-- +goose StatementBegin
CREATE FUNCTION fenceline.set_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.tenant := (SELECT tenant FROM fenceline.exports WHERE id = NEW.export_id);
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER set_tenant BEFORE INSERT ON fenceline.attempts FOR EACH ROW EXECUTE FUNCTION fenceline.set_tenant();

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'attempt %: its tenant never changes', OLD.id USING ERRCODE = 'FL001';
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard_tenant BEFORE UPDATE OF tenant ON fenceline.attempts FOR EACH ROW
    WHEN (NEW.tenant IS DISTINCT FROM OLD.tenant) EXECUTE FUNCTION fenceline.guard_tenant();

CREATE INDEX attempts_to_delete_of_tenant ON fenceline.attempts (tenant, finished_at, id) WHERE state IN ('fenced', 'failed', 'cancelled', 'condemned');
CREATE INDEX attempts_superseded_of_tenant ON fenceline.attempts (tenant, replaced_at, id) WHERE state = 'superseded';
CREATE INDEX attempts_to_probe_of_tenant ON fenceline.attempts (tenant, probe_at, id) WHERE probe_at IS NOT NULL;

-- A deleted export stays as a tombstone; when its files are gone nobody needs to look at it any more.
ALTER TABLE fenceline.exports ADD COLUMN files_gone_at timestamptz;
UPDATE fenceline.exports e SET files_gone_at = a.deleted_at FROM fenceline.attempts a
    WHERE e.deleted_at IS NOT NULL AND a.id = e.attempt_id AND a.state = 'deleted';
CREATE INDEX exports_to_empty ON fenceline.exports (deleted_at, id)
    WHERE deleted_at IS NOT NULL AND attempt_id IS NOT NULL AND files_gone_at IS NULL;
CREATE INDEX exports_to_empty_of_tenant ON fenceline.exports (tenant, deleted_at, id)
    WHERE deleted_at IS NOT NULL AND attempt_id IS NOT NULL AND files_gone_at IS NULL;

-- What lies in the store: the sum over all rows is that of all attempts that have ended writing and whose files
-- were not deleted. Each change adds a row, so that nobody waits for anybody; now and then they are folded into one.
CREATE TABLE fenceline.stored (
    attempts bigint NOT NULL,
    bytes    bigint NOT NULL
);

-- +goose StatementBegin
CREATE FUNCTION fenceline.count_stored() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'deleted' THEN
        INSERT INTO fenceline.stored (attempts, bytes) VALUES (-1, -OLD.bytes);
    ELSE
        INSERT INTO fenceline.stored (attempts, bytes) VALUES (1, NEW.bytes);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER count_stored AFTER UPDATE OF state ON fenceline.attempts FOR EACH ROW
    WHEN (OLD.state <> NEW.state AND (OLD.state = 'running' OR NEW.state = 'deleted')) EXECUTE FUNCTION fenceline.count_stored();

-- fold_stored puts the rows together. The lock comes first: the statement after it sees what the one before has left.
-- +goose StatementBegin
CREATE FUNCTION fenceline.fold_stored() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.require_read_committed();
    PERFORM pg_advisory_xact_lock(x'46454e4300000003'::bigint);
    WITH gone AS (DELETE FROM fenceline.stored RETURNING attempts, bytes)
    INSERT INTO fenceline.stored SELECT coalesce(sum(attempts), 0), coalesce(sum(bytes), 0) FROM gone;
END $$;
-- +goose StatementEnd

-- recount_stored counts everything afresh, beside whoever writes: one statement sees attempts and rows at one moment.
-- +goose StatementBegin
CREATE FUNCTION fenceline.recount_stored() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.require_read_committed();
    PERFORM pg_advisory_xact_lock(x'46454e4300000003'::bigint);
    WITH gone AS (DELETE FROM fenceline.stored)
    INSERT INTO fenceline.stored SELECT count(*), coalesce(sum(bytes), 0) FROM fenceline.attempts WHERE state NOT IN ('running', 'deleted');
END $$;
-- +goose StatementEnd
INSERT INTO fenceline.stored SELECT count(*), coalesce(sum(bytes), 0) FROM fenceline.attempts WHERE state NOT IN ('running', 'deleted');

-- The switch: while it is off no clean-up deletes anything.
ALTER TABLE fenceline.installation
    ADD COLUMN sweep_off_at   timestamptz,
    ADD COLUMN sweep_off_by   text,
    ADD COLUMN sweep_off_note text;

ALTER TABLE fenceline.sweeps
    ADD COLUMN planned bigint NOT NULL DEFAULT 0,
    ADD COLUMN probed  bigint NOT NULL DEFAULT 0,
    ADD COLUMN skipped bigint NOT NULL DEFAULT 0, -- somebody else had decided, or held the row
    -- why it ended: NULL while it runs, and for runs from before this column was there
    ADD COLUMN stopped text CHECK (stopped IN ('done', 'limit', 'time', 'interrupted', 'off', 'share', 'unsafe', 'failures', 'killed', 'error'));
CREATE INDEX sweeps_open ON fenceline.sweeps (id) WHERE finished_at IS NULL;
CREATE INDEX sweeps_good ON fenceline.sweeps (id) WHERE finished_at IS NOT NULL AND error IS NULL AND tenant IS NULL;

-- What was deleted, by which run and why: written by the statement that turns the attempt into a tombstone.
CREATE TABLE fenceline.sweep_deletions (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id     bigint NOT NULL, -- of fenceline.sweeps
    attempt_id uuid NOT NULL REFERENCES fenceline.attempts ON DELETE RESTRICT,
    export_id  uuid NOT NULL,
    tenant     text NOT NULL,
    token      bigint NOT NULL,
    state      text NOT NULL,   -- before
    files      int NOT NULL,    -- that the attempt had recorded
    recorded   bigint NOT NULL, -- their bytes, as recorded
    bytes      bigint NOT NULL, -- that were found and removed
    why        text NOT NULL CHECK (why <> ''),
    at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX sweep_deletions_of_run ON fenceline.sweep_deletions (run_id, id);
CREATE INDEX sweep_deletions_of_attempt ON fenceline.sweep_deletions (attempt_id, id);

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_deletions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'deletion %: what was deleted stays on record', OLD.id USING ERRCODE = 'FL001';
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON fenceline.sweep_deletions FOR EACH ROW EXECUTE FUNCTION fenceline.guard_deletions();

-- bury_attempts (step 7): the files of these attempts are gone. They become tombstones, which are looked at again after
-- ten minutes, an hour and a day: until then a worker that was frozen in the middle of a write may wake up and finish
-- it. What was deleted goes on record in the same statement. Answers those that it took; a row that somebody holds, or
-- that is none of a clean-up's, is left out.
-- +goose StatementBegin
CREATE FUNCTION fenceline.bury_attempts(p_run bigint, p_ids uuid[], p_bytes bigint[], p_why text[]) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.require_read_committed();
    RETURN QUERY
    WITH item AS (
        SELECT i.id, i.bytes, i.why FROM unnest(p_ids, p_bytes, p_why) AS i(id, bytes, why)
    ), mine AS (
        SELECT a.id, a.state AS was FROM fenceline.attempts a WHERE a.id = ANY (p_ids)
           AND a.state IN ('fenced', 'failed', 'cancelled', 'condemned', 'superseded', 'published', 'deleted')
        ORDER BY a.id FOR UPDATE SKIP LOCKED
    ), buried AS (
        UPDATE fenceline.attempts a SET state = 'deleted', deleted_at = coalesce(a.deleted_at, clock_timestamp()),
            probes = CASE WHEN a.state = 'deleted' THEN a.probes + 1 ELSE a.probes END,
            probe_at = coalesce(a.deleted_at, clock_timestamp()) + (ARRAY['10 minutes', '1 hour', '1 day']::interval[])[
                CASE WHEN a.state = 'deleted' THEN a.probes + 2 ELSE 1 END]
        FROM mine WHERE a.id = mine.id RETURNING a.id, a.export_id, a.tenant, a.token, mine.was, a.bytes AS recorded
    ), log AS (
        INSERT INTO fenceline.sweep_deletions (run_id, attempt_id, export_id, tenant, token, state, files, recorded, bytes, why)
        SELECT p_run, b.id, b.export_id, coalesce(b.tenant, ''), b.token, b.was,
            (SELECT count(*) FROM fenceline.files f WHERE f.attempt_id = b.id), b.recorded, i.bytes, i.why
        FROM buried b JOIN item i ON i.id = b.id WHERE b.was <> 'deleted' OR i.bytes > 0
    ), emptied AS (
        UPDATE fenceline.exports e SET files_gone_at = clock_timestamp() FROM buried b
        WHERE b.was = 'published' AND e.id = b.export_id AND e.deleted_at IS NOT NULL
    )
    SELECT b.id FROM buried b;
END $$;
-- +goose StatementEnd
