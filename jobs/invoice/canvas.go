package invoice

// style is how a piece of text looks.
type style struct {
	font *docFont
	size float64 // points
	ink  ink
}

func (s style) width(text string) float64 { return s.font.width(text) * s.size }

// fit is the style made small enough for text to be no wider than width.
func (s style) fit(text string, width float64) style {
	if w := s.width(text); w > width {
		s.size *= width / w
	}
	return s
}

// ink is a colour as red, green and blue, a byte each.
type ink uint32

// page collects the drawing operators of one page. Its coordinates are points
// from the top left corner, y downwards, as one reads.
type page struct {
	height float64
	out    []byte
	ink    ink // what the next shape is filled with; a page begins with black
}

// text draws one line of text with its baseline at y.
func (p *page) text(x, y float64, st style, text string) {
	if text == "" {
		return
	}
	p.fill(st.ink)
	p.out = append(p.out, "BT /"...)
	p.out = append(p.out, st.font.res...)
	p.out = append(p.out, ' ')
	p.out = appendNumber(p.out, st.size)
	p.out = append(p.out, " Tf "...)
	p.numbers(x, p.height-y)
	p.out = append(p.out, "Td "...)
	p.out = st.font.encode(p.out, text)
	p.out = append(p.out, " Tj ET\n"...)
}

// rule draws a horizontal line of the given thickness whose top is at y.
func (p *page) rule(x0, x1, y, thickness float64, colour ink) {
	p.fill(colour)
	p.numbers(x0, p.height-y-thickness, x1-x0, thickness)
	p.out = append(p.out, "re f\n"...)
}

func (p *page) fill(colour ink) {
	if p.ink == colour {
		return
	}
	p.ink = colour
	for shift := 16; shift >= 0; shift -= 8 {
		p.numbers(float64(colour>>shift&0xFF) / 255)
	}
	p.out = append(p.out, "rg\n"...)
}

func (p *page) numbers(values ...float64) {
	for _, v := range values {
		p.out = appendNumber(p.out, v)
		p.out = append(p.out, ' ')
	}
}
