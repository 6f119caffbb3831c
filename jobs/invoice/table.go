package invoice

import (
	"strconv"
	"strings"
)

const (
	columnGap      = 14.0
	minDescription = 140.0
	maxUnitWidth   = 48.0
	rowPadding     = 4.2
)

// tableSizes are the text sizes that a table with numbers is tried in, until
// what is not a number has room enough too.
func tableSizes() []float64 { return []float64{sizeText, 8, 7, 6} }

// lineText is one line of the document as it is printed.
type lineText struct {
	position, description, quantity, unit, price, discount, tax, amount string
}

// lines is the table of what is charged.
func (l *layout) lines() {
	texts := l.lineTexts()
	var t lineTable
	for _, size := range tableSizes() {
		if t = l.fitTable(texts, size); t.descriptionWidth >= minDescription {
			break
		}
	}
	rows := make([][]strip, len(texts))
	for i, text := range texts {
		rows[i] = t.row(text)
	}
	l.table([]strip{t.head()}, rows)
	l.gap(14)
}

func (l *layout) lineTexts() []lineText {
	out := make([]lineText, len(l.doc.Lines))
	for i, line := range l.doc.Lines {
		t := lineText{
			position:    strconv.Itoa(i + 1),
			description: line.Description,
			quantity:    l.words.exact(line.Quantity, 0),
			unit:        line.Unit,
			price:       l.words.exact(line.UnitPrice, l.doc.Currency.Minor),
			tax:         l.words.percent(line.TaxRate),
			amount:      l.words.fixed(l.sums.Lines[i], l.doc.Currency.Minor),
		}
		if !line.DiscountPercent.IsZero() {
			t.discount = l.words.percent(line.DiscountPercent)
		}
		if line.TaxCategory != CategoryStandard {
			t.tax += " " + string(line.TaxCategory)
		}
		out[i] = t
	}
	return out
}

// numberColumn is a column whose numbers stand with their points one below the
// other.
type numberColumn struct {
	title  string
	group  string  // the sign between groups of digits
	right  float64 // right edge
	whole  float64 // widest part before the point
	rest   float64 // widest part from the point on
	header float64 // width of the title
}

func newNumberColumn(title, group string, heading style) numberColumn {
	return numberColumn{title: title, group: group, header: heading.width(title)}
}

func (c *numberColumn) width() float64 { return max(c.whole+c.rest, c.header) }
func (c *numberColumn) left() float64  { return c.right - c.width() }

// measure makes room for one number.
func (c *numberColumn) measure(st style, text string) {
	whole, rest := splitNumber(text, c.group)
	c.whole, c.rest = max(c.whole, st.width(whole)), max(c.rest, st.width(rest))
}

func (c *numberColumn) piece(st style, text string) piece {
	whole, _ := splitNumber(text, c.group)
	return at(c.right-c.rest-st.width(whole), st, text)
}

func (c *numberColumn) heading(st style) piece { return at(c.right-c.header, st, c.title) }

// splitNumber takes the digits before the point, with their groups and sign,
// from all that follows.
func splitNumber(s, group string) (whole, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && string(r) != group
	})
	if end < 0 {
		return s, ""
	}
	return s[:end], s[end:]
}

// lineTable is where the columns of the table stand at one text size.
type lineTable struct {
	l                *layout
	size             float64
	text, faint      style
	quantity, price  numberColumn
	discount, tax    numberColumn
	amount           numberColumn
	x                float64 // left edge of the descriptions
	descriptionWidth float64
	unitX, unitWidth float64
}

// fitTable measures every number and gives the descriptions what is left.
func (l *layout) fitTable(texts []lineText, size float64) lineTable {
	t := lineTable{l: l, size: size, text: l.plain(size), faint: l.faint(size)}
	head := l.faint(size - 1)
	column := func(title string) numberColumn { return newNumberColumn(title, l.words.groupSign, head) }
	t.quantity, t.price = column(l.words.quantity), column(l.words.price)
	t.tax, t.amount = column(l.words.tax), column(l.words.amount)
	positions := 0.0
	for _, text := range texts {
		positions = max(positions, t.faint.width(text.position))
		t.quantity.measure(t.text, text.quantity)
		t.price.measure(t.text, text.price)
		t.tax.measure(t.text, text.tax)
		t.amount.measure(t.text, text.amount)
		t.unitWidth = min(max(t.unitWidth, t.faint.width(text.unit)), maxUnitWidth)
		if text.discount != "" {
			if t.discount.title == "" {
				t.discount = column(l.words.discount)
			}
			t.discount.measure(t.text, text.discount)
		}
	}
	t.place(positions)
	return t
}

// place sets the columns from the right edge leftwards.
func (t *lineTable) place(positions float64) {
	right := t.l.right
	for _, c := range []*numberColumn{&t.amount, &t.tax, &t.discount, &t.price} {
		c.right = right
		if c.width() > 0 { // without discounts there is no such column
			right = c.left() - columnGap
		}
	}
	if t.unitWidth > 0 {
		t.unitWidth++ // what was measured must fit whatever the rounding
		t.unitX = right - t.unitWidth
		right = t.unitX - 4
	}
	t.quantity.right = right
	t.x = t.l.left + positions + 9
	t.descriptionWidth = t.quantity.left() - columnGap - t.x
}

func (t *lineTable) head() strip {
	st := t.l.faint(t.size - 1)
	s := strip{
		height: 18, baseline: 10,
		pieces: []piece{at(t.x, st, t.l.words.description)},
		rules:  []rule{{t.l.left, t.l.right, 17.2, 0.8, inkText}},
	}
	for _, c := range []*numberColumn{&t.quantity, &t.price, &t.discount, &t.tax, &t.amount} {
		s.pieces = append(s.pieces, c.heading(st))
	}
	return s
}

// row is one line of the document: its numbers beside the first line of its
// description.
func (t *lineTable) row(text lineText) []strip {
	first := []piece{at(t.l.left, t.faint, text.position)}
	numbers := []piece{t.price.piece(t.text, text.price)}
	if text.discount != "" {
		numbers = append(numbers, t.discount.piece(t.text, text.discount))
	}
	numbers = append(numbers, t.tax.piece(t.text, text.tax), t.amount.piece(t.text, text.amount))
	columns := []column{
		{first},
		paragraph(t.x, t.descriptionWidth, t.text, text.description),
		{{t.quantity.piece(t.text, text.quantity)}},
	}
	if text.unit != "" {
		columns = append(columns, paragraph(t.unitX, t.unitWidth, t.faint, text.unit))
	}
	strips := beside(t.size*1.38, append(columns, column{numbers})...)
	strips[0].height += rowPadding
	strips[0].baseline += rowPadding
	last := &strips[len(strips)-1]
	last.height += rowPadding
	last.rules = []rule{{t.l.left, t.l.right, last.height - hairline, hairline, inkLine}}
	return strips
}
