-- Who did what, and links that open one file of one publication for whoever holds them.

-- +goose Up

-- tenant NULL: it concerns all of them. Entries are added and never changed; they go by age only, and not before 30 days.
CREATE TABLE fenceline.audit (
    id          uuid PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor       text NOT NULL CHECK (actor <> '' AND length(actor) <= 200),
    actor_kind  text NOT NULL CHECK (actor_kind IN ('user', 'token', 'link', 'system')),
    tenant      text CHECK (tenant <> ''),
    action      text NOT NULL CHECK (length(action) <= 100 AND action ~ '^[a-z][a-z_]*(\.[a-z_]+)*$'),
    object_kind text NOT NULL DEFAULT '' CHECK (length(object_kind) <= 40),
    object_id   text NOT NULL DEFAULT '' CHECK (length(object_id) <= 400),
    details     jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(details) = 'object'),
    request_id  text NOT NULL DEFAULT '' CHECK (length(request_id) <= 64),
    address     text NOT NULL DEFAULT '' CHECK (length(address) <= 64)
);
-- Each filter has its keyset, so that a page costs the same however much was written down.
CREATE INDEX audit_newest ON fenceline.audit (at DESC, id DESC);
CREATE INDEX audit_of_tenant ON fenceline.audit (tenant, at DESC, id DESC);
CREATE INDEX audit_of_actor ON fenceline.audit (actor, at DESC, id DESC);
CREATE INDEX audit_of_action ON fenceline.audit (action, at DESC, id DESC);
CREATE INDEX audit_of_object ON fenceline.audit (object_id, at DESC, id DESC) WHERE object_id <> '';

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.at > clock_timestamp() - interval '30 days' OR coalesce(current_setting('fenceline.forgets_audit', true), '') <> 'yes' THEN
            RAISE EXCEPTION 'audit entry %: entries go by age only, through forget_audit', OLD.id USING ERRCODE = 'FL001';
        END IF;
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit log is only added to' USING ERRCODE = 'FL001';
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON fenceline.audit FOR EACH ROW EXECUTE FUNCTION fenceline.guard_audit();
CREATE TRIGGER guard_all BEFORE TRUNCATE ON fenceline.audit FOR EACH STATEMENT EXECUTE FUNCTION fenceline.guard_audit();

-- forget_audit deletes at most so many of the oldest entries that are older than so many seconds, and answers how many.
-- +goose StatementBegin
CREATE FUNCTION fenceline.forget_audit(older_secs float8, most int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    PERFORM set_config('fenceline.forgets_audit', 'yes', true);
    DELETE FROM fenceline.audit WHERE id IN (SELECT a.id FROM fenceline.audit a
        WHERE a.at < clock_timestamp() - make_interval(secs => greatest(older_secs, 30 * 86400.0)) ORDER BY a.at, a.id LIMIT most);
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM set_config('fenceline.forgets_audit', '', true);
    RETURN n;
END $$;
-- +goose StatementEnd

-- A link opens one file of one publication for whoever holds its secret, of which only the SHA-256 is kept.
CREATE TABLE fenceline.links (
    id          uuid PRIMARY KEY,
    secret_hash bytea NOT NULL UNIQUE CHECK (length(secret_hash) = 32),
    export_id   uuid NOT NULL REFERENCES fenceline.exports ON DELETE RESTRICT,
    attempt_id  uuid NOT NULL,
    file_name   text NOT NULL,
    made_by     text NOT NULL CHECK (made_by <> ''),
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL,
    revoked_at  timestamptz,
    revoked_by  text,
    uses        int NOT NULL DEFAULT 0,
    max_uses    int CHECK (max_uses > 0), -- NULL: as often as one likes
    used_at     timestamptz,              -- the last time
    FOREIGN KEY (attempt_id, file_name) REFERENCES fenceline.files (attempt_id, name) ON DELETE RESTRICT,
    CONSTRAINT links_expire CHECK (expires_at > made_at),
    CONSTRAINT links_uses CHECK (uses >= 0 AND uses <= coalesce(max_uses, uses)),
    CONSTRAINT links_revoked CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
CREATE INDEX links_of_export ON fenceline.links (export_id, id DESC);
CREATE INDEX links_ended ON fenceline.links (expires_at);

-- What a link opens never changes, a revoked one never opens again, and only what was published can be linked to.
-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NOT EXISTS (SELECT FROM fenceline.attempts WHERE id = NEW.attempt_id AND export_id = NEW.export_id AND state IN ('published', 'superseded')) THEN
            RAISE EXCEPTION 'link %: attempt % is no publication of the export whose files exist', NEW.id, NEW.attempt_id USING ERRCODE = 'FL001';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.id, NEW.secret_hash, NEW.export_id, NEW.attempt_id, NEW.file_name, NEW.made_by, NEW.made_at, NEW.expires_at, NEW.max_uses)
        IS DISTINCT FROM (OLD.id, OLD.secret_hash, OLD.export_id, OLD.attempt_id, OLD.file_name, OLD.made_by, OLD.made_at, OLD.expires_at, OLD.max_uses) THEN
        RAISE EXCEPTION 'link %: what it opens, and until when, never changes', OLD.id USING ERRCODE = 'FL001';
    END IF;
    IF NEW.uses < OLD.uses OR OLD.revoked_at IS NOT NULL AND (NEW.revoked_at IS DISTINCT FROM OLD.revoked_at OR NEW.uses > OLD.uses) THEN
        RAISE EXCEPTION 'link %: it was revoked, or its uses would be counted down', OLD.id USING ERRCODE = 'FL001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON fenceline.links FOR EACH ROW EXECUTE FUNCTION fenceline.guard_link();
