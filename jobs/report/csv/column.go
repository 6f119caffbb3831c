package csv

import (
	"bytes"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// column knows how the values of a field are added; that is decided once.
type column struct {
	append  appender
	index   int // of the value in a row of the source
	field   int // in the layout
	elem    uint32
	style   *style
	notes   *tabular.Notes
	labels  map[string]string
	watch   *tabular.ClockWatch
	mark    byte // decimal
	quoted  bool // numbers with a mark must be
	humanly bool // the spreadsheet preset
	yes, no []byte
	scratch []byte // of JSON or a label
	guarded []byte
}

// appender adds a value that is not NULL.
type appender func(c *column, dst []byte, row int64, v []byte) ([]byte, error)

func newColumn(field int, l *tabular.Layout, locale tabular.Locale, s *style, notes *tabular.Notes) column {
	f := l.Fields[field]
	c := column{index: f.Index, field: field, elem: f.Elem, style: s, notes: notes, labels: f.Labels, mark: '.', humanly: l.Preset == tabular.Spreadsheet}
	c.yes, c.no = []byte("true"), []byte("false")
	if c.humanly {
		c.mark = locale.DecimalMark
		c.yes, _ = s.appendField(nil, []byte(locale.True))
		c.no, _ = s.appendField(nil, []byte(locale.False))
	}
	c.quoted = c.mark == s.delimiter
	c.append = c.choose(f)
	if c.humanly && f.Kind == tabular.Timestamp {
		c.watch = tabular.NewClockWatch(l.Zone)
	}
	return c
}

func (c *column) choose(f tabular.Field) appender {
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
		switch {
		case f.OID == tabular.OIDTimestampTZ && c.humanly:
			return (*column).wallClock
		case f.OID == tabular.OIDTimestampTZ:
			return (*column).instant
		case c.humanly:
			return (*column).localTime
		}
	case tabular.Date:
		if c.humanly {
			return (*column).text // for -infinity
		}
	case tabular.Text, tabular.Code:
		return (*column).text
	case tabular.Enum:
		if f.Labels != nil {
			return (*column).label
		}
		return (*column).text
	}
	return (*column).plain
}

func (c *column) boolean(dst []byte, row int64, v []byte) ([]byte, error) {
	switch string(v) {
	case "t", "true":
		return append(dst, c.yes...), nil
	case "f", "false":
		return append(dst, c.no...), nil
	}
	return dst, c.notes.Refuse(c.field, row, v, "is not t or f")
}

func (c *column) number(dst []byte, row int64, v []byte) ([]byte, error) {
	if !tabular.IsNumber(v) {
		if tabular.IsNoNumber(v) {
			return c.noNumber(dst, row, v)
		}
		return dst, c.notes.Refuse(c.field, row, v, "is not a number")
	}
	if err := c.countDigits(row, v); err != nil {
		return dst, err
	}
	if c.mark != '.' {
		return c.withMark(dst, v), nil
	}
	return append(dst, v...), nil
}

// noNumber is NaN or an infinity, or such a date or time: words to a spreadsheet,
// which takes -Infinity for a formula.
func (c *column) noNumber(dst []byte, row int64, v []byte) ([]byte, error) {
	if c.humanly {
		return c.text(dst, row, v)
	}
	return c.plain(dst, row, v)
}

// countDigits notes a number that Excel would round.
func (c *column) countDigits(row int64, v []byte) error {
	const excelDigits = 15
	if c.humanly && len(v) > excelDigits && tabular.SignificantDigits(v) > excelDigits {
		return c.notes.Add(c.field, tabular.NoteLongDigits, row)
	}
	return nil
}

// withMark adds a number or time with the locale's mark for its point.
func (c *column) withMark(dst, v []byte) []byte {
	point := bytes.IndexByte(v, '.')
	if point < 0 {
		return append(dst, v...)
	}
	if c.quoted {
		dst = append(dst, '"')
	}
	dst = append(dst, v[:point]...)
	dst = append(dst, c.mark)
	dst = append(dst, v[point+1:]...)
	if c.quoted {
		dst = append(dst, '"')
	}
	return dst
}

func (c *column) json(dst []byte, row int64, v []byte) ([]byte, error) {
	var ok bool
	if c.scratch, ok = tabular.AppendJSON(c.scratch[:0], v); !ok {
		return dst, c.notes.Refuse(c.field, row, v, "is not JSON in UTF-8")
	}
	return c.style.appendJSON(dst, c.scratch), nil
}

func (c *column) array(dst []byte, row int64, v []byte) ([]byte, error) {
	var bounds, ok bool
	if c.scratch, bounds, ok = tabular.AppendArrayJSON(c.scratch[:0], v, c.elem); !ok {
		return dst, c.notes.Refuse(c.field, row, v, "is not an array as PostgreSQL prints it, in UTF-8")
	}
	if bounds {
		if err := c.notes.Add(c.field, tabular.NoteBounds, row); err != nil {
			return dst, err
		}
	}
	return c.style.appendJSON(dst, c.scratch), nil
}

// instant is a timestamptz for programs.
func (c *column) instant(dst []byte, row int64, v []byte) ([]byte, error) {
	if long, ok := tabular.AppendRFC3339(dst, v); ok {
		return long, nil
	}
	return c.timeAsText(dst, row, v)
}

func (c *column) timeAsText(dst []byte, row int64, v []byte) ([]byte, error) {
	if err := c.notes.Add(c.field, tabular.NoteTimeAsText, row); err != nil {
		return dst, err
	}
	return c.noNumber(dst, row, v)
}

// wallClock is a timestamptz for people.
func (c *column) wallClock(dst []byte, row int64, v []byte) ([]byte, error) {
	clock, ok := tabular.CutOffset(v)
	if !ok {
		return c.timeAsText(dst, row, v)
	}
	if s, ok := tabular.ParseStamp(v); ok && c.watch.Ambiguous(s) {
		if err := c.notes.Add(c.field, tabular.NoteAmbiguousTime, row); err != nil {
			return dst, err
		}
	}
	return c.withMark(dst, clock), nil
}

// localTime is a timestamp for people.
func (c *column) localTime(dst []byte, row int64, v []byte) ([]byte, error) {
	if _, ok := tabular.ParseStamp(v); ok {
		return c.withMark(dst, v), nil
	}
	return c.noNumber(dst, row, v)
}

func (c *column) label(dst []byte, row int64, v []byte) ([]byte, error) {
	text, ok := c.labels[string(v)]
	if !ok {
		if err := c.notes.Add(c.field, tabular.NoteNoLabel, row); err != nil {
			return dst, err
		}
		return c.text(dst, row, v)
	}
	c.scratch = append(c.scratch[:0], text...)
	return c.text(dst, row, c.scratch)
}

// text is what a person may have typed.
func (c *column) text(dst []byte, row int64, v []byte) ([]byte, error) {
	if tabular.LooksLikeFormula(v) {
		return c.formula(dst, row, v)
	}
	if c.humanly && len(v) > 15 && v[0] <= '9' && tabular.IsNumber(v) {
		if err := c.countDigits(row, v); err != nil {
			return dst, err
		}
	}
	return c.plain(dst, row, v)
}

func (c *column) formula(dst []byte, row int64, v []byte) ([]byte, error) {
	if !c.humanly {
		if err := c.notes.Add(c.field, tabular.NoteFormula, row); err != nil {
			return dst, err
		}
		return c.plain(dst, row, v)
	}
	if err := c.notes.Add(c.field, tabular.NoteGuarded, row); err != nil {
		return dst, err
	}
	if c.style.scan(v)&classNUL != 0 || !utf8.Valid(v) { // before the refusal would show it guarded
		return dst, c.refuseText(row, v)
	}
	c.guarded = append(append(c.guarded[:0], '\''), v...)
	return c.plain(dst, row, c.guarded)
}

// plain is a value as it is.
func (c *column) plain(dst []byte, row int64, v []byte) ([]byte, error) {
	if len(v) == 0 && c.humanly {
		return dst, nil
	}
	dst, seen := c.style.appendField(dst, v)
	if seen&(classHigh|classNUL) != 0 {
		if seen&classNUL != 0 || !utf8.Valid(v) {
			return dst, c.refuseText(row, v)
		}
	}
	return dst, nil
}

func (c *column) refuseText(row int64, v []byte) error {
	return c.notes.Refuse(c.field, row, v, "is not UTF-8 text")
}
