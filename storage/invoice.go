package storage

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

// Series gives numbers to documents, one after the other and without gaps: a
// number is taken in the transaction that issues the document, so that one which
// is rolled back takes none.
type Series struct {
	Tenant    string    `json:"tenant"`
	Name      string    `json:"name"`
	Prefix    string    `json:"prefix"` // before the number, as in INV-2026-
	Digits    int       `json:"digits"` // at least so many, with zeros in front
	First     int64     `json:"first"`
	Next      int64     `json:"next"`
	CreatedAt time.Time `json:"created_at"`
}

// TableName names the table for gorm.
func (Series) TableName() string { return "fenceline.invoice_series" }

var (
	// ErrSeriesExists is the error for a series whose name is taken by one of another form.
	ErrSeriesExists = errors.New("there is a series of this name with another form")
	// ErrVoid is the error for voiding an invoice that is void already.
	ErrVoid = errors.New("the invoice is void already")
	// ErrNoSeries is the error for issuing from a series that there is not.
	ErrNoSeries = errors.New("no such series")
)

// CreateSeries adds a series. Adding the same one again changes nothing; one of
// another form under its name is [ErrSeriesExists], for numbers keep their form.
func (s *Store) CreateSeries(ctx context.Context, n Series) error {
	db := s.db.WithContext(ctx)
	err := db.Exec(`INSERT INTO fenceline.invoice_series (tenant, name, prefix, digits, first, next) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, name) DO NOTHING`, n.Tenant, n.Name, n.Prefix, n.Digits, n.First, n.First).Error
	if err != nil {
		return fmt.Errorf("create series %s: %w", n.Name, err)
	}
	var is Series
	if err := db.Where("tenant = ? AND name = ?", n.Tenant, n.Name).Take(&is).Error; err != nil {
		return fmt.Errorf("read series %s: %w", n.Name, err)
	}
	if is.Prefix != n.Prefix || is.Digits != n.Digits || is.First != n.First {
		return fmt.Errorf("%w: %s begins with %s%0*d", ErrSeriesExists, n.Name, is.Prefix, is.Digits, is.First)
	}
	return nil
}

// SeriesList lists the series that a scope sees, by tenant and name.
func (s *Store) SeriesList(ctx context.Context, scope Scope) ([]Series, error) {
	list := []Series{}
	db := s.db.WithContext(ctx).Order("tenant, name")
	if !scope.All {
		db = db.Where("tenant = ?", scope.Tenant)
	}
	if err := db.Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list series: %w", err)
	}
	return list, nil
}

// Issuing asks for a number.
type Issuing struct {
	Tenant, Series string
	// Customer and Period, both or none: with them the same document is issued
	// once, however often it is asked for.
	Customer, Period string
	// Document is a JSON object; its "number" is set.
	Document json.RawMessage
	// Attempt, when it is not zero, must be the one that its job runs; a stale one
	// is refused with [ErrFenced].
	Attempt uuid.UUID
}

// Issued is a document with its number.
type Issued struct {
	ID       uuid.UUID
	Number   string
	Document json.RawMessage
	New      bool // false when the customer and period had one already
}

// IssueInvoice gives a document the next number of its series, in the caller's
// transaction: when that is rolled back, the number was never taken. Others who
// issue from the series wait until the transaction ends, so it should be short.
func (s *Store) IssueInvoice(ctx context.Context, tx Tx, n Issuing) (Issued, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Issued{}, fmt.Errorf("make an invoice id: %w", err)
	}
	var attempt *uuid.UUID
	if n.Attempt != uuid.Nil {
		attempt = &n.Attempt
	}
	var out Issued
	var document []byte
	err = tx.WithContext(ctx).Raw("SELECT o_id, o_number, o_document::text, o_new FROM fenceline.issue_invoice(?, ?, ?, ?, ?, ?, ?::jsonb)",
		id, attempt, n.Tenant, n.Series, nullable(n.Customer), nullable(n.Period), string(n.Document)).Row().
		Scan(&out.ID, &out.Number, &document, &out.New)
	out.Document = document
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Issued{}, fmt.Errorf("issue from series %s: %w", n.Series, &FencedError{Reason: "handed_on"})
	case errors.As(err, &pg) && pg.Code == "P0002": // no_data_found
		return Issued{}, fmt.Errorf("%w: %s of tenant %s; make it with `fenceline series create`", ErrNoSeries, n.Series, n.Tenant)
	case err != nil:
		return Issued{}, fmt.Errorf("issue from series %s: %w", n.Series, err)
	}
	return out, nil
}

// VoidInvoice marks an issued document as void: its number stays used. The
// customer and period may then be issued anew.
func (s *Store) VoidInvoice(ctx context.Context, scope Scope, number, reason string) error {
	tenant := scope.Tenant
	if scope.All {
		tenant = ""
	}
	tag, err := s.pool.Exec(ctx, `UPDATE fenceline.invoices SET voided_at = clock_timestamp(), void_reason = $3
		WHERE ($1 = '' OR tenant = $1) AND number = $2 AND voided_at IS NULL`, tenant, number, reason)
	if err != nil {
		return fmt.Errorf("void invoice %s: %w", number, err)
	}
	if tag.RowsAffected() > 0 {
		return nil
	}
	var void bool
	err = s.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM fenceline.invoices WHERE ($1 = '' OR tenant = $1) AND number = $2)", tenant, number).Scan(&void)
	switch {
	case err != nil:
		return fmt.Errorf("look for invoice %s: %w", number, err)
	case void:
		return fmt.Errorf("void invoice %s: %w", number, ErrVoid)
	}
	return fmt.Errorf("invoice %s: %w", number, ErrNotFound)
}

// Numbers counts what became of a series' numbers, with those that need a word.
type Numbers struct {
	Series
	Used    int64     `json:"used"`
	Voided  []Voided  `json:"voided"`
	Missing []Missing `json:"missing"`
}

// Voided is a number that was taken back.
type Voided struct {
	Number   string    `json:"number"`
	VoidedAt time.Time `json:"voided_at"`
	Reason   string    `json:"reason"`
}

// Missing is a run of numbers that no document has.
type Missing struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// NumbersOf accounts for every number of a series between its first and its next.
func (s *Store) NumbersOf(ctx context.Context, tenant, series string) (Numbers, error) {
	out := Numbers{Voided: []Voided{}, Missing: []Missing{}}
	db := s.db.WithContext(ctx)
	res := db.Where("tenant = ? AND name = ?", tenant, series).Limit(1).Find(&out.Series)
	if res.Error == nil && res.RowsAffected == 0 {
		return out, fmt.Errorf("%w: %s of tenant %s", ErrNoSeries, series, tenant)
	}
	err := errors.Join(res.Error,
		db.Raw("SELECT count(*) FROM fenceline.invoices WHERE tenant = ? AND series = ? AND voided_at IS NULL", tenant, series).Row().Scan(&out.Used),
		db.Raw("SELECT number, voided_at, void_reason AS reason FROM fenceline.invoices WHERE tenant = ? AND series = ? AND voided_at IS NOT NULL ORDER BY n", tenant, series).Scan(&out.Voided).Error,
		db.Raw(`SELECT before + 1 AS "from", n - 1 AS "to" FROM (
				SELECT n, lag(n, 1, ?) OVER (ORDER BY n) AS before FROM (
					SELECT n FROM fenceline.invoices WHERE tenant = ? AND series = ? UNION ALL SELECT ?) all_of_them) pairs
			WHERE n > before + 1 ORDER BY n`, out.First-1, tenant, series, out.Next).Scan(&out.Missing).Error)
	if err != nil {
		return out, fmt.Errorf("account for the numbers of series %s: %w", series, err)
	}
	return out, nil
}
