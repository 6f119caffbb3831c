-- What changed is left in a table for those who watch, no longer told by NOTIFY: transactions that notify commit one after
-- the other, in the whole database, each with the disk's flush of its own. Publications waited for each other there.

-- +goose Up

-- Which export something changed about, and the transaction that changed it: who reads knows from two snapshots what was
-- committed between them, in whatever order the transactions began. It is a hint, so it is not logged: after a crash it is
-- empty, and who watches looks at everything.
CREATE UNLOGGED TABLE fenceline.news (
    by        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    export_id uuid NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_analyze_threshold = 20000);
CREATE INDEX news_by ON fenceline.news (by);

-- tell leaves the news. Relays are still told of a job that is due at once: few updates are.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'jobs' THEN
        IF NEW.state = 'queued' AND NEW.ring_at <= clock_timestamp() THEN
            PERFORM pg_notify('fenceline_jobs', '');
        END IF;
    END IF;
    INSERT INTO fenceline.news (export_id) VALUES (NEW.export_id);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- news_since: the exports of which something was committed that the snapshot did not see, at most so many, in the order
-- in which their transactions began, and the snapshot of now.
-- +goose StatementBegin
CREATE FUNCTION fenceline.news_since(p_seen pg_snapshot, p_most int, OUT seen pg_snapshot, OUT exports uuid[]) LANGUAGE sql AS $$
    SELECT pg_current_snapshot(), ARRAY(SELECT n.export_id FROM fenceline.news n
        WHERE n.by >= pg_snapshot_xmin(p_seen) AND NOT pg_visible_in_snapshot(n.by, p_seen)
        GROUP BY n.export_id ORDER BY min(n.by) LIMIT p_most)
$$;
-- +goose StatementEnd

-- forget_news: removes what transactions wrote that began before p_before did, and what bears numbers of another server,
-- as after a restored dump. Answers the number that the next transaction gets, for the next time.
-- +goose StatementBegin
CREATE FUNCTION fenceline.forget_news(p_before xid8) RETURNS xid8 LANGUAGE sql AS $$
    DELETE FROM fenceline.news WHERE by < p_before OR by >= pg_snapshot_xmax(pg_current_snapshot());
    SELECT pg_snapshot_xmax(pg_current_snapshot())
$$;
-- +goose StatementEnd

-- Deliverers look by themselves once a second. They are told of a notice only when nothing older waits: with something
-- waiting they are at work, or there are none.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.tell_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT min(id) FROM fenceline.outbox WHERE pending) >= (SELECT min(id) FROM fresh) THEN
        PERFORM pg_notify('fenceline_outbox', '');
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TRIGGER tell ON fenceline.outbox;
CREATE TRIGGER tell AFTER INSERT ON fenceline.outbox REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION fenceline.tell_outbox();
