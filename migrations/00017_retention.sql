-- Retention: rules per tenant and kind, pins, legal holds, and deleting softly.
--
-- How the clean-up finds what a rule lets go without reading what it keeps: publishing knows nothing of rules. A replaced
-- publication is looked at once, when its readers have had their time; what is kept longer gets stay_until, the time to
-- look again ('infinity': when something changes), and leaves the index of what is new. Such stamps only say when to
-- look. What decides is kept(), asked again by doom_attempts() in the transaction that gives the files up. A change of a
-- rule, a pin or a hold is put into retention_changes, and stamps are set anew from there in batches by a cursor.

-- +goose Up

-- NULL in tenant or kind: any. NULL in days: for ever. The most specific rule counts: tenant and kind, kind, tenant, any.
CREATE TABLE fenceline.retention (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant          text CHECK (tenant <> ''),
    kind            text CHECK (kind <> ''),
    current_days    int CHECK (current_days BETWEEN 0 AND 36500),
    superseded_days int CHECK (superseded_days BETWEEN 0 AND 36500),
    -- so many of the newest replaced publications stay, however old
    superseded_keep int NOT NULL DEFAULT 0 CHECK (superseded_keep BETWEEN 0 AND 1000),
    set_by          text NOT NULL CHECK (set_by <> ''),
    set_at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX retention_scope ON fenceline.retention (coalesce(tenant, ''), coalesce(kind, ''));

-- A hold: nothing of what it covers is deleted. It has no reference to exports, whose rows stay anyway: a hold never waits for a publish.
CREATE TABLE fenceline.holds (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant      text NOT NULL CHECK (tenant <> ''),
    kind        text CHECK (kind <> ''), -- NULL: all kinds
    export_id   uuid,                    -- NULL: all exports of the tenant and kind
    note        text NOT NULL CHECK (note <> '' AND length(note) <= 1000),
    placed_by   text NOT NULL CHECK (placed_by <> ''),
    placed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    released_at timestamptz,
    released_by text,
    CONSTRAINT holds_released CHECK ((released_at IS NULL) = (released_by IS NULL))
);
CREATE UNIQUE INDEX holds_active ON fenceline.holds (tenant, coalesce(kind, ''), coalesce(export_id::text, '')) WHERE released_at IS NULL;
CREATE INDEX holds_of_export ON fenceline.holds (export_id) WHERE released_at IS NULL AND export_id IS NOT NULL;
CREATE INDEX holds_of_all ON fenceline.holds (tenant) WHERE released_at IS NULL AND export_id IS NULL;

ALTER TABLE fenceline.exports
    ADD COLUMN pinned_at timestamptz,
    ADD COLUMN pinned_by text,
    ADD COLUMN pin_note  text,
    ADD COLUMN expired   boolean NOT NULL DEFAULT false, -- deleted by a rule: its key is free for another export
    ADD COLUMN look_at   timestamptz NOT NULL DEFAULT 'infinity', -- when its current publication may have expired
    ADD CONSTRAINT exports_pinned CHECK ((pinned_at IS NULL) = (pinned_by IS NULL)),
    ADD CONSTRAINT exports_expired CHECK (NOT expired OR deleted_at IS NOT NULL);
CREATE INDEX exports_to_look ON fenceline.exports (look_at, id) WHERE deleted_at IS NULL AND look_at < 'infinity';
CREATE INDEX exports_to_look_of_tenant ON fenceline.exports (tenant, look_at, id) WHERE deleted_at IS NULL AND look_at < 'infinity';

-- What a rule let go makes room for another export of the same key; what a person deleted does not, as before.
CREATE UNIQUE INDEX exports_key ON fenceline.exports (tenant, kind, key) WHERE NOT expired;
ALTER TABLE fenceline.exports DROP CONSTRAINT exports_tenant_kind_key_key;

ALTER TABLE fenceline.attempts
    ADD COLUMN pinned_at  timestamptz,
    ADD COLUMN pinned_by  text,
    ADD COLUMN pin_note   text,
    ADD COLUMN stay_until timestamptz, -- when to look at it again; NULL: as its state says
    ADD COLUMN doomed_at  timestamptz, -- the clean-up has decided, and its files go: nothing keeps it any more
    ADD CONSTRAINT attempts_pinned CHECK ((pinned_at IS NULL) = (pinned_by IS NULL));
CREATE INDEX attempts_new_lost ON fenceline.attempts (finished_at, id) WHERE state IN ('fenced', 'failed', 'cancelled', 'condemned') AND stay_until IS NULL;
CREATE INDEX attempts_new_lost_of_tenant ON fenceline.attempts (tenant, finished_at, id) WHERE state IN ('fenced', 'failed', 'cancelled', 'condemned') AND stay_until IS NULL;
CREATE INDEX attempts_new_replaced ON fenceline.attempts (replaced_at, id) WHERE state = 'superseded' AND stay_until IS NULL;
CREATE INDEX attempts_new_replaced_of_tenant ON fenceline.attempts (tenant, replaced_at, id) WHERE state = 'superseded' AND stay_until IS NULL;
DROP INDEX fenceline.attempts_to_delete;
DROP INDEX fenceline.attempts_to_delete_of_tenant;
DROP INDEX fenceline.attempts_superseded;
DROP INDEX fenceline.attempts_superseded_of_tenant;
CREATE INDEX attempts_outlived ON fenceline.attempts (stay_until, id) WHERE state = 'superseded' AND stay_until < 'infinity';
CREATE INDEX attempts_outlived_of_tenant ON fenceline.attempts (tenant, stay_until, id) WHERE state = 'superseded' AND stay_until < 'infinity';
CREATE INDEX attempts_replaced_of_export ON fenceline.attempts (export_id, token) WHERE state = 'superseded';
CREATE INDEX attempts_stamped ON fenceline.attempts (id) WHERE stay_until IS NOT NULL AND state <> 'deleted';

-- What has to be looked at anew. NULL: any.
CREATE TABLE fenceline.retention_changes (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant    text,
    kind      text,
    export_id uuid,
    exports   boolean NOT NULL DEFAULT false, -- attempts are done, exports are at hand
    cursor    uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    xid       xid8 NOT NULL DEFAULT pg_current_xact_id()
);

-- The rule that counts for a tenant's kind; no row when there is none.
-- +goose StatementBegin
CREATE FUNCTION fenceline.retention_for(p_tenant text, p_kind text) RETURNS SETOF fenceline.retention LANGUAGE sql STABLE AS $$
    SELECT * FROM fenceline.retention r
    WHERE (coalesce(r.tenant, ''), coalesce(r.kind, '')) IN ((p_tenant, p_kind), ('', p_kind), (p_tenant, ''), ('', ''))
    ORDER BY r.kind IS NULL, r.tenant IS NULL LIMIT 1
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION fenceline.on_hold(p_tenant text, p_kind text, p_export uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM fenceline.holds WHERE released_at IS NULL AND export_id = p_export)
        OR EXISTS (SELECT FROM fenceline.holds WHERE released_at IS NULL AND export_id IS NULL AND tenant = p_tenant AND (kind IS NULL OR kind = p_kind))
$$;
-- +goose StatementEnd

-- Who decides that files go takes this shared; who keeps them (rules, pins, holds, a restore) takes it alone. Both are
-- short. So what was kept before a decision is seen by it, and what comes later finds doomed_at.
-- +goose StatementBegin
CREATE FUNCTION fenceline.lock_keeping(p_decides boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_decides THEN
        PERFORM pg_advisory_xact_lock_shared(x'46454e4300000017'::bigint);
    ELSE
        PERFORM pg_advisory_xact_lock(x'46454e4300000017'::bigint);
    END IF;
END $$;
-- +goose StatementEnd

-- kept: until when the files of an attempt stay, and what for: hold, pin, deleted (its export was, and may be restored),
-- current, rule (its age), newest (its rank) or grace (no rule; its readers). NULL until: nothing keeps them. Of attempts that lost
-- only a hold keeps the files; their quarantine is the caller's. p_grace is for how many seconds readers have time.
-- +goose StatementBegin
CREATE FUNCTION fenceline.kept(aid uuid, p_grace double precision, OUT until timestamptz, OUT what text, OUT rule bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE
    a fenceline.attempts;
    e fenceline.exports;
    r fenceline.retention;
    readers timestamptz;
BEGIN
    SELECT * INTO a FROM fenceline.attempts WHERE id = aid;
    IF NOT FOUND OR a.state = 'deleted' OR a.doomed_at IS NOT NULL THEN RETURN; END IF;
    SELECT * INTO e FROM fenceline.exports WHERE id = a.export_id;
    IF fenceline.on_hold(e.tenant, e.kind, e.id) THEN until := 'infinity'; what := 'hold'; RETURN; END IF;
    IF a.state NOT IN ('published', 'superseded') THEN RETURN; END IF;
    IF a.pinned_at IS NOT NULL OR e.pinned_at IS NOT NULL THEN until := 'infinity'; what := 'pin'; RETURN; END IF;
    IF e.deleted_at IS NOT NULL THEN
        until := e.deleted_at + make_interval(secs => p_grace); what := 'deleted';
        IF until <= clock_timestamp() THEN until := NULL; END IF;
        RETURN;
    END IF;
    SELECT * INTO r FROM fenceline.retention_for(e.tenant, e.kind);
    rule := r.id;
    IF a.state = 'published' THEN                                             -- goes with its export only, never by itself
        what := 'current'; until := coalesce(e.published_at + make_interval(hours => 24 * r.current_days), 'infinity');
        RETURN;
    END IF;
    readers := a.replaced_at + make_interval(secs => p_grace);
    IF r.id IS NULL THEN
        until := readers; what := 'grace';
    ELSE
        what := 'rule';
        until := CASE WHEN r.superseded_days IS NULL THEN 'infinity' ELSE greatest(readers, a.replaced_at + make_interval(hours => 24 * r.superseded_days)) END;
        IF (SELECT count(*) FROM (SELECT FROM fenceline.attempts n WHERE n.export_id = a.export_id AND n.state = 'superseded' AND n.token > a.token
            LIMIT r.superseded_keep) newer) < r.superseded_keep THEN
            until := 'infinity'; what := 'newest';
        END IF;
    END IF;
    IF until <= clock_timestamp() THEN until := NULL; END IF;
END $$;
-- +goose StatementEnd

-- doom_attempts: the decision that the files of these attempts go, if nothing keeps them. Answers those for which it is
-- made; their files may be removed from then on. A row that somebody holds is left out.
-- +goose StatementBegin
CREATE FUNCTION fenceline.doom_attempts(p_ids uuid[], p_grace double precision) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.require_read_committed();
    PERFORM fenceline.require_epoch();
    PERFORM fenceline.lock_keeping(true);
    RETURN QUERY
    WITH mine AS (
        SELECT a.id, a.doomed_at FROM fenceline.attempts a WHERE a.id = ANY (p_ids)
           AND a.state IN ('fenced', 'failed', 'cancelled', 'condemned', 'superseded', 'published')
           AND (SELECT k.until FROM fenceline.kept(a.id, p_grace) k) IS NULL
        ORDER BY a.id FOR UPDATE SKIP LOCKED
    ), doomed AS (
        UPDATE fenceline.attempts a SET doomed_at = clock_timestamp() FROM mine WHERE a.id = mine.id AND mine.doomed_at IS NULL
    )
    SELECT mine.id FROM mine;
END $$;
-- +goose StatementEnd

-- expire_exports: deletes those of these exports, softly, whose current publication is older than its rule allows, that
-- nothing keeps and that no job works on. Answers them.
-- +goose StatementBegin
CREATE FUNCTION fenceline.expire_exports(p_ids uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.require_read_committed();
    PERFORM fenceline.require_epoch();
    PERFORM fenceline.lock_keeping(true);
    PERFORM FROM fenceline.exports e WHERE e.id = ANY (p_ids) AND e.deleted_at IS NULL ORDER BY e.id FOR UPDATE;
    RETURN QUERY                                                              -- a new statement: it sees what came before the locks
    UPDATE fenceline.exports e SET deleted_at = clock_timestamp(), expired = true
    WHERE e.id = ANY (p_ids) AND e.deleted_at IS NULL AND e.attempt_id IS NOT NULL
      AND (SELECT k.until FROM fenceline.kept(e.attempt_id, 0) k WHERE k.what = 'current') <= clock_timestamp()
      AND NOT EXISTS (SELECT FROM fenceline.jobs j WHERE j.export_id = e.id AND j.state IN ('queued', 'running', 'cancelling'))
    RETURNING e.id;
END $$;
-- +goose StatementEnd

-- look_again: when to look next at what is kept after all. The first look at a replaced publication also finds those of
-- its export that are no longer among the newest.
-- +goose StatementBegin
CREATE FUNCTION fenceline.look_again(p_attempts uuid[], p_exports uuid[], p_grace double precision) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    of uuid[];
BEGIN
    PERFORM fenceline.require_read_committed();
    SELECT array_agg(DISTINCT a.export_id) INTO of FROM fenceline.attempts a
        WHERE a.id = ANY (p_attempts) AND a.state = 'superseded' AND a.stay_until IS NULL;
    UPDATE fenceline.attempts a SET stay_until = k.until
    FROM (SELECT i.id FROM fenceline.attempts i WHERE i.id = ANY (p_attempts) ORDER BY i.id FOR UPDATE SKIP LOCKED) mine,
        LATERAL fenceline.kept(mine.id, p_grace) k
    WHERE a.id = mine.id AND k.until IS NOT NULL;
    UPDATE fenceline.attempts a SET stay_until = coalesce(k.until, clock_timestamp())
    FROM (SELECT i.id FROM fenceline.attempts i WHERE i.export_id = ANY (of) AND i.state = 'superseded' AND i.stay_until = 'infinity'
            AND i.doomed_at IS NULL ORDER BY i.id FOR UPDATE SKIP LOCKED) mine,
        LATERAL fenceline.kept(mine.id, p_grace) k
    WHERE a.id = mine.id AND k.until IS DISTINCT FROM 'infinity';
    UPDATE fenceline.exports e SET look_at = CASE WHEN k.until > clock_timestamp() THEN k.until ELSE clock_timestamp() + interval '1 hour' END
    FROM (SELECT i.id, i.attempt_id FROM fenceline.exports i WHERE i.id = ANY (p_exports) AND i.deleted_at IS NULL ORDER BY i.id FOR NO KEY UPDATE SKIP LOCKED) mine,
        LATERAL fenceline.kept(mine.attempt_id, p_grace) k
    WHERE e.id = mine.id;
END $$;
-- +goose StatementEnd

-- apply_retention sets the stamps of at most so many rows anew that a change may concern. Answers false when no change waits.
-- A change is gone through again later when a transaction from before it may still add what it concerns.
-- +goose StatementBegin
CREATE FUNCTION fenceline.apply_retention(p_limit int) RETURNS boolean LANGUAGE plpgsql AS $$
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
        UPDATE fenceline.attempts a SET stay_until = NULL FROM fenceline.exports e
        WHERE a.id = ANY (page) AND a.doomed_at IS NULL AND e.id = a.export_id AND (c.tenant IS NULL OR e.tenant = c.tenant) AND (c.kind IS NULL OR e.kind = c.kind);
    ELSE
        SELECT array_agg(p.id ORDER BY p.id) INTO page FROM (SELECT e.id FROM fenceline.exports e WHERE e.deleted_at IS NULL AND e.attempt_id IS NOT NULL
            AND e.id > c.cursor AND (c.export_id IS NULL OR e.id = c.export_id) AND (c.tenant IS NULL OR e.tenant = c.tenant) ORDER BY e.id LIMIT p_limit) p;
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

-- Whatever changes what is kept is noted, by whatever code it comes.
-- +goose StatementBegin
CREATE FUNCTION fenceline.note_retention() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'attempts' THEN
        INSERT INTO fenceline.retention_changes (export_id) VALUES (NEW.export_id);
    ELSIF TG_TABLE_NAME = 'exports' THEN
        INSERT INTO fenceline.retention_changes (export_id) VALUES (NEW.id);
    ELSIF TG_TABLE_NAME = 'holds' THEN
        INSERT INTO fenceline.retention_changes (tenant, kind, export_id) VALUES (NEW.tenant, NEW.kind, NEW.export_id);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO fenceline.retention_changes (tenant, kind) VALUES (OLD.tenant, OLD.kind);
    ELSE
        INSERT INTO fenceline.retention_changes (tenant, kind) VALUES (NEW.tenant, NEW.kind);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER note_retention AFTER INSERT OR UPDATE OR DELETE ON fenceline.retention FOR EACH ROW EXECUTE FUNCTION fenceline.note_retention();
CREATE TRIGGER note_retention AFTER UPDATE OF released_at ON fenceline.holds FOR EACH ROW EXECUTE FUNCTION fenceline.note_retention();
CREATE TRIGGER note_pin AFTER UPDATE OF pinned_at ON fenceline.attempts FOR EACH ROW
    WHEN (OLD.pinned_at IS DISTINCT FROM NEW.pinned_at) EXECUTE FUNCTION fenceline.note_retention();
CREATE TRIGGER note_pin AFTER UPDATE OF pinned_at, deleted_at ON fenceline.exports FOR EACH ROW
    WHEN (OLD.pinned_at IS DISTINCT FROM NEW.pinned_at OR OLD.deleted_at IS DISTINCT FROM NEW.deleted_at) EXECUTE FUNCTION fenceline.note_retention();

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_keeping() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.lock_keeping(false);
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard_keeping BEFORE INSERT OR UPDATE OR DELETE ON fenceline.retention FOR EACH ROW EXECUTE FUNCTION fenceline.guard_keeping();
CREATE TRIGGER guard_keeping BEFORE UPDATE OF pinned_at ON fenceline.attempts FOR EACH ROW
    WHEN (OLD.pinned_at IS DISTINCT FROM NEW.pinned_at) EXECUTE FUNCTION fenceline.guard_keeping();
CREATE TRIGGER guard_keeping BEFORE UPDATE OF pinned_at ON fenceline.exports FOR EACH ROW
    WHEN (OLD.pinned_at IS DISTINCT FROM NEW.pinned_at) EXECUTE FUNCTION fenceline.guard_keeping();

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'hold %: is released, and stays on record', OLD.id USING ERRCODE = 'FL001';
    END IF;
    PERFORM fenceline.lock_keeping(false);
    IF TG_OP = 'UPDATE' THEN
        IF (NEW.id, NEW.tenant, NEW.kind, NEW.export_id, NEW.note, NEW.placed_by, NEW.placed_at)
            IS DISTINCT FROM (OLD.id, OLD.tenant, OLD.kind, OLD.export_id, OLD.note, OLD.placed_by, OLD.placed_at)
            OR OLD.released_at IS NOT NULL THEN
            RAISE EXCEPTION 'hold %: can only be released, once', OLD.id USING ERRCODE = 'FL001';
        END IF;
    ELSIF NEW.released_at IS NOT NULL OR NEW.export_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM fenceline.exports WHERE id = NEW.export_id AND tenant = NEW.tenant AND kind = NEW.kind) THEN
        RAISE EXCEPTION 'hold %: begins unreleased, on an export of its tenant and kind', NEW.id USING ERRCODE = 'FL001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE ON fenceline.holds FOR EACH ROW EXECUTE FUNCTION fenceline.guard_hold();

-- What is on hold loses no files, whoever sends it. What the clean-up had decided before the hold is lost already.
-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_held() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    e fenceline.exports;
BEGIN
    PERFORM fenceline.lock_keeping(true);
    IF TG_TABLE_NAME = 'exports' THEN
        e := NEW;
    ELSE
        IF OLD.doomed_at IS NOT NULL THEN RETURN NEW; END IF;
        SELECT * INTO e FROM fenceline.exports WHERE id = NEW.export_id;
    END IF;
    IF fenceline.on_hold(e.tenant, e.kind, e.id) THEN
        RAISE EXCEPTION 'export %: is on hold, and nothing of it is deleted', e.id USING ERRCODE = 'FL005', HINT = 'fenceline export release';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard_held BEFORE UPDATE OF deleted_at ON fenceline.exports FOR EACH ROW
    WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL) EXECUTE FUNCTION fenceline.guard_held();
CREATE TRIGGER guard_held BEFORE UPDATE OF state, doomed_at ON fenceline.attempts FOR EACH ROW
    WHEN (NEW.state = 'deleted' AND OLD.state <> 'deleted' OR NEW.doomed_at IS NOT NULL AND OLD.doomed_at IS NULL) EXECUTE FUNCTION fenceline.guard_held();

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_doom() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'attempt %: that its files go is decided for good', OLD.id USING ERRCODE = 'FL001';
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard_doom BEFORE UPDATE OF doomed_at ON fenceline.attempts FOR EACH ROW
    WHEN (OLD.doomed_at IS NOT NULL AND NEW.doomed_at IS DISTINCT FROM OLD.doomed_at) EXECUTE FUNCTION fenceline.guard_doom();

-- A deleted export comes back only while its files are certainly there: before the clean-up has decided that they go.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.guard_undelete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.lock_keeping(false);
    IF NEW.deleted_at IS NOT NULL OR OLD.files_gone_at IS NOT NULL OR NEW.expired OR EXISTS (
        SELECT FROM fenceline.attempts WHERE id = OLD.attempt_id AND (state <> 'published' OR doomed_at IS NOT NULL)) THEN
        RAISE EXCEPTION 'export %: was deleted and does not come back', OLD.id USING ERRCODE = 'FL001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- The first publication of an export: from then on it is looked at when it may have expired. Later ones only put that off.
-- +goose StatementBegin
CREATE FUNCTION fenceline.first_look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.look_at := coalesce(NEW.published_at + make_interval(hours => 24 * (
        SELECT r.current_days FROM fenceline.retention_for(NEW.tenant, NEW.kind) r)), 'infinity');
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER first_look BEFORE UPDATE OF attempt_id ON fenceline.exports FOR EACH ROW
    WHEN (OLD.attempt_id IS NULL AND NEW.attempt_id IS NOT NULL) EXECUTE FUNCTION fenceline.first_look();

-- insert_jobs: as before, and besides: an export that has expired is not the one of its key any more.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.insert_jobs(p_jobs jsonb)
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
        WHERE r.key IS NOT NULL AND (SELECT e.id FROM fenceline.exports e WHERE e.tenant = r.tenant AND e.kind = r.kind AND e.key = r.key AND NOT e.expired) IS NULL
        ORDER BY r.tenant, r.kind, r.key
        ON CONFLICT DO NOTHING;
    RETURN QUERY SELECT r.ord, e.id, false, true, e.id, NULL::timestamptz, NULL::timestamptz
        FROM jsonb_to_recordset(p_jobs) AS r(ord int, tenant text, kind text, key text), LATERAL (
            SELECT x.id FROM fenceline.exports x WHERE x.tenant = r.tenant AND x.kind = r.kind AND x.key = r.key AND NOT x.expired AND x.deleted_at IS NOT NULL OFFSET 0) e
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
        LEFT JOIN LATERAL (SELECT x.id FROM fenceline.exports x WHERE x.tenant = r.tenant AND x.kind = r.kind AND x.key = r.key AND NOT x.expired OFFSET 0) e ON r.key IS NOT NULL
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

-- insert_unique_job: the same.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fenceline.insert_unique_job(p_job jsonb) RETURNS void LANGUAGE plpgsql AS $$
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
        SELECT e.id INTO export FROM fenceline.exports e WHERE e.tenant = r.tenant AND e.kind = r.kind AND e.key = r.key AND NOT e.expired;
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
