-- The order that a lock service gives to those who hold a lease stands beside the token of the attempt that began under it, such as
-- etcd's revision. It is there to be read: nothing is compared with it, for the protected row is here and the token is its order.

-- +goose Up

-- No row is written anew: those that are there have none.
ALTER TABLE fenceline.attempts ADD COLUMN lease_order_name text CHECK (lease_order_name <> ''), ADD COLUMN lease_order_number bigint,
    ADD CONSTRAINT attempts_lease_order CHECK ((lease_order_name IS NULL) = (lease_order_number IS NULL));

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_lease_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'attempt %: the order of its lease never changes', OLD.id USING ERRCODE = 'FL001';
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard_lease_order BEFORE UPDATE OF lease_order_name, lease_order_number ON fenceline.attempts FOR EACH ROW
    WHEN ((NEW.lease_order_name, NEW.lease_order_number) IS DISTINCT FROM (OLD.lease_order_name, OLD.lease_order_number))
    EXECUTE FUNCTION fenceline.guard_lease_order();

-- begin_attempt (step 3): as before, and besides: with the order of the lease, if its service gave one. Workers of before, which
-- know of none, still call it with three arguments.
DROP FUNCTION fenceline.begin_attempt(uuid, uuid, text);
-- +goose StatementBegin
CREATE FUNCTION fenceline.begin_attempt(p_job uuid, p_attempt uuid, p_worker text, p_order_name text DEFAULT NULL, p_order bigint DEFAULT NULL,
    OUT outcome text, OUT token bigint, OUT number int) LANGUAGE plpgsql AS $$
DECLARE
    e fenceline.exports;
    j fenceline.jobs;
    capped boolean;
BEGIN
    PERFORM fenceline.require_read_committed();
    capped := fenceline.lock_caps();
    SELECT x.* INTO e FROM fenceline.exports x WHERE x.id = (SELECT export_id FROM fenceline.jobs WHERE id = p_job) FOR NO KEY UPDATE;
    IF NOT FOUND THEN outcome := 'unknown'; RETURN; END IF;
    SELECT * INTO j FROM fenceline.jobs WHERE id = p_job FOR NO KEY UPDATE;
    IF j.attempt_id = p_attempt AND j.state IN ('running', 'cancelling') THEN  -- asked again after a lost reply
        SELECT a.token, a.number INTO token, number FROM fenceline.attempts a WHERE a.id = p_attempt;
        outcome := 'begun';
        RETURN;
    END IF;
    IF j.state <> 'queued' OR j.due_at > clock_timestamp() OR j.waiting_for IN ('chain', 'cap') THEN outcome := 'not_due'; RETURN; END IF;
    IF e.deleted_at IS NOT NULL THEN
        UPDATE fenceline.jobs SET state = 'failed', error = 'the export was deleted', finished_at = clock_timestamp() WHERE id = p_job;
        outcome := 'gone';
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM fenceline.queues WHERE name = j.queue) THEN  -- rung for again when it goes on
        UPDATE fenceline.jobs SET ring_at = 'infinity', generation = generation + 1 WHERE id = p_job;
        outcome := 'held';
        RETURN;
    ELSIF EXISTS (SELECT FROM fenceline.installation WHERE maintenance_since IS NOT NULL) THEN
        UPDATE fenceline.jobs SET ring_at = clock_timestamp() + interval '5 seconds', generation = generation + 1 WHERE id = p_job;
        outcome := 'held';
        RETURN;
    ELSIF capped AND fenceline.cap_room(j.queue, j.kind, j.tenant) <= 0 THEN
        UPDATE fenceline.jobs SET waiting_for = 'cap', ring_at = 'infinity', generation = generation + 1 WHERE id = p_job;
        outcome := 'held';
        RETURN;
    END IF;
    IF fenceline.epoch_trouble() IS NOT NULL THEN  -- its token could be one that was given out before
        UPDATE fenceline.jobs SET ring_at = clock_timestamp() + interval '5 seconds', generation = generation + 1 WHERE id = p_job;
        outcome := 'held';
        RETURN;
    END IF;
    token := nextval('fenceline.fence_tokens');
    IF token <= e.issued_token THEN
        RAISE EXCEPTION 'the sequence fenceline.fence_tokens gave % although % was given out before: it was set back (restore or logical replication)',
            token, e.issued_token USING ERRCODE = 'FL002',
            HINT = 'SELECT setval(''fenceline.fence_tokens'', (SELECT max(issued_token) FROM fenceline.exports))';
    END IF;
    number := j.attempts + 1;
    UPDATE fenceline.exports SET issued_token = begin_attempt.token, changed_at = clock_timestamp(),
        title = CASE WHEN j.title <> '' THEN j.title ELSE title END WHERE id = e.id;
    INSERT INTO fenceline.attempts (id, export_id, job_id, number, token, worker, lease_order_name, lease_order_number)
        VALUES (p_attempt, e.id, p_job, begin_attempt.number, begin_attempt.token, p_worker, p_order_name, p_order);
    UPDATE fenceline.jobs SET state = 'running', waiting_for = NULL, attempt_id = p_attempt, attempts = begin_attempt.number,
        started_at = coalesce(started_at, clock_timestamp()) WHERE id = p_job;
    outcome := 'begun';
END $$;
-- +goose StatementEnd
