package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
)

var (
	// ErrOnHold means that nothing of an export may be deleted until its hold is released.
	ErrOnHold = errors.New("it is on hold")
	// ErrPinned means that a pinned export is to be unpinned before it is deleted.
	ErrPinned = errors.New("it is pinned")
	// ErrCannotRestore means that a deleted export has lost its files, or that another export has its key by now.
	ErrCannotRestore = errors.New("it cannot be restored")
	// ErrHeldAlready means that there is such a hold.
	ErrHeldAlready = errors.New("it is on hold already")
)

// Pin keeps an export, or one publication, until it is unpinned.
type Pin struct {
	At   time.Time
	By   string
	Note string
}

// LegalHold keeps all that it covers: an export, a kind of a tenant, or a tenant.
type LegalHold struct {
	ID         uuid.UUID  `json:"id" gorm:"default:gen_random_uuid()"`
	Tenant     string     `json:"tenant"`
	Kind       *string    `json:"kind,omitempty"`   // nil: every kind
	ExportID   *uuid.UUID `json:"export,omitempty"` // nil: every export of the tenant and kind
	Note       string     `json:"note"`
	PlacedBy   string     `json:"placed_by"`
	PlacedAt   time.Time  `json:"placed_at" gorm:"default:clock_timestamp()"`
	ReleasedAt *time.Time `json:"released_at,omitempty"`
	ReleasedBy *string    `json:"released_by,omitempty"`
}

// TableName names the table for gorm.
func (LegalHold) TableName() string { return "fenceline.holds" }

// keptExport is an export with what is said about keeping it.
type keptExport struct {
	Export    `gorm:"embedded"`
	PinnedAt  *time.Time
	PinnedBy  *string
	PinNote   *string
	DeletedAt *time.Time
}

// anyExport reads an export, be it deleted or not.
func (s *Store) anyExport(ctx context.Context, scope Scope, id uuid.UUID) (keptExport, error) {
	var e keptExport
	return e, one(scope.where(s.db.WithContext(ctx).Table("fenceline.exports"), "tenant").Where("id = ?", id), &e, "export", id)
}

// pinOn is the pin of an export or of its current publication; nil without.
func (s *Store) pinOn(ctx context.Context, e keptExport) (*Pin, error) {
	if e.PinnedAt != nil {
		return &Pin{*e.PinnedAt, *e.PinnedBy, orEmpty(e.PinNote)}, nil
	}
	var p keptExport
	err := s.db.WithContext(ctx).Table("fenceline.attempts").Select("pinned_at, pinned_by, pin_note").Where("id = ?", e.AttemptID).Take(&p).Error
	if err != nil || p.PinnedAt == nil {
		return nil, err
	}
	return &Pin{*p.PinnedAt, *p.PinnedBy, orEmpty(p.PinNote)}, nil
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// holdOn is the oldest hold that covers an export; nil without.
func (s *Store) holdOn(ctx context.Context, e Export) (*LegalHold, error) {
	var list []LegalHold
	err := s.db.WithContext(ctx).Where("released_at IS NULL AND (export_id = ? OR export_id IS NULL AND tenant = ? AND (kind IS NULL OR kind = ?))", e.ID, e.Tenant, e.Kind).
		Order("placed_at").Limit(1).Find(&list).Error
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// deleteExport marks an export as deleted, with what the log says of it.
func (s *Store) deleteExport(ctx context.Context, scope Scope, id uuid.UUID, log []AuditEntry) error {
	x, err := s.anyExport(ctx, scope, id)
	if err != nil {
		return err
	}
	details, err := json.Marshal(map[string]any{"title": plainText(cmp.Or(x.Title, x.Key), 300)})
	if err != nil {
		return err
	}
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("SELECT fenceline.lock_keeping(true)").Error; err != nil { // before the row; see keepExport
			return err
		}
		done := tx.Exec("UPDATE fenceline.exports SET deleted_at = clock_timestamp() WHERE id = ? AND deleted_at IS NULL AND pinned_at IS NULL", id)
		if done.Error != nil {
			return onHold(done.Error)
		}
		if done.RowsAffected == 0 {
			return s.whyNotDeleted(ctx, scope, id)
		}
		for _, e := range log {
			e.Action, e.ObjectKind, e.ObjectID, e.Tenant, e.Details = "export.deleted", "export", id.String(), &x.Tenant, details
			if err := auditIn(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// whyNotDeleted says why an export was not deleted just now.
func (s *Store) whyNotDeleted(ctx context.Context, scope Scope, id uuid.UUID) error {
	x, err := s.anyExport(ctx, scope, id)
	switch {
	case err != nil:
		return err
	case x.DeletedAt != nil:
		return ErrNotFound
	}
	return ErrPinned
}

// Holds lists the holds of a scope that are not released, the newest first, at most 1,000.
func (s *Store) Holds(ctx context.Context, scope Scope) ([]LegalHold, error) {
	list := []LegalHold{}
	if err := scope.where(s.db.WithContext(ctx), "tenant").Where("released_at IS NULL").Order("placed_at DESC, id").Limit(1000).Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list the holds: %w", err)
	}
	return list, nil
}

// keepExport is what all of the changes to one export have in common: one
// transaction with its entry in the log, whose object it fills in. It is alone with
// what decides that files go before it locks a row: the other way round two of them
// can wait in a circle.
func (s *Store) keepExport(ctx context.Context, scope Scope, id uuid.UUID, e AuditEntry, change func(tx *gorm.DB, x keptExport) error) error {
	x, err := s.anyExport(ctx, scope, id)
	if err != nil {
		return err
	}
	e.ObjectKind, e.ObjectID, e.Tenant = "export", id.String(), &x.Tenant
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("SELECT fenceline.lock_keeping(false)").Error; err != nil {
			return err
		}
		if err := change(tx, x); err != nil {
			return onHold(err)
		}
		return auditIn(tx, e)
	})
}

// PinExport keeps an export, or with an attempt one publication of it, until it is
// unpinned, whatever the rules say. e is who does it, for the log and for the pin.
func (s *Store) PinExport(ctx context.Context, scope Scope, id uuid.UUID, attempt *uuid.UUID, note string, e AuditEntry) error {
	e.Action = "export.pinned"
	return s.setPin(ctx, scope, id, attempt, "pinned_at = clock_timestamp(), pinned_by = ?, pin_note = ?", []any{plainText(e.Actor, 200), plainText(note, 1000)}, e)
}

// UnpinExport takes the pin of an export back, or with an attempt that of one
// publication of it. [ErrNotFound] when it has none.
func (s *Store) UnpinExport(ctx context.Context, scope Scope, id uuid.UUID, attempt *uuid.UUID, e AuditEntry) error {
	e.Action = "export.unpinned"
	return s.setPin(ctx, scope, id, attempt, "pinned_at = NULL, pinned_by = NULL, pin_note = NULL", nil, e, "pinned_at IS NOT NULL")
}

func (s *Store) setPin(ctx context.Context, scope Scope, id uuid.UUID, attempt *uuid.UUID, set string, args []any, e AuditEntry, where ...string) error {
	what, missing := fmt.Sprintf("export %s", id), fmt.Errorf("%w: it was deleted, or a clean-up takes its files already", ErrNotFound)
	if attempt != nil {
		what = fmt.Sprintf("attempt %s of export %s", *attempt, id)
		missing = fmt.Errorf("%w: the export has no such publication, or a clean-up takes its files already", ErrNotFound)
	}
	if len(where) > 0 {
		missing = fmt.Errorf("%w: it is not pinned", ErrNotFound)
	}
	only := strings.Join(append([]string{""}, where...), " AND ")
	sql := "UPDATE fenceline.exports SET " + set + " WHERE id = ? AND deleted_at IS NULL" + only
	args = append(args, id)
	if attempt != nil {
		sql = "UPDATE fenceline.attempts SET " + set + " WHERE export_id = ? AND id = ? AND state IN ('published', 'superseded') AND doomed_at IS NULL" + only
		args = append(args, *attempt)
	}
	err := s.keepExport(ctx, scope, id, e, func(tx *gorm.DB, _ keptExport) error {
		done := tx.Exec(sql, args...)
		if done.Error == nil && done.RowsAffected == 0 {
			return missing
		}
		return done.Error
	})
	if err != nil {
		return fmt.Errorf("pin or unpin %s: %w", what, err)
	}
	return s.ApplyRetention(ctx)
}

// HoldExport puts an export on hold: nothing of it is deleted until it is released,
// not even what lost. What a clean-up had decided before that is not brought back.
func (s *Store) HoldExport(ctx context.Context, scope Scope, id uuid.UUID, note string, e AuditEntry) error {
	e.Action = "export.held"
	err := s.keepExport(ctx, scope, id, e, func(tx *gorm.DB, x keptExport) error {
		return heldAlready(tx.Create(&LegalHold{Tenant: x.Tenant, Kind: &x.Kind, ExportID: &id, Note: plainText(note, 1000), PlacedBy: plainText(e.Actor, 200)}).Error)
	})
	if err != nil {
		return fmt.Errorf("put export %s on hold: %w", id, err)
	}
	return nil
}

// AllOf says in words what a hold without an export is on: "all invoice of acme", or "all of acme" for a nil kind.
func AllOf(tenant string, kind *string) string {
	if kind == nil {
		return "all of " + tenant
	}
	return "all " + *kind + " of " + tenant
}

// heldName is how the log calls it; a whole tenant has the name of the tenant, by which it is looked for.
func heldName(tenant string, kind *string) string {
	if kind == nil {
		return tenant
	}
	return AllOf(tenant, kind)
}

// HoldTenant puts all exports of a tenant, or of one kind of it, on hold, those to come too.
func (s *Store) HoldTenant(ctx context.Context, tenant string, kind *string, note string, e AuditEntry) error {
	e.Action, e.ObjectKind, e.ObjectID, e.Tenant = "export.held", "tenant", heldName(tenant, kind), &tenant
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&LegalHold{Tenant: tenant, Kind: kind, Note: plainText(note, 1000), PlacedBy: plainText(e.Actor, 200)}).Error; err != nil {
			return heldAlready(err)
		}
		return auditIn(tx, e)
	})
	if err != nil {
		return fmt.Errorf("put %s on hold: %w", AllOf(tenant, kind), err)
	}
	return nil
}

func heldAlready(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.ConstraintName == "holds_active" {
		return ErrHeldAlready
	}
	return err
}

// ReleaseExport releases the hold of an export; one of its tenant stays. [ErrNotFound] when it has none.
func (s *Store) ReleaseExport(ctx context.Context, scope Scope, id uuid.UUID, e AuditEntry) error {
	e.Action = "export.released"
	err := s.keepExport(ctx, scope, id, e, func(tx *gorm.DB, _ keptExport) error {
		return released(tx.Exec("UPDATE fenceline.holds SET released_at = clock_timestamp(), released_by = ? WHERE export_id = ? AND released_at IS NULL", plainText(e.Actor, 200), id))
	})
	if err != nil {
		return fmt.Errorf("release export %s: %w", id, err)
	}
	return s.ApplyRetention(ctx)
}

// ReleaseTenant releases the hold of a tenant, or of one kind of it.
func (s *Store) ReleaseTenant(ctx context.Context, tenant string, kind *string, e AuditEntry) error {
	e.Action, e.ObjectKind, e.ObjectID, e.Tenant = "export.released", "tenant", heldName(tenant, kind), &tenant
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		err := released(tx.Exec(`UPDATE fenceline.holds SET released_at = clock_timestamp(), released_by = ?
			WHERE tenant = ? AND kind IS NOT DISTINCT FROM ? AND export_id IS NULL AND released_at IS NULL`, plainText(e.Actor, 200), tenant, kind))
		if err != nil {
			return err
		}
		return auditIn(tx, e)
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", AllOf(tenant, kind), err)
	}
	return s.ApplyRetention(ctx)
}

func released(done *gorm.DB) error {
	if done.Error == nil && done.RowsAffected == 0 {
		return ErrNotFound
	}
	return done.Error
}

// RestoreExport brings a deleted export back while its files are certainly there:
// until a clean-up has decided that they go. [ErrCannotRestore] after that, and when
// another export has its key by now. Jobs that were cancelled stay so. A rule that
// let it expire lets it expire again, unless it is pinned or republished.
func (s *Store) RestoreExport(ctx context.Context, scope Scope, id uuid.UUID, e AuditEntry) error {
	e.Action = "export.restored"
	err := s.keepExport(ctx, scope, id, e, func(tx *gorm.DB, x keptExport) error {
		if x.DeletedAt == nil {
			return ErrNotFound
		}
		err := tx.Exec("UPDATE fenceline.exports SET deleted_at = NULL, expired = false WHERE id = ? AND deleted_at IS NOT NULL", id).Error
		var pg *pgconn.PgError
		if errors.As(err, &pg) && (pg.Code == "FL001" || pg.ConstraintName == "exports_key") {
			return ErrCannotRestore
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("restore export %s: %w", id, err)
	}
	return s.ApplyRetention(ctx)
}
