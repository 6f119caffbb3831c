package invoice

import (
	"slices"
	"strings"
)

// payment says where the money goes.
func (l *layout) payment() {
	p := l.doc.Payment
	var rows [][2]string
	for _, row := range [][2]string{
		{l.words.iban, groupsOfFour(p.IBAN)}, {l.words.bic, p.BIC}, {l.words.paymentRef, p.Reference},
	} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return
	}
	label, value := l.faint(sizeText), l.plain(sizeText)
	indent := 0.0
	for _, row := range rows {
		indent = max(indent, label.width(row[0]))
	}
	blocks := [][]strip{l.heading(l.words.payment)}
	for _, row := range rows {
		x := l.left + indent + 14
		blocks = append(blocks, beside(lineHeight+0.8,
			column{{at(l.left, label, row[0])}}, paragraph(x, l.right-x, value, row[1])))
	}
	readInTurn(blocks...)
	l.keep(slices.Concat(blocks...))
	l.gap(sectionGap * 0.7)
}

// notes are set in lines short enough to read. The heading stays with the first
// of them.
func (l *layout) notes() {
	if l.doc.Notes == "" {
		return
	}
	text := beside(lineHeight, paragraph(l.left, min(l.right-l.left, 400), l.plain(sizeText), l.doc.Notes))
	first := min(len(text), 2)
	l.keep(append(l.heading(l.words.notes), text[:first]...))
	for _, s := range text[first:] {
		l.keep([]strip{s})
	}
}

func (l *layout) heading(text string) []strip {
	return []strip{{height: 15, baseline: 9, pieces: []piece{at(l.left, l.strong(sizeText), text)}}}
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
