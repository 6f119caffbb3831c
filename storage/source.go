package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Source is a PostgreSQL that reports are read from and that nothing is written
// to: another database, or Fenceline's own under a role that may only read. It is
// safe for concurrent use and holds no connection.
type Source struct {
	conf *pgx.ConnConfig
}

// OpenSource prepares reading from the database at a URL. It does not connect.
func OpenSource(url string) (*Source, error) {
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, badURL("SOURCE_DATABASE_URL", err)
	}
	if conf.RuntimeParams["application_name"] == "" {
		conf.RuntimeParams["application_name"] = "fenceline"
	}
	if conf.ConnectTimeout == 0 {
		conf.ConnectTimeout = 10 * time.Second
	}
	return &Source{conf: conf}, nil
}

// Source is the store's own database, as a place to read from.
func (s *Store) Source() *Source { return &Source{conf: s.conf} }

// Column is a column of a result.
type Column struct {
	Name string
	OID  uint32 // its PostgreSQL type; of a domain the type below
	Type string // the type's name, such as numeric(12,2)
	Elem uint32 // of an array, the type of its elements; 0 otherwise
	// Precision and Scale of a numeric(p,s); 0 where the type has no bounds.
	Precision, Scale int
}

// QueryError is what PostgreSQL has against a statement.
type QueryError struct {
	Code     string // SQLSTATE
	Message  string
	Detail   string
	Hint     string
	Position int // in characters of the statement, from 1; 0 when unknown
}

// Error is the message, with the hint when there is one.
func (e *QueryError) Error() string {
	if e.Hint != "" {
		return fmt.Sprintf("%s (%s)", e.Message, e.Hint)
	}
	return e.Message
}

// queryError turns PostgreSQL's own error into a [*QueryError] and leaves others.
func queryError(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	return &QueryError{Code: pg.Code, Message: pg.Message, Detail: pg.Detail, Hint: pg.Hint, Position: int(pg.Position)}
}

// View opens a snapshot that belongs to no attempt, for people who want to look.
// Options.Source is not used. The caller closes it.
func (src *Source) View(ctx context.Context, o ReadOptions) (*Snapshot, error) {
	return beginSnapshot(ctx, src.conf, o, "")
}

// Describe plans a statement and answers the columns that it would give. Nothing
// is run. args are as for [Snapshot.Query]; nil plans with NULL for all. What
// PostgreSQL refuses is a [*QueryError]; every other error means that nobody could
// be asked.
func (src *Source) Describe(ctx context.Context, query string, args []*string) ([]Column, error) {
	conn, err := src.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer closeSoon(conn)
	if _, err := conn.Exec(ctx, "BEGIN READ ONLY; SET LOCAL statement_timeout = '10s'"); err != nil {
		return nil, fmt.Errorf("ask the source database: %w", err)
	}
	columns, params, err := describe(ctx, conn, query)
	if err != nil {
		return nil, err
	}
	// Describing checks names and types. What may be read is checked by planning.
	const explain = "EXPLAIN "
	values := make([][]byte, params)
	copy(values, textValues(args))
	_, err = conn.PgConn().ExecParams(ctx, explain+query, values, nil, nil, nil).Close()
	var refused *QueryError
	if err = queryError(err); errors.As(err, &refused) && refused.Position > len(explain) {
		refused.Position -= len(explain)
	}
	if err != nil {
		return nil, err
	}
	return columns, nil
}

// Writable reports whether the source's role could change data there: it owns
// or may write at least one table. An operator should know.
func (src *Source) Writable(ctx context.Context) (table string, err error) {
	conn, err := src.connect(ctx)
	if err != nil {
		return "", err
	}
	defer closeSoon(conn)
	err = conn.QueryRow(ctx, `SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
		  AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') LIMIT 1`).Scan(&table)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look at the rights in the source database: %w", err)
	}
	return table, nil
}

func (src *Source) connect(ctx context.Context) (*pgx.Conn, error) {
	conf := src.conf.Copy()
	conf.DefaultQueryExecMode = statementMode
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("connect to the source database: %w", err)
	}
	return conn, nil
}

func (src *Source) identity(ctx context.Context) (string, error) {
	conn, err := src.connect(ctx)
	if err != nil {
		return "", err
	}
	defer closeSoon(conn)
	return identity(ctx, conn)
}

// identity tells a database from every other one in the world. On a standby it
// is that of its primary, whose exported views mean nothing there.
func identity(ctx context.Context, conn *pgx.Conn) (id string, err error) {
	err = conn.QueryRow(ctx, "SELECT system_identifier || '/' || current_database() || '/' || pg_is_in_recovery() FROM pg_control_system()").Scan(&id)
	return id, err
}

func closeSoon(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// describe asks for the columns of a statement and the number of its parameters, on the unnamed prepared
// statement, which poolers leave alone.
func describe(ctx context.Context, conn *pgx.Conn, query string) (columns []Column, params int, err error) {
	stmt, err := conn.PgConn().Prepare(ctx, "", query, nil)
	if err != nil {
		return nil, 0, queryError(err)
	}
	if len(stmt.Fields) == 0 {
		return nil, 0, &QueryError{Message: "the statement gives no columns"}
	}
	columns = make([]Column, len(stmt.Fields))
	oids, mods := make([]uint32, len(columns)), make([]int32, len(columns))
	for i, f := range stmt.Fields {
		columns[i] = Column{Name: f.Name, OID: f.DataTypeOID}
		oids[i], mods[i] = f.DataTypeOID, f.TypeModifier
		if f.DataTypeOID == numericOID && f.TypeModifier >= 4 {
			columns[i].Precision, columns[i].Scale = numericBounds(f.TypeModifier)
		}
	}
	if err := nameTypes(ctx, conn, columns, oids, mods); err != nil {
		err = queryError(err)
		if refused := (*QueryError)(nil); errors.As(err, &refused) {
			refused.Position = 0 // in our statement, not in theirs
		}
		return nil, 0, fmt.Errorf("look up the types of the columns: %w", err)
	}
	return columns, len(stmt.ParamOIDs), nil
}

func textValues(args []*string) [][]byte {
	values := make([][]byte, len(args))
	for i, a := range args {
		if a != nil {
			values[i] = []byte(*a)
		}
	}
	return values
}

const numericOID = 1700

// numericBounds takes numeric(p,s) from a type modifier, as numeric.c packs it.
// A scale outside 0 to p bounds nothing that a reader of decimals could use.
func numericBounds(mod int32) (precision, scale int) {
	precision = int(mod-4) >> 16 & 0xffff
	scale = int(int32(uint32(mod-4)&0x7ff)^1024) - 1024
	if scale < 0 || scale > precision {
		return 0, 0
	}
	return precision, scale
}

// typesSQL: a true array has elements and no array type of its own; int2vector
// and oidvector only look like one.
const typesSQL = `SELECT format_type(t.oid, u.mod),
	CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 AND t.typarray = 0 THEN CASE e.typtype WHEN 'd' THEN e.typbasetype ELSE e.oid END ELSE 0 END
	FROM unnest($1::oid[], $2::int4[]) WITH ORDINALITY u (oid, mod, n)
	JOIN pg_type t ON t.oid = u.oid LEFT JOIN pg_type e ON e.oid = t.typelem ORDER BY u.n`

func nameTypes(ctx context.Context, conn *pgx.Conn, columns []Column, oids []uint32, mods []int32) error {
	rows, err := conn.Query(ctx, typesSQL, pgx.QueryExecModeExec, asText(oids), asText(mods))
	if err != nil {
		return err
	}
	defer rows.Close()
	i := 0
	for ; rows.Next(); i++ {
		if err := rows.Scan(&columns[i].Type, &columns[i].Elem); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if i != len(columns) {
		return fmt.Errorf("%d of %d types are known", i, len(columns))
	}
	return nil
}

// asText is an array in PostgreSQL's text format.
func asText[T uint32 | int32](values []T) string {
	s := []byte{'{'}
	for i, v := range values {
		if i > 0 {
			s = append(s, ',')
		}
		s = fmt.Append(s, v)
	}
	return string(append(s, '}'))
}
