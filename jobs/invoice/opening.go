package invoice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs/invoice/pdf"
)

// classicOpening is a letterhead with the sender at the outer edge, then the
// customer beside the facts, then what this is.
func (l *layout) classicOpening() {
	root := l.out.Root()
	half := (l.right - l.left - 30) / 2
	from := l.party(root, "issuer", l.right-half, half, "", l.doc.Issuer, true)
	sender := beside(l.lineHeight, nil, from)
	if l.logo != nil {
		sender = l.withLogo(sender, l.left, half, 52, false)
	}
	l.keep(sender)
	l.gap(10)
	l.keep([]strip{{height: 1, rects: []rect{{l.left, l.right, 0, 1, l.look.accent()}}}})
	l.gap(22)
	to := l.party(root, "customer", l.left, half, l.words.to, l.doc.Customer, false)
	l.keep(beside(l.lineHeight, to, l.facts(root, l.right-half*0.86, l.right)))
	l.gap(20)
	l.titleLine(root, 19)
	l.gap(12)
}

// titleLine says what this is; a number that is too long goes on below.
func (l *layout) titleLine(root *pdf.Element, size float64) {
	l.keep(beside(size*l.words.leading, l.paragraph("number", l.left, l.right-l.left, l.accent(size), l.doc.Title(), root.Add(pdf.RoleTitle))))
}

// withLogo puts the logo beside strips, and adds space where it is higher.
func (l *layout) withLogo(strips []strip, x, width, height float64, flushRight bool) []strip {
	scale := min(width/float64(l.logo.Width), height/float64(l.logo.Height))
	w, h := float64(l.logo.Width)*scale, float64(l.logo.Height)*scale
	if flushRight {
		x += width - w
	}
	of := l.out.Root().Add(pdf.RoleFigure).Describe(l.doc.Issuer.Name)
	if missing := h - total(strips); missing > 0 {
		strips = append(strips, strip{height: missing})
	}
	strips[0].picture = &picture{x: x, width: w, height: h, image: l.logo, of: of}
	return strips
}

// modernOpening has the name of the document in large letters, and what matters
// most in a panel of its own.
func (l *layout) modernOpening() {
	root := l.out.Root()
	title := root.Add(pdf.RoleTitle)
	name := l.label(l.left, l.accent(27), documentLabel(l.words, l.doc.Type)).as(title)
	room := l.right - l.left
	if l.logo != nil {
		room -= 190
	}
	opening := []strip{{height: 27 * l.words.leading, baseline: 27, pieces: []piece{name.fit(room)}}}
	opening = append(opening, beside(15, l.paragraph("number", l.left, room, style{false, 11, inkFaint}, l.words.isolated(l.doc.Number), title))...)
	if l.logo != nil {
		opening = l.withLogo(opening, l.right-170, 170, 50, true)
	}
	l.keep(opening)
	l.gap(16)
	l.panel(root)
	l.gap(20)
	half := (l.right - l.left - 30) / 2
	l.keep(beside(l.lineHeight,
		l.party(root, "issuer", l.left, half, l.words.from, l.doc.Issuer, false),
		l.party(root, "customer", l.right-half, half, l.words.to, l.doc.Customer, false)))
	if more := l.moreFacts(); len(more) > 0 {
		l.gap(12)
		l.keep(beside(l.lineHeight, l.factTable(root, l.left, l.left+half, more)))
	}
	l.gap(sectionGap)
}

// panel shows the facts and the amount on a tinted ground.
func (l *layout) panel(root *pdf.Element) {
	const padding = 12.0
	due := l.label(0, l.accent(19), l.words.money(l.sums.Due, l.doc.Currency)).fit(l.right - l.left - 2*padding)
	caption := l.label(0, l.faint(sizeSmall), l.dueCaption()).fit((l.right - l.left) * 0.6)
	amountWidth := max(due.width(), caption.width())
	amount := root.Add(pdf.RoleParagraph)
	right := l.right - padding
	facts := l.factRows()
	width := (right - amountWidth - 20 - l.left - padding) / float64(len(facts))
	labels := []piece{caption.flushed(right).as(amount)}
	values := []piece{due.flushed(right).as(amount)}
	for i, f := range facts {
		x := l.left + padding + float64(i)*width
		of := root.Add(pdf.RoleParagraph)
		label := l.label(x, l.faint(sizeSmall), f.label).fit(width - 8).as(of)
		value := l.set(f.field, x, l.strong(10), f.value).fit(width - 8).as(of)
		labels, values = append(labels, label), append(values, value)
	}
	ground := tint(l.look.accent(), 9)
	height := 20 + 12*l.words.leading
	strips := []strip{
		{height: 20, baseline: 16, pieces: labels, rects: []rect{{l.left, l.right, 0, 20 + height + 4, ground}}},
		{height: height + 4, baseline: 21, pieces: values},
	}
	if width < 60 { // an amount of very many digits has the panel for itself
		strips[0].pieces, strips[1].pieces = labels[:1], values[:1]
		l.keep(strips)
		l.gap(10)
		l.keep(beside(l.lineHeight, l.facts(root, l.left, l.left+(l.right-l.left)/2)))
		return
	}
	l.keep(strips)
}

// fact is something about the document as a whole.
type fact struct{ field, label, value string }

// factRows are the facts without the number, which is in the title.
func (l *layout) factRows() []fact {
	rows := []fact{{"issue_date", l.words.issued, l.words.day(l.doc.IssueDate)}}
	if !l.doc.DueDate.IsZero() {
		rows = append(rows, fact{"due_date", l.words.due, l.words.day(l.doc.DueDate)})
	}
	if l.doc.Reference != "" {
		rows = append(rows, fact{"reference", l.words.credits, l.words.isolated(l.doc.Reference)})
	}
	return append(rows, fact{"currency", l.words.currency, l.doc.Currency.Code})
}

// dueCaption says what the amount in the panel is.
func (l *layout) dueCaption() string {
	switch {
	case l.doc.Type == TypeCreditNote:
		return l.words.amountCredited
	case l.sums.Due.IsPositive() && !l.doc.DueDate.IsZero():
		return fmt.Sprintf(l.words.amountDueBy, l.words.day(l.doc.DueDate))
	}
	return l.words.amountDue
}

// party is a block of who someone is. Outward, it ends at its right edge.
func (l *layout) party(root *pdf.Element, field string, x, width float64, heading string, p Party, outward bool) column {
	of := root.Add(pdf.RoleSection)
	block := func(field string, st style, text string, role pdf.Role) column {
		if outward {
			return l.flushRight(field, x+width, width, st, text, of.Add(role))
		}
		return l.paragraph(field, x, width, st, text, of.Add(role))
	}
	var c column
	name := l.strong(sizeText + 1)
	if heading != "" {
		c = block("labels", l.faint(sizeSmall), heading, pdf.RoleHeading)
	} else {
		name = l.accent(sizeText + 3)
	}
	c = append(c, block(field+".name", name, p.Name, pdf.RoleParagraph)...)
	if p.TradingName != "" {
		c = append(c, block(field+".trading_name", l.plain(sizeText), p.TradingName, pdf.RoleParagraph)...)
	}
	for i, line := range p.Address {
		c = append(c, block(index(field+".address", i), l.plain(sizeText), line, pdf.RoleParagraph)...)
	}
	if p.TaxID != "" {
		c = append(c, block(field+".tax_id", l.plain(sizeText), l.words.taxID+" "+l.words.isolated(p.TaxID), pdf.RoleParagraph)...)
	}
	if p.Email != "" {
		c = append(c, block(field+".email", l.plain(sizeText), p.Email, pdf.RoleParagraph)...)
	}
	for _, f := range l.moreOfParty(field, p) {
		c = append(c, block(f.field, l.plain(sizeText), f.value, pdf.RoleParagraph)...)
	}
	return c
}

// facts is a little table: a label on the left, its value on the right.
func (l *layout) facts(root *pdf.Element, left, right float64) column {
	rows := l.factRows()
	if l.look.Layout != LayoutModern {
		rows = slices.Insert(rows, 0, fact{"number", l.words.number, l.words.isolated(l.doc.Number)})
		rows = append(rows, l.moreFacts()...)
	}
	c := column{}
	if l.look.Layout != LayoutModern {
		c = append(c, nil) // beside the heading of the party
	}
	return append(c, l.factTable(root, left, right, rows)...)
}

// factTable is a label on the left and its value on the right in every row.
func (l *layout) factTable(root *pdf.Element, left, right float64, rows []fact) column {
	var c column
	table := root.Add(pdf.RoleTable)
	for _, f := range rows {
		row := table.Add(pdf.RoleRow)
		label := l.label(left, l.faint(sizeText), f.label).as(row.Add(pdf.RoleHeader).ForRow())
		value := l.flushRight(f.field, right, right-left-label.width()-10, l.plain(sizeText), f.value, row.Add(pdf.RoleCell))
		value[0] = append([]piece{label}, value[0]...)
		c = append(c, value...)
	}
	return c
}

// groupsOfFour writes an IBAN as ISO 13616 asks for on paper.
func groupsOfFour(s string) string {
	var groups []string
	for len(s) > 4 {
		groups = append(groups, s[:4])
		s = s[4:]
	}
	return strings.Join(append(groups, s), " ")
}
