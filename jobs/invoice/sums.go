package invoice

import (
	"slices"

	"github.com/fenceline/fenceline/jobs/invoice/pdf"
)

// sumRow is one amount of the totals.
type sumRow struct {
	label, value string
	strong       bool
}

const minTaxName = 70.0

// totalsBlock are the taxes on the left and the sums on the right.
type totalsBlock struct {
	l      *layout
	strips []strip
	sums   int     // how many of the strips hold sums
	head   []strip // of the taxes
}

// totals sets the block at the largest size at which it fits.
func (l *layout) totals() *totalsBlock {
	var taxes taxTable
	var sums sumTable
	for _, size := range tableSizes() {
		sums = l.fitSums(size)
		if taxes = l.fitTaxes(size, sums.left-30); taxes.nameWidth >= minTaxName {
			break
		}
	}
	table := l.out.Root().Add(pdf.RoleTable)
	b := &totalsBlock{l: l, head: taxes.head(table.Add(pdf.RoleRow))}
	blocks, right := append([][]strip{b.head}, taxes.rows(table)...), sums.rows(l.out.Root().Add(pdf.RoleTable))
	readInTurn(append(blocks, right)...)
	left := slices.Concat(blocks...)
	b.strips, b.sums = make([]strip, max(len(left), len(right))), len(right)
	for i := range b.strips {
		s := strip{height: taxes.height, baseline: taxes.height * 0.7}
		if i < len(right) {
			s = right[i]
		}
		if i < len(left) {
			s.pieces = append(slices.Clone(left[i].pieces), s.pieces...)
			s.rects = append(slices.Clone(left[i].rects), s.rects...)
		}
		b.strips[i] = s
	}
	return b
}

// height is what must be on one page.
func (b *totalsBlock) height() float64 {
	if all := total(b.strips); all <= b.l.room() {
		return all
	}
	return total(b.strips[:b.sums])
}

// put keeps the sums together even when there are more taxes than a page can
// hold; then these go on below their head.
func (b *totalsBlock) put() {
	l := b.l
	if total(b.strips) <= l.room() {
		l.keep(b.strips)
		return
	}
	l.keep(b.strips[:b.sums])
	l.flow.head = decoration(b.head)
	for _, s := range b.strips[b.sums:] {
		l.keep([]strip{s})
	}
	l.flow.head = nil
}

// sumTable is the block of sums at one text size.
type sumTable struct {
	l      *layout
	size   float64
	list   []sumRow
	labels []piece
	values []piece
	left   float64
}

func (l *layout) sumRows() []sumRow {
	c := l.doc.Currency
	rows := append(l.adjustmentSums(),
		sumRow{label: l.words.net, value: l.words.money(l.sums.Net, c)},
		sumRow{label: l.words.taxTotal, value: l.words.money(l.sums.Tax, c)},
		sumRow{label: l.words.gross, value: l.words.money(l.sums.Gross, c)})
	if !l.sums.Prepaid.IsZero() {
		rows = append(rows, sumRow{label: l.words.prepaid, value: l.words.money(l.sums.Prepaid.Neg(), c)})
	}
	if !l.sums.Rounding.IsZero() {
		rows = append(rows, sumRow{label: l.words.terms().rounding, value: l.words.money(l.sums.Rounding, c)})
	}
	label := l.words.amountDue
	if l.doc.Type == TypeCreditNote {
		label = l.words.amountCredited
	}
	return append(rows, sumRow{label, l.words.money(l.sums.Due, c), true})
}

// adjustmentSums lead from the sum of the lines to the net total, where
// something stands between them.
func (l *layout) adjustmentSums() []sumRow {
	c, words := l.doc.Currency, l.words.terms()
	if len(l.doc.Allowances)+len(l.doc.Charges) == 0 {
		return nil
	}
	rows := []sumRow{{label: words.lineSum, value: l.words.money(l.sums.LineNet, c)}}
	if len(l.doc.Allowances) > 0 {
		rows = append(rows, sumRow{label: words.allowances, value: l.words.money(l.sums.AllowanceTotal.Neg(), c)})
	}
	if len(l.doc.Charges) > 0 {
		rows = append(rows, sumRow{label: words.charges, value: l.words.money(l.sums.ChargeTotal, c)})
	}
	return rows
}

func (l *layout) fitSums(size float64) sumTable {
	t := sumTable{l: l, size: size, list: l.sumRows()}
	labels, values := 0.0, 0.0
	for _, row := range t.list {
		label, value := l.faint(size), l.plain(size)
		if row.strong {
			value = l.accent(size + 2)
			if l.look.Layout == LayoutModern {
				value.ink = l.look.onAccent()
			}
			label = value
		}
		t.labels = append(t.labels, l.label(0, label, row.label))
		t.values = append(t.values, l.label(0, value, row.value))
		labels, values = max(labels, t.labels[len(t.labels)-1].width()), max(values, t.values[len(t.values)-1].width())
	}
	t.left = l.right - max(labels+values+24+2*t.inset(), 205)
	return t
}

func (t *sumTable) inset() float64 {
	if t.l.look.Layout == LayoutModern {
		return cellInset
	}
	return 0
}

func (t *sumTable) rows(table *pdf.Element) []strip {
	l := t.l
	out := make([]strip, len(t.list))
	for i, row := range t.list {
		height := t.size*l.words.leading + 3
		s := strip{height: height, baseline: height * 0.7}
		if row.strong {
			s.height = (t.size+2)*l.words.leading + 11
			s.baseline = s.height*0.5 + (t.size+2)*0.42
			s.rects = []rect{{t.left, l.right, 2, 1, l.look.accent()}}
			if l.look.Layout == LayoutModern {
				s.rects = []rect{{t.left, l.right, 3, s.height - 4, l.look.accent()}}
			}
			s.baseline++
		}
		label, value := t.labels[i], t.values[i].flushed(l.right-t.inset())
		label.x = t.left + t.inset()
		of := table.Add(pdf.RoleRow)
		s.pieces = []piece{label.as(of.Add(pdf.RoleHeader).ForRow()), t.align(value).as(of.Add(pdf.RoleCell))}
		out[i] = s
	}
	return out
}

// align keeps amounts below each other when the page is mirrored.
func (t *sumTable) align(value piece) piece {
	widest := 0.0
	for _, v := range t.values {
		widest = max(widest, v.width())
	}
	right := t.l.right - t.inset()
	return value.in(right-widest, right)
}

// taxTable is the tax summary at one text size.
type taxTable struct {
	l         *layout
	text      style
	heading   style
	height    float64
	names     []string
	base, tax numberColumn
	nameWidth float64
}

func (l *layout) fitTaxes(size, right float64) taxTable {
	t := taxTable{l: l, text: l.plain(size), heading: l.faint(size - 1), height: size*l.words.leading + 2}
	t.base = l.newNumberColumn(l.words.taxBase, t.heading)
	t.tax = l.newNumberColumn(l.words.taxAmount, t.heading)
	for _, g := range l.sums.Taxes {
		t.names = append(t.names, l.taxName(g))
		t.base.measure(l, t.text, l.words.fixed(g.Net, l.doc.Currency.Minor))
		t.tax.measure(l, t.text, l.words.fixed(g.Tax, l.doc.Currency.Minor))
	}
	t.nameWidth = min(130, right-l.left-t.base.width()-t.tax.width()-2*columnGap)
	t.base.right = l.left + t.nameWidth + columnGap + t.base.width()
	t.tax.right = t.base.right + columnGap + t.tax.width()
	return t
}

// taxName is the rate and, where the document gives one, the reason of an
// exemption.
func (l *layout) taxName(g TaxGroup) string {
	name := l.words.taxName(g.Category, g.Rate)
	for _, e := range l.doc.Exemptions {
		if e.Category == g.Category && e.Reason != "" {
			name += "\n" + l.words.isolated(e.Reason)
		}
	}
	return name
}

func (t *taxTable) head(row *pdf.Element) []strip {
	name := t.l.label(t.l.left, t.heading, t.l.words.taxRate).fit(t.nameWidth).as(row.Add(pdf.RoleHeader))
	return []strip{{height: t.height, baseline: t.height * 0.7,
		pieces: []piece{name, t.base.heading(row.Add(pdf.RoleHeader)), t.tax.heading(row.Add(pdf.RoleHeader))},
		rects:  []rect{{t.l.left, t.tax.right, t.height - hairline, hairline, inkLine}},
	}}
}

// rows are the strips of every tax group.
func (t *taxTable) rows(table *pdf.Element) [][]strip {
	var out [][]strip
	minor := t.l.doc.Currency.Minor
	for i, g := range t.l.sums.Taxes {
		row := table.Add(pdf.RoleRow)
		name := t.l.paragraph("labels", t.l.left, t.nameWidth, t.text, t.names[i], row.Add(pdf.RoleCell))
		numbers := column{{
			t.base.piece(t.l, t.text, t.l.words.fixed(g.Net, minor), row.Add(pdf.RoleCell)),
			t.tax.piece(t.l, t.text, t.l.words.fixed(g.Tax, minor), row.Add(pdf.RoleCell)),
		}}
		out = append(out, beside(t.height, name, numbers))
	}
	return out
}
