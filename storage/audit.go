package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"
)

// ActorKind is what did something.
type ActorKind string

// The kinds of actors.
const (
	ActorUser   ActorKind = "user"   // a person with a session
	ActorToken  ActorKind = "token"  // a program with an API token
	ActorLink   ActorKind = "link"   // whoever held a link that somebody made
	ActorSystem ActorKind = "system" // the program itself, or its command line
)

// ActorKinds are all there are.
func ActorKinds() []ActorKind { return []ActorKind{ActorUser, ActorToken, ActorLink, ActorSystem} }

// AuditEntry is one deed: who did what to which object. It never changes.
type AuditEntry struct {
	ID        uuid.UUID `json:"id"` // given when it is written
	At        time.Time `json:"at"` // by the database's clock
	Actor     string    `json:"actor"`
	ActorKind ActorKind `json:"actor_kind"`
	Tenant    *string   `json:"tenant,omitempty"` // nil concerns all of them, and is seen by those who see all
	Action    string    `json:"action"`           // such as job.cancelled
	// ObjectKind and ObjectID say to what; both may be empty.
	ObjectKind string `json:"object_kind,omitempty"`
	ObjectID   string `json:"object_id,omitempty"`
	// Details is a JSON object of little things; nil is none. It never holds secrets.
	Details   json.RawMessage `json:"details"`
	RequestID string          `json:"request_id,omitempty"`
	Address   string          `json:"address,omitempty"` // of the client
}

// TableName names the table for gorm.
func (AuditEntry) TableName() string { return "fenceline.audit" }

// maxDetails bounds the details of an entry, in bytes.
const maxDetails = 16 << 10

// Audit writes an entry down, on its own. What it tells of may be done or not be
// done yet, but whoever lets data out must not when this fails.
func (s *Store) Audit(ctx context.Context, e AuditEntry) error {
	return auditIn(s.db.WithContext(ctx), e)
}

// AuditIn is [Store.Audit] in the caller's transaction: the deed and its entry are there together or not at all.
func (s *Store) AuditIn(ctx context.Context, tx Tx, e AuditEntry) error {
	return auditIn(tx.WithContext(ctx), e)
}

func auditIn(db *gorm.DB, e AuditEntry) error {
	args, err := e.row()
	if err == nil {
		err = db.Exec(`INSERT INTO fenceline.audit (id, actor, actor_kind, tenant, action, object_kind, object_id, details, request_id, address)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?::jsonb, ?, ?)`, args...).Error
	}
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	return nil
}

// auditWith writes entries down in a transaction of pgx.
func auditWith(ctx context.Context, tx pgx.Tx, entries ...AuditEntry) error {
	for _, e := range entries {
		args, err := e.row()
		if err == nil {
			_, err = tx.Exec(ctx, `INSERT INTO fenceline.audit (id, actor, actor_kind, tenant, action, object_kind, object_id, details, request_id, address)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8::jsonb, $9, $10)`, args...)
		}
		if err != nil {
			return fmt.Errorf("audit %s: %w", e.Action, err)
		}
	}
	return nil
}

// row are the columns of an entry, with an id of its own.
func (e AuditEntry) row() ([]any, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make its id: %w", err)
	}
	details := "{}"
	if len(e.Details) > 0 {
		details = string(e.Details)
	}
	if len(details) > maxDetails {
		return nil, fmt.Errorf("the details have %d bytes, %d are allowed", len(details), maxDetails)
	}
	return []any{id, plainText(e.Actor, 200), e.ActorKind, e.Tenant, e.Action, e.ObjectKind, plainText(e.ObjectID, 400), details, e.RequestID, plainText(e.Address, 64)}, nil
}

// plainText is a text that PostgreSQL takes, of at most so many characters: what
// somebody typed must not be able to keep itself out of the log.
func plainText(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// AuditFilter selects entries. The zero value selects all that a scope sees.
type AuditFilter struct {
	Actor      string // exactly
	Action     string // exactly
	ObjectKind string
	ObjectID   string
	From, To   time.Time // zero is open; To itself is not in it
	After      string    // a [Page]'s Next
	Limit      int       // 0 is 50; at most 200
}

// AuditLog lists entries, the newest first.
func (s *Store) AuditLog(ctx context.Context, scope Scope, f AuditFilter) (Page[AuditEntry], error) {
	page := Page[AuditEntry]{Items: []AuditEntry{}}
	q := f.of(scope.where(s.db.WithContext(ctx), "tenant")).Order("at DESC, id DESC")
	if f.After != "" {
		at, id, err := parseCursor(f.After)
		if err != nil {
			return page, err
		}
		q = q.Where("(at, id) < (?, ?)", at, id)
	}
	limit := pageSize(f.Limit)
	if err := q.Limit(limit + 1).Find(&page.Items).Error; err != nil {
		return page, fmt.Errorf("list the audit log: %w", err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		last := page.Items[limit-1]
		page.Next = makeCursor(last.At, last.ID)
	}
	return page, nil
}

func (f AuditFilter) of(q *gorm.DB) *gorm.DB {
	if f.Action != "" {
		q = q.Where("action = ?", f.Action)
	}
	if f.Actor != "" {
		q = q.Where("actor = ?", f.Actor)
	}
	if f.ObjectKind != "" {
		q = q.Where("object_kind = ?", f.ObjectKind)
	}
	if f.ObjectID != "" {
		q = q.Where("object_id = ? AND object_id <> ''", f.ObjectID) // the second for the index
	}
	if !f.From.IsZero() {
		q = q.Where("at >= ?", f.From)
	}
	if !f.To.IsZero() {
		q = q.Where("at < ?", f.To)
	}
	return q
}

// LeastAuditKept is how old an entry must be before the database lets it go.
const LeastAuditKept = 30 * 24 * time.Hour

// PruneAudit removes entries that are older than keep, which is [LeastAuditKept]
// at least, and links that ended longer ago than that. Zero keeps all entries.
// It answers how many entries went, and writes down that they did, as done by actor.
func (s *Store) PruneAudit(ctx context.Context, keep time.Duration, actor string) (n int64, err error) {
	_, err = s.pool.Exec(ctx, "DELETE FROM fenceline.links WHERE expires_at < clock_timestamp() - make_interval(secs => $1)", LeastAuditKept.Seconds())
	if err != nil {
		return 0, fmt.Errorf("prune links: %w", err)
	}
	for keep > 0 {
		var part int64
		if err = s.pool.QueryRow(ctx, "SELECT fenceline.forget_audit($1, 1000)", keep.Seconds()).Scan(&part); err != nil {
			err = fmt.Errorf("prune the audit log: %w", err)
			break
		}
		if n += part; part == 0 {
			break
		}
	}
	if n == 0 {
		return n, err
	}
	e := AuditEntry{Actor: actor, ActorKind: ActorSystem, Action: "audit.pruned", ObjectKind: "audit", Details: fmt.Appendf(nil, `{"entries": %d, "older_than": %q}`, n, keep)}
	return n, errors.Join(err, s.Audit(context.WithoutCancel(ctx), e))
}
