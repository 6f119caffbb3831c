-- Schedules: how they run, when they are looked at, and what came of each fire time.

-- +goose Up

-- changed_at and decided_at are where fire times begin to count: what is not after
-- decided_at was decided, or lies before the schedule was made, changed or resumed.
-- look_at is when a scheduler should look: at the next fire time, and now and then
-- before it, so that new rules of time zones count. Only the database's clock is
-- compared with it.
ALTER TABLE fenceline.schedules
    ADD COLUMN options    jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN missed     text NOT NULL DEFAULT 'once' CHECK (missed IN ('skip', 'once', 'all')),
    ADD COLUMN overlap    boolean NOT NULL DEFAULT true, -- false: no run while another is at work
    ADD COLUMN source     text NOT NULL DEFAULT 'edited' CHECK (source IN ('file', 'edited')),
    ADD COLUMN changed_by text NOT NULL DEFAULT '',
    ADD COLUMN changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN decided_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN look_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN problem    text; -- why the last look could not be finished
CREATE INDEX schedules_due ON fenceline.schedules (look_at) WHERE paused_at IS NULL;

-- The history outlives its schedule: deleted and made again, or taken from the file
-- and put back, a schedule does not run once more for a time that it has run for.
-- fire_key names the fire time: the local time and zone where the hour is fixed
-- (2026-03-29T02:30:00[Europe/Berlin]), the instant otherwise (2026-10-25T00:30:00Z),
-- and something random for a run that a person asked for. So programs that disagree
-- about the rules of a time zone cannot run one local time twice.
-- Programs older than this migration name no key: the database refuses what they claim.
ALTER TABLE fenceline.schedule_runs
    ADD COLUMN id         bigint GENERATED ALWAYS AS IDENTITY, -- the order in which runs were decided
    ADD COLUMN fire_key   text,
    ADD COLUMN tenant     text,
    ADD COLUMN outcome    text,
    ADD COLUMN manual     boolean NOT NULL DEFAULT false,
    ADD COLUMN asked_by   text NOT NULL DEFAULT '',
    ADD COLUMN passed     int NOT NULL DEFAULT 0 CHECK (passed >= 0), -- earlier fire times that this one stands for
    ADD COLUMN decided_at timestamptz NOT NULL DEFAULT clock_timestamp();
ALTER TABLE fenceline.schedule_runs RENAME COLUMN error TO reason;
UPDATE fenceline.schedule_runs r SET
    fire_key = to_char(r.fire_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
    tenant = s.tenant,
    outcome = CASE WHEN r.job_id IS NULL THEN 'refused' ELSE 'dispatched' END,
    decided_at = r.fire_at
    FROM fenceline.schedules s WHERE s.name = r.schedule;
UPDATE fenceline.schedules s SET changed_at = s.created_at,
    decided_at = greatest(s.created_at, (SELECT max(r.fire_at) FROM fenceline.schedule_runs r WHERE r.schedule = s.name));
ALTER TABLE fenceline.schedule_runs
    DROP CONSTRAINT schedule_runs_pkey,
    DROP CONSTRAINT schedule_runs_schedule_fkey,
    ALTER COLUMN fire_key SET NOT NULL,
    ALTER COLUMN tenant SET NOT NULL,
    ALTER COLUMN outcome SET NOT NULL,
    ADD CONSTRAINT schedule_runs_outcome_check CHECK (outcome IN ('dispatched', 'skipped', 'refused')),
    ADD CONSTRAINT schedule_runs_tenant_check CHECK (tenant <> ''),
    ADD PRIMARY KEY (schedule, fire_key);
CREATE UNIQUE INDEX schedule_runs_newest ON fenceline.schedule_runs (schedule, id DESC);
CREATE INDEX schedule_runs_old ON fenceline.schedule_runs (decided_at);

-- What the file of schedules was when it was last read; one row.
CREATE TABLE fenceline.schedule_file (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    path       text NOT NULL DEFAULT '',
    sha256     bytea,
    worker     text NOT NULL DEFAULT '', -- who read it
    synced_at  timestamptz,              -- when its schedules were taken over
    problem    text,                     -- why a newer content, or some of it, was not
    problem_at timestamptz
);
INSERT INTO fenceline.schedule_file DEFAULT VALUES;
