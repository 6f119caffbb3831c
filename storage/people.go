package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
)

// User is a person who may look and ask.
type User struct {
	ID         uuid.UUID  `json:"id"`
	Name       string     `json:"name"`
	Tenant     *string    `json:"tenant,omitempty"` // nil sees every tenant
	Role       Role       `json:"role"`
	CreatedAt  time.Time  `json:"created_at"`
	SignedInAt *time.Time `json:"signed_in_at,omitempty"` // the last time
	DisabledAt *time.Time `json:"disabled_at,omitempty"`
	PasswordAt *time.Time `json:"password_at,omitempty"` // since when the password is this one; nil without one
	// Issuer is the provider that knows the user; empty for none.
	Issuer string `json:"issuer,omitempty"`
}

// Scope is whose rows the user may see.
func (u User) Scope() Scope { return scopeOf(u.Tenant) }

// TenantName is the tenant, or empty for all.
func (u User) TenantName() string {
	if u.Tenant == nil {
		return ""
	}
	return *u.Tenant
}

var (
	// ErrUserExists means that there is a user of this name.
	ErrUserExists = errors.New("there is a user of this name")
	// ErrLastAdmin means that nobody else could let others in: the last admin of all tenants who
	// can sign in cannot be disabled, removed, or given another role or a tenant.
	ErrLastAdmin = errors.New("this is the last admin of all tenants who can sign in")
)

const userColumns = `u.id, u.name, u.tenant, u.role, u.created_at, u.signed_in_at, u.disabled_at, u.password_at,
	coalesce((SELECT min(i.issuer) FROM fenceline.identities i WHERE i.user_id = u.id), '') AS issuer`

// NewUser is what a user is made of.
type NewUser struct {
	Name   string
	Tenant string // empty: all
	Role   Role
	// Password is hashed, in the PHC string format, or empty for none.
	Password string
}

// AddUser makes a user. [ErrUserExists] when the name is taken.
func (s *Store) AddUser(ctx context.Context, n NewUser) (User, error) {
	var u User
	err := s.Transaction(ctx, func(tx Tx) (err error) {
		u, err = addUser(tx, n)
		return err
	})
	if err != nil {
		return User{}, fmt.Errorf("add user %q: %w", n.Name, err)
	}
	return u, nil
}

// AddUserIn is [Store.AddUser] in the caller's transaction.
func (s *Store) AddUserIn(tx Tx, n NewUser) (User, error) { return addUser(tx, n) }

func addUser(tx Tx, n NewUser) (User, error) {
	var u User
	res := tx.Raw(`INSERT INTO fenceline.users AS u (name, tenant, role, password, password_at)
		VALUES (?, ?, ?, ?, CASE WHEN ?::text IS NOT NULL THEN clock_timestamp() END) ON CONFLICT (name) DO NOTHING RETURNING `+userColumns,
		n.Name, nullable(n.Tenant), n.Role, nullable(n.Password), nullable(n.Password)).Scan(&u)
	if res.Error == nil && res.RowsAffected == 0 {
		return u, ErrUserExists
	}
	return u, res.Error
}

// User answers a user in a scope. [ErrNotFound] when there is none.
func (s *Store) User(ctx context.Context, scope Scope, id uuid.UUID) (User, error) {
	return s.oneUser(ctx, scope, "u.id = ?", id)
}

// UserByName answers a user in a scope by the name. [ErrNotFound] when there is none.
func (s *Store) UserByName(ctx context.Context, scope Scope, name string) (User, error) {
	return s.oneUser(ctx, scope, "u.name = ?", name)
}

func (s *Store) oneUser(ctx context.Context, scope Scope, where string, arg any) (User, error) {
	var u User
	res := scope.where(s.users(ctx), "u.tenant").Where(where, arg).Limit(1).Scan(&u)
	if res.Error != nil {
		return u, fmt.Errorf("look up a user: %w", res.Error)
	}
	if res.RowsAffected == 0 {
		return u, fmt.Errorf("user %v: %w", arg, ErrNotFound)
	}
	return u, nil
}

func (s *Store) users(ctx context.Context) *gorm.DB {
	return s.db.WithContext(ctx).Table("fenceline.users u").Select(userColumns)
}

// Users lists the users of a scope by name, those behind a name; more says that
// there are others behind them.
func (s *Store) Users(ctx context.Context, scope Scope, after string, limit int) (list []User, more bool, err error) {
	q := scope.where(s.users(ctx), "u.tenant")
	if after != "" {
		q = q.Where("u.name > ?", after)
	}
	if err := q.Order("u.name").Limit(limit + 1).Scan(&list).Error; err != nil {
		return nil, false, fmt.Errorf("list users: %w", err)
	}
	if len(list) > limit {
		return list[:limit], true, nil
	}
	return list, false, nil
}

// UserChange is what is to change of a user; nil fields stay.
type UserChange struct {
	Role     *Role
	Tenant   *string // empty: all
	Disabled *bool
	Password *string // hashed; empty takes it away
	// Keep is the secret of the one session that goes on; all others of the user end.
	Keep string
}

// ChangeUser changes a user of a scope, and ends all sessions but the one to keep:
// what they were begun with no longer holds. [ErrLastAdmin] when nobody could let
// others in afterwards.
func (s *Store) ChangeUser(ctx context.Context, scope Scope, id uuid.UUID, c UserChange) (User, error) {
	set := map[string]any{}
	if c.Role != nil {
		set["role"] = *c.Role
	}
	if c.Tenant != nil {
		set["tenant"] = nullable(*c.Tenant)
	}
	if c.Disabled != nil {
		set["disabled_at"] = gorm.Expr("CASE WHEN ? THEN coalesce(disabled_at, clock_timestamp()) END", *c.Disabled)
	}
	if c.Password != nil {
		set["password"] = nullable(*c.Password)
		set["password_at"] = gorm.Expr("CASE WHEN ?::text IS NOT NULL THEN clock_timestamp() END", nullable(*c.Password))
	}
	err := s.Transaction(ctx, func(tx Tx) error {
		res := scope.where(tx.Table("fenceline.users"), "tenant").Where("id = ?", id).Updates(set)
		if res.Error == nil && res.RowsAffected == 0 {
			return ErrNotFound
		}
		if res.Error != nil {
			return res.Error
		}
		// The row is locked now: a sign-in that was checked against the old row has its
		// session here already, and one that was not must check again.
		return tx.Exec("DELETE FROM fenceline.sessions WHERE user_id = ? AND secret_hash <> ?", id, hashSecret(c.Keep)).Error
	})
	if err != nil {
		return User{}, fmt.Errorf("change user %s: %w", id, lastAdmin(err))
	}
	return s.User(ctx, Scope{All: true}, id)
}

// RemoveUser removes a user of a scope with its sessions and identities. What the
// user asked for keeps the name.
func (s *Store) RemoveUser(ctx context.Context, scope Scope, id uuid.UUID) error {
	err := s.Transaction(ctx, func(tx Tx) error {
		res := scope.where(tx.Table("fenceline.users"), "tenant").Where("id = ?", id).Delete(nil)
		if res.Error == nil && res.RowsAffected == 0 {
			return ErrNotFound
		}
		return res.Error
	})
	if err != nil {
		return fmt.Errorf("remove user %s: %w", id, lastAdmin(err))
	}
	return nil
}

func lastAdmin(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "FL011" {
		return ErrLastAdmin
	}
	return err
}

// PasswordOf answers the hash of a user's password, empty when there is no such user
// who may sign in with one; and whose it is.
func (s *Store) PasswordOf(ctx context.Context, name string) (id uuid.UUID, hash string, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT id, coalesce(password, '') FROM fenceline.users WHERE name = ? AND disabled_at IS NULL", name).Row().Scan(&id, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return uuid.Nil, "", nil
	}
	if err != nil {
		return uuid.Nil, "", fmt.Errorf("look up a user: %w", err)
	}
	return id, hash, nil
}

// Rehash replaces the hash of a password by another of the same password; sessions go on.
func (s *Store) Rehash(ctx context.Context, id uuid.UUID, old, hash string) error {
	if _, err := s.pool.Exec(ctx, "UPDATE fenceline.users SET password = $3 WHERE id = $1 AND password = $2", id, old, hash); err != nil {
		return fmt.Errorf("hash the password of user %s again: %w", id, err)
	}
	return nil
}

// TenantUse is a tenant that is known, because somebody or something is of it.
type TenantUse struct {
	Name    string
	Exports int64 // counted up to [TenantCountCap]
	Users   int64
	Tokens  int64 // that work
}

// TenantCountCap is where counting stops: this many means this many or more.
const TenantCountCap = 1000

// Tenants lists the tenants of a scope that exports, users or tokens are of, by name.
// It skips from name to name in the indexes, so its cost is that of the tenants.
func (s *Store) Tenants(ctx context.Context, scope Scope, after string, limit int) (list []TenantUse, more bool, err error) {
	const names = `WITH RECURSIVE t(name) AS (
			SELECT least((SELECT min(tenant) FROM fenceline.exports WHERE tenant > $1 AND NOT expired), (SELECT min(tenant) FROM fenceline.users WHERE tenant > $1),
				(SELECT min(tenant) FROM fenceline.api_tokens WHERE tenant > $1))
			UNION ALL
			SELECT least((SELECT min(tenant) FROM fenceline.exports WHERE tenant > t.name AND NOT expired), (SELECT min(tenant) FROM fenceline.users WHERE tenant > t.name),
				(SELECT min(tenant) FROM fenceline.api_tokens WHERE tenant > t.name)) FROM t WHERE t.name IS NOT NULL
		), known AS (SELECT name FROM t WHERE name IS NOT NULL LIMIT $2)`
	const one = `WITH known AS (SELECT $1::text AS name LIMIT $2)`
	from, first := names, after
	if !scope.All {
		from, first = one, scope.Tenant
	}
	rows, err := s.pool.Query(ctx, from+` SELECT known.name,
			(SELECT count(*) FROM (SELECT FROM fenceline.exports WHERE tenant = known.name AND NOT expired ORDER BY kind, key LIMIT $3) x),
			(SELECT count(*) FROM (SELECT FROM fenceline.users WHERE tenant = known.name LIMIT $3) x),
			(SELECT count(*) FROM (SELECT FROM fenceline.api_tokens WHERE tenant = known.name AND revoked_at IS NULL
				AND (expires_at IS NULL OR expires_at > clock_timestamp()) LIMIT $3) x)
		FROM known ORDER BY known.name`, first, limit+1, TenantCountCap)
	if err != nil {
		return nil, false, fmt.Errorf("list tenants: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var t TenantUse
		if err := rows.Scan(&t.Name, &t.Exports, &t.Users, &t.Tokens); err != nil {
			return nil, false, fmt.Errorf("list tenants: %w", err)
		}
		list = append(list, t)
	}
	if err := rows.Err(); err != nil {
		return nil, false, fmt.Errorf("list tenants: %w", err)
	}
	if len(list) > limit {
		return list[:limit], true, nil
	}
	return list, false, nil
}
