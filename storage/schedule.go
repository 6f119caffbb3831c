package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

var (
	// ErrFromFile means that a schedule comes from the file of schedules and is changed there only.
	ErrFromFile = errors.New("it comes from the file of schedules: edit it there")
	// ErrNameTaken means that a schedule of this name belongs to a tenant that the caller does not see.
	ErrNameTaken = errors.New("the name is taken")
)

// Where a schedule comes from.
const (
	FromFile = "file"   // the file of schedules; it can be paused, not changed
	Edited   = "edited" // somebody, at run time
)

// What becomes of fire times that nobody looked at in time.
const (
	MissedSkip = "skip" // nothing
	MissedOnce = "once" // one run, for the newest of them
	MissedAll  = "all"  // a run for each
)

// Schedule dispatches a job by the clock.
type Schedule struct {
	Name      string          `json:"name"`
	Cron      string          `json:"cron"`
	Zone      string          `json:"zone"` // IANA name
	Tenant    string          `json:"tenant"`
	Kind      string          `json:"kind"`
	Payload   json.RawMessage `json:"payload"`
	Options   json.RawMessage `json:"options"`    // of the dispatch; package jobs says which
	Missed    string          `json:"missed"`     // skip, once or all
	Overlap   bool            `json:"overlap"`    // false: no run while another is at work
	Source    string          `json:"source"`     // file or edited
	ChangedBy string          `json:"changed_by"` // who made or changed it last
	CreatedAt time.Time       `json:"created_at"`
	ChangedAt time.Time       `json:"changed_at"`
	PausedAt  *time.Time      `json:"paused_at,omitempty"`
	// DecidedAt is up to where fire times are decided, or do not count.
	DecidedAt time.Time `json:"decided_at"`
	// LookAt is when a scheduler looks next, at the latest.
	LookAt time.Time `json:"-"`
	// Problem is why the last look could not be finished; nil when it was.
	Problem *string `json:"problem,omitempty"`
}

// TableName names the table for gorm.
func (Schedule) TableName() string { return "fenceline.schedules" }

// ScheduleSummary is a schedule with its newest run.
type ScheduleSummary struct {
	Schedule
	LastAt      *time.Time `json:"last_at,omitempty"` // when it was decided
	LastFire    *time.Time `json:"last_fire,omitempty"`
	LastOutcome *string    `json:"last_outcome,omitempty"`
	LastReason  *string    `json:"last_reason,omitempty"`
	LastJob     *uuid.UUID `json:"last_job,omitempty"`
	LastState   *JobState  `json:"last_state,omitempty"` // of that job, now
}

// ScheduleFilter chooses schedules. The zero value chooses all that a scope sees.
type ScheduleFilter struct {
	After string // a [Page]'s Next
	Limit int    // 0 is 50; at most 200
}

const scheduleSummarySQL = `fenceline.schedules s
	LEFT JOIN LATERAL (SELECT * FROM fenceline.schedule_runs WHERE schedule = s.name AND tenant = s.tenant ORDER BY id DESC LIMIT 1) r ON true
	LEFT JOIN fenceline.jobs j ON j.id = r.job_id`

func (s *Store) scheduleSummaries(ctx context.Context, scope Scope) *gorm.DB {
	return scope.where(s.db.WithContext(ctx).Table(scheduleSummarySQL), "s.tenant").
		Select(`s.*, r.decided_at AS last_at, r.fire_at AS last_fire, r.outcome AS last_outcome, r.reason AS last_reason, r.job_id AS last_job, j.state AS last_state`)
}

// Schedules lists schedules by name.
func (s *Store) Schedules(ctx context.Context, scope Scope, f ScheduleFilter) (Page[ScheduleSummary], error) {
	limit := pageSize(f.Limit)
	q := s.scheduleSummaries(ctx, scope).Order("s.name").Limit(limit + 1)
	if f.After != "" {
		q = q.Where("s.name > ?", f.After)
	}
	var page Page[ScheduleSummary]
	if err := q.Scan(&page.Items).Error; err != nil {
		return page, fmt.Errorf("list schedules: %w", err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = page.Items[limit-1].Name
	}
	return page, nil
}

// Schedule reads one schedule; [ErrNotFound] also when the scope does not see it.
func (s *Store) Schedule(ctx context.Context, scope Scope, name string) (ScheduleSummary, error) {
	var list []ScheduleSummary
	if err := s.scheduleSummaries(ctx, scope).Where("s.name = ?", name).Scan(&list).Error; err != nil {
		return ScheduleSummary{}, fmt.Errorf("read schedule %q: %w", name, err)
	}
	if len(list) == 0 {
		return ScheduleSummary{}, noSchedule(name)
	}
	return list[0], nil
}

func noSchedule(name string) error { return fmt.Errorf("schedule %q: %w", name, ErrNotFound) }

// PutSchedule adds a schedule or changes the one of its name, and answers whether it
// is new. A change does not fire for times that lie before it; what fired before stays
// decided; what is paused stays paused. One that is as asked already is not changed.
// The errors are [ErrFromFile] and [ErrNameTaken].
func (s *Store) PutSchedule(ctx context.Context, scope Scope, sc Schedule) (saved ScheduleSummary, created bool, err error) {
	err = s.Transaction(ctx, func(tx Tx) error {
		res := tx.Exec(`INSERT INTO fenceline.schedules (name, cron, zone, tenant, kind, payload, options, missed, overlap, changed_by)
			VALUES (?, ?, ?, ?, ?, ?::jsonb, ?::jsonb, ?, ?, ?) ON CONFLICT (name) DO NOTHING`,
			sc.Name, sc.Cron, sc.Zone, sc.Tenant, sc.Kind, string(sc.Payload), options(sc), sc.Missed, sc.Overlap, sc.ChangedBy)
		created = res.RowsAffected == 1
		if res.Error != nil || created {
			return res.Error
		}
		if _, err := lockOwned(tx, scope, sc.Name); errors.Is(err, ErrNotFound) {
			return ErrNameTaken
		} else if err != nil {
			return err
		}
		return tx.Exec(`UPDATE fenceline.schedules SET cron = n.cron, zone = n.zone, tenant = n.tenant, kind = n.kind, payload = n.payload, options = n.options,
				missed = n.missed, overlap = n.overlap, changed_by = ?, `+changedNow+`
			FROM (SELECT ?::text AS cron, ?::text AS zone, ?::text AS tenant, ?::text AS kind, ?::jsonb AS payload, ?::jsonb AS options, ?::text AS missed, ?::boolean AS overlap) n
			WHERE name = ? AND `+scheduleDiffers,
			sc.ChangedBy, sc.Cron, sc.Zone, sc.Tenant, sc.Kind, string(sc.Payload), options(sc), sc.Missed, sc.Overlap, sc.Name).Error
	})
	if err == nil {
		saved, err = s.Schedule(ctx, scope, sc.Name)
	}
	if err != nil {
		return ScheduleSummary{}, false, fmt.Errorf("save schedule %q: %w", sc.Name, err)
	}
	return saved, created, nil
}

// changedNow is what every change does: fire times count from now on.
const changedNow = `changed_at = clock_timestamp(), decided_at = clock_timestamp(), look_at = clock_timestamp(), problem = NULL`

// scheduleDiffers compares with a row n of what is asked for.
const scheduleDiffers = `(schedules.cron, schedules.zone, schedules.tenant, schedules.kind, schedules.payload, schedules.options, schedules.missed, schedules.overlap)
	IS DISTINCT FROM (n.cron, n.zone, n.tenant, n.kind, n.payload, n.options, n.missed, n.overlap)`

func options(sc Schedule) string {
	if len(sc.Options) == 0 {
		return "{}"
	}
	return string(sc.Options)
}

// lockOwned locks a schedule that people may change.
func lockOwned(tx Tx, scope Scope, name string) (Schedule, error) {
	sc, err := lockSchedule(tx, scope, name)
	if err == nil && sc.Source == FromFile {
		err = ErrFromFile
	}
	return sc, err
}

func lockSchedule(tx Tx, scope Scope, name string) (sc Schedule, err error) {
	res := scope.where(tx.Table("fenceline.schedules"), "tenant").Clauses(forUpdate).Where("name = ?", name).Scan(&sc)
	if res.Error == nil && res.RowsAffected == 0 {
		return sc, ErrNotFound
	}
	return sc, res.Error
}

// DeleteSchedule removes a schedule; its jobs stay, and the record of its runs until
// it is pruned. [ErrFromFile] when it is not for deleting here.
func (s *Store) DeleteSchedule(ctx context.Context, scope Scope, name string) error {
	err := s.Transaction(ctx, func(tx Tx) error {
		if _, err := lockOwned(tx, scope, name); err != nil {
			return err
		}
		return tx.Exec("DELETE FROM fenceline.schedules WHERE name = ?", name).Error
	})
	if err != nil {
		return fmt.Errorf("delete schedule %q: %w", name, err)
	}
	return nil
}

// PauseSchedule lets a schedule fire no more; it may be paused already.
func (s *Store) PauseSchedule(ctx context.Context, scope Scope, name string) error {
	return s.changeSchedule(ctx, scope, name, "pause", "paused_at = coalesce(paused_at, clock_timestamp())")
}

// ResumeSchedule lets a paused schedule fire again, for times from now on: what the
// pause missed is not made up. One that is not paused is not touched.
func (s *Store) ResumeSchedule(ctx context.Context, scope Scope, name string) error {
	return s.changeSchedule(ctx, scope, name, "resume", `decided_at = CASE WHEN paused_at IS NULL THEN decided_at ELSE clock_timestamp() END,
		look_at = CASE WHEN paused_at IS NULL THEN look_at ELSE clock_timestamp() END, paused_at = NULL`)
}

func (s *Store) changeSchedule(ctx context.Context, scope Scope, name, verb, set string) error {
	res := s.db.WithContext(ctx).Exec("UPDATE fenceline.schedules SET "+set+" WHERE name = ? AND (? OR tenant = ?)", name, scope.All, scope.Tenant)
	if res.Error == nil && res.RowsAffected == 0 {
		res.Error = ErrNotFound
	}
	if res.Error != nil {
		return fmt.Errorf("%s schedule %q: %w", verb, name, res.Error)
	}
	return nil
}

// Now is the database's clock, the only one that decides anything.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	if err := s.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return now, fmt.Errorf("ask PostgreSQL for the time: %w", err)
	}
	return now, nil
}
