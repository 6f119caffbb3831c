package storage

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Scope is whose rows a caller may see. The zero value sees nothing.
type Scope struct {
	All    bool   // every tenant
	Tenant string // only this one
}

// Sees reports whether rows of a tenant are in the scope.
func (s Scope) Sees(tenant string) bool { return s.All || s.Tenant != "" && s.Tenant == tenant }

// cond is the condition of a scope for SQL, where argument n is its tenant: two
// plans, each of which can use the index that it needs.
func (s Scope) cond(column string, n int) string {
	if s.All {
		return fmt.Sprintf("$%d::text IS NOT NULL", n)
	}
	return fmt.Sprintf("%s = $%d", column, n)
}

func (s Scope) where(db *gorm.DB, column string) *gorm.DB {
	if s.All {
		return db
	}
	return db.Where(column+" = ?", s.Tenant) // no tenant is named ""
}

// Export is a named document with at most one current set of files.
type Export struct {
	ID          uuid.UUID  `json:"id"`
	Tenant      string     `json:"tenant"`
	Kind        string     `json:"kind"`
	Key         string     `json:"key"`
	Title       string     `json:"title"`
	IssuedToken int64      `json:"issued_token"`
	LastToken   int64      `json:"last_token"`
	AttemptID   *uuid.UUID `json:"attempt_id,omitempty"` // the current one
	PublishedAt *time.Time `json:"published_at,omitempty"`
	CreatedAt   time.Time  `json:"created_at"`
	ChangedAt   time.Time  `json:"changed_at"`
	// FilesLostAt is when the files of the current publication were given up; the next one clears it.
	FilesLostAt *time.Time `json:"files_lost_at,omitempty"`
}

// TableName names the table for gorm.
func (Export) TableName() string { return "fenceline.exports" }

// ExportSummary is a line of the list of exports.
type ExportSummary struct {
	Export
	Files    int     `json:"files"` // of the current attempt
	FileName *string `json:"file_name,omitempty"`
	Rows     *int64  `json:"rows,omitempty"`
	Bytes    *int64  `json:"bytes,omitempty"`
	// The newest job and the attempt that works on it.
	JobID       *uuid.UUID `json:"job_id,omitempty"`
	JobState    *JobState  `json:"job_state,omitempty"`
	JobError    *string    `json:"job_error,omitempty"`
	WorkingStep *string    `json:"working_step,omitempty"`
	WorkingRows *int64     `json:"working_rows,omitempty"`
}

// ExportFilter selects exports. The zero value selects all that a scope sees.
type ExportFilter struct {
	Kind   string
	Search string // a part of the title or key, in any case
	After  string // a [Page]'s Next
	Limit  int    // 0 is 50; at most 200
}

// Page is a part of a list, found by keyset: its cost does not grow with its distance from the start.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"` // the cursor of what follows; empty at the end
}

const exportSummarySQL = `fenceline.exports e
	LEFT JOIN fenceline.attempts a ON a.id = e.attempt_id
	LEFT JOIN LATERAL (SELECT id, state, error, attempt_id FROM fenceline.jobs WHERE export_id = e.id ORDER BY id DESC LIMIT 1) j ON true
	LEFT JOIN fenceline.attempts w ON w.id = j.attempt_id AND j.state IN ('running', 'cancelling')
	LEFT JOIN LATERAL (SELECT count(*) AS files, min(name) AS file_name FROM fenceline.files WHERE attempt_id = e.attempt_id) f ON true`

// Exports lists exports, the one with the newest activity first. With a kind or a
// search a page looks at [SearchWindow] exports at most: it may hold few or none,
// and what follows goes on where it ended.
func (s *Store) Exports(ctx context.Context, scope Scope, f ExportFilter) (Page[ExportSummary], error) {
	found, err := s.SearchExports(ctx, scope, ExportSearch{ExportFilter: f})
	return found.Page, err
}

// Export reads one export; [ErrNotFound] also when the scope does not see it.
func (s *Store) Export(ctx context.Context, scope Scope, id uuid.UUID) (Export, error) {
	var e Export
	return e, one(scope.where(s.db.WithContext(ctx), "tenant").Where("id = ? AND deleted_at IS NULL", id), &e, "export", id)
}

// Job reads one job, with its sealed values masked; [ErrNotFound] also when the scope does not see it.
func (s *Store) Job(ctx context.Context, scope Scope, id uuid.UUID) (Job, error) {
	var j Job
	err := one(scope.where(s.db.WithContext(ctx), "tenant").Where("id = ?", id), &j, "job", id)
	j.Payload = maskSealed(j.Payload)
	return j, err
}

// Attempt reads one attempt, whoever's it is.
func (s *Store) Attempt(ctx context.Context, id uuid.UUID) (Attempt, error) {
	var a Attempt
	return a, one(s.db.WithContext(ctx).Where("id = ?", id), &a, "attempt", id)
}

func one(q *gorm.DB, into any, what string, id uuid.UUID) error {
	err := q.Take(into).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return fmt.Errorf("%s %s: %w", what, id, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("read %s %s: %w", what, id, err)
	}
	return nil
}

// Attempts lists the newest attempts of an export, newest token first, at most limit.
func (s *Store) Attempts(ctx context.Context, export uuid.UUID, limit int) ([]Attempt, error) {
	var list []Attempt
	if err := s.db.WithContext(ctx).Where("export_id = ?", export).Order("token DESC").Limit(limit).Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list the attempts of export %s: %w", export, err)
	}
	return list, nil
}

// JobAttempts lists the newest attempts of a job, newest first, at most limit.
func (s *Store) JobAttempts(ctx context.Context, job uuid.UUID, limit int) ([]Attempt, error) {
	var list []Attempt
	if err := s.db.WithContext(ctx).Where("job_id = ?", job).Order("number DESC").Limit(limit).Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list the attempts of job %s: %w", job, err)
	}
	return list, nil
}

// Files lists the files of an attempt in their order.
func (s *Store) Files(ctx context.Context, attempt uuid.UUID) ([]File, error) {
	var list []File
	if err := s.db.WithContext(ctx).Where("attempt_id = ?", attempt).Order("ordinal").Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list the files of attempt %s: %w", attempt, err)
	}
	return list, nil
}

// JobFilter selects jobs. The zero value selects all that a scope sees.
type JobFilter struct {
	State    JobState
	Kind     string
	Queue    string
	Tag      string
	Tenant   string // within what the scope sees
	ExportID uuid.UUID
	Batch    uuid.UUID
	After    string // a [Page]'s Next
	Limit    int    // 0 is 50; at most 200
}

// Jobs lists jobs, the newest first, with their sealed values masked.
func (s *Store) Jobs(ctx context.Context, scope Scope, f JobFilter) (Page[Job], error) {
	q := scope.where(s.db.WithContext(ctx), "tenant").Order("id DESC")
	if f.State != "" {
		q = q.Where("state = ?", f.State)
	}
	for column, value := range map[string]string{"kind": f.Kind, "queue": f.Queue, "tenant": f.Tenant} {
		if value != "" {
			q = q.Where(column+" = ?", value)
		}
	}
	if f.Tag != "" {
		q = q.Where("tags @> ARRAY[?]::text[] AND tags <> '{}'", f.Tag) // the second for the index
	}
	if f.ExportID != uuid.Nil {
		q = q.Where("export_id = ?", f.ExportID)
	}
	if f.Batch != uuid.Nil {
		q = q.Where("batch_id = ?", f.Batch)
	}
	if f.After != "" {
		id, err := uuid.Parse(f.After)
		if err != nil {
			return Page[Job]{}, ErrCursor
		}
		q = q.Where("id < ?", id)
	}
	limit := pageSize(f.Limit)
	var page Page[Job]
	if err := q.Limit(limit + 1).Find(&page.Items).Error; err != nil {
		return page, fmt.Errorf("list jobs: %w", err)
	}
	for i := range page.Items {
		page.Items[i].Payload = maskSealed(page.Items[i].Payload)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = page.Items[limit-1].ID.String()
	}
	return page, nil
}

// CountCap is where counting stops: a count of CountCap+1 means "more than CountCap".
const CountCap = 10_000

func pageSize(n int) int {
	if n <= 0 {
		return 50
	}
	return min(n, 200)
}

var (
	// ErrCursor means that a page was asked for by a cursor that no page gave out.
	ErrCursor   = errors.New("the cursor is not one that this list gave out")
	likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
)

func makeCursor(at time.Time, id uuid.UUID) string {
	return base64.RawURLEncoding.EncodeToString([]byte(at.UTC().Format(time.RFC3339Nano) + " " + id.String()))
}

func parseCursor(s string) (time.Time, uuid.UUID, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return time.Time{}, uuid.Nil, ErrCursor
	}
	stamp, id, _ := strings.Cut(string(raw), " ")
	at, err1 := time.Parse(time.RFC3339Nano, stamp)
	parsed, err2 := uuid.Parse(id)
	if err1 != nil || err2 != nil {
		return time.Time{}, uuid.Nil, ErrCursor
	}
	return at, parsed, nil
}
