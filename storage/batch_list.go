package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// CountBatches counts the jobs of several batches by state, each state to
// [CountCap]+1: a list must not count what may be large.
func (s *Store) CountBatches(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]map[JobState]int64, error) {
	counts := make(map[uuid.UUID]map[JobState]int64, len(ids))
	texts := make([]string, len(ids))
	for i, id := range ids {
		counts[id], texts[i] = map[JobState]int64{}, id.String()
	}
	states := make([]string, 0, len(JobStates()))
	for _, state := range JobStates() {
		states = append(states, string(state))
	}
	var rows []struct {
		ID    uuid.UUID
		State JobState
		N     int64
	}
	err := s.db.WithContext(ctx).Raw(`SELECT b.id, st.state, x.n FROM unnest(?::text[]::uuid[]) b(id), unnest(?::text[]) st(state),
		LATERAL (SELECT count(*) AS n FROM (SELECT FROM fenceline.jobs j WHERE j.batch_id = b.id AND j.state = st.state LIMIT ?) y) x WHERE x.n > 0`,
		textArray(texts), textArray(states), CountCap+1).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("count the jobs of batches: %w", err)
	}
	for _, r := range rows {
		counts[r.ID][r.State] = r.N
	}
	return counts, nil
}

// ExportNamed reads the export of a tenant, kind and key; [ErrNotFound] also when it
// was deleted.
func (s *Store) ExportNamed(ctx context.Context, tenant, kind, key string) (Export, error) {
	var e Export
	err := s.db.WithContext(ctx).Where("tenant = ? AND kind = ? AND key = ? AND deleted_at IS NULL AND NOT expired", tenant, kind, key).Take(&e).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return e, fmt.Errorf("export %s of kind %s: %w", key, kind, ErrNotFound)
	}
	if err != nil {
		return e, fmt.Errorf("read export %s of kind %s: %w", key, kind, err)
	}
	return e, nil
}

// BatchFilter selects batches. The zero value selects all that a scope sees.
type BatchFilter struct {
	Tenant string // within what the scope sees
	Open   bool   // only those whose end was not seen yet
	After  string // a [Page]'s Next
	Limit  int    // 0 is 50; at most 200
}

// ListBatches lists batches, the newest first.
func (s *Store) ListBatches(ctx context.Context, scope Scope, f BatchFilter) (Page[Batch], error) {
	page := Page[Batch]{}
	limit := pageSize(f.Limit)
	q := scope.where(s.db.WithContext(ctx), "tenant").Order("id DESC").Limit(limit + 1)
	if f.Tenant != "" {
		q = q.Where("tenant = ?", f.Tenant)
	}
	if f.Open {
		q = q.Where("settled_at IS NULL")
	}
	if f.After != "" {
		after, err := uuid.Parse(f.After)
		if err != nil {
			return page, ErrCursor
		}
		q = q.Where("id < ?", after)
	}
	if err := q.Find(&page.Items).Error; err != nil {
		return page, fmt.Errorf("list batches: %w", err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = page.Items[limit-1].ID.String()
	}
	return page, nil
}
