package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// watcher tells [Options.Watch] of statements.
type watcher struct {
	watch func(ctx context.Context, sql string) (done func(error))
}

type watchKey struct{}

// TraceQueryStart implements [pgx.QueryTracer].
func (w watcher) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, watchKey{}, w.watch(ctx, d.SQL))
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (w watcher) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	if done, ok := ctx.Value(watchKey{}).(func(error)); ok && done != nil {
		done(d.Err)
	}
}

// ErrNoDatabase is what a store of [Nowhere] answers.
var ErrNoDatabase = errors.New("there is no database here")

// Nowhere is a store without a database, for tests of what should not need one:
// every statement is refused at once with [ErrNoDatabase]. The caller closes it.
func Nowhere(ctx context.Context) (*Store, error) {
	conf, err := pgxpool.ParseConfig("host=/nowhere sslmode=disable")
	if err != nil {
		return nil, fmt.Errorf("make a store without a database: %w", err)
	}
	conf.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return &nowhereError{} }
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("make a store without a database: %w", err)
	}
	s := &Store{conf: conf.ConnConfig}
	if err := s.over(pool); err != nil {
		return nil, err
	}
	return s, nil
}

// nowhereError is an answer, not a lost connection, so that nobody asks again.
type nowhereError struct{}

func (*nowhereError) Error() string { return ErrNoDatabase.Error() }

// Is makes errors.Is(err, ErrNoDatabase) true.
func (*nowhereError) Is(target error) bool { return target == ErrNoDatabase }

// As lets the error pass for a refusal of PostgreSQL.
func (*nowhereError) As(target any) bool {
	pg, ok := target.(**pgconn.PgError)
	if ok {
		*pg = &pgconn.PgError{Severity: "ERROR", Code: "08000", Message: ErrNoDatabase.Error()}
	}
	return ok
}
