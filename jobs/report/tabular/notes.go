package tabular

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Note is what can happen to a value on its way into a file.
type Note string

// What happens to values.
const (
	// Nothing was lost.
	NoteFormula    Note = "formula"     // text that a spreadsheet would run as a formula, written as it is
	NoteGuarded    Note = "guarded"     // text that a spreadsheet would run got a ' in front
	NoteNullMarker Note = "null_marker" // NULL of a file with one column, written as \N
	NoteLongDigits Note = "long_digits" // a number of more than 15 digits, which Excel would round when it opens the file
	NoteMoreSheets Note = "more_sheets" // the row began a further sheet
	NoteNoLabel    Note = "no_label"    // a code of an enum that has no label, written as it is

	// Something was lost or has another type; strict layouts fail.
	NoteCut           Note = "cut"            // text longer than a cell can be
	NoteReplaced      Note = "replaced"       // characters that the format cannot hold became U+FFFD
	NoteAsText        Note = "as_text"        // a number that the format's numbers would round, written as text
	NoteTimeAsText    Note = "time_as_text"   // a date or time that the format's cannot hold, written as text
	NoteAmbiguousTime Note = "ambiguous_time" // a local time that the clock of the zone showed twice
	NoteNoValue       Note = "no_value"       // a value that the format cannot hold in any way, written as NULL
	NoteBounds        Note = "array_bounds"   // an array whose first index is not 1: JSON has no place for it
)

// harmless notes are counted and nothing more.
var harmless = []Note{NoteFormula, NoteGuarded, NoteNullMarker, NoteLongDigits, NoteMoreSheets, NoteNoLabel}

// Loses reports whether a value is not the same in the file, or is one of another type.
func (n Note) Loses() bool { return !slices.Contains(harmless, n) }

// Warning counts the values of one column to which the same happened.
type Warning struct {
	Format string  `json:"format,omitempty"` // csv, xlsx …; empty for the report as a whole
	Column string  `json:"column,omitempty"`
	Kind   string  `json:"kind"` // a Note, or a word of the report's own
	Count  int64   `json:"count"`
	Rows   []int64 `json:"rows,omitempty"` // the first few, from 1, the header not counted
}

// firstRows is how many row numbers a warning keeps.
const firstRows = 5

// Notes counts what happens to the values of one file. It is not safe for
// concurrent use.
type Notes struct {
	format string
	strict bool
	fields []Field
	counts map[noteKey]*Warning
}

type noteKey struct {
	field int
	note  Note
}

// NewNotes begins the notes of a file.
func NewNotes(format string, l *Layout) *Notes {
	return &Notes{format: format, strict: l.Strict, fields: l.Fields, counts: map[noteKey]*Warning{}}
}

// Add counts a value of a field (its index in the layout). In a strict layout
// it answers the error with which the file must fail when the note [Note.Loses].
func (n *Notes) Add(field int, note Note, row int64) error {
	w := n.counts[noteKey{field, note}]
	if w == nil {
		w = &Warning{Format: n.format, Column: n.fields[field].Key, Kind: string(note)}
		n.counts[noteKey{field, note}] = w
	}
	w.Count++
	if len(w.Rows) < firstRows {
		w.Rows = append(w.Rows, row)
	}
	if n.strict && note.Loses() {
		return Refusef("row %d, column %q: %s; without the strict mode it is written so and counted", row, n.fields[field].Key, note.refusal())
	}
	return nil
}

// Warnings are what was counted, by field and note.
func (n *Notes) Warnings() []Warning {
	var all []Warning
	for i := range n.fields {
		first := len(all)
		for key, w := range n.counts {
			if key.field == i {
				all = append(all, *w)
			}
		}
		slices.SortFunc(all[first:], func(a, b Warning) int { return strings.Compare(a.Kind, b.Kind) })
	}
	return all
}

// Refuse is the error for a value that is not what its column promises.
func (n *Notes) Refuse(field int, row int64, v []byte, problem string) error {
	return Refusef("row %d, column %q: value %q %s", row, n.fields[field].Key, v[:min(len(v), 80)], problem)
}

// ErrRefused is what the error of a file is when its rows are the reason: written
// again from the same rows, it fails again.
var ErrRefused = errors.New("the rows do not fit the file")

type refusal struct{ error }

func (refusal) Is(target error) bool { return target == ErrRefused }
func (r refusal) Unwrap() error      { return r.error }

// Refusef is an error with this text that is [ErrRefused].
func Refusef(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }
