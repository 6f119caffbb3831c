package pdf

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"unicode"

	"github.com/fenceline/fenceline/jobs/invoice/typeset"
)

// Ink is a colour of the sRGB space as red, green and blue, a byte each: 0xRRGGBB.
type Ink uint32

// Page collects the drawing operators of one page. Its coordinates are points
// from the top left corner, y downwards, as one reads. It belongs to its
// [Document].
type Page struct {
	doc     *Document
	out     []byte
	ink     Ink // what the next shape is filled with; a page begins with black
	marks   []*Element
	pending []placedGlyph
	pen     pen
}

// Text draws one line with its baseline at y and its left edge at x. The text
// belongs to the element of the document's structure, or is decoration (a
// running title, say) when there is none.
func (p *Page) Text(x, y, size float64, ink Ink, line typeset.Line, of *Element) {
	if len(line.Runs) == 0 {
		return
	}
	p.fill(ink)
	p.begin(of)
	p.out = append(p.out, "BT "...)
	p.numbers(x, p.doc.height-y)
	p.out = append(p.out, "Td\n"...)
	p.pen = pen{size: size}
	for i := range line.Runs {
		p.run(&line.Runs[i])
	}
	p.closeArray()
	p.rise(0)
	p.out = append(p.out, "ET\nEMC\n"...)
}

// begin opens marked content (ISO 32000-1, 14.6).
func (p *Page) begin(of *Element) {
	if of == nil {
		p.out = append(p.out, "/Artifact BMC\n"...)
		return
	}
	p.out = append(p.out, '/')
	p.out = append(p.out, of.role...)
	p.out = append(p.out, "<</MCID "...)
	p.out = strconv.AppendInt(p.out, int64(len(p.marks)), 10)
	p.out = append(p.out, ">>BDC\n"...)
	of.contents = append(of.contents, mark{p, len(p.marks)})
	p.marks = append(p.marks, of)
}

// Rect fills a rectangle whose top left corner is at x, y.
func (p *Page) Rect(x, y, width, height float64, ink Ink) {
	p.out = append(p.out, "/Artifact BMC\n"...)
	p.fill(ink)
	p.numbers(x, p.doc.height-y-height, width, height)
	p.out = append(p.out, "re f\nEMC\n"...)
}

// Picture draws an image into a rectangle whose top left corner is at x, y.
// The alternative text is what is read aloud instead.
func (p *Page) Picture(x, y, width, height float64, image *Image, of *Element) {
	p.begin(of)
	p.out = append(p.out, "q "...)
	p.numbers(width, 0, 0, height, x, p.doc.height-y-height)
	p.out = append(p.out, "cm /"...)
	p.out = append(p.out, p.doc.imageName(image)...)
	p.out = append(p.out, " Do Q\nEMC\n"...)
}

func (p *Page) fill(ink Ink) {
	if p.ink == ink {
		return
	}
	p.ink = ink
	for shift := 16; shift >= 0; shift -= 8 {
		v := int64(ink>>shift&0xFF) * 1000 / 255
		p.out = append(p.out, '0'+byte(v/1000))
		if v < 1000 && v > 0 {
			p.out = append(p.out, '.', '0'+byte(v/100), '0'+byte(v/10%10), '0'+byte(v%10))
		}
		p.out = append(p.out, ' ')
	}
	p.out = append(p.out, "rg\n"...)
}

func (p *Page) numbers(values ...float64) {
	for _, v := range values {
		p.out = appendNumber(p.out, v)
		p.out = append(p.out, ' ')
	}
}

// pen is where a line of text has come to, in thousandths of the font size.
type pen struct {
	size float64
	at   float64 // where the next glyph belongs
	pdf  float64 // where a reader of the file would draw it
	font *fontUse
	rise float64
	open bool // an array of glyphs is open
}

type placedGlyph struct {
	id   uint16
	x, y float64
	mark bool // it stands over or under another
}

// run draws one run: each cluster alone, because text that comes back exactly
// is by cluster.
func (p *Page) run(r *typeset.Run) {
	f := p.doc.font(r.Font)
	if p.pen.font != f {
		p.closeArray()
		p.pen.font = f
		p.out = append(p.out, '/')
		p.out = append(p.out, f.res...)
		p.out = append(p.out, ' ')
		p.out = appendNumber(p.out, p.pen.size)
		p.out = append(p.out, " Tf\n"...)
	}
	scale := 1000 / float64(r.Font.UnitsPerEm)
	for i := 0; i < len(r.Glyphs); {
		end, from, to := r.Cluster(i)
		p.cluster(r, i, end, r.Text[from:to], scale)
		i = end
	}
}

func (p *Page) cluster(r *typeset.Run, start, end int, text []rune, scale float64) {
	p.pending = p.pending[:0]
	for _, g := range r.Glyphs[start:end] {
		x := p.pen.at + float64(g.XOffset)*scale
		y := float64(g.YOffset) * scale
		p.pending = append(p.pending, placedGlyph{g.ID, x, y, g.Advance == 0 || math.Abs(y) >= 0.5})
		p.pen.at += float64(g.Advance) * scale
	}
	switch {
	case len(text) == 1 && steersOnly(text[0]):
	case r.RTL && len(text) > 1:
		p.backwards(text)
	case end == start+1 && len(text) > 0 && p.pending[0].y == 0:
		p.glyph(p.pending[0], text)
	default:
		p.span(text)
	}
}

// backwards draws a cluster of several characters that are read from right to
// left. Programs turn the characters that they find on a page round one by one,
// and would turn two that share a glyph the wrong way: so the glyphs stand for
// the character at the left, and blanks at the right edge for the others.
func (p *Page) backwards(text []rune) {
	n := len(text) - 1
	if len(p.pending) == 1 {
		p.glyph(p.pending[0], text[n:])
	} else {
		p.span(text[n:])
	}
	for i := n - 1; i >= 0; i-- {
		p.glyph(placedGlyph{id: typeset.Blank, x: p.pen.at}, text[i:i+1])
	}
}

// steersOnly is true of characters that give text its direction and have no
// look: they have done their work.
func steersOnly(c rune) bool { return unicode.Is(unicode.Bidi_Control, c) }

// span draws the glyphs of one cluster and says what they stand for together
// (ISO 32000-1, 14.9.4). Programs take the place of that text from the first and
// the last glyph. So what stands over and under the line comes before, standing
// for nothing, and what stands on it follows from left to right. Programs that do
// not know such spans take the text from the first glyph on the line.
func (p *Page) span(text []rune) {
	slices.SortStableFunc(p.pending, func(a, b placedGlyph) int {
		if a.mark != b.mark {
			if a.mark {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.x, b.x)
	})
	marks := 0
	for marks < len(p.pending) && p.pending[marks].mark {
		marks++
	}
	switch rest := len(p.pending) - marks; {
	case rest == 0:
		p.mark(text, p.pending)
	case rest == 1:
		p.mark(nil, p.pending[:marks])
		p.glyph(p.pending[marks], text)
	default:
		if marks > 0 {
			p.mark(nil, p.pending[:marks])
		}
		p.mark(text, p.pending[marks:])
	}
}

// mark draws glyphs that stand for text together.
func (p *Page) mark(text []rune, glyphs []placedGlyph) {
	p.closeArray()
	p.out = append(p.out, "/Span<</ActualText<FEFF"...)
	p.out = appendText(p.out, text)
	p.out = append(p.out, ">>>BDC\n"...)
	for i, g := range glyphs {
		if i > 0 || len(text) == 0 {
			text = []rune{0x200B} // no width, and no word of its own
		}
		p.glyph(g, text)
	}
	p.closeArray()
	p.out = append(p.out, "EMC\n"...)
}

func (p *Page) glyph(g placedGlyph, text []rune) {
	id := p.pen.font.cid(g.id, text)
	p.rise(g.y)
	if !p.pen.open {
		p.out = append(p.out, '[')
		p.pen.open = true
	}
	if off := g.x - p.pen.pdf; math.Abs(off) >= 0.5 {
		move := math.Round(off)
		p.out = strconv.AppendInt(p.out, -int64(move), 10)
		p.pen.pdf += move
	}
	if n := len(p.out); p.out[n-1] == '>' {
		p.out = p.out[:n-1] // goes on in the same string
	} else {
		p.out = append(p.out, '<')
	}
	p.out = appendHex(p.out, id)
	p.out = append(p.out, '>')
	p.pen.pdf += float64(p.pen.font.cids[id].advance)
}

func (p *Page) closeArray() {
	if p.pen.open {
		p.out = append(p.out, "]TJ\n"...)
		p.pen.open = false
	}
}

// rise lifts the glyphs that follow off the baseline.
func (p *Page) rise(y float64) {
	if math.Abs(y-p.pen.rise) < 0.5 {
		return
	}
	p.closeArray()
	p.pen.rise = y
	p.out = appendNumber(p.out, y*p.pen.size/1000)
	p.out = append(p.out, " Ts\n"...)
}
