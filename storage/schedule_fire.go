package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm/clause"
)

// What came of a fire time.
const (
	RunDispatched = "dispatched" // a job
	RunSkipped    = "skipped"    // none, as the schedule asks: missed, or another is at work
	RunRefused    = "refused"    // none: the request is not accepted
)

// ScheduleRun is what was decided about one fire time of a schedule.
type ScheduleRun struct {
	ID        int64      `json:"id"`
	Schedule  string     `json:"schedule"`
	Tenant    string     `json:"tenant"`
	FireKey   string     `json:"fire_key"` // names the fire time, once for ever
	FireAt    time.Time  `json:"fire_at"`
	Outcome   string     `json:"outcome"` // dispatched, skipped or refused
	Reason    *string    `json:"reason,omitempty"`
	JobID     *uuid.UUID `json:"job_id,omitempty"`
	Manual    bool       `json:"manual"`
	AskedBy   string     `json:"asked_by,omitempty"` // of a manual one
	Passed    int        `json:"passed"`             // earlier fire times that have no run of their own
	DecidedAt time.Time  `json:"decided_at"`
	// JobState is the state of its job when the run was read.
	JobState *JobState `json:"job_state,omitempty" gorm:"->"`
}

// TableName names the table for gorm.
func (ScheduleRun) TableName() string { return "fenceline.schedule_runs" }

var forUpdate = clause.Locking{Strength: "UPDATE"}

// DueSchedule locks, in the caller's transaction, the schedule that has been due
// longest and that no other scheduler has, but none of those to be left out. now is the
// database's clock, or at unless it is zero, for tests. [ErrNotFound] when none is due.
func (s *Store) DueSchedule(ctx context.Context, tx Tx, leaveOut []string, at time.Time) (sc Schedule, now time.Time, err error) {
	var set *time.Time
	if !at.IsZero() {
		set = &at
	}
	row := struct {
		Schedule
		Clock time.Time
	}{}
	res := tx.WithContext(ctx).Raw(`SELECT *, coalesce(?::timestamptz, clock_timestamp()) AS clock FROM fenceline.schedules
		WHERE paused_at IS NULL AND look_at <= coalesce(?::timestamptz, clock_timestamp()) AND name <> ALL (?::text[])
		ORDER BY look_at LIMIT 1 FOR UPDATE SKIP LOCKED`, set, set, textArray(leaveOut)).Scan(&row)
	if res.Error != nil {
		return sc, now, fmt.Errorf("look for a due schedule: %w", res.Error)
	}
	if res.RowsAffected == 0 {
		return sc, now, ErrNotFound
	}
	return row.Schedule, row.Clock, nil
}

// LockSchedule locks a schedule in the caller's transaction, so that nobody else
// decides about it, and answers the database's clock.
func (s *Store) LockSchedule(ctx context.Context, tx Tx, scope Scope, name string) (sc Schedule, now time.Time, err error) {
	if sc, err = lockSchedule(tx.WithContext(ctx), scope, name); err == nil {
		err = tx.WithContext(ctx).Raw("SELECT clock_timestamp()").Row().Scan(&now)
	}
	if errors.Is(err, ErrNotFound) {
		return sc, now, fmt.Errorf("schedule %q: %w", name, err)
	}
	if err != nil {
		return sc, now, fmt.Errorf("lock schedule %q: %w", name, err)
	}
	return sc, now, nil
}

// MoveSchedule records, in the transaction that locked the schedule, up to where fire
// times are decided and when to look again.
func (s *Store) MoveSchedule(ctx context.Context, tx Tx, name string, decided, look time.Time) error {
	err := tx.WithContext(ctx).Exec("UPDATE fenceline.schedules SET decided_at = ?, look_at = ?, problem = NULL WHERE name = ?", decided, look, name).Error
	if err != nil {
		return fmt.Errorf("move schedule %q: %w", name, err)
	}
	return nil
}

// PostponeSchedule lets schedulers leave a schedule alone for a while, and says why.
func (s *Store) PostponeSchedule(ctx context.Context, name, problem string, wait time.Duration) error {
	_, err := s.pool.Exec(ctx, `UPDATE fenceline.schedules SET problem = $2, look_at = clock_timestamp() + make_interval(secs => $3)
		WHERE name = $1 AND look_at <= clock_timestamp()`, name, problem, wait.Seconds())
	if err != nil {
		return fmt.Errorf("postpone schedule %q: %w", name, err)
	}
	return nil
}

// NextLook is how long it is, by the database's clock, until a schedule is due; most
// when that is longer or there is none.
func (s *Store) NextLook(ctx context.Context, most time.Duration) (time.Duration, error) {
	var seconds *float64
	err := s.pool.QueryRow(ctx, `SELECT extract(epoch FROM min(look_at) - clock_timestamp())::float8 FROM fenceline.schedules WHERE paused_at IS NULL`).Scan(&seconds)
	if err != nil {
		return most, fmt.Errorf("look for the next schedule: %w", err)
	}
	if seconds == nil {
		return most, nil
	}
	return min(max(0, time.Duration(*seconds*float64(time.Second))), most), nil
}

// RecordRun decides, in the caller's transaction, who runs a schedule for a fire time:
// the first row of its key wins, however many schedulers there are, whatever their
// clocks say and whatever they know of time zones. It is answered with its id and the
// time of the decision; for the others the id is 0.
func (s *Store) RecordRun(ctx context.Context, tx Tx, r ScheduleRun) (ScheduleRun, error) {
	var kept struct {
		ID        int64
		DecidedAt time.Time
	}
	res := tx.WithContext(ctx).Raw(`INSERT INTO fenceline.schedule_runs (schedule, tenant, fire_key, fire_at, outcome, reason, manual, asked_by, passed)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (schedule, fire_key) DO NOTHING RETURNING id, decided_at`,
		r.Schedule, r.Tenant, r.FireKey, r.FireAt, r.Outcome, r.Reason, r.Manual, r.AskedBy, r.Passed).Scan(&kept)
	if res.Error != nil {
		return r, fmt.Errorf("claim %s of schedule %q: %w", r.FireKey, r.Schedule, res.Error)
	}
	r.ID, r.DecidedAt = kept.ID, kept.DecidedAt
	return r, nil
}

// RunOf is the run of a schedule with a fire key, if there is one.
func (s *Store) RunOf(ctx context.Context, tx Tx, schedule, key string) (run ScheduleRun, there bool, err error) {
	var list []ScheduleRun
	err = tx.WithContext(ctx).Raw(`SELECT r.*, j.state AS job_state FROM fenceline.schedule_runs r LEFT JOIN fenceline.jobs j ON j.id = r.job_id
		WHERE r.schedule = ? AND r.fire_key = ?`, schedule, key).Scan(&list).Error
	if err != nil {
		return run, false, fmt.Errorf("look for %s of schedule %q: %w", key, schedule, err)
	}
	if len(list) == 0 {
		return run, false, nil
	}
	return list[0], true, nil
}

// FinishRun notes what came of a recorded fire time: a job, or why there is none.
func (s *Store) FinishRun(ctx context.Context, tx Tx, r ScheduleRun) error {
	err := tx.WithContext(ctx).Exec("UPDATE fenceline.schedule_runs SET outcome = ?, job_id = ?, reason = ? WHERE schedule = ? AND fire_key = ?",
		r.Outcome, r.JobID, r.Reason, r.Schedule, r.FireKey).Error
	if err != nil {
		return fmt.Errorf("record %s of schedule %q: %w", r.FireKey, r.Schedule, err)
	}
	return nil
}

// manyRuns is among how many of the newest runs one that is still at work is looked for.
const manyRuns = 20

// RunAtWork answers the job of a schedule's runs that waits or runs; uuid.Nil for none.
func (s *Store) RunAtWork(ctx context.Context, tx Tx, schedule string) (job uuid.UUID, state JobState, err error) {
	var list []Job
	err = tx.WithContext(ctx).Raw(`SELECT j.id, j.state FROM (SELECT id, job_id FROM fenceline.schedule_runs WHERE schedule = ? ORDER BY id DESC LIMIT ?) r
		JOIN fenceline.jobs j ON j.id = r.job_id AND j.state IN ('queued', 'running', 'cancelling') ORDER BY r.id DESC LIMIT 1`, schedule, manyRuns).Scan(&list).Error
	if err != nil {
		return uuid.Nil, "", fmt.Errorf("look for a run of schedule %q that is at work: %w", schedule, err)
	}
	if len(list) == 0 {
		return uuid.Nil, "", nil
	}
	return list[0].ID, list[0].State, nil
}

// ScheduleRuns lists the runs of a schedule, the newest first, a page of at most limit
// (0 is 50) after a [Page]'s Next. A deleted schedule's are there until they are pruned;
// [ErrNotFound] when there is neither schedule nor run that the scope sees.
func (s *Store) ScheduleRuns(ctx context.Context, scope Scope, schedule, after string, limit int) (Page[ScheduleRun], error) {
	limit = pageSize(limit)
	q := scope.where(s.db.WithContext(ctx).Table("fenceline.schedule_runs r LEFT JOIN fenceline.jobs j ON j.id = r.job_id"), "r.tenant").
		Select("r.*, j.state AS job_state").Where("r.schedule = ?", schedule).Order("r.id DESC").Limit(limit + 1)
	var page Page[ScheduleRun]
	if after != "" {
		id, err := strconv.ParseInt(after, 10, 64)
		if err != nil {
			return page, ErrCursor
		}
		q = q.Where("r.id < ?", id)
	}
	if err := q.Scan(&page.Items).Error; err != nil {
		return page, fmt.Errorf("list the runs of schedule %q: %w", schedule, err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = strconv.FormatInt(page.Items[limit-1].ID, 10)
	}
	if len(page.Items) == 0 && after == "" {
		_, err := s.Schedule(ctx, scope, schedule)
		return page, err
	}
	return page, nil
}

// leastHistory is for how long runs are kept at least: a run that is forgotten could
// be run again by a scheduler with other rules for its time zone.
const leastHistory = 48 * time.Hour

// PruneScheduleRuns forgets runs that were decided longer ago, and answers how many. It
// keeps the newest of each schedule that there is, and those whose job is still at work.
// olderThan must be two days at least.
func (s *Store) PruneScheduleRuns(ctx context.Context, olderThan time.Duration) (n int64, err error) {
	if olderThan < leastHistory {
		return 0, fmt.Errorf("prune runs of schedules: %s is too short, they are kept for %s at least", olderThan, leastHistory)
	}
	for {
		tag, err := s.pool.Exec(ctx, `DELETE FROM fenceline.schedule_runs WHERE (schedule, fire_key) IN (
			SELECT r.schedule, r.fire_key FROM fenceline.schedule_runs r
			WHERE r.decided_at < clock_timestamp() - make_interval(secs => $1)
				AND (EXISTS (SELECT FROM fenceline.schedule_runs n WHERE n.schedule = r.schedule AND n.id > r.id)
					OR NOT EXISTS (SELECT FROM fenceline.schedules s WHERE s.name = r.schedule))
				AND NOT EXISTS (SELECT FROM fenceline.jobs j WHERE j.id = r.job_id AND j.state IN ('queued', 'running', 'cancelling'))
			ORDER BY r.decided_at LIMIT $2)`, olderThan.Seconds(), retryPart)
		if err != nil {
			return n, fmt.Errorf("prune runs of schedules: %w", err)
		}
		if n += tag.RowsAffected(); tag.RowsAffected() < retryPart {
			return n, nil
		}
	}
}

// textArray is a list as the text of a PostgreSQL array: no driver has to know its type.
func textArray(list []string) string {
	text := []byte{'{'}
	for i, item := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '"')
		for _, b := range []byte(item) {
			if b == '"' || b == '\\' {
				text = append(text, '\\')
			}
			text = append(text, b)
		}
		text = append(text, '"')
	}
	return string(append(text, '}'))
}

// ErrOverlap means that a schedule does not overlap and a run of it is at work.
var ErrOverlap = errors.New("a run of it is still at work, and it is not to overlap")
