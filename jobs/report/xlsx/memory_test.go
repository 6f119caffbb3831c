package xlsx

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// Case 31: what a file needs does not grow with its rows. Each is written by a
// process of its own.
func TestMemoryIsFlat(t *testing.T) {
	t.Parallel()
	rows := int64(20_000)
	if raceDetector {
		rows /= 4 // it is slow
	}
	file := filepath.Join(t.TempDir(), "a.xlsx")
	few, many := run(t.Context(), t, "ours", rows, file, level), run(t.Context(), t, "ours", 10*rows, file, level)
	t.Logf("%d rows: %+v, ten times as many: %+v", rows, few, many)
	if float64(many.Sys) > 1.1*float64(few.Sys) {
		t.Errorf("%d bytes for %d rows, %d for ten times as many", few.Sys, rows, many.Sys)
	}
	if many.Peak > 64<<20 && !raceDetector {
		t.Errorf("peak of %d bytes", many.Peak)
	}
}

func TestRowsDoNotAllocate(t *testing.T) {
	// Not parallel: allocations are those of the whole process.
	o, names := newOrders(), customers()
	orderRow := func(i int64) [][]byte { return o.row(i, names) }
	checkAllocations(t, ordersLayout(), orderRow)

	all := samples()
	fields, row := make([]tabular.Field, len(all)), make([]string, len(all))
	for i, s := range all {
		fields[i], row[i] = s.field, s.value
	}
	sampleRow := values(row)
	checkAllocations(t, layoutOf(fields...), func(int64) [][]byte { return sampleRow })
}

func checkAllocations(t *testing.T, l *tabular.Layout, row func(int64) [][]byte) {
	t.Helper()
	e, err := Format().New(io.Discard, l, tabular.NewNotes("xlsx", l))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Abort()
	i := int64(0)
	thousand := func() {
		for range 1000 {
			i++
			if err := e.Row(i, row(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 5 {
		thousand()
	}
	if n := testing.AllocsPerRun(5, thousand); n > 0 {
		t.Errorf("%g allocations for a thousand rows", n)
	}
}
