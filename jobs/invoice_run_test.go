package jobs_test

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/storage"
)

// monthly is a source of invoices over the table customers.
const monthly = `-- title: Monthly invoices
-- series: s
-- param: month text required

SELECT id::text AS customer, document FROM public.customers WHERE :month <> '' ORDER BY id`

// billing is a world with a source of invoices for so many customers.
func billing(t testing.TB, customers int) *world {
	t.Helper()
	return billingAt(newWorld(t, redistest.Shared(t)), customers)
}

func billingAt(w *world, customers int) *world {
	w.t.Helper()
	w.exec("CREATE TABLE public.customers (id int PRIMARY KEY, document jsonb)")
	w.exec("INSERT INTO public.customers SELECT i, $1::jsonb - 'number' FROM generate_series(1, $2) i", string(invoice.Example()), customers)
	w.must(w.store.CreateSeries(w.ctx, storage.Series{Tenant: jobs.DefaultTenant, Name: "s", Prefix: "INV-", Digits: 4, First: 1}))
	reports, err := jobs.NewReports(jobs.ReportConfig{Store: w.store, Catalog: report.NewCatalog(fstest.MapFS{
		"monthly.sql": {Data: []byte(monthly)}, "plain.sql": {Data: []byte("SELECT 1 AS a ORDER BY 1")},
		"other.sql": {Data: []byte("-- series: none\nSELECT '1' AS customer, '{}'::json AS document ORDER BY 1")},
		"loose.sql": {Data: []byte("-- series: s\nSELECT 1 AS a ORDER BY 1")},
	})})
	w.must(err)
	w.registry, err = jobs.NewRegistry(jobs.NewInvoiceRuns(reports, func() *jobs.Dispatcher { return w.dispatcher }).Kind(), invoiceKind(w.t), jobs.BatchZIPKind(w.store))
	w.must(err)
	w.dispatcher = jobs.NewDispatcher(w.store, w.registry)
	return w
}

func (w *world) ofKind(kind, payload string) storage.Job {
	w.t.Helper()
	r, err := w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: kind, Payload: json.RawMessage(payload)})
	w.must(err)
	return r.Job
}

func (w *world) onlyBatch() (storage.Batch, storage.BatchCounts) {
	w.t.Helper()
	list, err := w.store.Batches(w.ctx, everything, uuid.Nil, 10)
	w.must(err)
	if len(list) != 1 {
		w.t.Fatalf("%d batches", len(list))
	}
	c, err := w.store.CountBatch(w.ctx, list[0].ID)
	w.must(err)
	return list[0], c
}

// outcomes are the rows of a manifest by what became of them.
func outcomes(t *testing.T, manifest string) map[string]int {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(manifest)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, r := range records[1:] {
		n[r[3]]++
	}
	return n
}

// The run is asked for twice at once, and once more later: every customer has one
// invoice, and the numbers have no gap.
func TestEveryCustomerHasOneInvoice(t *testing.T) {
	t.Parallel()
	const customers = 120
	w := billing(t, customers)
	w.leaser = jobs.AlwaysLeaser{} // nothing but the database keeps the two runs apart
	w.worker()
	w.worker()
	first, second := w.ofKind("invoices", `{"source":"monthly","params":{"month":"2026-10"}}`), w.ofKind("invoices", `{"source":"monthly","params":{"month":"2026-10"}}`)
	for _, job := range []storage.Job{first, second} {
		w.until("the run has ended", func() bool { return w.job(job.ID).State.Ended() })
		if s := w.job(job.ID); s.State == storage.JobFailed {
			t.Fatal(deref(s.Error))
		}
	}
	w.until("all invoices are rendered", func() bool { _, c := w.onlyBatch(); return c.Ended() })
	_, c := w.onlyBatch()
	n, err := w.store.NumbersOf(w.ctx, jobs.DefaultTenant, "s")
	w.must(err)
	if c.Total != customers || c.States[storage.JobDone] != customers || n.Used != customers || len(n.Missing) != 0 {
		t.Errorf("jobs %+v, numbers %+v", c, n)
	}
	third := w.ends(w.ofKind("invoices", `{"source":"monthly","params":{"month":"2026-10"}}`), storage.JobDone)
	if got := outcomes(t, w.current(third)); got["issued before"] != customers || len(got) != 1 {
		t.Errorf("the third run says %v", got)
	}
	// Another month is another invoice.
	w.ends(w.ofKind("invoices", `{"source":"monthly","params":{"month":"2026-11"}}`), storage.JobDone)
	if n, err = w.store.NumbersOf(w.ctx, jobs.DefaultTenant, "s"); err != nil || n.Used != 2*customers {
		t.Errorf("%+v, %v", n, err)
	}
}

// A run dies half-way; the next attempt goes on where it was.
func TestARunThatWasKilledGoesOn(t *testing.T) {
	t.Parallel()
	w := billing(t, 130)
	w.exec("CREATE FUNCTION public.stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n = 101 AND NOT EXISTS (SELECT FROM public.customers WHERE id = 0) THEN RAISE 'the power failed'; END IF; RETURN NEW; END $$")
	w.exec("CREATE TRIGGER stop BEFORE INSERT ON fenceline.invoices FOR EACH ROW EXECUTE FUNCTION public.stop()")
	w.worker()
	job := w.ofKind("invoices", `{"source":"monthly","params":{"month":"2026-10"}}`)
	w.until("the first attempt has failed", func() bool { return w.job(job.ID).Failures > 0 })
	n, err := w.store.NumbersOf(w.ctx, jobs.DefaultTenant, "s")
	if err != nil || n.Used != 100 {
		t.Errorf("after half of it: %+v, %v", n, err)
	}
	w.exec("INSERT INTO public.customers SELECT 0, document FROM public.customers LIMIT 1") // the power is back
	w.due(job)
	done := w.ends(job, storage.JobDone)
	if got := outcomes(t, w.current(done)); got["issued before"] != 100 || got["issued"] != 31 {
		t.Errorf("the manifest says %v", got)
	}
	if n, err = w.store.NumbersOf(w.ctx, jobs.DefaultTenant, "s"); err != nil || n.Used != 131 || n.Next != 132 {
		t.Errorf("%+v, %v", n, err)
	}
}

// A row that is no invoice takes no number and is told.
func TestRowsThatAreNoInvoice(t *testing.T) {
	t.Parallel()
	w := billing(t, 3)
	w.exec(`UPDATE public.customers SET document = document - 'currency' WHERE id = 2`)
	w.exec(`INSERT INTO public.customers VALUES (4, NULL), (5, '{"number": "1"}')`)
	w.worker()
	done := w.ends(w.ofKind("invoices", `{"source":"monthly","params":{"month":"2026-10"}}`), storage.JobDone)
	if got := outcomes(t, w.current(done)); got["issued"] != 2 || got["refused"] != 3 {
		t.Errorf("the manifest says %v", got)
	}
	n, err := w.store.NumbersOf(w.ctx, jobs.DefaultTenant, "s")
	if err != nil || n.Used != 2 || n.Next != 3 {
		t.Errorf("%+v, %v", n, err)
	}
	attempt, err := w.store.Attempt(w.ctx, *done.AttemptID)
	w.must(err)
	if text := string(attempt.Warnings); !strings.Contains(text, "currency") || !strings.Contains(text, "is NULL") || !strings.Contains(text, "comes from the series") {
		t.Errorf("warnings %s", text)
	}
}

// A customer has one invoice in a run: what a second row charges is refused and
// told, not lost. A first row that was refused stands in nobody's way.
func TestACustomerWithTwoRows(t *testing.T) {
	t.Parallel()
	w := billing(t, 120) // more than are issued together
	w.exec(`ALTER TABLE public.customers DROP CONSTRAINT customers_pkey`)
	w.exec(`INSERT INTO public.customers SELECT 1, document FROM public.customers WHERE id IN (1, 2)`)
	w.exec(`INSERT INTO public.customers SELECT 110, document FROM public.customers WHERE id = 110`)
	w.exec(`INSERT INTO public.customers VALUES (0, NULL)`)
	w.exec(`INSERT INTO public.customers SELECT 0, document FROM public.customers WHERE id = 2`)
	w.worker()
	run := func(want map[string]int) {
		t.Helper()
		done := w.ends(w.ofKind("invoices", `{"source":"monthly","params":{"month":"2026-10"}}`), storage.JobDone)
		if got := outcomes(t, w.current(done)); !maps.Equal(got, want) {
			t.Errorf("the manifest says %v, want %v", got, want)
		}
		attempt, err := w.store.Attempt(w.ctx, *done.AttemptID)
		w.must(err)
		if text := string(attempt.Warnings); !strings.Contains(text, "3 × no invoice was issued: customer: has a row above") {
			t.Errorf("warnings %s", text)
		}
	}
	run(map[string]int{"issued": 121, "refused": 4})
	run(map[string]int{"issued before": 121, "refused": 4})
}

// Equal failures of a batch are one reason, whatever the numbers of the invoices.
func TestFailuresOfABatchByReason(t *testing.T) {
	t.Parallel()
	w := billing(t, 3)
	w.exec(`UPDATE public.customers SET document = document || '{"strict": true, "notes": "𓀀"}'`)
	w.worker()
	w.ends(w.ofKind("invoices", `{"source":"monthly","params":{"month":"2026-10"}}`), storage.JobDone)
	w.until("all jobs have ended", func() bool { _, c := w.onlyBatch(); return c.Ended() })
	if _, c := w.onlyBatch(); len(c.Failures) != 1 || c.Failures[0].Count != 3 {
		t.Errorf("failures %+v", c.Failures)
	}
}

func TestRunsThatCannotBegin(t *testing.T) {
	t.Parallel()
	w := billing(t, 1)
	for payload, says := range map[string]string{
		`{"source":"plain"}`: "no source of invoices", `{"source":"other"}`: "is no series", `{"source":"loose"}`: "is no column of the source",
		`{"source":"monthly"}`: "params.month", `{"source":"nope"}`: "is not a report",
	} {
		_, err := w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "invoices", Payload: json.RawMessage(payload)})
		if !errors.As(err, new(*invalid.Error)) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

// The ZIP holds what the jobs of the batch have published, and nothing less.
func TestZIPOfABatch(t *testing.T) {
	t.Parallel()
	w := billing(t, 12)
	stop := w.worker()
	w.ends(w.ofKind("invoices", `{"source":"monthly","params":{"month":"2026-10"}}`), storage.JobDone)
	w.until("all invoices are rendered", func() bool { _, c := w.onlyBatch(); return c.Ended() })
	b, _ := w.onlyBatch()
	packed := w.current(w.ends(w.ofKind("batch.zip", `{"batch":"`+b.ID.String()+`"}`), storage.JobDone))
	r, err := zip.NewReader(strings.NewReader(packed), int64(len(packed)))
	w.must(err)
	want, err := w.store.BatchFiles(w.ctx, b.ID, uuid.Nil, 100)
	w.must(err)
	var names []string
	for _, e := range r.File {
		names = append(names, e.Name)
	}
	if len(want) != 12 || len(names) != 13 || !slices.Contains(names, "manifest.csv") {
		t.Fatalf("%d files, entries %q", len(want), names)
	}
	for i, f := range want {
		attempt, err := w.store.Attempt(w.ctx, f.Attempt)
		w.must(err)
		entry, err := r.File[i].Open()
		w.must(err)
		got, err := io.ReadAll(entry)
		w.must(err)
		if !bytes.Equal(got, []byte(w.content(attempt, f.File))) || r.File[i].Name != f.Name {
			t.Errorf("entry %s is not the file %s", r.File[i].Name, f.Name)
		}
	}
	// A batch that lacks a document is not packed.
	stop()
	_, err = w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "invoice", Payload: invoice.Example()}, jobs.InBatch(b.ID))
	w.must(err)
	_, err = w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "batch.zip", Payload: json.RawMessage(`{"batch":"` + b.ID.String() + `"}`)})
	if !errors.As(err, new(*invalid.Error)) || !strings.Contains(err.Error(), "1 of 13 jobs") {
		t.Errorf("an incomplete batch: %v", err)
	}
	_, err = w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "batch.zip", Tenant: "globex", Payload: json.RawMessage(`{"batch":"` + b.ID.String() + `"}`)})
	if !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant packs it: %v", err)
	}
}

// A document that is issued by itself: number and job together, or nothing.
func TestIssueOneInvoice(t *testing.T) {
	t.Parallel()
	w := billing(t, 0)
	var fields map[string]any
	w.must(json.Unmarshal(invoice.Example(), &fields))
	delete(fields, "number")
	good, err := json.Marshal(fields)
	w.must(err)
	delete(fields, "currency")
	bad, err := json.Marshal(fields)
	w.must(err)
	issue := func(n storage.Issuing) (storage.Issued, storage.Job, error) {
		n.Tenant = jobs.DefaultTenant
		return jobs.IssueInvoice(w.ctx, nil, w.store, w.dispatcher, n)
	}
	for name, n := range map[string]storage.Issuing{"a bad document": {Series: "s", Document: bad}, "no series": {Document: good},
		"half a key": {Series: "s", Document: good, Customer: "1"}, "a number of its own": {Series: "s", Document: invoice.Example()},
		"a field twice": {Series: "s", Document: append([]byte(`{"prepaid": "1.00", "prepaid": "2.00",`), good[1:]...)},
		"no JSON":       {Series: "s", Document: good[1:]}} {
		if _, _, err := issue(n); !errors.As(err, new(*invalid.Error)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	first, job, err := issue(storage.Issuing{Series: "s", Document: good, Customer: "1", Period: "2026-10"})
	w.must(err)
	again, same, err := issue(storage.Issuing{Series: "s", Document: good, Customer: "1", Period: "2026-10"})
	if err != nil || first.Number != "INV-0001" || !first.New || again.Number != first.Number || again.New || same.ID != job.ID {
		t.Errorf("first %+v, again %+v, %v", first, again, err)
	}
}

// PDF and e-invoice are one set of files, or none of them.
func TestPDFAndEInvoiceTogether(t *testing.T) {
	t.Parallel()
	w := billing(t, 0)
	w.worker()
	var fields map[string]any
	w.must(json.Unmarshal(invoice.Example(), &fields))
	with := func(name string, value any) json.RawMessage {
		changed := maps.Clone(fields)
		changed[name] = value
		raw, err := json.Marshal(changed)
		w.must(err)
		return raw
	}
	got := w.published(w.ofKind("invoice", string(with("files", []string{"cii", "pdf", "ubl"}))))
	number := fmt.Sprint(fields["number"])
	if alone := w.published(w.ofKind("invoice", string(with("files", nil)))); len(alone) != 1 {
		t.Errorf("null asks for %d files; it is the same as left out", len(alone))
	}
	if len(got) != 3 || !strings.HasPrefix(got[number+".pdf"], "%PDF") || !strings.Contains(got[number+".ubl.xml"], "oasis:names:specification:ubl:schema:xsd:Invoice-2") ||
		!strings.Contains(got[number+".cii.xml"], "CrossIndustryInvoice") {
		t.Errorf("published %d files", len(got))
	}
	fields["files"] = []string{"ubl"}
	for payload, field := range map[string]string{
		string(with("files", []string{"doc"})): "files[0]", string(with("files", "pdf")): "files", string(with("strict", 1)): "strict",
		string(with("issuer", map[string]any{"name": "A", "address": []string{"B"}})): "issuer", // no country, no VAT id: enough for paper only
	} {
		_, err := w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "invoice", Payload: json.RawMessage(payload)})
		var bad *invalid.Error
		if !errors.As(err, &bad) || !strings.HasPrefix(bad.Problems[0].Field, field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A strict document with characters that no font has is refused for good.
func TestStrictInvoices(t *testing.T) {
	t.Parallel()
	w := billing(t, 0)
	w.worker()
	var fields map[string]any
	w.must(json.Unmarshal(invoice.Example(), &fields))
	fields["notes"], fields["strict"] = "𓀀", true
	raw, err := json.Marshal(fields)
	w.must(err)
	if got := w.ends(w.ofKind("invoice", string(raw)), storage.JobFailed); got.Attempts != 1 || !strings.Contains(deref(got.Error), "no font") {
		t.Errorf("%d attempts, %s", got.Attempts, deref(got.Error))
	}
	fields["strict"] = false
	raw, err = json.Marshal(fields)
	w.must(err)
	done := w.ends(w.ofKind("invoice", string(raw)), storage.JobDone)
	attempt, err := w.store.Attempt(w.ctx, *done.AttemptID)
	if err != nil || !strings.Contains(string(attempt.Warnings), "notes") {
		t.Errorf("warnings %s, %v", attempt.Warnings, err)
	}
}
