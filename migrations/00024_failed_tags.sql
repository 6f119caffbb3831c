-- +goose Up

-- The failed jobs with a tag: those with the tag and those that failed, of which there are many each, were read
-- whole to find what they have in common.
CREATE INDEX jobs_failed_tagged ON fenceline.jobs USING gin (tags) WITH (fastupdate = off) WHERE state = 'failed' AND tags <> '{}';
