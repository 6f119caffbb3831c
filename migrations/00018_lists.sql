-- Lists of jobs that wait, run or have failed, the newest first, however many have ended since.

-- +goose Up

CREATE INDEX jobs_live ON fenceline.jobs (id) WHERE state IN ('queued', 'running', 'cancelling');
CREATE INDEX jobs_failed_recent ON fenceline.jobs (id) WHERE state = 'failed';
