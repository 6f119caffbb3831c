// Package jsonl writes rows as JSON Lines: one object per row and line, in UTF-8,
// with the keys of the layout in its order. It is for programs, so there is one
// way to write a value whatever the preset is:
//
//   - integers, numerics and floats are numbers with exactly the digits of
//     PostgreSQL; NaN and the infinities are strings. Who reads them into a float
//     rounds them; the file does not.
//   - Booleans are true and false, NULL is null, json and jsonb are themselves
//     without white space, arrays are arrays.
//   - A timestamptz is RFC 3339 with the offset of the run's zone, a timestamp the
//     same without an offset. What these cannot hold (infinity, years before 1 and
//     after 9999) is PostgreSQL's text and counted ([tabular.NoteTimeAsText]).
//   - An enum is its label when the layout has labels for it, else its code. bytea
//     is "\\x…". All else is a string of PostgreSQL's text.
//
// A row fails when a value is not what its column promises: text that is not UTF-8
// or holds NUL, and numbers, booleans, JSON or arrays that are none.
package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// Format is JSON Lines, as the package describes it. No media type is registered
// for it; application/x-ndjson is the one that programs know. Its files hold what
// was added to them at the latest after Close, and get it in pieces of 64 KiB or
// more.
func Format() tabular.Format {
	return tabular.Format{Name: "jsonl", MediaType: "application/x-ndjson", Compressible: true, New: newEncoder}
}

var errAborted = errors.New("the file was given up")

type encoder struct {
	out     *tabular.Pieces
	columns []column
	needs   int // values that a row must have
}

func newEncoder(w io.Writer, l *tabular.Layout, notes *tabular.Notes) (tabular.Encoder, error) {
	e := &encoder{out: tabular.NewPieces(w, nil)}
	for i, f := range l.Fields {
		if !utf8.ValidString(f.Key) {
			return nil, fmt.Errorf("the name of column %d, %q, is not UTF-8: give it another with AS", i+1, f.Key)
		}
		c := column{index: f.Index, field: i, elem: f.Elem, labels: f.Labels, notes: notes, append: choose(f)}
		c.key = append(c.key, "{,"[min(i, 1)])
		c.key = append(tabular.AppendJSONString(c.key, []byte(f.Key)), ':')
		e.columns = append(e.columns, c)
		e.needs = max(e.needs, f.Index+1)
	}
	return e, nil
}

// Row adds a row. Nothing of it is in the file when a value fails.
func (e *encoder) Row(row int64, values [][]byte) error {
	if len(values) < e.needs {
		return e.out.Fail(fmt.Errorf("row %d has %d values, and the layout needs %d", row, len(values), e.needs))
	}
	dst := e.out.Buffer()
	for i := range e.columns {
		c := &e.columns[i]
		dst = append(dst, c.key...)
		v := values[c.index]
		if v == nil {
			dst = append(dst, "null"...)
			continue
		}
		var err error
		if dst, err = c.append(c, dst, row, v); err != nil {
			return e.out.Fail(err)
		}
	}
	return e.out.Keep(append(dst, "}\n"...))
}

// Close writes what is left.
func (e *encoder) Close() error { return e.out.Flush() }

// Abort leaves nothing to be written.
func (e *encoder) Abort() { _ = e.out.Fail(errAborted) }

// column knows how the values of a field are added; that is decided once.
type column struct {
	append appender
	key    []byte // with what stands before and behind it
	index  int    // of the value in a row of the source
	field  int    // in the layout
	elem   uint32
	notes  *tabular.Notes
	labels map[string]string
	buf    []byte // a label
}

// appender adds a value that is not NULL.
type appender func(c *column, dst []byte, row int64, v []byte) ([]byte, error)

func choose(f tabular.Field) appender {
	switch f.Kind {
	case tabular.Boolean:
		return (*column).boolean
	case tabular.Integer, tabular.Decimal, tabular.Money, tabular.Percent:
		return (*column).number
	case tabular.JSON:
		if f.Elem != 0 {
			return (*column).array
		}
		return (*column).json
	case tabular.Timestamp:
		if f.OID == tabular.OIDTimestampTZ {
			return (*column).instant
		}
		return (*column).localTime
	case tabular.Enum:
		if f.Labels != nil {
			return (*column).label
		}
	}
	return (*column).text
}

func (c *column) boolean(dst []byte, row int64, v []byte) ([]byte, error) {
	dst, ok := tabular.AppendJSONBool(dst, v)
	if !ok {
		return dst, c.notes.Refuse(c.field, row, v, "is not t or f")
	}
	return dst, nil
}

func (c *column) number(dst []byte, row int64, v []byte) ([]byte, error) {
	dst, ok := tabular.AppendJSONNumber(dst, v)
	if !ok {
		return dst, c.notes.Refuse(c.field, row, v, "is not a number as PostgreSQL prints it")
	}
	return dst, nil
}

func (c *column) json(dst []byte, row int64, v []byte) ([]byte, error) {
	dst, ok := tabular.AppendJSON(dst, v)
	if !ok {
		return dst, c.notes.Refuse(c.field, row, v, "is not JSON in UTF-8")
	}
	return dst, nil
}

func (c *column) array(dst []byte, row int64, v []byte) ([]byte, error) {
	dst, bounds, ok := tabular.AppendArrayJSON(dst, v, c.elem)
	if !ok {
		return dst, c.notes.Refuse(c.field, row, v, "is not an array as PostgreSQL prints it, in UTF-8")
	}
	if bounds {
		return dst, c.notes.Add(c.field, tabular.NoteBounds, row)
	}
	return dst, nil
}

func (c *column) instant(dst []byte, row int64, v []byte) ([]byte, error) {
	if out, ok := tabular.AppendRFC3339(append(dst, '"'), v); ok {
		return append(out, '"'), nil
	}
	return c.timeAsText(dst, row, v)
}

func (c *column) localTime(dst []byte, row int64, v []byte) ([]byte, error) {
	if out, ok := tabular.AppendLocalTime(append(dst, '"'), v); ok {
		return append(out, '"'), nil
	}
	return c.timeAsText(dst, row, v)
}

func (c *column) timeAsText(dst []byte, row int64, v []byte) ([]byte, error) {
	if err := c.notes.Add(c.field, tabular.NoteTimeAsText, row); err != nil {
		return dst, err
	}
	return c.text(dst, row, v)
}

func (c *column) label(dst []byte, row int64, v []byte) ([]byte, error) {
	label, ok := c.labels[string(v)]
	if !ok {
		if err := c.notes.Add(c.field, tabular.NoteNoLabel, row); err != nil {
			return dst, err
		}
		return c.text(dst, row, v)
	}
	c.buf = append(c.buf[:0], label...)
	return c.text(dst, row, c.buf)
}

func (c *column) text(dst []byte, row int64, v []byte) ([]byte, error) {
	if !utf8.Valid(v) || bytes.IndexByte(v, 0) >= 0 {
		return dst, c.notes.Refuse(c.field, row, v, "is not UTF-8 text")
	}
	return tabular.AppendJSONString(dst, v), nil
}
