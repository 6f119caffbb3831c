package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// ScheduleFile is what is known of the file of schedules: what was taken over last,
// and what of a newer content was not.
type ScheduleFile struct {
	Path      string     `json:"path"`
	SHA256    []byte     `json:"-" gorm:"column:sha256"`
	Worker    string     `json:"worker"` // who read it
	SyncedAt  *time.Time `json:"synced_at,omitempty"`
	Problem   *string    `json:"problem,omitempty"`
	ProblemAt *time.Time `json:"problem_at,omitempty"`
}

// SyncedSchedules are the names of what a file has changed.
type SyncedSchedules struct {
	Added, Changed, Removed []string
	// Kept are in the file and were not taken over: they were made at run time.
	Kept []string
}

// Changes reports whether anything was changed.
func (s SyncedSchedules) Changes() bool { return len(s.Added)+len(s.Changed)+len(s.Removed) > 0 }

// ScheduleFile reads what is known of the file of schedules.
func (s *Store) ScheduleFile(ctx context.Context) (f ScheduleFile, err error) {
	if err := s.db.WithContext(ctx).Table("fenceline.schedule_file").Take(&f).Error; err != nil {
		return f, fmt.Errorf("read what is known of the file of schedules: %w", err)
	}
	return f, nil
}

// SyncSchedules makes the schedules of the file those of a list, in one transaction:
// what is new is added, what differs is changed as [Store.PutSchedule] does it, and
// what is not in the list is removed. Schedules that were made at run time are kept,
// also when the list has their name.
func (s *Store) SyncSchedules(ctx context.Context, f ScheduleFile, list []Schedule) (done SyncedSchedules, err error) {
	asked, err := json.Marshal(list)
	if err != nil {
		return done, fmt.Errorf("encode schedules: %w", err)
	}
	err = s.Transaction(ctx, func(tx Tx) error {
		// The row lets one file be taken over after the other.
		if err := tx.Exec("SELECT FROM fenceline.schedule_file FOR UPDATE").Error; err != nil {
			return err
		}
		if err := syncSchedules(tx, string(asked), &done); err != nil {
			return err
		}
		var problem *string
		if len(done.Kept) > 0 {
			problem = new(fmt.Sprintf("not taken over, because they were made at run time: %q; delete them to let the file have them", done.Kept))
		}
		return tx.Exec(`UPDATE fenceline.schedule_file SET path = ?, sha256 = ?, worker = ?, synced_at = clock_timestamp(), problem = ?,
			problem_at = CASE WHEN ?::text IS NOT NULL THEN clock_timestamp() END`, f.Path, f.SHA256, f.Worker, problem, problem).Error
	})
	if err != nil {
		return SyncedSchedules{}, fmt.Errorf("take over the schedules of %s: %w", f.Path, err)
	}
	return done, nil
}

func syncSchedules(tx Tx, asked string, done *SyncedSchedules) error {
	const list = `jsonb_to_recordset(?::jsonb) AS n(name text, cron text, zone text, tenant text, kind text, payload jsonb, options jsonb, missed text, overlap boolean, changed_by text)`
	var written []struct {
		Name string
		New  bool
	}
	err := tx.Raw(`INSERT INTO fenceline.schedules (name, cron, zone, tenant, kind, payload, options, missed, overlap, changed_by, source)
		SELECT name, cron, zone, tenant, kind, payload, options, missed, overlap, changed_by, 'file' FROM `+list+`
		ON CONFLICT (name) DO UPDATE SET cron = excluded.cron, zone = excluded.zone, tenant = excluded.tenant, kind = excluded.kind, payload = excluded.payload,
			options = excluded.options, missed = excluded.missed, overlap = excluded.overlap, changed_by = excluded.changed_by, `+changedNow+`
		WHERE schedules.source = 'file' AND (schedules.cron, schedules.zone, schedules.tenant, schedules.kind, schedules.payload, schedules.options, schedules.missed, schedules.overlap)
			IS DISTINCT FROM (excluded.cron, excluded.zone, excluded.tenant, excluded.kind, excluded.payload, excluded.options, excluded.missed, excluded.overlap)
		RETURNING name, xmax = 0 AS new`, asked).Scan(&written).Error
	if err != nil {
		return err
	}
	for _, w := range written {
		if w.New {
			done.Added = append(done.Added, w.Name)
		} else {
			done.Changed = append(done.Changed, w.Name)
		}
	}
	err = tx.Raw("DELETE FROM fenceline.schedules s WHERE source = 'file' AND NOT EXISTS (SELECT FROM "+list+" WHERE n.name = s.name) RETURNING name", asked).Scan(&done.Removed).Error
	if err != nil {
		return err
	}
	return tx.Raw("SELECT s.name FROM fenceline.schedules s JOIN "+list+" ON n.name = s.name WHERE s.source = 'edited' ORDER BY s.name", asked).Scan(&done.Kept).Error
}

// FailScheduleFile records that a newer content of the file was not taken over, and why.
func (s *Store) FailScheduleFile(ctx context.Context, f ScheduleFile, problem string) error {
	_, err := s.pool.Exec(ctx, `UPDATE fenceline.schedule_file SET path = $1, worker = $2, problem = $3, problem_at = clock_timestamp()`, f.Path, f.Worker, problem)
	if err != nil {
		return fmt.Errorf("record what is wrong with %s: %w", f.Path, err)
	}
	return nil
}
