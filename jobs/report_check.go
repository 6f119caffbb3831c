package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/fenceline/fenceline/storage"
)

// CheckedReport is what is known about a report once its source was asked.
type CheckedReport struct {
	Name     string            `json:"name"`
	Title    string            `json:"title,omitempty"`
	File     string            `json:"file"`
	Columns  []CheckedColumn   `json:"columns"`
	Mistakes []report.Mistake  `json:"mistakes"`
	Warnings []tabular.Warning `json:"warnings"`
}

// CheckedColumn is a column of a checked report.
type CheckedColumn struct {
	Name   string `json:"name"`
	Type   string `json:"type"` // of the source
	Kind   string `json:"kind"`
	Label  string `json:"label"`
	Hidden bool   `json:"hidden,omitempty"`
}

// Check asks the sources about all reports, or about one when name is not
// empty, and answers what it found, by file. The error means that something could
// not be looked at: a folder, a name that no file has, a source that does not
// answer.
func (r *Reports) Check(ctx context.Context, name string) ([]CheckedReport, error) {
	defs, err := r.defs(name)
	checked, rest := unreadable(err)
	for _, def := range defs {
		c, err := r.checkOne(ctx, def)
		if err != nil {
			rest = errors.Join(rest, fmt.Errorf("report %s: %w", def.Name, err))
			continue
		}
		checked = append(checked, c)
	}
	slices.SortFunc(checked, func(a, b CheckedReport) int { return cmp.Compare(a.File, b.File) })
	return checked, rest
}

func (r *Reports) defs(name string) ([]*report.Definition, error) {
	if name == "" {
		return r.conf.Catalog.List()
	}
	def, err := r.conf.Catalog.Get(name)
	if err != nil {
		return nil, err
	}
	return []*report.Definition{def}, nil
}

// unreadable takes the files that could not be understood out of a catalog's
// error, one report each; the rest is what has nothing to do with a file's text.
func unreadable(err error) (checked []CheckedReport, rest error) {
	if err == nil {
		return nil, nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			c, other := unreadable(one)
			checked, rest = append(checked, c...), errors.Join(rest, other)
		}
		return checked, rest
	}
	var mistakes report.Mistakes
	if errors.As(err, &mistakes) && len(mistakes) > 0 {
		file := mistakes[0].File
		return []CheckedReport{{Name: nameOf(file), File: file, Mistakes: mistakes}}, nil
	}
	return nil, err
}

func (r *Reports) checkOne(ctx context.Context, def *report.Definition) (CheckedReport, error) {
	c := CheckedReport{Name: def.Name, Title: def.Title, File: def.File, Warnings: def.Warnings()}
	choice, err := def.Choose(r.conf.Formats, report.Choice{})
	var mistakes report.Mistakes
	if errors.As(err, &mistakes) {
		c.Mistakes = mistakes
		return c, nil
	}
	if err != nil {
		c.Mistakes = []report.Mistake{{File: def.File, Line: 1, Message: err.Error()}}
		return c, nil
	}
	if _, known := r.conf.Sources[def.Source]; !known && def.Source != "" {
		c.Mistakes = []report.Mistake{{File: def.File, Line: 1, Message: fmt.Sprintf("source %s: this program has no such source", def.Source)}}
		return c, nil
	}
	a := asked{def: def, query: def.Unbound(), choice: choice}
	columns, err := r.askSource(ctx, a)
	var layouts []*tabular.Layout
	if err == nil {
		layouts, err = def.Layouts(columns, choice)
	}
	switch {
	case errors.As(err, &mistakes):
		c.Mistakes = mistakes
	case err != nil && columns != nil:
		for message := range strings.SplitSeq(err.Error(), "\n") { // one for each column that is refused
			c.Mistakes = append(c.Mistakes, report.Mistake{File: def.File, Line: def.Line(1), Message: message})
		}
	case err != nil:
		return c, err
	}
	c.Columns = checkedColumns(columns, layouts)
	return c, nil
}

func checkedColumns(columns []tabular.Column, layouts []*tabular.Layout) []CheckedColumn {
	all := make([]CheckedColumn, len(columns))
	for i, col := range columns {
		all[i] = CheckedColumn{Name: col.Name, Type: cmp.Or(col.Type, "text"), Kind: string(tabular.DefaultKind(col)), Label: col.Name, Hidden: len(layouts) > 0}
	}
	if len(layouts) == 0 {
		return all
	}
	for _, f := range slices.Backward(layouts[0].Fields) {
		c := &all[f.Index]
		c.Kind, c.Label, c.Hidden = string(f.Kind), f.Label, false
	}
	return all
}

// Preview reads the first rows of a report, at most n, as people who may run it
// would get them. Nothing is stored. Bad input is an [*invalid.Error].
func (r *Reports) Preview(ctx context.Context, tenant, name string, given map[string]string, c report.Choice, n int) (report.Page, error) {
	a, err := r.ask(name, tenant, given, c)
	if err != nil {
		return report.Page{}, err
	}
	if err := r.check(ctx, a); err != nil {
		return report.Page{}, err
	}
	timeout := previewTimeout
	if own := a.def.Timeout; own > 0 {
		timeout = min(own, timeout)
	}
	rows, err := r.look(ctx, a, timeout)
	if err != nil {
		return report.Page{}, r.failed(a, err)
	}
	defer rows.Close()
	layouts, err := a.def.Layouts(rows.Columns(), a.choice)
	if err != nil {
		return report.Page{}, r.failed(a, err)
	}
	page, err := report.Preview(ctx, rows, layouts[0], n)
	if err != nil {
		return report.Page{}, r.failed(a, err)
	}
	if page.More && rows.about > int64(n) { // a guess below what it has just given is none
		page.About = &rows.about
	}
	return page, nil
}

// WriteTo writes a report of the tenant [DefaultTenant] to w in one format,
// outside any job: nothing is fenced and nothing is stored.
func (r *Reports) WriteTo(ctx context.Context, w io.Writer, name string, given map[string]string, c report.Choice) (report.Summary, error) {
	a, err := r.ask(name, DefaultTenant, given, c)
	if err != nil {
		return report.Summary{}, err
	}
	if len(a.choice.Formats) != 1 {
		return report.Summary{}, invalid.New("formats", strings.Join(a.choice.Formats, ","), "one format is needed here")
	}
	file, err := r.conf.Formats.Get(a.choice.Formats[0])
	if err != nil {
		return report.Summary{}, err
	}
	rows, err := r.look(ctx, a, a.def.Timeout)
	if err != nil {
		return report.Summary{}, r.failed(a, err)
	}
	defer rows.Close()
	layouts, err := a.def.Layouts(rows.Columns(), a.choice)
	if err != nil {
		return report.Summary{}, r.failed(a, err)
	}
	sum, err := report.Write(ctx, rows, []report.Target{{File: file, W: w, Layout: layouts[0]}}, a.def.MaxRows, nil)
	if err != nil {
		return sum, r.failed(a, err)
	}
	return sum, nil
}

// previewTimeout bounds a preview: somebody is waiting for it.
const previewTimeout = 30 * time.Second

// look opens a report's rows outside any attempt.
func (r *Reports) look(ctx context.Context, a asked, timeout time.Duration) (reading, error) {
	if a.def.Source != "" {
		rows, err := r.conf.Sources[a.def.Source].Open(ctx, a.request())
		if err != nil {
			return reading{}, fmt.Errorf("source %s: %w", a.def.Source, err)
		}
		return reading{Rows: rows, close: func() { _ = rows.Close() }}, nil
	}
	view, err := r.postgres().View(ctx, storage.ReadOptions{Zone: a.choice.Zone, Timeout: timeout})
	if err != nil {
		return reading{}, err
	}
	expected, err := about(ctx, view, a)
	if err != nil {
		view.Close()
		return reading{}, err
	}
	rows, err := view.Query(ctx, a.query.SQL, a.query.Args)
	if err != nil {
		view.Close()
		return reading{}, err
	}
	return reading{Rows: pgRows{rows}, close: view.Close, about: expected}, nil
}

// nameOf is the report's name in its file's path.
func nameOf(file string) string { return strings.TrimSuffix(path.Base(file), ".sql") }
