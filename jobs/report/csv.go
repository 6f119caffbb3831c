package report

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"unicode/utf8"
)

// WriteCSV writes all rows as CSV in the data preset: UTF-8 without a byte order
// mark, commas, one LF after every row (RFC 4180 but for its CRLF), and a header
// of quoted names, also for zero rows.
//
//   - NULL is nothing, empty text is "". A result with one column has \N for NULL,
//     because readers skip a blank line and would lose the row; text that reads
//     \N is quoted there, so that both stay apart. See [WarnNullMarker].
//   - A boolean is true or false; a timestamptz is RFC 3339 with its offset and
//     all its digits, or PostgreSQL's text where that cannot be, see
//     [WarnTimestampText]. Every other value is PostgreSQL's text, byte for byte.
//   - A field is quoted when it holds a comma, a quote, a CR or LF, or begins or
//     ends with a space or control character, and \. when it is alone on its line.
//   - Text that looks like a formula is left as it is and counted, see
//     [WarnFormula].
//
// Bytes reach w in pieces of about 64 KiB and at least twice a second, also
// while the source waits for its next row. progress, which may be nil, is told
// the rows that w has taken a few times a second while they grow, and once at the
// end of a success. Neither is called twice at once, nor after the return, but
// both are called from another goroutine, too.
//
// It fails when columns cannot be told apart ([CheckColumns]), when a value is
// not what its column promises (the error names row and column), when the source
// or w fails, when ctx ends (with its cause) and when the rows written are not
// the rows read. After an error w holds a part of the file that must not be used;
// the Summary then says how far it came.
func WriteCSV(ctx context.Context, w io.Writer, rows Rows, progress func(rows int64)) (Summary, error) {
	columns := rows.Columns()
	if err := CheckColumns(columns); err != nil {
		return Summary{}, err
	}
	enc := newCSVEncoder(columns)
	out := &stream{w: w, progress: progress}
	err := out.copy(ctx, rows, enc)
	return Summary{Rows: out.written, Warnings: enc.warnings()}, err
}

// Marks that mean something to readers when they are alone on a line: NULL, and
// the end of the data for PostgreSQL's COPY.
const (
	nullMarker = `\N`
	endMarker  = `\.`
)

// csvColumn is a column with what was noticed in it.
type csvColumn struct {
	Column
	kind    columnKind
	formula Warning
	stamp   Warning
	null    Warning
}

type csvEncoder struct {
	columns []csvColumn
}

func newCSVEncoder(columns []Column) *csvEncoder {
	e := &csvEncoder{columns: make([]csvColumn, len(columns))}
	for i, c := range columns {
		e.columns[i] = csvColumn{
			Column:  c,
			kind:    kindOf(c.OID),
			formula: Warning{Column: c.Name, Kind: WarnFormula},
			stamp:   Warning{Column: c.Name, Kind: WarnTimestampText},
			null:    Warning{Column: c.Name, Kind: WarnNullMarker},
		}
	}
	return e
}

// warnings are those that happened, by column.
func (e *csvEncoder) warnings() []Warning {
	var all []Warning
	for i := range e.columns {
		c := &e.columns[i]
		for _, w := range []Warning{c.formula, c.stamp, c.null} {
			if w.Count > 0 {
				all = append(all, w)
			}
		}
	}
	return all
}

func (e *csvEncoder) header(dst []byte) []byte {
	for i := range e.columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, []byte(e.columns[i].Name))
	}
	return append(dst, '\n')
}

func (e *csvEncoder) row(dst []byte, row int64, values [][]byte) ([]byte, error) {
	if len(values) != len(e.columns) {
		return dst, fmt.Errorf("row %d has %d values for %d columns", row, len(values), len(e.columns))
	}
	if len(values) == 1 {
		return e.single(dst, row, values[0])
	}
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		if v == nil {
			continue
		}
		var err error
		if dst, err = e.columns[i].append(dst, row, v); err != nil {
			return dst, err
		}
	}
	return append(dst, '\n'), nil
}

// single is the row of a result with one column.
func (e *csvEncoder) single(dst []byte, row int64, v []byte) ([]byte, error) {
	c := &e.columns[0]
	switch string(v) {
	case nullMarker, endMarker:
		dst = appendQuoted(dst, v)
		return append(dst, '\n'), nil
	case "":
		if v == nil {
			c.null.add(row)
			return append(dst, nullMarker+"\n"...), nil
		}
	}
	dst, err := c.append(dst, row, v)
	return append(dst, '\n'), err
}

// append adds a value that is not NULL.
func (c *csvColumn) append(dst []byte, row int64, v []byte) ([]byte, error) {
	switch c.kind {
	case kindBoolean:
		return c.appendBoolean(dst, row, v)
	case kindInstant:
		if long, ok := appendRFC3339(dst, v); ok {
			return long, nil
		}
		c.stamp.add(row)
	case kindText:
		if looksLikeFormula(v) {
			c.formula.add(row)
		}
	}
	dst, seen := appendField(dst, v)
	if seen&(classHigh|classNUL) != 0 {
		if seen&classNUL != 0 || !utf8.Valid(v) {
			return dst, c.refuse(row, v, "is not UTF-8 text")
		}
	}
	return dst, nil
}

func (c *csvColumn) appendBoolean(dst []byte, row int64, v []byte) ([]byte, error) {
	switch string(v) {
	case "t", "true":
		return append(dst, "true"...), nil
	case "f", "false":
		return append(dst, "false"...), nil
	}
	return dst, c.refuse(row, v, "is not t or f")
}

func (c *csvColumn) refuse(row int64, v []byte, problem string) error {
	return fmt.Errorf("row %d, column %q: value %q %s", row, c.Name, v[:min(len(v), 80)], problem)
}

// Classes of bytes in a field.
const (
	classQuote byte = 1 << iota // makes quotes necessary
	classHigh                   // part of a character outside ASCII
	classNUL
)

var classes = func() (table [256]byte) {
	for _, c := range []byte(",\"\r\n") {
		table[c] = classQuote
	}
	for c := 0x80; c < 256; c++ {
		table[c] = classHigh
	}
	table[0] = classNUL
	return table
}()

// appendField adds a value and tells which classes of bytes it holds.
func appendField(dst, v []byte) ([]byte, byte) {
	if len(v) == 0 {
		return append(dst, '"', '"'), 0
	}
	var seen byte
	for _, c := range v {
		seen |= classes[c]
	}
	if seen&classQuote == 0 && v[0] > ' ' && v[len(v)-1] > ' ' {
		return append(dst, v...), seen
	}
	return appendQuoted(dst, v), seen
}

func appendQuoted(dst, v []byte) []byte {
	dst = append(dst, '"')
	for {
		i := bytes.IndexByte(v, '"')
		if i < 0 {
			dst = append(dst, v...)
			return append(dst, '"')
		}
		dst = append(dst, v[:i+1]...)
		dst = append(dst, '"')
		v = v[i+1:]
	}
}
