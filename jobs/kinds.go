package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/storage"
)

// reportPayload is version 1 of a report job's payload.
type reportPayload struct {
	Report string            `json:"report"`
	Params map[string]string `json:"params"`
	Format string            `json:"format"` // csv, which is also the default
}

// ReportKind renders the reports of a catalog.
func ReportKind(catalog *report.Catalog) Kind {
	return Kind{Name: "report", Version: 1, Decode: func(_ int, raw json.RawMessage) (Task, error) {
		var p reportPayload
		if err := strictJSON(raw, &p, "payload"); err != nil {
			return Task{}, err
		}
		if p.Format != "" && p.Format != "csv" {
			return Task{}, invalid.New("format", p.Format, "is not a format of reports; use csv")
		}
		def, err := catalog.Get(p.Report)
		if err != nil {
			return Task{}, invalid.New("report", p.Report, "%s", reportProblem(err))
		}
		query, err := def.Bind(p.Params)
		if err != nil {
			return Task{}, err
		}
		key, err := def.Key(p.Params)
		if err != nil {
			return Task{}, err
		}
		return Task{Key: key, Title: reportTitle(def, p.Params), Render: func(ctx context.Context, r *Run) error {
			return renderReport(ctx, r, def, query)
		}}, nil
	}}
}

// reportTitle is the report's title with the values that tell this one from others.
func reportTitle(def *report.Definition, given map[string]string) string {
	title := def.Title
	sep := ": "
	for _, p := range def.Params {
		if v, ok := given[p.Name]; ok && v != "" {
			title += sep + p.Name + " " + v
			sep = ", "
		}
	}
	return title
}

func renderReport(ctx context.Context, r *Run, def *report.Definition, query report.Query) error {
	view, err := r.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	rows, err := view.Query(ctx, query.SQL, query.Args)
	if err != nil {
		return fmt.Errorf("report %s: %w", def.Name, err)
	}
	out, err := r.Create(def.Filename+".csv", "csv", "text/csv; charset=utf-8")
	if err != nil {
		return err
	}
	defer out.Close()
	sum, err := report.WriteCSV(ctx, out, pgRows{rows}, r.Progress)
	if err != nil {
		return fmt.Errorf("report %s: %w", def.Name, err)
	}
	if len(sum.Warnings) > 0 {
		r.Warn(sum.Warnings)
	}
	return out.Commit(sum.Rows)
}

// pgRows lets a snapshot's rows be a report's.
type pgRows struct{ *storage.Rows }

// Columns converts the one type to the other.
func (p pgRows) Columns() []report.Column {
	columns := make([]report.Column, len(p.Rows.Columns()))
	for i, c := range p.Rows.Columns() {
		columns[i] = report.Column{Name: c.Name, OID: c.OID}
	}
	return columns
}

// InvoiceKind renders invoice documents as PDF. The payload is the document.
func InvoiceKind() Kind {
	return Kind{Name: "invoice", Version: 1, Decode: func(_ int, raw json.RawMessage) (Task, error) {
		doc, err := invoice.Parse(raw)
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

// reportProblem says why a report cannot be used, after its name.
func reportProblem(err error) string {
	if _, others, found := strings.Cut(err.Error(), report.ErrNotFound.Error()+": "); found && errors.Is(err, report.ErrNotFound) {
		return "is not a report; " + others
	}
	return "cannot be used: " + err.Error()
}
