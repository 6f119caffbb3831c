package report_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// markdown is an exporter: a table as GitHub shows it.
func markdown() tabular.Format {
	return tabular.Format{Name: "md", MediaType: "text/markdown; charset=utf-8", Compressible: true, New: newMarkdown}
}

// markdownEncoder writes a line for each row at once.
type markdownEncoder struct {
	w      io.Writer
	layout *tabular.Layout
	notes  *tabular.Notes
}

func newMarkdown(w io.Writer, l *tabular.Layout, notes *tabular.Notes) (tabular.Encoder, error) {
	e := &markdownEncoder{w: w, layout: l, notes: notes}
	var head, rule []string
	for _, f := range l.Fields {
		head = append(head, f.Label)
		switch f.Kind {
		case tabular.Integer, tabular.Decimal, tabular.Money, tabular.Percent:
			rule = append(rule, "--:")
		default:
			rule = append(rule, "---")
		}
	}
	return e, e.line(head, rule)
}

func (e *markdownEncoder) line(rows ...[]string) error {
	for _, row := range rows {
		if _, err := fmt.Fprintf(e.w, "| %s |\n", strings.Join(row, " | ")); err != nil {
			return err
		}
	}
	return nil
}

// Row cannot keep line breaks, says so, and fails when the layout is strict.
func (e *markdownEncoder) Row(row int64, values [][]byte) error {
	cells := make([]string, len(e.layout.Fields))
	for i, f := range e.layout.Fields {
		cell := string(values[f.Index])
		if label, ok := f.Labels[cell]; ok {
			cell = label
		}
		if strings.ContainsAny(cell, "\r\n") {
			cell = strings.NewReplacer("\r\n", " ", "\r", " ", "\n", " ").Replace(cell)
			if err := e.notes.Add(i, tabular.NoteReplaced, row); err != nil {
				return err
			}
		}
		cells[i] = strings.ReplaceAll(cell, "|", `\|`)
	}
	return e.line(cells)
}

func (e *markdownEncoder) Close() error { return nil }
func (e *markdownEncoder) Abort()       {}

// An exporter of one's own: registered beside the built-in formats, it is chosen
// as they are, also compressed.
func Example_exporter() {
	formats, err := report.NewFormats(markdown())
	if err != nil {
		fmt.Println(err)
		return
	}
	def, err := report.Parse("orders.sql", []byte("-- column: total money(EUR) \"Total\"\n-- column: note \"Note\"\nSELECT id, total, note FROM orders ORDER BY id"))
	if err != nil {
		fmt.Println(err)
		return
	}
	choice, err := def.Choose(formats, report.Choice{Formats: []string{"md"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	rows := newTable([]tabular.Column{{Name: "id", OID: tabular.OIDInt8}, {Name: "total", OID: tabular.OIDNumeric}, {Name: "note", OID: tabular.OIDText}},
		[]string{"1", "12.50", "a|b"}, []string{"2", "0.10", null}, []string{"3", "7.00", "two\nlines"})
	layouts, err := def.Layouts(rows.Columns(), choice)
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err := formats.Get("md")
	if err != nil {
		fmt.Println(err)
		return
	}
	sum, err := report.Write(context.Background(), rows, []report.Target{{File: file, W: os.Stdout, Layout: layouts[0]}}, 0, nil)
	fmt.Println(sum.Rows, err)
	for _, w := range sum.Warnings {
		fmt.Println(report.Explain(w))
	}

	// Output:
	// | id | Total | Note |
	// | --: | --: | --- |
	// | 1 | 12.50 | a\|b |
	// | 2 | 0.10 |  |
	// | 3 | 7.00 | two lines |
	// 3 <nil>
	// 1 × in column “note” of md: characters that the format cannot hold, replaced by � (row 3)
}
