package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Identity is who somebody is at an OpenID provider. Only both together name a person.
type Identity struct{ Issuer, Subject string }

// ProviderSignin is what a provider has said of somebody who signs in.
type ProviderSignin struct {
	Identity
	// Names are what a new user may be called, the best first: the first that no other
	// user has, in whatever letters, is taken.
	Names []string
	Role  Role
	// Tenant is empty for all.
	Tenant string
	// KeepRole and KeepTenant leave a known user as it is; else the provider decides at each sign-in.
	KeepRole, KeepTenant bool
}

// ProviderResult is what a sign-in by a provider has done.
type ProviderResult struct {
	User    User
	Session string // its secret
	Made    bool   // the user is new
	Changed bool   // the role or the tenant; the user's other sessions have ended
}

// ErrNoAdmin means that an admin of all tenants has to sign in before others can.
var ErrNoAdmin = errors.New("there is no admin of all tenants yet")

// SigninByProvider begins a session of the user of an identity, who is made when there is
// none; a user without this identity is never taken, whatever the names. [ErrNotFound] when
// the user is disabled, [ErrLastAdmin] when the provider would take the last admin away,
// [ErrNoAdmin] when a user would be made before the first admin.
func (s *Store) SigninByProvider(ctx context.Context, p ProviderSignin, v Visitor) (ProviderResult, error) {
	var done ProviderResult
	err := s.Transaction(ctx, func(tx Tx) error {
		done = ProviderResult{}
		// Two first sign-ins at once must not make two users, nor two of nearly one name.
		if err := tx.Exec("SELECT pg_advisory_xact_lock(1178947139, 13)").Error; err != nil {
			return err
		}
		id, err := identified(tx, p.Identity)
		if err != nil {
			return err
		}
		if id == uuid.Nil {
			done.Made = true
			id, err = addIdentified(tx, p)
		} else {
			done.Changed, err = applyClaims(tx, id, p)
		}
		if err != nil {
			return err
		}
		done.User, done.Session, err = beginSession(tx, id, ViaProvider, "", v)
		return err // of a disabled user: nothing has changed
	})
	if err != nil {
		return ProviderResult{}, fmt.Errorf("sign in by a provider: %w", lastAdmin(err))
	}
	return done, nil
}

// identified is whose identity it is, or [uuid.Nil].
func identified(tx Tx, i Identity) (id uuid.UUID, err error) {
	err = tx.Raw("SELECT user_id FROM fenceline.identities WHERE issuer = ? AND subject = ?", i.Issuer, i.Subject).Row().Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return uuid.Nil, nil
	}
	return id, err
}

func addIdentified(tx Tx, p ProviderSignin) (uuid.UUID, error) {
	if p.Role != RoleAdmin || p.Tenant != "" {
		// The link that makes the first admin works only while there is nobody.
		var ready bool
		if err := tx.Raw("SELECT EXISTS (SELECT FROM fenceline.users f WHERE f.role = 'admin' AND f.tenant IS NULL AND f.disabled_at IS NULL)").Row().Scan(&ready); err != nil {
			return uuid.Nil, err
		}
		if !ready {
			return uuid.Nil, ErrNoAdmin
		}
	}
	for _, name := range p.Names {
		var taken bool
		if err := tx.Raw("SELECT EXISTS (SELECT FROM fenceline.users WHERE lower(name) = lower(?))", name).Row().Scan(&taken); err != nil {
			return uuid.Nil, err
		}
		if taken {
			continue
		}
		u, err := addUser(tx, NewUser{Name: name, Tenant: p.Tenant, Role: p.Role})
		if errors.Is(err, ErrUserExists) { // made by hand this instant
			continue
		}
		if err != nil {
			return uuid.Nil, err
		}
		return u.ID, tx.Exec("INSERT INTO fenceline.identities (issuer, subject, user_id) VALUES (?, ?, ?)", p.Issuer, p.Subject, u.ID).Error
	}
	return uuid.Nil, ErrUserExists
}

// applyClaims gives a user the role and the tenant that the provider says, and ends the
// sessions that were begun with others.
func applyClaims(tx Tx, id uuid.UUID, p ProviderSignin) (changed bool, err error) {
	res := tx.Exec(`UPDATE fenceline.users u SET role = w.role, tenant = w.tenant
		FROM (SELECT o.id, CASE WHEN ? THEN o.role ELSE ? END AS role, CASE WHEN ? THEN o.tenant ELSE ? END AS tenant
			FROM fenceline.users o WHERE o.id = ? AND o.disabled_at IS NULL) w
		WHERE u.id = w.id AND (u.role, u.tenant) IS DISTINCT FROM (w.role, w.tenant)`,
		p.KeepRole, p.Role, p.KeepTenant, nullable(p.Tenant), id)
	if res.Error != nil || res.RowsAffected == 0 {
		return false, res.Error
	}
	return true, tx.Exec("DELETE FROM fenceline.sessions WHERE user_id = ?", id).Error
}

// EndSessionsAt ends all sessions of the user of an identity, whom the provider no longer
// lets in, and answers how many those were.
func (s *Store) EndSessionsAt(ctx context.Context, i Identity) (int64, error) {
	tag, err := s.pool.Exec(ctx, `DELETE FROM fenceline.sessions WHERE user_id =
		(SELECT user_id FROM fenceline.identities WHERE issuer = $1 AND subject = $2)`, i.Issuer, i.Subject)
	if err != nil {
		return 0, fmt.Errorf("end the sessions of somebody at a provider: %w", err)
	}
	return tag.RowsAffected(), nil
}
