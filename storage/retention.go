package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
)

// RetentionRule says for how long publications are kept. The most specific one
// counts: of a tenant and kind, of a kind, of a tenant, of everything.
type RetentionRule struct {
	ID     int64   `json:"-"`
	Tenant *string `json:"tenant"` // nil: every tenant
	Kind   *string `json:"kind"`   // nil: every kind
	// CurrentDays is for how long a publication stays that nothing has replaced; nil for ever.
	CurrentDays *int `json:"current_days"`
	// SupersededDays is for how long one stays that was replaced; nil for ever.
	SupersededDays *int `json:"superseded_days"`
	// SupersededKeep is how many of the newest replaced ones of an export stay, however old.
	SupersededKeep int       `json:"superseded_keep"`
	SetBy          string    `json:"set_by"`
	SetAt          time.Time `json:"set_at"`
}

// TableName names the table for gorm.
func (RetentionRule) TableName() string { return "fenceline.retention" }

// Name says which rule it is: "the rule for report of acme".
func (r RetentionRule) Name() string {
	switch {
	case r.Kind != nil && r.Tenant != nil:
		return fmt.Sprintf("the rule for %s of %s", *r.Kind, *r.Tenant)
	case r.Kind != nil:
		return "the rule for " + *r.Kind
	case r.Tenant != nil:
		return "the rule for everything of " + *r.Tenant
	}
	return "the rule for everything"
}

// Current says for how long it keeps current publications: "30 days", or "for ever".
func (r RetentionRule) Current() string { return daysOf(r.CurrentDays) }

// Superseded says for how long it keeps replaced ones: "7 days, and the newest 5".
func (r RetentionRule) Superseded() string {
	text := daysOf(r.SupersededDays)
	if r.SupersededDays != nil && r.SupersededKeep > 0 {
		text += fmt.Sprintf(", and the newest %d", r.SupersededKeep)
	}
	return text
}

func daysOf(n *int) string {
	switch {
	case n == nil:
		return "for ever"
	case *n == 1:
		return "1 day"
	}
	return fmt.Sprintf("%d days", *n)
}

// DefaultRetention are the rules of a new installation: reports stay 30 days,
// replaced ones as long as their readers need and seven days at least, and five of
// them; invoices and all else for ever. readers is the longest time that a reader has.
func DefaultRetention(readers time.Duration) []RetentionRule {
	days := max(7, daysFor(readers))
	return []RetentionRule{
		{Kind: new("report"), CurrentDays: new(max(30, days)), SupersededDays: &days, SupersededKeep: 5},
		{Kind: new("invoice")},
		{},
	}
}

// daysFor is how many days cover a time.
func daysFor(d time.Duration) int {
	const day = 24 * time.Hour
	return int((d + day - 1) / day)
}

// RetentionRules lists the rules that concern a scope, the general ones first.
func (s *Store) RetentionRules(ctx context.Context, scope Scope) ([]RetentionRule, error) {
	q := s.db.WithContext(ctx)
	if !scope.All {
		q = q.Where("tenant IS NULL OR tenant = ?", scope.Tenant)
	}
	list := []RetentionRule{}
	if err := q.Order("coalesce(tenant, ''), coalesce(kind, '')").Limit(1000).Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list the rules of retention: %w", err)
	}
	return list, nil
}

// SetRetention sets the rule for its tenant and kind, in place of the one that was
// there, and writes it down as e, whose action and object it fills in. What it
// changes is applied at once as far as ctx allows; the next clean-up does the rest.
func (s *Store) SetRetention(ctx context.Context, r RetentionRule, e AuditEntry) error {
	err := s.changeRetention(ctx, e, r, func(tx *gorm.DB) error {
		return tx.Exec(`INSERT INTO fenceline.retention AS r (tenant, kind, current_days, superseded_days, superseded_keep, set_by) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (coalesce(tenant, ''), coalesce(kind, '')) DO UPDATE SET current_days = excluded.current_days, superseded_days = excluded.superseded_days,
				superseded_keep = excluded.superseded_keep, set_by = excluded.set_by, set_at = clock_timestamp()`,
			r.Tenant, r.Kind, r.CurrentDays, r.SupersededDays, r.SupersededKeep, e.Actor).Error
	})
	if err != nil {
		return fmt.Errorf("set %s: %w", r.Name(), err)
	}
	return s.ApplyRetention(ctx)
}

// RemoveRetention removes the rule for exactly this tenant and kind; [ErrNotFound] when there is none.
func (s *Store) RemoveRetention(ctx context.Context, tenant, kind *string, e AuditEntry) error {
	r := RetentionRule{Tenant: tenant, Kind: kind}
	err := s.changeRetention(ctx, e, r, func(tx *gorm.DB) error {
		done := tx.Exec("DELETE FROM fenceline.retention WHERE tenant IS NOT DISTINCT FROM ? AND kind IS NOT DISTINCT FROM ?", tenant, kind)
		if done.Error == nil && done.RowsAffected == 0 {
			return ErrNotFound
		}
		return done.Error
	})
	if err != nil {
		return fmt.Errorf("remove %s: %w", r.Name(), err)
	}
	return s.ApplyRetention(ctx)
}

func (s *Store) changeRetention(ctx context.Context, e AuditEntry, r RetentionRule, change func(*gorm.DB) error) error {
	details, err := json.Marshal(map[string]any{"kind": r.Kind, "current": r.Current(), "superseded": r.Superseded()})
	if err != nil {
		return err
	}
	e.Action, e.ObjectKind, e.ObjectID, e.Tenant, e.Details = "retention.changed", "retention", r.Name(), r.Tenant, details
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := change(tx); err != nil {
			return err
		}
		return auditIn(tx, e)
	})
}

// Keeping says until when the current publication of an export stays, and what for.
type Keeping struct {
	// What is hold, pin, current (by its rule, or for ever without one) or deleted (it can be restored); empty when nothing keeps it.
	What string
	// Until is nil when it stays until something changes.
	Until *time.Time
	Rule  *RetentionRule
	Pin   *Pin
	Hold  *LegalHold
}

// Sentence is it for people: "kept until 2026-12-31 10:00 UTC: the rule for report keeps 30 days".
func (k Keeping) Sentence() string {
	rule := "no rule says otherwise"
	if k.Rule != nil {
		rule = k.Rule.Name() + " keeps " + k.Rule.Current()
	}
	switch {
	case k.What == "hold":
		return fmt.Sprintf("kept until its hold is released: %s put it on hold, “%s”", k.Hold.PlacedBy, k.Hold.Note)
	case k.What == "pin":
		return fmt.Sprintf("kept until it is unpinned: %s pinned it, “%s”", k.Pin.By, k.Pin.Note)
	case k.What == "deleted" && k.Until != nil:
		return "deleted; it can be restored until " + utc(k.Until)
	case k.Until != nil:
		return fmt.Sprintf("kept until %s, unless a newer publication replaces it: %s", utc(k.Until), rule)
	case k.What == "":
		return "nothing keeps it: the next clean-up takes its files"
	}
	return "kept until a newer publication replaces it: " + rule
}

// Keeping tells what keeps the current publication of an export, deleted ones
// included. readers is for how long deleted exports keep their files.
func (s *Store) Keeping(ctx context.Context, scope Scope, id uuid.UUID, readers time.Duration) (Keeping, error) {
	var k Keeping
	e, err := s.anyExport(ctx, scope, id)
	if err != nil || e.AttemptID == nil {
		return k, err
	}
	var rule *int64
	err = s.pool.QueryRow(ctx, "SELECT CASE WHEN k.until < 'infinity' THEN k.until END, coalesce(k.what, ''), k.rule FROM fenceline.kept($1, $2) k",
		*e.AttemptID, readers.Seconds()).Scan(&k.Until, &k.What, &rule)
	if err != nil {
		return k, fmt.Errorf("look what keeps export %s: %w", id, err)
	}
	if rule != nil {
		k.Rule = &RetentionRule{}
		err = s.db.WithContext(ctx).Where("id = ?", *rule).Take(k.Rule).Error
		if errors.Is(err, gorm.ErrRecordNotFound) { // removed since
			k.Rule, err = nil, nil
		}
	}
	if err == nil && k.What == "hold" {
		k.Hold, err = s.holdOn(ctx, e.Export)
	}
	if err == nil && k.What == "pin" {
		k.Pin, err = s.pinOn(ctx, e)
	}
	if k.What == "hold" && k.Hold == nil || k.What == "pin" && k.Pin == nil { // released since
		k.What = "current"
	}
	if err != nil {
		return k, fmt.Errorf("look what keeps export %s: %w", id, err)
	}
	return k, nil
}

// onHold recognises what the database refuses with FL005.
func onHold(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "FL005" {
		return err
	}
	return fmt.Errorf("%w: %s", ErrOnHold, pg.Message)
}
