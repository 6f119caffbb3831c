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

const (
	// SessionTime is how long a sign-in lasts at most.
	SessionTime = 7 * 24 * time.Hour
	// SessionIdle is how long a session lasts that nobody uses.
	SessionIdle = 24 * time.Hour
	// seenEvery bounds how often the use of a session or of a token is noted.
	seenEvery = time.Minute
)

// How somebody signed in.
const (
	ViaLink     = "link"
	ViaPassword = "password"
	ViaProvider = "provider"
)

// Visitor is from where somebody signs in, as it is shown in the list of sessions.
type Visitor struct {
	Address string // of the network, at most 100 characters
	Browser string // what it calls itself, at most 300 characters
}

// Session is a sign-in of a user, without its secret.
type Session struct {
	ID        uuid.UUID `json:"id"`
	Via       string    `json:"via"`
	CreatedAt time.Time `json:"created_at"`
	SeenAt    time.Time `json:"seen_at"` // to the minute
	ExpiresAt time.Time `json:"expires_at"`
	Address   string    `json:"address"`
	Browser   string    `json:"browser"`
	Current   bool      `json:"current"` // it is the one that asks
}

// NewSigninLink makes the secret of a sign-in link that works once, for a while: for
// one user, or, with [uuid.Nil], for the first admin.
func (s *Store) NewSigninLink(ctx context.Context, user uuid.UUID, valid time.Duration) (string, error) {
	secret, hash := newSecret("")
	_, err := s.pool.Exec(ctx, `INSERT INTO fenceline.signin_links (secret_hash, user_id, expires_at)
		VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))`, hash, nullableID(user), valid.Seconds())
	if err != nil {
		return "", fmt.Errorf("make a sign-in link: %w", err)
	}
	return secret, nil
}

// firstAdmin picks, of users f, whom a link signs in that is nobody's.
const firstAdmin = "f.role = 'admin' AND f.tenant IS NULL AND f.disabled_at IS NULL ORDER BY f.created_at LIMIT 1"

// LinkUser answers as whom a link would sign in, without using it up: its user's name,
// or the first admin's, or empty when there is no user yet. [ErrNotFound] when it does
// not work (any more).
func (s *Store) LinkUser(ctx context.Context, secret string) (name string, err error) {
	var known, first *string
	err = s.pool.QueryRow(ctx, `SELECT u.name, CASE WHEN l.user_id IS NULL THEN (SELECT f.name FROM fenceline.users f WHERE `+firstAdmin+`) END
		FROM fenceline.signin_links l LEFT JOIN fenceline.users u ON u.id = l.user_id
		WHERE l.secret_hash = $1 AND l.used_at IS NULL AND l.expires_at > clock_timestamp() AND u.disabled_at IS NULL`, hashSecret(secret)).Scan(&known, &first)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", ErrNotFound
	case err != nil:
		return "", fmt.Errorf("look up a sign-in link: %w", err)
	case known != nil:
		return *known, nil
	case first != nil:
		return *first, nil
	}
	return "", nil
}

// UseSigninLink uses a link up and begins a session. A link that is nobody's is for the
// first admin; when there is no user at all, name becomes the first, an admin of all tenants.
// [ErrNotFound] when the link does not work (any more).
func (s *Store) UseSigninLink(ctx context.Context, secret, name string, v Visitor) (user User, session string, err error) {
	err = s.Transaction(ctx, func(tx Tx) error {
		var owner *uuid.UUID
		used := tx.Raw(`UPDATE fenceline.signin_links SET used_at = clock_timestamp()
			WHERE secret_hash = ? AND used_at IS NULL AND expires_at > clock_timestamp() RETURNING user_id`, hashSecret(secret)).Row()
		if err := used.Scan(&owner); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				err = ErrNotFound
			}
			return err
		}
		if owner == nil {
			if owner, err = firstUser(tx, name); err != nil {
				return err
			}
		}
		user, session, err = beginSession(tx, *owner, ViaLink, "", v)
		return err // of a disabled user: the link is not used up
	})
	if err != nil {
		return User{}, "", fmt.Errorf("sign in by link: %w", err)
	}
	return user, session, nil
}

// firstUser is the oldest admin of all tenants, made when there is nobody at all.
func firstUser(tx Tx, name string) (*uuid.UUID, error) {
	// Two links that are used at once must not make two first users.
	if err := tx.Exec("SELECT pg_advisory_xact_lock(1178947139, 12)").Error; err != nil {
		return nil, err
	}
	var id *uuid.UUID
	var others bool
	err := tx.Raw(`SELECT (SELECT f.id FROM fenceline.users f WHERE `+firstAdmin+`), EXISTS (SELECT FROM fenceline.users)`).Row().Scan(&id, &others)
	if err != nil || id != nil {
		return id, err
	}
	if others || name == "" {
		return nil, ErrNotFound
	}
	u, err := addUser(tx, NewUser{Name: name, Role: RoleAdmin})
	return &u.ID, err
}

// BeginSession begins a session of a user who was recognised in some way. hash is the
// password that was checked, if any: when it was changed meanwhile, or the user
// disabled, the error is [ErrNotFound].
func (s *Store) BeginSession(ctx context.Context, user uuid.UUID, via, hash string, v Visitor) (u User, session string, err error) {
	err = s.Transaction(ctx, func(tx Tx) error {
		u, session, err = beginSession(tx, user, via, hash, v)
		return err
	})
	if err != nil {
		return User{}, "", fmt.Errorf("begin a session: %w", err)
	}
	return u, session, nil
}

func beginSession(tx Tx, user uuid.UUID, via, hash string, v Visitor) (u User, session string, err error) {
	// The update locks the row, so that who changes the user ends this session too, or
	// was before it and is seen here.
	found := tx.Raw(`UPDATE fenceline.users u SET signed_in_at = clock_timestamp()
		WHERE u.id = ? AND u.disabled_at IS NULL AND (? = '' OR u.password = ?) RETURNING `+userColumns, user, hash, hash).Scan(&u)
	if found.Error == nil && found.RowsAffected == 0 {
		return u, "", ErrNotFound
	}
	if found.Error != nil {
		return u, "", found.Error
	}
	session, secret := newSecret("")
	err = tx.Exec(`INSERT INTO fenceline.sessions (user_id, secret_hash, via, address, browser, expires_at)
		VALUES (?, ?, ?, left(?, 100), left(?, 300), clock_timestamp() + make_interval(secs => ?))`,
		user, secret, via, v.Address, v.Browser, SessionTime.Seconds()).Error
	return u, session, err
}

// liveSession is the condition of a session s that has not ended.
const liveSession = "s.expires_at > clock_timestamp() AND s.seen_at > clock_timestamp() - make_interval(secs => ?)"

// SessionUser answers whose session a secret is, and notes its use, to the minute.
// [ErrNotFound] when it is none or has ended.
func (s *Store) SessionUser(ctx context.Context, secret string) (User, error) {
	var u User
	var stale bool
	hash := hashSecret(secret)
	err := s.db.WithContext(ctx).Raw(`SELECT u.id, u.name, u.tenant, u.role, s.seen_at < clock_timestamp() - make_interval(secs => ?)
		FROM fenceline.sessions s JOIN fenceline.users u ON u.id = s.user_id
		WHERE s.secret_hash = ? AND u.disabled_at IS NULL AND `+liveSession, seenEvery.Seconds(), hash, SessionIdle.Seconds()).
		Row().Scan(&u.ID, &u.Name, &u.Tenant, &u.Role, &stale)
	if errors.Is(err, sql.ErrNoRows) {
		return User{}, ErrNotFound
	}
	if err == nil && stale {
		_, err = s.pool.Exec(ctx, "UPDATE fenceline.sessions SET seen_at = clock_timestamp() WHERE secret_hash = $1", hash)
	}
	if err != nil {
		return User{}, fmt.Errorf("look up a session: %w", err)
	}
	return u, nil
}

// maxSessions is how many sessions of a user are listed.
const maxSessions = 100

// Sessions lists the sessions of a user that have not ended, the last used first, at
// most a hundred; secret is that of the one who asks, if it is the user.
func (s *Store) Sessions(ctx context.Context, user uuid.UUID, secret string) (list []Session, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT s.id, s.via, s.created_at, s.seen_at, s.expires_at, s.address, s.browser, s.secret_hash = ? AS current
		FROM fenceline.sessions s WHERE s.user_id = ? AND `+liveSession+` ORDER BY s.seen_at DESC LIMIT ?`,
		hashSecret(secret), user, SessionIdle.Seconds(), maxSessions).Scan(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return list, nil
}

// EndSession signs a session out; one that is unknown is out already.
func (s *Store) EndSession(ctx context.Context, secret string) error {
	if _, err := s.pool.Exec(ctx, "DELETE FROM fenceline.sessions WHERE secret_hash = $1", hashSecret(secret)); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// EndSessionOf ends one session of a user. [ErrNotFound] when it is not the user's.
func (s *Store) EndSessionOf(ctx context.Context, user, session uuid.UUID) error {
	tag, err := s.pool.Exec(ctx, "DELETE FROM fenceline.sessions WHERE user_id = $1 AND id = $2", user, session)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("end session %s: %w", session, err)
	}
	return nil
}

// EndSessionsOf ends all sessions of a user but the one of a secret, and answers how
// many those were; an empty secret spares none.
func (s *Store) EndSessionsOf(ctx context.Context, user uuid.UUID, keep string) (int64, error) {
	tag, err := s.pool.Exec(ctx, "DELETE FROM fenceline.sessions WHERE user_id = $1 AND secret_hash <> $2", user, hashSecret(keep))
	if err != nil {
		return 0, fmt.Errorf("end the sessions of user %s: %w", user, err)
	}
	return tag.RowsAffected(), nil
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
