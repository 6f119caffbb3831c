package storage

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ExportState is what a search of exports can ask for. The first two part all exports.
type ExportState string

// The states of exports.
const (
	ExportCurrent ExportState = "current" // has current files
	ExportNever   ExportState = "never"   // never published
	ExportRunning ExportState = "running" // a job of it is at work
	ExportFailed  ExportState = "failed"  // its newest job has failed
)

// Known reports whether it is a state, or empty for all of them.
func (e ExportState) Known() bool {
	return e == "" || e == ExportCurrent || e == ExportNever || e == ExportRunning || e == ExportFailed
}

// ExportSearch selects exports for people: what an [ExportFilter] does, and more.
// Its cost is bounded, whatever is chosen.
type ExportSearch struct {
	ExportFilter
	Tenant string // within what the scope sees
	State  ExportState
}

// indexed are the conditions that an index serves.
func (f ExportSearch) indexed(scope Scope) (c conditions, err error) {
	c.and("deleted_at IS NULL")
	if !scope.All {
		c.and("tenant = ?", scope.Tenant)
	}
	if f.Tenant != "" {
		c.and("tenant = ?", f.Tenant)
	}
	if f.State == ExportRunning {
		c.and("id IN (SELECT export_id FROM fenceline.jobs WHERE state IN ('running', 'cancelling') AND export_id IS NOT NULL)")
	}
	if f.After != "" {
		at, id, err := parseCursor(f.After)
		if err != nil {
			return c, err
		}
		c.and("(changed_at, id) < (?, ?)", at, id)
	}
	return c, nil
}

// others are the conditions that no index serves.
func (f ExportSearch) others() (c conditions) {
	if f.Kind != "" {
		c.and("e.kind = ?", f.Kind)
	}
	if f.Search != "" {
		like := "%" + likeEscaper.Replace(f.Search) + "%"
		c.and("e.searched LIKE lower(?)", like)
	}
	switch f.State {
	case ExportCurrent:
		c.and("e.attempt_id IS NOT NULL")
	case ExportNever:
		c.and("e.attempt_id IS NULL")
	case ExportFailed:
		c.and("(SELECT j.state FROM fenceline.jobs j WHERE j.export_id = e.id ORDER BY j.id DESC LIMIT 1) = 'failed'")
	}
	return c
}

// SearchExports lists exports, the one with the newest activity first. It looks at
// [SearchWindow] exports at most.
func (s *Store) SearchExports(ctx context.Context, scope Scope, f ExportSearch) (found Found[ExportSummary], err error) {
	inner, err := f.indexed(scope)
	if err != nil {
		return found, err
	}
	outer, limit, window := f.others(), pageSize(f.Limit), SearchWindow
	if outer.sql == "" {
		window = limit + 1
	}
	const newest = " ORDER BY changed_at DESC, id DESC"
	from := func(columns string, rows int) string {
		return "SELECT " + columns + " FROM fenceline.exports WHERE " + inner.sql + newest + fmt.Sprintf(" LIMIT %d", rows)
	}
	page := "(SELECT * FROM (" + from("*", window) + ") e WHERE " + outer.orTrue() + newest + fmt.Sprintf(" LIMIT %d) e", limit+1)
	err = s.db.WithContext(ctx).Raw(`SELECT e.*, a.rows, a.bytes, f.files, f.file_name, j.id AS job_id, j.state AS job_state, j.error AS job_error,
			w.step AS working_step, w.rows AS working_rows FROM `+strings.Replace(exportSummarySQL, "fenceline.exports e", page, 1)+" ORDER BY e.changed_at DESC, e.id DESC",
		append(inner.args, outer.args...)...).Scan(&found.Items).Error
	if err != nil {
		return found, fmt.Errorf("search exports: %w", err)
	}
	if found.Items == nil {
		found.Items = []ExportSummary{} // JSON knows null and [] apart
	}
	if len(found.Items) > limit {
		found.Items = found.Items[:limit]
		last := found.Items[limit-1]
		found.Next = makeCursor(last.ChangedAt, last.ID)
		return found, nil
	}
	if outer.sql == "" {
		return found, nil
	}
	var last []struct {
		ChangedAt time.Time
		ID        uuid.UUID
	}
	err = s.db.WithContext(ctx).Raw("SELECT * FROM ("+from("changed_at, id", SearchWindow)+") e"+newest+" OFFSET ? LIMIT 1", append(inner.args, SearchWindow-1)...).Scan(&last).Error
	if err != nil {
		return found, fmt.Errorf("search exports: %w", err)
	}
	if len(last) == 1 {
		found.Next, found.Looked = makeCursor(last[0].ChangedAt, last[0].ID), SearchWindow
	}
	return found, nil
}
