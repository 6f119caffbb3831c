-- Who may look and ask, what runs by the clock, and what the clean-up did.

-- +goose Up

-- tenant NULL sees every tenant. Secrets are kept as SHA-256 only: they are random, so no salt or slow hash is needed.
CREATE TABLE fenceline.users (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name       text NOT NULL UNIQUE CHECK (name <> '' AND length(name) <= 100),
    tenant     text CHECK (tenant <> ''),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at timestamptz
);

CREATE TABLE fenceline.signin_links (
    secret_hash bytea PRIMARY KEY CHECK (length(secret_hash) = 32),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL,
    used_at     timestamptz
);

CREATE TABLE fenceline.sessions (
    secret_hash bytea PRIMARY KEY CHECK (length(secret_hash) = 32),
    user_id     uuid NOT NULL REFERENCES fenceline.users ON DELETE CASCADE,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL
);
CREATE INDEX sessions_expired ON fenceline.sessions (expires_at);

CREATE TABLE fenceline.api_tokens (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name        text NOT NULL CHECK (name <> '' AND length(name) <= 100),
    secret_hash bytea NOT NULL UNIQUE CHECK (length(secret_hash) = 32),
    tenant      text CHECK (tenant <> ''),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_used_at timestamptz,
    revoked_at  timestamptz
);

CREATE TABLE fenceline.schedules (
    name       text PRIMARY KEY CHECK (name <> ''),
    cron       text NOT NULL,
    zone       text NOT NULL DEFAULT 'UTC',
    tenant     text NOT NULL CHECK (tenant <> ''),
    kind       text NOT NULL,
    payload    jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused_at  timestamptz
);
-- One row per schedule and fire time decides who dispatches: no leader is needed.
CREATE TABLE fenceline.schedule_runs (
    schedule text NOT NULL REFERENCES fenceline.schedules ON DELETE CASCADE,
    fire_at  timestamptz NOT NULL,
    job_id   uuid REFERENCES fenceline.jobs ON DELETE RESTRICT,
    error    text,
    PRIMARY KEY (schedule, fire_at)
);

CREATE TABLE fenceline.sweeps (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    worker      text NOT NULL,
    tenant      text CHECK (tenant <> ''), -- NULL: all of them
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    condemned   bigint NOT NULL DEFAULT 0,
    deleted     bigint NOT NULL DEFAULT 0,
    bytes       bigint NOT NULL DEFAULT 0,
    failed      bigint NOT NULL DEFAULT 0,
    error       text
);
