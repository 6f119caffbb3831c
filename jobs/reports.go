package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/fenceline/fenceline/storage"
)

// ReportConfig is what reports are made of.
type ReportConfig struct {
	Catalog *report.Catalog
	Store   *storage.Store
	// Source is the PostgreSQL that reports are read from; nil is the store's own.
	Source *storage.Source
	// Formats are what a report can be written as; nil is the built-in ones.
	Formats *report.Formats
	// Sources are further places to read from, by the name that a report's
	// `source:` gives. They must not be changed afterwards.
	Sources map[string]report.Source
}

// Reports checks, previews and writes the reports of a catalog. It is safe for
// concurrent use.
type Reports struct {
	conf ReportConfig

	mu        sync.Mutex
	described map[*report.Definition]description
}

// description is what a source said about a report.
type description struct {
	columns []tabular.Column
	err     error
	at      time.Time
}

const (
	// describedFor is how long a source's answer counts: tables change, too.
	describedFor  = 30 * time.Second
	mostDescribed = 256
	// describeTimeout bounds how long a dispatch waits for a source's answer.
	describeTimeout = 15 * time.Second
)

// NewReports prepares the reports of a catalog.
func NewReports(c ReportConfig) (*Reports, error) {
	if c.Catalog == nil || c.Store == nil {
		return nil, errors.New("reports need a catalog and a store")
	}
	if c.Formats == nil {
		formats, err := report.NewFormats()
		if err != nil {
			return nil, err
		}
		c.Formats = formats
	}
	return &Reports{conf: c, described: map[*report.Definition]description{}}, nil
}

// Catalog is where the reports come from.
func (r *Reports) Catalog() *report.Catalog { return r.conf.Catalog }

// Formats are what a report can be written as.
func (r *Reports) Formats() *report.Formats { return r.conf.Formats }

// asked is a request for a report that was checked as far as that goes without
// asking its source.
type asked struct {
	def    *report.Definition
	values map[string]string // with the tenant's
	query  report.Query
	choice report.Choice
}

func (r *Reports) ask(name, tenant string, given map[string]string, c report.Choice) (asked, error) {
	def, err := r.conf.Catalog.Get(name)
	if err != nil {
		return asked{}, invalid.New("report", name, "%s", reportProblem(err))
	}
	if _, known := r.conf.Sources[def.Source]; !known && def.Source != "" {
		return asked{}, invalid.New("report", name, "reads from the source %q, which this program does not have", def.Source)
	}
	choice, err := def.Choose(r.conf.Formats, c)
	var mistakes report.Mistakes
	if errors.As(err, &mistakes) {
		return asked{}, invalid.New("report", name, "cannot be used: %s", mistakes)
	}
	values, query, paramErr := bound(def, given, tenant)
	if err := invalid.Join(paramErr, err); err != nil { // all that is wrong at once
		return asked{}, err
	}
	return asked{def: def, values: values, query: query, choice: choice}, nil
}

// bound checks the values of the parameters and puts them into the query.
func bound(def *report.Definition, given map[string]string, tenant string) (map[string]string, report.Query, error) {
	values, err := def.Given(given, tenant)
	if err != nil {
		return nil, report.Query{}, err
	}
	query, err := def.Bind(values)
	return values, query, err
}

// postgres is the database that SQL reports are read from.
func (r *Reports) postgres() *storage.Source {
	if r.conf.Source != nil {
		return r.conf.Source
	}
	return r.conf.Store.Source()
}

func (a asked) request() report.Request {
	return report.Request{Report: a.def, Values: a.values, Query: a.query, Zone: a.choice.Zone}
}

// check refuses a report that its source cannot run or whose columns do not fit.
// A source that does not answer is no reason to refuse: the job will be run later.
func (r *Reports) check(ctx context.Context, a asked) error {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	columns, err := r.describe(ctx, a)
	if err == nil {
		_, err = a.def.Layouts(columns, a.choice)
	}
	var mistakes report.Mistakes
	var bad *invalid.Error
	switch {
	case errors.As(err, &mistakes):
		return invalid.New("report", a.def.Name, "cannot be used: %s", mistakes)
	case errors.As(err, &bad):
		return fmt.Errorf("report %s: %w", a.def.Name, err)
	}
	return nil
}

// describe answers the columns of a report. Mistakes in its query are
// [report.Mistakes]; other errors mean that the source could not be asked.
func (r *Reports) describe(ctx context.Context, a asked) ([]tabular.Column, error) {
	r.mu.Lock()
	known, ok := r.described[a.def]
	r.mu.Unlock()
	if ok && time.Since(known.at) < describedFor {
		return known.columns, known.err
	}
	columns, err := r.askSource(ctx, a)
	var mistakes report.Mistakes
	if err != nil && !errors.As(err, &mistakes) {
		return nil, err // not to be remembered
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.described) >= mostDescribed {
		clear(r.described)
	}
	r.described[a.def] = description{columns, err, time.Now()}
	return columns, err
}

func (r *Reports) askSource(ctx context.Context, a asked) ([]tabular.Column, error) {
	if a.def.Source != "" {
		return r.conf.Sources[a.def.Source].Describe(ctx, a.request())
	}
	columns, err := r.postgres().Describe(ctx, a.query.SQL, nil)
	if err != nil {
		return nil, mistakeIn(a.def, err)
	}
	return tabularColumns(columns), nil
}

// mistakeIn gives PostgreSQL's complaint about a query the line of the report's file.
func mistakeIn(def *report.Definition, err error) error {
	var refused *storage.QueryError
	if !errors.As(err, &refused) || strings.HasPrefix(refused.Code, "57") || strings.HasPrefix(refused.Code, "53") { // stopped, or out of something
		return err
	}
	return report.Mistakes{def.Mistake(refused.Position, refused.Error())}
}

func tabularColumns(columns []storage.Column) []tabular.Column {
	all := make([]tabular.Column, len(columns))
	for i, c := range columns {
		all[i] = tabular.Column{Name: c.Name, OID: c.OID, Type: c.Type, Elem: c.Elem, Precision: c.Precision, Scale: c.Scale}
	}
	return all
}

// pgRows lets a snapshot's rows be a report's.
type pgRows struct{ *storage.Rows }

// Columns converts the one type to the other.
func (p pgRows) Columns() []tabular.Column { return tabularColumns(p.Rows.Columns()) }

// reportProblem says why a report cannot be used, after its name.
func reportProblem(err error) string {
	if _, others, found := strings.Cut(err.Error(), report.ErrNotFound.Error()+": "); found && errors.Is(err, report.ErrNotFound) {
		return "is not a report; " + others
	}
	return "cannot be used: " + err.Error()
}
