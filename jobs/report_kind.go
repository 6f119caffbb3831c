package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/fenceline/fenceline/storage"
)

// ReportPayload is version 2 of a report job's payload. Version 1 had format alone.
type ReportPayload struct {
	Report string      `json:"report"`
	Params ParamValues `json:"params"`
	Format string      `json:"format,omitempty"` // short for formats with one in it
	report.Choice
}

// ParamValues are the values of parameters: strings, or numbers, booleans and
// lists as JSON has them.
type ParamValues map[string]string

// UnmarshalJSON keeps numbers as they were written.
func (p *ParamValues) UnmarshalJSON(raw []byte) error {
	var values map[string]json.RawMessage
	if raw = bytes.TrimSpace(raw); raw[0] != '{' && raw[0] != 'n' {
		return invalid.New("params", string(raw), `is no JSON object: give each parameter by its name, as in {"from": "2026-01-31"}`)
	}
	if err := json.Unmarshal(raw, &values); err != nil {
		return err
	}
	*p = make(ParamValues, len(values))
	for name, v := range values {
		switch v = bytes.TrimSpace(v); v[0] {
		case '"':
			text, ok := report.JSONText(v)
			if !ok {
				return invalid.New("params."+name, string(v), "is no text: it holds half a surrogate pair, or bytes that are not UTF-8")
			}
			(*p)[name] = text
		case '{':
			return invalid.New("params."+name, string(v), "is an object: give a string, a number, a boolean or a list")
		case 'n': // null: not given
		default:
			(*p)[name] = string(v)
		}
	}
	return nil
}

// ParseReportPayload reads a payload of any version; Format is moved to Formats.
// What is wrong with its shape is an [*invalid.Error]; whether there is such a
// report is not looked at.
func ParseReportPayload(raw json.RawMessage) (ReportPayload, error) {
	var out ReportPayload
	if err := strictJSON(raw, &out, "payload"); err != nil {
		return out, err
	}
	if out.Format != "" {
		if len(out.Formats) > 0 {
			return out, invalid.New("format", out.Format, "is given together with formats: give one of them")
		}
		out.Formats, out.Format = []string{out.Format}, ""
	}
	return out, nil
}

// Kind renders reports.
func (r *Reports) Kind() Kind {
	return Kind{Name: "report", Version: 2, Decode: func(in Payload) (Task, error) {
		p, err := ParseReportPayload(in.Body)
		if err != nil {
			return Task{}, err
		}
		a, err := r.ask(p.Report, in.Tenant, p.Params, p.Choice)
		if err != nil {
			return Task{}, err
		}
		key, err := a.def.Key(a.values, a.choice)
		if err != nil {
			return Task{}, err
		}
		return Task{
			Key: key, Title: reportTitle(a.def, p.Params),
			Check:  func(ctx context.Context) error { return r.check(ctx, a) },
			Render: func(ctx context.Context, run *Run) error { return r.render(ctx, run, a) },
		}, nil
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

// render writes all files of an attempt from one reading of the source.
func (r *Reports) render(ctx context.Context, run *Run, a asked) error {
	rows, err := r.open(ctx, run, a)
	if err != nil {
		return r.ended(ctx, a, err)
	}
	defer rows.Close()
	layouts, err := a.def.Layouts(rows.Columns(), a.choice)
	if err != nil {
		return &permanentError{r.failed(a, err)}
	}
	outs, targets, err := r.create(run, a, layouts)
	for _, out := range outs {
		defer out.Close()
	}
	if err != nil {
		return err
	}
	sum, err := report.Write(ctx, rows, targets, a.def.MaxRows, run.Progress)
	if err != nil {
		return r.ended(ctx, a, err)
	}
	if warnings := append(a.def.Warnings(), sum.Warnings...); len(warnings) > 0 {
		run.Warn(warnings)
	}
	for _, out := range outs {
		if err := out.Commit(sum.Rows); err != nil {
			return err
		}
	}
	return nil
}

// create begins one file for each format.
func (r *Reports) create(run *Run, a asked, layouts []*tabular.Layout) (outs []*Output, targets []report.Target, err error) {
	for i, name := range a.choice.Formats {
		file, err := r.conf.Formats.Get(name)
		if err != nil {
			return outs, nil, err
		}
		out, err := run.Create(a.def.Filename+"."+file.Name, file.Name, file.MediaType)
		if err != nil {
			return outs, nil, err
		}
		outs = append(outs, out)
		targets = append(targets, report.Target{File: file, W: out, Layout: layouts[i]})
	}
	return outs, targets, nil
}

// reading is an open result with what must be closed behind it.
type reading struct {
	tabular.Rows
	close func()
	about int64 // rows that are expected; 0 when nobody knows
}

func (r reading) Close() { r.close() }

// Count is how many rows the source says it gave, if it does.
func (r reading) Count() (int64, bool) {
	if c, ok := r.Rows.(interface{ Count() (int64, bool) }); ok {
		return c.Count()
	}
	return 0, false
}

// open checks that the attempt's token is still the newest, and reads from there.
func (r *Reports) open(ctx context.Context, run *Run, a asked) (reading, error) {
	timeout := a.def.Timeout
	if timeout == 0 {
		timeout = time.Duration(run.job.TimeoutSeconds) * time.Second
	}
	if a.def.Source != "" {
		return r.openOther(ctx, run, a)
	}
	view, err := run.SnapshotOf(ctx, storage.ReadOptions{Source: r.conf.Source, Zone: a.choice.Zone, Timeout: timeout})
	if err != nil {
		return reading{}, err
	}
	if err := expect(ctx, run, view, a); err != nil {
		view.Close()
		return reading{}, err
	}
	rows, err := view.Query(ctx, a.query.SQL, a.query.Args)
	if err != nil {
		view.Close()
		return reading{}, err
	}
	return reading{Rows: pgRows{rows}, close: view.Close}, nil
}

// expect tells about how many rows will come: what the planner thinks, in a few
// milliseconds. Counting would read everything twice.
func expect(ctx context.Context, run *Run, view *storage.Snapshot, a asked) error {
	run.step("count")
	defer run.step("read")
	rows, err := about(ctx, view, a)
	if err == nil && rows > 0 {
		run.Expect(rows)
	}
	return err
}

// about is how many rows the planner expects, never more than the report may have.
func about(ctx context.Context, view *storage.Snapshot, a asked) (int64, error) {
	rows, err := view.Estimate(ctx, a.query.SQL, a.query.Args)
	if limit := a.def.MaxRows; limit > 0 {
		rows = min(rows, limit)
	}
	return rows, err
}

// openOther reads from a source that is no PostgreSQL: after the check, so that
// its data is not older than the token.
func (r *Reports) openOther(ctx context.Context, run *Run, a asked) (reading, error) {
	view, err := run.Snapshot(ctx)
	if err != nil {
		return reading{}, err
	}
	view.Close()
	rows, err := r.conf.Sources[a.def.Source].Open(ctx, a.request())
	if err != nil {
		return reading{}, fmt.Errorf("source %s: %w", a.def.Source, err)
	}
	return reading{Rows: rows, close: func() { _ = rows.Close() }}, nil
}

// ended is failed, final where reading the same rows again would end the same way.
func (r *Reports) ended(ctx context.Context, a asked, err error) error {
	if BadRows(err) && ctx.Err() == nil {
		return &permanentError{r.failed(a, err)}
	}
	return r.failed(a, err)
}

// BadRows reports whether an error of a report lies in its query or its rows, and
// not in the world around: a value that a file refuses, a division by zero, a
// query that wants to write.
func BadRows(err error) bool {
	var refused *storage.QueryError
	if errors.As(err, &refused) {
		const dataException, readOnly = "22", "25006" // PostgreSQL, "Error Codes"
		return strings.HasPrefix(refused.Code, dataException) || refused.Code == readOnly
	}
	return errors.Is(err, tabular.ErrRefused)
}

// failed names the report, and the line when PostgreSQL told where.
func (r *Reports) failed(a asked, err error) error {
	var mistakes report.Mistakes
	var refused *storage.QueryError
	const cancelled = "57014" // also when somebody cancels it, for whom there is a timeout line, too
	if limit := a.def.Timeout; limit > 0 && errors.As(err, &refused) && refused.Code == cancelled {
		err = fmt.Errorf("the query took longer than its limit of %s (timeout): %w", limit, err)
	}
	if errors.As(mistakeIn(a.def, err), &mistakes) && len(mistakes) == 1 {
		err = fmt.Errorf("%s:%d: %w", mistakes[0].File, mistakes[0].Line, err)
	}
	return fmt.Errorf("report %s: %w", a.def.Name, err)
}
