package invoice

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fenceline/fenceline/jobs/invoice/pdf"
	"github.com/fenceline/fenceline/jobs/invoice/typeset"
)

// The palette beside the accent: dark ink, a quieter one for labels, hairlines.
const (
	inkText  pdf.Ink = 0x1C212B
	inkFaint pdf.Ink = 0x626A76
	inkLine  pdf.Ink = 0xD5DAE1
)

// Sizes of text and space, in points.
const (
	margin     = 50.0
	sizeText   = 9.0
	sizeSmall  = 7.5
	sectionGap = 24.0
	hairline   = 0.5
)

// layout builds the pages of one document. It has one owner.
type layout struct {
	flow
	doc         *Document
	sums        Totals
	entries     []entry // rows of the table
	words       *locale
	look        Style
	logo        *pdf.Image
	setter      *typeset.Setter
	left, right float64
	lineHeight  float64
	footer      []typeset.Line
	reported    map[string]bool // fields whose missing characters are counted
	complaints  []string
	missing     int
}

func newLayout(d *Document, look Style, logo *pdf.Image, with *worker) *layout {
	l := &layout{doc: d, sums: d.Totals(), words: d.locale(), look: look, logo: logo, setter: with.setter, reported: map[string]bool{}}
	l.setter.SetLanguage(l.words.tag)
	l.flow.width, l.flow.height = 595.28, 841.89
	if d.Paper == PaperLetter {
		l.flow.width, l.flow.height = 612, 792
	}
	with.out.Reset(l.flow.width, l.flow.height)
	l.out, l.mirrored = &with.out, l.words.rightToLeft
	l.sheet = func() canvas { return l.out.NewPage() }
	l.left, l.right = margin, l.flow.width-margin
	l.lineHeight = sizeText * l.words.leading
	if look.Footer != "" {
		l.footer = l.wrap("style.footer", look.Footer, l.faint(sizeSmall), l.right-l.left)
	}
	l.top, l.bottom = margin, l.flow.height-58
	if n := len(l.footer); n > 0 {
		l.bottom -= float64(n)*l.smallLine() + 6
	}
	return l
}

func (l *layout) plain(size float64) style  { return style{false, size, inkText} }
func (l *layout) faint(size float64) style  { return style{false, size, inkFaint} }
func (l *layout) strong(size float64) style { return style{true, size, inkText} }
func (l *layout) accent(size float64) style { return style{true, size, l.look.accentText()} }
func (l *layout) smallLine() float64        { return sizeSmall * l.words.leading }

// build puts every section on pages, then the footers, which need to know how
// many pages there are.
func (l *layout) build() {
	if l.look.Layout == LayoutModern {
		l.fresh = func(p canvas) { l.rect(p, rect{0, l.flow.width, 0, 7, l.look.accent()}, 0) }
	}
	l.newPage()
	if l.look.Layout == LayoutModern {
		l.modernOpening()
	} else {
		l.classicOpening()
	}
	l.charges()
	l.payment()
	l.notes()
	l.draw()
	for i, p := range l.pages {
		l.foot(p, i+1)
	}
}

// foot is the same on every page but for its number; it is not read aloud.
func (l *layout) foot(p canvas, number int) {
	y := l.flow.height - 30
	st := l.faint(sizeSmall)
	of := l.label(l.right, st, l.words.page(number, len(l.pages))).flushed(l.right)
	title := l.set("number", l.left, st, l.doc.Title()).fit(of.x - l.left - 12)
	l.rect(p, rect{l.left, l.right, 0, hairline, inkLine}, y-14)
	l.text(p, title, y)
	l.text(p, of, y)
	for i, line := range l.footer {
		above := float64(len(l.footer)-i-1) * l.smallLine()
		l.text(p, piece{x: l.left, st: st, line: line}, y-21-above)
	}
}

// set makes a piece of the text of a field; what no font has is counted.
func (l *layout) set(field string, x float64, st style, text string) piece {
	line := l.setter.Line(text, st.bold)
	l.count(field, text, line.Missing)
	return piece{x: x, st: st, line: line}
}

// label makes a piece of our own words.
func (l *layout) label(x float64, st style, text string) piece { return l.set("labels", x, st, text) }

// wrap breaks the text of a field into lines.
func (l *layout) wrap(field, text string, st style, width float64) []typeset.Line {
	lines := l.setter.Wrap(text, st.bold, width/st.size)
	if !l.reported[field] {
		var missing []rune
		for _, line := range lines {
			missing = append(missing, line.Missing...)
		}
		l.count(field, text, missing)
	}
	return lines
}

// paragraph wraps text into a column from x.
func (l *layout) paragraph(field string, x, width float64, st style, text string, of *pdf.Element) column {
	lines := l.wrap(field, text, st, width)
	c := make(column, len(lines))
	for i, line := range lines {
		c[i] = []piece{{x: x, st: st, line: line, of: of}}
	}
	return c
}

// flushRight wraps text into a column that ends at right.
func (l *layout) flushRight(field string, right, width float64, st style, text string, of *pdf.Element) column {
	c := l.paragraph(field, 0, width, st, text, of)
	for _, line := range c {
		line[0] = line[0].flushed(right)
	}
	return c
}

// flushed is the piece with its right edge there.
func (p piece) flushed(right float64) piece {
	p.x = right - p.width()
	return p
}

// fit is the piece made small enough to be no wider than width, which is at
// least a point.
func (p piece) fit(width float64) piece {
	if w, width := p.width(), max(width, 1); w > width {
		p.st.size *= width / w
	}
	return p
}

// as is the piece as a part of the document's structure.
func (p piece) as(of *pdf.Element) piece {
	p.of = of
	return p
}

// count notes characters without a glyph, once for each field.
func (l *layout) count(field, text string, missing []rune) {
	if len(missing) == 0 || l.reported[field] {
		return
	}
	l.reported[field] = true
	l.missing += len(missing)
	var kinds []rune
	for _, c := range missing {
		kinds = appendNew(kinds, c)
	}
	verb := "characters are"
	if len(missing) == 1 {
		verb = "character is"
	}
	l.complaints = append(l.complaints, fmt.Sprintf("%s: %d %s in no font: %s in %s", field, len(missing), verb, describe(kinds), excerpt(text)))
}

// missingWarnings are at most a screen full; the rest is counted.
func (l *layout) missingWarnings() []string {
	const most = 20
	if n := len(l.complaints); n > most {
		return append(l.complaints[:most:most], fmt.Sprintf("characters are in no font in %d more fields", n-most))
	}
	return l.complaints
}

func excerpt(text string) string {
	const most = 40
	if r := []rune(text); len(r) > most {
		text = string(r[:most-1]) + "…"
	}
	return strconv.Quote(strings.ToValidUTF8(text, ""))
}
