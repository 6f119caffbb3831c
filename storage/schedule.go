package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Schedule dispatches a job by the clock.
type Schedule struct {
	Name      string          `json:"name"`
	Cron      string          `json:"cron"`
	Zone      string          `json:"zone"` // IANA name
	Tenant    string          `json:"tenant"`
	Kind      string          `json:"kind"`
	Payload   json.RawMessage `json:"payload"`
	CreatedAt time.Time       `json:"created_at"`
	PausedAt  *time.Time      `json:"paused_at,omitempty"`
	// LastFire is the newest fire time that was decided; nil before the first.
	LastFire *time.Time `json:"last_fire,omitempty" gorm:"-:migration;<-:false"`
}

// TableName names the table for gorm.
func (Schedule) TableName() string { return "fenceline.schedules" }

// Schedules lists all schedules by name.
func (s *Store) Schedules(ctx context.Context) ([]Schedule, error) {
	var list []Schedule
	err := s.db.WithContext(ctx).Raw(`SELECT s.*, (SELECT max(fire_at) FROM fenceline.schedule_runs r WHERE r.schedule = s.name) AS last_fire
		FROM fenceline.schedules s ORDER BY s.name`).Scan(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	return list, nil
}

// PutSchedule adds a schedule or replaces the one of its name; what fired before stays decided.
func (s *Store) PutSchedule(ctx context.Context, sc Schedule) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO fenceline.schedules (name, cron, zone, tenant, kind, payload) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (name) DO UPDATE SET cron = $2, zone = $3, tenant = $4, kind = $5, payload = $6, created_at = clock_timestamp()`,
		sc.Name, sc.Cron, sc.Zone, sc.Tenant, sc.Kind, string(sc.Payload))
	if err != nil {
		return fmt.Errorf("save schedule %q: %w", sc.Name, err)
	}
	return nil
}

// DeleteSchedule removes a schedule and the record of its runs; their jobs stay.
func (s *Store) DeleteSchedule(ctx context.Context, name string) error {
	tag, err := s.pool.Exec(ctx, "DELETE FROM fenceline.schedules WHERE name = $1", name)
	if err != nil {
		return fmt.Errorf("delete schedule %q: %w", name, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("schedule %q: %w", name, ErrNotFound)
	}
	return nil
}

// ClaimFire decides, in the caller's transaction, who runs a schedule for a
// fire time: the first row wins, however many schedulers there are and whatever
// their clocks say.
func (s *Store) ClaimFire(ctx context.Context, tx Tx, schedule string, at time.Time) (bool, error) {
	res := tx.WithContext(ctx).Exec("INSERT INTO fenceline.schedule_runs (schedule, fire_at) VALUES (?, ?) ON CONFLICT DO NOTHING", schedule, at)
	if res.Error != nil {
		return false, fmt.Errorf("claim %s of schedule %q: %w", at, schedule, res.Error)
	}
	return res.RowsAffected == 1, nil
}

// RecordFire notes what came of a claimed fire time: a job, or why there is none.
func (s *Store) RecordFire(ctx context.Context, tx Tx, schedule string, at time.Time, job uuid.UUID, failure string) error {
	var id *uuid.UUID
	if job != uuid.Nil {
		id = &job
	}
	err := tx.WithContext(ctx).Exec("UPDATE fenceline.schedule_runs SET job_id = ?, error = ? WHERE schedule = ? AND fire_at = ?",
		id, nullable(failure), schedule, at).Error
	if err != nil {
		return fmt.Errorf("record %s of schedule %q: %w", at, schedule, err)
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
