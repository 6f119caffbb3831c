-- What a search of exports looks at, in small letters already: to fold the letters of ten thousand titles and keys for each
-- search cost more than everything else of it. Each publication folds one title and one key
-- for it, a millionth of a second, and no index is kept. The table is written anew once, which takes seconds for a million exports.

-- +goose Up

ALTER TABLE fenceline.exports ADD COLUMN searched text GENERATED ALWAYS AS (lower(title) || E'\n' || lower(key)) STORED;
