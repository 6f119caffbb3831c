package storage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Doctor asks a database how it is set up, whether the schema is as it was
// migrated, and what is left undone. It only finds facts; what they mean is for
// the caller to say.
//
// Nothing that it does lasts: each question is a read-only transaction on a
// connection of its own, so that one that fails or hangs spoils no other. It
// works behind a pooler and is safe for concurrent use. Every method gives up
// when its context ends.
type Doctor struct {
	conf   *pgx.ConnConfig
	direct *Doctor // who listens; nil for itself
}

// patience is how long the server works on one question when nobody waits for
// the answer any more.
const patience = "10s"

// NewDoctor reads the URL or key=value string of a database; it does not connect.
func NewDoctor(url string) (*Doctor, error) {
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, badURL("DATABASE_URL", err)
	}
	if conf.RuntimeParams["application_name"] == "" {
		conf.RuntimeParams["application_name"] = "fenceline"
	}
	return &Doctor{conf: conf}, nil
}

// Address is where the database is, without any secret.
func (d *Doctor) Address() string {
	if strings.HasPrefix(d.conf.Host, "/") { // the folder of a Unix socket
		return d.conf.Host + ", database " + d.conf.Database
	}
	return net.JoinHostPort(d.conf.Host, strconv.Itoa(int(d.conf.Port))) + ", database " + d.conf.Database
}

// connect makes a session that needs nothing from a pooler but to pass on
// messages: no prepared statements.
func (d *Doctor) connect(ctx context.Context) (*pgx.Conn, error) {
	conf := d.conf.Copy()
	conf.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	return conn, nil
}

// hangUp ends a session without waiting for a server that does not answer.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// look runs fn in a read-only transaction on a new connection.
func (d *Doctor) look(ctx context.Context, fn func(pgx.Tx) error) error {
	conn, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // a pooler keeps the session: nothing may be left open in it
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '"+patience+"'"); err != nil {
		return fmt.Errorf("limit the time of a question: %w", err)
	}
	return fn(tx)
}

// lookAt answers the only row of a query; the columns are T's fields in their order.
func lookAt[T any](ctx context.Context, d *Doctor, query string, args ...any) (found T, err error) {
	err = d.look(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[T])
		return err
	})
	return found, err
}

// lookFor answers all rows of a query.
func lookFor[T any](ctx context.Context, d *Doctor, query string, args ...any) (found []T, err error) {
	err = d.look(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
		return err
	})
	return found, err
}

// ServerFacts are settings as a session of ours has them.
type ServerFacts struct {
	User              string
	Version           string // as people write it: 15.8 (Debian …)
	VersionNumber     int    // 150008
	Standby           bool
	ReadOnly          bool // transactions are, unless they say otherwise
	Fsync             bool
	FullPageWrites    bool
	SynchronousCommit string
	Isolation         string // of transactions that do not say which
	ReplicationRole   string // "replica" keeps triggers and foreign keys from running
	// Lax are roles and databases with synchronous_commit off that this session is not of.
	Lax []string
}

// Server reads the settings that the laws lean on.
func (d *Doctor) Server(ctx context.Context) (ServerFacts, error) {
	s, err := lookAt[ServerFacts](ctx, d, `SELECT current_user::text, current_setting('server_version'), current_setting('server_version_num')::int,
		pg_is_in_recovery(), current_setting('default_transaction_read_only')::boolean, current_setting('fsync')::boolean,
		current_setting('full_page_writes')::boolean, current_setting('synchronous_commit'), current_setting('default_transaction_isolation'),
		current_setting('session_replication_role'),
		ARRAY(SELECT CASE WHEN s.setrole = 0 THEN 'every role in the database ' || current_database() ELSE 'role ' || s.setrole::regrole END
			FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) AS c
			WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())) AND lower(c) = 'synchronous_commit=off'
			ORDER BY 1)`)
	if err != nil {
		return s, fmt.Errorf("read the settings of PostgreSQL: %w", err)
	}
	return s, nil
}

// Latency is the middle one of a few round trips on an open connection.
func (d *Doctor) Latency(ctx context.Context) (time.Duration, error) {
	conn, err := d.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer hangUp(conn)
	times := make([]time.Duration, 7)
	for i := range times {
		start := time.Now()
		if err := conn.Ping(ctx); err != nil {
			return 0, fmt.Errorf("ask PostgreSQL: %w", err)
		}
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// Clock answers how far the database's clock is ahead of the given one, and by
// how much that may be wrong: half of the time that the question took.
func (d *Doctor) Clock(ctx context.Context, now func() time.Time) (ahead, within time.Duration, err error) {
	err = d.look(ctx, func(tx pgx.Tx) error {
		var there time.Time
		asked := now()
		if err := tx.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&there); err != nil {
			return fmt.Errorf("ask PostgreSQL for the time: %w", err)
		}
		within = now().Sub(asked) / 2
		ahead = there.Sub(asked.Add(within))
		return nil
	})
	return ahead, within, err
}

// Sessions tells whether a connection is a session of the server: "" when it
// is, else how it was seen that a pooler deals the sessions out anew for every
// transaction.
func (d *Doctor) Sessions(ctx context.Context) (shared string, err error) {
	return sharedSessions(ctx, d.connect)
}

// ListenAt lets [Doctor.Hears] listen at another URL of the same database, past a pooler.
func (d *Doctor) ListenAt(url string) error {
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		return badURL("DATABASE_DIRECT_URL", err)
	}
	d.direct = &Doctor{conf: conf}
	return nil
}

// Hears tells whether a message that one session sends arrives in another that
// listens, within a time. It must not be asked where sessions are shared, unless
// [Doctor.ListenAt] was called: the pooler's session would go on listening.
func (d *Doctor) Hears(ctx context.Context, within time.Duration) (bool, error) {
	const channel = "fenceline_doctor"
	ear := d
	if d.direct != nil {
		ear = d.direct
	}
	listener, err := ear.connect(ctx)
	if err != nil {
		return false, err
	}
	defer hangUp(listener)
	if _, err := listener.Exec(ctx, "LISTEN "+channel); err != nil {
		return false, fmt.Errorf("listen: %w", err)
	}
	text := uuid.NewString()
	sender, err := d.connect(ctx)
	if err != nil {
		return false, err
	}
	defer hangUp(sender)
	if _, err := sender.Exec(ctx, "SELECT pg_notify($1, $2)", channel, text); err != nil {
		return false, fmt.Errorf("notify: %w", err)
	}
	wait, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		n, err := listener.WaitForNotification(wait)
		if err == nil && n.Payload == text {
			return true, nil
		}
		if err != nil && ctx.Err() == nil && wait.Err() != nil {
			return false, nil // nothing came
		}
		if err != nil {
			return false, fmt.Errorf("wait for a message: %w", err)
		}
	}
}

// Snapshots opens a snapshot as an attempt does, of the newest export, and
// answers why that fails, if it does.
func (d *Doctor) Snapshots(ctx context.Context) error {
	newest, err := lookFor[struct {
		ID     string
		Issued int64
	}](ctx, d, "SELECT id::text, issued_token FROM fenceline.exports WHERE deleted_at IS NULL ORDER BY changed_at DESC, id DESC LIMIT 1")
	if err != nil {
		return fmt.Errorf("look for an export: %w", err)
	}
	var id uuid.UUID // of no export, where there is none
	var issued int64
	if len(newest) > 0 {
		id, issued = uuid.MustParse(newest[0].ID), newest[0].Issued
	}
	sn, err := (&Store{conf: d.conf}).Snapshot(ctx, id, issued)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrFenced) { // it was opened and looked
		return nil
	}
	if err != nil {
		return err
	}
	sn.Close()
	return nil
}

// ConnectionFacts say how many connections there may be and are.
type ConnectionFacts struct {
	Max   int // that a role without special rights can have, all together
	Ours  int // open now, by their application name, without the doctor's own
	Other int // open now
}

// Connections counts the server's connections and reads their limit: the
// server's, less what is reserved, or the database's or the role's own.
func (d *Doctor) Connections(ctx context.Context) (ConnectionFacts, error) {
	c, err := lookAt[ConnectionFacts](ctx, d, `SELECT least(
			current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
				- coalesce(current_setting('reserved_connections', true)::int, 0),
			(SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()),
			(SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user)),
		count(*) FILTER (WHERE application_name = 'fenceline' AND pid <> pg_backend_pid()),
		count(*) FILTER (WHERE application_name <> 'fenceline')
		FROM pg_stat_activity WHERE datid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'`)
	if err != nil {
		return c, fmt.Errorf("count the connections: %w", err)
	}
	return c, nil
}

// LongFacts are about transactions that have been open for long.
type LongFacts struct {
	Count  int
	Oldest time.Duration
	Who    string // has the oldest
	Hidden int    // sessions of other roles whose transactions this role may not see
}

// LongTransactions looks for transactions of this database, also prepared ones,
// that began longer ago than the given time.
func (d *Doctor) LongTransactions(ctx context.Context, longer time.Duration) (LongFacts, error) {
	l, err := lookAt[LongFacts](ctx, d, `WITH open AS (
			SELECT xact_start AS since, 'session ' || pid || ' of ' || coalesce(usename, 'a dropped role')
				|| coalesce(' (' || nullif(application_name, '') || ')', '') AS who
			FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
			UNION ALL
			SELECT prepared, 'prepared transaction ' || quote_literal(gid) || ' of ' || owner FROM pg_prepared_xacts WHERE database = current_database()
		), long AS (SELECT * FROM open WHERE since < clock_timestamp() - make_interval(secs => $1))
		SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(since)) * 1e9, 0)::bigint,
			coalesce((SELECT who FROM long ORDER BY since LIMIT 1), ''),
			(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type IS NULL)
		FROM long`, longer.Seconds())
	if err != nil {
		return l, fmt.Errorf("look for long transactions: %w", err)
	}
	return l, nil
}
