package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TryPointer asks the database to make an attempt the current one of its export
// past every function, by a bare UPDATE, as a program would that knows nothing
// of the protocol. It answers with which words the database refused. Empty
// words mean that it would have let it happen; it did not, because the
// transaction is rolled back either way. It is safe for concurrent use.
func (s *Store) TryPointer(ctx context.Context, export, attempt uuid.UUID, token int64) (refusal string, err error) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return "", fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	_, err = tx.Exec(ctx, `UPDATE fenceline.exports SET last_token = $2, attempt_id = $3, published_at = clock_timestamp() WHERE id = $1`, export, token, attempt)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && refused(err) && !passing(err) {
		return pg.Message, nil
	}
	if err != nil {
		return "", fmt.Errorf("try to move the pointer of export %s: %w", export, err)
	}
	return "", nil
}

// Scratch is a table of one row that no fence protects, in a schema of its own:
// what `fenceline drill pause --unfenced` writes to. It is safe for concurrent
// use, also by several processes.
type Scratch struct {
	store *Store
	table string // quoted
}

// scratchSchema holds the scratch tables of the drills that run. Creating and
// dropping it is done one after the other: two at once can fail otherwise. The
// key is of the kind that store.go explains.
const (
	scratchSchema = "fenceline_drill"
	lockScratch   = "SELECT pg_advisory_xact_lock(x'46454e4300000003'::bigint); "
)

// ScratchRow is the row of a [Scratch]: a report made of a source.
type ScratchRow struct {
	Source  int64  `json:"source"`  // what a report is made of
	Report  int64  `json:"report"`  // what was published: the source as its writer had read it
	Version int64  `json:"version"` // one more than its writer had read
	Writer  string `json:"writer"`
}

// Scratch names a scratch table. It may not exist.
func (s *Store) Scratch(name string) *Scratch {
	return &Scratch{store: s, table: pgx.Identifier{scratchSchema, name}.Sanitize()}
}

// Create makes the table, and the schema when it is the first.
func (sc *Scratch) Create(ctx context.Context, row ScratchRow) error {
	err := sc.store.Exec(ctx, lockScratch+"CREATE SCHEMA IF NOT EXISTS "+scratchSchema+"; CREATE TABLE "+sc.table+
		" (source bigint NOT NULL, report bigint NOT NULL, version bigint NOT NULL, writer text NOT NULL)")
	if err != nil {
		return fmt.Errorf("create the scratch table: %w", err)
	}
	_, err = sc.store.pool.Exec(ctx, "INSERT INTO "+sc.table+" VALUES ($1, $2, $3, $4)", row.Source, row.Report, row.Version, row.Writer)
	if err != nil {
		return fmt.Errorf("fill the scratch table: %w", err)
	}
	return nil
}

// Read reads the row.
func (sc *Scratch) Read(ctx context.Context) (row ScratchRow, err error) {
	err = sc.store.pool.QueryRow(ctx, "SELECT source, report, version, writer FROM "+sc.table).Scan(&row.Source, &row.Report, &row.Version, &row.Writer)
	if err != nil {
		return row, fmt.Errorf("read the scratch table: %w", err)
	}
	return row, nil
}

// SetSource changes what the next report is made of.
func (sc *Scratch) SetSource(ctx context.Context, source int64) error {
	if _, err := sc.store.pool.Exec(ctx, "UPDATE "+sc.table+" SET source = $1", source); err != nil {
		return fmt.Errorf("change the scratch table: %w", err)
	}
	return nil
}

// Publish writes the report without any check, and answers how many rows the
// database says it has changed.
func (sc *Scratch) Publish(ctx context.Context, row ScratchRow) (int64, error) {
	tag, err := sc.store.pool.Exec(ctx, "UPDATE "+sc.table+" SET report = $1, version = $2, writer = $3", row.Report, row.Version, row.Writer)
	if err != nil {
		return 0, fmt.Errorf("write the scratch table: %w", err)
	}
	return tag.RowsAffected(), nil
}

// Drop removes the table, and the schema when no other is in it. Dropping what is
// gone is no error.
func (sc *Scratch) Drop(ctx context.Context) error {
	err := sc.store.Exec(ctx, lockScratch+"DROP TABLE IF EXISTS "+sc.table+`; DO $$ BEGIN
		IF NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('`+scratchSchema+`')) THEN
			DROP SCHEMA IF EXISTS `+scratchSchema+`;
		END IF;
	END $$`)
	if err != nil {
		return fmt.Errorf("drop the scratch table: %w", err)
	}
	return nil
}
