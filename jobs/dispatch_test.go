package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/storage"
)

func realRegistry(w *world) *jobs.Registry {
	w.t.Helper()
	reports := w.reports(fstest.MapFS{"sales.sql": {Data: []byte("-- title: Sales\n-- tenant: shared\n-- param: from date required\n-- param: n integer\nSELECT :from AS d, :n AS n ORDER BY 1")}})
	r, err := jobs.NewRegistry(reports.Kind(), invoiceKind(w.t))
	w.must(err)
	return r
}

func invoiceKind(t testing.TB) jobs.Kind {
	t.Helper()
	renderers, err := jobs.NewInvoiceRenderers(invoice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return jobs.InvoiceKind(renderers)
}

// reports are those of a folder, read from the world's own database.
func (w *world) reports(folder fstest.MapFS) *jobs.Reports {
	w.t.Helper()
	reports, err := jobs.NewReports(jobs.ReportConfig{Store: w.store, Catalog: report.NewCatalog(folder)})
	w.must(err)
	return reports
}

func TestDispatchRefusesBadRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	d := jobs.NewDispatcher(w.store, realRegistry(w))
	good := `{"report":"sales","params":{"from":"2026-01-01"}}`
	for _, c := range []struct {
		name, kind, payload string
		options             []jobs.Option
		tenant, field, says string
	}{
		{name: "an unknown kind", kind: "reprot", payload: good, field: "kind", says: "invoice, report"},
		{name: "no JSON", kind: "report", payload: "{", field: "payload", says: "JSON object"},
		{name: "no object", kind: "report", payload: "null", field: "payload", says: "JSON object"},
		{name: "two values", kind: "report", payload: good + good, field: "payload", says: "more than one"},
		{name: "an unknown field", kind: "report", payload: `{"report":"sales","parms":{}}`, field: "payload.parms", says: "not a known field"},
		{name: "a format twice over", kind: "report", payload: `{"report":"sales","params":{"from":"2026-01-01"},"format":"csv","formats":["xlsx"]}`, field: "format", says: "together"},
		{name: "a preset that is none", kind: "report", payload: `{"report":"sales","params":{"from":"2026-01-01"},"preset":"excel"}`, field: "preset", says: "spreadsheet"},
		{name: "a zone that is none", kind: "report", payload: `{"report":"sales","params":{"from":"2026-01-01"},"zone":"Europe/Belin"}`, field: "zone", says: "Europe/Berlin"},
		{name: "an object as a parameter", kind: "report", payload: `{"report":"sales","params":{"from":{"a":1}}}`, field: "params.from", says: "object"},
		{name: "a wrong type", kind: "report", payload: `{"report":5}`, field: "payload.report", says: "string"},
		{name: "an unknown report", kind: "report", payload: `{"report":"sale"}`, field: "report", says: "sales"},
		{name: "a missing parameter", kind: "report", payload: `{"report":"sales"}`, field: "params.from", says: "required"},
		{name: "an unknown parameter", kind: "report", payload: `{"report":"sales","params":{"from":"2026-01-01","form":"x"}}`, field: "params.form", says: "from"},
		{name: "a date that is none", kind: "report", payload: `{"report":"sales","params":{"from":"2026-02-30"}}`, field: "params.from", says: "date"},
		{name: "an unknown format", kind: "report", payload: `{"report":"sales","params":{"from":"2026-01-01"},"format":"doc"}`, field: "formats[0]", says: "csv"},
		{name: "an invoice without anything", kind: "invoice", payload: `{}`, field: "number", says: "missing"},
		{name: "a tenant with a path", kind: "report", payload: good, tenant: "../x", field: "tenant", says: "letters"},
		{name: "a queue with braces", kind: "report", payload: good, options: []jobs.Option{jobs.Queue("{x}")}, field: "queue", says: "letters"},
		{name: "no attempts", kind: "report", payload: good, options: []jobs.Option{jobs.MaxAttempts(0)}, field: "max_attempts", says: "1 to 1000"},
		{name: "no time", kind: "report", payload: good, options: []jobs.Option{jobs.Timeout(0)}, field: "timeout", says: "second"},
		{name: "a delay into the past", kind: "report", payload: good, options: []jobs.Option{jobs.Delay(-time.Second)}, field: "delay", says: "zero"},
		{name: "a NUL in the payload", kind: "report", payload: `{"report":"sales","params":{"from":"2026-01-01\u0000"}}`, field: "payload", says: "U+0000"},
		{name: "a parameter twice", kind: "report", payload: `{"report":"sales","params":{"from":"2026-01-01","from":"2026-01-02"}}`, field: "params.from", says: "twice"},
		{name: "a field of a line twice", kind: "invoice", payload: `{"lines":[{},{"quantity":"1","quantity":"2"}]}`, field: "lines[1].quantity", says: "twice"},
		{name: "half a surrogate pair", kind: "report", payload: `{"report":"sales","params":{"from":"2026-01-01\ud800"}}`, field: "payload", says: "surrogate"},
		{name: "bytes that are no text", kind: "report", payload: "{\"report\":\"sal\xffes\"}", field: "payload", says: "UTF-8"},
		{name: "a backslash and a u0000 that is text", kind: "report", payload: `{"report":"sales","params":{"from":"a\\u0000b"}}`, field: "params.from", says: "date"},
		{name: "a replacement character that was written", kind: "report", payload: `{"report":"sales","params":{"from":"a\uFFFD�"}}`, field: "params.from", says: "date"},
		{name: "a long key", kind: "report", payload: good, options: []jobs.Option{jobs.IdempotencyKey(strings.Repeat("x", 300))}, field: "idempotency_key", says: "255"},
		{name: "a huge payload", kind: "report", payload: `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, field: "payload", says: "bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := d.Dispatch(w.ctx, nil, jobs.Request{Kind: c.kind, Tenant: c.tenant, Payload: json.RawMessage(c.payload)}, c.options...)
			var bad *invalid.Error
			if !errors.As(err, &bad) {
				t.Fatalf("got %v", err)
			}
			for _, p := range bad.Problems {
				if p.Field == c.field && strings.Contains(p.String(), c.says) {
					return
				}
			}
			t.Errorf("no problem of %s that says %q in: %v", c.field, c.says, err)
		})
	}
	if page, err := w.store.Jobs(w.ctx, everything, storage.JobFilter{}); err != nil || len(page.Items) != 0 {
		t.Errorf("%d jobs were made of bad requests, %v", len(page.Items), err)
	}
}

func TestTheSameRequestInOtherWordsIsTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	d := jobs.NewDispatcher(w.store, realRegistry(w))
	send := func(payload, tenant string) (jobs.Receipt, error) {
		return d.Dispatch(w.ctx, nil, jobs.Request{Kind: "report", Tenant: tenant, Payload: json.RawMessage(payload)}, jobs.IdempotencyKey("k"))
	}
	first, err := send(`{"report":"sales","params":{"from":"2026-01-01","n":"7"}}`, "")
	w.must(err)
	again, err := send(`{ "params": {"n":"7", "from":"2026-01-01"}, "report":"sales" }`, "")
	w.must(err)
	if first.Reused || !again.Reused || again.Job.ID != first.Job.ID {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if _, err := send(`{"report":"sales","params":{"from":"2026-01-02"}}`, ""); !errors.Is(err, storage.ErrKeyReused) {
		t.Errorf("another body: %v", err)
	}
	other, err := send(`{"report":"sales","params":{"from":"2026-01-02"}}`, "globex")
	if err != nil || other.Reused {
		t.Errorf("another tenant: %+v, %v", other, err)
	}
}

func TestReportsAndInvoicesEndToEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.registry = realRegistry(w)
	w.dispatcher = jobs.NewDispatcher(w.store, w.registry)
	w.worker()
	r, err := w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "report", Payload: json.RawMessage(`{"report":"sales","params":{"from":"2026-01-01"}}`)})
	w.must(err)
	w.ends(r.Job, storage.JobDone)
	if got := w.current(r.Job); got != "\"d\",\"n\"\n2026-01-01,\n" {
		t.Errorf("the report holds %q", got)
	}
	r, err = w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "invoice", Payload: invoice.Example()})
	w.must(err)
	w.ends(r.Job, storage.JobDone)
	if got := w.current(r.Job); !strings.HasPrefix(got, "%PDF-1.7") {
		t.Errorf("the invoice begins with %.20q", got)
	}
}

func TestAReportThatFailsKeepsThePublishedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	folder := fstest.MapFS{"r.sql": {Data: []byte("-- title: R\nSELECT 1 AS a ORDER BY 1")}}
	var err error
	w.registry, err = jobs.NewRegistry(w.reports(folder).Kind())
	w.must(err)
	w.dispatcher = jobs.NewDispatcher(w.store, w.registry)
	w.worker()
	req := jobs.Request{Kind: "report", Payload: json.RawMessage(`{"report":"r"}`)}
	r, err := w.dispatcher.Dispatch(w.ctx, nil, req)
	w.must(err)
	w.ends(r.Job, storage.JobDone)
	w.exec("CREATE VIEW v AS SELECT 1 / (n - 1) AS a FROM generate_series(1, 1) n")
	folder["r.sql"] = &fstest.MapFile{Data: []byte("-- title: R\nSELECT a FROM v ORDER BY 1"), ModTime: time.Now()}
	r, err = w.dispatcher.Dispatch(w.ctx, nil, req, jobs.MaxAttempts(1))
	w.must(err)
	failed := w.ends(r.Job, storage.JobFailed)
	if !strings.Contains(deref(failed.Error), "division by zero") {
		t.Errorf("error %q", deref(failed.Error))
	}
	if got := w.current(r.Job); got != "\"a\"\n1\n" {
		t.Errorf("the published file holds %q", got)
	}
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	k := invoiceKind(t)
	for name, kinds := range map[string][]jobs.Kind{"twice": {k, k}, "no name": {{Version: 1, Decode: k.Decode}}, "no version": {{Name: "x", Decode: k.Decode}}, "no decoder": {{Name: "x", Version: 1}}} {
		if _, err := jobs.NewRegistry(kinds...); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// An older worker must not run what a newer Fenceline wrote, and must not use the job up either.
func TestANewerPayloadWaitsForANewerWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.handle("ok", writes("x"))
	w.does("ok", func(context.Context, *jobs.Work, plainPayload) (any, error) { return nil, nil })
	list := []storage.Job{w.dispatch("ok", "sales"), w.ask1("ok")}
	w.exec("UPDATE fenceline.jobs SET payload_version = 2")
	w.worker()
	for _, job := range list {
		var got storage.Job
		w.until("the reason is shown", func() bool { got = w.job(job.ID); return got.Error != nil })
		if !strings.Contains(*got.Error, "payload version 2") || got.State != storage.JobQueued || got.Failures != 0 {
			t.Errorf("it is %s with %d failures: %s", got.State, got.Failures, *got.Error)
		}
	}
	w.exec("UPDATE fenceline.jobs SET payload_version = 1, due_at = clock_timestamp(), ring_at = clock_timestamp()")
	for _, job := range list {
		w.ends(job, storage.JobDone)
	}
}
