package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrRecoveryNeeded means that the database and its files do not remember the
// same, or that the database does not know itself any more; see [RecoveryError].
var ErrRecoveryNeeded = errors.New("recovery is needed")

// RecoveryError says why nothing is published and nothing cleaned up. It matches
// [ErrRecoveryNeeded].
type RecoveryError struct {
	Why string // a phrase for an operator
}

// Error says why, and what to do.
func (e *RecoveryError) Error() string {
	return "recovery is needed: " + e.Why + "; nothing is published or cleaned up until `fenceline recover` has run"
}

// Is makes errors.Is(err, ErrRecoveryNeeded) true.
func (e *RecoveryError) Is(target error) bool { return target == ErrRecoveryNeeded }

// recoveryNeeded recognises what the database refuses with FL004.
func recoveryNeeded(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "FL004" {
		return err
	}
	return &RecoveryError{Why: strings.TrimPrefix(pg.Message, "recovery is needed: ")}
}

// Epoch is one life of a database: it ends when the database is restored,
// promoted or copied, and the next one begins with a [Recovery].
type Epoch struct {
	ID     uuid.UUID `json:"id"`
	Number int64     `json:"number"`
	State  string    `json:"state"` // open, stopped or recovering
	// Trouble is why nothing may be published, as far as the database itself can tell; empty when all is well.
	Trouble string `json:"trouble,omitempty"`
	// Fingerprint is by what the epoch remembers its database, Here what the database is now: system identifier, timeline
	// and oid, each "?" where we may not ask. The first is empty until something was published or started.
	Fingerprint string `json:"fingerprint,omitempty"`
	Here        string `json:"here"`
	Database    string `json:"database,omitempty"` // its name when it was remembered
	// Beats counts how often the file store was told how far the database is, Confirmed is the last that it has certainly heard.
	Beats       int64      `json:"beats"`
	Confirmed   int64      `json:"confirmed"`
	Token       int64      `json:"token"` // the newest that was given out
	BeganAt     time.Time  `json:"began_at"`
	RecoveredAt *time.Time `json:"recovered_at,omitempty"`

	next *uuid.UUID // that a recovery is about to begin
	now  time.Time
	name string // of the database now
}

// Known answers how much of the fingerprint the server lets us see: the system
// identifier and the timeline. Without them a restored database is recognised
// by what the files remember only.
func (e Epoch) Known() (system, timeline bool) {
	parts := strings.Fields(e.Here)
	return len(parts) == 3 && parts[0] != "?", len(parts) == 3 && parts[1] != "?"
}

const epochSQL = `SELECT e.id, e.number, e.state, coalesce(fenceline.epoch_trouble(), ''), coalesce(e.fingerprint, ''), fenceline.database_here(),
	coalesce(e.database, ''), e.beats, e.confirmed, s.last_value - CASE WHEN s.is_called THEN 0 ELSE 1 END, e.began_at, e.recovered_at, e.next_id,
	clock_timestamp(), current_database()::text FROM fenceline.epoch e CROSS JOIN fenceline.fence_tokens s`

func scanEpoch(row pgx.Row) (e Epoch, err error) {
	err = row.Scan(&e.ID, &e.Number, &e.State, &e.Trouble, &e.Fingerprint, &e.Here, &e.Database, &e.Beats, &e.Confirmed, &e.Token, &e.BeganAt,
		&e.RecoveredAt, &e.next, &e.now, &e.name)
	if errors.Is(err, pgx.ErrNoRows) {
		return e, &RecoveryError{Why: "the row of fenceline.epoch is missing"}
	}
	if err != nil {
		return e, fmt.Errorf("read the epoch (were the migrations run?): %w", err)
	}
	return e, nil
}

// Epoch reads the epoch of the database.
func (s *Store) Epoch(ctx context.Context) (Epoch, error) {
	return scanEpoch(s.pool.QueryRow(ctx, epochSQL))
}

// Epoch is [Store.Epoch].
func (d *Doctor) Epoch(ctx context.Context) (e Epoch, err error) {
	err = d.look(ctx, func(tx pgx.Tx) error {
		e, err = scanEpoch(tx.QueryRow(ctx, epochSQL))
		return err
	})
	return e, err
}
