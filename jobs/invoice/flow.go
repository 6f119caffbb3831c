package invoice

// piece is text at its place: its left edge on the page, its style and the
// column that it is read in.
type piece struct {
	x      float64
	st     style
	text   string
	column int
}

// at is a piece in the first column.
func at(x float64, st style, text string) piece { return piece{x: x, st: st, text: text} }

// rule is a horizontal line within a strip, y below the strip's top.
type rule struct {
	x0, x1, y, thickness float64
	ink                  ink
}

// strip is one visual line across the page: the smallest thing that is put on a
// page as a whole.
type strip struct {
	height   float64
	baseline float64 // below the strip's top
	pieces   []piece
	rules    []rule
}

// flow puts strips on pages, one below the other, and begins a new page when
// one is full. Nothing that is put is ever left out.
type flow struct {
	paper  struct{ width, height float64 }
	top    float64 // where the first strip of a page goes
	bottom float64 // below this is the footer
	pages  []*page
	y      float64
	blank  bool     // nothing stands on the page yet but its head
	head   []strip  // what every new page begins with: the header of a running table
	placed []placed // on the last page, not drawn yet
}

// placed is a strip and where its top is.
type placed struct {
	strip
	y float64
}

func (f *flow) newPage() {
	f.draw()
	f.pages = append(f.pages, &page{height: f.paper.height})
	f.y = f.top
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
// head never stands alone at the foot of a page.
func (f *flow) table(head []strip, rows [][]strip) {
	if len(rows) == 0 {
		return
	}
	first := total(rows[0])
	if first > f.room()-total(head) { // it is broken anyway
		first = rows[0][0].height
	}
	f.reserve(total(head) + first)
	f.place(head)
	f.draw()
	f.head = head
	for _, row := range rows {
		f.keep(row)
	}
	f.head = nil
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

// draw writes what was placed, one column after the other: text is copied and
// read aloud in the order in which it is drawn, and a name that goes on over
// two lines should not have the column beside it in between.
func (f *flow) draw() {
	columns := 1
	for column := 0; column < columns; column++ {
		for _, s := range f.placed {
			p := f.pages[len(f.pages)-1]
			for _, t := range s.pieces {
				columns = max(columns, t.column+1)
				if t.column == column {
					p.text(t.x, s.y+s.baseline, t.st, t.text)
				}
			}
		}
	}
	for _, s := range f.placed {
		for _, r := range s.rules {
			f.pages[len(f.pages)-1].rule(r.x0, r.x1, s.y+r.y, r.thickness, r.ink)
		}
	}
	f.placed = f.placed[:0]
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

// beside sets columns next to each other, one strip per line.
func beside(height float64, columns ...column) []strip {
	var out []strip
	for number, c := range columns {
		for i, pieces := range c {
			if i == len(out) {
				out = append(out, strip{height: height, baseline: height * 0.76})
			}
			for _, p := range pieces {
				p.column = number
				out[i].pieces = append(out[i].pieces, p)
			}
		}
	}
	return out
}

// paragraph wraps text into a column from x.
func paragraph(x, width float64, st style, text string) column {
	var c column
	for _, line := range wrap(st, text, width) {
		c = append(c, []piece{at(x, st, line)})
	}
	return c
}

// flushRight wraps text into a column that ends at right.
func flushRight(right, width float64, st style, text string) column {
	c := paragraph(0, width, st, text)
	for _, line := range c {
		line[0].x = right - st.width(line[0].text)
	}
	return c
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
