package storage

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// Publication is an attempt that is or was current, with what came of it.
type Publication struct {
	Attempt     `gorm:"embedded"`
	RequestedBy string `json:"requested_by,omitempty"` // who asked for its job
	// Files are kept in the database when they were cleaned up; see [Attempt.DeletedAt].
	Files []File `json:"files" gorm:"-"`
	// The next publication, which replaced it; nil for the current one.
	NextAttempt *uuid.UUID `json:"next_attempt,omitempty"`
	NextToken   *int64     `json:"next_token,omitempty"`
	NextJob     *uuid.UUID `json:"next_job,omitempty"`
}

const wasPublished = `(%[1]s.state IN ('published', 'superseded') OR %[1]s.state = 'deleted' AND %[1]s.verdict IN ('published', 'superseded'))`

// Publications lists what an export has published, the newest first, at most
// limit: all with a token below before, or from the newest when before is 0.
func (s *Store) Publications(ctx context.Context, export uuid.UUID, before int64, limit int) ([]Publication, error) {
	var list []Publication
	err := s.db.WithContext(ctx).Raw(`SELECT a.*, coalesce(j.requested_by, '') AS requested_by, n.id AS next_attempt, n.token AS next_token, n.job_id AS next_job
		FROM fenceline.attempts a LEFT JOIN fenceline.jobs j ON j.id = a.job_id
		LEFT JOIN LATERAL (SELECT b.id, b.token, b.job_id FROM fenceline.attempts b
			WHERE b.export_id = a.export_id AND b.token > a.token AND `+fmt.Sprintf(wasPublished, "b")+` ORDER BY b.token LIMIT 1) n ON true
		WHERE a.export_id = ? AND (? = 0 OR a.token < ?) AND `+fmt.Sprintf(wasPublished, "a")+` ORDER BY a.token DESC LIMIT ?`,
		export, before, before, limit).Scan(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list the publications of export %s: %w", export, err)
	}
	ids := make([]uuid.UUID, len(list))
	at := make(map[uuid.UUID]int, len(list))
	for i, p := range list {
		ids[i], at[p.ID] = p.ID, i
	}
	var files []File
	if err := s.db.WithContext(ctx).Where("attempt_id IN (?)", ids).Order("attempt_id, ordinal").Find(&files).Error; err != nil {
		return nil, fmt.Errorf("list the files of the publications of export %s: %w", export, err)
	}
	for _, f := range files {
		p := &list[at[f.AttemptID]]
		p.Files = append(p.Files, f)
	}
	return list, nil
}

// ExportWeight is what goes with an export when it is deleted.
type ExportWeight struct {
	Files int64 // that are still there, of current and earlier publications and of attempts that came to nothing
	Bytes int64
	Jobs  int64 // that wait or run, and would be cancelled
}

// WeighExport counts what deleting an export takes with it. It looks at all of
// its attempts and jobs: ask when somebody wants to delete, not on every page.
func (s *Store) WeighExport(ctx context.Context, scope Scope, id uuid.UUID) (ExportWeight, error) {
	var w ExportWeight
	if _, err := s.Export(ctx, scope, id); err != nil {
		return w, err
	}
	err := s.db.WithContext(ctx).Raw(`SELECT f.files, f.bytes, j.jobs FROM
		(SELECT count(*) AS files, coalesce(sum(size), 0)::bigint AS bytes FROM fenceline.files
			WHERE attempt_id IN (SELECT id FROM fenceline.attempts WHERE export_id = @id AND state <> 'deleted')) f,
		(SELECT count(*) AS jobs FROM fenceline.jobs WHERE export_id = @id AND state IN ('queued', 'running', 'cancelling')) j`,
		map[string]any{"id": id}).Scan(&w).Error
	if err != nil {
		return w, fmt.Errorf("weigh export %s: %w", id, err)
	}
	return w, nil
}
