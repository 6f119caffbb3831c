-- How people and programs sign in: passwords, a provider's identities, sessions that can be seen and ended,
-- tokens that expire.

-- +goose Up

-- Whoever makes a user says what it may do: nobody becomes an admin by being forgotten.
ALTER TABLE fenceline.users ALTER COLUMN role DROP DEFAULT;
ALTER TABLE fenceline.users ADD COLUMN password text CHECK (password LIKE '$argon2id$%' AND length(password) <= 300);
ALTER TABLE fenceline.users ADD COLUMN password_at timestamptz;
ALTER TABLE fenceline.users ADD COLUMN signed_in_at timestamptz;
ALTER TABLE fenceline.users ADD CONSTRAINT users_password_at CHECK ((password IS NULL) = (password_at IS NULL));
CREATE INDEX users_of_tenant ON fenceline.users (tenant, name);

-- Who a user is elsewhere. Not the address of mail: a provider may give it to somebody else later.
CREATE TABLE fenceline.identities (
    issuer     text NOT NULL CHECK (issuer <> '' AND length(issuer) <= 500),
    subject    text NOT NULL CHECK (subject <> '' AND length(subject) <= 255),
    user_id    uuid NOT NULL REFERENCES fenceline.users ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX identities_of_user ON fenceline.identities (user_id);

-- A link of nobody is for the first user there is.
ALTER TABLE fenceline.signin_links ADD COLUMN user_id uuid REFERENCES fenceline.users ON DELETE CASCADE;
CREATE INDEX signin_links_of_user ON fenceline.signin_links (user_id);

ALTER TABLE fenceline.sessions ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid();
ALTER TABLE fenceline.sessions ADD COLUMN seen_at timestamptz NOT NULL DEFAULT clock_timestamp();
ALTER TABLE fenceline.sessions ADD COLUMN address text NOT NULL DEFAULT '' CHECK (length(address) <= 100);
ALTER TABLE fenceline.sessions ADD COLUMN browser text NOT NULL DEFAULT '' CHECK (length(browser) <= 300);
ALTER TABLE fenceline.sessions ADD COLUMN via text NOT NULL DEFAULT 'link' CHECK (via IN ('link', 'password', 'provider'));
CREATE UNIQUE INDEX sessions_id ON fenceline.sessions (id);
CREATE INDEX sessions_of_user ON fenceline.sessions (user_id, seen_at);

ALTER TABLE fenceline.api_tokens ADD COLUMN expires_at timestamptz;
ALTER TABLE fenceline.api_tokens ADD COLUMN created_by text NOT NULL DEFAULT '' CHECK (length(created_by) <= 200);
CREATE INDEX api_tokens_of_tenant ON fenceline.api_tokens (tenant, created_at, id);
CREATE INDEX api_tokens_newest ON fenceline.api_tokens (created_at, id);

-- Somebody must be able to let others in: the last admin of all tenants who can sign in stays one.
-- The lock lets two who would each leave the other as the last decide one after the other.
-- +goose StatementBegin
CREATE FUNCTION fenceline.guard_user() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    leaves boolean := TG_OP = 'DELETE';
BEGIN
    IF TG_OP = 'UPDATE' THEN
        leaves := NEW.role <> 'admin' OR NEW.tenant IS NOT NULL OR NEW.disabled_at IS NOT NULL;
    END IF;
    IF leaves AND OLD.role = 'admin' AND OLD.tenant IS NULL AND OLD.disabled_at IS NULL THEN
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE EXCEPTION 'an older snapshot cannot see whether another admin is left' USING ERRCODE = 'FL003';
        END IF;
        PERFORM pg_advisory_xact_lock(1178947139, 11);
        IF NOT EXISTS (SELECT FROM fenceline.users u
            WHERE u.role = 'admin' AND u.tenant IS NULL AND u.disabled_at IS NULL AND u.id <> OLD.id) THEN
            RAISE EXCEPTION 'user % is the last admin of all tenants', OLD.name USING ERRCODE = 'FL011';
        END IF;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON fenceline.users FOR EACH ROW EXECUTE FUNCTION fenceline.guard_user();
