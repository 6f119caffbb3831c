package invoice

import (
	"github.com/fenceline/fenceline/jobs/invoice/pdf"
	"github.com/fenceline/fenceline/jobs/invoice/typeset"
)

// piece is a line of text at its place: its left edge on a page that is read
// from left to right, its look, the column that it is read in and what it is
// part of. A piece in a box keeps its place within the box when the page is
// mirrored: so do numbers, which are read from left to right everywhere.
type piece struct {
	x          float64
	st         style
	line       typeset.Line
	column     int
	of         *pdf.Element
	boxed      bool
	boxL, boxR float64
}

func (p piece) width() float64 { return p.line.Width * p.st.size }

// in gives a piece its box.
func (p piece) in(left, right float64) piece {
	p.boxed, p.boxL, p.boxR = true, left, right
	return p
}

// style is how a piece of text looks.
type style struct {
	bold bool
	size float64 // points
	ink  pdf.Ink
}

// rect is a filled rectangle within a strip, y below the strip's top. What is
// thin is a line.
type rect struct {
	x0, x1, y, height float64
	ink               pdf.Ink
}

// strip is one visual line across the page: the smallest thing that is put on a
// page as a whole.
type strip struct {
	height   float64
	baseline float64 // below the strip's top
	pieces   []piece
	rects    []rect // under the text
	picture  *picture
}

// picture is an image whose top left corner is at the strip's top.
type picture struct {
	x, y, width, height float64
	image               *pdf.Image
	of                  *pdf.Element
}

// canvas is a page that can be drawn on: a PDF's, or a picture of it.
type canvas interface {
	Text(x, y, size float64, ink pdf.Ink, line typeset.Line, of *pdf.Element)
	Rect(x, y, width, height float64, ink pdf.Ink)
	Picture(x, y, width, height float64, image *pdf.Image, of *pdf.Element)
}

// flow puts strips on pages, one below the other, and begins a new page when
// one is full. Nothing that is put is ever left out.
type flow struct {
	out      *pdf.Document // what the parts of the document are told to
	sheet    func() canvas // gives a new page
	width    float64
	height   float64
	mirrored bool
	top      float64 // where the first strip of a page goes
	bottom   float64 // below this is the footer
	pages    []canvas
	y        float64
	blank    bool     // nothing stands on the page yet but its head
	head     []strip  // what every new page begins with: the header of a running table
	placed   []placed // on the last page, not drawn yet
	fresh    func(canvas)
}

// placed is a strip and where its top is.
type placed struct {
	strip
	y float64
}

func (f *flow) newPage() {
	f.draw()
	f.pages = append(f.pages, f.sheet())
	f.y = f.top
	if f.fresh != nil {
		f.fresh(f.pages[len(f.pages)-1])
	}
	f.place(f.head)
	f.draw()
	f.blank = true
}

// reserve begins a new page when less than height is left on this one.
func (f *flow) reserve(height float64) {
	if !f.blank && f.y+height > f.bottom {
		f.newPage()
	}
}

// gap leaves space before what follows, except at the top of a page.
func (f *flow) gap(height float64) {
	if !f.blank {
		f.y += height
	}
}

// keep puts strips on one page when one page can hold them; else they begin
// here and go on over the next pages.
func (f *flow) keep(strips []strip) {
	if need := total(strips); need <= f.room() {
		f.reserve(need)
	}
	for i, s := range strips {
		f.reserve(s.height)
		f.place(strips[i : i+1])
	}
	f.draw()
}

// table puts rows below a head that is repeated on every page they reach. The
// head never stands alone at the foot of a page, and the last row never leaves
// what follows the table alone on a page: after needs that much space below it.
func (f *flow) table(head []strip, rows [][]strip, after float64) {
	if len(rows) == 0 {
		return
	}
	need := func(i int) float64 {
		height := total(rows[i])
		if i == len(rows)-1 && height+after <= f.room() {
			height += after
		}
		return height
	}
	first := total(rows[0])
	if first > f.room()-total(head) { // it is broken anyway
		first = rows[0][0].height
	} else if first = need(0); first > f.room()-total(head) {
		first = total(rows[0])
	}
	f.reserve(total(head) + first)
	f.place(head)
	f.draw()
	f.head = decoration(head)
	for i, row := range rows {
		if height := need(i); height <= f.room() {
			f.reserve(height)
		}
		f.keep(row)
	}
	f.head = nil
}

// decoration is strips that are not read again.
func decoration(strips []strip) []strip {
	out := make([]strip, len(strips))
	for i, s := range strips {
		out[i] = s
		out[i].pieces = make([]piece, len(s.pieces))
		for n, p := range s.pieces {
			p.of = nil
			out[i].pieces[n] = p
		}
	}
	return out
}

// room is what an empty page can hold below its head.
func (f *flow) room() float64 { return f.bottom - f.top - total(f.head) }

// place gives strips their place on the page, one below the other.
func (f *flow) place(strips []strip) {
	for _, s := range strips {
		f.placed = append(f.placed, placed{s, f.y})
		f.y += s.height
		f.blank = false
	}
}

// draw writes what was placed: fills first, then text, one column after the
// other. Text is copied in the order in which it is drawn, and a name that goes
// on over two lines should not have the column beside it in between.
func (f *flow) draw() {
	if len(f.placed) == 0 {
		return
	}
	p := f.pages[len(f.pages)-1]
	columns := 1
	for _, s := range f.placed {
		for _, r := range s.rects {
			f.rect(p, r, s.y)
		}
		for _, t := range s.pieces {
			columns = max(columns, t.column+1)
		}
		if pic := s.picture; pic != nil {
			p.Picture(f.mirror(pic.x, pic.width), s.y+pic.y, pic.width, pic.height, pic.image, pic.of)
		}
	}
	for column := range columns {
		for _, s := range f.placed {
			for _, t := range s.pieces {
				if t.column == column {
					f.text(p, t, s.y+s.baseline)
				}
			}
		}
	}
	f.placed = f.placed[:0]
}

func (f *flow) rect(p canvas, r rect, y float64) {
	p.Rect(f.mirror(r.x0, r.x1-r.x0), y+r.y, r.x1-r.x0, r.height, r.ink)
}

func (f *flow) text(p canvas, t piece, y float64) {
	p.Text(f.at(t), y, t.st.size, t.st.ink, t.line, t.of)
}

// at is the left edge of a piece on the page as it is read.
func (f *flow) at(t piece) float64 {
	if t.boxed && f.mirrored {
		return t.x + f.width - t.boxL - t.boxR
	}
	return f.mirror(t.x, t.width())
}

// mirror is the left edge of what is that wide, on the page as it is read.
func (f *flow) mirror(x, width float64) float64 {
	if f.mirrored {
		return f.width - x - width
	}
	return x
}

func total(strips []strip) float64 {
	sum := 0.0
	for _, s := range strips {
		sum += s.height
	}
	return sum
}

// column is text lines of one column, to be set beside others.
type column [][]piece

// beside sets columns next to each other, one strip per line; a line with larger
// text is higher than height.
func beside(height float64, columns ...column) []strip {
	var out []strip
	for number, c := range columns {
		for i, pieces := range c {
			if i == len(out) {
				out = append(out, strip{height: height, baseline: height * 0.72})
			}
			for _, p := range pieces {
				p.column = number
				if h := 1.4 * p.st.size; h > out[i].height {
					out[i].height, out[i].baseline = h, h*0.72
				}
				out[i].pieces = append(out[i].pieces, p)
			}
		}
	}
	return out
}

// readInTurn makes blocks that are put on the page together read one after the
// other, each by its own columns: the rows of a table, not its columns.
func readInTurn(blocks ...[]strip) {
	next := 0
	for _, block := range blocks {
		first := next
		for _, s := range block {
			for i := range s.pieces {
				s.pieces[i].column += first
				next = max(next, s.pieces[i].column+1)
			}
		}
	}
}
