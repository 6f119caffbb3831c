package storage

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// SearchWindow is how many rows a search looks at for one page: what is found by no
// index is looked for among so many and no more, and the next page goes on there.
const SearchWindow = 10_000

// Found is a page of a list that was searched.
type Found[T any] struct {
	Page[T]
	// Looked is [SearchWindow] when the search ended before the list did, else 0.
	Looked int
}

// JobSearch selects jobs for people: what a [JobFilter] does, and more. Its cost is
// bounded, whatever is chosen.
type JobSearch struct {
	JobFilter
	RequestedBy string
	// UpTo leaves out what was dispatched after this job; the zero id does not.
	UpTo uuid.UUID
}

// conditions are some, joined by AND, with their values.
type conditions struct {
	sql  string
	args []any
}

func (c *conditions) and(sql string, args ...any) {
	if c.sql != "" {
		c.sql += " AND "
	}
	c.sql, c.args = c.sql+sql, append(c.args, args...)
}

// orTrue is the condition, or one that always holds when there is none.
func (c *conditions) orTrue() string {
	if c.sql == "" {
		return "true"
	}
	return c.sql
}

// indexed are the conditions that an index serves; states among which it
// chooses are written out, so that partial indexes are used.
func (f JobSearch) indexed(scope Scope) (c conditions) {
	if !scope.All {
		c.and("tenant = ?", scope.Tenant)
	}
	if f.Tenant != "" {
		c.and("tenant = ?", f.Tenant)
	}
	if f.ExportID != uuid.Nil {
		c.and("export_id = ?", f.ExportID)
	}
	if f.Batch != uuid.Nil {
		c.and("batch_id = ?", f.Batch)
	}
	if f.Tag != "" {
		c.and("tags @> ARRAY[?]::text[] AND tags <> '{}'", f.Tag)
	}
	if s := f.State; s == JobQueued || s == JobRunning || s == JobCancelling || s == JobFailed {
		c.and("state = '" + string(s) + "'") // one of ours
	}
	if f.UpTo != uuid.Nil {
		c.and("id <= ?", f.UpTo)
	}
	return c
}

// others are the conditions that no index serves.
func (f JobSearch) others() (c conditions) {
	for _, by := range []struct{ column, value string }{{"kind", f.Kind}, {"queue", f.Queue}, {"requested_by", f.RequestedBy}} {
		if by.value != "" {
			c.and(by.column+" = ?", by.value)
		}
	}
	if f.State == JobDone || f.State == JobSuperseded || f.State == JobCancelled {
		c.and("state = ?", f.State)
	}
	return c
}

// jobListed are the columns of a list: what a job carries may be large and is not among them.
const jobListed = `id, tenant, kind, queue, export_id, title, state, waiting_for, due_at, priority, tags::text, attempt_id, run_id, worker_id, attempts, failures,
	max_attempts, batch_id, progress, requested_by, left(error, 2000) AS error, created_at, started_at, finished_at`

// SearchJobs lists jobs, the newest first, without their payloads and results. It
// looks at [SearchWindow] jobs at most.
func (s *Store) SearchJobs(ctx context.Context, scope Scope, f JobSearch) (found Found[Job], err error) {
	inner, outer := f.indexed(scope), f.others()
	if f.After != "" {
		after, err := uuid.Parse(f.After)
		if err != nil {
			return found, ErrCursor
		}
		inner.and("id < ?", after)
	}
	limit, window := pageSize(f.Limit), SearchWindow
	if outer.sql == "" {
		window = limit + 1
	}
	from, args := f.window(inner, jobListed, window)
	err = s.db.WithContext(ctx).Raw("SELECT * FROM ("+from+") j WHERE "+outer.orTrue()+" ORDER BY id DESC LIMIT ?", append(append(args, outer.args...), limit+1)...).
		Scan(&found.Items).Error
	if err != nil {
		return found, fmt.Errorf("search jobs: %w", err)
	}
	if len(found.Items) > limit {
		found.Items = found.Items[:limit]
		found.Next = found.Items[limit-1].ID.String()
		return found, nil
	}
	if outer.sql == "" {
		return found, nil
	}
	var last []uuid.UUID // of a full window
	from, args = f.window(inner, "id", SearchWindow)
	if err := s.db.WithContext(ctx).Raw("SELECT id FROM ("+from+") j ORDER BY id DESC OFFSET ? LIMIT 1", append(args, SearchWindow-1)...).Scan(&last).Error; err != nil {
		return found, fmt.Errorf("search jobs: %w", err)
	}
	if len(last) == 1 {
		found.Next, found.Looked = last[0].String(), SearchWindow
	}
	return found, nil
}

// window selects the newest jobs of some conditions. Those of a batch are in order
// only within a state, so each state gives its newest.
func (f JobSearch) window(c conditions, columns string, rows int) (string, []any) {
	one := func(more string) string {
		return "SELECT " + columns + " FROM fenceline.jobs WHERE " + c.orTrue() + more + fmt.Sprintf(" ORDER BY id DESC LIMIT %d", rows)
	}
	if f.Batch == uuid.Nil || f.State != "" {
		return one(""), c.args
	}
	var parts []string
	var args []any
	for _, state := range JobStates() {
		parts, args = append(parts, "("+one(" AND state = '"+string(state)+"'")+")"), append(args, c.args...)
	}
	return "SELECT * FROM (" + strings.Join(parts, " UNION ALL ") + fmt.Sprintf(") u ORDER BY id DESC LIMIT %d", rows), args
}

// NewestJob is the id of the newest job that a scope sees; the zero id when there is none.
func (s *Store) NewestJob(ctx context.Context, scope Scope) (uuid.UUID, error) {
	var ids []uuid.UUID
	err := scope.where(s.db.WithContext(ctx).Table("fenceline.jobs"), "tenant").Select("id").Order("id DESC").Limit(1).Scan(&ids).Error
	if err != nil {
		return uuid.Nil, fmt.Errorf("look for the newest job: %w", err)
	}
	if len(ids) == 0 {
		return uuid.Nil, nil
	}
	return ids[0], nil
}

// cancellable is what a search would cancel.
func (f JobSearch) cancellable(scope Scope) conditions {
	c := f.indexed(scope)
	c.and("state IN ('queued', 'running')")
	if o := f.others(); o.sql != "" {
		c.and(o.sql, o.args...)
	}
	return c
}

// CountCancellable is how many jobs [Store.CancelMatching] would cancel now, counted to [CountCap]+1.
func (s *Store) CountCancellable(ctx context.Context, scope Scope, f JobSearch) (n int64, err error) {
	c := f.cancellable(scope)
	err = s.db.WithContext(ctx).Raw("SELECT count(*) FROM (SELECT FROM fenceline.jobs WHERE "+c.sql+" LIMIT ?) x", append(c.args, CountCap+1)...).Scan(&n).Error
	if err != nil {
		return 0, fmt.Errorf("count jobs: %w", err)
	}
	return n, nil
}

// CancelMatching cancels every job that waits or runs and matches, a thousand at a
// time, each once: what waits at once, what runs when its worker confirms. It
// answers how many there were; when it fails half-way those are cancelled, and the
// next call goes on.
func (s *Store) CancelMatching(ctx context.Context, scope Scope, f JobSearch) (n int64, err error) {
	var after uuid.UUID
	for {
		c := f.cancellable(scope)
		c.and("id > ?", after)
		var part []struct {
			ID    uuid.UUID
			State JobState
		}
		err := s.db.WithContext(ctx).Raw("SELECT id, fenceline.cancel_job(id) AS state FROM (SELECT id FROM fenceline.jobs WHERE "+c.sql+" ORDER BY id LIMIT ?) j",
			append(c.args, retryPart)...).Scan(&part).Error
		if err != nil {
			return n, fmt.Errorf("cancel jobs: %w", err)
		}
		for _, j := range part {
			if j.State == JobCancelled || j.State == JobCancelling {
				n++
			}
			if j.ID.String() > after.String() {
				after = j.ID
			}
		}
		if len(part) == 0 {
			return n, nil
		}
	}
}
