-- What a preview of a rule reads: what would come due by it, not all that it is for.

-- +goose Up

-- Exports of a tenant's kind by the age of what is current; each publication moves its export to the end of one such range.
CREATE INDEX exports_by_age ON fenceline.exports (tenant, kind, published_at, id) WHERE deleted_at IS NULL;
-- Replaced publications of a tenant by when they were replaced, whatever the clean-up has found out about them.
CREATE INDEX attempts_by_replacement ON fenceline.attempts (tenant, replaced_at, id) WHERE state = 'superseded';
