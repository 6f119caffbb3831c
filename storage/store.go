package storage

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
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
}

// Options tune a [Store]. The zero value is fine.
type Options struct {
	// MaxConns bounds the pool; 0 is 16. Snapshots and listeners have connections of their own.
	MaxConns int32
}

// Open connects to PostgreSQL by a URL or key=value string. It does not
// migrate; see [Migrate]. The caller closes the store.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
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
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to PostgreSQL: %w", unreachable(err))
	}
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: stdlib.OpenDBFromPool(pool)}), &gorm.Config{
		Logger: logger.Discard, SkipDefaultTransaction: true, DisableAutomaticPing: true,
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open gorm: %w", err)
	}
	return &Store{pool: pool, db: db, conf: conf.ConnConfig}, nil
}

// Close returns the connections. It waits for statements in flight.
func (s *Store) Close() { s.pool.Close() }

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
// migrations it ran. It may be called by many processes at once: a lock of the
// session lets one work and the others wait.
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

func withProvider(ctx context.Context, url string, fn func(*goose.Provider) error) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := createSchema(ctx, db); err != nil {
		return fmt.Errorf("create schema %s: %w", migrations.Schema, err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(1, 300))
	if err != nil {
		return err
	}
	files, err := fs.Sub(migrations.Files, ".")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(locker), goose.WithTableName(migrations.Schema+".schema_migrations"))
	if err != nil {
		return err
	}
	return fn(p)
}

// migrationLock and sweepLock are advisory lock keys: "FENC" and a number, so
// that they do not meet those of an application in the same database.
const (
	migrationLock int64 = 0x46454e43_00000001
	sweepLock     int64 = 0x46454e43_00000002
)

// createSchema is apart from the migrations because their own table lives in
// it. CREATE SCHEMA IF NOT EXISTS can fail when two processes do it at once,
// hence the lock.
func createSchema(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", migrationLock); err != nil {
		return err
	}
	var there bool
	if err := tx.QueryRowContext(ctx, "SELECT to_regnamespace($1) IS NOT NULL", migrations.Schema).Scan(&there); err != nil || there {
		return err
	}
	if _, err := tx.ExecContext(ctx, "CREATE SCHEMA "+migrations.Schema); err != nil {
		return err
	}
	return tx.Commit()
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
