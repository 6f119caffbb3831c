package storage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

// SessionLocks are advisory locks of PostgreSQL sessions, each on a connection of
// its own: when the connection dies, the lock is free. The server ends a session
// that asked nothing for the lock's time (idle_session_timeout), so that a holder
// that was frozen with its connection open is followed too. They know nothing of
// Fenceline's tables. It is safe for concurrent use.
type SessionLocks struct {
	conf *pgx.ConnConfig
	ttl  time.Duration
}

// idleLimitSince is the first PostgreSQL that ends idle sessions by itself.
const idleLimitSince = 140000

// OpenSessionLocks prepares locks that live for ttl without a sign of life. owner
// is shown as the name of the session's application, of which PostgreSQL keeps 63
// bytes. A pooler in between is refused: it deals out sessions, and the lock would
// belong to whoever gets this one next. dial makes the connections, below their
// encryption; nil is the system's.
func OpenSessionLocks(ctx context.Context, url, owner string, ttl time.Duration, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*SessionLocks, error) {
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, badURL("LEASE_URL", err)
	}
	conf.RuntimeParams["application_name"] = owner
	conf.DefaultQueryExecMode = pgx.QueryExecModeExec
	if conf.ConnectTimeout == 0 {
		conf.ConnectTimeout = ttl
	}
	if dial != nil {
		conf.DialFunc = dial
	}
	between, shared, err := lookForPooler(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", unreachable(err))
	}
	if between {
		return nil, fmt.Errorf("LEASE_URL leads to a pooler%s, and a lock of a session needs a session of its own: give the address of the server itself", because(shared))
	}
	l := &SessionLocks{conf: conf, ttl: ttl}
	conn, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer hangUp(conn)
	var version int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return nil, fmt.Errorf("ask for the version of PostgreSQL: %w", err)
	}
	if version < idleLimitSince {
		return nil, fmt.Errorf("leases in PostgreSQL need version 14, which ends idle sessions; this is %d", version/10000)
	}
	return l, nil
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

func (l *SessionLocks) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, l.conf.Copy())
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", unreachable(err))
	}
	return conn, nil
}

// lockKey is the number of a lock. Two names of one number, one in 2^64, would keep
// each other waiting, and nothing else.
const lockKey = "hashtextextended($1, 0)"

// SessionLock is a lock that is held. Its methods are for one goroutine at a time.
type SessionLock struct {
	conn *pgx.Conn
	name string
}

// TryLock takes a lock without waiting; [ErrBusy] when it is held.
func (l *SessionLocks) TryLock(ctx context.Context, name string) (*SessionLock, error) {
	conn, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	var got bool
	_, err = conn.Exec(ctx, "SELECT set_config('idle_session_timeout', $1, false)", fmt.Sprint(l.ttl.Milliseconds()))
	if err == nil {
		err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock("+lockKey+")", name).Scan(&got)
	}
	switch {
	case err != nil:
		hangUp(conn)
		return nil, fmt.Errorf("take an advisory lock: %w", err)
	case !got:
		hangUp(conn)
		return nil, ErrBusy
	}
	return &SessionLock{conn: conn, name: name}, nil
}

// ErrSessionEnded means that the session of a lock is over, and the lock with it.
var ErrSessionEnded = errors.New("the session that held the lock has ended")

// Renew gives a sign of life; [ErrSessionEnded] when the lock is gone.
func (k *SessionLock) Renew(ctx context.Context) error {
	_, err := k.conn.Exec(ctx, "SELECT")
	if err != nil && k.conn.IsClosed() {
		return fmt.Errorf("%w: %w", ErrSessionEnded, err)
	}
	return err
}

// Unlock frees the lock and ends its session. A lock that is gone is no error.
func (k *SessionLock) Unlock(ctx context.Context) error {
	if k.conn.IsClosed() {
		return nil
	}
	_, err := k.conn.Exec(ctx, "SELECT pg_advisory_unlock("+lockKey+")", k.name)
	gone := k.conn.IsClosed()
	hangUp(k.conn)
	if gone {
		return nil
	}
	return err
}

// Holder answers which application's session holds a lock, and since when by the
// server's clock; [ErrNotFound] when none does. Roles that may not look at others'
// sessions see neither.
func (l *SessionLocks) Holder(ctx context.Context, name string) (owner string, since time.Time, err error) {
	conn, err := l.connect(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	defer hangUp(conn)
	var at *time.Time
	err = conn.QueryRow(ctx, `SELECT coalesce(a.application_name, ''), a.backend_start
		FROM (SELECT `+lockKey+` AS key) k
		JOIN pg_locks p ON p.locktype = 'advisory' AND p.granted AND p.objsubid = 1
			AND p.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND p.classid = ((k.key >> 32) & 4294967295)::oid AND p.objid = (k.key & 4294967295)::oid
		LEFT JOIN pg_stat_activity a ON a.pid = p.pid LIMIT 1`, name).Scan(&owner, &at)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", time.Time{}, ErrNotFound
	case err != nil:
		return "", time.Time{}, fmt.Errorf("look up an advisory lock: %w", err)
	case at != nil:
		since = at.UTC()
	}
	return owner, since, nil
}
