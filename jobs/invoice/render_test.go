package invoice

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// object is a JSON object that a test changes before it is parsed.
type object = map[string]any

// simple is a small valid document, in which change may replace or remove (by
// nil) fields of the document.
func simple(tb testing.TB, change object) []byte {
	tb.Helper()
	doc := object{
		"number": "A-1", "issue_date": "2026-01-02", "due_date": "2026-01-16", "currency": "EUR",
		"issuer":   object{"name": "Seller", "address": []any{"Street 1", "Town"}},
		"customer": object{"name": "Buyer", "address": []any{"Road 2", "City"}},
		"lines":    []any{line("Thing", "1", "100.00", "19")},
	}
	for name, value := range change {
		if value == nil {
			delete(doc, name)
			continue
		}
		doc[name] = value
	}
	return marshal(tb, doc)
}

func line(description, quantity, price, rate string) object {
	return object{"description": description, "quantity": quantity, "unit_price": price, "tax_rate": rate}
}

// with is o with one more field.
func with(o object, name string, value any) object {
	o[name] = value
	return o
}

func marshal(tb testing.TB, v any) []byte {
	tb.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func parse(tb testing.TB, raw []byte) *Document {
	tb.Helper()
	d, err := Parse(raw)
	if err != nil {
		tb.Fatalf("parse %s: %v", raw, err)
	}
	return d
}

// write renders d into a file of its own and returns its path and the report.
func write(tb testing.TB, d *Document) (string, Report) {
	tb.Helper()
	var buf bytes.Buffer
	report, err := d.WritePDF(&buf)
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "invoice.pdf")
	if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path, report
}

// run runs a program that the tests need and returns what it printed.
func run(tb testing.TB, name string, args ...string) string {
	tb.Helper()
	if _, err := exec.LookPath(name); err != nil {
		tb.Fatalf("%s is not installed; the tests need the Debian packages poppler-utils and qpdf: %v", name, err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(tb.Context(), name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("%s %v: %v\n%s%s", name, args, err, out, stderr.Bytes())
	}
	return string(out)
}

// text is the text of a PDF in the order in which it is drawn, with every run
// of white space as one space.
func text(tb testing.TB, path string, args ...string) string {
	tb.Helper()
	return flat(run(tb, "pdftotext", append(append([]string{"-raw"}, args...), path, "-")...))
}

func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

func mustHold(tb testing.TB, text string, wants ...string) {
	tb.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			tb.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
}
