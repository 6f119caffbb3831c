package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// timetable is a world whose schedules believe what a test says of the clock.
type timetable struct {
	*world
	*jobs.Schedules
}

func newTimetable(t *testing.T) *timetable {
	t.Helper()
	w := newWorld(t, redistest.Shared(t))
	w.handle("ok", writes("x"))
	return &timetable{w, jobs.NewSchedules(w.store, w.dispatcher, w.log)}
}

// keep keeps a schedule whose fire times count from an instant.
func (tt *timetable) keep(name, cron, zone, from string, change ...func(*storage.Schedule)) {
	tt.t.Helper()
	sc := storage.Schedule{Name: name, Cron: cron, Zone: zone, Tenant: "acme", Kind: "test", Payload: payload("ok", name), Overlap: true}
	for _, c := range change {
		c(&sc)
	}
	_, _, err := tt.Put(tt.ctx, everything, sc, "ann")
	tt.must(err)
	tt.from(name, from)
}

func (tt *timetable) from(name, from string) {
	tt.t.Helper()
	tt.exec("UPDATE fenceline.schedules SET decided_at = $2::timestamptz, look_at = $2::timestamptz WHERE name = $1", name, from)
}

// at fires what is due when the database's clock shows a time, and answers what was decided.
func (tt *timetable) at(now string) []storage.ScheduleRun {
	tt.t.Helper()
	at, err := time.Parse(time.RFC3339, now)
	tt.must(err)
	tt.SetNow(at)
	runs, err := tt.Fire(tt.ctx)
	tt.must(err)
	return runs
}

// told are runs in short.
func told(runs []storage.ScheduleRun) string {
	var list []string
	for _, r := range runs {
		list = append(list, fmt.Sprintf("%s %s+%d", r.FireAt.UTC().Format("02T15:04:05"), r.Outcome, r.Passed))
	}
	return strings.Join(list, " | ")
}

func (tt *timetable) wants(now, want string) []storage.ScheduleRun {
	tt.t.Helper()
	runs := tt.at(now)
	if got := told(runs); got != want {
		tt.t.Errorf("at %s\n got %s\nwant %s", now, got, want)
	}
	return runs
}

func (tt *timetable) jobCount() (n int) {
	tt.t.Helper()
	tt.ask(&n, "SELECT count(*)::int FROM fenceline.jobs")
	return n
}

func missed(how string) func(*storage.Schedule) {
	return func(sc *storage.Schedule) { sc.Missed = how }
}

func alone(sc *storage.Schedule) { sc.Overlap = false }

func TestOneJobPerFireTimeHoweverManySchedulers(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			tt := newTimetable(t)
			for i := range 20 {
				tt.keep(fmt.Sprintf("s%d", i), "0 6 * * *", "Asia/Dhaka", "2031-05-05T00:00:00Z")
			}
			at := time.Date(2031, 5, 6, 0, 0, 1, 0, time.UTC) // 06:00:01 in Dhaka
			var wg sync.WaitGroup
			for range n {
				s := jobs.NewSchedules(tt.store, tt.dispatcher, tt.log)
				s.SetNow(at)
				wg.Go(func() {
					if _, err := s.Fire(tt.ctx); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if got := tt.jobCount(); got != 20 {
				t.Errorf("%d jobs for 20 fire times", got)
			}
			page, err := tt.store.ScheduleRuns(tt.ctx, everything, "s7", "", 0)
			tt.must(err)
			if len(page.Items) != 1 || page.Items[0].FireKey != "2031-05-06T06:00:00[Asia/Dhaka]" || page.Items[0].Outcome != storage.RunDispatched {
				t.Errorf("%+v", page.Items)
			}
			job := tt.job(*page.Items[0].JobID)
			if job.RequestedBy != "schedule s7" || job.Tenant != "acme" {
				t.Errorf("job %+v", job)
			}
			if runs := tt.at("2031-05-06T00:00:05Z"); len(runs) != 0 {
				t.Errorf("fired again: %s", told(runs))
			}
		})
	}
}

// A program that knows other rules of the zone has run a local time at another
// instant; so has a schedule that was deleted and made again.
func TestALocalTimeIsRunOnce(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	tt.keep("s", "0 6 * * *", "Europe/Berlin", "2031-05-05T00:00:00Z")
	tt.exec(`INSERT INTO fenceline.schedule_runs (schedule, tenant, fire_key, fire_at, outcome) VALUES ('s', 'acme', '2031-05-05T06:00:00[Europe/Berlin]', '2031-05-05T05:00:00Z', 'dispatched')`)
	tt.wants("2031-05-05T04:00:00Z", "")
	tt.wants("2031-05-06T04:00:00Z", "06T04:00:00 dispatched+0")
	tt.must(tt.store.DeleteSchedule(tt.ctx, everything, "s"))
	tt.keep("s", "0 6 * * *", "Europe/Berlin", "2031-05-05T00:00:00Z")
	tt.wants("2031-05-06T04:30:00Z", "")
	if n := tt.jobCount(); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

func TestSchedulesAtClockChanges(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	tt.keep("fixed", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z")
	tt.wants("2026-03-29T00:59:59Z", "")
	tt.wants("2026-03-29T01:00:00Z", "29T01:00:00 dispatched+0") // 03:00, after the gap
	tt.wants("2026-03-29T02:00:00Z", "")
	tt.from("fixed", "2026-10-24T12:00:00Z")
	tt.wants("2026-10-25T00:30:00Z", "25T00:30:00 dispatched+0") // 02:30 in summer
	tt.wants("2026-10-25T01:30:00Z", "")                         // 02:30 in winter
	tt.wants("2026-10-26T01:30:00Z", "26T01:30:00 dispatched+0")
	tt.must(tt.store.PauseSchedule(tt.ctx, everything, "fixed"))
	tt.keep("often", "30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z")
	tt.wants("2026-10-25T00:30:00Z", "25T00:30:00 dispatched+0")
	tt.wants("2026-10-25T01:30:00Z", "25T01:30:00 dispatched+0")
}

func TestMissedOnce(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	tt.keep("s", "*/10 * * * *", "UTC", "2031-01-01T00:00:00Z")
	tt.wants("2031-01-01T05:03:00Z", "01T05:00:00 dispatched+29")
	tt.wants("2031-01-01T05:09:59Z", "")
	tt.wants("2031-01-01T05:10:00Z", "01T05:10:00 dispatched+0")
	tt.from("s", "2030-01-01T00:00:00Z") // for a year: counting ends somewhere
	tt.wants("2031-01-01T05:20:00Z", "01T05:20:00 dispatched+1000")
}

func TestMissedSkip(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	tt.keep("s", "0 6 * * *", "UTC", "2031-01-01T00:00:00Z", missed("skip"))
	runs := tt.wants("2031-01-03T06:01:01Z", "03T06:00:00 skipped+2")
	if len(runs) != 1 || runs[0].Reason == nil || !strings.Contains(*runs[0].Reason, "no scheduler looked for 1m1s") {
		t.Errorf("%+v", runs)
	}
	tt.wants("2031-01-03T06:02:00Z", "")
	tt.wants("2031-01-04T06:01:00Z", "04T06:00:00 dispatched+0") // within the grace
}

func TestMissedAll(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	tt.keep("s", "0 3 1 * *", "Europe/Berlin", "2030-12-15T00:00:00Z", missed("all"), func(sc *storage.Schedule) {
		sc.Payload = json.RawMessage(`{"handler":"ok","key":"k","params":{"month":"@last-month"}}`)
	})
	runs := tt.wants("2031-03-02T00:00:00Z", "01T02:00:00 dispatched+0 | 01T02:00:00 dispatched+0 | 01T02:00:00 dispatched+0")
	var months []string
	for _, r := range runs {
		var p struct{ Params struct{ Month string } }
		tt.must(json.Unmarshal(tt.job(*r.JobID).Payload, &p))
		months = append(months, p.Params.Month)
	}
	if !slices.Equal(months, []string{"2030-12", "2031-01", "2031-02"}) {
		t.Errorf("billed %v", months)
	}
	// Many at once are made up for in parts.
	tt.must(tt.store.PauseSchedule(tt.ctx, everything, "s"))
	tt.keep("m", "* * * * *", "UTC", "2031-01-01T00:00:00Z", missed("all"))
	now := time.Date(2031, 1, 1, 2, 0, 0, 0, time.UTC)
	var parts []int
	for range 4 {
		parts = append(parts, len(tt.at(now.Format(time.RFC3339))))
		now = now.Add(time.Second)
	}
	if !slices.Equal(parts, []int{50, 50, 20, 0}) {
		t.Errorf("parts of %v, want 50, 50, 20 and none", parts)
	}
}

// 30 December 2011 did not exist in Apia; what it was to bill is billed for it.
func TestWordsForDaysOfATimeThatWasSkipped(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	tt.keep("s", "0 9 30 12 *", "Pacific/Apia", "2011-12-20T00:00:00Z", func(sc *storage.Schedule) {
		sc.Payload = json.RawMessage(`{"handler":"ok","key":"k","params":{"day":"@today"}}`)
	})
	runs := tt.wants("2011-12-30T10:00:00Z", "30T10:00:00 dispatched+0") // 00:00 on the 31st there
	if body := string(tt.job(*runs[0].JobID).Payload); !strings.Contains(body, "2011-12-30") {
		t.Errorf("payload %s", body)
	}
}

func TestWithoutOverlapping(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	tt.keep("s", "*/10 * * * *", "UTC", "2031-01-01T00:00:00Z", alone)
	first := tt.wants("2031-01-01T00:10:00Z", "01T00:10:00 dispatched+0")
	second := tt.wants("2031-01-01T00:20:00Z", "01T00:20:00 skipped+0")
	if len(second) != 1 || second[0].Reason == nil || !strings.Contains(*second[0].Reason, first[0].JobID.String()+" of an earlier run is still queued") {
		t.Errorf("%+v", second)
	}
	if _, _, err := tt.RunNow(tt.ctx, everything, "s", "ann", ""); !errors.Is(err, storage.ErrOverlap) {
		t.Errorf("by hand: %v", err)
	}
	_, err := tt.store.CancelJob(tt.ctx, everything, *first[0].JobID)
	tt.must(err)
	tt.wants("2031-01-01T00:30:00Z", "01T00:30:00 dispatched+0")

	// One that makes up for every time lets them wait for each other.
	tt.must(tt.store.PauseSchedule(tt.ctx, everything, "s"))
	tt.keep("all", "0 6 * * *", "UTC", "2031-01-01T00:00:00Z", alone, missed("all"))
	one := tt.wants("2031-01-03T07:00:00Z", "01T06:00:00 dispatched+0")
	tt.wants("2031-01-03T07:00:05Z", "")
	_, err = tt.store.CancelJob(tt.ctx, everything, *one[0].JobID)
	tt.must(err)
	tt.wants("2031-01-03T07:00:10Z", "02T06:00:00 dispatched+0")
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	tt.keep("s", "0 6 * * *", "UTC", "2020-01-01T00:00:00Z", missed("all"))
	tt.must(tt.store.PauseSchedule(tt.ctx, everything, "s"))
	tt.wants("2020-01-05T06:00:00Z", "")
	if v, err := tt.Show(tt.ctx, everything, "s"); err != nil || v.PausedAt == nil || len(v.Next) != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	tt.must(tt.store.ResumeSchedule(tt.ctx, everything, "s")) // today: years of fire times are not made up
	tt.SetNow(time.Time{})
	if runs, err := tt.Fire(tt.ctx); len(runs) != 0 || err != nil {
		t.Errorf("made up: %s, %v", told(runs), err)
	}
	if v, err := tt.Show(tt.ctx, everything, "s"); err != nil || v.PausedAt != nil || len(v.Next) != 5 || v.Next[1].Sub(v.Next[0]) != 24*time.Hour {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestEditingFiresNothingFromBefore(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	tt.keep("s", "0 6 1 1 *", "UTC", "2020-01-01T00:00:00Z")
	_, created, err := tt.Put(tt.ctx, everything, storage.Schedule{Name: "s", Cron: "0 7 1 1 *", Tenant: "acme", Kind: "test", Payload: payload("ok", "s"), Overlap: true}, "bob")
	if created || err != nil {
		t.Fatal(created, err)
	}
	if runs, err := tt.Fire(tt.ctx); len(runs) != 0 || err != nil {
		t.Errorf("fired %s, %v", told(runs), err)
	}
	v, err := tt.Show(tt.ctx, everything, "s")
	if err != nil || v.Cron != "0 7 1 1 *" || v.ChangedBy != "bob" || v.Zone != "UTC" || v.Missed != "once" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestRunByHand(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	tt.keep("s", "0 6 * * *", "UTC", "2031-01-01T00:00:00Z", func(sc *storage.Schedule) {
		sc.Options = jobs.ScheduleOptions{Queue: "slow", Priority: 7, Tags: []string{"nightly"}, MaxAttempts: 9, Timeout: 90 * time.Second}.JSON()
	})
	tt.must(tt.store.PauseSchedule(tt.ctx, everything, "s"))
	for range 2 {
		run, _, err := tt.RunNow(tt.ctx, everything, "s", "ann", "")
		if err != nil || !run.Manual || run.AskedBy != "ann" || run.DecidedAt.IsZero() {
			t.Fatalf("%+v, %v", run, err)
		}
		job := tt.job(*run.JobID)
		if job.Queue != "slow" || job.MaxAttempts != 9 || job.TimeoutSeconds != 90 || job.RequestedBy != "ann" || job.Priority != 7 {
			t.Errorf("job %+v", job)
		}
	}
	page, err := tt.store.ScheduleRuns(tt.ctx, everything, "s", "", 1)
	if err != nil || len(page.Items) != 1 || page.Next == "" || *page.Items[0].JobState != storage.JobQueued {
		t.Errorf("%+v, %v", page, err)
	}
	if page, err = tt.store.ScheduleRuns(tt.ctx, everything, "s", page.Next, 1); err != nil || len(page.Items) != 1 || page.Next != "" {
		t.Errorf("%+v, %v", page, err)
	}
	if _, _, err := tt.RunNow(tt.ctx, storage.Scope{Tenant: "globex"}, "s", "eve", ""); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant: %v", err)
	}
}

// What one schedule cannot do holds up no other, and is said.
func TestSchedulesThatCannotFire(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	tt.keep("good", "0 6 * * *", "UTC", "2020-01-01T00:00:00Z")
	tt.keep("refused", "0 6 * * *", "UTC", "2020-01-01T00:00:00Z")
	tt.keep("broken", "0 6 * * *", "UTC", "2019-01-01T00:00:00Z") // the first to be looked at
	tt.exec("UPDATE fenceline.schedules SET kind = 'nope' WHERE name = 'refused'")
	tt.exec("UPDATE fenceline.schedules SET zone = 'Mars/Olympus' WHERE name = 'broken'")
	at := time.Date(2020, 1, 2, 6, 0, 0, 0, time.UTC)
	tt.SetNow(at)
	runs, err := tt.Fire(tt.ctx)
	if err == nil || !strings.Contains(err.Error(), `schedule "broken": zone: "Mars/Olympus"`) {
		t.Errorf("error %v", err)
	}
	outcome := map[string]string{}
	for _, r := range runs {
		outcome[r.Schedule] = r.Outcome
	}
	if len(runs) != 2 || outcome["good"] != storage.RunDispatched || outcome["refused"] != storage.RunRefused {
		t.Errorf("%v", outcome)
	}
	v, err := tt.Show(tt.ctx, everything, "refused")
	if err != nil || v.LastOutcome == nil || *v.LastOutcome != storage.RunRefused || !strings.Contains(*v.LastReason, "kind") {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err = tt.Show(tt.ctx, everything, "broken"); err != nil || v.Problem == nil || !strings.Contains(*v.Problem, "Mars/Olympus") {
		t.Errorf("%+v, %v", v, err)
	}
	if runs, err := tt.Fire(tt.ctx); len(runs) != 0 || err != nil {
		t.Errorf("at once again: %s, %v", told(runs), err)
	}
}

func TestPutRefuses(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	good := storage.Schedule{Name: "s", Cron: "0 6 * * 1", Zone: "Europe/Berlin", Tenant: "acme", Kind: "test", Payload: payload("ok", "k")}
	for field, change := range map[string]func(*storage.Schedule){
		"name":                 func(sc *storage.Schedule) { sc.Name = "a b" },
		"cron":                 func(sc *storage.Schedule) { sc.Cron = "0 6 * *" },
		"zone":                 func(sc *storage.Schedule) { sc.Zone = "Local" },
		"missed":               func(sc *storage.Schedule) { sc.Missed = "maybe" },
		"kind":                 func(sc *storage.Schedule) { sc.Kind = "nope" },
		"tenant":               func(sc *storage.Schedule) { sc.Tenant = "a b" },
		"payload":              func(sc *storage.Schedule) { sc.Payload = json.RawMessage(`[]`) },
		"params.x":             func(sc *storage.Schedule) { sc.Payload = json.RawMessage(`{"params":{"x":"@lastmonth"}}`) },
		"params.y":             func(sc *storage.Schedule) { sc.Payload = json.RawMessage(`{"params":{"y":"1","y":"2"}}`) },
		"options.colour":       func(sc *storage.Schedule) { sc.Options = json.RawMessage(`{"colour":"red"}`) },
		"options.timeout":      func(sc *storage.Schedule) { sc.Options = json.RawMessage(`{"timeout":"soon"}`) },
		"options.max_attempts": func(sc *storage.Schedule) { sc.Options = json.RawMessage(`{"max_attempts":-1}`) },
		"max_attempts":         func(sc *storage.Schedule) { sc.Options = json.RawMessage(`{"max_attempts":1001}`) },
		"queue":                func(sc *storage.Schedule) { sc.Options = json.RawMessage(`{"queue":"a b"}`) },
		"priority":             func(sc *storage.Schedule) { sc.Options = json.RawMessage(`{"priority":101}`) },
	} {
		sc := good
		change(&sc)
		_, _, err := tt.Put(tt.ctx, everything, sc, "ann")
		var bad *invalid.Error
		if !errors.As(err, &bad) || bad.Problems[0].Field != field || bad.Problems[0].Message == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	if list, err := tt.List(tt.ctx, everything, storage.ScheduleFilter{}); err != nil || len(list.Items) != 0 {
		t.Errorf("kept %+v, %v", list, err)
	}
}

// The whole of it: a schedule of every second fires while schedulers run.
func TestSchedulersRun(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	path := filepath.Join(t.TempDir(), "schedules.yml")
	tt.must(os.WriteFile(path, []byte("schedules:\n  s:\n    cron: \"* * * * * *\"\n    kind: test\n    payload: {handler: ok, key: k}\n"), 0o600))
	ctx, cancel := context.WithCancel(tt.ctx)
	var wg sync.WaitGroup
	for i := range 2 {
		sweep := storage.NewSweep(tt.store, tt.files, storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Hour})
		s := jobs.NewScheduler(jobs.SchedulerConfig{Schedules: tt.Schedules, Store: tt.store, Sweep: sweep, SweepEvery: time.Hour, Log: tt.log,
			File: jobs.NewScheduleFile(path, true, fmt.Sprint("w", i), tt.log)})
		wg.Go(func() {
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	var runs []storage.ScheduleRun
	tt.until("it has fired three times", func() bool {
		page, err := tt.store.ScheduleRuns(tt.ctx, everything, "s", "", 0)
		runs = page.Items
		return err == nil && len(runs) >= 3
	})
	cancel()
	wg.Wait()
	seen := map[time.Time]bool{}
	for _, r := range runs {
		if seen[r.FireAt] || r.JobID == nil || r.DecidedAt.Before(r.FireAt) {
			t.Errorf("%+v", r)
		}
		seen[r.FireAt] = true
	}
}

// Nothing that decides asks this process for the time.
func TestOnlyTheDatabasesClockDecides(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"schedules.go", "schedule_fire.go", "calendar/walk.go", "calendar/wall.go", "calendar/parse.go", "../storage/schedule.go", "../storage/schedule_fire.go", "../storage/schedule_file.go"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, asks := range []string{"time.Now", "time.Since", "time.Until"} {
			if strings.Contains(string(raw), asks) {
				t.Errorf("%s has %s", file, asks)
			}
		}
	}
}
