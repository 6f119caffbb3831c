-- What a search of exports looks at, in small letters already: to fold the letters of ten thousand titles and keys for each
-- search cost more than everything else of it. Each publication folds one title and one key
-- for it, a millionth of a second, and no index is kept. The table is written anew once, which takes seconds for a million exports.

-- +goose Up

ALTER TABLE fenceline.exports ADD COLUMN searched text GENERATED ALWAYS AS (lower(title) || E'\n' || lower(key)) STORED;

-- What has failed of a kind or in a queue is put into its groups from the index alone: the planner read every failed job from
-- the table instead, twenty thousand pages for one page. Only failures pay, with sixteen bytes in each of the two.
DROP INDEX fenceline.jobs_failed_of_kind;
CREATE INDEX jobs_failed_of_kind ON fenceline.jobs (kind, finished_at DESC, id DESC) INCLUDE (failed_group) WHERE state = 'failed';
DROP INDEX fenceline.jobs_failed_of_queue;
CREATE INDEX jobs_failed_of_queue ON fenceline.jobs (queue, finished_at DESC, id DESC) INCLUDE (failed_group) WHERE state = 'failed';
