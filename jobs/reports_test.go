package jobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/fenceline/fenceline/storage"
)

func folder(files ...string) fstest.MapFS {
	fs := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		fs[files[i]+".sql"] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return fs
}

// runs gives the world these reports and a worker.
func (w *world) runs(c jobs.ReportConfig) {
	w.t.Helper()
	c.Store = w.store
	reports, err := jobs.NewReports(c)
	w.must(err)
	w.registry, err = jobs.NewRegistry(reports.Kind())
	w.must(err)
	w.dispatcher = jobs.NewDispatcher(w.store, w.registry)
	w.worker()
}

func (w *world) request(payload string, options ...jobs.Option) storage.Job {
	w.t.Helper()
	r, err := w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "report", Payload: json.RawMessage(payload)}, options...)
	w.must(err)
	return r.Job
}

// published are the files of a job by name.
func (w *world) published(job storage.Job) map[string]string {
	w.t.Helper()
	done := w.ends(job, storage.JobDone)
	attempt, err := w.store.Attempt(w.ctx, *done.AttemptID)
	w.must(err)
	list, err := w.store.Files(w.ctx, attempt.ID)
	w.must(err)
	all := map[string]string{}
	for _, f := range list {
		all[f.Name] = w.content(attempt, f)
	}
	return all
}

// Several formats are made from one reading and published together or not at all.
func TestSeveralFormatsTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.runs(jobs.ReportConfig{Catalog: report.NewCatalog(folder("r", `-- format: csv, jsonl
-- param: long boolean default false
-- column: zip code "ZIP"

SELECT '02138' AS zip, CASE WHEN :long THEN repeat('x', 40000) ELSE 'short' END AS note ORDER BY 1`))})
	first := w.request(`{"report":"r"}`)
	got := w.published(first)
	if len(got) != 2 || got["r.csv"] != "\"zip\",\"note\"\n02138,short\n" || got["r.jsonl"] != `{"zip":"02138","note":"short"}`+"\n" {
		t.Errorf("published %q", got)
	}
	// XLSX has to cut the text: in strict mode that fails the job, and no file of it shows.
	strict := w.request(`{"report":"r","params":{"long":true},"formats":["csv","xlsx"],"strict":true}`, jobs.MaxAttempts(1))
	failed := w.ends(strict, storage.JobFailed)
	if msg := deref(failed.Error); !strings.Contains(msg, `"note"`) || !strings.Contains(msg, "row 1") {
		t.Errorf("the error is %q", msg)
	}
	if e, err := w.store.Export(w.ctx, everything, strict.ExportID); err != nil || e.AttemptID != nil {
		t.Errorf("something was published: %+v, %v", e.AttemptID, err)
	}
	// Otherwise it is counted and shown.
	lax := w.ends(w.request(`{"report":"r","params":{"long":true},"formats":["csv","xlsx"]}`), storage.JobDone)
	attempt, err := w.store.Attempt(w.ctx, *lax.AttemptID)
	w.must(err)
	var warnings []tabular.Warning
	w.must(json.Unmarshal(attempt.Warnings, &warnings))
	if len(warnings) != 1 || warnings[0].Kind != string(tabular.NoteCut) || warnings[0].Format != "xlsx" || warnings[0].Count != 1 {
		t.Errorf("warnings %s", attempt.Warnings)
	}
}

// The days of a report are those of its zone, case A13: midnight must be midnight.
func TestReportsHaveAZone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.runs(jobs.ReportConfig{Catalog: report.NewCatalog(folder("r", `-- zone: Asia/Bangkok
SELECT date_trunc('day', timestamptz '2026-03-01 20:00+00') AS day, timestamptz '2026-03-01 20:00+00' AS at ORDER BY 1`))})
	if got := w.published(w.request(`{"report":"r"}`))["r.csv"]; got != "\"day\",\"at\"\n2026-03-02T00:00:00+07:00,2026-03-02T03:00:00+07:00\n" {
		t.Errorf("published %q", got)
	}
	if got := w.published(w.request(`{"report":"r","preset":"spreadsheet","locale":"de-DE"}`))["r.csv"]; got != "\ufeff\"day (Asia/Bangkok)\";\"at (Asia/Bangkok)\"\r\n2026-03-02 00:00:00;2026-03-02 03:00:00\r\n" {
		t.Errorf("published %q", got)
	}
	utc := w.request(`{"report":"r","zone":"UTC"}`)
	if got := w.published(utc)["r.csv"]; !strings.Contains(got, "2026-03-01T00:00:00+00:00") {
		t.Errorf("published %q", got)
	}
	if first := w.request(`{"report":"r"}`); first.ExportID == utc.ExportID {
		t.Error("another zone is the same export")
	}
}

// What is wrong with a report is said before a job exists.
func TestReportsAreCheckedBeforeAJobExists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.runs(jobs.ReportConfig{Catalog: report.NewCatalog(folder(
		"twice", "SELECT 1 AS a, 2 AS a ORDER BY 1",
		"gone", "SELECT a,\n  b FROM nowhere ORDER BY 1",
		"kind", "-- column: a money(EUR)\nSELECT 'x'::text AS a ORDER BY 1",
		"stray", "-- column: b \"B\"\nSELECT 1 AS a ORDER BY 1",
		"types", "-- param: n integer required\nSELECT 1 AS a WHERE 'x'::text = :n ORDER BY 1",
		"other", "-- source: mysql\nSELECT 1",
	))})
	for name, says := range map[string]string{
		"twice": `"a" is also the name of columns[0]`, "gone": `gone.sql:2: relation "nowhere" does not exist`, "kind": "kind.sql:1: column a: kind money does not fit",
		"stray": "stray.sql:1: column b: the result has a", "types": "types.sql:2: operator does not exist: text = bigint", "other": `the source "mysql"`, "nope": "is not a report; there are gone, kind",
	} {
		_, err := w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "report", Payload: json.RawMessage(`{"report":"` + name + `","params":{"n":"1"}}`)})
		if name != "types" {
			_, err = w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "report", Payload: json.RawMessage(`{"report":"` + name + `"}`)})
		}
		if !errors.As(err, new(*invalid.Error)) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if page, err := w.store.Jobs(w.ctx, everything, storage.JobFilter{}); err != nil || len(page.Items) != 0 {
		t.Errorf("%d jobs were made, %v", len(page.Items), err)
	}
}

// A tenant gets its own rows, whatever the request says.
func TestATenantSeesItsOwnRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.exec("CREATE TABLE public.t (tenant text, n int)")
	w.exec("INSERT INTO public.t VALUES ('acme', 1), ('globex', 2)")
	w.runs(jobs.ReportConfig{Catalog: report.NewCatalog(folder(
		"own", "-- tenant: who\n-- param: who text required\nSELECT n FROM public.t WHERE tenant = :who ORDER BY 1",
		"all", "SELECT n FROM public.t ORDER BY 1"))})
	send := func(tenant, payload string) (jobs.Receipt, error) {
		return w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "report", Tenant: tenant, Payload: json.RawMessage(payload)})
	}
	r, err := send("globex", `{"report":"own"}`)
	w.must(err)
	if got := w.published(r.Job)["own.csv"]; got != "\"n\"\n2\n" {
		t.Errorf("globex got %q", got)
	}
	for payload, field := range map[string]string{`{"report":"own","params":{"who":"acme"}}`: "params.who", `{"report":"all"}`: "tenant"} {
		_, err := send("globex", payload)
		var bad *invalid.Error
		if !errors.As(err, &bad) || bad.Problems[0].Field != field {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

func TestLimitsOfAReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.runs(jobs.ReportConfig{Catalog: report.NewCatalog(folder(
		"many", "-- max_rows: 10\nSELECT n FROM generate_series(1, 11) n ORDER BY 1",
		"slow", "-- timeout: 100ms\nSELECT pg_sleep(60)::text AS s ORDER BY 1"))})
	for name, says := range map[string]string{"many": "10", "slow": "longer than its limit of 100ms (timeout)"} {
		failed := w.ends(w.request(`{"report":"`+name+`"}`, jobs.MaxAttempts(1)), storage.JobFailed)
		if !strings.Contains(deref(failed.Error), says) {
			t.Errorf("%s: %s", name, deref(failed.Error))
		}
	}
}

// What the same rows would do again is not tried again.
func TestReportsThatFailByTheirRowsFailOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.exec("CREATE FUNCTION public.writes() RETURNS int LANGUAGE sql AS 'CREATE TABLE public.made (); SELECT 1'")
	w.runs(jobs.ReportConfig{Catalog: report.NewCatalog(folder(
		"many", "-- max_rows: 10\nSELECT n FROM generate_series(1, 11) n ORDER BY 1",
		"strict", "-- strict: yes\n-- format: xlsx\nSELECT 12345678901234567890::numeric AS a ORDER BY 1",
		"fits", "-- format: parquet\n-- column: a decimal(1)\nSELECT 0.25::numeric AS a ORDER BY 1",
		"zero", "SELECT 1 / (n - 1) AS a FROM generate_series(1, 2) n ORDER BY 1",
		"writes", "SELECT public.writes() AS a ORDER BY 1"))})
	for name, says := range map[string]string{"many": "max_rows", "strict": "more digits", "fits": "does not fit", "zero": "division by zero", "writes": "read-only"} {
		failed := w.ends(w.request(`{"report":"`+name+`"}`), storage.JobFailed)
		if failed.Failures != 1 || !strings.Contains(deref(failed.Error), says) {
			t.Errorf("%s failed %d times: %s", name, failed.Failures, deref(failed.Error))
		}
	}
}

// Values of parameters come as JSON has them; what is no value names its parameter.
func TestParametersOfAPayload(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"params":{"a":"x","b":12.50,"c":true,"d":["x",1],"e":null}}`: `map[a:x b:12.50 c:true d:["x",1]]`,
		`{"params": null}`: "map[]",
		`{"params":{"a":"\ud83d\ude00\ufffd\\ufffd"}}`: "map[a:😀\ufffd\\ufffd]",
		`{"params":[1]}`:                  `params: "[1]" is no JSON object`,
		`{"params":"a"}`:                  `is no JSON object`,
		`{"params":{"a":{}}}`:             "params.a: ",
		`{"params":{"a":"x\ud800y"}}`:     `params.a: "\"x\\ud800y\"" is no text`,
		`{"params":{"a":"\ufffd\udc00"}}`: "params.a: ",
		"{\"params\":{\"a\":\"x\xff\"}}":  "params.a: ",
	} {
		p, err := jobs.ParseReportPayload(json.RawMessage(payload))
		got := fmt.Sprint(p.Params)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: got %s, want %s", payload, got, want)
		}
		if err != nil && !errors.As(err, new(*invalid.Error)) {
			t.Errorf("%s: %T", payload, err)
		}
	}
}

// A cancelled report stops its query on the server.
func TestACancelledReportStopsReading(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.runs(jobs.ReportConfig{Catalog: report.NewCatalog(folder("r", "SELECT pg_sleep(600)::text AS s ORDER BY 1"))})
	job := w.request(`{"report":"r"}`)
	running := func() (n int) {
		w.ask(&n, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE 'SELECT pg_sleep(600)::text%'")
		return n
	}
	w.until("the query runs", func() bool { return running() == 1 })
	_, err := w.store.CancelJob(w.ctx, everything, job.ID)
	w.must(err)
	w.ends(job, storage.JobCancelled)
	w.until("the query has stopped", func() bool { return running() == 0 })
}

// With a source the rows come from there, by a role that may read and nothing else.
func TestReportsFromAnotherRole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	var role string
	w.ask(&role, "SELECT 'reports_' || oid FROM pg_database WHERE datname = current_database()")
	w.exec("CREATE TABLE public.t (n int)")
	w.exec("INSERT INTO public.t VALUES (7)")
	w.exec("CREATE ROLE " + role + " LOGIN PASSWORD 'reader'")
	w.exec("GRANT SELECT ON public.t TO " + role)
	u, err := url.Parse(w.url)
	w.must(err)
	u.User = url.UserPassword(role, "reader")
	src, err := storage.OpenSource(u.String())
	w.must(err)
	w.runs(jobs.ReportConfig{Source: src, Catalog: report.NewCatalog(folder(
		"r", "SELECT n, current_user AS who FROM public.t ORDER BY 1", "secret", "SELECT * FROM fenceline.api_tokens ORDER BY 1"))})
	if got := w.published(w.request(`{"report":"r"}`))["r.csv"]; got != "\"n\",\"who\"\n7,"+role+"\n" {
		t.Errorf("published %q", got)
	}
	_, err = w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "report", Payload: json.RawMessage(`{"report":"secret"}`)})
	if !errors.As(err, new(*invalid.Error)) || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a report may read what its role may not: %v", err)
	}
}

// counter is a source that is no database.
type counter struct{}

func (counter) Describe(context.Context, report.Request) ([]tabular.Column, error) {
	return []tabular.Column{{Name: "n", OID: tabular.OIDInt8}}, nil
}

func (counter) Open(_ context.Context, r report.Request) (report.Reading, error) {
	return &counted{left: len(r.Values["word"])}, nil
}

type counted struct{ n, left int }

func (c *counted) Columns() []tabular.Column {
	return []tabular.Column{{Name: "n", OID: tabular.OIDInt8}}
}
func (c *counted) Next() bool       { c.n++; c.left--; return c.left >= 0 }
func (c *counted) Values() [][]byte { return [][]byte{fmt.Append(nil, c.n)} }
func (c *counted) Err() error       { return nil }
func (c *counted) Close() error     { return nil }
func (c *counted) AsOf() time.Time  { return time.Now() }

// lines is a format that a program brings along.
func lines() tabular.Format {
	return tabular.Format{Name: "lines", MediaType: "text/plain", New: func(w io.Writer, _ *tabular.Layout, _ *tabular.Notes) (tabular.Encoder, error) {
		return lineEncoder{w}, nil
	}}
}

type lineEncoder struct{ w io.Writer }

func (e lineEncoder) Row(_ int64, values [][]byte) error {
	_, err := e.w.Write(append(bytes.Join(values, []byte("|")), '\n'))
	return err
}
func (lineEncoder) Close() error { return nil }
func (lineEncoder) Abort()       {}

// Another source and another format fit without a change to the engine.
func TestOwnSourcesAndFormats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	formats, err := report.NewFormats(lines())
	w.must(err)
	w.runs(jobs.ReportConfig{Formats: formats, Sources: map[string]report.Source{"counter": counter{}},
		Catalog: report.NewCatalog(folder("r", "-- source: counter\n-- param: word text required\n-- format: lines, csv\n"))})
	got := w.published(w.request(`{"report":"r","params":{"word":"abc"}}`))
	if got["r.lines"] != "1\n2\n3\n" || got["r.csv"] != "\"n\"\n1\n2\n3\n" {
		t.Errorf("published %q", got)
	}
}

func TestCheckAndPreview(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	reports := w.reports(folder(
		"good", "-- title: Good\n-- column: b hidden\n-- column: a \"Number\"\nSELECT n AS a, 1 AS b FROM generate_series(1, 3) n ORDER BY 1",
		"loose", "SELECT 1 AS a", "named", "SELECT 1, 2, 3 ORDER BY 1", "slow", "-- timeout: 100ms\nSELECT pg_sleep(60)::text AS s ORDER BY 1", "broken", "-- titel: x\nSELECT 1 AS a ORDER BY 1", "gone", "SELECT a\nFROM nowhere ORDER BY 1"))
	checked, err := reports.Check(w.ctx, "")
	w.must(err)
	var told []string
	for _, c := range checked {
		line := c.Name
		for _, m := range c.Mistakes {
			line += " " + m.String()
		}
		for _, n := range c.Warnings {
			line += " " + n.Kind
		}
		for _, col := range c.Columns {
			line += fmt.Sprintf(" %s:%s:%s:%s:%t", col.Name, col.Type, col.Kind, col.Label, col.Hidden)
		}
		told = append(told, line)
	}
	want := []string{`broken broken.sql:1: unknown key "titel": `, "gone gone.sql:2: relation \"nowhere\" does not exist",
		"good a:integer:integer:Number:false b:integer:integer:b:true", "loose unordered a:integer:integer:a:false",
		`named named.sql:1: columns[1]: "?column?" is also the name of columns[0]: give each its own with AS named.sql:1: columns[2]: `}
	for i := range want {
		if i >= len(told) || !strings.HasPrefix(told[i], want[i]) {
			t.Errorf("checked %q", told)
			break
		}
	}
	if _, err := reports.Check(w.ctx, "nope"); !errors.Is(err, report.ErrNotFound) {
		t.Errorf("a report that is not there: %v", err)
	}
	if _, err := reports.Preview(w.ctx, jobs.DefaultTenant, "slow", nil, report.Choice{}, 2); err == nil || !strings.Contains(err.Error(), "limit of 100ms") {
		t.Errorf("a preview beyond the report's own time: %v", err)
	}
	page, err := reports.Preview(w.ctx, jobs.DefaultTenant, "good", nil, report.Choice{}, 2)
	w.must(err)
	if !page.More || len(page.Rows) != 2 || len(page.Columns) != 1 || page.Columns[0].Label != "Number" || *page.Rows[1][0] != "2" || page.About == nil || *page.About != 3 {
		t.Errorf("page %+v", page)
	}
}

// psql loads what the data preset wrote into a table of the same types, and
// nothing is different.
func TestPsqlLoadsTheCSV(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	const columns = "id int, note text, n numeric, f float8, b bool, d date, at timestamptz, local timestamp, raw bytea, doc jsonb, u uuid, span interval, zip varchar"
	w.exec("CREATE TABLE public.source (" + columns + ")")
	w.exec("CREATE TABLE public.loaded (" + columns + ")")
	w.exec(`INSERT INTO public.source SELECT i, CASE i % 9 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'a,b' WHEN 3 THEN 'say "hi"' WHEN 4 THEN E'two\r\nlines' WHEN 5 THEN E'\\.'
			WHEN 6 THEN ' padded ' WHEN 7 THEN 'NULL' ELSE '=1+1 日本 🎉' END,
		CASE i % 5 WHEN 0 THEN 'NaN'::numeric WHEN 1 THEN 'Infinity'::numeric WHEN 2 THEN NULL ELSE i * 1.10 END, 'NaN'::float8 * (i % 2) + i / 3.0, i % 2 = 0,
		CASE i % 3 WHEN 0 THEN 'infinity'::date WHEN 1 THEN '0044-03-15 BC' ELSE '2026-01-31' END,
		CASE i % 4 WHEN 0 THEN '-infinity'::timestamptz WHEN 1 THEN '0044-03-15 01:02:03+00 BC' ELSE '2026-10-25 00:30:00.123456+00'::timestamptz + i * interval '1 hour' END,
		'2026-01-31 09:30:00.5', '\x00ff', jsonb_build_object('a b', i, 'c', NULL), md5(i::text)::uuid, make_interval(months => i, secs => i / 7.0), lpad(i::text, 5, '0')
		FROM generate_series(1, 500) i`)
	w.runs(jobs.ReportConfig{Catalog: report.NewCatalog(folder("all", "-- zone: Europe/Berlin\nSELECT * FROM public.source ORDER BY id"))})
	job := w.request(`{"report":"all"}`)
	w.ends(job, storage.JobDone)
	file := filepath.Join(t.TempDir(), "all.csv")
	w.must(os.WriteFile(file, []byte(w.current(job)), 0o600))
	out, err := exec.CommandContext(w.ctx, "psql", w.url, "-qXv", "ON_ERROR_STOP=1", "-c", `\copy public.loaded FROM '`+file+`' WITH (FORMAT csv, HEADER)`).CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	var differ int
	w.ask(&differ, `SELECT count(*) FROM ((TABLE public.source EXCEPT ALL TABLE public.loaded) UNION ALL (TABLE public.loaded EXCEPT ALL TABLE public.source)) d`)
	var rows int
	w.ask(&rows, "SELECT count(*) FROM public.loaded")
	if differ != 0 || rows != 500 {
		t.Errorf("%d rows were loaded, %d are different", rows, differ)
	}
}
