-- What `fenceline lab --save` saw last of each backend of leases, for the dashboard. It names no server, no tenant and no
-- job: timelines of two processes that the lab itself has started.

-- +goose Up

CREATE TABLE fenceline.lab_results (
    backend text PRIMARY KEY CHECK (backend <> '' AND length(backend) <= 40),
    ran_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    result  jsonb NOT NULL CHECK (jsonb_typeof(result) = 'object' AND length(result::text) <= 1000000)
);
