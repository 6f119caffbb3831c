package storage_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/migrations"
	"github.com/fenceline/fenceline/storage"
)

func aSchedule(name string) storage.Schedule {
	return storage.Schedule{Name: name, Cron: "@daily", Zone: "UTC", Tenant: "acme", Kind: "report", Payload: json.RawMessage(`{"a":1}`), Missed: "once", Overlap: true}
}

func (w *world) put(sc storage.Schedule) storage.ScheduleSummary {
	w.t.Helper()
	saved, _, err := w.store.PutSchedule(w.ctx, everything, sc)
	w.must(err)
	return saved
}

// everySchedule sends every statement about schedules once.
func everySchedule(w *world, job uuid.UUID) {
	w.t.Helper()
	w.put(aSchedule("s"))
	w.put(aSchedule("t"))
	list, err := w.store.Schedules(w.ctx, storage.Scope{Tenant: "acme"}, storage.ScheduleFilter{After: "r", Limit: 1})
	if err != nil || len(list.Items) != 1 || string(list.Items[0].Payload) != `{"a": 1}` || list.Next != "s" {
		w.t.Errorf("schedules %+v, %v", list, err)
	}
	w.must(w.store.PauseSchedule(w.ctx, everything, "s"))
	w.must(w.store.ResumeSchedule(w.ctx, everything, "s"))
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		sc, now, err := w.store.DueSchedule(w.ctx, tx, []string{`a"b\c,`, "t"}, time.Time{})
		w.must(err)
		if sc.Name != "s" || now.Before(sc.DecidedAt) {
			w.t.Errorf("due is %+v at %s", sc, now)
		}
		_, _, err = w.store.LockSchedule(w.ctx, tx, everything, "s")
		w.must(err)
		run := storage.ScheduleRun{Schedule: "s", Tenant: "acme", FireKey: "k", FireAt: now, Outcome: storage.RunDispatched}
		first, err := w.store.RecordRun(w.ctx, tx, run)
		w.must(err)
		again, err := w.store.RecordRun(w.ctx, tx, run)
		if first.ID == 0 || again.ID != 0 || first.DecidedAt.Before(now) {
			w.t.Errorf("claimed %+v, again %+v", first, again)
		}
		w.must(err)
		run.JobID = &job
		w.must(w.store.FinishRun(w.ctx, tx, run))
		_, _, err = w.store.RunAtWork(w.ctx, tx, "s")
		w.must(err)
		return w.store.MoveSchedule(w.ctx, tx, "s", now, now.Add(time.Hour))
	}))
	w.must(w.store.PostponeSchedule(w.ctx, "t", "x", time.Hour))
	_, err = w.store.NextLook(w.ctx, time.Minute)
	w.must(err)
	runs, err := w.store.ScheduleRuns(w.ctx, everything, "s", "", 5)
	if err != nil || len(runs.Items) != 1 || runs.Items[0].JobState == nil {
		w.t.Errorf("runs %+v, %v", runs, err)
	}
	done, err := w.store.SyncSchedules(w.ctx, storage.ScheduleFile{Path: "f", SHA256: []byte("x")}, []storage.Schedule{withOptions("u"), withOptions("s")})
	if err != nil || len(done.Added) != 1 || len(done.Kept) != 1 {
		w.t.Errorf("synced %+v, %v", done, err)
	}
	w.must(w.store.FailScheduleFile(w.ctx, storage.ScheduleFile{Path: "f"}, "broken"))
	_, err = w.store.ScheduleFile(w.ctx)
	w.must(err)
	_, err = w.store.PruneScheduleRuns(w.ctx, 48*time.Hour)
	w.must(errors.Join(err, w.store.DeleteSchedule(w.ctx, everything, "s"), w.store.DeleteSchedule(w.ctx, everything, "t")))
}

func withOptions(name string) storage.Schedule {
	sc := aSchedule(name)
	sc.Options = json.RawMessage("{}")
	return sc
}

func TestPutSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.put(aSchedule("s"))
	if first.Source != storage.Edited || first.PausedAt != nil || string(first.Options) != "{}" {
		t.Errorf("%+v", first)
	}
	if again := w.put(aSchedule("s")); !again.ChangedAt.Equal(first.ChangedAt) || !again.DecidedAt.Equal(first.DecidedAt) {
		t.Errorf("the same again moved it: %+v", again)
	}
	changed := aSchedule("s")
	changed.Payload = json.RawMessage(`{"a":2}`)
	w.must(w.store.PauseSchedule(w.ctx, everything, "s"))
	if after := w.put(changed); !after.DecidedAt.After(first.DecidedAt) || after.PausedAt == nil || !after.CreatedAt.Equal(first.CreatedAt) {
		t.Errorf("changed: %+v", after)
	}
	globex := storage.Scope{Tenant: "globex"}
	theirs := aSchedule("s")
	theirs.Tenant = "globex"
	if _, _, err := w.store.PutSchedule(w.ctx, globex, theirs); !errors.Is(err, storage.ErrNameTaken) {
		t.Errorf("another tenant's name: %v", err)
	}
	for what, err := range map[string]error{
		"delete": w.store.DeleteSchedule(w.ctx, globex, "s"), "pause": w.store.PauseSchedule(w.ctx, globex, "s"), "resume": w.store.ResumeSchedule(w.ctx, globex, "s"),
		"delete nothing": w.store.DeleteSchedule(w.ctx, everything, "nope"),
	} {
		if !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := w.store.Schedule(w.ctx, globex, "s"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant reads it: %v", err)
	}
	if _, err := w.store.ScheduleRuns(w.ctx, globex, "s", "", 0); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant reads its runs: %v", err)
	}
	if _, err := w.store.ScheduleRuns(w.ctx, everything, "s", "x", 0); !errors.Is(err, storage.ErrCursor) {
		t.Errorf("a wrong cursor: %v", err)
	}
}

// The row alone decides, also where nobody holds the lock on the schedule.
func TestOneRowForAFireTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var won atomic.Int64
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error {
				run, err := w.store.RecordRun(w.ctx, tx, storage.ScheduleRun{Schedule: "s", Tenant: "acme", FireKey: "2026-03-29T02:30:00[Europe/Berlin]", FireAt: time.Now(), Outcome: storage.RunDispatched})
				if run.ID != 0 {
					won.Add(1)
				}
				return err
			}))
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d have won", won.Load())
	}
	// A program from before the keys names none: it is refused, and runs nothing.
	if err := w.store.Exec(w.ctx, "INSERT INTO fenceline.schedule_runs (schedule, fire_at) VALUES ('s', now()) ON CONFLICT DO NOTHING"); err == nil {
		t.Error("a run without a key was taken")
	}
}

// A schedule that another scheduler holds is not waited for.
func TestDueSchedulesAreShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(aSchedule("a"))
	w.put(aSchedule("b"))
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		first, _, err := w.store.DueSchedule(w.ctx, tx, nil, time.Time{})
		w.must(err)
		w.must(w.store.Transaction(w.ctx, func(other storage.Tx) error {
			second, _, err := w.store.DueSchedule(w.ctx, other, nil, time.Time{})
			w.must(err)
			if first.Name == second.Name {
				t.Errorf("both have %s", first.Name)
			}
			_, _, err = w.store.DueSchedule(w.ctx, other, []string{second.Name}, time.Time{})
			if !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("a third: %v", err)
			}
			return nil
		}))
		return nil
	}))
}

func TestSyncSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(aSchedule("mine"))
	sync := func(list ...storage.Schedule) string {
		t.Helper()
		done, err := w.store.SyncSchedules(w.ctx, storage.ScheduleFile{Path: "schedules.yml", SHA256: []byte("x"), Worker: "w"}, list)
		w.must(err)
		return fmt.Sprint(done.Added, done.Changed, done.Removed, done.Kept)
	}
	if got := sync(withOptions("a"), withOptions("b")); got != "[a b] [] [] []" {
		t.Error(got)
	}
	w.must(w.store.PauseSchedule(w.ctx, everything, "a"))
	if got := sync(withOptions("a"), withOptions("b")); got != "[] [] [] []" {
		t.Error(got)
	}
	changed, before := withOptions("a"), get(w.store.Schedule(w.ctx, everything, "a"))(t)
	changed.Cron = "@hourly"
	if got := sync(changed, withOptions("mine")); got != "[] [a] [b] [mine]" {
		t.Error(got)
	}
	after := get(w.store.Schedule(w.ctx, everything, "a"))(t)
	if after.PausedAt == nil || after.Cron != "@hourly" || !after.DecidedAt.After(before.DecidedAt) || after.Source != storage.FromFile {
		t.Errorf("%+v", after)
	}
	if mine := get(w.store.Schedule(w.ctx, everything, "mine"))(t); mine.Source != storage.Edited {
		t.Errorf("%+v", mine)
	}
	if f := get(w.store.ScheduleFile(w.ctx))(t); f.Problem == nil || !strings.Contains(*f.Problem, "mine") || f.SyncedAt == nil {
		t.Errorf("%+v", f)
	}
	if _, _, err := w.store.PutSchedule(w.ctx, everything, aSchedule("a")); !errors.Is(err, storage.ErrFromFile) {
		t.Errorf("put: %v", err)
	}
	if err := w.store.DeleteSchedule(w.ctx, everything, "a"); !errors.Is(err, storage.ErrFromFile) {
		t.Errorf("delete: %v", err)
	}
	w.must(w.store.ResumeSchedule(w.ctx, everything, "a"))
}

func get[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestPruneScheduleRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(aSchedule("s"))
	job := w.insert(newJob("k"))
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		for i, schedule := range []string{"s", "s", "s", "s", "gone"} {
			run := storage.ScheduleRun{Schedule: schedule, Tenant: "acme", FireKey: fmt.Sprint(i), FireAt: time.Now(), Outcome: storage.RunDispatched}
			get(w.store.RecordRun(w.ctx, tx, run))(t)
			if i == 0 {
				run.JobID = &job.ID // is queued
				w.must(w.store.FinishRun(w.ctx, tx, run))
			}
		}
		return nil
	}))
	if n, err := w.store.PruneScheduleRuns(w.ctx, 48*time.Hour); n != 0 || err != nil {
		t.Errorf("new runs: %d, %v", n, err)
	}
	w.exec("UPDATE fenceline.schedule_runs SET decided_at = now() - interval '3 days'")
	if n, err := w.store.PruneScheduleRuns(w.ctx, 48*time.Hour); n != 3 || err != nil {
		t.Errorf("old runs: %d, %v", n, err)
	}
	left := get(w.store.ScheduleRuns(w.ctx, everything, "s", "", 0))(t)
	if len(left.Items) != 2 || left.Items[0].FireKey != "3" || left.Items[1].FireKey != "0" {
		t.Errorf("left: %+v", left.Items)
	}
	if _, err := w.store.PruneScheduleRuns(w.ctx, time.Hour); err == nil {
		t.Error("an hour was accepted")
	}
}

// Schedules and runs from before the migration keep what they had, and what was
// decided stays decided.
func TestOldSchedulesAreMigrated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("DROP SCHEMA fenceline CASCADE")
	w.exec("CREATE SCHEMA fenceline")
	names := get(fs.Glob(migrations.Files, "*.sql"))(t)
	for _, name := range names {
		if name == "00007_schedules.sql" {
			w.must(w.store.Exec(w.ctx, `INSERT INTO fenceline.schedules (name, cron, zone, tenant, kind, payload, created_at) VALUES
				('fired', '0 6 * * *', 'Europe/Berlin', 'acme', 'report', '{}', '2020-01-01Z'), ('new', '@daily', 'UTC', 'acme', 'report', '{}', '2020-01-01Z');
				INSERT INTO fenceline.schedule_runs (schedule, fire_at, error) VALUES ('fired', '2020-01-02 05:00Z', 'no'), ('fired', '2020-01-03 05:00Z', NULL)`))
		}
		w.must(w.store.Exec(w.ctx, string(get(fs.ReadFile(migrations.Files, name))(t))))
		if name == "00007_schedules.sql" {
			break
		}
	}
	fired, unfired := get(w.store.Schedule(w.ctx, everything, "fired"))(t), get(w.store.Schedule(w.ctx, everything, "new"))(t)
	if !fired.DecidedAt.Equal(time.Date(2020, 1, 3, 5, 0, 0, 0, time.UTC)) || fired.Missed != "once" || !fired.Overlap || fired.Source != storage.Edited {
		t.Errorf("%+v", fired)
	}
	if !unfired.DecidedAt.Equal(unfired.CreatedAt) || unfired.CreatedAt.Year() != 2020 {
		t.Errorf("%+v", unfired)
	}
	runs := get(w.store.ScheduleRuns(w.ctx, storage.Scope{Tenant: "acme"}, "fired", "", 0))(t)
	if len(runs.Items) != 2 || runs.Items[1].FireKey != "2020-01-02T05:00:00Z" || runs.Items[1].Outcome != storage.RunRefused {
		t.Errorf("%+v", runs)
	}
}
