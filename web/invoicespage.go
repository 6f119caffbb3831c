package web

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/storage"
)

const (
	// maxInvoiceForm bounds the form with a document in it, in bytes: twice what a document may have.
	maxInvoiceForm = 3 << 20
	// maxPagesShown is how many pages a preview draws.
	maxPagesShown = 5
	// newestInvoices is how many invoices the page lists.
	newestInvoices = 10
)

// invoiceRoutes are the pages of invoices.
func (s *Server) invoiceRoutes() []route {
	return []route{
		{"GET", "/invoices", signedIn, storage.VerbRequest, s.invoicesPage},
		{"POST", "/invoices", signedIn, storage.VerbRequest, s.issueForm},
		{"POST", "/invoices/preview", signedIn, storage.VerbRequest, s.invoicePreviewForm},
		{"GET", "/invoices/series/{name}", signedIn, storage.VerbView, s.seriesPage},
	}
}

// invoiceForm is what the form holds.
type invoiceForm struct {
	Tenant, Series, Document, Nonce string
	Files                           []string
	Problems                        []invalid.Problem
}

// invoicesView is the page of invoices.
type invoicesView struct {
	invoiceForm
	Series  []seriesRow
	Kinds   []formOption
	Preview *invoicePreview
	Newest  []exportRow
}

// seriesRow is a series of numbers as the page lists it.
type seriesRow struct {
	storage.Series
	Value  string // in the form
	Chosen bool
}

// Given is how many numbers were given out.
func (r seriesRow) Given() int64 { return r.Next - r.First }

// NextNumber is the number that the next document gets, unless another one comes before.
func (r seriesRow) NextNumber() string { return invoiceNumber(r.Series, r.Next) }

// invoicePreview is a document with its pages as pictures for the page.
type invoicePreview struct {
	jobs.InvoicePreview
	Pictures []template.URL
	Unshown  int
}

// chosen says whether a kind of file is asked for.
func (f invoiceForm) chosen(name string) bool { return slices.Contains(f.Files, name) }

func (s *Server) invoicesPage(w http.ResponseWriter, r *http.Request) error {
	f := invoiceForm{Tenant: jobs.DefaultTenant, Nonce: rand.Text(), Files: []string{"pdf"}}
	if r.URL.Query().Get("example") == "" {
		return s.showInvoices(w, r, http.StatusOK, f, nil)
	}
	f.Document = string(invoice.Example())
	return s.previewInvoice(w, r, f)
}

// invoicePreviewForm shows the form again with the pages that it would make.
func (s *Server) invoicePreviewForm(w http.ResponseWriter, r *http.Request) error {
	f, err := readInvoiceForm(w, r)
	if err != nil {
		return err
	}
	return s.previewInvoice(w, r, f)
}

func (s *Server) previewInvoice(w http.ResponseWriter, r *http.Request, f invoiceForm) error {
	p, err := s.drawInvoice(r, f)
	var bad *invalid.Error
	if errors.As(err, &bad) {
		f.Problems = bad.Problems
		return s.showInvoices(w, r, http.StatusUnprocessableEntity, f, p)
	}
	if err != nil {
		return err
	}
	return s.showInvoices(w, r, http.StatusOK, f, p)
}

// drawInvoice is what the form would make; nil when it is empty.
func (s *Server) drawInvoice(r *http.Request, f invoiceForm) (*invoicePreview, error) {
	if strings.TrimSpace(f.Document) == "" {
		return nil, invalid.New("document", "", "is empty: paste one, choose a file, or begin with the example")
	}
	raw, err := jobs.WithInvoiceFiles([]byte(f.Document), f.Files)
	if err != nil {
		return nil, err
	}
	number := ""
	if f.Series != "" {
		series, err := s.seriesOf(r, f)
		if err != nil {
			return nil, err
		}
		number = invoiceNumber(series, series.Next)
	}
	p, err := s.invoices.Preview(raw, number)
	if err != nil && p.Pages == nil {
		return nil, err
	}
	shown := &invoicePreview{InvoicePreview: p, Unshown: max(len(p.Pages)-maxPagesShown, 0)}
	for _, page := range p.Pages[:len(p.Pages)-shown.Unshown] {
		picture := "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(page)
		shown.Pictures = append(shown.Pictures, template.URL(picture)) //nolint:gosec // base64 of our own drawing
	}
	return shown, err
}

// issueForm asks for the files of a document, which a series may give its number.
func (s *Server) issueForm(w http.ResponseWriter, r *http.Request) error {
	f, err := readInvoiceForm(w, r)
	if err != nil {
		return err
	}
	preview, err := s.drawInvoice(r, f) // also the check of all of it
	var job storage.Job
	reused := false
	if err == nil {
		job, reused, err = s.issue(r, f, preview)
	}
	var bad *invalid.Error
	if errors.As(err, &bad) {
		f.Problems = bad.Problems
		return s.showInvoices(w, r, http.StatusUnprocessableEntity, f, preview)
	}
	if err != nil {
		return err
	}
	to := "/jobs/" + job.ID.String()
	if reused {
		to += "?reused=1"
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// issue makes the job. The same form sent twice is one job and one number: with a
// series, the form itself is the period for which the customer has one invoice.
func (s *Server) issue(r *http.Request, f invoiceForm, p *invoicePreview) (job storage.Job, reused bool, err error) {
	who := of(r).principal
	document, err := jobs.WithInvoiceFiles([]byte(f.Document), f.Files)
	if err != nil {
		return job, false, err
	}
	if f.Series == "" {
		return s.dispatchInvoice(r, f, document)
	}
	series, err := s.seriesOf(r, f)
	if err != nil {
		return job, false, err
	}
	n := storage.Issuing{Tenant: series.Tenant, Series: series.Name, Document: document}
	if f.Nonce != "" {
		n.Customer, n.Period = p.Customer, "form "+f.Nonce
	}
	issued, job, err := jobs.IssueInvoice(r.Context(), nil, s.store, s.dispatcher, n, jobs.RequestedBy(who.name))
	if err != nil {
		return job, false, err
	}
	s.log.Info("invoice issued", "request_id", of(r).id, "number", issued.Number, "new", issued.New, "job", job.ID, "who", who.name)
	return job, !issued.New, s.audit(r, auditInvoiceIssued, jobObject(job), map[string]any{"number": issued.Number, "series": n.Series, "new": issued.New})
}

func (s *Server) dispatchInvoice(r *http.Request, f invoiceForm, document json.RawMessage) (storage.Job, bool, error) {
	who := of(r).principal
	tenant, err := tenantFor(who, f.Tenant)
	if err != nil {
		return storage.Job{}, false, err
	}
	req := jobs.Request{Kind: "invoice", Tenant: tenant, Payload: document}
	receipt, err := s.dispatcher.Dispatch(r.Context(), nil, req,
		jobs.RequestedBy(who.name), jobs.IdempotencyKey(formKey(f.Nonce, req)), jobs.UniqueWhileActive(""))
	if err != nil {
		return storage.Job{}, false, err
	}
	s.log.Info("dispatched", "request_id", of(r).id, "job", receipt.Job.ID, "kind", req.Kind, "reused", receipt.Reused, "who", who.name)
	return receipt.Job, receipt.Reused, s.auditJob(r, auditAsked, receipt)
}

// seriesOf is the series that the form names, as TENANT/NAME, if its sender may use it.
func (s *Server) seriesOf(r *http.Request, f invoiceForm) (storage.Series, error) {
	list, err := s.store.SeriesList(r.Context(), of(r).principal.scope)
	if err != nil {
		return storage.Series{}, err
	}
	i := slices.IndexFunc(list, func(n storage.Series) bool { return seriesValue(n) == f.Series })
	if i < 0 {
		return storage.Series{}, invalid.New("series", f.Series, "is no series that this account may use")
	}
	return list[i], nil
}

func seriesValue(n storage.Series) string { return n.Tenant + "/" + n.Name }

// readInvoiceForm reads the form; a file that was chosen stands for the document.
func readInvoiceForm(w http.ResponseWriter, r *http.Request) (invoiceForm, error) {
	defer limitBody(w, r, maxInvoiceForm)()
	err := r.ParseMultipartForm(maxInvoiceForm) // it also reads the other form
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return invoiceForm{}, err
	}
	if err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return invoiceForm{}, invalid.New("form", "", "cannot be read: send it as multipart/form-data")
	}
	f := invoiceForm{
		Tenant: strings.TrimSpace(r.PostForm.Get("tenant")), Series: r.PostForm.Get("series"),
		Document: r.PostForm.Get("document"), Nonce: r.PostForm.Get("nonce"), Files: r.PostForm["files"],
	}
	file, _, err := r.FormFile("file")
	if err != nil {
		return f, nil // none was chosen
	}
	defer file.Close()
	raw, err := io.ReadAll(file)
	if len(raw) > 0 {
		f.Document = string(raw)
	}
	return f, err
}

func (s *Server) showInvoices(w http.ResponseWriter, r *http.Request, status int, f invoiceForm, p *invoicePreview) error {
	scope := of(r).principal.scope
	v := invoicesView{invoiceForm: f, Preview: p}
	list, err := s.store.SeriesList(r.Context(), scope)
	if err != nil {
		return err
	}
	for _, n := range list {
		v.Series = append(v.Series, seriesRow{n, seriesValue(n), seriesValue(n) == f.Series})
	}
	for _, kind := range [][2]string{{"pdf", "PDF"}, {"ubl", "UBL 2.1 (EN 16931)"}, {"cii", "CII (EN 16931)"}} {
		v.Kinds = append(v.Kinds, formOption{Value: kind[0], Text: kind[1], Chosen: f.chosen(kind[0])})
	}
	page, err := s.store.Exports(r.Context(), scope, storage.ExportFilter{Kind: "invoice", Limit: newestInvoices})
	if err != nil {
		return err
	}
	for _, e := range page.Items {
		v.Newest = append(v.Newest, newExportRow(e))
	}
	if r.Header.Get(fragmentHeader) != "" {
		status = http.StatusOK // the script asks while somebody types: a half document is no mishap
	}
	w.Header().Set("Cache-Control", "no-store") // going back must give a new form
	return s.render(w, r, status, "invoices", v)
}
