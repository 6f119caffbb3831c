-- The outbox leaves the house: who is told of what, and every delivery with what became of it.

-- +goose Up

-- A notice may be about a job without an export, or be one of the application's own (custom.…), which has no job.
ALTER TABLE fenceline.outbox ALTER COLUMN export_id DROP NOT NULL;
ALTER TABLE fenceline.outbox ALTER COLUMN job_id DROP NOT NULL;
ALTER TABLE fenceline.outbox ADD COLUMN tenant text CHECK (tenant <> ''); -- of notices without a job; else it is the job's
ALTER TABLE fenceline.outbox ADD COLUMN payload json;                     -- of custom notices, as it was given
-- Not handed to deliveries yet. What was written before this migration had nobody to be told: it is not pending.
ALTER TABLE fenceline.outbox ADD COLUMN pending boolean NOT NULL DEFAULT false;
ALTER TABLE fenceline.outbox ALTER COLUMN pending SET DEFAULT true;
ALTER TABLE fenceline.outbox DROP COLUMN delivered_at;                    -- a notice has as many deliveries as targets
-- Which topics there are is known to the code that writes them; here only their form.
ALTER TABLE fenceline.outbox DROP CONSTRAINT IF EXISTS outbox_topic_check;
ALTER TABLE fenceline.outbox ADD CONSTRAINT outbox_topic_check
    CHECK (length(topic) <= 100 AND topic ~ '^[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*$');
ALTER TABLE fenceline.outbox ADD CONSTRAINT outbox_subject_check CHECK (job_id IS NOT NULL OR tenant IS NOT NULL);
ALTER TABLE fenceline.outbox ADD CONSTRAINT outbox_published_check
    CHECK (topic <> 'export.published' OR export_id IS NOT NULL AND attempt_id IS NOT NULL AND job_id IS NOT NULL);
CREATE INDEX outbox_pending ON fenceline.outbox (id) WHERE pending;
CREATE INDEX outbox_to_prune ON fenceline.outbox (created_at) WHERE NOT pending AND topic <> 'export.published';

-- Who is told. Secrets are kept so that they can be signed with (sealed by the caller when it has keys), and are in no list.
CREATE TABLE fenceline.notify_targets (
    id               uuid PRIMARY KEY,
    tenant           text NOT NULL CHECK (tenant <> ''),
    name             text NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    kind             text NOT NULL CHECK (kind IN ('webhook', 'mail')),
    url              text,
    addresses        text[],
    secret           text,
    old_secret       text,        -- after a rotation: signed with too, until then
    old_secret_until timestamptz,
    topics           text[] NOT NULL CHECK (cardinality(topics) > 0),
    job_kinds        text[] NOT NULL DEFAULT '{}', -- empty: of jobs of every kind
    failures         int NOT NULL DEFAULT 0,       -- in a row, over all deliveries
    failing_since    timestamptz,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at      timestamptz,
    disabled_why     text,
    UNIQUE (tenant, name),
    CHECK ((kind = 'webhook') = (url IS NOT NULL) AND (kind = 'webhook') = (secret IS NOT NULL)),
    CHECK ((kind = 'mail') = (addresses IS NOT NULL)),
    CHECK ((old_secret IS NULL) = (old_secret_until IS NULL))
);

-- One notice for one target. The id is what the receiver can tell repetitions by, the body never changes.
CREATE TABLE fenceline.deliveries (
    id              uuid PRIMARY KEY,
    outbox_id       bigint REFERENCES fenceline.outbox, -- NULL: a test that somebody asked for
    target_id       uuid NOT NULL REFERENCES fenceline.notify_targets ON DELETE CASCADE,
    tenant          text NOT NULL CHECK (tenant <> ''),
    topic           text NOT NULL,
    body            text NOT NULL,
    state           text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'dead')),
    attempts        int NOT NULL DEFAULT 0,
    attempts_before int NOT NULL DEFAULT 0,   -- those before the last replay: they do not count any more
    -- when it is due (again). Who takes it pushes this ahead: should it die, the delivery comes back by itself.
    next_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_status     int,
    last_error      text,
    last_answer     text,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    delivered_at    timestamptz,
    UNIQUE (outbox_id, target_id),
    CHECK ((state = 'delivered') = (delivered_at IS NOT NULL))
);
CREATE INDEX deliveries_due ON fenceline.deliveries (target_id, next_at) WHERE state = 'pending';
CREATE INDEX deliveries_pending ON fenceline.deliveries (id DESC) WHERE state = 'pending';
CREATE INDEX deliveries_waiting ON fenceline.deliveries (created_at) WHERE state = 'pending';
CREATE INDEX deliveries_dead ON fenceline.deliveries (id DESC) WHERE state = 'dead';
CREATE INDEX deliveries_delivered ON fenceline.deliveries (delivered_at) WHERE state = 'delivered';
CREATE INDEX deliveries_of_tenant ON fenceline.deliveries (tenant, id DESC);
CREATE INDEX deliveries_of_target ON fenceline.deliveries (target_id, id DESC);

-- "fenceline_outbox" wakes the deliverers, at commit and once per transaction.
-- +goose StatementBegin
CREATE FUNCTION fenceline.tell_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('fenceline_outbox', '');
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER tell AFTER INSERT ON fenceline.outbox FOR EACH STATEMENT EXECUTE FUNCTION fenceline.tell_outbox();

-- What was said stays said: a repeated delivery has the same id and the same bytes.
-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_delivery() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.outbox_id, NEW.target_id, NEW.tenant, NEW.topic, NEW.body, NEW.created_at)
        IS DISTINCT FROM (OLD.id, OLD.outbox_id, OLD.target_id, OLD.tenant, OLD.topic, OLD.body, OLD.created_at) THEN
        RAISE EXCEPTION 'delivery %: what it says and to whom never changes', OLD.id USING ERRCODE = 'FL001';
    END IF;
    IF NEW.attempts < OLD.attempts THEN
        RAISE EXCEPTION 'delivery %: attempts are counted up, not from % to %', OLD.id, OLD.attempts, NEW.attempts USING ERRCODE = 'FL001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE UPDATE ON fenceline.deliveries FOR EACH ROW EXECUTE FUNCTION fenceline.guard_delivery();
