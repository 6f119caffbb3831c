package report_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// table is a source of rows that are already there.
type table struct {
	columns []tabular.Column
	rows    [][][]byte
	at      int
	err     error
}

func (s *table) Columns() []tabular.Column { return s.columns }
func (s *table) Next() bool                { s.at++; return s.at <= len(s.rows) }
func (s *table) Values() [][]byte          { return s.rows[s.at-1] }
func (s *table) Err() error                { return s.err }

// null stands for NULL in the rows of tests.
const null = "\x00NULL"

func columns(oid uint32, names ...string) []tabular.Column {
	var all []tabular.Column
	for _, name := range names {
		all = append(all, tabular.Column{Name: name, OID: oid})
	}
	return all
}

func newTable(columns []tabular.Column, rows ...[]string) *table {
	s := &table{columns: columns}
	for _, row := range rows {
		var values [][]byte
		for _, v := range row {
			if v == null {
				values = append(values, nil)
			} else {
				values = append(values, []byte(v))
			}
		}
		s.rows = append(s.rows, values)
	}
	return s
}

// fed is a source whose rows come from a channel, one text column.
type fed struct {
	rows <-chan string
	row  []byte
	err  error
}

func (s *fed) Columns() []tabular.Column { return columns(tabular.OIDText, "x") }
func (s *fed) Values() [][]byte          { return [][]byte{s.row} }
func (s *fed) Err() error                { return s.err }
func (s *fed) Next() bool {
	row, ok := <-s.rows
	s.row = []byte(row)
	return ok
}

// sink keeps what was written, readable at any time.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// lines is a format of tests: each row a line, in brackets. It tells what was
// done to it, and fails when and where it is told to.
type lines struct {
	compressible bool
	failNew      error
	failRow      int64 // with an error, or a panic when it is negative
	failClose    error

	mu  sync.Mutex
	did []string
}

func (f *lines) format(name string) tabular.Format {
	return tabular.Format{Name: name, MediaType: "text/lines", Compressible: f.compressible, New: func(w io.Writer, l *tabular.Layout, notes *tabular.Notes) (tabular.Encoder, error) {
		if f.failNew != nil {
			return nil, f.failNew
		}
		f.log("new")
		return &lineEncoder{f: f, w: w, l: l, notes: notes}, nil
	}}
}

func (f *lines) log(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, what)
}

func (f *lines) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.did, " ")
}

type lineEncoder struct {
	f     *lines
	w     io.Writer
	l     *tabular.Layout
	notes *tabular.Notes
}

func (e *lineEncoder) Row(row int64, values [][]byte) error {
	switch row {
	case e.f.failRow:
		return fmt.Errorf("row %d is odd", row)
	case -e.f.failRow:
		panic("an exporter of others")
	}
	line := fmt.Sprintf("%d:", row)
	for i, f := range e.l.Fields {
		v := values[f.Index]
		if bytes.HasPrefix(v, []byte("=")) {
			if err := e.notes.Add(i, tabular.NoteFormula, row); err != nil {
				return err
			}
		}
		if v == nil {
			v = []byte("NULL")
		}
		line += "[" + string(v) + "]"
	}
	_, err := io.WriteString(e.w, line+"\n")
	return err
}

func (e *lineEncoder) Close() error { e.f.log("close"); return e.f.failClose }
func (e *lineEncoder) Abort()       { e.f.log("abort") }

// layout has every column as it is.
func layout(columns []tabular.Column) *tabular.Layout {
	l := &tabular.Layout{Preset: tabular.Data}
	for i, c := range columns {
		l.Fields = append(l.Fields, tabular.Field{Column: c, Index: i, Key: c.Name, Label: c.Name, Kind: tabular.DefaultKind(c), Decimals: -1})
	}
	return l
}

func formats(t *testing.T, more ...tabular.Format) *report.Formats {
	t.Helper()
	f, err := report.NewFormats(more...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// target is a file of the lines format.
func target(f *lines, w io.Writer, columns []tabular.Column) report.Target {
	format := f.format("lines")
	return report.Target{File: report.File{Name: "lines", Format: format, MediaType: format.MediaType}, W: w, Layout: layout(columns)}
}
