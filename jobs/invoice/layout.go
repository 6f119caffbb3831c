package invoice

import "fmt"

// The palette: dark ink, a quieter one for labels, and hairlines.
const (
	inkText  ink = 0x1C212B
	inkFaint ink = 0x666E7A
	inkLine  ink = 0xD1D6DE
)

// Sizes of text and space, in points.
const (
	margin      = 50.0
	sizeText    = 9.0
	sizeSmall   = 8.0
	lineHeight  = 12.6
	sectionGap  = 26.0
	footerSpace = 62.0
	hairline    = 0.5
)

// layout builds the pages of one document. It has one owner.
type layout struct {
	flow
	doc           *Document
	sums          Totals
	words         *labels
	regular, bold *docFont
	left, right   float64
}

func newLayout(d *Document, fonts *typefaces) *layout {
	l := &layout{
		doc:     d,
		sums:    d.Totals(),
		words:   labelsOrEnglish(d.Locale),
		regular: newDocFont(fonts.regular, "F1"),
		bold:    newDocFont(fonts.bold, "F2"),
	}
	l.paper.width, l.paper.height = 595.28, 841.89
	if d.Paper == PaperLetter {
		l.paper.width, l.paper.height = 612, 792
	}
	l.left, l.right = margin, l.paper.width-margin
	l.top, l.bottom = margin, l.paper.height-footerSpace
	return l
}

func (l *layout) plain(size float64) style  { return style{l.regular, size, inkText} }
func (l *layout) faint(size float64) style  { return style{l.regular, size, inkFaint} }
func (l *layout) strong(size float64) style { return style{l.bold, size, inkText} }

// build puts every section on pages, then the footers, which need to know how
// many pages there are.
func (l *layout) build() []*page {
	l.newPage()
	l.masthead()
	l.parties()
	l.lines()
	l.totals()
	l.payment()
	l.notes()
	for i, p := range l.pages {
		l.footer(p, i+1)
	}
	return l.pages
}

func (l *layout) footer(p *page, number int) {
	y := l.paper.height - 34
	st := l.faint(sizeSmall)
	of := fmt.Sprintf(l.words.pageOf, number, len(l.pages))
	title := l.doc.Title()
	p.rule(l.left, l.right, y-14, hairline, inkLine)
	p.text(l.left, y, st.fit(title, l.right-l.left-st.width(of)-12), title)
	p.text(l.right-st.width(of), y, st, of)
}

// missing is the first character that neither Parse refused nor a font has:
// such a document was not made by Parse.
func (l *layout) missing() error {
	for _, f := range []*docFont{l.regular, l.bold} {
		if f.missing != 0 {
			return fmt.Errorf("the font %s has no glyph for U+%04X; make documents with Parse, which refuses such text",
				f.face.name, f.missing)
		}
	}
	return nil
}
