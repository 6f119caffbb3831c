package storage

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Kept is something that somebody keeps by hand: a pin or a hold.
type Kept struct {
	ID     uuid.UUID  `json:"id"`   // of the export, the attempt or the hold
	What   string     `json:"what"` // pin (an export), publication (one publication is pinned) or hold
	Tenant string     `json:"tenant"`
	Kind   *string    `json:"kind,omitempty"`   // nil: every kind of the tenant
	Export *uuid.UUID `json:"export,omitempty"` // nil: every export of the tenant and kind
	Title  string     `json:"title,omitempty"`  // of the export, or its key
	Token  int64      `json:"token,omitempty"`  // of the publication
	By     string     `json:"by"`
	At     time.Time  `json:"at"`
	Note   string     `json:"note"`
}

// KeptFilter selects pins and holds.
type KeptFilter struct {
	Export uuid.UUID // only what keeps this one; the zero UUID for all
	After  string    // a [Page]'s Next
	Limit  int       // 0 is 50; at most 200
}

// keptSQL are the three kinds. %s are what all of them must fulfil, of the columns
// that an index begins with, and how much is read of each.
const (
	keptPins = `(SELECT e.id, 'pin', e.tenant, e.kind, e.id AS of, coalesce(nullif(e.title, ''), e.key), 0::bigint, e.pinned_by, e.pinned_at AS at, coalesce(e.pin_note, '')
		FROM fenceline.exports e WHERE e.pinned_at IS NOT NULL%s ORDER BY e.pinned_at DESC, e.id DESC%s)`
	keptPublications = `(SELECT a.id, 'publication', e.tenant, e.kind, e.id, coalesce(nullif(e.title, ''), e.key), a.token, a.pinned_by, a.pinned_at, coalesce(a.pin_note, '')
		FROM fenceline.attempts a JOIN fenceline.exports e ON e.id = a.export_id WHERE a.pinned_at IS NOT NULL%s ORDER BY a.pinned_at DESC, a.id DESC%s)`
	keptHolds = `(SELECT h.id, 'hold', h.tenant, h.kind, e.id, coalesce(nullif(e.title, ''), e.key, ''), 0::bigint, h.placed_by, h.placed_at, h.note
		FROM fenceline.holds h LEFT JOIN fenceline.exports e ON e.id = h.export_id WHERE h.released_at IS NULL%s ORDER BY h.placed_at DESC, h.id DESC%s)`
)

// Kept lists pins and holds, the newest first.
func (s *Store) Kept(ctx context.Context, scope Scope, f KeptFilter) (Page[Kept], error) {
	page, limit := Page[Kept]{Items: []Kept{}}, pageSize(f.Limit)
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	var pins, publications, holds string
	if !scope.All {
		tenant := arg(scope.Tenant)
		pins, publications, holds = " AND e.tenant = "+tenant, " AND e.tenant = "+tenant, " AND h.tenant = "+tenant
	}
	if f.Export != uuid.Nil {
		id := arg(f.Export)
		pins += " AND e.id = " + id
		publications += " AND a.export_id = " + id
		holds += fmt.Sprintf(` AND (h.export_id = %s OR h.export_id IS NULL AND EXISTS (SELECT FROM fenceline.exports x
			WHERE x.id = %s AND x.tenant = h.tenant AND (h.kind IS NULL OR x.kind = h.kind)))`, id, id)
	}
	if f.After != "" {
		at, id, err := parseCursor(f.After)
		if err != nil {
			return page, err
		}
		from := fmt.Sprintf(" < (%s::timestamptz, %s::uuid)", arg(at), arg(id))
		pins += " AND (e.pinned_at, e.id)" + from
		publications += " AND (a.pinned_at, a.id)" + from
		holds += " AND (h.placed_at, h.id)" + from
	}
	most := fmt.Sprintf(" LIMIT %d", limit+1)
	sql := strings.Join([]string{fmt.Sprintf(keptPins, pins, most), fmt.Sprintf(keptPublications, publications, most), fmt.Sprintf(keptHolds, holds, most)}, " UNION ALL ")
	rows, err := s.pool.Query(ctx, sql+" ORDER BY at DESC, id DESC"+most, args...)
	if err == nil {
		page.Items, err = pgx.CollectRows(rows, scanKept)
	}
	if err != nil {
		return page, fmt.Errorf("list pins and holds: %w", err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = makeCursor(page.Items[limit-1].At, page.Items[limit-1].ID)
	}
	return page, nil
}

func scanKept(row pgx.CollectableRow) (k Kept, err error) {
	return k, row.Scan(&k.ID, &k.What, &k.Tenant, &k.Kind, &k.Export, &k.Title, &k.Token, &k.By, &k.At, &k.Note)
}

// DeletedExport is an export that was deleted, softly, and can be restored.
type DeletedExport struct {
	ID        uuid.UUID `json:"id"`
	Tenant    string    `json:"tenant"`
	Kind      string    `json:"kind"`
	Key       string    `json:"key"`
	Title     string    `json:"title"`
	Expired   bool      `json:"expired"` // a rule deleted it, and no person
	Bytes     int64     `json:"bytes"`   // of what was current
	DeletedAt time.Time `json:"deleted_at"`
}

// DeletedExports lists what can be restored: exports with files of which no clean-up
// has decided yet that they go, and whose key no other export has by now. The last
// deleted come first; after is a [Page]'s Next.
func (s *Store) DeletedExports(ctx context.Context, scope Scope, after string, limit int) (Page[DeletedExport], error) {
	page, limit := Page[DeletedExport]{Items: []DeletedExport{}}, pageSize(limit)
	sql, args := "", []any{limit + 1}
	if !scope.All {
		args = append(args, scope.Tenant)
		sql += fmt.Sprintf(" AND e.tenant = $%d", len(args))
	}
	if after != "" {
		at, id, err := parseCursor(after)
		if err != nil {
			return page, err
		}
		args = append(args, at, id)
		sql += fmt.Sprintf(" AND (e.deleted_at, e.id) < ($%d::timestamptz, $%d::uuid)", len(args)-1, len(args))
	}
	rows, err := s.pool.Query(ctx, `SELECT e.id, e.tenant, e.kind, e.key, e.title, e.expired, a.bytes, e.deleted_at FROM fenceline.exports e JOIN fenceline.attempts a ON a.id = e.attempt_id
		WHERE e.deleted_at IS NOT NULL AND e.attempt_id IS NOT NULL AND e.files_gone_at IS NULL AND a.state = 'published' AND a.doomed_at IS NULL
			AND NOT (e.expired AND EXISTS (SELECT FROM fenceline.exports o WHERE o.tenant = e.tenant AND o.kind = e.kind AND o.key = e.key AND NOT o.expired))`+sql+`
		ORDER BY e.deleted_at DESC, e.id DESC LIMIT $1`, args...)
	if err == nil {
		page.Items, err = pgx.CollectRows(rows, pgx.RowToStructByPos[DeletedExport])
	}
	if err != nil {
		return page, fmt.Errorf("list deleted exports: %w", err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = makeCursor(page.Items[limit-1].DeletedAt, page.Items[limit-1].ID)
	}
	return page, nil
}
