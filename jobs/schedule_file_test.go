package jobs_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

func TestParseScheduleFile(t *testing.T) {
	t.Parallel()
	list, err := jobs.ParseScheduleFile([]byte(`# what comes by the clock
schedules:
  monday:
    cron: 0 6 * * 1
    zone: Europe/Berlin
    report: stock
    params: {from: 2026-01-01, low: true, rate: 1.10, list: [a, "b"], nothing: null}
    formats: [csv, xlsx]
    queue: slow
    tags: &tags [nightly, stock]
    max_attempts: 5
    timeout: 90s
    tenant: 42
  billing:
    cron: "@monthly"
    invoices: monthly
    params: {month: "@last-month"}
    missed: all
    tags: *tags
  tidy:
    cron: "*/10 * * * * *"
    kind: tidy
    payload: {days: 30, deep: {a: [1, 2.50]}}
    overlap: false
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		line                          int
		cron, zone, tenant, kind      string
		payload, options, missed, off string
	}{
		{3, "0 6 * * 1", "Europe/Berlin", "42", "report",
			`{"formats":["csv","xlsx"],"params":{"from":"2026-01-01","list":["a","b"],"low":true,"nothing":null,"rate":1.10},"report":"stock","zone":"Europe/Berlin"}`,
			`{"max_attempts":5,"queue":"slow","tags":["nightly","stock"],"timeout":"90s"}`, "once", ""},
		{14, "@monthly", "", "", "invoices", `{"params":{"month":"@last-month"},"source":"monthly"}`, `{"tags":["nightly","stock"]}`, "all", ""},
		{20, "*/10 * * * * *", "", "", "tidy", `{"days":30,"deep":{"a":[1,2.50]}}`, `{}`, "once", "alone"},
	} {
		got := list[i]
		if got.Line != want.line || got.Cron != want.cron || got.Zone != want.zone || got.Tenant != want.tenant || got.Kind != want.kind || string(got.Payload) != want.payload ||
			string(got.Options) != want.options || got.Missed != want.missed || got.Overlap == (want.off != "") {
			t.Errorf("%+v\npayload %s\noptions %s", got, got.Payload, got.Options)
		}
	}
}

func TestParseScheduleFileRefuses(t *testing.T) {
	t.Parallel()
	for text, wants := range map[string][]string{
		"":                              {"file: is empty"},
		"{}":                            {"file: has no field schedules"},
		"schedules: []":                 {"schedules (line 1): must be a mapping"},
		"shedules: {}":                  {"shedules (line 1)", "is not a known field"},
		"schedules: {}\n---\na: 1":      {"more than one document"},
		"schedules:\n  a:\n    cron: [": {"not valid YAML", "line"},
		"schedules:\n  a: x":            {`schedules.a (line 2): "x" must be a mapping`},
		"schedules:\n  a: {cron: @daily, kind: x}":                       {"not valid YAML", "needs quotes"},
		"schedules:\n  a:\n    cron: */5 * * * *\n    kind: x":           {"not valid YAML", "needs quotes"},
		"schedules:\n  a:\n    crom: 0 6 * * 1\n    kind: x":             {"schedules.a.crom (line 3)", "is not a known field"},
		"schedules:\n  a:\n    kind: x\n    kind: y":                     {"schedules.a.kind (line 4)", "is given twice"},
		"schedules:\n  a: {kind: x}\n  a: {kind: y}":                     {"schedules.a (line 3)", "is given twice"},
		"schedules:\n  a:\n    kind: x\n    payload: {b: 1, b: 2}":       {"schedules.a.payload.b (line 4)", "is given twice"},
		"schedules:\n  a:\n    kind: x\n    payload: {b: 0x1F}":          {"schedules.a.payload.b (line 4)", "put it in quotes"},
		"schedules:\n  a:\n    kind: x\n    payload: {b: .inf}":          {"put it in quotes"},
		"schedules:\n  a:\n    kind: x\n    payload: {b: 007}":           {"put it in quotes"},
		"schedules:\n  a:\n    kind: x\n    payload: {b: !!binary aGk=}": {"has the tag !!binary"},
		"schedules:\n  a:\n    kind: x\n    overlap: 1":                  {"schedules.a.overlap (line 4)", "true or false"},
		"schedules:\n  a:\n    kind: x\n    overlap: perhaps":            {`schedules.a.overlap (line 4): "perhaps" must be true or false`},
		"schedules:\n  a:\n    kind: x\n    cron: [1]":                   {"schedules.a.cron (line 4)", "must be text"},
		"schedules:\n  a:\n    kind: x\n    cron:":                       {"schedules.a.cron (line 4)", "must be text"},
		"schedules:\n  a:\n    cron: 0 6 * * 1":                          {"schedules.a.report (line 2)", "give either report"},
		"schedules:\n  a:\n    report: x\n    kind: y":                   {"give either report"},
		"schedules:\n  a:\n    report: x\n    payload: {}":               {"schedules.a.payload (line 4)", "does not go with"},
		"schedules:\n  a:\n    kind: x\n    formats: [csv]":              {"schedules.a.formats (line 4)", "does not go with"},
		"x: &x {kind: a}\nschedules:\n  a:\n    <<: *x":                  {"is not a known field", "merging"},
		"schedules:\n  a: &a\n    kind: x\n    payload: {b: &b [1, *b]}": {"too deep, with all its aliases"},
		"schedules:\n  a:\n    kind: x\n    payload: {a: &a [x,x,x,x,x,x,x,x], b: &b [*a,*a,*a,*a,*a,*a,*a,*a], c: &c [*b,*b,*b,*b,*b,*b,*b,*b], d: &d [*c,*c,*c,*c,*c,*c,*c,*c], e: &e [*d,*d,*d,*d,*d,*d,*d,*d], f: [*e,*e,*e,*e,*e,*e,*e,*e]}": {"too large or too deep"},
	} {
		_, err := jobs.ParseScheduleFile([]byte(text))
		var bad *invalid.Error
		if !errors.As(err, &bad) {
			t.Errorf("%s\ngave %v", text, err)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(bad.Error(), want) {
				t.Errorf("%s\ngave %v, want %q", text, bad, want)
			}
		}
	}
}

func FuzzParseScheduleFile(f *testing.F) {
	f.Add("schedules:\n  a:\n    cron: 0 6 * * 1\n    kind: x\n    payload: {a: &a [1], b: *a}\n")
	f.Add("schedules: &a {a: *a}")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := jobs.ParseScheduleFile([]byte(text))
		if err != nil && !errors.As(err, new(*invalid.Error)) {
			t.Errorf("%v", err)
		}
		for _, e := range list {
			if err == nil && (!json.Valid(e.Payload) || !json.Valid(e.Options)) {
				t.Errorf("payload %s, options %s", e.Payload, e.Options)
			}
		}
	})
}

const twoSchedules = "schedules:\n  a: {cron: 0 6 * * *, kind: test, payload: {handler: ok, key: a}}\n  b: {cron: 0 7 * * *, kind: test, payload: {handler: ok, key: b}}\n"

func TestSyncChecksEveryEntry(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	if _, err := tt.Sync(tt.ctx, "s.yml", "w", []byte(twoSchedules)); err != nil {
		t.Fatal(err)
	}
	_, err := tt.Sync(tt.ctx, "s.yml", "w", []byte(`schedules:
  a: {cron: 0 6 * * *, kind: test, payload: {handler: ok, key: changed}}
  c:
    cron: 0 25 * * *
    zone: Mars/Olympus
    kind: test
  d:
    cron: 0 6 * * *
    kind: nope
  e:
    cron: 0 6 * * *
    kind: test
    queue: a b
    payload: {key: e}
  f:
    cron: 0 6 * * *
    kind: test
    payload: {key: f, params: {m: "@lastmonth"}}
  "g h": {cron: 0 6 * * *, kind: test}
  h: {cron: 0 6 * * *, kind: test, priority: high}
  i: {cron: 0 6 * * *, kind: test, priority: 99999999999999999999}
  j: {cron: 0 6 * * *, kind: test, timeout: 5}
  k: {cron: 0 6 * * *, kind: test, tags: [1]}
`))
	for _, want := range []string{"s.yml: ", "schedules.c.cron (line 4)", "schedules.c.zone (line 5)", "schedules.d.kind (line 9)", "schedules.e.queue (line 13)", "schedules.f.params.m (line 15)", "schedules.g h.name (line 19)",
		"schedules.h.priority (line 20): must be a number, not a string", `schedules.i.priority (line 21): "99999999999999999999" is no number that fits here`,
		"schedules.j.timeout (line 22): must be a string, not a number", "schedules.k.tags (line 23): must be a string, not a number"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in\n%v", want, err)
		}
	}
	list, err := tt.List(tt.ctx, everything, storage.ScheduleFilter{})
	if err != nil || len(list.Items) != 2 || strings.Contains(string(list.Items[0].Payload), "changed") || list.Items[0].ChangedBy != "s.yml" {
		t.Errorf("%+v, %v", list.Items, err)
	}
	if file, err := tt.store.ScheduleFile(tt.ctx); err != nil || file.Problem == nil || !strings.Contains(*file.Problem, "Mars/Olympus") {
		t.Errorf("%+v, %v", file, err)
	}
	if _, _, err := tt.Put(tt.ctx, everything, storage.Schedule{Name: "a", Cron: "@daily", Kind: "test", Payload: payload("ok", "a")}, "ann"); !errors.Is(err, storage.ErrFromFile) {
		t.Errorf("put: %v", err)
	}
}

// What a scheduler that runs makes of a file that people edit.
func TestTheFileIsFollowed(t *testing.T) {
	t.Parallel()
	tt := newTimetable(t)
	path := filepath.Join(t.TempDir(), "schedules.yml")
	file := jobs.NewScheduleFile(path, true, "w", tt.log)
	look := func(want string) {
		t.Helper()
		file.Follow(tt.ctx, tt.Schedules)
		list, err := tt.List(tt.ctx, everything, storage.ScheduleFilter{})
		tt.must(err)
		var got []string
		for _, s := range list.Items {
			got = append(got, s.Name+" "+s.Cron)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("there are %q, want %q", got, want)
		}
	}
	write := func(text string) {
		t.Helper()
		tt.must(os.WriteFile(path, []byte(text), 0o600))
	}
	problem := func(want string) {
		t.Helper()
		f, err := tt.store.ScheduleFile(tt.ctx)
		tt.must(err)
		if got := deref(f.Problem); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("the problem is %q, want %q", got, want)
		}
	}
	look("") // there is none
	write(twoSchedules)
	look("a 0 6 * * *, b 0 7 * * *")
	write(strings.Replace(twoSchedules, "0 6", "5 6", 1))
	look("a 0 6 * * *, b 0 7 * * *") // it may be half written
	look("a 5 6 * * *, b 0 7 * * *")
	write("schedules:\n  a: {cron: broken")
	look("a 5 6 * * *, b 0 7 * * *")
	look("a 5 6 * * *, b 0 7 * * *")
	problem("not valid YAML")
	tt.must(os.Remove(path))
	look("a 5 6 * * *, b 0 7 * * *")
	tt.keep("c", "0 9 * * *", "UTC", "2031-01-01T00:00:00Z")
	write("schedules:\n  b: {cron: 0 8 * * *, kind: test, payload: {handler: ok, key: b}}\n  c: {cron: 0 8 * * *, kind: test, payload: {handler: ok, key: c}}\n")
	look("a 5 6 * * *, b 0 7 * * *, c 0 9 * * *")
	look("b 0 8 * * *, c 0 9 * * *")
	problem(`["c"]`)
	write("schedules: {}\n")
	look("b 0 8 * * *, c 0 9 * * *")
	look("c 0 9 * * *")
	problem("")
}
