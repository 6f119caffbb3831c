package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// ErrLinkEnded means that a link opens nothing any more: it has expired, was revoked, or is used up.
var ErrLinkEnded = errors.New("the link opens nothing any more")

// Link opens one file of one publication for whoever holds its secret, which is
// kept as a hash only and told once.
type Link struct {
	ID        uuid.UUID  `json:"id"`
	ExportID  uuid.UUID  `json:"export_id"`
	AttemptID uuid.UUID  `json:"attempt_id"` // the publication
	FileName  string     `json:"file_name"`
	MadeBy    string     `json:"made_by"`
	MadeAt    time.Time  `json:"made_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	RevokedBy *string    `json:"revoked_by,omitempty"`
	Uses      int        `json:"uses"` // downloads so far
	MaxUses   *int       `json:"max_uses,omitempty"`
	UsedAt    *time.Time `json:"used_at,omitempty"` // the last time
}

// TableName names the table for gorm.
func (Link) TableName() string { return "fenceline.links" }

// Ended reports whether the link opens nothing any more at a time.
func (l Link) Ended(now time.Time) bool {
	return l.RevokedAt != nil || !now.Before(l.ExpiresAt) || l.MaxUses != nil && l.Uses >= *l.MaxUses
}

// NewLink asks for a link.
type NewLink struct {
	Export  uuid.UUID
	Attempt uuid.UUID // nil is the current publication
	File    string    // its name
	MadeBy  string
	Valid   time.Duration
	MaxUses int // 0 is any number
}

const linkColumns = "id, export_id, attempt_id, file_name, made_by, made_at, expires_at, revoked_at, revoked_by, uses, max_uses, used_at"

// MakeLink makes a link to a file of a publication and answers its secret, once.
// [ErrNotFound] when the scope does not see the export, or the publication has
// no such file; [ErrGone] when its files were cleaned up.
func (s *Store) MakeLink(ctx context.Context, scope Scope, n NewLink) (l Link, secret string, err error) {
	err = s.Transaction(ctx, func(tx Tx) error {
		l, secret, err = s.MakeLinkIn(ctx, tx, scope, n)
		return err
	})
	return l, secret, err
}

// MakeLinkIn is [Store.MakeLink] in the caller's transaction.
func (s *Store) MakeLinkIn(ctx context.Context, tx Tx, scope Scope, n NewLink) (l Link, secret string, err error) {
	e, err := s.Export(ctx, scope, n.Export)
	if err != nil {
		return l, "", err
	}
	if n.Attempt == uuid.Nil && e.AttemptID != nil {
		n.Attempt = *e.AttemptID
	}
	secret, hash := newSecret("")
	var most *int
	if n.MaxUses > 0 {
		most = &n.MaxUses
	}
	id, err := uuid.NewV7()
	if err != nil {
		return l, "", fmt.Errorf("make the id of a link: %w", err)
	}
	// The row lock keeps the clean-up from deleting the publication meanwhile.
	found := tx.Raw(`WITH a AS (SELECT a.id, a.export_id, f.name FROM fenceline.attempts a JOIN fenceline.files f ON f.attempt_id = a.id
			WHERE a.id = ? AND a.export_id = ? AND f.name = ? AND a.state IN ('published', 'superseded') FOR SHARE OF a)
		INSERT INTO fenceline.links (id, secret_hash, export_id, attempt_id, file_name, made_by, expires_at, max_uses)
		SELECT ?, ?, a.export_id, a.id, a.name, ?, clock_timestamp() + make_interval(secs => ?), ? FROM a RETURNING `+linkColumns,
		n.Attempt, e.ID, n.File, id, hash, n.MadeBy, n.Valid.Seconds(), most).Scan(&l)
	if found.Error != nil {
		return l, "", fmt.Errorf("make a link to %q of export %s: %w", n.File, e.ID, found.Error)
	}
	if found.RowsAffected == 0 {
		return l, "", s.noSuchFile(ctx, e, n)
	}
	return l, secret, nil
}

// noSuchFile tells a publication whose files are gone from one that never was.
func (s *Store) noSuchFile(ctx context.Context, e Export, n NewLink) error {
	a, err := s.Attempt(ctx, n.Attempt)
	if err == nil && a.ExportID == e.ID && a.State == AttemptDeleted && a.Verdict != nil && *a.Verdict == AttemptSuperseded {
		return fmt.Errorf("the files of attempt %s were cleaned up: %w", a.ID, ErrGone)
	}
	return fmt.Errorf("file %q of export %s: %w", n.File, e.ID, ErrNotFound)
}

// Links lists the links to an export, the newest first. after is a [Page]'s Next.
func (s *Store) Links(ctx context.Context, scope Scope, export uuid.UUID, after string, limit int) (Page[Link], error) {
	page := Page[Link]{Items: []Link{}}
	if _, err := s.Export(ctx, scope, export); err != nil {
		return page, err
	}
	q := s.db.WithContext(ctx).Select(linkColumns).Where("export_id = ?", export).Order("id DESC")
	if after != "" {
		id, err := uuid.Parse(after)
		if err != nil {
			return page, ErrCursor
		}
		q = q.Where("id < ?", id)
	}
	limit = pageSize(limit)
	if err := q.Limit(limit + 1).Find(&page.Items).Error; err != nil {
		return page, fmt.Errorf("list the links to export %s: %w", export, err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = page.Items[limit-1].ID.String()
	}
	return page, nil
}

// RevokeLink ends a link for good; one that was revoked before stays as it is.
// [ErrNotFound] when the export, which the scope must see, has no such link.
func (s *Store) RevokeLink(ctx context.Context, scope Scope, export, id uuid.UUID, by string) (l Link, err error) {
	if _, err := s.Export(ctx, scope, export); err != nil {
		return l, err
	}
	found := s.db.WithContext(ctx).Raw(`UPDATE fenceline.links SET revoked_at = coalesce(revoked_at, clock_timestamp()), revoked_by = coalesce(revoked_by, ?)
		WHERE id = ? AND export_id = ? RETURNING `+linkColumns, by, id, export).Scan(&l)
	if found.Error != nil {
		return l, fmt.Errorf("revoke link %s: %w", id, found.Error)
	}
	if found.RowsAffected == 0 {
		return l, fmt.Errorf("link %s: %w", id, ErrNotFound)
	}
	return l, nil
}

// LinkBySecret answers what a secret opens, without using it: programs that show
// previews of links look too. [ErrNotFound] when it is no link's, and
// [ErrLinkEnded], with the link, when it opens nothing any more.
func (s *Store) LinkBySecret(ctx context.Context, secret string) (l Link, err error) {
	var row struct {
		Link
		Open bool
	}
	err = s.db.WithContext(ctx).Raw(`SELECT `+linkColumns+`, `+linkOpen+` AS open FROM fenceline.links WHERE secret_hash = ?`, hashSecret(secret)).Take(&row).Error
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return l, fmt.Errorf("a link: %w", ErrNotFound)
	case err != nil:
		return l, fmt.Errorf("look up a link: %w", err)
	case !row.Open:
		return row.Link, ErrLinkEnded
	}
	return row.Link, nil
}

const linkOpen = "(revoked_at IS NULL AND expires_at > clock_timestamp() AND (max_uses IS NULL OR uses < max_uses))"

// UseLink counts a download through a link; [ErrLinkEnded] when it opens nothing any more.
func (s *Store) UseLink(ctx context.Context, id uuid.UUID) error {
	tag, err := s.pool.Exec(ctx, `UPDATE fenceline.links SET uses = uses + 1, used_at = clock_timestamp() WHERE id = $1 AND `+linkOpen, id)
	if err != nil {
		return fmt.Errorf("use link %s: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return ErrLinkEnded
	}
	return nil
}
