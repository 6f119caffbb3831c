package report_test

import (
	"testing"

	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]tabular.Warning{
		"The report has no ORDER BY: the rows may come in another order each time.":                                  {Kind: report.WarnUnordered, Count: 1},
		"2 × in column “n” of xlsx: text longer than a cell can be, cut (row 1, 20,000)":                             {Format: "xlsx", Column: "n", Kind: "cut", Count: 2, Rows: []int64{1, 20_000}},
		"1,234,567 × in column “n”: text that a spreadsheet would run as a formula, with a ' put in front (row 1 …)": {Column: "n", Kind: "guarded", Count: 1_234_567, Rows: []int64{1}},
		"1 × in column “n”: of another kind":                                                                         {Column: "n", Kind: "of_another_kind", Count: 1},
	} {
		if got := report.Explain(w); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestEveryNoteIsExplained(t *testing.T) {
	t.Parallel()
	for _, n := range []tabular.Note{tabular.NoteFormula, tabular.NoteGuarded, tabular.NoteNullMarker, tabular.NoteLongDigits, tabular.NoteMoreSheets, tabular.NoteNoLabel, tabular.NoteCut,
		tabular.NoteReplaced, tabular.NoteAsText, tabular.NoteTimeAsText, tabular.NoteAmbiguousTime, tabular.NoteNoValue, tabular.NoteBounds} {
		known := report.Explain(tabular.Warning{Column: "x", Kind: string(n), Count: 1})
		if bare := report.Explain(tabular.Warning{Column: "x", Kind: string(n) + "?", Count: 1}); len(known) <= len(bare) {
			t.Errorf("%s has no words of its own: %s", n, known)
		}
	}
}

func TestUnboundIsTheQueryWithNulls(t *testing.T) {
	t.Parallel()
	q := parse(t, "a", "-- param: b date required\n-- param: c list(integer)\nselect :b, :c, :b").Unbound()
	if q.SQL != "select $1::date, $2::int8[], $1::date" || len(q.Args) != 2 || q.Args[0] != nil || q.Args[1] != nil {
		t.Errorf("got %+v", q)
	}
}
