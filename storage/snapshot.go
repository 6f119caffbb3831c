package storage

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Snapshot is one consistent view of a database for an attempt, on a connection
// of its own, taken after the attempt's token was committed. It is not safe for
// concurrent use.
type Snapshot struct {
	conn *pgx.Conn
	asOf time.Time
}

// ReadOptions say how a snapshot is read. The zero value is fine.
type ReadOptions struct {
	// Source is the database to read from; nil is Fenceline's own.
	Source *Source
	// Zone is the time zone of the session, an IANA name: now() falls on its
	// days, and times arrive with its offset. Empty is UTC.
	Zone string
	// Timeout bounds each statement; 0 does not.
	Timeout time.Duration
}

// Snapshot opens the view (step 4) of Fenceline's own database. Its first
// statement reads the export's newest token inside the view and gives up with a
// [*FencedError] unless that is the attempt's own: without this an older token
// could carry fresher data and be overwritten by an older view. The caller closes
// the snapshot.
func (s *Store) Snapshot(ctx context.Context, export uuid.UUID, token int64) (*Snapshot, error) {
	return s.SnapshotOf(ctx, export, token, ReadOptions{})
}

// SnapshotOf is [Store.Snapshot] with options. From a source that is the same
// database under another role, the view is the very one in which the token was
// checked. From another database it is taken after that check, and AsOf is the
// time of the check by our own clock: the data is not older.
func (s *Store) SnapshotOf(ctx context.Context, export uuid.UUID, token int64, o ReadOptions) (*Snapshot, error) {
	sn, err := beginSnapshot(ctx, s.conf, o, "")
	if err != nil {
		return nil, err
	}
	if err := sn.check(ctx, export, token); err != nil {
		sn.Close()
		return nil, err
	}
	if o.Source == nil {
		return sn, nil
	}
	defer sn.Close()
	return sn.hand(ctx, o)
}

// hand opens the view on the source that the token was checked for in sn.
func (sn *Snapshot) hand(ctx context.Context, o ReadOptions) (*Snapshot, error) {
	id, err := sn.export(ctx, o.Source)
	if err != nil {
		return nil, fmt.Errorf("compare the databases: %w", err)
	}
	other, err := beginSnapshot(ctx, o.Source.conf, o, id)
	if err != nil {
		return nil, fmt.Errorf("read the source database: %w", err)
	}
	other.asOf = sn.asOf
	return other, nil
}

// export is the name under which a session of the same database can take over
// the view; empty when the source is another one.
func (sn *Snapshot) export(ctx context.Context, src *Source) (id string, err error) {
	here, err := identity(ctx, sn.conn)
	if err != nil {
		return "", err
	}
	there, err := src.identity(ctx)
	if err != nil || here != there {
		return "", err
	}
	err = sn.conn.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&id)
	return id, err
}

// readSize is how much of a result is taken from the network at once: PostgreSQL
// sends 8 KiB at a time, and the fewer wake-ups a large result costs, the better.
const readSize = 128 << 10

func beginSnapshot(ctx context.Context, conf *pgx.ConnConfig, o ReadOptions, exported string) (*Snapshot, error) {
	conf = conf.Copy()
	conf.DefaultQueryExecMode = statementMode
	conf.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: time.Second}
	}
	conf.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		return pgproto3.NewFrontend(bufio.NewReaderSize(r, readSize), w)
	}
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("connect for a snapshot: %w", err)
	}
	sn := &Snapshot{conn: conn}
	// The time is asked for even though a check follows: the first query takes the view.
	if _, err = conn.Exec(ctx, beginSQL(o, exported)); err == nil {
		err = conn.QueryRow(ctx, "SELECT transaction_timestamp()").Scan(&sn.asOf)
	}
	if err != nil {
		sn.Close()
		return nil, fmt.Errorf("begin a snapshot: %w", queryError(err))
	}
	return sn, nil
}

// beginSQL also fixes the text in which values arrive, whatever the server's
// defaults. SET takes no snapshot yet. As parameters of the connection a pooler
// would refuse some of them.
func beginSQL(o ReadOptions, exported string) string {
	begin := "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
	if exported != "" {
		begin += "SET TRANSACTION SNAPSHOT " + quote(exported) + ";"
	}
	return begin + fmt.Sprintf(`SET LOCAL TimeZone = %s; SET LOCAL statement_timeout = %d;
	SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL IntervalStyle = 'postgres'; SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 1`,
		quote(cmp.Or(o.Zone, "UTC")), o.Timeout.Milliseconds())
}

// quote makes a string literal, for the few statements that take no parameters.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// check refuses an attempt whose token is not the newest in the view.
func (sn *Snapshot) check(ctx context.Context, export uuid.UUID, token int64) error {
	var issued int64
	err := sn.conn.QueryRow(ctx, "SELECT issued_token FROM fenceline.exports WHERE id = $1", export).Scan(&issued)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("export %s: %w", export, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	if issued != token {
		return &FencedError{Reason: "newer_token", By: issued}
	}
	return nil
}

// AsOf is a time that the data is not older than, by Fenceline's database's clock.
func (sn *Snapshot) AsOf() time.Time { return sn.asOf }

// Close ends the snapshot and its connection; a query in flight is cut off.
func (sn *Snapshot) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = sn.conn.Close(ctx)
}

// Rows streams a result in PostgreSQL's text format: times in UTC and ISO
// style, bytea in hexadecimal. It is not safe for concurrent use.
type Rows struct {
	reader  *pgconn.ResultReader
	columns []Column
	count   int64
	err     error
	ended   bool
}

// Query runs a statement in the snapshot. Parameters are sent as text, nil is
// NULL; they are bound, never spliced. Cancelling ctx stops the server's work.
// What PostgreSQL refuses is a [*QueryError].
func (sn *Snapshot) Query(ctx context.Context, query string, args []*string) (*Rows, error) {
	columns, _, err := describe(ctx, sn.conn, query)
	if err != nil {
		return nil, err
	}
	r := &Rows{reader: sn.conn.PgConn().ExecParams(ctx, query, textValues(args), nil, nil, nil), columns: columns}
	if r.reader.FieldDescriptions() == nil { // no description came: the statement failed
		if r.finish(); r.err != nil {
			return nil, r.err
		}
	}
	return r, nil
}

// Columns describes the result.
func (r *Rows) Columns() []Column { return r.columns }

// Next goes to the next row; false at the end or after an error.
func (r *Rows) Next() bool {
	if r.ended {
		return false
	}
	if r.reader.NextRow() {
		return true
	}
	r.finish()
	return false
}

// Values are the row's values, nil for NULL, valid until the next call of Next.
func (r *Rows) Values() [][]byte { return r.reader.Values() }

// Err is what ended the rows early, if anything did.
func (r *Rows) Err() error {
	if r.err != nil {
		return fmt.Errorf("read rows: %w", r.err)
	}
	return nil
}

// Count is how many rows PostgreSQL says it sent; false before the end.
func (r *Rows) Count() (int64, bool) { return r.count, r.ended && r.err == nil }

func (r *Rows) finish() {
	r.ended = true
	tag, err := r.reader.Close()
	r.count, r.err = tag.RowsAffected(), queryError(err)
}
