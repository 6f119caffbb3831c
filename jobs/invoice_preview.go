package jobs

import (
	"encoding/json"
	"fmt"

	"github.com/shopspring/decimal"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
)

// InvoicePreview is what a document would become.
type InvoicePreview struct {
	Number, Title, Customer string
	Files                   []string     // what would be made, of pdf, ubl and cii
	Sums                    []InvoiceSum // in the order in which they are printed
	Pages                   [][]byte     // pictures (SVG), one for each page
	Missing                 int          // characters that are in no font
	Warnings                []string     // sentences for whoever sends it
}

// InvoiceSum is one of the sums of a document.
type InvoiceSum struct {
	Name, Amount string
	Total        bool // it is what has to be paid
}

// Preview checks a document as a job would and draws it. A number is for a
// document that has none because a series gives it; empty leaves the document as
// it is. What is wrong is an [*invalid.Error].
func (i InvoiceRenderers) Preview(raw json.RawMessage, number string) (InvoicePreview, error) {
	if number != "" {
		var err error
		if raw, err = withNumber(raw, number); err != nil {
			return InvoicePreview{}, err
		}
	}
	r, err := parseInvoiceRequest(raw)
	if err != nil {
		return InvoicePreview{}, err
	}
	pages, report, err := i.lenient.Preview(r.document)
	if err != nil {
		return InvoicePreview{}, err
	}
	p := InvoicePreview{
		Number: r.document.Number, Title: r.document.Title(), Customer: r.document.Customer.Name, Files: r.files,
		Sums: invoiceSums(r.document), Pages: pages, Missing: report.Missing, Warnings: report.Warnings,
	}
	if r.strict && report.Missing > 0 {
		refused := new(invalid.Error)
		for _, w := range report.Warnings {
			refused.Add("strict", "", "%s", w)
		}
		return p, refused
	}
	return p, nil
}

func invoiceSums(d *invoice.Document) (list []InvoiceSum) {
	t := d.Totals()
	add := func(name string, amount decimal.Decimal) {
		list = append(list, InvoiceSum{Name: name, Amount: amount.StringFixed(d.Currency.Minor) + " " + d.Currency.Code})
	}
	if !t.LineNet.Equal(t.Net) {
		add("Lines", t.LineNet)
	}
	add("Net", t.Net)
	for _, g := range t.Taxes {
		add(fmt.Sprintf("Tax %s %% (%s) on %s", g.Rate, g.Category, g.Net.StringFixed(d.Currency.Minor)), g.Tax)
	}
	add("Total", t.Gross)
	if !t.Prepaid.IsZero() {
		add("Paid before", t.Prepaid.Neg())
	}
	if !t.Rounding.IsZero() {
		add("Rounding", t.Rounding)
	}
	add("To pay", t.Due)
	list[len(list)-1].Total = true
	return list
}

// WithInvoiceFiles chooses the files of a document, of pdf, ubl and cii; with none
// the document says so itself.
func WithInvoiceFiles(document []byte, names []string) (json.RawMessage, error) {
	fields, err := invoice.Fields(document)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		if fields["files"], err = json.Marshal(names); err != nil {
			return nil, fmt.Errorf("encode the names of files: %w", err)
		}
	}
	return json.Marshal(fields) // without what only some editors write, such as a byte order mark
}
