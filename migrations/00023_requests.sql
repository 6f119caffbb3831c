-- What was answered to requests with an idempotency key that make more than one thing.

-- +goose Up

-- The tenant is empty for callers who see all. Neither the key nor the request is kept: the hash of the request is
-- keyed with the key, so that nobody who reads the table can try out what a request held.
CREATE TABLE fenceline.requests (
    tenant       text NOT NULL,
    key_hash     bytea NOT NULL CHECK (length(key_hash) = 32),
    request_hash bytea NOT NULL CHECK (length(request_hash) = 32),
    status       int NOT NULL CHECK (status BETWEEN 200 AND 299),
    location     text NOT NULL DEFAULT '',
    answer       bytea NOT NULL,
    made_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, key_hash)
);
CREATE INDEX requests_by_age ON fenceline.requests (made_at);
