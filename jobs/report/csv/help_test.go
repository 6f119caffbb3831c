package csv_test

import (
	"bytes"
	"testing"

	"github.com/fenceline/fenceline/jobs/report/csv"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// null stands for NULL in the rows of tests.
const null = "\x00NULL"

func field(name string, oid uint32, kind tabular.Kind) tabular.Field {
	return tabular.Field{Column: tabular.Column{Name: name, OID: oid}, Key: name, Label: name, Kind: kind, Decimals: -1}
}

// layout gives the fields their places in the order in which they are named.
func layout(preset tabular.Preset, fields ...tabular.Field) *tabular.Layout {
	for i := range fields {
		fields[i].Index = i
	}
	return &tabular.Layout{Fields: fields, Preset: preset}
}

func texts(names ...string) (fields []tabular.Field) {
	for _, name := range names {
		fields = append(fields, field(name, tabular.OIDText, tabular.Text))
	}
	return fields
}

func values(texts ...string) [][]byte {
	row := make([][]byte, len(texts))
	for i, v := range texts {
		if v != null {
			row[i] = []byte(v)
		}
	}
	return row
}

// write makes a file of the rows.
func write(l *tabular.Layout, rows ...[]string) (string, []tabular.Warning, error) {
	var out bytes.Buffer
	notes := tabular.NewNotes("csv", l)
	e, err := csv.Format().New(&out, l, notes)
	if err != nil {
		return "", nil, err
	}
	for i, row := range rows {
		if err := e.Row(int64(i+1), values(row...)); err != nil {
			e.Abort()
			return out.String(), notes.Warnings(), err
		}
	}
	err = e.Close()
	return out.String(), notes.Warnings(), err
}

func mustWrite(t *testing.T, l *tabular.Layout, rows ...[]string) (string, []tabular.Warning) {
	t.Helper()
	file, warnings, err := write(l, rows...)
	if err != nil {
		t.Fatal(err)
	}
	return file, warnings
}
