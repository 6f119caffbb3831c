package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// FailedGroup are failed jobs of one kind whose errors differ only in numbers, ids
// and quoted values.
type FailedGroup struct {
	ID      uuid.UUID `json:"id"`
	Kind    string    `json:"kind"`
	Pattern string    `json:"pattern"` // the first line of the error with # and "…" in their place
	Error   string    `json:"error"`   // of the newest one
	// Count stops at [CountCap]+1.
	Count   int64       `json:"count"`
	Newest  time.Time   `json:"newest"`
	Oldest  time.Time   `json:"oldest"`
	Samples []uuid.UUID `json:"samples" gorm:"-"` // of jobs, the newest first
}

const (
	// groupsLook bounds how many groups are compared for which of them has the newest failure.
	groupsLook = 500
	// groupSamples is how many jobs of a group are named.
	groupSamples = 3
)

// FailedGroups lists the groups with the newest failures, at most limit, and
// answers whether there are more. Without a filter it takes one look for each
// group; with one it groups the newest [CountCap] jobs that match.
func (s *Store) FailedGroups(ctx context.Context, scope Scope, f FailedFilter, limit int) (groups []FailedGroup, more bool, err error) {
	filtered := f != FailedFilter{Tenant: f.Tenant}
	if !filtered {
		if f.Tenant != "" {
			if !scope.Sees(f.Tenant) {
				return []FailedGroup{}, false, nil
			}
			scope = Scope{Tenant: f.Tenant}
		}
		groups, err = s.newestGroups(ctx, scope)
	} else {
		groups, err = s.groupNewest(ctx, scope, f)
	}
	if err != nil {
		return nil, false, fmt.Errorf("group failed jobs: %w", err)
	}
	slices.SortFunc(groups, func(a, b FailedGroup) int {
		return cmp.Or(b.Newest.Compare(a.Newest), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	if more = len(groups) > limit; more {
		groups = groups[:limit]
	}
	var kept []FailedGroup
	if filtered {
		kept, err = s.describeSamples(ctx, groups)
	} else {
		kept, err = s.describeGroups(ctx, scope, groups)
	}
	if err != nil {
		return nil, false, fmt.Errorf("look at groups of failed jobs: %w", err)
	}
	return kept, more, nil
}

// newestGroups goes from group to group by the index, one look for each.
func (s *Store) newestGroups(ctx context.Context, scope Scope) (groups []FailedGroup, err error) {
	rows, err := s.pool.Query(ctx, `WITH RECURSIVE g AS (
			(SELECT failed_group, finished_at FROM fenceline.jobs WHERE state = 'failed' AND `+scope.cond("tenant", 1)+` ORDER BY failed_group, finished_at DESC, id DESC LIMIT 1)
			UNION ALL SELECT n.failed_group, n.finished_at FROM g, LATERAL (SELECT j.failed_group, j.finished_at FROM fenceline.jobs j
				WHERE j.state = 'failed' AND `+scope.cond("j.tenant", 1)+` AND j.failed_group > g.failed_group ORDER BY j.failed_group, j.finished_at DESC, j.id DESC LIMIT 1) n)
		SELECT failed_group, finished_at FROM g LIMIT $2`, scope.Tenant, groupsLook)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var g FailedGroup
		if err := rows.Scan(&g.ID, &g.Newest); err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, rows.Err()
}

// groupNewest groups the newest [CountCap] jobs that match, and names the newest few of each group: to look for
// them by group once more costs as much again for each group.
func (s *Store) groupNewest(ctx context.Context, scope Scope, f FailedFilter) ([]FailedGroup, error) {
	db := s.db.WithContext(ctx)
	newest := f.of(db, scope).Select("failed_group, finished_at, id").Order("finished_at DESC, id DESC").Limit(CountCap + 1)
	var rows []struct {
		ID             uuid.UUID
		Count          int64
		Newest, Oldest time.Time
		Samples        string
	}
	err := db.Raw(`SELECT failed_group AS id, count(*) AS count, max(finished_at) AS newest, min(finished_at) AS oldest,
		array_to_string((array_agg(id ORDER BY finished_at DESC, id DESC))[1:?], ' ') AS samples FROM (?) x GROUP BY failed_group`, groupSamples, newest).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	groups := make([]FailedGroup, len(rows))
	for i, r := range rows {
		groups[i] = FailedGroup{ID: r.ID, Count: r.Count, Newest: r.Newest, Oldest: r.Oldest}
		for _, text := range strings.Fields(r.Samples) {
			id, err := uuid.Parse(text)
			if err != nil {
				return nil, err
			}
			groups[i].Samples = append(groups[i].Samples, id)
		}
	}
	return groups, nil
}

// describeSamples fills in what the newest job of each group says, of the jobs that the groups name. Those that
// have not failed any more by now are left out, and with them groups that named no other.
func (s *Store) describeSamples(ctx context.Context, groups []FailedGroup) ([]FailedGroup, error) {
	var of, ids []string
	for _, g := range groups {
		for _, id := range g.Samples {
			of, ids = append(of, g.ID.String()), append(ids, id.String())
		}
	}
	var looks []groupLook
	err := s.db.WithContext(ctx).Raw(`SELECT g.of AS "group", j.id, j.kind, j.error, fenceline.error_pattern(j.error) AS pattern
		FROM unnest(?::uuid[], ?::uuid[]) WITH ORDINALITY g(of, id, r) JOIN fenceline.jobs j ON j.id = g.id AND j.state = 'failed' ORDER BY g.r`,
		textArray(of), textArray(ids)).Scan(&looks).Error
	if err != nil {
		return nil, err
	}
	kept := groups[:0]
	for _, g := range groups {
		if g.fill(looks) {
			kept = append(kept, g)
		}
	}
	return kept, nil
}

// groupLook is what one look at a group finds: one of its newest jobs, and how many there are when that is asked.
type groupLook struct {
	Group, ID            uuid.UUID
	Kind, Error, Pattern string
	FinishedAt           time.Time // zero when the group is known already
	Count                int64
	Oldest               *time.Time
}

// describeGroups fills in what the newest job of each group says, and how many jobs the groups hold, in one
// question. Groups that hold none any more are left out.
func (s *Store) describeGroups(ctx context.Context, scope Scope, groups []FailedGroup) ([]FailedGroup, error) {
	ids := make([]string, len(groups))
	for i, g := range groups {
		ids[i] = g.ID.String()
	}
	db := s.db.WithContext(ctx)
	of := func(columns string, limit int) *gorm.DB {
		return FailedFilter{}.of(db, scope).Where("failed_group = g.id").Select(columns).Order("finished_at DESC, id DESC").Limit(limit)
	}
	var looks []groupLook
	err := db.Raw(`SELECT g.id AS "group", n.*, c.* FROM unnest(?::uuid[]) WITH ORDINALITY g(id, r), LATERAL (?) n,
		LATERAL (SELECT count(*) AS count, min(finished_at) AS oldest FROM (?) x) c ORDER BY g.r, n.finished_at DESC, n.id DESC`,
		textArray(ids), of("id, kind, error, fenceline.error_pattern(error) AS pattern, finished_at", groupSamples), of("finished_at", CountCap+1)).Scan(&looks).Error
	if err != nil {
		return nil, err
	}
	kept := groups[:0]
	for _, g := range groups {
		if g.fill(looks) {
			kept = append(kept, g)
		}
	}
	for i, g := range kept {
		if g.Count > CountCap { // the oldest is elsewhere
			if err := (FailedFilter{Group: g.ID}).of(db, scope).Select("finished_at").Order("finished_at, id").Limit(1).Row().Scan(&kept[i].Oldest); err != nil {
				return nil, err
			}
		}
	}
	return kept, nil
}

// fill takes what was found of the group, and answers whether anything was.
func (g *FailedGroup) fill(looks []groupLook) bool {
	g.Samples = nil
	for _, l := range looks {
		if l.Group != g.ID {
			continue
		}
		if len(g.Samples) == 0 {
			g.Kind, g.Error, g.Pattern = l.Kind, l.Error, l.Pattern
			if l.Oldest != nil {
				g.Count, g.Oldest, g.Newest = l.Count, *l.Oldest, l.FinishedAt
			}
		}
		g.Samples = append(g.Samples, l.ID)
	}
	return len(g.Samples) > 0
}

// FailedGroup reads one group; [ErrNotFound] when it holds no job that the scope sees.
func (s *Store) FailedGroup(ctx context.Context, scope Scope, id uuid.UUID) (FailedGroup, error) {
	found, err := s.describeGroups(ctx, scope, []FailedGroup{{ID: id}})
	if err != nil {
		return FailedGroup{}, fmt.Errorf("look at group %s of failed jobs: %w", id, err)
	}
	if len(found) == 0 {
		return FailedGroup{}, fmt.Errorf("group %s of failed jobs: %w", id, ErrNotFound)
	}
	return found[0], nil
}

// FailedRecent lists failed jobs that match, the newest failure first.
func (s *Store) FailedRecent(ctx context.Context, scope Scope, f FailedFilter, after string, limit int) (Page[Job], error) {
	limit = pageSize(limit)
	q := f.of(s.db.WithContext(ctx), scope).Order("finished_at DESC, id DESC").Limit(limit + 1)
	if after != "" {
		at, id, err := parseCursor(after)
		if err != nil {
			return Page[Job]{}, err
		}
		q = q.Where("(finished_at, id) < (?, ?)", at, id)
	}
	page := Page[Job]{Items: []Job{}}
	if err := q.Find(&page.Items).Error; err != nil {
		return page, fmt.Errorf("list failed jobs: %w", err)
	}
	for i := range page.Items {
		page.Items[i].Payload = maskSealed(page.Items[i].Payload)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		last := page.Items[limit-1]
		page.Next = makeCursor(*last.FinishedAt, last.ID)
	}
	return page, nil
}

// CountFailedCapped is how many failed jobs of the scope match, counted to [CountCap]+1.
func (s *Store) CountFailedCapped(ctx context.Context, scope Scope, f FailedFilter) (n int64, err error) {
	part := f.of(s.db.WithContext(ctx), scope).Select("id").Order("finished_at DESC, id DESC").Limit(CountCap + 1)
	if err := s.db.WithContext(ctx).Raw("SELECT count(*) FROM (?) x", part).Row().Scan(&n); err != nil {
		return 0, fmt.Errorf("count failed jobs: %w", err)
	}
	return n, nil
}
