package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/fenceline/fenceline/migrations"
)

// Tx is a transaction of the caller's, for work that must commit together with
// a dispatch.
type Tx = *gorm.DB

// Store is the database: what is real. It is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	db   *gorm.DB
	conf *pgx.ConnConfig
	// direct leads to the server itself, for what needs a session; nil without one.
	direct *pgx.ConnConfig
	pooled string
	// pair is the file store beside the database, once [Store.Pair] was called.
	pair atomic.Pointer[pairing]
}

// Options tune a [Store]. The zero value is fine.
type Options struct {
	// MaxConns bounds the pool; 0 is 16. Snapshots and listeners have connections of their own.
	MaxConns int32
	// DirectURL leads past a pooler to the same database, for [Store.Listen]; empty where none is needed.
	DirectURL string
	// Watch, unless nil, is called before each statement is sent, by the goroutine that sends it and with its
	// context; what it answers, unless nil, is called with the outcome. It is for tests, which may let it wait.
	Watch func(ctx context.Context, sql string) (done func(error))
}

// Open connects to PostgreSQL by a URL or key=value string. It does not
// migrate; see [Migrate]. The caller closes the store.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, badURL("DATABASE_URL", err)
	}
	conf.MaxConns = 16
	if o.MaxConns > 0 {
		conf.MaxConns = o.MaxConns
	}
	if conf.ConnConfig.RuntimeParams["application_name"] == "" {
		conf.ConnConfig.RuntimeParams["application_name"] = "fenceline"
	}
	if conf.ConnConfig.ConnectTimeout == 0 {
		conf.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	s := &Store{conf: conf.ConnConfig}
	if o.DirectURL != "" {
		if s.direct, err = pgx.ParseConfig(o.DirectURL); err != nil {
			return nil, badURL("DATABASE_DIRECT_URL", err)
		}
		s.direct.RuntimeParams["application_name"] = conf.ConnConfig.RuntimeParams["application_name"]
		s.direct.ConnectTimeout = conf.ConnConfig.ConnectTimeout
	}
	between := false
	if between, s.pooled, err = lookForPooler(ctx, conf.ConnConfig); err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", unreachable(err))
	}
	if between && conf.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		conf.ConnConfig.DefaultQueryExecMode = statementMode
	}
	if o.Watch != nil {
		conf.ConnConfig.Tracer = watcher{o.Watch}
	}
	if !between { // one in between refuses what it does not know
		conf.ConnConfig = uncompiled(conf.ConnConfig)
	}
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if err := s.over(pool); err != nil {
		return nil, err
	}
	return s, nil
}

// uncompiled turns off that PostgreSQL compiles plans, unless the address says
// something about it. Every statement of ours reads little, but what a plan with a
// recursion or a limit may cost is guessed far too high, and then compiling it takes
// hundreds of milliseconds of each request. It is a copy: a [Source] may read much.
func uncompiled(conf *pgx.ConnConfig) *pgx.ConnConfig {
	conf = conf.Copy()
	if conf.RuntimeParams["jit"] == "" {
		conf.RuntimeParams["jit"] = "off"
	}
	return conf
}

// over lays the store over a pool, which is closed when that fails.
func (s *Store) over(pool *pgxpool.Pool) error {
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: stdlib.OpenDBFromPool(pool)}), &gorm.Config{
		Logger: logger.Discard, SkipDefaultTransaction: true, DisableAutomaticPing: true,
	})
	if err != nil {
		pool.Close()
		return fmt.Errorf("open gorm: %w", err)
	}
	s.pool, s.db = pool, db
	return nil
}

// Pooled answers how it was seen that a pooler is in between that keeps no
// sessions; "" when there is none. Then [Store.Listen] hears nothing unless
// [Options.DirectURL] is set, and everything else works.
func (s *Store) Pooled() string { return s.pooled }

// Close returns the connections. It waits for statements in flight.
func (s *Store) Close() {
	if db, err := s.db.DB(); err == nil {
		_ = db.Close() // what gorm borrowed; a goroutine of it would stay
	}
	s.pool.Close()
}

// Ping reports whether the database answers and is a primary that takes writes.
func (s *Store) Ping(ctx context.Context) error {
	var standby bool
	if err := s.db.WithContext(ctx).Raw("SELECT pg_is_in_recovery()").Scan(&standby).Error; err != nil {
		return fmt.Errorf("ask PostgreSQL: %w", err)
	}
	if standby {
		return fmt.Errorf("PostgreSQL is a standby and takes no writes")
	}
	return nil
}

// Transaction runs fn in one transaction: committed when it returns nil, rolled
// back otherwise. Jobs that fn dispatches in it are seen by nobody before the commit.
func (s *Store) Transaction(ctx context.Context, fn func(Tx) error) error {
	return s.db.WithContext(ctx).Transaction(fn, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
}

// Installation is the id that the database and its file store share.
func (s *Store) Installation(ctx context.Context) (uuid.UUID, error) {
	var id uuid.UUID
	err := s.db.WithContext(ctx).Raw("SELECT id FROM fenceline.installation").Row().Scan(&id)
	if err != nil {
		return id, fmt.Errorf("read the installation's id (were the migrations run?): %w", unreachable(err))
	}
	return id, nil
}

// Migrate brings the database to the newest schema and answers how many
// migrations it ran. It may be called by many processes at once, through a pooler
// too: a lock lets one work and the others wait.
func Migrate(ctx context.Context, url string) (int, error) {
	var ran int
	err := withProvider(ctx, url, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		ran = len(results)
		return err
	})
	if err != nil {
		return ran, fmt.Errorf("migrate: %w", err)
	}
	return ran, nil
}

// MigrationCount is how many migrations there are: as many as [Migrate] runs on a new database.
func MigrationCount() int {
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		return 0 // the pattern is not malformed
	}
	return len(names)
}

// Pending answers how many migrations have not run yet.
func Pending(ctx context.Context, url string) (int, error) {
	var n int
	err := withProvider(ctx, url, func(p *goose.Provider) error {
		status, err := p.Status(ctx)
		for _, m := range status {
			if m.State == goose.StatePending {
				n++
			}
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for pending migrations: %w", err)
	}
	return n, nil
}

// badURL is the error of a URL that cannot be read, without the URL: the reader
// masks the passwords that it recognizes, and not those in a URL that is malformed.
func badURL(name string, err error) error {
	why := ""
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		bare := *parse
		bare.ConnString = ""
		why = ": " + strings.TrimPrefix(bare.Error(), "cannot parse ``: ")
	}
	return fmt.Errorf("%s: %w%s", name, ErrBadURL, why)
}

func withProvider(ctx context.Context, url string, fn func(*goose.Provider) error) error {
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		return badURL("DATABASE_URL", err)
	}
	conf.DefaultQueryExecMode = statementMode
	db := stdlib.OpenDB(*conf)
	defer db.Close()
	files, err := fs.Sub(migrations.Files, ".")
	if err != nil {
		return err
	}
	return withLock(ctx, db, migrationLock, func() error {
		if err := createSchema(ctx, db); err != nil {
			return fmt.Errorf("create schema %s: %w", migrations.Schema, err)
		}
		p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(migrations.Schema+".schema_migrations"))
		if err != nil {
			return err
		}
		return fn(p)
	})
}

// migrationLock and the others are advisory lock keys: "FENC" and a number, so
// that they do not meet those of an application in the same database.
const (
	migrationLock int64 = 0x46454e43_00000001
	sweepLock     int64 = 0x46454e43_00000002
	beatLock      int64 = 0x46454e43_00000016
	recoverLock   int64 = 0x46454e43_00000017
)

// createSchema is apart from the migrations because their own table lives in
// it. It looks first: to create it again needs a right that later runs may lack.
func createSchema(ctx context.Context, db *sql.DB) error {
	var there bool
	if err := db.QueryRowContext(ctx, "SELECT to_regnamespace($1::text) IS NOT NULL", migrations.Schema).Scan(&there); err != nil || there {
		return err
	}
	_, err := db.ExecContext(ctx, "CREATE SCHEMA "+migrations.Schema)
	return err
}

// Exec runs statements in one transaction, such as the demo's.
func (s *Store) Exec(ctx context.Context, statements string) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Release()
	// The simple protocol takes several statements at once, and one message is one transaction.
	if err := conn.Conn().PgConn().Exec(ctx, statements).Close(); err != nil {
		return fmt.Errorf("run statements: %w", err)
	}
	return nil
}
