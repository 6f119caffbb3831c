package web

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"mime/multipart"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/storage"
)

var sheet = regexp.MustCompile(`src="data:image/svg&#43;xml;base64,([^"]+)"`)

func TestInvoicePreview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "acme")
	w.get("/invoices", who).want(t, 200, "Nothing to show yet", "No invoice yet", "No series yet").without(t, `name="tenant"`)
	page := w.get("/invoices?example=1", who).want(t, 200, "2026-0042", "To pay", "Tax 19 % (S) on", "EUR", "Page 1 as it will be printed")
	pictures := sheet.FindAllStringSubmatch(page.body, -1)
	if len(pictures) == 0 {
		t.Fatal("there is no picture of a page")
	}
	for _, p := range pictures {
		if svg := must(base64.StdEncoding.DecodeString(html.UnescapeString(p[1])))(t); !bytes.HasPrefix(svg, []byte("<svg")) {
			t.Errorf("a picture is %.60s", svg)
		}
	}
	if csp := page.Header.Get("Content-Security-Policy"); csp != contentPolicy {
		t.Errorf("the policy of the page is %s", csp)
	}
	broken := strings.Replace(string(invoice.Example()), `"currency": "EUR"`, `"currency": "EURO", "<b>": 1`, 1)
	refused := w.post("/invoices/preview", who, url.Values{"document": {broken}}).want(t, 422, "<code class=\"break\">currency</code>", "“<bdi>EURO</bdi>”", "Nothing was issued", "&#34;EURO&#34;")
	refused.without(t, "<b>&#34;", "<code class=\"break\"><b>")
	w.send("POST", "/invoices/preview", who, strings.NewReader(url.Values{"document": {"{"}}.Encode()),
		"Content-Type", "application/x-www-form-urlencoded", fragmentHeader, "1").want(t, 200, "another look")
	w.post("/invoices/preview", who, url.Values{}).want(t, 422, "is empty")
	boxes := strings.Replace(string(invoice.Example()), "Thank you for your order.", "Thank you \u16A0.", 1)
	w.post("/invoices/preview", who, url.Values{"document": {boxes}}).want(t, 200, "Worth a look before it goes out", "notes")
}

// A document is issued as it stands, or with the next number of a series; one form is one job and one number.
func TestIssueOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "acme")
	form := url.Values{"document": {string(invoice.Example())}, "nonce": {"n1"}, "files": {"pdf", "cii"}}
	first := w.post("/invoices", who, form).want(t, 303).Header.Get("Location")
	if again := w.post("/invoices", who, form).want(t, 303).Header.Get("Location"); again != first+"?reused=1" {
		t.Errorf("sent twice the form leads to %s and %s", first, again)
	}
	w.get(first, who).want(t, 200, "2026-0042", "pdf", "cii")

	if err := w.store.CreateSeries(w.ctx, storage.Series{Tenant: "acme", Name: "web", Prefix: "W-", Digits: 4, First: 1}); err != nil {
		t.Fatal(err)
	}
	form = url.Values{"document": {numberless(t)}, "nonce": {"n2"}, "series": {"acme/web"}, "files": {"pdf"}}
	w.post("/invoices/preview", who, form).want(t, 200, "W-0001", "the next of web (acme): W-0001")
	w.post("/invoices", who, url.Values{"document": {string(invoice.Example())}, "series": {"acme/web"}}).want(t, 422, "comes from the series")
	first = w.post("/invoices", who, form).want(t, 303).Header.Get("Location")
	if again := w.post("/invoices", who, form).want(t, 303).Header.Get("Location"); again != first+"?reused=1" {
		t.Errorf("sent twice the form leads to %s and %s", first, again)
	}
	form.Set("nonce", "n3")
	w.post("/invoices", who, form).want(t, 303)
	w.get("/invoices", who).want(t, 200, "W-0003", "<bdi>Invoice W-0002", "<bdi>Invoice W-0001", "<bdi>Invoice 2026-0042")
	stranger := w.person("Gil", "globex")
	w.post("/invoices", stranger, form).want(t, 422, "no series that this account may use")
	w.post("/invoices", stranger, url.Values{"document": {string(invoice.Example())}, "tenant": {"acme"}}).want(t, 403)
	w.get("/invoices", stranger).want(t, 200).without(t, "W-000", "2026-0042")
	viewer := w.withRole("Vi", "acme", storage.RoleViewer)
	w.get("/invoices", viewer).want(t, 403)
	w.post("/invoices", viewer, form).want(t, 403)
}

func TestUploadADocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	for name, value := range map[string]string{"document": "{}", "tenant": "acme", "nonce": "n"} {
		if err := m.WriteField(name, value); err != nil {
			t.Fatal(err)
		}
	}
	must(must(m.CreateFormFile("file", "a.json"))(t).Write(invoice.Example()))(t)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	sent := body.String()
	w.send("POST", "/invoices/preview", who, strings.NewReader(sent), "Content-Type", m.FormDataContentType()).want(t, 200, "2026-0042", "Nordlicht", `value="acme"`)
	w.send("POST", "/invoices", who, strings.NewReader(sent), "Content-Type", m.FormDataContentType()).want(t, 303)
	large := strings.Replace(sent, "\r\n\r\n{", "\r\n\r\n"+strings.Repeat("x", maxInvoiceForm), 1)
	w.send("POST", "/invoices", who, strings.NewReader(large), "Content-Type", m.FormDataContentType()).want(t, 413)
}

func TestSeriesPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "acme")
	if err := w.store.CreateSeries(w.ctx, storage.Series{Tenant: "acme", Name: "web 2026", Prefix: "W-", Digits: 3, First: 5}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		form := url.Values{"document": {numberless(t)}, "nonce": {fmt.Sprint(i)}, "series": {"acme/web 2026"}}
		w.post("/invoices", who, form).want(t, 303)
	}
	if err := w.store.VoidInvoice(w.ctx, principalAll.scope, "W-006", "wrong <customer>"); err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`href="(/invoices/series/[^"]+)"`).FindStringSubmatch(w.get("/invoices", who).want(t, 200).body)
	if link == nil {
		t.Fatal("the page links no series")
	}
	w.get(html.UnescapeString(link[1]), who).want(t, 200, "W-008", "W-006", "wrong &lt;customer&gt;", "<dt>In use</dt><dd>2</dd>", "<dt>Voided</dt><dd>1</dd>", "No number is missing")
	w.get("/invoices/series/none", who).want(t, 404)
	w.get("/invoices/series/web%202026?tenant=acme", w.person("Gil", "globex")).want(t, 403)
	w.get("/invoices/series/web%202026", w.person("Gil2", "globex")).want(t, 404)
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		return tx.Exec("ALTER TABLE fenceline.invoices DISABLE TRIGGER ALL; DELETE FROM fenceline.invoices WHERE n = 7; ALTER TABLE fenceline.invoices ENABLE TRIGGER ALL").Error
	})
	if err != nil {
		t.Fatal(err)
	}
	w.get(html.UnescapeString(link[1]), who).want(t, 200, "<dt>Missing</dt><dd>1</dd>", `<li class="mono">W-007</li>`, "No document has these numbers")
}
