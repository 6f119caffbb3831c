-- An export can be deleted: softly first. From then on nothing publishes to it; the sweep removes its files after the
-- time that replaced publications are kept, and the rows stay as tombstones.

-- +goose Up

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.guard_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.guard_pointer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM fenceline.exports WHERE id = NEW.export_id AND attempt_id = NEW.id
        AND NOT (NEW.state = 'deleted' AND deleted_at IS NOT NULL)) THEN
        RAISE EXCEPTION 'attempt % is the current one of its export and cannot be %', NEW.id, NEW.state USING ERRCODE = 'FL001';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Deleting is for good: what was deleted may have lost its files already.
-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_undelete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'export %: was deleted and does not come back', OLD.id USING ERRCODE = 'FL001';
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard_undelete BEFORE UPDATE OF deleted_at ON fenceline.exports FOR EACH ROW
    WHEN (OLD.deleted_at IS NOT NULL AND NEW.deleted_at IS DISTINCT FROM OLD.deleted_at) EXECUTE FUNCTION fenceline.guard_undelete();

CREATE INDEX exports_deleted ON fenceline.exports (deleted_at, id) WHERE deleted_at IS NOT NULL;
