package parquet_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/report/parquet"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// layoutOf is a layout that shows columns as they are.
func layoutOf(columns ...tabular.Column) *tabular.Layout {
	l := &tabular.Layout{Title: "Orders", Preset: tabular.Data, Zone: time.UTC}
	for i, c := range columns {
		l.Fields = append(l.Fields, tabular.Field{Column: c, Index: i, Label: c.Name, Key: c.Name, Kind: tabular.DefaultKind(c), Decimals: -1})
	}
	return l
}

// row makes a row of the source: strings, and nil for NULL.
func row(values ...any) [][]byte {
	r := make([][]byte, len(values))
	for i, v := range values {
		if s, ok := v.(string); ok {
			r[i] = []byte(s)
		}
	}
	return r
}

// write makes a file of rows.
func write(l *tabular.Layout, rows ...[][]byte) ([]byte, []tabular.Warning, error) {
	var file bytes.Buffer
	notes := tabular.NewNotes("parquet", l)
	e, err := parquet.Format().New(&file, l, notes)
	if err != nil {
		return nil, nil, err
	}
	for i, r := range rows {
		if err := e.Row(int64(i+1), r); err != nil {
			e.Abort()
			return nil, nil, err
		}
	}
	err = e.Close()
	return file.Bytes(), notes.Warnings(), err
}

func mustWrite(t testing.TB, l *tabular.Layout, rows ...[][]byte) ([]byte, []tabular.Warning) {
	t.Helper()
	file, warnings, err := write(l, rows...)
	if err != nil {
		t.Fatal(err)
	}
	return file, warnings
}

// save puts a file where DuckDB finds it.
func save(t testing.TB, file []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.parquet")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
