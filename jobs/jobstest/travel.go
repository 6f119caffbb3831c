package jobstest

import (
	"context"
	"fmt"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// Travel lets time pass in this Fenceline; see the function [Travel].
func (f *Fenceline) Travel(d time.Duration) {
	f.t.Helper()
	f.must(Travel(f.ctx, f.Store, d))
}

// Travel lets the time d pass in a database, in one transaction: as only PostgreSQL's
// clock decides what is due, and nobody can set it, all that was written down is
// made older by d instead. A job with a delay of a day runs after Travel(24 h), a
// retry is tried, a unique key of a period ends, retention is over.
//
// It moves every point in time in Fenceline's tables, except for
//
//   - what lives: the heartbeats of workers and of attempts that run, and when they began. A
//     worker that beats has beaten meanwhile too. (How a silent one loses its
//     job is what [Overtake] is for.)
//   - schedules and their runs, which follow the calendar: six o'clock stays six o'clock;
//   - the time of the data that an attempt has read, which never changes;
//   - times inside of payloads and results, ids, files, Redis, and your own tables.
//
// Jobs of which the time has come are rung for at once when a relay runs. Code that
// asks time.Now is not moved: test it in a bubble of testing/synctest, where a fake
// [Dispatcher] lives by the bubble's clock.
func Travel(ctx context.Context, store *storage.Store, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("travel by %s: time only goes on; give a time above zero", d)
	}
	var err error
	for range travelTries {
		err = store.Transaction(ctx, func(tx storage.Tx) error { return travel(tx, d) })
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("travel by %s: %w", d, err)
	}
	return nil
}

// travelTries is how often a move is tried that met with one who locked the same rows in another order.
const travelTries = 5

// times lists the columns to move, by table in the order of row locks.
const times = `SELECT c.relname AS "table", string_agg(format('%1$I = %1$I - make_interval(secs => $1)', a.attname), ', ' ORDER BY a.attname) AS moved
	FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
	WHERE c.relnamespace = 'fenceline'::regnamespace AND c.relkind IN ('r', 'p') AND a.atttypid = 'timestamptz'::regtype AND NOT a.attisdropped
		AND c.relname NOT IN ('schema_migrations', 'schedules', 'schedule_runs', 'workers') AND (c.relname, a.attname) NOT IN (('attempts', 'data_as_of'))
	GROUP BY c.relname ORDER BY array_position('{attempts,exports,jobs}', c.relname::text), c.relname`

// living is which rows of a table stay.
func living(table string) string {
	switch table {
	case "attempts":
		return "state NOT IN ('running', 'sealed')"
	case "jobs":
		return "state NOT IN ('running', 'cancelling')"
	}
	return "true"
}

func travel(tx storage.Tx, d time.Duration) error {
	var tables []struct{ Table, Moved string }
	if err := tx.Raw(times).Scan(&tables).Error; err != nil {
		return fmt.Errorf("look for points in time: %w", err)
	}
	for _, t := range tables {
		if err := tx.Exec("UPDATE fenceline."+t.Table+" SET "+t.Moved+" WHERE "+living(t.Table), d.Seconds()).Error; err != nil {
			return fmt.Errorf("move the times of %s: %w", t.Table, err)
		}
	}
	if err := tx.Exec("SELECT pg_notify('fenceline_jobs', '')").Error; err != nil {
		return fmt.Errorf("wake the relays: %w", err)
	}
	return nil
}
