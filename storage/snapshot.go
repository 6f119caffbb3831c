package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// Snapshot is one consistent view of the database for an attempt, on a
// connection of its own, taken after the attempt's token was committed. It is
// not safe for concurrent use.
type Snapshot struct {
	conn *pgx.Conn
	asOf time.Time
}

// Snapshot opens the view (step 4). Its first statement reads the export's
// newest token inside the view and gives up with a [*FencedError] unless that
// is the attempt's own: without this an older token could carry fresher data
// and be overwritten by an older view. The caller closes the snapshot.
func (s *Store) Snapshot(ctx context.Context, export uuid.UUID, token int64) (*Snapshot, error) {
	conf := s.conf.Copy()
	conf.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: time.Second}
	}
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("connect for a snapshot: %w", err)
	}
	sn := &Snapshot{conn: conn}
	if err := sn.begin(ctx, export, token); err != nil {
		sn.Close()
		return nil, err
	}
	return sn, nil
}

// beginSQL also fixes the text in which values arrive, whatever the server's
// defaults. SET takes no snapshot yet. As parameters of the connection a pooler
// would refuse some of them.
const beginSQL = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
	SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL IntervalStyle = 'postgres'; SET LOCAL bytea_output = 'hex'`

func (sn *Snapshot) begin(ctx context.Context, export uuid.UUID, token int64) error {
	if _, err := sn.conn.Exec(ctx, beginSQL); err != nil {
		return fmt.Errorf("begin a snapshot: %w", err)
	}
	var issued int64
	err := sn.conn.QueryRow(ctx, "SELECT issued_token, transaction_timestamp() FROM fenceline.exports WHERE id = $1", export).
		Scan(&issued, &sn.asOf)
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

// AsOf is a time that the data is not older than, by the database's clock.
func (sn *Snapshot) AsOf() time.Time { return sn.asOf }

// Close ends the snapshot and its connection; a query in flight is cut off.
func (sn *Snapshot) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = sn.conn.Close(ctx)
}

// Column is a column of a result.
type Column struct {
	Name string
	OID  uint32 // its PostgreSQL type
}

// Rows streams a result in PostgreSQL's text format: times in UTC and ISO
// style, bytea in hexadecimal. It is not safe for concurrent use.
type Rows struct {
	reader  *pgconn.ResultReader
	columns []Column
	err     error
	ended   bool
}

// Query runs a statement in the snapshot. Parameters are sent as text, nil is
// NULL; they are bound, never spliced. Cancelling ctx stops the server's work.
func (sn *Snapshot) Query(ctx context.Context, query string, args []*string) (*Rows, error) {
	values := make([][]byte, len(args))
	for i, a := range args {
		if a != nil {
			values[i] = []byte(*a)
		}
	}
	r := &Rows{reader: sn.conn.PgConn().ExecParams(ctx, query, values, nil, nil, nil)}
	fields := r.reader.FieldDescriptions()
	if fields == nil { // no description came: the statement failed or returns no rows
		if r.finish(); r.err != nil {
			return nil, fmt.Errorf("run the query: %w", r.err)
		}
		return nil, errors.New("run the query: it returns no columns")
	}
	for _, f := range fields {
		r.columns = append(r.columns, Column{Name: f.Name, OID: f.DataTypeOID})
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

func (r *Rows) finish() {
	r.ended = true
	_, r.err = r.reader.Close()
}
