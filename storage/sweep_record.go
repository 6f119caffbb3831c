package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Why a run ended; see [SweepRun.Stopped].
const (
	stoppedDone     = "done"
	stoppedLimit    = "limit"
	stoppedTime     = "time"
	stoppedBroken   = "interrupted"
	stoppedOff      = "off"
	stoppedShare    = "share"
	stoppedUnsafe   = "unsafe"
	stoppedFailures = "failures"
	stoppedError    = "error"
)

func stoppedFor(err error) string {
	switch {
	case err == nil:
		return stoppedDone
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return stoppedBroken
	case errors.Is(err, ErrUnsafe):
		return stoppedUnsafe
	}
	return stoppedError
}

// SweepRun is the record of a clean-up.
type SweepRun struct {
	ID         int64      `json:"id"`
	Worker     string     `json:"worker"`
	Tenant     *string    `json:"tenant,omitempty"` // nil: all of them
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	Planned    int64      `json:"planned"`
	Condemned  int64      `json:"condemned"`
	Deleted    int64      `json:"deleted"`
	Probed     int64      `json:"probed"`
	Skipped    int64      `json:"skipped"`
	Bytes      int64      `json:"bytes"`
	Failed     int64      `json:"failed"`
	Expired    int64      `json:"expired"` // exports whose time was over, which were deleted softly
	// Stopped says why it ended: done (nothing is left), limit or time (the next run goes on), interrupted (by a
	// signal), off, share (too much at once), unsafe, failures (too many), killed, error. nil while it runs.
	Stopped *string `json:"stopped,omitempty"`
	Error   *string `json:"error,omitempty"`
}

// TableName names the table for gorm.
func (SweepRun) TableName() string { return "fenceline.sweeps" }

// SweepRuns lists the newest clean-ups, at most limit.
func (s *Store) SweepRuns(ctx context.Context, limit int) ([]SweepRun, error) {
	var runs []SweepRun
	if err := s.db.WithContext(ctx).Order("id DESC").Limit(limit).Find(&runs).Error; err != nil {
		return nil, fmt.Errorf("list clean-ups: %w", err)
	}
	return runs, nil
}

func (r *sweepRun) begin(ctx context.Context) error {
	err := r.store.pool.QueryRow(ctx, "INSERT INTO fenceline.sweeps (worker, tenant) VALUES ($1, $2) RETURNING id", r.opt.Worker, nullable(r.opt.Tenant)).Scan(&r.res.ID)
	if err != nil {
		return fmt.Errorf("record the clean-up: %w", err)
	}
	return nil
}

// record writes down how far the run is; one that has stopped is finished. off
// says that somebody has switched clean-ups off.
func (r *sweepRun) record(ctx context.Context, failure error) (off bool, err error) {
	var text *string
	if failure != nil {
		text = new(failure.Error())
	}
	res := r.res
	err = r.store.pool.QueryRow(ctx, `UPDATE fenceline.sweeps SET finished_at = CASE WHEN $2 <> '' THEN clock_timestamp() END, stopped = nullif($2, ''), error = $3,
			planned = $4, condemned = $5, deleted = $6, probed = $7, skipped = $8, bytes = $9, failed = $10, expired = $11
		WHERE id = $1 RETURNING (SELECT sweep_off_at IS NOT NULL FROM fenceline.installation)`,
		res.ID, res.Stopped, text, res.Planned, res.Condemned, res.Deleted, res.Probed, res.Skipped, res.Bytes, res.Failed, res.Expired).Scan(&off)
	if err != nil {
		return off, fmt.Errorf("record the clean-up: %w", err)
	}
	return off, nil
}

// closeKilled ends the records of runs that did not come to it themselves. Whoever
// holds the lock knows that none of them goes on.
func (sw *Sweep) closeKilled(ctx context.Context) error {
	_, err := sw.store.pool.Exec(ctx, `UPDATE fenceline.sweeps SET finished_at = clock_timestamp(), stopped = 'killed',
		error = 'it was killed, or lost the database; a later run went on' WHERE finished_at IS NULL`)
	if err != nil && sw.store.Ping(ctx) == nil { // on a standby that is said better
		return fmt.Errorf("record that a clean-up was killed: %w", err)
	}
	return nil
}

// SweepOff says that somebody has switched clean-ups off.
type SweepOff struct {
	Since time.Time `json:"since"`
	By    string    `json:"by"`
	Note  string    `json:"note,omitempty"`
}

// SweepSwitch answers who has switched clean-ups off; nil when they are on.
func (s *Store) SweepSwitch(ctx context.Context) (*SweepOff, error) {
	var since *time.Time
	var off SweepOff
	err := s.pool.QueryRow(ctx, "SELECT sweep_off_at, coalesce(sweep_off_by, ''), coalesce(sweep_off_note, '') FROM fenceline.installation").Scan(&since, &off.By, &off.Note)
	if err != nil {
		return nil, fmt.Errorf("ask whether clean-ups are on: %w", err)
	}
	if since == nil {
		return nil, nil
	}
	off.Since = *since
	return &off, nil
}

// SwitchSweep switches clean-ups on, or off with who did it and a note. One that
// runs stops after the batch it is at.
func (s *Store) SwitchSweep(ctx context.Context, on bool, by, note string) error {
	_, err := s.pool.Exec(ctx, `UPDATE fenceline.installation SET sweep_off_at = CASE WHEN $1 THEN NULL ELSE coalesce(sweep_off_at, clock_timestamp()) END,
		sweep_off_by = CASE WHEN NOT $1 THEN $2 END, sweep_off_note = CASE WHEN NOT $1 THEN $3 END`, on, by, note)
	if err != nil {
		return fmt.Errorf("switch clean-ups: %w", err)
	}
	return nil
}

// StoredTotal is what lies in the file store by the database's books: the files of
// all attempts that have ended writing and were not deleted.
type StoredTotal struct {
	Attempts int64 `json:"attempts"`
	Bytes    int64 `json:"bytes"`
}

// foldAt is how many changes may wait before somebody who reads the total folds them.
const foldAt = 10_000

// Stored answers the total without counting what exists.
func (s *Store) Stored(ctx context.Context) (t StoredTotal, err error) {
	var changes int64
	err = s.pool.QueryRow(ctx, "SELECT coalesce(sum(attempts), 0)::bigint, coalesce(sum(bytes), 0)::bigint, count(*) FROM fenceline.stored").Scan(&t.Attempts, &t.Bytes, &changes)
	if err != nil {
		return t, fmt.Errorf("add up what is stored: %w", err)
	}
	if changes > foldAt {
		err = s.FoldStored(ctx)
	}
	return t, err
}

// FoldStored puts the changes of the total together, so that reading it stays cheap.
func (s *Store) FoldStored(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, "SELECT fenceline.fold_stored()"); err != nil {
		return fmt.Errorf("fold the total of what is stored: %w", err)
	}
	return nil
}

// RecountStored counts the total afresh, which reads all attempts, and answers it
// as it was and as it is. Publications go on meanwhile.
func (s *Store) RecountStored(ctx context.Context) (before, after StoredTotal, err error) {
	if before, err = s.Stored(ctx); err != nil {
		return before, after, err
	}
	if _, err := s.pool.Exec(ctx, "SELECT fenceline.recount_stored()"); err != nil {
		return before, after, fmt.Errorf("count what is stored: %w", err)
	}
	after, err = s.Stored(ctx)
	return before, after, err
}

// Deletion is a line of the log of deletions: an attempt whose files a clean-up has deleted.
type Deletion struct {
	ID       int64        `json:"id"`
	RunID    int64        `json:"run"`
	Attempt  uuid.UUID    `json:"attempt"`
	Export   uuid.UUID    `json:"export"`
	Tenant   string       `json:"tenant"`
	Token    int64        `json:"token"`
	State    AttemptState `json:"state"`    // before
	Files    int          `json:"files"`    // that the attempt had recorded
	Recorded int64        `json:"recorded"` // their bytes, as recorded
	Bytes    int64        `json:"bytes"`    // that were found and removed
	Why      string       `json:"why"`
	At       time.Time    `json:"at"`
}

// DeletionFilter selects lines of the log.
type DeletionFilter struct {
	Run     int64     // 0 for all
	Attempt uuid.UUID // the zero UUID for all
	After   string    // a [Page]'s Next
	Limit   int       // 0 is 50; at most 200
}

// Deletions lists what clean-ups have deleted, the newest first.
func (s *Store) Deletions(ctx context.Context, f DeletionFilter) (page Page[Deletion], err error) {
	limit := 50
	if f.Limit > 0 {
		limit = min(f.Limit, 200)
	}
	sql, args := "true", []any{}
	if f.After != "" {
		after, err := strconv.ParseInt(f.After, 10, 64)
		if err != nil || after < 1 {
			return page, ErrCursor
		}
		args = append(args, after)
		sql += " AND id < $1"
	}
	if f.Run != 0 {
		args = append(args, f.Run)
		sql += fmt.Sprintf(" AND run_id = $%d", len(args))
	}
	if f.Attempt != uuid.Nil {
		args = append(args, f.Attempt)
		sql += fmt.Sprintf(" AND attempt_id = $%d", len(args))
	}
	rows, err := s.pool.Query(ctx, fmt.Sprintf(`SELECT id, run_id, attempt_id, export_id, tenant, token, state, files, recorded, bytes, why, at
		FROM fenceline.sweep_deletions WHERE %s ORDER BY id DESC LIMIT %d`, sql, limit+1), args...)
	if err == nil {
		page.Items, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Deletion])
	}
	if err != nil {
		return page, fmt.Errorf("list deletions: %w", err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = strconv.FormatInt(page.Items[limit-1].ID, 10)
	}
	return page, nil
}
