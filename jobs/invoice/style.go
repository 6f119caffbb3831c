package invoice

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fenceline/fenceline/jobs/invoice/pdf"
)

// The built-in layouts.
const (
	LayoutClassic = "classic" // a letter: sender above, ruled table
	LayoutModern  = "modern"  // a band of colour, the amount due in a panel, filled table head
)

// Columns that a style may leave out. The description and the amount are always
// there, and the discount only in documents that have one.
const (
	ColumnPosition = "position"
	ColumnQuantity = "quantity" // with its unit
	ColumnPrice    = "unit_price"
	ColumnDiscount = "discount"
	ColumnTax      = "tax"
)

// Style is how documents of one issuer look. The zero value is the classic
// layout in its own colour with all columns. It is read only once it is in use.
type Style struct {
	Layout  string     // LayoutClassic, also when empty, or LayoutModern
	Accent  pdf.Ink    // colour of titles and fills; 0 takes the layout's own
	Footer  string     // small print at the foot of every page, up to 4 lines
	Columns []string   // those of the table beside description and amount; nil takes all
	Logo    *pdf.Image // for documents without a logo of their own; may be nil
}

// ParseStyle reads a style from JSON:
//
//	{"layout": "modern", "accent": "#0F5C5C", "footer": "Registered in …",
//	 "columns": ["quantity", "unit_price", "tax"], "logo": "<base64 of a PNG or JPEG file>"}
//
// Every field may be left out. It is as strict as [Parse], and its errors are
// [*invalid.Error] too, with paths such as "columns[1]".
func ParseStyle(raw []byte) (Style, error) {
	r, err := newReader(raw)
	if err != nil {
		return Style{}, err
	}
	var s Style
	r.object("", r.next(), []field{
		{"layout", false, func(p string, t json.Token) { s.Layout = r.choice(p, t, LayoutClassic, LayoutModern) }},
		{"accent", false, func(p string, t json.Token) { s.Accent = r.colour(p, t) }},
		{"footer", false, func(p string, t json.Token) { s.Footer = r.prose(p, t, maxFooter, maxFooterLines) }},
		{"columns", false, func(p string, t json.Token) {
			s.Columns = []string{}
			r.list(p, t, len(styleColumns()), func(p string, t json.Token) {
				s.Columns = append(s.Columns, r.choice(p, t, styleColumns()...))
			})
		}},
		{"logo", false, func(p string, t json.Token) { _, s.Logo = r.picture(p, t) }},
	})
	if err := r.err(); err != nil {
		return Style{}, err
	}
	return s, nil
}

const (
	maxFooter      = 400
	maxFooterLines = 4
)

func styleColumns() []string {
	return []string{ColumnPosition, ColumnQuantity, ColumnPrice, ColumnDiscount, ColumnTax}
}

// check says what is wrong with a style that was made by hand.
func (s Style) check() error {
	if s.Layout != "" && s.Layout != LayoutClassic && s.Layout != LayoutModern {
		return fmt.Errorf("style: layout %q is not known; it can be %s or %s", s.Layout, LayoutClassic, LayoutModern)
	}
	if s.Accent > 0xFFFFFF {
		return fmt.Errorf("style: accent %#x is not a colour; it has a byte each of red, green and blue", uint32(s.Accent))
	}
	for _, c := range s.Columns {
		if !slices.Contains(styleColumns(), c) {
			return fmt.Errorf("style: column %q is not known; it can be %s", c, strings.Join(styleColumns(), ", "))
		}
	}
	if strings.Count(s.Footer, "\n") >= maxFooterLines {
		return fmt.Errorf("style: footer has more than %d lines", maxFooterLines)
	}
	return nil
}

func (s Style) shows(column string) bool {
	return s.Columns == nil || slices.Contains(s.Columns, column)
}

// accent is the colour of titles.
func (s Style) accent() pdf.Ink {
	switch {
	case s.Accent != 0:
		return s.Accent
	case s.Layout == LayoutModern:
		return 0x0B5563
	}
	return 0x22344D
}

// tint is a colour mixed with white; share is how much of it stays, in percent.
func tint(c pdf.Ink, share uint32) pdf.Ink {
	var out pdf.Ink
	for shift := 16; shift >= 0; shift -= 8 {
		v := uint32(c>>shift) & 0xFF
		out |= pdf.Ink((v*share+255*(100-share)+50)/100) << shift
	}
	return out
}

// onAccent is white, or dark ink where white could not be read on the accent.
func (s Style) onAccent() pdf.Ink {
	if s.pale() {
		return inkText
	}
	return 0xFFFFFF
}

// accentText is the accent as the colour of text on the page, or dark ink where
// that could not be read: the amount due is among what is set in it.
func (s Style) accentText() pdf.Ink {
	if s.pale() {
		return inkText
	}
	return s.accent()
}

// pale tells whether accent and white have a contrast below about 3 to 1 (WCAG
// 2.2, 1.4.3, large text).
func (s Style) pale() bool {
	c := s.accent()
	return (2126*uint32(c>>16&0xFF)+7152*uint32(c>>8&0xFF)+722*uint32(c&0xFF))/10000 > 160
}

// colour reads "#RRGGBB".
func (r *reader) colour(path string, tok json.Token) pdf.Ink {
	text, ok := tok.(string)
	if !ok {
		r.refuse(path, tok, `a colour in quotes, such as "#0F5C5C"`)
		return 0
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(text, "#"), 16, 32)
	if err != nil || len(text) != 7 || text[0] != '#' {
		r.add(path, text, `is not a colour; write two hexadecimal digits each for red, green and blue, such as "#0F5C5C"`)
		return 0
	}
	return max(pdf.Ink(v), 1) // black, and not the layout's own
}
