package invoice

import (
	"slices"

	"github.com/shopspring/decimal"

	"github.com/fenceline/fenceline/jobs/invoice/pdf"
)

const (
	columnGap      = 14.0
	minDescription = 140.0
	maxUnitWidth   = 48.0
	rowPadding     = 4.2
	cellInset      = 7.0 // of tables with filled heads
)

// tableSizes are the text sizes that a table with numbers is tried in, until
// what is not a number has room enough too.
func tableSizes() []float64 { return []float64{sizeText, 8, 7, 6} }

// lineText is one line of the document as it is printed. A number without text
// is not printed.
type lineText struct {
	position, quantity, price, discount, tax, amount number
}

// charges is the table of what is charged, with the sums below it.
func (l *layout) charges() {
	l.entries = l.tableEntries()
	texts := l.lineTexts()
	var t lineTable
	for _, size := range tableSizes() {
		if t = l.fitTable(texts, size); t.descriptionWidth >= minDescription {
			break
		}
	}
	table := l.out.Root().Add(pdf.RoleTable)
	head := []strip{t.head(table.Add(pdf.RoleRow))}
	rows := make([][]strip, len(texts))
	for i := range texts {
		rows[i] = t.row(i, table.Add(pdf.RoleRow))
	}
	sums := l.totals()
	l.table(head, rows, 14+sums.height())
	l.gap(14)
	sums.put()
	l.gap(sectionGap)
}

func (l *layout) lineTexts() []lineText {
	out := make([]lineText, len(l.doc.Lines), len(l.entries))
	for i, line := range l.doc.Lines {
		t := lineText{amount: l.words.fixed(l.sums.Lines[i], l.doc.Currency.Minor)}
		if l.look.shows(ColumnPosition) {
			t.position = number{text: l.words.count(i + 1)}
		}
		if l.look.shows(ColumnQuantity) {
			t.quantity = l.words.exact(line.Quantity, 0)
		}
		if l.look.shows(ColumnPrice) {
			t.price = l.words.exact(line.UnitPrice, l.doc.Currency.Minor)
		}
		if l.look.shows(ColumnDiscount) && !line.DiscountPercent.IsZero() {
			t.discount = l.words.percent(line.DiscountPercent)
		}
		if l.look.shows(ColumnTax) {
			t.tax = l.taxText(line.TaxRate, line.TaxCategory)
		}
		out[i] = t
	}
	for _, e := range l.entries[len(l.doc.Lines):] {
		t := lineText{amount: l.words.fixed(e.amount, l.doc.Currency.Minor)}
		if l.look.shows(ColumnTax) {
			t.tax = l.taxText(e.rate, e.category)
		}
		out = append(out, t)
	}
	return out
}

// taxText is a rate and, where it is not the standard one, its category.
func (l *layout) taxText(rate decimal.Decimal, c Category) number {
	n := l.words.percent(rate)
	if c != CategoryStandard {
		n.text += " " + string(c)
	}
	return n
}

// numberColumn is a column whose numbers stand with their points one below the
// other.
type numberColumn struct {
	title string
	head  piece   // the title, set
	right float64 // right edge
	whole float64 // widest part before the point
	rest  float64 // widest part from the point on
	used  bool
}

func (l *layout) newNumberColumn(title string, heading style) numberColumn {
	return numberColumn{title: title, head: l.label(0, heading, title)}
}

func (c *numberColumn) width() float64 {
	if !c.used {
		return 0
	}
	return max(c.whole+c.rest, c.head.width())
}

func (c *numberColumn) left() float64 { return c.right - c.width() }

// measure makes room for one number.
func (c *numberColumn) measure(l *layout, st style, n number) {
	if n.text == "" {
		return
	}
	whole := l.label(0, st, n.whole).width()
	rest := l.label(0, st, n.text).width() - whole
	c.used, c.whole, c.rest = true, max(c.whole, whole), max(c.rest, rest)
}

func (c *numberColumn) piece(l *layout, st style, n number, of *pdf.Element) piece {
	whole := l.label(0, st, n.whole).width()
	p := l.label(c.right-c.rest-whole, st, n.text).as(of)
	return p.in(c.left(), c.right)
}

func (c *numberColumn) heading(of *pdf.Element) piece {
	return c.head.flushed(c.right).in(c.left(), c.right).as(of)
}

// lineTable is where the columns of the table stand at one text size.
type lineTable struct {
	l                  *layout
	texts              []lineText
	size               float64
	text, faint, title style
	quantity, price    numberColumn
	discount, tax      numberColumn
	amount             numberColumn
	left, right        float64 // of what is written
	x                  float64 // left edge of the descriptions
	descriptionWidth   float64
	unitX, unitWidth   float64
}

// fitTable measures every number and gives the descriptions what is left.
func (l *layout) fitTable(texts []lineText, size float64) lineTable {
	t := lineTable{l: l, texts: texts, size: size, text: l.plain(size), faint: l.faint(size), title: l.faint(size - 1),
		left: l.left, right: l.right}
	if l.look.Layout == LayoutModern {
		t.title = style{true, size - 1, l.look.onAccent()}
		t.left, t.right = l.left+cellInset, l.right-cellInset
	}
	w := l.words
	t.quantity, t.price = l.newNumberColumn(w.quantity, t.title), l.newNumberColumn(w.price, t.title)
	t.discount, t.tax = l.newNumberColumn(w.discount, t.title), l.newNumberColumn(w.tax, t.title)
	t.amount = l.newNumberColumn(w.amount, t.title)
	positions := 0.0
	for i, text := range texts {
		positions = max(positions, l.label(0, t.faint, text.position.text).width())
		t.quantity.measure(l, t.text, text.quantity)
		t.price.measure(l, t.text, text.price)
		t.discount.measure(l, t.text, text.discount)
		t.tax.measure(l, t.text, text.tax)
		t.amount.measure(l, t.text, text.amount)
		if unit := l.entries[i].unit; unit != "" && text.quantity.text != "" {
			t.unitWidth = min(max(t.unitWidth, l.set(unitField(i), 0, t.faint, unit).width()), maxUnitWidth)
		}
	}
	t.place(positions)
	return t
}

func unitField(i int) string { return index("lines", i) + ".unit" }

// place sets the columns from the right edge leftwards.
func (t *lineTable) place(positions float64) {
	right := t.right
	for _, c := range []*numberColumn{&t.amount, &t.tax, &t.discount, &t.price} {
		c.right = right
		if c.used {
			right = c.left() - columnGap
		}
	}
	if t.unitWidth > 0 {
		t.unitWidth++ // what was measured must fit whatever the rounding
		t.unitX = right - t.unitWidth
		right = t.unitX - 4
	}
	t.quantity.right = right
	if t.x = t.left; positions > 0 {
		t.x += positions + 9
	}
	t.descriptionWidth = t.quantity.left() - columnGap - t.x
}

func (t *lineTable) head(row *pdf.Element) strip {
	l := t.l
	s := strip{height: t.title.size*l.words.leading + 8, rects: []rect{{l.left, l.right, 0, 0.8, inkText}}}
	s.rects[0].y = s.height - 0.8
	s.baseline = s.height * 0.58
	if l.look.Layout == LayoutModern {
		s.height += 3
		s.baseline = s.height * 0.62
		s.rects[0] = rect{l.left, l.right, 0, s.height, l.look.accent()}
	}
	s.pieces = append(s.pieces, l.label(t.x, t.title, l.words.description).as(row.Add(pdf.RoleHeader)))
	for _, c := range []*numberColumn{&t.quantity, &t.price, &t.discount, &t.tax, &t.amount} {
		if c.used {
			s.pieces = append(s.pieces, c.heading(row.Add(pdf.RoleHeader)))
		}
	}
	return s
}

// row is one line of the document: its numbers beside the first line of its
// description.
func (t *lineTable) row(i int, of *pdf.Element) []strip {
	l, text, entry := t.l, t.texts[i], t.l.entries[i]
	cell := of.Add(pdf.RoleCell)
	description := l.paragraph(entry.field, t.x, t.descriptionWidth, t.text, entry.text, cell)
	columns := []column{nil, description, nil, nil, {nil}}
	if text.position.text != "" {
		columns[0] = column{{l.label(t.left, t.faint, text.position.text).as(cell)}}
	}
	if text.quantity.text != "" {
		cell = of.Add(pdf.RoleCell)
		columns[2] = column{{t.quantity.piece(l, t.text, text.quantity, cell)}}
		if entry.unit != "" {
			columns[3] = l.paragraph(unitField(i), t.unitX, t.unitWidth, t.faint, entry.unit, cell)
		}
	}
	for _, c := range []struct {
		column *numberColumn
		number number
	}{{&t.price, text.price}, {&t.discount, text.discount}, {&t.tax, text.tax}, {&t.amount, text.amount}} {
		if !c.column.used {
			continue
		}
		cell = of.Add(pdf.RoleCell)
		if c.number.text != "" {
			columns[4][0] = append(columns[4][0], c.column.piece(l, t.text, c.number, cell))
		}
	}
	return t.dress(i, beside(t.size*l.words.leading, columns...))
}

// dress gives a row its space and its ground.
func (t *lineTable) dress(i int, strips []strip) []strip {
	l := t.l
	strips[0].height += rowPadding
	strips[0].baseline += rowPadding
	last := &strips[len(strips)-1]
	last.height += rowPadding
	if l.look.Layout != LayoutModern {
		last.rects = []rect{{l.left, l.right, last.height - hairline, hairline, inkLine}}
		return strips
	}
	if i%2 == 1 {
		ground := tint(l.look.accent(), 5)
		for n := range strips {
			strips[n].rects = slices.Insert(strips[n].rects, 0, rect{l.left, l.right, 0, strips[n].height + 0.2, ground})
		}
	}
	return strips
}
