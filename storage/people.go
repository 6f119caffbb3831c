package storage

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// User is a person who may look and ask.
type User struct {
	ID     uuid.UUID `json:"id"`
	Name   string    `json:"name"`
	Tenant *string   `json:"tenant,omitempty"` // nil sees every tenant
	Role   Role      `json:"role"`
}

// Scope is whose rows the user may see.
func (u User) Scope() Scope { return scopeOf(u.Tenant) }

// Token is an API token, without its secret.
type Token struct {
	ID         uuid.UUID  `json:"id"`
	Name       string     `json:"name"`
	Tenant     *string    `json:"tenant,omitempty"` // nil sees every tenant
	Verbs      VerbList   `json:"verbs" gorm:"type:text[]"`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
}

// TableName names the table for gorm.
func (Token) TableName() string { return "fenceline.api_tokens" }

// Scope is whose rows the token may see.
func (t Token) Scope() Scope { return scopeOf(t.Tenant) }

func scopeOf(tenant *string) Scope {
	if tenant == nil {
		return Scope{All: true}
	}
	return Scope{Tenant: *tenant}
}

// tokenPrefix marks API tokens, so that a leaked one can be recognised.
const tokenPrefix = "fl_"

// newSecret makes a secret of 256 random bits. Only its SHA-256 is kept: what is
// random needs no salt, and is looked up by its hash, never compared byte by byte.
func newSecret(prefix string) (secret string, hash []byte) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails: crypto/rand ends the program instead
	secret = prefix + base64.RawURLEncoding.EncodeToString(raw)
	return secret, hashSecret(secret)
}

func hashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// NewSigninLink makes the secret of a sign-in link that works once, for a while.
func (s *Store) NewSigninLink(ctx context.Context, valid time.Duration) (string, error) {
	secret, hash := newSecret("")
	_, err := s.pool.Exec(ctx, `INSERT INTO fenceline.signin_links (secret_hash, expires_at)
		VALUES ($1, clock_timestamp() + make_interval(secs => $2))`, hash, valid.Seconds())
	if err != nil {
		return "", fmt.Errorf("make a sign-in link: %w", err)
	}
	return secret, nil
}

// SigninLinkValid reports whether a link would still work, without using it up.
func (s *Store) SigninLinkValid(ctx context.Context, secret string) (bool, error) {
	var ok bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM fenceline.signin_links
		WHERE secret_hash = $1 AND used_at IS NULL AND expires_at > clock_timestamp())`, hashSecret(secret)).Scan(&ok)
	if err != nil {
		return false, fmt.Errorf("look up a sign-in link: %w", err)
	}
	return ok, nil
}

// UseSigninLink uses a link up, makes the user when there is none of that name,
// and begins a session. [ErrNotFound] when the link does not work (any more).
func (s *Store) UseSigninLink(ctx context.Context, secret, name string, valid time.Duration) (session string, err error) {
	session, hash := newSecret("")
	err = s.Transaction(ctx, func(tx Tx) error {
		used := tx.Exec(`UPDATE fenceline.signin_links SET used_at = clock_timestamp()
			WHERE secret_hash = ? AND used_at IS NULL AND expires_at > clock_timestamp()`, hashSecret(secret))
		if used.Error != nil {
			return used.Error
		}
		if used.RowsAffected == 0 {
			return ErrNotFound
		}
		if err := tx.Exec("INSERT INTO fenceline.users (name) VALUES (?) ON CONFLICT (name) DO NOTHING", name).Error; err != nil {
			return err
		}
		begun := tx.Exec(`INSERT INTO fenceline.sessions (secret_hash, user_id, expires_at)
			SELECT ?, id, clock_timestamp() + make_interval(secs => ?) FROM fenceline.users WHERE name = ? AND disabled_at IS NULL`,
			hash, valid.Seconds(), name)
		if begun.Error == nil && begun.RowsAffected == 0 {
			return ErrNotFound // the user is disabled; the link is not used up
		}
		return begun.Error
	})
	if err != nil {
		return "", fmt.Errorf("sign in by link: %w", err)
	}
	return session, nil
}

// FirstUser answers the name of the oldest user, empty when there is none yet.
func (s *Store) FirstUser(ctx context.Context) (string, error) {
	var name string
	err := s.db.WithContext(ctx).Raw("SELECT name FROM fenceline.users WHERE disabled_at IS NULL ORDER BY created_at LIMIT 1").Row().Scan(&name)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("look for a user: %w", err)
	}
	return name, nil
}

// SessionUser answers whose session a secret is. [ErrNotFound] when it is none or has ended.
func (s *Store) SessionUser(ctx context.Context, secret string) (User, error) {
	var u User
	err := s.db.WithContext(ctx).Raw(`SELECT u.id, u.name, u.tenant, u.role FROM fenceline.sessions s JOIN fenceline.users u ON u.id = s.user_id
		WHERE s.secret_hash = ? AND s.expires_at > clock_timestamp() AND u.disabled_at IS NULL`, hashSecret(secret)).
		Row().Scan(&u.ID, &u.Name, &u.Tenant, &u.Role)
	if errors.Is(err, sql.ErrNoRows) {
		return User{}, ErrNotFound
	}
	if err != nil {
		return User{}, fmt.Errorf("look up a session: %w", err)
	}
	return u, nil
}

// EndSession signs a session out; one that is unknown is out already.
func (s *Store) EndSession(ctx context.Context, secret string) error {
	if _, err := s.pool.Exec(ctx, "DELETE FROM fenceline.sessions WHERE secret_hash = $1", hashSecret(secret)); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// NewToken makes an API token for a tenant, or for all when tenant is empty, that
// may do what the verbs say; none are all of them. The secret is answered here
// and never again.
func (s *Store) NewToken(ctx context.Context, name, tenant string, verbs ...Verb) (Token, string, error) {
	if len(verbs) == 0 {
		verbs = Verbs()
	}
	secret, hash := newSecret(tokenPrefix)
	t := Token{Name: name, Tenant: nullable(tenant), Verbs: verbs}
	err := s.pool.QueryRow(ctx, "INSERT INTO fenceline.api_tokens (name, tenant, secret_hash, verbs) VALUES ($1, $2, $3, $4::text[]) RETURNING id, created_at",
		name, t.Tenant, hash, verbs).Scan(&t.ID, &t.CreatedAt)
	if err != nil {
		return Token{}, "", fmt.Errorf("make API token %q: %w", name, err)
	}
	return t, secret, nil
}

// TokenBySecret answers which token a secret is and notes its use, to the
// minute. [ErrNotFound] when it is none or was revoked.
func (s *Store) TokenBySecret(ctx context.Context, secret string) (Token, error) {
	var t Token
	hash := hashSecret(secret)
	err := s.db.WithContext(ctx).Raw(`SELECT id, name, tenant, verbs, created_at, last_used_at FROM fenceline.api_tokens
		WHERE secret_hash = ? AND revoked_at IS NULL`, hash).Row().Scan(&t.ID, &t.Name, &t.Tenant, &t.Verbs, &t.CreatedAt, &t.LastUsedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return Token{}, ErrNotFound
	}
	if err != nil {
		return Token{}, fmt.Errorf("look up an API token: %w", err)
	}
	_, err = s.pool.Exec(ctx, `UPDATE fenceline.api_tokens SET last_used_at = clock_timestamp()
		WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < clock_timestamp() - interval '1 minute')`, t.ID)
	if err != nil {
		return Token{}, fmt.Errorf("note the use of API token %q: %w", t.Name, err)
	}
	return t, nil
}

// Tokens lists the API tokens, the newest first.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	var list []Token
	if err := s.db.WithContext(ctx).Omit("secret_hash").Order("created_at DESC").Limit(1000).Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list API tokens: %w", err)
	}
	return list, nil
}

// RevokeToken ends a token for good.
func (s *Store) RevokeToken(ctx context.Context, id uuid.UUID) error {
	tag, err := s.pool.Exec(ctx, "UPDATE fenceline.api_tokens SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = $1", id)
	if err != nil {
		return fmt.Errorf("revoke API token %s: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("API token %s: %w", id, ErrNotFound)
	}
	return nil
}

// PruneSecrets removes sessions and sign-in links that ended more than a day ago.
func (s *Store) PruneSecrets(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `WITH links AS (DELETE FROM fenceline.signin_links WHERE expires_at < clock_timestamp() - interval '1 day')
		DELETE FROM fenceline.sessions WHERE expires_at < clock_timestamp() - interval '1 day'`)
	if err != nil {
		return fmt.Errorf("prune sessions: %w", err)
	}
	return nil
}
