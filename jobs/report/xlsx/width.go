package xlsx

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// Widths of columns, in characters. What is wider is there all the same: Excel
// shows more when a person widens the column.
const (
	narrowest  = 6
	broadest   = 60
	mostWidth  = 255 // that Excel can do
	filterRoom = 3   // for the button of the filter in the header, and for bold
)

// shownWidth is the width that the column gets.
func (c *column) shownWidth() int {
	if c.width > 0 {
		return min(c.width, mostWidth)
	}
	return min(max(c.widest+1, textWidth(c.label)+filterRoom, narrowest), broadest)
}

// measure notes how wide a value of the column is, about.
func (c *column) measure(v []byte) {
	if c.widest < broadest {
		c.widest = max(c.widest, c.valueWidth(v))
	}
}

func (c *column) valueWidth(v []byte) int {
	switch c.kind {
	case booleanCell:
		return len("FALSE")
	case dateCell:
		return len("2026-01-31")
	case timeCell:
		if bytes.IndexByte(v, '.') >= 0 {
			return len("2026-01-31 09:30:00.000")
		}
		return len("2026-01-31 09:30:00")
	case numberCell:
		return c.numberWidth(v)
	case labelCell:
		if label, ok := c.labels[string(v)]; ok {
			return textWidth([]byte(label))
		}
	}
	return textWidth(v)
}

// setNumberWidth takes from a number format what surrounds the digits.
func (c *column) setNumberWidth(f *tabular.Field, format string) {
	c.grouped = strings.HasPrefix(format, "#,")
	switch f.Kind {
	case tabular.Percent:
		c.around = len("%")
	case tabular.Money:
		if f.Currency != "" {
			c.around = len(" ") + len(f.Currency)
		}
	}
	if format != formatGeneral && !strings.Contains(format, "#%") {
		c.decimals = strings.Count(strings.TrimPrefix(format, "#,##"), "0") - 1
	}
}

func (c *column) numberWidth(v []byte) int {
	whole, n := bytes.IndexByte(v, '.'), len(v)
	if whole < 0 {
		whole = n
	}
	if c.decimals == 0 {
		n = whole
	} else if c.decimals > 0 {
		n = whole + 1 + c.decimals
	}
	if c.grouped {
		n += (whole - 1) / 3
	}
	return n + c.around
}

// textWidth is the width of the longest line of a text: East Asian characters
// count twice, marks that sit on others not at all.
func textWidth(v []byte) int {
	widest, line := 0, 0
	for len(v) > 0 && widest < broadest {
		r, n := utf8.DecodeRune(v)
		v = v[n:]
		switch {
		case r == '\n':
			line = 0
			continue
		case r < utf8.RuneSelf:
			line++
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		default:
			line++
			if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
				line++
			}
		}
		widest = max(widest, line)
	}
	return widest
}
