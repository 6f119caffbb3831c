package xlsx

import (
	"fmt"
	"regexp"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// cellKind is how the values of a column become cells.
type cellKind int

const (
	textCell cellKind = iota
	labelCell
	numberCell
	booleanCell
	dateCell
	timeCell
	jsonCell
	arrayCell
)

// column is a field with what its cells need.
type column struct {
	index    int // of the value in a row
	kind     cellKind
	letters  string // A … XFD
	open     []byte // `<c r="A`
	label    []byte
	style    attribute
	fraction attribute // of times that have more than seconds
	double   bool      // the source's numbers are IEEE 754 doubles, as Excel's are
	zoned    bool      // timestamptz
	codes    bool      // text that may look like a number
	elem     uint32
	labels   map[string]string

	width    int // as the report says; 0 is as wide as the widest
	widest   int // of the values seen, in characters
	decimals int // shown behind the mark; -1 when that differs
	around   int // characters around a number's digits, such as a currency's code
	grouped  bool
}

func newColumns(l *tabular.Layout) ([]column, *styles, error) {
	columns, s, problems := make([]column, len(l.Fields)), new(styles), new(invalid.Error)
	for i := range l.Fields {
		f := &l.Fields[i]
		if f.Kind == tabular.Money && f.Currency != "" && !isCurrency(f.Currency) {
			problems.Add("columns."+f.Key+".currency", f.Currency, "is no currency: use a code of ISO 4217, such as EUR")
		}
		columns[i] = newColumn(i, f, l.Zone, s)
	}
	return columns, s, problems.OrNil()
}

func isCurrency(code string) bool {
	ok, _ := regexp.MatchString(`^[A-Z]{3}$`, code)
	return ok
}

func newColumn(i int, f *tabular.Field, zone *time.Location, s *styles) column {
	c := column{index: f.Index, letters: letters(i), style: general, label: []byte(f.Label), elem: f.Elem, width: f.Width, decimals: -1}
	c.open = fmt.Appendf(nil, `<c r="%s`, c.letters)
	switch f.Kind {
	case tabular.Integer, tabular.Decimal, tabular.Money, tabular.Percent:
		c.kind = numberCell
		c.double = f.OID == tabular.OIDFloat4 || f.OID == tabular.OIDFloat8
		format := numberFormat(f)
		c.style = s.attribute(format)
		c.setNumberWidth(f, format)
	case tabular.Boolean:
		c.kind = booleanCell
	case tabular.Date:
		c.kind, c.style = dateCell, s.attribute(dateFormat)
	case tabular.Timestamp:
		c.kind, c.style, c.fraction = timeCell, s.attribute(secondFormat), s.attribute(fractionFormat)
		if c.zoned = f.OID == tabular.OIDTimestampTZ; c.zoned {
			c.label = fmt.Appendf(nil, "%s (%s)", f.Label, zoneName(zone))
		}
	case tabular.JSON:
		c.kind = jsonCell
		if f.Elem != 0 {
			c.kind = arrayCell
		}
	case tabular.Code:
		c.style, c.codes = asText, true
	case tabular.Enum:
		c.codes = true
		if c.labels = f.Labels; c.labels != nil {
			c.kind = labelCell
		}
	default:
		c.codes = true
	}
	return c
}

// letters is the name of the column at an index: A, B, … Z, AA … XFD.
func letters(i int) string {
	var b [3]byte
	at := len(b)
	for i++; i > 0; i = (i - 1) / 26 {
		at--
		b[at] = byte('A' + (i-1)%26)
	}
	return string(b[at:])
}

func zoneName(zone *time.Location) string {
	if zone == nil {
		return "UTC"
	}
	if name := zone.String(); name != "" {
		return name
	}
	return time.Time{}.In(zone).Format("UTC-07:00") // a zone that is nothing but an offset
}
