-- Limits: how often, not two at once, and not while it is broken. They save work
-- and other people's servers; they guard nothing. What a limit refuses waits, and
-- waiting is no attempt.
--
-- None of it is a law, so its transactions do not wait for the disk: after a crash
-- a few of the newest turns may be forgotten. No limit can be left behind either:
-- what is held is held by a run that lives in fenceline.jobs, and a row that says
-- no more than its absence is pruned.
--
-- Order of row locks: a job's row may be held by who waits for a row of these
-- tables; never the other way round, hence SKIP LOCKED.

-- +goose Up

-- The tenant '' is for limits across all tenants.

-- A rate is a row of slots, every_us apart (the generic cell rate algorithm, GCRA).
CREATE TABLE fenceline.limit_rates (
    tenant      text NOT NULL,
    key         text NOT NULL CHECK (key <> ''),
    every_us    bigint NOT NULL CHECK (every_us > 0),
    burst       int NOT NULL CHECK (burst > 0),
    next_at     timestamptz NOT NULL, -- the plan: the slot after the last that was given out, had there been no burst
    started_at  timestamptz NOT NULL, -- the same, reckoned over what did start
    prune_after timestamptz NOT NULL, -- moves in steps, so that most updates touch no index
    PRIMARY KEY (tenant, key)
) WITH (fillfactor = 50);
CREATE INDEX limit_rates_prune ON fenceline.limit_rates (prune_after);

-- Slots that are kept for a job until it comes back, and, without a job, that were given back.
CREATE TABLE fenceline.limit_slots (
    id      bigint GENERATED ALWAYS AS IDENTITY,
    tenant  text NOT NULL,
    key     text NOT NULL,
    slot_at timestamptz NOT NULL,
    job_id  uuid,
    PRIMARY KEY (tenant, key, slot_at, id)
);
CREATE INDEX limit_slots_of_job ON fenceline.limit_slots (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX limit_slots_free ON fenceline.limit_slots (tenant, key, slot_at) WHERE job_id IS NULL;
CREATE INDEX limit_slots_prune ON fenceline.limit_slots (slot_at);

CREATE TABLE fenceline.limit_holds (
    tenant     text NOT NULL,
    key        text NOT NULL CHECK (key <> ''),
    owner      uuid NOT NULL, -- one taking of it
    job_id     uuid NOT NULL, -- the run that has it: see run_is_live
    generation int NOT NULL,
    run_id     uuid,
    taken_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, key)
);
CREATE INDEX limit_holds_prune ON fenceline.limit_holds (taken_at);

CREATE TABLE fenceline.limit_circuits (
    tenant           text NOT NULL,
    key              text NOT NULL CHECK (key <> ''),
    failures         timestamptz[] NOT NULL DEFAULT '{}', -- the newest first, no more than open it
    opened_at        timestamptz,
    open_until       timestamptz, -- NULL: closed; when it is over one run may try
    probe_job        uuid,        -- the run that tries
    probe_generation int,
    probe_run        uuid,
    probe_at         timestamptz,
    expires_at       timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX limit_circuits_prune ON fenceline.limit_circuits (expires_at);

-- Who waits for a hold or a circuit, and since when.
CREATE TABLE fenceline.limit_waiters (
    job_id uuid PRIMARY KEY,
    tenant text NOT NULL,
    key    text NOT NULL,
    since  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX limit_waiters_in_line ON fenceline.limit_waiters (tenant, key, since, job_id);
CREATE INDEX limit_waiters_prune ON fenceline.limit_waiters (since);

-- run_is_live: whether the run that took something still runs. A plain job's run has a name. An export's is known
-- by the generation of its job: whatever gives the job on or back raises it. Before its attempt begins it stands
-- queued, which is believed for half a minute.
-- +goose StatementBegin
CREATE FUNCTION fenceline.run_is_live(p_job uuid, p_generation int, p_run uuid, p_since timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM fenceline.jobs j WHERE j.id = p_job AND CASE
        WHEN p_run IS NOT NULL THEN j.run_id = p_run AND j.state IN ('running', 'cancelling')
        ELSE j.generation = p_generation AND (j.state IN ('running', 'cancelling')
            OR j.state = 'queued' AND p_since > clock_timestamp() - interval '30 seconds') END)
$$;
-- +goose StatementEnd

-- take_rate: go is true when the job may start, after the wait (p_patience_us at most). Otherwise the next slot is kept
-- for it, and the job should come back after the wait. It may come back late, as long as what starts keeps to the rate
-- give or take p_late_us: what nobody could run for an hour does not run at once, but is given new slots. A slot that
-- was given back is given out first.
-- +goose StatementBegin
CREATE FUNCTION fenceline.take_rate(p_tenant text, p_key text, p_every_us bigint, p_burst int, p_late_us bigint, p_patience_us bigint, p_job uuid,
    OUT go boolean, OUT slot timestamptz, OUT wait_seconds double precision) LANGUAGE plpgsql AS $$
DECLARE
    r fenceline.limit_rates;
    every interval := p_every_us * interval '1 microsecond';
    ahead interval := (p_burst - 1) * every; -- how far a slot may be before its time
    late interval := p_late_us * interval '1 microsecond';
    at timestamptz;
    kept bigint;
BEGIN
    PERFORM fenceline.require_read_committed();
    PERFORM set_config('synchronous_commit', 'off', true);
    LOOP
        SELECT * INTO r FROM fenceline.limit_rates WHERE tenant = p_tenant AND key = p_key FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO fenceline.limit_rates (tenant, key, every_us, burst, next_at, started_at, prune_after)
            VALUES (p_tenant, p_key, p_every_us, p_burst, clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '10 minutes') ON CONFLICT DO NOTHING;
    END LOOP;
    at := clock_timestamp(); -- after the lock: slots are given out in its order
    SELECT s.id, s.slot_at INTO kept, slot FROM fenceline.limit_slots s WHERE s.job_id = p_job AND s.tenant = p_tenant AND s.key = p_key LIMIT 1;
    IF slot <= at AND r.started_at - ahead - late > at THEN -- too many came back late before it
        DELETE FROM fenceline.limit_slots s WHERE (s.tenant, s.key, s.slot_at, s.id) = (p_tenant, p_key, slot, kept);
        kept := NULL; slot := NULL;
    END IF;
    IF slot IS NULL THEN
        DELETE FROM fenceline.limit_slots s WHERE (s.tenant, s.key, s.slot_at, s.id) = (
            SELECT f.tenant, f.key, f.slot_at, f.id FROM fenceline.limit_slots f
            WHERE f.tenant = p_tenant AND f.key = p_key AND f.job_id IS NULL AND f.slot_at >= at - late
                AND (f.slot_at > at OR r.started_at - ahead - late <= at) ORDER BY f.slot_at LIMIT 1 FOR UPDATE SKIP LOCKED)
            RETURNING s.slot_at INTO slot;
    END IF;
    IF slot IS NULL THEN
        r.next_at := greatest(at, r.next_at, r.started_at - late) + every;
        slot := greatest(at, r.next_at - every - ahead);
    END IF;
    wait_seconds := greatest(0, extract(epoch FROM slot - at));
    go := wait_seconds * 1e6 <= p_patience_us;
    IF go THEN
        r.started_at := greatest(at, r.started_at) + every;
        DELETE FROM fenceline.limit_slots s WHERE (s.tenant, s.key, s.slot_at, s.id) = (p_tenant, p_key, slot, kept);
    ELSIF kept IS NULL THEN
        INSERT INTO fenceline.limit_slots (tenant, key, slot_at, job_id) VALUES (p_tenant, p_key, slot, p_job);
    END IF;
    UPDATE fenceline.limit_rates SET next_at = r.next_at, started_at = r.started_at, prune_after = CASE
        WHEN greatest(r.next_at, r.started_at) > prune_after - interval '1 minute' THEN greatest(r.next_at, r.started_at) + interval '10 minutes' ELSE prune_after END
        WHERE tenant = p_tenant AND key = p_key;
END $$;
-- +goose StatementEnd

-- give_back_rate: a job that was let go did not start after all; the next that asks may have its slot.
-- +goose StatementBegin
CREATE FUNCTION fenceline.give_back_rate(p_tenant text, p_key text, p_slot timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.require_read_committed();
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE fenceline.limit_rates SET started_at = started_at - every_us * interval '1 microsecond' WHERE tenant = p_tenant AND key = p_key;
    IF FOUND THEN
        INSERT INTO fenceline.limit_slots (tenant, key, slot_at) VALUES (p_tenant, p_key, p_slot);
    END IF;
END $$;
-- +goose StatementEnd

-- take_hold: taken; own, when another worker takes the same job right now; or busy, by holder, with so many ahead of
-- the job in the line (counted to 1000). p_wait puts the job into the line.
-- +goose StatementBegin
CREATE FUNCTION fenceline.take_hold(p_tenant text, p_key text, p_owner uuid, p_job uuid, p_generation int, p_run uuid, p_wait boolean,
    OUT outcome text, OUT holder uuid, OUT ahead int) LANGUAGE plpgsql AS $$
DECLARE
    h fenceline.limit_holds;
BEGIN
    PERFORM fenceline.require_read_committed();
    PERFORM set_config('synchronous_commit', 'off', true);
    LOOP
        INSERT INTO fenceline.limit_holds (tenant, key, owner, job_id, generation, run_id)
            VALUES (p_tenant, p_key, p_owner, p_job, p_generation, p_run) ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        SELECT * INTO h FROM fenceline.limit_holds WHERE tenant = p_tenant AND key = p_key FOR UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
    -- Whether the holder lives is a statement of its own, after the lock: it sees what was committed before it.
    IF h.owner = p_owner OR h.job_id IS NOT NULL AND NOT fenceline.run_is_live(h.job_id, h.generation, h.run_id, h.taken_at) THEN
        UPDATE fenceline.limit_holds SET owner = p_owner, job_id = p_job, generation = p_generation, run_id = p_run, taken_at = clock_timestamp()
            WHERE tenant = p_tenant AND key = p_key;
        h := NULL;
    END IF;
    IF h.job_id IS NULL THEN
        DELETE FROM fenceline.limit_waiters WHERE job_id = p_job AND tenant = p_tenant AND key = p_key;
        outcome := 'taken'; holder := p_job; ahead := 0;
        RETURN;
    END IF;
    outcome := CASE WHEN h.job_id = p_job THEN 'own' ELSE 'busy' END; holder := h.job_id; ahead := 0;
    IF p_wait AND outcome = 'busy' THEN
        INSERT INTO fenceline.limit_waiters AS w (job_id, tenant, key) VALUES (p_job, p_tenant, p_key)
            ON CONFLICT (job_id) DO UPDATE SET tenant = p_tenant, key = p_key,
                since = CASE WHEN (w.tenant, w.key) = (p_tenant, p_key) THEN w.since ELSE clock_timestamp() END;
        SELECT count(*) INTO ahead FROM (SELECT FROM fenceline.limit_waiters w WHERE w.tenant = p_tenant AND w.key = p_key
            AND (w.since, w.job_id) < (SELECT m.since, m.job_id FROM fenceline.limit_waiters m WHERE m.job_id = p_job) LIMIT 1000) x;
    END IF;
END $$;
-- +goose StatementEnd

-- release_hold: the hold is free, and the first in line that waits is due at once. False when it was somebody else's.
-- +goose StatementBegin
CREATE FUNCTION fenceline.release_hold(p_tenant text, p_key text, p_owner uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fenceline.require_read_committed();
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM fenceline.limit_holds WHERE tenant = p_tenant AND key = p_key AND owner = p_owner;
    IF NOT FOUND THEN RETURN false; END IF;
    UPDATE fenceline.jobs SET due_at = clock_timestamp(), ring_at = clock_timestamp(),
        ready_at = CASE WHEN export_id IS NULL THEN clock_timestamp() END, waiting_for = CASE WHEN export_id IS NOT NULL THEN waiting_for END
    WHERE id = (SELECT j.id FROM fenceline.limit_waiters w JOIN fenceline.jobs j ON j.id = w.job_id
        WHERE w.tenant = p_tenant AND w.key = p_key AND j.state = 'queued' AND j.waiting_for = 'overlap' AND j.due_at > clock_timestamp()
        ORDER BY w.since, w.job_id LIMIT 1 FOR NO KEY UPDATE OF j SKIP LOCKED);
    RETURN true;
END $$;
-- +goose StatementEnd

-- A job that goes to wait for a hold which was let go between its asking and now is due at once: the end that would
-- have woken it has passed. The lock makes a release that is under way count.
-- +goose StatementBegin
CREATE FUNCTION fenceline.wait_for_hold() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    h fenceline.limit_holds;
BEGIN
    SELECT x.* INTO h FROM fenceline.limit_waiters w JOIN fenceline.limit_holds x ON (x.tenant, x.key) = (w.tenant, w.key)
        WHERE w.job_id = NEW.id FOR SHARE OF x;
    IF h.job_id IS NULL OR NOT fenceline.run_is_live(h.job_id, h.generation, h.run_id, h.taken_at) THEN
        NEW.due_at := clock_timestamp();
        NEW.ring_at := NEW.due_at;
        IF NEW.export_id IS NULL THEN
            NEW.ready_at := NEW.due_at;
            NEW.waiting_for := NULL;
        END IF;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER wait_for_hold BEFORE UPDATE OF due_at ON fenceline.jobs FOR EACH ROW
    WHEN (NEW.state = 'queued' AND NEW.waiting_for = 'overlap' AND NEW.due_at > OLD.due_at) EXECUTE FUNCTION fenceline.wait_for_hold();

-- A job that ends while it waits gives its slots back and leaves the line.
-- +goose StatementBegin
CREATE FUNCTION fenceline.leave_limits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fenceline.limit_slots SET job_id = NULL WHERE job_id = NEW.id;
    DELETE FROM fenceline.limit_waiters WHERE job_id = NEW.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER leave_limits AFTER UPDATE OF state ON fenceline.jobs FOR EACH ROW
    WHEN (OLD.state = 'queued' AND NEW.state IN ('cancelled', 'failed')) EXECUTE FUNCTION fenceline.leave_limits();

-- enter_circuit: closed (go on); probe (go on: you are the one that tries); open, until the wait is over; or probing:
-- another run tries right now. Closed, which is the rule, takes no lock and writes nothing.
-- +goose StatementBegin
CREATE FUNCTION fenceline.enter_circuit(p_tenant text, p_key text, p_job uuid, p_generation int, p_run uuid,
    OUT outcome text, OUT wait_seconds double precision) LANGUAGE plpgsql AS $$
DECLARE
    c fenceline.limit_circuits;
BEGIN
    PERFORM fenceline.require_read_committed();
    wait_seconds := 0; outcome := 'closed';
    SELECT * INTO c FROM fenceline.limit_circuits WHERE tenant = p_tenant AND key = p_key;
    IF c.open_until IS NULL THEN RETURN; END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT * INTO c FROM fenceline.limit_circuits WHERE tenant = p_tenant AND key = p_key FOR UPDATE;
    IF c.open_until IS NULL THEN RETURN; END IF; -- closed, or forgotten, meanwhile
    IF c.open_until > clock_timestamp() THEN
        outcome := 'open'; wait_seconds := extract(epoch FROM c.open_until - clock_timestamp());
    ELSIF c.probe_job IS NOT NULL AND (c.probe_job, c.probe_generation, c.probe_run) IS DISTINCT FROM (p_job, p_generation, p_run)
        AND fenceline.run_is_live(c.probe_job, c.probe_generation, c.probe_run, c.probe_at) THEN
        outcome := 'probing';
    ELSE
        UPDATE fenceline.limit_circuits SET probe_job = p_job, probe_generation = p_generation, probe_run = p_run, probe_at = clock_timestamp()
            WHERE tenant = p_tenant AND key = p_key;
        DELETE FROM fenceline.limit_waiters WHERE job_id = p_job AND tenant = p_tenant AND key = p_key;
        outcome := 'probe';
        RETURN;
    END IF;
    INSERT INTO fenceline.limit_waiters AS w (job_id, tenant, key) VALUES (p_job, p_tenant, p_key)
        ON CONFLICT (job_id) DO UPDATE SET tenant = p_tenant, key = p_key WHERE (w.tenant, w.key) <> (p_tenant, p_key);
END $$;
-- +goose StatementEnd

-- leave_circuit: says how a run came out that entered: passed, failed, or neither (it only waited, was cancelled, was
-- fenced). Answers whether the circuit was opened. A failure of a run that began before the circuit opened counts no more.
-- +goose StatementBegin
CREATE FUNCTION fenceline.leave_circuit(p_tenant text, p_key text, p_job uuid, p_generation int, p_run uuid, p_verdict text,
    p_max int, p_within_seconds double precision, p_cool_seconds double precision) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    c fenceline.limit_circuits;
    at timestamptz;
    until timestamptz;
    within interval := make_interval(secs => p_within_seconds);
    probe boolean;
BEGIN
    PERFORM fenceline.require_read_committed();
    PERFORM set_config('synchronous_commit', 'off', true);
    IF p_verdict = 'failed' THEN
        INSERT INTO fenceline.limit_circuits (tenant, key, expires_at) VALUES (p_tenant, p_key, clock_timestamp() + within) ON CONFLICT DO NOTHING;
    END IF;
    SELECT * INTO c FROM fenceline.limit_circuits WHERE tenant = p_tenant AND key = p_key FOR UPDATE;
    IF NOT FOUND THEN RETURN false; END IF;
    at := clock_timestamp();
    probe := c.open_until <= at AND (c.probe_job, c.probe_generation, c.probe_run) IS NOT DISTINCT FROM (p_job, p_generation, p_run);
    IF p_verdict = 'passed' AND probe THEN
        DELETE FROM fenceline.limit_circuits WHERE tenant = p_tenant AND key = p_key;
    ELSIF p_verdict = 'failed' AND (probe OR c.open_until IS NULL) THEN
        c.failures := (ARRAY[at] || c.failures)[1:p_max];
        IF probe OR (cardinality(c.failures) >= p_max AND c.failures[p_max] > at - within) THEN
            until := at + make_interval(secs => p_cool_seconds);
            c.failures := '{}';
        END IF;
        UPDATE fenceline.limit_circuits SET failures = c.failures, open_until = until, opened_at = CASE WHEN until IS NOT NULL THEN at END,
            probe_job = NULL, probe_generation = NULL, probe_run = NULL, probe_at = NULL,
            expires_at = coalesce(until, at) + within WHERE tenant = p_tenant AND key = p_key;
        RETURN until IS NOT NULL;
    ELSIF probe THEN
        UPDATE fenceline.limit_circuits SET probe_job = NULL, probe_generation = NULL, probe_run = NULL, probe_at = NULL
            WHERE tenant = p_tenant AND key = p_key;
    END IF;
    RETURN false;
END $$;
-- +goose StatementEnd

-- prune_limits: removes up to p_limit rows of each kind that say no more than their absence would.
-- +goose StatementBegin
CREATE FUNCTION fenceline.prune_limits(p_limit int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := clock_timestamp();
    n bigint;
    total bigint := 0;
BEGIN
    PERFORM fenceline.require_read_committed();
    DELETE FROM fenceline.limit_rates WHERE (tenant, key) IN (SELECT tenant, key FROM fenceline.limit_rates
        WHERE prune_after < at AND next_at < at AND started_at < at ORDER BY prune_after LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS n = ROW_COUNT; total := total + n;
    DELETE FROM fenceline.limit_slots WHERE (tenant, key, slot_at, id) IN (SELECT tenant, key, slot_at, id FROM fenceline.limit_slots
        WHERE slot_at < at - interval '10 minutes' ORDER BY slot_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS n = ROW_COUNT; total := total + n;
    DELETE FROM fenceline.limit_holds WHERE (tenant, key) IN (SELECT tenant, key FROM fenceline.limit_holds
        WHERE taken_at < at - interval '1 minute' AND NOT fenceline.run_is_live(job_id, generation, run_id, taken_at)
        ORDER BY taken_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS n = ROW_COUNT; total := total + n;
    DELETE FROM fenceline.limit_circuits WHERE (tenant, key) IN (SELECT tenant, key FROM fenceline.limit_circuits
        WHERE expires_at < at ORDER BY expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS n = ROW_COUNT; total := total + n;
    DELETE FROM fenceline.limit_waiters WHERE job_id IN (SELECT w.job_id FROM fenceline.limit_waiters w
        WHERE w.since < at - interval '10 minutes' AND NOT EXISTS (SELECT FROM fenceline.jobs j WHERE j.id = w.job_id AND j.state IN ('queued', 'running', 'cancelling'))
        ORDER BY w.since LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS n = ROW_COUNT; total := total + n;
    RETURN total;
END $$;
-- +goose StatementEnd

-- reset_limit: forgets what is known under a key, and makes up to p_limit of the jobs due that wait for it. Answers how
-- many rows went and how many jobs; when as many as p_limit, there may be more to wake.
-- +goose StatementBegin
CREATE FUNCTION fenceline.reset_limit(p_tenant text, p_key text, p_limit int, OUT rows bigint, OUT woken bigint) LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
    waiting uuid[];
BEGIN
    PERFORM fenceline.require_read_committed();
    DELETE FROM fenceline.limit_rates WHERE tenant = p_tenant AND key = p_key;
    GET DIAGNOSTICS rows = ROW_COUNT;
    DELETE FROM fenceline.limit_holds WHERE tenant = p_tenant AND key = p_key;
    GET DIAGNOSTICS n = ROW_COUNT; rows := rows + n;
    DELETE FROM fenceline.limit_circuits WHERE tenant = p_tenant AND key = p_key;
    GET DIAGNOSTICS n = ROW_COUNT; rows := rows + n;
    WITH old AS (SELECT s.tenant, s.key, s.slot_at, s.id FROM fenceline.limit_slots s WHERE s.tenant = p_tenant AND s.key = p_key
            ORDER BY s.job_id IS NULL, s.slot_at LIMIT p_limit FOR UPDATE SKIP LOCKED),
        gone AS (DELETE FROM fenceline.limit_slots s USING old WHERE (s.tenant, s.key, s.slot_at, s.id) = (old.tenant, old.key, old.slot_at, old.id) RETURNING s.job_id),
        left_line AS (DELETE FROM fenceline.limit_waiters w WHERE w.job_id IN (SELECT x.job_id FROM fenceline.limit_waiters x
            WHERE x.tenant = p_tenant AND x.key = p_key ORDER BY x.since LIMIT p_limit FOR UPDATE SKIP LOCKED) RETURNING w.job_id)
        SELECT array_agg(x.job_id) INTO waiting FROM (SELECT job_id FROM gone UNION ALL SELECT job_id FROM left_line) x WHERE x.job_id IS NOT NULL;
    woken := coalesce(cardinality(waiting), 0);
    UPDATE fenceline.jobs j SET due_at = clock_timestamp(), ring_at = clock_timestamp(),
        ready_at = CASE WHEN export_id IS NULL THEN clock_timestamp() END, waiting_for = CASE WHEN export_id IS NOT NULL THEN waiting_for END
    WHERE j.id IN (SELECT x.id FROM fenceline.jobs x WHERE x.id = ANY (waiting) AND x.state = 'queued'
        AND x.waiting_for IN ('rate', 'overlap', 'circuit') AND x.due_at > clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED);
END $$;
-- +goose StatementEnd
