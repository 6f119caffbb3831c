-- Fences for what is not ours: tokens for any resource, and the check that a
-- transaction of the application makes before it writes under one.
--
-- These functions may be called from any language, in the application's own
-- transactions. A fence's row is locked before the application's rows, and by a
-- transaction that writes under several fences always in the same order.

-- +goose Up

-- Every number of a row comes from one sequence and is drawn while the row is locked, so comparing two of them says
-- which came first. No column that changes is in an index: drawing and writing stay cheap on a row that is hot.
CREATE TABLE fenceline.fences (
    tenant       text NOT NULL CHECK (tenant <> '' AND octet_length(tenant) <= 63),
    resource     text COLLATE "C" NOT NULL CHECK (resource <> '' AND octet_length(resource) <= 500),
    -- the token that the row began with. Rows that nobody uses may be deleted: a token from before that is below the
    -- first one of the new row, and refused
    first_token  bigint NOT NULL,
    issued_token bigint NOT NULL,
    holder       text NOT NULL DEFAULT '' CHECK (octet_length(holder) <= 200), -- who drew issued_token
    issued_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_token   bigint NOT NULL DEFAULT 0,
    last_op      bigint NOT NULL DEFAULT 0, -- 0: the one write of last_token; else the newest of its operations 1, 2, 3, …
    last_write   bigint NOT NULL DEFAULT 0, -- drawn by that write: above every token that was drawn before it
    written_at   timestamptz,
    PRIMARY KEY (tenant, resource),
    CHECK (first_token > 0 AND first_token <= issued_token),
    CHECK (last_token = 0 OR last_token >= first_token AND last_token <= issued_token AND last_token < last_write),
    CHECK (last_token > 0 AND last_op >= 0 OR last_token = 0 AND last_op = 0 AND last_write = 0),
    CHECK ((last_token = 0) = (written_at IS NULL))
) WITH (fillfactor = 50);

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.issued_token IS NOT NULL OR NEW.first_token IS NOT NULL OR NEW.last_token <> 0 THEN
            RAISE EXCEPTION 'fence %: begins with a token that is drawn here', NEW.resource USING ERRCODE = 'FL001';
        END IF;
        NEW.issued_token := nextval('fenceline.fence_tokens');
        NEW.first_token := NEW.issued_token;
        RETURN NEW;
    END IF;
    IF (NEW.tenant, NEW.resource, NEW.first_token) IS DISTINCT FROM (OLD.tenant, OLD.resource, OLD.first_token) THEN
        RAISE EXCEPTION 'fence %: its identity never changes', OLD.resource USING ERRCODE = 'FL001';
    END IF;
    IF NEW.issued_token <> OLD.issued_token AND NEW.issued_token <= greatest(OLD.issued_token, OLD.last_write)
        OR NEW.last_write <> OLD.last_write AND NEW.last_write <= greatest(OLD.issued_token, OLD.last_write) THEN
        RAISE EXCEPTION 'fence %: % would not be above %; the sequence fenceline.fence_tokens was set back', OLD.resource,
            CASE WHEN NEW.issued_token <> OLD.issued_token THEN NEW.issued_token ELSE NEW.last_write END,
            greatest(OLD.issued_token, OLD.last_write) USING ERRCODE = 'FL002';
    END IF;
    IF (NEW.last_token, NEW.last_op) < (OLD.last_token, OLD.last_op) THEN
        RAISE EXCEPTION 'fence %: what was written last would fall from (%, %) to (%, %)', OLD.resource,
            OLD.last_token, OLD.last_op, NEW.last_token, NEW.last_op USING ERRCODE = 'FL001';
    END IF;
    IF NEW.last_token = OLD.last_token AND NEW.last_op <> OLD.last_op AND (OLD.last_op = 0 OR NEW.last_op <> OLD.last_op + 1)
        OR NEW.last_token > OLD.last_token AND NEW.last_op > 1 THEN
        RAISE EXCEPTION 'fence %: operation % of token % cannot follow operation % of token %', OLD.resource,
            NEW.last_op, NEW.last_token, OLD.last_op, OLD.last_token USING ERRCODE = 'FL001';
    END IF;
    IF ((NEW.last_token, NEW.last_op) = (OLD.last_token, OLD.last_op)) <> (NEW.last_write = OLD.last_write) THEN
        RAISE EXCEPTION 'fence %: a write and its number come together', OLD.resource USING ERRCODE = 'FL001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON fenceline.fences FOR EACH ROW EXECUTE FUNCTION fenceline.guard_fence();

-- fence_token: gives out a token for a resource, above every one before it. Call it outside of any transaction, or
-- commit before reading what the write will be made of: until then nobody else can draw or write.
-- nextval is evaluated again when the row lock had to be waited for, so the tokens of a resource rise in commit order.
-- +goose StatementBegin
CREATE FUNCTION fenceline.fence_token(p_tenant text, p_resource text, p_holder text DEFAULT '') RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    token bigint;
BEGIN
    PERFORM fenceline.require_read_committed();
    IF current_setting('synchronous_commit') = 'off' THEN -- a crash could take the token back and give it to somebody else
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    UPDATE fenceline.fences SET issued_token = nextval('fenceline.fence_tokens'), holder = p_holder, issued_at = clock_timestamp()
        WHERE tenant = p_tenant AND resource = p_resource RETURNING issued_token INTO token;
    IF NOT FOUND THEN -- the trigger draws for a new row; another session may make it first
        INSERT INTO fenceline.fences AS f (tenant, resource, holder) VALUES (p_tenant, p_resource, p_holder)
            ON CONFLICT (tenant, resource) DO UPDATE SET issued_token = nextval('fenceline.fence_tokens'), holder = EXCLUDED.holder, issued_at = clock_timestamp()
            RETURNING f.issued_token INTO token;
    END IF;
    RETURN token;
END $$;
-- +goose StatementEnd

-- fence_write: lets the caller's transaction write under a token, or raises, so that it cannot commit. Nobody else can
-- draw a token of the resource or write under one until the transaction ends; one that is rolled back leaves no trace.
--   p_op           0 when the token is for one write; 1, 2, 3, … for an ordered sequence of them
--   p_newest_wins  lets the write replace what an older token has written since this one was drawn. Only right when it
--                  is made of nothing that was read from the resource.
--   p_job, p_run   when given, the job must still be run by that run. Whoever runs it next draws its token after this
--                  transaction or is refused, so the job's row need not be locked
-- Raises
--   FL010  refused: another token has written. The detail is {"reason", "by"}: newer_token (by a token above this one),
--          written_since (by an older one, after this one was drawn: what was read since may be out of date),
--          forgotten (the row was deleted since, or the token is of no row), handed_on or cancelled (the job was)
--   FL011  the token, or its operation, was written before: an earlier try was committed
--   FL012  no such token, operations out of order, or both policies under one token
-- +goose StatementBegin
CREATE FUNCTION fenceline.fence_write(p_tenant text, p_resource text, p_token bigint, p_op bigint DEFAULT 0, p_newest_wins boolean DEFAULT false,
    p_job uuid DEFAULT NULL, p_run uuid DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    f fenceline.fences;
    reason text;
    job_state text;
BEGIN
    PERFORM fenceline.require_read_committed();
    IF p_tenant IS NULL OR p_resource IS NULL OR p_token IS NULL OR p_op IS NULL OR p_newest_wins IS NULL OR p_op < 0 THEN
        RAISE EXCEPTION 'a write needs a tenant, a resource, a token and an operation from 0' USING ERRCODE = 'FL012';
    END IF;
    SELECT x.* INTO f FROM fenceline.fences x WHERE x.tenant = p_tenant AND x.resource = p_resource FOR NO KEY UPDATE;
    IF NOT FOUND OR p_token < f.first_token THEN
        reason := 'forgotten';
    ELSIF p_token > f.issued_token THEN
        RAISE EXCEPTION 'fence %: token % was not given out, or by a transaction that was rolled back', p_resource, p_token USING ERRCODE = 'FL012';
    ELSIF f.last_token > p_token THEN
        reason := 'newer_token';
    ELSIF f.last_token < p_token AND f.last_write > p_token AND NOT p_newest_wins THEN
        reason := 'written_since';
    END IF;
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION 'fence %: token % is refused (%)', p_resource, p_token, reason USING ERRCODE = 'FL010',
            DETAIL = json_build_object('reason', reason, 'by', CASE reason WHEN 'forgotten' THEN coalesce(f.first_token, 0) ELSE f.last_token END)::text;
    END IF;
    IF f.last_token = p_token AND (p_op = 0) <> (f.last_op = 0) THEN
        RAISE EXCEPTION 'fence %: token % is for one write or for operations in order, not for both', p_resource, p_token USING ERRCODE = 'FL012';
    ELSIF f.last_token = p_token AND p_op <= f.last_op THEN
        RAISE EXCEPTION 'fence %: operation % of token % was written before', p_resource, p_op, p_token USING ERRCODE = 'FL011';
    ELSIF p_op > (CASE WHEN f.last_token = p_token THEN f.last_op + 1 ELSE 1 END) THEN
        RAISE EXCEPTION 'fence %: operation % of token % comes too early; the next one is %', p_resource, p_op, p_token,
            CASE WHEN f.last_token = p_token THEN f.last_op + 1 ELSE 1 END USING ERRCODE = 'FL012';
    END IF;
    IF p_run IS NOT NULL THEN
        SELECT j.state INTO job_state FROM fenceline.jobs j WHERE j.id = p_job AND j.run_id = p_run AND j.state IN ('running', 'cancelling');
        IF job_state IS DISTINCT FROM 'running' THEN
            reason := CASE job_state WHEN 'cancelling' THEN 'cancelled' ELSE 'handed_on' END;
            RAISE EXCEPTION 'fence %: token % is refused (its job was %)', p_resource, p_token, reason USING ERRCODE = 'FL010',
                DETAIL = json_build_object('reason', reason, 'by', 0)::text;
        END IF;
    END IF;
    UPDATE fenceline.fences SET last_token = p_token, last_op = p_op, last_write = nextval('fenceline.fence_tokens'), written_at = clock_timestamp()
        WHERE tenant = p_tenant AND resource = p_resource;
END $$;
-- +goose StatementEnd
