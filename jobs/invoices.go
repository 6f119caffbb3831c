package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/jobs/invoice/einvoice"
)

// The files that an invoice can be published as.
const (
	invoicePDF = "pdf"
	invoiceUBL = "ubl" // UBL 2.1, EN 16931
	invoiceCII = "cii" // UN/CEFACT Cross Industry Invoice, EN 16931
)

// invoiceRequest is the payload of an invoice job: a document as [invoice.Parse]
// reads it, with two fields beside it.
type invoiceRequest struct {
	document *invoice.Document
	files    []string // in the order of invoiceFiles; pdf when none are asked for
	strict   bool     // refuse characters that are in no font
}

func invoiceFiles() []string { return []string{invoicePDF, invoiceUBL, invoiceCII} }

// parseInvoiceRequest takes the two fields out and checks the rest.
func parseInvoiceRequest(raw json.RawMessage) (invoiceRequest, error) {
	r := invoiceRequest{files: []string{invoicePDF}}
	fields, err := invoice.Fields(raw)
	if err != nil {
		return r, err
	}
	refused := new(invalid.Error)
	if files, given := fields["files"]; given && string(files) != "null" {
		r.files = r.readFiles(files, refused)
	}
	if strict, given := fields["strict"]; given && json.Unmarshal(strict, &r.strict) != nil {
		refused.Add("strict", shown(strict), "must be true or false")
	}
	delete(fields, "files")
	delete(fields, "strict")
	rest, err := json.Marshal(fields)
	if err != nil {
		return r, fmt.Errorf("encode the document: %w", err)
	}
	r.document, err = invoice.Parse(rest)
	if err = invalid.Join(refused.OrNil(), err); err == nil && !slices.Equal(r.files, []string{invoicePDF}) {
		err = einvoice.Check(r.document)
	}
	return r, err
}

func (r *invoiceRequest) readFiles(raw json.RawMessage, refused *invalid.Error) []string {
	var names []string
	if json.Unmarshal(raw, &names) != nil || len(names) == 0 {
		refused.Add("files", shown(raw), "must be a list of %s", strings.Join(invoiceFiles(), ", "))
		return nil
	}
	for i, name := range names {
		if !slices.Contains(invoiceFiles(), name) {
			refused.Add(fmt.Sprintf("files[%d]", i), name, "is not one of %s", strings.Join(invoiceFiles(), ", "))
		}
	}
	return slices.DeleteFunc(invoiceFiles(), func(name string) bool { return !slices.Contains(names, name) })
}

// shown is a JSON value as a message repeats it: text without its quotes, which
// the message adds.
func shown(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// InvoiceRenderers are how invoices look: one that reports characters which are
// in no font, and one that refuses them.
type InvoiceRenderers struct {
	lenient, strict *invoice.Renderer
}

// NewInvoiceRenderers makes both of the same options; Strict in them is not looked at.
func NewInvoiceRenderers(o invoice.Options) (InvoiceRenderers, error) {
	o.Strict = false
	lenient, err := invoice.NewRenderer(o)
	o.Strict = true
	strict, strictErr := invoice.NewRenderer(o)
	return InvoiceRenderers{lenient, strict}, errors.Join(err, strictErr)
}

// InvoiceKind renders invoice documents: the PDF and, on request, the e-invoice,
// as one set of files.
func InvoiceKind(renderers InvoiceRenderers) Kind {
	return Kind{Name: "invoice", Version: 1, Decode: func(in Payload) (Task, error) {
		r, err := parseInvoiceRequest(in.Body)
		if err != nil {
			return Task{}, err
		}
		return Task{Key: r.document.Key(), Title: r.document.Title(), Render: func(_ context.Context, run *Run) error {
			return renderers.render(run, r)
		}}, nil
	}}
}

func (i InvoiceRenderers) render(run *Run, r invoiceRequest) error {
	lines := int64(len(r.document.Lines))
	for _, file := range r.files {
		if err := i.renderFile(run, r, file); err != nil {
			if errors.Is(err, invoice.ErrMissing) {
				err = &permanentError{err}
			}
			return err // without the number, so that a batch counts equal reasons as one
		}
		run.Progress(lines)
	}
	return nil
}

func (i InvoiceRenderers) renderFile(run *Run, r invoiceRequest, file string) error {
	kind := invoiceFileKinds()[file]
	out, err := run.Create(strings.TrimSuffix(r.document.Filename(), ".pdf")+kind.ending, file, kind.mediaType)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := kind.write(i, run, out, r); err != nil {
		return err
	}
	return out.Commit(int64(len(r.document.Lines)))
}

// invoiceFileKind is how a file of an invoice is made.
type invoiceFileKind struct {
	ending, mediaType string
	write             func(i InvoiceRenderers, run *Run, w io.Writer, r invoiceRequest) error
}

func invoiceFileKinds() map[string]invoiceFileKind {
	return map[string]invoiceFileKind{
		invoicePDF: {".pdf", "application/pdf", InvoiceRenderers.writePDF},
		invoiceUBL: {".ubl.xml", "application/xml", func(_ InvoiceRenderers, _ *Run, w io.Writer, r invoiceRequest) error {
			return einvoice.WriteUBL(w, r.document, r.document.Totals())
		}},
		invoiceCII: {".cii.xml", "application/xml", func(_ InvoiceRenderers, _ *Run, w io.Writer, r invoiceRequest) error {
			return einvoice.WriteCII(w, r.document, r.document.Totals())
		}},
	}
}

func (i InvoiceRenderers) writePDF(run *Run, w io.Writer, r invoiceRequest) error {
	renderer := i.lenient
	if r.strict {
		renderer = i.strict
	}
	rendered, err := renderer.WritePDF(w, r.document)
	if len(rendered.Warnings) > 0 {
		run.Warn(rendered.Warnings)
	}
	return err
}
