-- How many exports a clean-up let expire, and lists of what is pinned and on hold, the newest first.

-- +goose Up

ALTER TABLE fenceline.sweeps ADD COLUMN expired bigint NOT NULL DEFAULT 0;

CREATE INDEX exports_by_pin ON fenceline.exports (pinned_at, id) WHERE pinned_at IS NOT NULL;
CREATE INDEX attempts_by_pin ON fenceline.attempts (pinned_at, id) WHERE pinned_at IS NOT NULL;
CREATE INDEX attempts_pinned_of_export ON fenceline.attempts (export_id) WHERE pinned_at IS NOT NULL;
CREATE INDEX holds_by_time ON fenceline.holds (placed_at, id) WHERE released_at IS NULL;
