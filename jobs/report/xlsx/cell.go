package xlsx

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// cell adds the cell of a value that is not NULL.
func (e *encoder) cell(i int, row int64, v []byte) error {
	c := &e.columns[i]
	switch c.kind {
	case numberCell:
		return e.addNumber(i, row, v)
	case booleanCell:
		return e.addBoolean(i, row, v)
	case dateCell, timeCell:
		return e.addMoment(i, row, v)
	case jsonCell, arrayCell:
		return e.addJSON(i, row, v)
	case labelCell:
		return e.addLabel(i, row, v)
	}
	return e.addText(i, row, v, c.style)
}

// begin adds the start of a cell: its name, such as B7, and its style.
func (e *encoder) begin(i int, style attribute) {
	e.buf = append(e.buf, e.columns[i].open...)
	e.buf = append(e.buf, e.number...)
	e.buf = append(e.buf, style...)
}

// addText adds a cell of text; empty text has none.
func (e *encoder) addText(i int, row int64, v []byte, style attribute) error {
	if len(v) == 0 {
		return nil
	}
	plain := isPlain(v)
	if !plain && !utf8.Valid(v) {
		return e.notes.Refuse(i, row, v, "is not UTF-8: convert it in the query, or select it as bytea")
	}
	if whole := cut(v); len(whole) < len(v) {
		if err := e.notes.Add(i, tabular.NoteCut, row); err != nil {
			return err
		}
		v = whole
	}
	e.begin(i, style)
	if isSpaced(v) {
		e.buf = append(e.buf, ` t="inlineStr"><is><t xml:space="preserve">`...)
	} else {
		e.buf = append(e.buf, ` t="inlineStr"><is><t>`...)
	}
	var replaced bool
	if plain {
		e.buf = append(e.buf, v...)
	} else {
		e.buf, replaced = appendText(e.buf, v)
	}
	e.buf = append(e.buf, `</t></is></c>`...)
	if replaced {
		return e.notes.Add(i, tabular.NoteReplaced, row)
	}
	return nil
}

// addInstead adds text in the place of a value that cells cannot hold.
func (e *encoder) addInstead(i int, row int64, v []byte, note tabular.Note) error {
	if err := e.notes.Add(i, note, row); err != nil {
		return err
	}
	return e.addText(i, row, v, asText)
}

func (e *encoder) addLabel(i int, row int64, v []byte) error {
	label, ok := e.columns[i].labels[string(v)]
	if !ok {
		if err := e.notes.Add(i, tabular.NoteNoLabel, row); err != nil {
			return err
		}
		return e.addText(i, row, v, general)
	}
	e.scratch = append(e.scratch[:0], label...)
	return e.addText(i, row, e.scratch, general)
}

// maxDigits is how many digits of a number Excel keeps.
const maxDigits = 15

const noNumber = "is not a number"

func (e *encoder) addNumber(i int, row int64, v []byte) error {
	if tabular.IsNoNumber(v) {
		return e.addInstead(i, row, v, tabular.NoteAsText)
	}
	c := &e.columns[i]
	if !c.double && len(v) > maxDigits && tabular.SignificantDigits(v) > maxDigits || !inRange(v) {
		if !tabular.IsNumber(v) {
			return e.notes.Refuse(i, row, v, noNumber)
		}
		return e.addInstead(i, row, v, tabular.NoteAsText)
	}
	e.begin(i, c.style)
	e.buf = append(e.buf, `><v>`...)
	var ok bool
	if e.buf, ok = tabular.AppendJSONNumber(e.buf, v); !ok {
		return e.notes.Refuse(i, row, v, noNumber)
	}
	e.buf = append(e.buf, `</v></c>`...)
	return nil
}

// Powers of ten in which Excel has all numbers ("Excel specifications and
// limits": 2.2251E-308 to 9.99999999999999E+307). Nearer to zero it would make a
// 0 of them.
const (
	leastPower = -307
	mostPower  = 306
)

// inRange looks at numbers that may be too large or too small for Excel: those
// with an exponent or hundreds of digits.
func inRange(v []byte) bool {
	mark := bytes.IndexByte(v, 'e')
	if mark < 0 {
		mark = bytes.IndexByte(v, 'E')
	}
	if mark < 0 && len(v) < mostPower {
		return true
	}
	if mark < 0 {
		mark = len(v)
	}
	power, zero := powerOf(v[:mark], v[min(mark+1, len(v)):])
	return zero || power >= leastPower && power <= mostPower
}

// powerOf is n for a number d.ddd… × 10ⁿ whose first digit is not 0.
func powerOf(mantissa, exponent []byte) (n int, zero bool) {
	mantissa = bytes.TrimPrefix(mantissa, []byte{'-'})
	first := bytes.IndexAny(mantissa, "123456789")
	if first < 0 {
		return 0, true
	}
	whole := bytes.IndexByte(mantissa, '.')
	if whole < 0 {
		whole = len(mantissa)
	}
	n = whole - 1 - first
	if first > whole {
		n++ // the mark is no digit
	}
	if len(exponent) > 0 {
		const most = 1_000_000 // far out of every range
		e, err := strconv.Atoi(string(exponent[:min(len(exponent), 8)]))
		if err != nil || e > most || e < -most {
			return most, false
		}
		n += e
	}
	return n, false
}

func (e *encoder) addBoolean(i int, row int64, v []byte) error {
	digit := byte('0')
	switch string(v) {
	case "t", "true":
		digit = '1'
	case "f", "false":
	default:
		return e.notes.Refuse(i, row, v, "is not a boolean")
	}
	e.begin(i, general)
	e.buf = append(e.buf, ` t="b"><v>`...)
	e.buf = append(e.buf, digit)
	e.buf = append(e.buf, `</v></c>`...)
	return nil
}

// maxScratch is the largest buffer that is kept for the next value.
const maxScratch = 1 << 20

func (e *encoder) addJSON(i int, row int64, v []byte) error {
	c := &e.columns[i]
	var ok, bounds bool
	if c.kind == arrayCell {
		e.scratch, bounds, ok = tabular.AppendArrayJSON(e.scratch[:0], v, c.elem)
	} else {
		e.scratch, ok = tabular.AppendJSON(e.scratch[:0], v)
	}
	if !ok {
		return e.notes.Refuse(i, row, v, "is not what PostgreSQL writes for the column's type")
	}
	if bounds {
		if err := e.notes.Add(i, tabular.NoteBounds, row); err != nil {
			return err
		}
	}
	err := e.addText(i, row, e.scratch, general)
	if cap(e.scratch) > maxScratch {
		e.scratch = nil
	}
	return err
}
