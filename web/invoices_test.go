package web

import (
	"encoding/json"
	"testing"

	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/storage"
)

func TestAPIInvoices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.store.CreateSeries(w.ctx, storage.Series{Tenant: "acme", Name: "s", Prefix: "A-", Digits: 3, First: 1}); err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(invoice.Example(), &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "number")
	document := string(must(json.Marshal(fields))(t))
	ours, theirs := w.token("acme"), w.token("globex")
	body := `{"series":"s","customer":"c1","period":"2026-10","document":` + document + `}`
	w.call("/api/v1/invoices", ours, body).want(t, 201, `"number":"A-001"`, `"new":true`, `"kind":"invoice"`)
	w.call("/api/v1/invoices", ours, body).want(t, 200, `"number":"A-001"`, `"new":false`)
	w.call("/api/v1/invoices", theirs, body).want(t, 422, `"field":"series"`)
	w.call("/api/v1/invoices", ours, `{"series":"s","document":`+string(invoice.Example())+`}`).want(t, 422, "comes from the series")
	w.call("/api/v1/invoices", ours, `{"series":"s","document":{}}`).want(t, 422, "currency")
	w.call("/api/v1/invoices", ours, `{"serie":"s"}`).want(t, 422, "customer, document, period, series, tenant")
	w.get("/api/v1/invoices/schema", ours).want(t, 200, `"$schema"`, "due_date")
	w.get("/api/v1/series/s", ours).want(t, 200, `"used":1`, `"missing":[]`)
	w.get("/api/v1/series/s", theirs).want(t, 404)
	w.get("/api/v1/series/s?tenant=acme", theirs).want(t, 403)
}
