package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/fenceline/fenceline/storage"
)

// InvoiceRunName is the kind of the jobs that issue the invoices of a source.
const InvoiceRunName = "invoices"

// issueTogether is how many invoices one transaction issues. The series is locked
// that long.
const issueTogether = 50

// unnumbered stands for the number of a document that has none yet, while it is checked.
const unnumbered = "0"

// invoiceRunPayload is version 1 of an invoice run's payload.
type invoiceRunPayload struct {
	Source string      `json:"source"` // the name of its file
	Params ParamValues `json:"params"`
}

// InvoiceRuns issues the invoices of a source, one for each row, and asks for the
// files of each: a job per customer, together in one batch.
//
// A source is a report with a `series:` line and the columns customer, which
// tells customers apart, and document, a JSON object as [invoice.Parse] reads it
// but for its number. Each customer gets one invoice for one set of parameters,
// however often the run is asked for, killed or repeated: the database has the
// triple of series, customer and period once. What the job itself publishes is
// the manifest, a CSV file with what became of each row.
type InvoiceRuns struct {
	reports *Reports
	store   *storage.Store
	// dispatcher asks for the files. It is set when the registry is there.
	dispatcher func() *Dispatcher
}

// NewInvoiceRuns makes invoice runs from the sources among the reports.
// dispatcher is called when a run works, not before.
func NewInvoiceRuns(r *Reports, dispatcher func() *Dispatcher) *InvoiceRuns {
	return &InvoiceRuns{reports: r, store: r.conf.Store, dispatcher: dispatcher}
}

// invoiceRun is one run.
type invoiceRun struct {
	asked
	tenant, period, key string
}

// Kind issues invoices.
func (v *InvoiceRuns) Kind() Kind {
	return Kind{Name: InvoiceRunName, Version: 1, Decode: func(in Payload) (Task, error) {
		var p invoiceRunPayload
		if err := strictJSON(in.Body, &p, "payload"); err != nil {
			return Task{}, err
		}
		a, err := v.reports.ask(p.Source, in.Tenant, p.Params, report.Choice{Formats: []string{"csv"}})
		if err != nil {
			return Task{}, err
		}
		if a.def.Series == "" {
			return Task{}, invalid.New("source", p.Source, "is a report and no source of invoices: a source has a line `series: NAME`")
		}
		r := invoiceRun{asked: a, tenant: in.Tenant, period: period(a)}
		r.key = r.period
		return Task{
			Key: r.key, Title: reportTitle(a.def, p.Params),
			Check:  func(ctx context.Context) error { return v.check(ctx, r) },
			Render: func(ctx context.Context, run *Run) error { return v.render(ctx, run, r) },
		}, nil
	}}
}

// period is the source with what its parameters ask for, as text; the tenant is no
// part of it. Two sources may share a series, and bill the same customer.
func period(a asked) string {
	values := url.Values{}
	for name, v := range a.values {
		if name != a.def.Tenant {
			values.Set(name, v)
		}
	}
	if len(values) == 0 {
		return a.def.Name
	}
	return a.def.Name + "?" + values.Encode()
}

// check refuses a run that cannot begin: a source without the columns, a series
// that there is not.
func (v *InvoiceRuns) check(ctx context.Context, r invoiceRun) error {
	if err := v.reports.check(ctx, r.asked); err != nil {
		return err
	}
	if columns, err := v.reports.describe(ctx, r.asked); err == nil {
		if _, _, err := invoiceColumns(columns); err != nil {
			return err
		}
	}
	_, err := v.store.NumbersOf(ctx, r.tenant, r.def.Series)
	if errors.Is(err, storage.ErrNoSeries) {
		return invalid.New("series", r.def.Series, "is no series of tenant %s: make it with `fenceline series create`", r.tenant)
	}
	return err
}

func invoiceColumns(columns []tabular.Column) (customer, document int, err error) {
	at := func(name string) int {
		return slices.IndexFunc(columns, func(c tabular.Column) bool { return c.Name == name })
	}
	customer, document = at("customer"), at("document")
	refused := new(invalid.Error)
	if customer < 0 {
		refused.Add("customer", "", "is no column of the source: select what tells customers apart AS customer")
	}
	switch {
	case document < 0:
		refused.Add("document", "", "is no column of the source: select the invoice as a JSON object AS document")
	case columns[document].OID != tabular.OIDJSON && columns[document].OID != tabular.OIDJSONB:
		refused.Add("document", columns[document].Type, "must be json or jsonb")
	}
	return customer, document, refused.OrNil()
}

// render reads the source and issues what was not issued before.
func (v *InvoiceRuns) render(ctx context.Context, run *Run, r invoiceRun) error {
	rows, err := v.reports.open(ctx, run, r.asked)
	if err != nil {
		return v.reports.failed(r.asked, err)
	}
	defer rows.Close()
	customer, document, err := invoiceColumns(rows.Columns())
	if err != nil {
		return &permanentError{err}
	}
	batch, err := v.store.EnsureBatch(ctx, storage.Batch{Tenant: r.tenant, Key: r.key, Title: run.job.Title, RequestedBy: run.job.RequestedBy})
	if err != nil {
		return err
	}
	out, err := run.Create(r.def.Filename+".manifest.csv", "csv", "text/csv; charset=utf-8")
	if err != nil {
		return err
	}
	defer out.Close()
	m, err := newManifest(out)
	if err != nil {
		return err
	}
	issue := &issuer{runs: v, run: run, of: r, batch: batch.ID, manifest: m}
	for rows.Next() {
		if err := issue.add(ctx, rows.Values()[customer], rows.Values()[document]); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return v.reports.failed(r.asked, err)
	}
	if err := issue.flush(ctx); err != nil {
		return err
	}
	run.Progress(m.rows)
	if lines := issue.warnings(); len(lines) > 0 {
		run.Warn(lines)
	}
	if err := m.close(); err != nil {
		return err
	}
	return out.Commit(m.rows)
}

// row is a row of the source on its way.
type row struct {
	customer string
	document json.RawMessage
	refused  error
	issued   storage.Issued
}

// issuer gathers rows and issues them together.
type issuer struct {
	runs     *InvoiceRuns
	run      *Run
	of       invoiceRun
	batch    uuid.UUID
	manifest *manifest
	rows     []row
	refused  map[string]int      // rows by reason
	seen     map[string]struct{} // customers with a row that is an invoice
}

// add checks a row before any number is taken.
func (i *issuer) add(ctx context.Context, customer, document []byte) error {
	r := row{customer: string(customer), document: slices.Clone(document)}
	switch {
	case r.customer == "":
		r.refused = invalid.New("customer", "", "is NULL or empty")
	case document == nil:
		r.refused = invalid.New("document", "", "is NULL")
	default:
		var raw json.RawMessage
		if raw, r.refused = withNumber(r.document, unnumbered); r.refused == nil {
			_, r.refused = parseInvoiceRequest(raw)
		}
	}
	if r.refused == nil {
		r.refused = i.again(r.customer)
	}
	if i.rows = append(i.rows, r); len(i.rows) >= issueTogether {
		return i.flush(ctx)
	}
	return nil
}

// again refuses a customer that had a row before in this run: the customer's one
// invoice is of that row, and what this row charges would be lost.
func (i *issuer) again(customer string) error {
	if _, known := i.seen[customer]; known {
		return invalid.New("customer", "", "has a row above: a run issues one invoice per customer; put all lines into one document")
	}
	if i.seen == nil {
		i.seen = map[string]struct{}{}
	}
	i.seen[customer] = struct{}{}
	return nil
}

// withNumber is the document with a number, which its source does not know.
func withNumber(document json.RawMessage, number string) (json.RawMessage, error) {
	fields, err := invoice.Fields(document)
	if err != nil {
		return nil, err
	}
	if number, given := fields["number"]; given {
		return nil, invalid.New("document.number", shown(number), "comes from the series: leave it out")
	}
	fields["number"], _ = json.Marshal(number) // a string always can
	return json.Marshal(fields)
}

// flush issues the gathered rows in one transaction: numbers, documents and jobs
// together or not at all. A newer attempt of this run makes it fail.
func (i *issuer) flush(ctx context.Context) error {
	dispatcher := i.runs.dispatcher()
	err := i.runs.store.Transaction(ctx, func(tx storage.Tx) error {
		for k := range i.rows {
			r := &i.rows[k]
			if r.refused != nil {
				continue
			}
			var err error
			r.issued, err = i.runs.store.IssueInvoice(ctx, tx, storage.Issuing{Tenant: i.of.tenant, Series: i.of.def.Series,
				Customer: r.customer, Period: i.of.period, Document: r.document, Attempt: i.run.attempt.ID})
			if err != nil {
				return err
			}
			_, err = dispatcher.Dispatch(ctx, tx, Request{Kind: "invoice", Tenant: i.of.tenant, Payload: r.issued.Document},
				InBatch(i.batch), IdempotencyKey("issued "+r.issued.ID.String()), RequestedBy(i.run.job.RequestedBy))
			if err != nil {
				return fmt.Errorf("customer %s: %w", r.customer, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range i.rows {
		if err := i.manifest.add(r); err != nil {
			return err
		}
		if r.refused != nil {
			i.warn(r.refused)
		}
	}
	i.rows = i.rows[:0]
	i.run.Progress(i.manifest.rows)
	return nil
}

// mostReasons is how many reasons a run tells apart; the manifest has them all.
const mostReasons = 50

// warn counts a row that is no invoice, by reason.
func (i *issuer) warn(why error) {
	reason := why.Error()
	if _, known := i.refused[reason]; !known && len(i.refused) >= mostReasons {
		reason = "for further reasons, see the manifest"
	}
	if i.refused == nil {
		i.refused = map[string]int{}
	}
	i.refused[reason]++
}

// warnings are lines for people, in order.
func (i *issuer) warnings() []string {
	var lines []string
	for _, reason := range slices.Sorted(maps.Keys(i.refused)) {
		lines = append(lines, fmt.Sprintf("%d × no invoice was issued: %s", i.refused[reason], reason))
	}
	return lines
}

// IssueInvoice gives one document the next number of its series and asks for its
// files, in one transaction: a document that is refused takes no number. With a
// customer and a period that had theirs already it answers that one, and its job.
// The transaction is the caller's tx, or one of its own when tx is nil.
func IssueInvoice(ctx context.Context, tx storage.Tx, store *storage.Store, d *Dispatcher, n storage.Issuing, options ...Option) (storage.Issued, storage.Job, error) {
	refused := new(invalid.Error)
	if n.Series == "" {
		refused.Add("series", "", "is needed: name the series that gives the number")
	}
	if (n.Customer == "") != (n.Period == "") {
		refused.Add("customer", n.Customer, "and period belong together: give both or none")
	}
	raw, err := withNumber(n.Document, unnumbered)
	if err == nil {
		_, err = parseInvoiceRequest(raw)
	}
	if err := invalid.Join(refused.OrNil(), err); err != nil {
		return storage.Issued{}, storage.Job{}, err
	}
	var issued storage.Issued
	var receipt Receipt
	err = d.in(ctx, tx, func(tx storage.Tx) (err error) {
		if issued, err = store.IssueInvoice(ctx, tx, n); err != nil {
			return err
		}
		receipt, err = d.Dispatch(ctx, tx, Request{Kind: "invoice", Tenant: n.Tenant, Payload: issued.Document},
			append(options, IdempotencyKey("issued "+issued.ID.String()))...)
		return err
	})
	return issued, receipt.Job, err
}
