package report

import (
	"fmt"
	"strings"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// Explain says a warning in words, for people: how many values of which column,
// what happened to them, and where the first ones are.
func Explain(w tabular.Warning) string {
	words, ok := noteWords[w.Kind]
	if !ok {
		words = strings.ReplaceAll(w.Kind, "_", " ")
	}
	if w.Column == "" {
		return words
	}
	line := fmt.Sprintf("%s × in column “%s”", grouped(w.Count), w.Column)
	if w.Format != "" {
		line += " of " + w.Format
	}
	line += ": " + words
	for i, row := range w.Rows {
		sep := ", "
		if i == 0 {
			sep = " (row "
		}
		line += sep + grouped(row)
	}
	switch {
	case len(w.Rows) == 0:
	case int64(len(w.Rows)) < w.Count:
		line += " …)"
	default:
		line += ")"
	}
	return line
}

var noteWords = map[string]string{
	string(tabular.NoteFormula):       "text that a spreadsheet would run as a formula, kept as it is",
	string(tabular.NoteGuarded):       "text that a spreadsheet would run as a formula, with a ' put in front",
	string(tabular.NoteNullMarker):    `NULL, written as \N because the file has one column`,
	string(tabular.NoteLongDigits):    "a number of more than 15 digits, which Excel rounds when it opens the file; XLSX keeps all digits",
	string(tabular.NoteMoreSheets):    "the sheet was full and a further one was begun",
	string(tabular.NoteNoLabel):       "a code without a label, written as it is",
	string(tabular.NoteCut):           "text longer than a cell can be, cut",
	string(tabular.NoteReplaced):      "characters that the format cannot hold, replaced by \uFFFD",
	string(tabular.NoteAsText):        "a number that the format would round or does not have, written as text",
	string(tabular.NoteTimeAsText):    "a date or time that the format cannot hold, written as text",
	string(tabular.NoteAmbiguousTime): "a local time that the clock showed twice, without its offset",
	string(tabular.NoteNoValue):       "a value that the format cannot hold, left empty",
	string(tabular.NoteBounds):        "an array whose first index is not 1, which JSON cannot say",
	WarnUnordered:                     "The report has no ORDER BY: the rows may come in another order each time.",
}

// grouped writes a count with its thousands apart.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
