// Package svg draws pages as pictures (SVG 1.1) that need nothing else: no font
// is asked for, each glyph is its outline. They are for people who want to see a
// page before it is made. What is read aloud, selected or archived is the PDF.
package svg

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/fenceline/fenceline/jobs/invoice/pdf"
	"github.com/fenceline/fenceline/jobs/invoice/typeset"
)

// Page is one page in the making. Its coordinates are points from the top left
// corner, y downwards. It is not safe for concurrent use.
type Page struct {
	width, height float64
	outlines      []byte // of the glyphs in use
	ids           map[glyph]int
	body          []byte
}

type glyph struct {
	font *typeset.Font
	id   uint16
}

// NewPage begins a page of a size in points.
func NewPage(width, height float64) *Page {
	return &Page{width: width, height: height, ids: map[glyph]int{}}
}

// Text draws one line with its baseline at y and its left edge at x. The element
// that it belongs to has no meaning in a picture.
func (p *Page) Text(x, y, size float64, ink pdf.Ink, line typeset.Line, _ *pdf.Element) {
	for _, run := range line.Runs {
		scale := size / float64(run.Font.UnitsPerEm)
		p.printf(`<g fill="#%06X" transform="translate(%s %s) scale(%s)">`, uint32(ink), short(x), short(y), strconv.FormatFloat(scale, 'g', 6, 64))
		at := 0
		for _, g := range run.Glyphs {
			if id := p.outline(glyph{run.Font, g.ID}); id > 0 {
				p.printf(`<use href="#g%d" x="%d" y="%d"/>`, id, at+int(g.XOffset), -int(g.YOffset))
			}
			at += int(g.Advance)
		}
		p.body = append(p.body, "</g>\n"...)
		x += float64(at) * scale
	}
}

// outline gives a glyph's outline a number; 0 when it has no look.
func (p *Page) outline(g glyph) int {
	if id, known := p.ids[g]; known {
		return id
	}
	id := 0
	if path := g.font.AppendPath(nil, g.id); len(path) > 0 {
		id = len(p.ids) + 1
		p.outlines = fmt.Appendf(p.outlines, "<path id=\"g%d\" d=\"%s\"/>\n", id, path)
	}
	p.ids[g] = id
	return id
}

// Rect fills a rectangle whose top left corner is at x, y.
func (p *Page) Rect(x, y, width, height float64, ink pdf.Ink) {
	p.printf("<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"#%06X\"/>\n", short(x), short(y), short(width), short(height), uint32(ink))
}

// Picture draws an image into a rectangle whose top left corner is at x, y.
func (p *Page) Picture(x, y, width, height float64, image *pdf.Image, _ *pdf.Element) {
	mediaType, data := image.File()
	p.printf("<image x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" preserveAspectRatio=\"none\" href=\"data:%s;base64,%s\"/>\n",
		short(x), short(y), short(width), short(height), mediaType, base64.StdEncoding.EncodeToString(data))
}

// Bytes is the page as a file, white under what was drawn.
func (p *Page) Bytes() []byte {
	out := fmt.Appendf(nil, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %s %s\" width=\"%[1]spt\" height=\"%[2]spt\">\n", short(p.width), short(p.height))
	out = append(append(append(out, "<defs>\n"...), p.outlines...), "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>\n"...)
	return append(append(out, p.body...), "</svg>\n"...)
}

func (p *Page) printf(format string, args ...any) { p.body = fmt.Appendf(p.body, format, args...) }

// short is a number of points, exact to a thousandth.
func short(v float64) string {
	return strconv.FormatFloat(float64(int64(v*1000+0.5))/1000, 'f', -1, 64)
}
