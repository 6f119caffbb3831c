package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// scheduleList is the answer of `schedule list`.
type scheduleList struct {
	Items []jobs.ScheduleView
	File  storage.ScheduleFile
}

func TestScheduleCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.report("stock", "-- title: Stock\n-- param: day date required\nSELECT 1 AS id WHERE :day IS NOT NULL")
	if out := s.ok("schedule", "put", "monday", "stock", "--param", "day=@yesterday", "--cron", "0 6 * * 1", "--zone", "Europe/Berlin", "--queue", "slow", "--missed", "skip", "--without-overlapping"); !strings.Contains(out, "saved schedule monday") || !strings.Contains(out, " 06:00:00 +0") {
		t.Error(out)
	}
	s.ok("schedule", "put", "drill", "--kind", "report", "--payload", `{"report":"stock","params":{"day":"@today"}}`, "--cron", "*/5 * * * * *")
	list := asJSON[scheduleList](s, "schedule", "list")
	if len(list.Items) != 2 || list.Items[1].Name != "monday" || len(list.Items[1].Next) != 1 || list.Items[1].Overlap || list.Items[1].Missed != "skip" {
		t.Errorf("%+v", list)
	}
	if out := s.ok("schedule", "list"); !strings.Contains(out, "monday") || !strings.Contains(out, "NEXT") {
		t.Error(out)
	}
	s.ok("schedule", "pause", "drill")
	if out := s.ok("schedule", "show", "drill"); !strings.Contains(out, "paused") || strings.Contains(out, "next ") {
		t.Error(out)
	}
	s.ok("schedule", "resume", "drill")
	if out := s.ok("schedule", "show", "drill"); strings.Count(out, "\nnext ") != 5 {
		t.Error(out)
	}
	s.ok("schedule", "run", "monday")
	if r := s.run("schedule", "run", "monday"); r.code != exitRefused || !strings.Contains(r.err, "still at work") {
		t.Errorf("%+v", r)
	}
	if out := s.ok("schedule", "history", "monday"); !strings.Contains(out, "dispatched") || !strings.Contains(out, "cli") {
		t.Error(out)
	}
	if r := s.run("schedule", "delete", "monday"); r.code != exitUsage || !strings.Contains(r.err, "--yes") {
		t.Errorf("%+v", r)
	}
	s.ok("schedule", "delete", "monday", "--yes")
	s.ok("schedule", "history", "monday")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "cron", []string{"put", "x", "stock", "--param", "day=@today"}},
		{exitUsage, "params.day", []string{"put", "x", "stock", "--cron", "@daily"}},
		{exitUsage, "takes NAME and REPORT", []string{"put", "x", "--cron", "@daily"}},
		{exitUsage, "--payload instead", []string{"put", "x", "stock", "--kind", "drill", "--cron", "@daily"}},
		{exitUsage, "payload", []string{"put", "x", "--kind", "report", "--payload", "[", "--cron", "@daily"}},
		{exitUsage, "missed", []string{"put", "x", "stock", "--param", "day=@today", "--cron", "@daily", "--missed", "never"}},
		{exitNotFound, "not found", []string{"show", "nope"}},
		{exitNotFound, "not found", []string{"history", "nope"}},
		{exitNotFound, "fenceline: schedule \"nope\": not found", []string{"run", "nope"}},
		{exitNotFound, "not found", []string{"pause", "nope"}},
		{exitNotFound, "not found", []string{"delete", "nope", "--yes"}},
		{exitNotFound, "no such file", []string{"check", "nope.yml"}},
	} {
		if r := s.run(append([]string{"schedule"}, c.args...)...); r.code != c.code || !strings.Contains(r.err, c.says) {
			t.Errorf("%v: exit %d, %s", c.args, r.code, r.err)
		}
	}
}

// A line of crontab and a file are enough.
func TestScheduleRunFromCron(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.report("stock", "-- title: Stock\nSELECT 1 AS id")
	file := filepath.Join(s.dir, "schedules.yml")
	write := func(text string) { s.must(os.WriteFile(file, []byte(text), 0o600)) }
	s.env["SCHEDULES_FILE"] = file
	if r := s.run("schedule", "run"); r.code != exitFailed || !strings.Contains(r.err, "no such file") {
		t.Errorf("without the file: %+v", r)
	}
	write("schedules:\n  yearly:\n    cron: \"@yearly\"\n    report: stock\n")
	if out := s.ok("schedule", "check", file); !strings.Contains(out, "1 schedule, nothing is wrong") {
		t.Error(out)
	}
	if out := s.ok("schedule", "run"); !strings.Contains(out, "nothing was due") {
		t.Error(out)
	}
	s.sql("UPDATE fenceline.schedules SET decided_at = now() - interval '2 years', look_at = now()")
	if out := s.ok("schedule", "run"); !strings.Contains(out, "yearly") || !strings.Contains(out, "1 earlier time has no run of its own") {
		t.Error(out)
	}
	if got := asJSON[struct{ Runs []storage.ScheduleRun }](s, "schedule", "run"); len(got.Runs) != 0 {
		t.Errorf("again: %+v", got)
	}
	if list := asJSON[scheduleList](s, "schedule", "list"); len(list.Items) != 1 || list.Items[0].Source != "file" || *list.Items[0].LastState != storage.JobQueued {
		t.Errorf("%+v", list)
	}
	if r := s.run("schedule", "put", "yearly", "stock", "--cron", "@daily"); r.code != exitRefused || !strings.Contains(r.err, "edit it there") {
		t.Errorf("%+v", r)
	}
	if r := s.run("schedule", "delete", "yearly", "--yes"); r.code != exitRefused {
		t.Errorf("%+v", r)
	}
	write("schedules:\n  yearly:\n    cron: \"@yearly\"\n    report: stok\n")
	if r := s.run("schedule", "check", file); r.code != exitUsage || !strings.Contains(r.err, "schedules.yearly.report (line 4)") {
		t.Errorf("%+v", r)
	}
	if r := s.run("schedule", "run"); r.code != exitUsage || !strings.Contains(r.err, "(line 4)") {
		t.Errorf("%+v", r)
	}
	if out := s.ok("schedule", "list"); !strings.Contains(out, "problem of the file") || !strings.Contains(out, "yearly") {
		t.Error(out)
	}
	write("schedules: {}\n")
	s.sql("UPDATE fenceline.schedules SET kind = 'nope', source = 'edited', decided_at = now() - interval '2 years', look_at = now()",
		"DELETE FROM fenceline.schedule_runs")
	if r := s.run("schedule", "run"); r.code != exitPartly || !strings.Contains(r.out, "refused") || !strings.Contains(r.err, "1 of 1 were refused") {
		t.Errorf("%+v", r)
	}
}
