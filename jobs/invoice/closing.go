package invoice

import (
	"slices"

	"github.com/fenceline/fenceline/jobs/invoice/pdf"
)

// payment says where the money goes.
func (l *layout) payment() {
	p := l.doc.Payment
	var rows []fact
	for _, row := range l.paymentFacts(p) {
		if row.value != "" {
			row.value = l.words.isolated(row.value)
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return
	}
	section := l.out.Root().Add(pdf.RoleSection)
	heading := l.heading(section, l.words.payment)
	labels, indent := make([]piece, len(rows)), 0.0
	for i, row := range rows {
		labels[i] = l.label(l.left, l.faint(sizeText), row.label)
		indent = max(indent, labels[i].width())
	}
	blocks := [][]strip{heading}
	for i, row := range rows {
		of := section.Add(pdf.RoleParagraph)
		x := l.left + indent + 14
		blocks = append(blocks, beside(l.lineHeight+0.8, column{{labels[i].as(of)}},
			l.paragraph(row.field, x, l.right-x, l.plain(sizeText), row.value, of)))
	}
	readInTurn(blocks...)
	l.keep(slices.Concat(blocks...))
	l.gap(sectionGap * 0.7)
}

// notes are set in lines short enough to read. The heading stays with the first
// of them, and the last never stands alone.
func (l *layout) notes() {
	if l.doc.Notes == "" {
		return
	}
	section := l.out.Root().Add(pdf.RoleSection)
	heading := l.heading(section, l.words.notes)
	text := beside(l.lineHeight, l.paragraph("notes", l.left, min(l.right-l.left, 400), l.plain(sizeText), l.doc.Notes,
		section.Add(pdf.RoleParagraph)))
	first := min(len(text), 2)
	l.keep(append(heading, text[:first]...))
	last := max(len(text)-2, first)
	for i := first; i < last; i++ {
		l.keep(text[i : i+1])
	}
	l.keep(text[last:])
}

func (l *layout) heading(of *pdf.Element, text string) []strip {
	return []strip{{height: l.lineHeight + 3, baseline: l.lineHeight * 0.72,
		pieces: []piece{l.label(l.left, l.accent(sizeText), text).as(of.Add(pdf.RoleHeading))}}}
}
