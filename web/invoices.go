package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/storage"
)

// issuedJSON is an invoice that has its number, with the job of its files.
type issuedJSON struct {
	Number string      `json:"number"`
	New    bool        `json:"new"` // false when the customer and period had one already
	Job    storage.Job `json:"job"`
}

// apiIssue gives a document the next number of a series and asks for its files:
// 201, or 200 when the customer and period had theirs already.
func (s *Server) apiIssue(w http.ResponseWriter, r *http.Request) error {
	raw, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	var n storage.Issuing
	err = invalid.Object(raw, "body", "", map[string]any{"tenant": &n.Tenant, "series": &n.Series, "customer": &n.Customer, "period": &n.Period, "document": (*json.RawMessage)(&n.Document)})
	if err != nil {
		return err
	}
	who := of(r).principal
	if n.Tenant, err = tenantFor(who, n.Tenant); err != nil {
		return err
	}
	n.Tenant = cmp.Or(n.Tenant, jobs.DefaultTenant)
	return s.once(w, r, raw, func(tx storage.Tx) (made, error) {
		issued, job, err := jobs.IssueInvoice(r.Context(), tx, s.store, s.dispatcher, n, jobs.RequestedBy(who.name))
		if errors.Is(err, storage.ErrNoSeries) {
			err = invalid.New("series", n.Series, "is no series of the tenant %s", n.Tenant)
		}
		status := http.StatusCreated
		if !issued.New {
			status = http.StatusOK
		}
		return made{status: status, location: "/api/v1/jobs/" + job.ID.String(), answer: issuedJSON{issued.Number, issued.New, job}, note: func() error {
			s.log.Info("invoice issued", "request_id", of(r).id, "number", issued.Number, "new", issued.New, "job", job.ID, "who", who.name)
			return s.audit(r, auditInvoiceIssued, jobObject(job), map[string]any{"number": issued.Number, "series": n.Series, "new": issued.New})
		}}, err
	})
}

// apiNumbers accounts for every number of a series: ?tenant= for those who see all.
func (s *Server) apiNumbers(w http.ResponseWriter, r *http.Request) error {
	tenant, err := tenantFor(of(r).principal, r.URL.Query().Get("tenant"))
	if err != nil {
		return err
	}
	numbers, err := s.store.NumbersOf(r.Context(), cmp.Or(tenant, jobs.DefaultTenant), r.PathValue("name"))
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, numbers)
}

// apiInvoiceSchema is the JSON Schema of documents.
func (s *Server) apiInvoiceSchema(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/schema+json")
	_, err := w.Write(invoice.Schema())
	return err
}
