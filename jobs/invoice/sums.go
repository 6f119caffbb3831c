package invoice

import "slices"

// sumRow is one amount of the totals.
type sumRow struct {
	label, value string
	strong       bool
}

const (
	sumHeight    = 15.0
	strongHeight = 23.0
	minTaxName   = 70.0
)

// totals are the taxes on the left and the sums on the right, on one page.
func (l *layout) totals() {
	var taxes taxTable
	var sums sumTable
	for _, size := range tableSizes() {
		sums = l.fitSums(size)
		if taxes = l.fitTaxes(size, sums.left-30); taxes.nameWidth >= minTaxName {
			break
		}
	}
	blocks, right := append([][]strip{taxes.head()}, taxes.rows()...), sums.rows()
	readInTurn(append(blocks, right)...)
	left := slices.Concat(blocks...)
	strips := make([]strip, max(len(left), len(right)))
	for i := range strips {
		strips[i] = strip{height: sumHeight, baseline: 10.5}
		if i < len(right) {
			strips[i] = right[i]
		}
		if i < len(left) {
			strips[i].pieces = append(left[i].pieces, strips[i].pieces...)
			strips[i].rules = append(left[i].rules, strips[i].rules...)
		}
	}
	l.keepSums(strips, len(right), taxes.head())
	l.gap(sectionGap)
}

// keepSums keeps the sums together even when there are more taxes than a page
// can hold; then these go on below their head.
func (l *layout) keepSums(strips []strip, sums int, head []strip) {
	if total(strips) <= l.room() {
		l.keep(strips)
		return
	}
	l.keep(strips[:sums])
	l.head = head
	for _, s := range strips[sums:] {
		l.keep([]strip{s})
	}
	l.head = nil
}

// sumTable is the block of sums at one text size.
type sumTable struct {
	l    *layout
	size float64
	list []sumRow
	left float64
}

func (l *layout) sumRows() []sumRow {
	c := l.doc.Currency
	rows := []sumRow{
		{label: l.words.net, value: l.words.money(l.sums.Net, c)},
		{label: l.words.taxTotal, value: l.words.money(l.sums.Tax, c)},
		{label: l.words.gross, value: l.words.money(l.sums.Gross, c)},
	}
	if !l.sums.Prepaid.IsZero() {
		rows = append(rows, sumRow{label: l.words.prepaid, value: l.words.money(l.sums.Prepaid.Neg(), c)})
	}
	label := l.words.amountDue
	if l.doc.Type == TypeCreditNote {
		label = l.words.amountCredited
	}
	return append(rows, sumRow{label, l.words.money(l.sums.Due, c), true})
}

func (l *layout) fitSums(size float64) sumTable {
	t := sumTable{l: l, size: size, list: l.sumRows()}
	labels, values := 0.0, 0.0
	for _, row := range t.list {
		labels = max(labels, t.style(row).width(row.label))
		values = max(values, t.style(row).width(row.value))
	}
	t.left = l.right - max(labels+values+24, 190)
	return t
}

func (t *sumTable) style(row sumRow) style {
	if row.strong {
		return t.l.strong(t.size + 1.5)
	}
	return t.l.plain(t.size)
}

func (t *sumTable) rows() []strip {
	out := make([]strip, len(t.list))
	for i, row := range t.list {
		st := t.style(row)
		label := t.l.faint(t.size)
		out[i] = strip{height: sumHeight, baseline: 10.5}
		if row.strong {
			label = st
			out[i].height, out[i].baseline = strongHeight, 17
			out[i].rules = []rule{{t.left, t.l.right, 3, 0.8, inkText}}
		}
		out[i].pieces = []piece{at(t.left, label, row.label), at(t.l.right-st.width(row.value), st, row.value)}
	}
	return out
}

// taxTable is the tax summary at one text size.
type taxTable struct {
	l         *layout
	text      style
	heading   style
	names     []string
	base, tax numberColumn
	nameWidth float64
}

func (l *layout) fitTaxes(size, right float64) taxTable {
	t := taxTable{l: l, text: l.plain(size), heading: l.faint(size - 1)}
	t.base = newNumberColumn(l.words.taxBase, l.words.groupSign, t.heading)
	t.tax = newNumberColumn(l.words.taxAmount, l.words.groupSign, t.heading)
	for _, g := range l.sums.Taxes {
		t.names = append(t.names, l.words.taxName(g.Category, g.Rate))
		t.base.measure(t.text, l.words.fixed(g.Net, l.doc.Currency.Minor))
		t.tax.measure(t.text, l.words.fixed(g.Tax, l.doc.Currency.Minor))
	}
	t.nameWidth = min(130, right-l.left-t.base.width()-t.tax.width()-2*columnGap)
	t.base.right = l.left + t.nameWidth + columnGap + t.base.width()
	t.tax.right = t.base.right + columnGap + t.tax.width()
	return t
}

func (t *taxTable) head() []strip {
	return []strip{{height: sumHeight, baseline: 10.5,
		pieces: []piece{at(t.l.left, t.heading, t.l.words.taxRate), t.base.heading(t.heading), t.tax.heading(t.heading)},
		rules:  []rule{{t.l.left, t.tax.right, sumHeight - hairline, hairline, inkLine}},
	}}
}

// rows are the strips of every tax group.
func (t *taxTable) rows() [][]strip {
	var out [][]strip
	minor := t.l.doc.Currency.Minor
	for i, g := range t.l.sums.Taxes {
		name := paragraph(t.l.left, t.nameWidth, t.text, t.names[i])
		numbers := column{{
			t.base.piece(t.text, t.l.words.fixed(g.Net, minor)),
			t.tax.piece(t.text, t.l.words.fixed(g.Tax, minor)),
		}}
		out = append(out, beside(sumHeight, name, numbers))
	}
	return out
}
