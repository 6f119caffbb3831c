package tabular_test

import (
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestStrictSaysWhatToDo(t *testing.T) {
	t.Parallel()
	l := &tabular.Layout{Strict: true, Fields: []tabular.Field{{Key: "note"}}}
	seen := map[string]tabular.Note{}
	for _, note := range []tabular.Note{tabular.NoteCut, tabular.NoteReplaced, tabular.NoteAsText, tabular.NoteTimeAsText, tabular.NoteAmbiguousTime, tabular.NoteNoValue, tabular.NoteBounds} {
		err := tabular.NewNotes("csv", l).Add(0, note, 7)
		if err == nil || !strings.HasPrefix(err.Error(), `row 7, column "note": `) || !strings.Contains(err.Error(), "strict") {
			t.Fatalf("%s: %v", note, err)
		}
		if other, ok := seen[err.Error()]; ok {
			t.Errorf("%s and %s are both %q", note, other, err)
		}
		seen[err.Error()] = note
	}
	for _, note := range []tabular.Note{tabular.NoteFormula, tabular.NoteGuarded, tabular.NoteNullMarker, tabular.NoteLongDigits, tabular.NoteMoreSheets, tabular.NoteNoLabel} {
		if err := tabular.NewNotes("csv", l).Add(0, note, 7); err != nil {
			t.Errorf("%s: %v", note, err)
		}
	}
}
