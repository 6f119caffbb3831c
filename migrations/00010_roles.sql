-- What people and programs may do, besides whose rows they see.

-- +goose Up

-- Who was there before could do everything. New users are made with a role by the program.
ALTER TABLE fenceline.users ADD COLUMN role text NOT NULL DEFAULT 'admin'
    CHECK (role IN ('viewer', 'requester', 'operator', 'admin'));

ALTER TABLE fenceline.api_tokens ADD COLUMN verbs text[] NOT NULL DEFAULT '{view,request,operate,administer}'
    CHECK (verbs <> '{}' AND verbs <@ '{view,request,operate,administer}'::text[] AND array_ndims(verbs) = 1);
