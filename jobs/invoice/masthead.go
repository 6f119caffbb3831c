package invoice

import "fmt"

// masthead says what this is and how much it is about.
func (l *layout) masthead() {
	title, amount := l.strong(25), l.strong(18)
	name := documentLabel(l.words, l.doc.Type)
	due := l.words.money(l.sums.Due, l.doc.Currency)
	room := l.right - l.left
	amount = amount.fit(due, room-title.width(name)-20)
	l.keep([]strip{{height: 32, baseline: 22, pieces: []piece{
		at(l.left, title, name), at(l.right-amount.width(due), amount, due),
	}}})
	caption := l.dueCaption()
	captionWidth := l.faint(sizeText).width(caption)
	l.keep(beside(13.5,
		paragraph(l.left, room-captionWidth-20, l.plain(10.5), l.doc.Number),
		flushRight(l.right, captionWidth+1, l.faint(sizeText), caption)))
	l.gap(12)
	l.keep([]strip{{height: 1.2, rules: []rule{{l.left, l.right, 0, 1.2, inkText}}}})
	l.gap(20)
}

// dueCaption says what the amount at the top is.
func (l *layout) dueCaption() string {
	switch {
	case l.doc.Type == TypeCreditNote:
		return l.words.amountCredited
	case l.sums.Due.IsPositive() && !l.doc.DueDate.IsZero():
		return fmt.Sprintf(l.words.amountDueBy, l.words.date(l.doc.DueDate))
	}
	return l.words.amountDue
}

// parties are who charges whom, beside the facts of the document.
func (l *layout) parties() {
	const between = 24.0
	width := (l.right - l.left - 2*between) / 3
	l.keep(beside(lineHeight,
		l.party(l.left, width, l.words.from, l.doc.Issuer),
		l.party(l.left+width+between, width, l.words.to, l.doc.Customer),
		l.facts(l.right-width, l.right)))
	l.gap(sectionGap)
}

func (l *layout) party(x, width float64, heading string, p Party) column {
	c := paragraph(x, width, l.faint(sizeSmall), heading)
	c = append(c, paragraph(x, width, l.strong(sizeText), p.Name)...)
	for _, line := range p.Address {
		c = append(c, paragraph(x, width, l.plain(sizeText), line)...)
	}
	if p.TaxID != "" {
		c = append(c, paragraph(x, width, l.plain(sizeText), l.words.taxID+" "+p.TaxID)...)
	}
	if p.Email != "" {
		c = append(c, paragraph(x, width, l.plain(sizeText), p.Email)...)
	}
	return c
}

// facts is a little table: a label on the left, its value on the right.
func (l *layout) facts(left, right float64) column {
	rows := [][2]string{{l.words.number, l.doc.Number}, {l.words.issued, l.words.date(l.doc.IssueDate)}}
	if !l.doc.DueDate.IsZero() {
		rows = append(rows, [2]string{l.words.due, l.words.date(l.doc.DueDate)})
	}
	if l.doc.Reference != "" {
		rows = append(rows, [2]string{l.words.credits, l.doc.Reference})
	}
	rows = append(rows, [2]string{l.words.currency, l.doc.Currency.Code})
	var c column
	label := l.faint(sizeText)
	for _, row := range rows {
		value := flushRight(right, right-left-label.width(row[0])-10, l.plain(sizeText), row[1])
		value[0] = append([]piece{at(left, label, row[0])}, value[0]...)
		c = append(c, value...)
	}
	return c
}
