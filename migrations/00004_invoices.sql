-- Jobs that were asked for together, and numbers of documents without gaps.

-- +goose Up

-- What has become of a batch is counted from its jobs, never kept: a worker that
-- dies cannot leave a count behind.
CREATE TABLE fenceline.batches (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL CHECK (tenant <> ''),
    key          text NOT NULL CHECK (key <> ''), -- asking for the same again finds the batch
    title        text NOT NULL,
    requested_by text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (tenant, key)
);
CREATE INDEX batches_of_tenant ON fenceline.batches (tenant, id DESC);
ALTER TABLE fenceline.jobs ADD COLUMN batch_id uuid REFERENCES fenceline.batches ON DELETE RESTRICT;
CREATE INDEX jobs_failed ON fenceline.jobs (tenant, id) WHERE state = 'failed';
CREATE INDEX jobs_of_batch ON fenceline.jobs (batch_id, state, id) WHERE batch_id IS NOT NULL;

CREATE TABLE fenceline.invoice_series (
    tenant     text NOT NULL CHECK (tenant <> ''),
    name       text NOT NULL CHECK (name <> ''),
    prefix     text NOT NULL,
    digits     int NOT NULL CHECK (digits BETWEEN 1 AND 18),
    first      bigint NOT NULL CHECK (first >= 0),
    next       bigint NOT NULL CHECK (next >= first),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, name)
);

-- An issued document. Rendering it is a job like any other: it may fail, be
-- fenced or be repeated, and takes no number.
CREATE TABLE fenceline.invoices (
    id          uuid PRIMARY KEY,
    tenant      text NOT NULL,
    series      text NOT NULL,
    n           bigint NOT NULL,
    number      text NOT NULL CHECK (number <> ''),
    customer    text CHECK (customer <> ''), -- with the period: what makes a repeated run find it
    period      text CHECK (period <> ''),
    document    jsonb NOT NULL,
    issued_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    voided_at   timestamptz,
    void_reason text,
    FOREIGN KEY (tenant, series) REFERENCES fenceline.invoice_series ON DELETE RESTRICT,
    UNIQUE (tenant, series, n),
    UNIQUE (tenant, number),
    CHECK ((customer IS NULL) = (period IS NULL)),
    CHECK ((voided_at IS NULL) = (void_reason IS NULL))
);
CREATE UNIQUE INDEX invoices_once ON fenceline.invoices (tenant, series, customer, period) WHERE customer IS NOT NULL AND voided_at IS NULL;

-- A number that was given out is never given out again, nor lost.
-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_series() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.next > OLD.first THEN
            RAISE EXCEPTION 'series % has given out numbers and cannot be deleted', OLD.name;
        END IF;
        RETURN OLD;
    END IF;
    IF (NEW.tenant, NEW.name) IS DISTINCT FROM (OLD.tenant, OLD.name) OR NEW.next NOT IN (OLD.next, OLD.next + 1) THEN
        RAISE EXCEPTION 'series %: numbers are given out one after the other', OLD.name;
    END IF;
    IF OLD.next > OLD.first AND (NEW.prefix, NEW.digits, NEW.first) IS DISTINCT FROM (OLD.prefix, OLD.digits, OLD.first) THEN
        RAISE EXCEPTION 'series % has given out numbers: they keep their form; begin a new series', OLD.name;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON fenceline.invoice_series FOR EACH ROW EXECUTE FUNCTION fenceline.guard_series();

-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_invoice() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'invoice % was issued and cannot be deleted; void it', OLD.number;
    END IF;
    IF (NEW.id, NEW.tenant, NEW.series, NEW.n, NEW.number, NEW.customer, NEW.period, NEW.document, NEW.issued_at)
        IS DISTINCT FROM (OLD.id, OLD.tenant, OLD.series, OLD.n, OLD.number, OLD.customer, OLD.period, OLD.document, OLD.issued_at) THEN
        RAISE EXCEPTION 'invoice % was issued and cannot be changed; void it, or issue a credit note', OLD.number;
    END IF;
    IF OLD.voided_at IS NOT NULL THEN
        RAISE EXCEPTION 'invoice % is void already', OLD.number;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON fenceline.invoices FOR EACH ROW EXECUTE FUNCTION fenceline.guard_invoice();

-- issue_invoice: takes the next number of a series, in the caller's transaction, and
-- keeps the document under it. The series' row stays locked until the transaction
-- ends: that is the price of no gaps, so the transaction should be short. With a
-- customer and a period a document that is there already is answered instead.
--   p_attempt  when given, the attempt must still be the one that its job runs:
--              a stale attempt issues nothing
-- Answers no row for a stale attempt and raises when there is no such series.
-- +goose StatementBegin
CREATE FUNCTION fenceline.issue_invoice(p_id uuid, p_attempt uuid, p_tenant text, p_series text, p_customer text, p_period text, p_document jsonb)
RETURNS TABLE (o_id uuid, o_number text, o_document jsonb, o_new boolean) LANGUAGE plpgsql AS $$
DECLARE
    s fenceline.invoice_series;
    i fenceline.invoices;
BEGIN
    PERFORM fenceline.require_read_committed();
    IF p_attempt IS NOT NULL THEN
        PERFORM FROM fenceline.jobs j WHERE j.attempt_id = p_attempt AND j.state = 'running' FOR SHARE;
        IF NOT FOUND THEN RETURN; END IF;
    END IF;
    SELECT * INTO s FROM fenceline.invoice_series WHERE tenant = p_tenant AND name = p_series FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no series % of tenant %', p_series, p_tenant USING ERRCODE = 'no_data_found';
    END IF;
    IF p_customer IS NOT NULL THEN
        -- A statement of its own, after the lock: it sees what the holder before us has committed.
        SELECT * INTO i FROM fenceline.invoices WHERE tenant = p_tenant AND series = p_series AND customer = p_customer AND period = p_period AND voided_at IS NULL;
        IF FOUND THEN
            RETURN QUERY SELECT i.id, i.number, i.document, false;
            RETURN;
        END IF;
    END IF;
    UPDATE fenceline.invoice_series SET next = next + 1 WHERE tenant = p_tenant AND name = p_series;
    INSERT INTO fenceline.invoices (id, tenant, series, n, number, customer, period, document)
        VALUES (p_id, p_tenant, p_series, s.next, s.prefix || lpad(s.next::text, greatest(s.digits, length(s.next::text)), '0'), p_customer, p_period,
            p_document || jsonb_build_object('number', s.prefix || lpad(s.next::text, greatest(s.digits, length(s.next::text)), '0')))
        RETURNING * INTO i;
    RETURN QUERY SELECT i.id, i.number, i.document, true;
END $$;
-- +goose StatementEnd
