package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Token is an API token, without its secret.
type Token struct {
	ID         uuid.UUID  `json:"id"`
	Name       string     `json:"name"`
	Tenant     *string    `json:"tenant,omitempty"` // nil sees every tenant
	Verbs      VerbList   `json:"verbs" gorm:"type:text[]"`
	CreatedAt  time.Time  `json:"created_at"`
	CreatedBy  string     `json:"created_by,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"` // nil: never
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
}

// TableName names the table for gorm.
func (Token) TableName() string { return "fenceline.api_tokens" }

// Scope is whose rows the token may see.
func (t Token) Scope() Scope { return scopeOf(t.Tenant) }

// Works reports whether the token opens anything at a time.
func (t Token) Works(at time.Time) bool {
	return t.RevokedAt == nil && (t.ExpiresAt == nil || t.ExpiresAt.After(at))
}

func scopeOf(tenant *string) Scope {
	if tenant == nil {
		return Scope{All: true}
	}
	return Scope{Tenant: *tenant}
}

// tokenPrefix marks API tokens, so that a leaked one can be recognised.
const tokenPrefix = "fl_"

// TokenSpec is what an API token is made of.
type TokenSpec struct {
	Name      string
	Tenant    string // empty: all
	Verbs     []Verb // none are all of them
	ExpiresAt *time.Time
	CreatedBy string
}

// NewToken makes an API token that lasts until it is revoked; see [Store.AddToken].
func (s *Store) NewToken(ctx context.Context, name, tenant string, verbs ...Verb) (Token, string, error) {
	return s.AddToken(ctx, TokenSpec{Name: name, Tenant: tenant, Verbs: verbs})
}

// AddToken makes an API token. The secret is answered here and never again.
func (s *Store) AddToken(ctx context.Context, spec TokenSpec) (t Token, secret string, err error) {
	err = s.Transaction(ctx, func(tx Tx) error {
		t, secret, err = s.AddTokenIn(tx, spec)
		return err
	})
	return t, secret, err
}

// AddTokenIn is [Store.AddToken] in the caller's transaction.
func (s *Store) AddTokenIn(tx Tx, spec TokenSpec) (Token, string, error) {
	if len(spec.Verbs) == 0 {
		spec.Verbs = Verbs()
	}
	verbs := make([]string, len(spec.Verbs))
	for i, v := range spec.Verbs {
		verbs[i] = string(v)
	}
	secret, hash := newSecret(tokenPrefix)
	t := Token{Name: spec.Name, Tenant: nullable(spec.Tenant), Verbs: spec.Verbs, ExpiresAt: spec.ExpiresAt, CreatedBy: spec.CreatedBy}
	err := tx.Raw(`INSERT INTO fenceline.api_tokens (name, tenant, secret_hash, verbs, expires_at, created_by)
		VALUES (?, ?, ?, ?::text[], ?, ?) RETURNING id, created_at`, t.Name, t.Tenant, hash, textArray(verbs), t.ExpiresAt, t.CreatedBy).Row().Scan(&t.ID, &t.CreatedAt)
	if err != nil {
		return Token{}, "", fmt.Errorf("make API token %q: %w", spec.Name, err)
	}
	return t, secret, nil
}

// TokenBySecret answers which token a secret is and notes its use, to the
// minute. [ErrNotFound] when it is none, has expired or was revoked.
func (s *Store) TokenBySecret(ctx context.Context, secret string) (Token, error) {
	var t Token
	var stale bool
	err := s.db.WithContext(ctx).Raw(`SELECT id, name, tenant, verbs, created_at, created_by, expires_at, last_used_at,
			last_used_at IS NULL OR last_used_at < clock_timestamp() - make_interval(secs => ?)
		FROM fenceline.api_tokens WHERE secret_hash = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())`,
		seenEvery.Seconds(), hashSecret(secret)).
		Row().Scan(&t.ID, &t.Name, &t.Tenant, &t.Verbs, &t.CreatedAt, &t.CreatedBy, &t.ExpiresAt, &t.LastUsedAt, &stale)
	if errors.Is(err, sql.ErrNoRows) {
		return Token{}, ErrNotFound
	}
	if err != nil {
		return Token{}, fmt.Errorf("look up an API token: %w", err)
	}
	if stale {
		if _, err := s.pool.Exec(ctx, "UPDATE fenceline.api_tokens SET last_used_at = clock_timestamp() WHERE id = $1", t.ID); err != nil {
			return Token{}, fmt.Errorf("note the use of API token %q: %w", t.Name, err)
		}
	}
	return t, nil
}

// Tokens lists the API tokens, the newest first, at most a thousand.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	list, _, err := s.TokenPage(ctx, Scope{All: true}, uuid.Nil, 1000)
	return list, err
}

// TokenPage lists the API tokens of a scope, the newest first, those behind one of
// them; more says that there are others behind.
func (s *Store) TokenPage(ctx context.Context, scope Scope, after uuid.UUID, limit int) (list []Token, more bool, err error) {
	q := scope.where(s.db.WithContext(ctx).Omit("secret_hash"), "tenant")
	if after != uuid.Nil {
		q = q.Where("(created_at, id) < (SELECT created_at, id FROM fenceline.api_tokens WHERE id = ?)", after)
	}
	if err := q.Order("created_at DESC, id DESC").Limit(limit + 1).Find(&list).Error; err != nil {
		return nil, false, fmt.Errorf("list API tokens: %w", err)
	}
	if len(list) > limit {
		return list[:limit], true, nil
	}
	return list, false, nil
}

// RevokeToken ends a token of a scope for good.
func (s *Store) RevokeToken(ctx context.Context, scope Scope, id uuid.UUID) error {
	tag := scope.where(s.db.WithContext(ctx).Table("fenceline.api_tokens"), "tenant").Where("id = ?", id).
		Update("revoked_at", s.db.Raw("coalesce(revoked_at, clock_timestamp())"))
	if tag.Error != nil {
		return fmt.Errorf("revoke API token %s: %w", id, tag.Error)
	}
	if tag.RowsAffected == 0 {
		return fmt.Errorf("API token %s: %w", id, ErrNotFound)
	}
	return nil
}
