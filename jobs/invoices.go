package jobs

import (
	"context"
	"fmt"

	"github.com/fenceline/fenceline/jobs/invoice"
)

// InvoiceKind renders invoice documents as PDF. The payload is the document.
func InvoiceKind() Kind {
	return Kind{Name: "invoice", Version: 1, Decode: func(in Payload) (Task, error) {
		doc, err := invoice.Parse(in.Body)
		if err != nil {
			return Task{}, err
		}
		return Task{Key: doc.Key(), Title: doc.Title(), Render: func(_ context.Context, r *Run) error {
			out, err := r.Create(doc.Filename(), "pdf", "application/pdf")
			if err != nil {
				return err
			}
			defer out.Close()
			rendered, err := doc.WritePDF(out)
			if err != nil {
				return fmt.Errorf("invoice %s: %w", doc.Key(), err)
			}
			if len(rendered.Warnings) > 0 {
				r.Warn(rendered.Warnings)
			}
			lines := int64(len(doc.Lines))
			r.Progress(lines)
			return out.Commit(lines)
		}}, nil
	}}
}
