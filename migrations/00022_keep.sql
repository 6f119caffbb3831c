-- How many exports a clean-up let expire, lists of what is pinned and on hold, and expiry beside those who pin and hold.

-- +goose Up

ALTER TABLE fenceline.sweeps ADD COLUMN expired bigint NOT NULL DEFAULT 0;

CREATE INDEX exports_by_pin ON fenceline.exports (pinned_at, id) WHERE pinned_at IS NOT NULL;
CREATE INDEX attempts_by_pin ON fenceline.attempts (pinned_at, id) WHERE pinned_at IS NOT NULL;
CREATE INDEX attempts_pinned_of_export ON fenceline.attempts (export_id) WHERE pinned_at IS NOT NULL;
CREATE INDEX holds_by_time ON fenceline.holds (placed_at, id) WHERE released_at IS NULL;

-- expire_exports: as before, but a row that somebody holds is left out, for the next clean-up. Who pins, holds or restores an
-- export has locked its row before the trigger asks for lock_keeping, so waiting for rows here could be waiting in a circle.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.expire_exports(p_ids uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
    mine uuid[];
BEGIN
    PERFORM fenceline.require_read_committed();
    PERFORM fenceline.require_epoch();
    PERFORM fenceline.lock_keeping(true);
    SELECT array_agg(l.id) INTO mine FROM (
        SELECT e.id FROM fenceline.exports e WHERE e.id = ANY (p_ids) AND e.deleted_at IS NULL ORDER BY e.id FOR UPDATE SKIP LOCKED) l;
    RETURN QUERY                                                              -- a new statement: it sees what came before the locks
    UPDATE fenceline.exports e SET deleted_at = clock_timestamp(), expired = true
    WHERE e.id = ANY (mine) AND e.deleted_at IS NULL AND e.attempt_id IS NOT NULL
      AND (SELECT k.until FROM fenceline.kept(e.attempt_id, 0) k WHERE k.what = 'current') <= clock_timestamp()
      AND NOT EXISTS (SELECT FROM fenceline.jobs j WHERE j.export_id = e.id AND j.state IN ('queued', 'running', 'cancelling'))
    RETURNING e.id;
END $$;
-- +goose StatementEnd

-- apply_retention: as before, but rows are locked in the order of their ids: several may apply changes to the same rows at once.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.apply_retention(p_limit int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    c fenceline.retention_changes;
    page uuid[];
BEGIN
    PERFORM fenceline.require_read_committed();
    SELECT * INTO c FROM fenceline.retention_changes ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN false; END IF;
    IF NOT c.exports THEN
        SELECT array_agg(p.id ORDER BY p.id) INTO page FROM (SELECT a.id FROM fenceline.attempts a WHERE a.stay_until IS NOT NULL AND a.state <> 'deleted'
            AND a.id > c.cursor AND (c.export_id IS NULL OR a.export_id = c.export_id) ORDER BY a.id LIMIT p_limit) p;
        PERFORM FROM fenceline.attempts a WHERE a.id = ANY (page) AND a.doomed_at IS NULL ORDER BY a.id FOR NO KEY UPDATE;
        UPDATE fenceline.attempts a SET stay_until = NULL FROM fenceline.exports e
        WHERE a.id = ANY (page) AND a.doomed_at IS NULL AND e.id = a.export_id AND (c.tenant IS NULL OR e.tenant = c.tenant) AND (c.kind IS NULL OR e.kind = c.kind);
    ELSE
        SELECT array_agg(p.id ORDER BY p.id) INTO page FROM (SELECT e.id FROM fenceline.exports e WHERE e.deleted_at IS NULL AND e.attempt_id IS NOT NULL
            AND e.id > c.cursor AND (c.export_id IS NULL OR e.id = c.export_id) AND (c.tenant IS NULL OR e.tenant = c.tenant) ORDER BY e.id LIMIT p_limit) p;
        PERFORM FROM fenceline.exports e WHERE e.id = ANY (page) AND (c.kind IS NULL OR e.kind = c.kind) ORDER BY e.id FOR NO KEY UPDATE;
        UPDATE fenceline.exports e SET look_at = l.at
        FROM (SELECT i.id, coalesce(i.published_at + make_interval(hours => 24 * (SELECT r.current_days FROM fenceline.retention_for(i.tenant, i.kind) r)), 'infinity') AS at
            FROM fenceline.exports i WHERE i.id = ANY (page) AND (c.kind IS NULL OR i.kind = c.kind)) l
        WHERE e.id = l.id AND e.look_at <> l.at;
    END IF;
    IF coalesce(cardinality(page), 0) >= p_limit THEN
        UPDATE fenceline.retention_changes SET cursor = page[cardinality(page)] WHERE id = c.id;
    ELSIF NOT c.exports THEN
        UPDATE fenceline.retention_changes SET exports = true, cursor = '00000000-0000-0000-0000-000000000000' WHERE id = c.id;
    ELSIF c.export_id IS NOT NULL OR pg_snapshot_xmin(pg_current_snapshot()) > c.xid THEN
        DELETE FROM fenceline.retention_changes WHERE id = c.id;
    ELSE                                                                      -- at the end of the line, for the next clean-up
        DELETE FROM fenceline.retention_changes WHERE id = c.id;
        INSERT INTO fenceline.retention_changes (tenant, kind, xid) VALUES (c.tenant, c.kind, c.xid);
        RETURN EXISTS (SELECT FROM fenceline.retention_changes WHERE xid > c.xid);
    END IF;
    RETURN true;
END $$;
-- +goose StatementEnd
