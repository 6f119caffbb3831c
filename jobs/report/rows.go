package report

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/invalid"
)

// Column is one column of a result.
type Column struct {
	Name string
	// OID is the PostgreSQL type (pg_type.oid). A source that is no PostgreSQL
	// gives the type whose text format its values have, or 0 for plain text.
	OID uint32
}

// Rows is a result, read once from its first row to its last. Closing what is
// behind it belongs to whoever opened it. It need not be safe for concurrent use.
type Rows interface {
	// Columns are the columns of every row. It is called before Next.
	Columns() []Column
	// Next goes to the next row; false when there is none or reading failed.
	Next() bool
	// Values are the fields of the row in PostgreSQL's text format (TimeZone UTC,
	// DateStyle ISO, bytea_output hex, IntervalStyle postgres); nil is NULL. They
	// are valid until the next Next and must not be changed.
	Values() [][]byte
	// Err says why Next was false; nil after the last row.
	Err() error
}

// Summary is what was written.
type Summary struct {
	Rows     int64 // without the header
	Warnings []Warning
}

// Kinds of warnings.
const (
	// WarnFormula: text that a spreadsheet would run as a formula. It was written
	// as it is.
	WarnFormula = "formula"
	// WarnTimestampText: a timestamptz that RFC 3339 cannot hold (infinity, BC, a
	// year above 9999, an offset with seconds), written as PostgreSQL prints it.
	WarnTimestampText = "timestamp_text"
	// WarnNullMarker: a NULL of a report with one column, written as \N.
	WarnNullMarker = "null_marker"
)

// Warning counts the fields of one column that a reader of the file should know
// about.
type Warning struct {
	Column string  `json:"column"`
	Kind   string  `json:"kind"`
	Count  int64   `json:"count"`
	Rows   []int64 `json:"rows"` // the first few, from 1, the header not counted
}

// firstRows is how many row numbers a warning keeps.
const firstRows = 5

func (w *Warning) add(row int64) {
	w.Count++
	if len(w.Rows) < firstRows {
		w.Rows = append(w.Rows, row)
	}
}

// CheckColumns refuses what no file can tell apart or hold: no columns, columns
// without a name and names that are used twice. The error is an [invalid.Error].
func CheckColumns(columns []Column) error {
	refused := new(invalid.Error)
	if len(columns) == 0 {
		refused.Add("columns", "", "the report has none: select at least one")
	}
	first := make(map[string]int, len(columns))
	for i, c := range columns {
		field := "columns[" + strconv.Itoa(i) + "]"
		before, double := first[c.Name]
		switch {
		case c.Name == "" || !utf8.ValidString(c.Name) || strings.Contains(c.Name, "\x00"):
			refused.Add(field, c.Name, "is no name: give the column one with AS")
		case double:
			refused.Add(field, c.Name, "is also the name of columns[%d]: give each its own with AS", before)
		default:
			first[c.Name] = i
		}
	}
	return refused.OrNil()
}
