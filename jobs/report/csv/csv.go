// Package csv writes rows as CSV (RFC 4180), for programs or for people.
//
// The data preset is for programs: UTF-8 without a byte order mark, commas (or
// the delimiter that was asked for), one LF behind every row, and a header of
// quoted keys, also for zero rows.
//
//   - NULL is nothing and empty text is "". A file with one column has \N for NULL,
//     because readers skip a blank line and would lose the row
//     ([tabular.NoteNullMarker]); text that reads \N is quoted there.
//   - A timestamptz is RFC 3339 with its offset and all its digits, or PostgreSQL's
//     text where that cannot be ([tabular.NoteTimeAsText]). Booleans are true and
//     false, json is without white space, arrays are JSON. All else is PostgreSQL's
//     text, byte for byte.
//   - Text that looks like a formula is left alone and counted
//     ([tabular.NoteFormula]).
//
// The spreadsheet preset is for a person with Excel: a byte order mark, CRLF behind
// every row, and delimiter, decimal mark and words for true and false as the locale
// has them. The header has labels, and names the zone of timestamptz columns.
//
//   - NULL and empty text are nothing; a file with one column has "" for both, so
//     that no line is blank. Line breaks inside of fields stay byte for byte.
//   - A timestamptz is the local time of the zone without its offset; one that the
//     clocks of the zone showed twice is counted ([tabular.NoteAmbiguousTime]), and
//     so is PostgreSQL's text for infinity and the like. Fractions of a second have
//     the decimal mark, too: without it spreadsheets see text.
//   - Text, codes and enums that look like a formula get a ' in front
//     ([tabular.NoteGuarded]), and so do the words -Infinity and -infinity. Numbers
//     never do, nor JSON and what PostgreSQL prints for its other types: nobody can
//     type a formula into them.
//   - Numbers of more than 15 digits stay as they are and are counted
//     ([tabular.NoteLongDigits]), in text and codes too: Excel rounds all of them
//     when it opens the file.
//
// In both, a field is quoted when it holds the delimiter, a quote, a CR or LF, or
// begins or ends with a space or control character. A row fails when a value is not
// what its column promises: text that is not UTF-8 or holds NUL, and numbers,
// booleans, JSON or arrays that are none.
package csv

import (
	"bytes"
	"fmt"
	"io"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// Marks that mean something to readers when they are alone on a line: NULL, and
// the end of the data for PostgreSQL's COPY.
const (
	nullMarker = `\N`
	endMarker  = `\.`
)

// byteOrderMark tells Excel that the file is UTF-8.
const byteOrderMark = "\ufeff"

// Format is CSV in both presets, as the package describes it. Its files hold what
// was added to them at the latest after Close, and get it in pieces of 64 KiB or
// more.
func Format() tabular.Format {
	return tabular.Format{Name: "csv", MediaType: "text/csv; charset=utf-8", Compressible: true, New: newEncoder}
}

type encoder struct {
	out     *tabular.Pieces
	notes   *tabular.Notes
	columns []column
	needs   int // values that a row must have
	style   *style
	lineEnd string
	humanly bool // the spreadsheet preset
	alone   bool // one column
}

func newEncoder(w io.Writer, l *tabular.Layout, notes *tabular.Notes) (tabular.Encoder, error) {
	locale := l.Locale.Complete()
	if err := check(l, locale); err != nil {
		return nil, err
	}
	e := &encoder{
		notes:   notes,
		style:   newStyle(locale.Delimiter),
		lineEnd: "\n",
		humanly: l.Preset == tabular.Spreadsheet,
		alone:   len(l.Fields) == 1,
	}
	var head []byte
	if e.humanly {
		head, e.lineEnd = append(head, byteOrderMark...), "\r\n"
	}
	for i, f := range l.Fields {
		if i > 0 {
			head = append(head, locale.Delimiter)
		}
		head = appendQuoted(head, []byte(title(f, l)))
		e.columns = append(e.columns, newColumn(i, l, locale, e.style, notes))
		e.needs = max(e.needs, f.Index+1)
	}
	e.out = tabular.NewPieces(w, append(head, e.lineEnd...))
	return e, nil
}

// check refuses what would make a file that no reader takes apart again.
func check(l *tabular.Layout, locale tabular.Locale) error {
	e := new(invalid.Error)
	switch l.Preset {
	case tabular.Data, tabular.Spreadsheet, "":
	default:
		e.Add("preset", string(l.Preset), "is unknown: use data or spreadsheet")
	}
	if bytes.IndexByte([]byte(",;|\t"), locale.Delimiter) < 0 {
		e.Add("delimiter", string(rune(locale.Delimiter)), "cannot stand between fields: use a comma, a semicolon, a TAB or |")
	}
	if locale.DecimalMark != '.' && locale.DecimalMark != ',' {
		e.Add("decimal mark", string(rune(locale.DecimalMark)), "is none: use a point or a comma")
	}
	return e.OrNil()
}

// title is what stands above a column.
func title(f tabular.Field, l *tabular.Layout) string {
	if l.Preset != tabular.Spreadsheet {
		return f.Key
	}
	if f.Kind == tabular.Timestamp && f.OID == tabular.OIDTimestampTZ {
		zone := "UTC"
		if l.Zone != nil {
			zone = l.Zone.String()
		}
		return fmt.Sprintf("%s (%s)", f.Label, zone)
	}
	return f.Label
}

// Row adds a row. Nothing of it is in the file when a value fails.
func (e *encoder) Row(row int64, values [][]byte) error {
	if len(values) < e.needs {
		return e.out.Fail(fmt.Errorf("row %d has %d values, and the layout needs %d", row, len(values), e.needs))
	}
	dst := e.out.Buffer()
	start := len(dst)
	for i := range e.columns {
		c := &e.columns[i]
		if i > 0 {
			dst = append(dst, e.style.delimiter)
		}
		v := values[c.index]
		if v == nil {
			continue
		}
		var err error
		if dst, err = c.append(c, dst, row, v); err != nil {
			return e.out.Fail(err)
		}
	}
	if e.alone {
		var err error
		if dst, err = e.unblank(dst, start, row); err != nil {
			return e.out.Fail(err)
		}
	}
	return e.out.Keep(append(dst, e.lineEnd...))
}

// unblank looks after the line of a file with one column, which begins at start:
// readers skip it when it is blank, and two others are marks for some.
func (e *encoder) unblank(dst []byte, start int, row int64) ([]byte, error) {
	line := dst[start:]
	switch {
	case len(line) == 0 && e.humanly:
		return append(dst, `""`...), nil
	case len(line) == 0:
		return append(dst, nullMarker...), e.notes.Add(0, tabular.NoteNullMarker, row)
	case !e.humanly && (string(line) == nullMarker || string(line) == endMarker):
		return appendQuoted(dst[:start], []byte(string(line))), nil
	}
	return dst, nil
}

// Close writes what is left.
func (e *encoder) Close() error { return e.out.Flush() }

// Abort leaves nothing to be written.
func (e *encoder) Abort() { _ = e.out.Fail(errAborted) }
