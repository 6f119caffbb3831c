// Package migrations holds the database schema as numbered SQL files that only
// go forward. It imports nothing of ours: package storage runs it.
package migrations

import "embed"

// Files are the migrations, to be run in the order of their numbers.
//
//go:embed *.sql
var Files embed.FS

// Schema is the PostgreSQL schema that holds every table of Fenceline. It is
// created before the first migration, because the table that records which
// migrations ran lives in it too.
const Schema = "fenceline"
