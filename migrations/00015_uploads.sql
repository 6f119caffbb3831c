-- +goose Up

-- The objects that attempts are sending to a bucket in parts. The parts cost room and are in no listing of objects, so
-- each upload is here before its first part, and until it is completed or aborted: the clean-up ends those of a worker that
-- was killed.
CREATE TABLE fenceline.uploads (
    attempt_id uuid NOT NULL REFERENCES fenceline.attempts (id),
    upload_id text NOT NULL CHECK (length(upload_id) BETWEEN 1 AND 2000), -- what the store calls it
    object text NOT NULL CHECK (object <> ''),
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (attempt_id, upload_id)
);

-- begin_upload: records an upload of attempt aid, or answers why it may send nothing any more: unknown, or the state it was
-- found in. A clean-up that condemns the attempt waits for this, and finds the upload.
-- +goose StatementBegin
CREATE FUNCTION fenceline.begin_upload(aid uuid, object text, upload_id text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    state text;
BEGIN
    SELECT a.state INTO state FROM fenceline.attempts a WHERE a.id = aid FOR SHARE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF state <> 'running' THEN RETURN state; END IF;
    INSERT INTO fenceline.uploads (attempt_id, upload_id, object) VALUES (aid, begin_upload.upload_id, begin_upload.object)
        ON CONFLICT DO NOTHING; -- the answer was lost, and it is asked again
    RETURN 'begun';
END $$;
-- +goose StatementEnd

-- Only an attempt that runs sends anything, whoever records it.
-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_upload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'an upload does not change: attempt %', OLD.attempt_id USING ERRCODE = 'FL001';
    END IF;
    PERFORM FROM fenceline.attempts WHERE id = NEW.attempt_id AND state = 'running' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'attempt % does not run and cannot begin an upload', NEW.attempt_id USING ERRCODE = 'FL001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON fenceline.uploads FOR EACH ROW EXECUTE FUNCTION fenceline.guard_upload();
