-- Numbers that are kept: throughput and waits by the minute and the hour, and what failed jobs have in common.
--
-- Publishing counts nothing for them: no trigger counts and no row is hot. Every end is in its own row already, with its time, under
-- an index; a roller (the relays) reads each closed minute from there. What makes that exact:
--  - Rows arrive late: a transaction takes its times before it commits. So a minute is counted when it has closed, to be shown,
--    and again for good when every transaction that was under way then has ended (seal_xid against the oldest that runs).
--    Counting replaces what was counted before, in one transaction, so a roller that dies or is repeated changes nothing.
--  - Rows go away: a failed job is retried or forgotten, an ended one is pruned. Those write what they were into stats_left, in
--    their own transaction, unless its minute is final; either the row is counted or what it left is, never both.
-- A transaction that stays open for hours delays only the last word, not what is shown.

-- +goose Up

-- wait_edges bound, in milliseconds, the buckets in which waits are counted; the last bucket has no upper bound.
-- +goose StatementBegin
CREATE FUNCTION fenceline.wait_edges() RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY[10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 60000, 300000, 1800000, 7200000, 43200000]::bigint[]
$$;
-- +goose StatementEnd

-- One row per minute and tenant in which something ended, and one for all tenants together, whose tenant is empty: no tenant is
-- called that. A wait is from due to begun, of jobs that ended in the minute and had begun once; a retry overwrites when it was due.
CREATE TABLE fenceline.stats_minutes (
    at           timestamptz NOT NULL,
    tenant       text NOT NULL,
    published    bigint NOT NULL, -- jobs of exports that are done
    done         bigint NOT NULL, -- other jobs that are done
    failed       bigint NOT NULL, -- jobs out of attempts
    fenced       bigint NOT NULL, -- attempts
    waits        bigint NOT NULL,
    wait_ms      bigint NOT NULL, -- their sum
    wait_buckets bigint[] NOT NULL,
    PRIMARY KEY (tenant, at)
);
CREATE INDEX stats_minutes_at ON fenceline.stats_minutes (at);
CREATE TABLE fenceline.stats_hours (LIKE fenceline.stats_minutes);
ALTER TABLE fenceline.stats_hours ADD PRIMARY KEY (tenant, at);
CREATE INDEX stats_hours_at ON fenceline.stats_hours (at);

-- What the table of jobs no longer shows of minutes that are not final.
CREATE TABLE fenceline.stats_left (
    finished_at timestamptz NOT NULL,
    tenant      text NOT NULL,
    state       text NOT NULL,
    export      boolean NOT NULL,
    wait_ms     bigint
);
CREATE INDEX stats_left_at ON fenceline.stats_left (finished_at);

-- How far the counting is. It begins with what the last week has left.
CREATE TABLE fenceline.stats_roll (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    final_to  timestamptz NOT NULL, -- minutes before are counted for good
    rolled_to timestamptz NOT NULL, -- minutes before were counted
    seal_to   timestamptz,          -- minutes before become final when every transaction before seal_xid has ended
    seal_xid  xid8,
    CHECK (final_to <= rolled_to),
    CHECK ((seal_to IS NULL) = (seal_xid IS NULL))
);
INSERT INTO fenceline.stats_roll (final_to, rolled_to)
    SELECT t, t FROM (SELECT date_bin('1 hour', greatest(coalesce((SELECT min(finished_at) FROM fenceline.jobs WHERE finished_at IS NOT NULL), clock_timestamp()),
        clock_timestamp() - interval '7 days'), timestamptz '2000-01-01 00:00Z') AS t) x;

-- wait_of is for how long a job had waited when it began, in milliseconds; NULL when it has not begun exactly once.
-- +goose StatementBegin
CREATE FUNCTION fenceline.wait_of(p_attempts int, p_due timestamptz, p_started timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_attempts = 1 AND p_started >= p_due THEN (extract(epoch FROM p_started - p_due) * 1000)::bigint END
$$;
-- +goose StatementEnd

-- count_minutes counts whole minutes anew, and the hours that they are in.
-- +goose StatementBegin
CREATE FUNCTION fenceline.count_minutes(p_from timestamptz, p_to timestamptz) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    origin timestamptz := '2000-01-01 00:00Z';
BEGIN
    DELETE FROM fenceline.stats_minutes WHERE at >= p_from AND at < p_to;
    INSERT INTO fenceline.stats_minutes
    SELECT x.at, coalesce(x.tenant, ''), count(*) FILTER (WHERE x.what = 'published'), count(*) FILTER (WHERE x.what = 'done'),
        count(*) FILTER (WHERE x.what = 'failed'), count(*) FILTER (WHERE x.what = 'fenced'), count(x.wait), coalesce(sum(x.wait), 0),
        ARRAY[count(*) FILTER (WHERE x.b = 0), count(*) FILTER (WHERE x.b = 1), count(*) FILTER (WHERE x.b = 2), count(*) FILTER (WHERE x.b = 3),
            count(*) FILTER (WHERE x.b = 4), count(*) FILTER (WHERE x.b = 5), count(*) FILTER (WHERE x.b = 6), count(*) FILTER (WHERE x.b = 7),
            count(*) FILTER (WHERE x.b = 8), count(*) FILTER (WHERE x.b = 9), count(*) FILTER (WHERE x.b = 10), count(*) FILTER (WHERE x.b = 11),
            count(*) FILTER (WHERE x.b = 12), count(*) FILTER (WHERE x.b = 13), count(*) FILTER (WHERE x.b = 14), count(*) FILTER (WHERE x.b = 15),
            count(*) FILTER (WHERE x.b = 16)]
    FROM (
        SELECT date_bin('1 minute', e.finished_at, origin) AS at, e.tenant, e.wait, width_bucket(e.wait, fenceline.wait_edges()) AS b,
            CASE WHEN e.state = 'done' AND e.export THEN 'published' ELSE e.state END AS what
        FROM (
            SELECT j.finished_at, j.tenant, j.state, j.export_id IS NOT NULL AS export, fenceline.wait_of(j.attempts, j.due_at, j.started_at) AS wait
            FROM fenceline.jobs j WHERE j.finished_at >= p_from AND j.finished_at < p_to
            UNION ALL
            SELECT l.finished_at, l.tenant, l.state, l.export, l.wait_ms FROM fenceline.stats_left l WHERE l.finished_at >= p_from AND l.finished_at < p_to
        ) e
        UNION ALL
        SELECT date_bin('1 minute', a.finished_at, origin), (SELECT e.tenant FROM fenceline.exports e WHERE e.id = a.export_id), NULL, NULL, 'fenced'
        FROM fenceline.attempts a WHERE a.verdict = 'fenced' AND a.finished_at >= p_from AND a.finished_at < p_to
    ) x GROUP BY GROUPING SETS ((x.at, x.tenant), (x.at));

    DELETE FROM fenceline.stats_hours WHERE at >= date_bin('1 hour', p_from, origin) AND at < p_to;
    INSERT INTO fenceline.stats_hours
    SELECT date_bin('1 hour', m.at, origin), m.tenant, sum(m.published), sum(m.done), sum(m.failed), sum(m.fenced), sum(m.waits), sum(m.wait_ms),
        ARRAY[sum(m.wait_buckets[1]), sum(m.wait_buckets[2]), sum(m.wait_buckets[3]), sum(m.wait_buckets[4]), sum(m.wait_buckets[5]), sum(m.wait_buckets[6]),
            sum(m.wait_buckets[7]), sum(m.wait_buckets[8]), sum(m.wait_buckets[9]), sum(m.wait_buckets[10]), sum(m.wait_buckets[11]), sum(m.wait_buckets[12]),
            sum(m.wait_buckets[13]), sum(m.wait_buckets[14]), sum(m.wait_buckets[15]), sum(m.wait_buckets[16]), sum(m.wait_buckets[17])]
    FROM fenceline.stats_minutes m
    WHERE m.at >= date_bin('1 hour', p_from, origin) AND m.at < date_bin('1 hour', p_to - interval '1 microsecond', origin) + interval '1 hour'
    GROUP BY 1, 2;
END $$;
-- +goose StatementEnd

-- roll_stats counts what has closed since the last time, at most six hours of it, and answers whether there is more to do at
-- once. One roller at a time: another one that comes meanwhile has nothing to do.
--   p_margin  a minute counts as closed so long after its end: between taking its time and its first write, when a
--             transaction gets the number that seal_xid waits for, lies next to nothing, but not nothing
-- +goose StatementBegin
CREATE FUNCTION fenceline.roll_stats(p_margin interval) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    r fenceline.stats_roll;
    closed timestamptz;
    upto timestamptz;
BEGIN
    PERFORM fenceline.require_read_committed();
    SELECT * INTO r FROM fenceline.stats_roll FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN false; END IF;
    IF r.seal_xid IS NOT NULL AND pg_snapshot_xmin(pg_current_snapshot()) >= r.seal_xid THEN
        -- A statement of its own, after the look: it sees all that these transactions have written.
        PERFORM fenceline.count_minutes(r.final_to, r.seal_to);
        DELETE FROM fenceline.stats_left WHERE finished_at < r.seal_to;
        r.final_to := r.seal_to;
        r.seal_to := NULL;
        r.seal_xid := NULL;
    END IF;
    closed := date_bin('1 minute', clock_timestamp() - p_margin, timestamptz '2000-01-01 00:00Z');
    upto := least(closed, date_bin('1 hour', r.rolled_to, timestamptz '2000-01-01 00:00Z') + interval '6 hours');
    IF upto > r.rolled_to THEN
        PERFORM fenceline.count_minutes(r.rolled_to, upto);
        r.rolled_to := upto;
        -- Minutes stay for two days and while their hour may be counted again, hours for 400 days.
        DELETE FROM fenceline.stats_minutes WHERE at < least(clock_timestamp() - interval '2 days', date_bin('1 hour', r.final_to, timestamptz '2000-01-01 00:00Z'));
        DELETE FROM fenceline.stats_hours WHERE at < clock_timestamp() - interval '400 days';
    END IF;
    IF r.seal_xid IS NULL AND r.rolled_to > r.final_to THEN
        r.seal_to := r.rolled_to;
        r.seal_xid := pg_snapshot_xmax(pg_current_snapshot());
    END IF;
    UPDATE fenceline.stats_roll SET final_to = r.final_to, rolled_to = r.rolled_to, seal_to = r.seal_to, seal_xid = r.seal_xid;
    RETURN r.rolled_to < closed;
END $$;
-- +goose StatementEnd

-- error_pattern is what errors that differ in numbers, ids and quoted values have in common: the first line, with those masked.
-- +goose StatementBegin
CREATE FUNCTION fenceline.error_pattern(p_error text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT regexp_replace(regexp_replace(regexp_replace(regexp_replace(
        left(split_part(ltrim(p_error, E' \t\r\n'), E'\n', 1), 400),
        '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}', '#', 'g'),
        '"[^"]*"|“[^”]*”|''[^'']*''|`[^`]*`', '"…"', 'g'),
        '\m(0x)?[0-9a-fA-F]*[0-9][0-9a-fA-F]{7,}\M', '#', 'g'),
        '[0-9]+([.,:][0-9]+)*', '#', 'g')
$$;
-- +goose StatementEnd

-- error_group names the group that a failed job is in: its kind and the pattern of its error.
-- +goose StatementBegin
CREATE FUNCTION fenceline.error_group(p_kind text, p_error text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT left(encode(sha256(convert_to(p_kind || E'\n' || fenceline.error_pattern(p_error), 'UTF8')), 'hex'), 32)::uuid
$$;
-- +goose StatementEnd

ALTER TABLE fenceline.jobs ADD COLUMN failed_group uuid; -- of failed jobs only
UPDATE fenceline.jobs SET failed_group = fenceline.error_group(kind, error) WHERE state = 'failed';

-- keep_failure puts a job that fails into its group, and takes one that no longer is failed out of it and keeps that it was.
-- +goose StatementBegin
CREATE FUNCTION fenceline.keep_failure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'failed' THEN
        NEW.failed_group := fenceline.error_group(NEW.kind, NEW.error);
        RETURN NEW;
    END IF;
    NEW.failed_group := NULL;
    IF OLD.finished_at >= (SELECT final_to FROM fenceline.stats_roll) THEN
        INSERT INTO fenceline.stats_left (finished_at, tenant, state, export, wait_ms)
            VALUES (OLD.finished_at, OLD.tenant, 'failed', OLD.export_id IS NOT NULL, -- a forgotten job keeps its end, so its wait is counted there
                CASE WHEN NEW.finished_at IS NULL THEN fenceline.wait_of(OLD.attempts, OLD.due_at, OLD.started_at) END);
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER keep_failure BEFORE UPDATE OF state ON fenceline.jobs FOR EACH ROW
    WHEN (NEW.state IS DISTINCT FROM OLD.state AND (NEW.state = 'failed' OR OLD.state = 'failed')) EXECUTE FUNCTION fenceline.keep_failure();

-- keep_ended keeps what a job was that is removed before its minute is final.
-- +goose StatementBegin
CREATE FUNCTION fenceline.keep_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.finished_at >= (SELECT final_to FROM fenceline.stats_roll) THEN
        INSERT INTO fenceline.stats_left (finished_at, tenant, state, export, wait_ms)
            VALUES (OLD.finished_at, OLD.tenant, OLD.state, OLD.export_id IS NOT NULL, fenceline.wait_of(OLD.attempts, OLD.due_at, OLD.started_at));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER keep_ended AFTER DELETE ON fenceline.jobs FOR EACH ROW WHEN (OLD.finished_at IS NOT NULL) EXECUTE FUNCTION fenceline.keep_ended();

-- Only failures pay for these: the groups and their counts, the newest of all and of a kind, a queue, a tenant.
CREATE INDEX jobs_failed_groups ON fenceline.jobs (failed_group, finished_at DESC, id DESC) WHERE state = 'failed';
CREATE INDEX jobs_failed_groups_of_tenant ON fenceline.jobs (tenant, failed_group, finished_at DESC, id DESC) WHERE state = 'failed';
CREATE INDEX jobs_failed_newest ON fenceline.jobs (finished_at DESC, id DESC) WHERE state = 'failed';
CREATE INDEX jobs_failed_newest_of_tenant ON fenceline.jobs (tenant, finished_at DESC, id DESC) WHERE state = 'failed';
CREATE INDEX jobs_failed_of_kind ON fenceline.jobs (kind, finished_at DESC, id DESC) WHERE state = 'failed';
CREATE INDEX jobs_failed_of_queue ON fenceline.jobs (queue, finished_at DESC, id DESC) WHERE state = 'failed';

-- What waits of a tenant, and since when; what waits in a chain is not due whatever its time says.
CREATE INDEX jobs_waiting_of_tenant ON fenceline.jobs (tenant, (waiting_for IS NOT DISTINCT FROM 'chain'), due_at) WHERE state = 'queued';
