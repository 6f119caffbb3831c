package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Behind a pooler in transaction mode (PgBouncer and its like) a connection is no
// session: each transaction may run in another one. Then named prepared statements
// meet those of others, LISTEN hears nothing, and a lock of the session stays with
// whoever gets it next. So Fenceline has no state in sessions: locks belong to
// transactions, statements are described anew, and messages, which only save time,
// need [Options.DirectURL].

// statementMode is how statements are sent where sessions are shared, or are too
// short to prepare anything for: described once for their types, then sent whole.
const statementMode = pgx.QueryExecModeCacheDescribe

// lookForPooler tells whether anybody is in between who deals out sessions, and how
// it was seen that they are shared, "" when it was not. It costs one question
// where nobody is: a pooler has keys of its own by which clients cancel, and with
// them another process id.
func lookForPooler(ctx context.Context, conf *pgx.ConnConfig) (between bool, shared string, err error) {
	connect := func(ctx context.Context) (*pgx.Conn, error) {
		conf := conf.Copy()
		conf.DefaultQueryExecMode = pgx.QueryExecModeExec
		return pgx.ConnectConfig(ctx, conf)
	}
	conn, err := connect(ctx)
	if err != nil {
		return false, "", err
	}
	defer hangUp(conn)
	pid, err := backend(ctx, conn)
	if err != nil || pid == conn.PgConn().PID() {
		return false, "", err
	}
	shared, err = sharedSessions(ctx, connect)
	return true, shared, err
}

// comparisons is how often sessions are compared: a pool with traffic may hand out
// different ones for a while.
const comparisons = 10

// sharedSessions compares the sessions of two connections.
func sharedSessions(ctx context.Context, connect func(context.Context) (*pgx.Conn, error)) (shared string, err error) {
	ours, err := connect(ctx)
	if err != nil {
		return "", err
	}
	defer hangUp(ours)
	other, err := connect(ctx)
	if err != nil {
		return "", err
	}
	defer hangUp(other)
	first, err := backend(ctx, ours)
	for range comparisons {
		if err != nil {
			return "", fmt.Errorf("look for a pooler: %w", err)
		}
		if shared, err = compareSessions(ctx, first, ours, other); shared != "" {
			return shared, nil
		}
	}
	return "", err
}

// compareSessions holds a transaction open on one connection and looks on which
// session the statements of both run.
func compareSessions(ctx context.Context, first uint32, ours, other *pgx.Conn) (string, error) {
	tx, err := other.Begin(ctx)
	if err != nil {
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "08P01" { // as a pooler in statement mode says
			return fmt.Sprintf("no transaction can be begun (%s)", pg.Message), nil
		}
		return "", err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	theirs, err := backend(ctx, tx)
	if err != nil {
		return "", err
	}
	if theirs == first {
		return fmt.Sprintf("two connections had the same session (backend %d)", first), nil
	}
	now, err := backend(ctx, ours)
	if err == nil && now != first {
		return fmt.Sprintf("two statements of one connection ran in two sessions (backends %d and %d)", first, now), nil
	}
	return "", err
}

func backend(ctx context.Context, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}) (pid uint32, err error) {
	return pid, q.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
}

// lockSQL takes an advisory lock of the transaction, or answers false. The
// transaction then waits for as long as the work takes.
const lockSQL = "SELECT pg_try_advisory_xact_lock($1)"

// noIdleLimit comes after [lockSQL]. Until the next statement PostgreSQL keeps the one
// before open, with its view of all rows, and as long as there is such a view nothing
// that was replaced since can be cleared away, in any table. This one has no view.
const noIdleLimit = "SET LOCAL idle_in_transaction_session_timeout = 0"

// tryLock takes an advisory lock that ends with its transaction, so that a
// killed run blocks nobody, behind a pooler too. [ErrBusy] when another one holds it.
func (s *Store) tryLock(ctx context.Context, key int64) (unlock func(), err error) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	unlock = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(ctx) // when that fails the connection is closed, and the lock goes with it
	}
	var got bool
	if err = tx.QueryRow(ctx, lockSQL, key).Scan(&got); err == nil {
		_, err = tx.Exec(ctx, noIdleLimit)
	}
	if err == nil && !got {
		err = ErrBusy
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

const (
	// lockEvery is how often a lock that is waited for is asked for. Asking, unlike waiting inside the
	// server, keeps no view open that the holder could have to wait for.
	lockEvery = 200 * time.Millisecond
	lockWait  = 5 * time.Minute
)

// withLock runs fn while a transaction holds the lock; it waits for its turn.
func withLock(ctx context.Context, db *sql.DB, key int64, fn func() error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	patience := time.NewTimer(lockWait)
	defer patience.Stop()
	again := time.NewTicker(lockEvery)
	defer again.Stop()
	for {
		var got bool
		if err := tx.QueryRowContext(ctx, lockSQL, key).Scan(&got); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, noIdleLimit); err != nil {
			return err
		}
		if got {
			return fn()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-patience.C:
			return fmt.Errorf("another process has been at it for %s: %w", lockWait, ErrBusy)
		case <-again.C:
		}
	}
}
