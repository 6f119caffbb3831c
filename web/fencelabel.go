package web

import "time"

// The forms of a time in the picture, besides those of format.go.
const (
	formTime   = "time"   // 10:04:05, whatever the day
	formMinute = "minute" // 10:04
	formDay    = "day"    // 29 Nov 10:04
)

// fencePart is a piece of a label: words, or a time that the script turns to the viewer's zone.
type fencePart struct {
	Text string
	Form string // of a time; empty for words
	At   time.Time
}

func words(text string) fencePart { return fencePart{Text: text} }

func timePart(form string, t time.Time) fencePart {
	t = t.UTC()
	layout := map[string]string{formTime: time.TimeOnly, formMinute: "15:04", formDay: "2 Jan 15:04"}[form]
	return fencePart{Text: t.Format(layout), Form: form, At: t}
}

// Stamp is the time for the script.
func (p fencePart) Stamp() string { return p.At.Format("2006-01-02T15:04:05.000Z") }

// fenceLabel is a text in the picture, 12 units high, with its baseline at Y.
type fenceLabel struct {
	X, Y   float64
	Anchor string // start, middle or end
	Class  string
	Parts  []fencePart
}

// box is the space that a label takes at most, in any usual font.
func (l fenceLabel) box() box {
	w := 0.0
	for _, p := range l.Parts {
		w += textWidth(p.widest(), 12)
	}
	left := l.X
	switch l.Anchor {
	case "middle":
		left -= w / 2
	case "end":
		left -= w
	}
	return box{left, l.Y - 10, left + w, l.Y + 3}
}

// widest is the widest text of the part's form: the viewer's day may have one digit more.
func (p fencePart) widest() string {
	if p.Form == formDay {
		return "00 Mmm 00:00"
	}
	return p.Text
}

// glyphWidth is the width of a glyph for the size 1, in the widest of the usual
// fonts at its boldest (DejaVu Sans Bold, which browsers on Linux fall back to).
// Classes of letters are not enough: labels that were thought to stand beside each
// other then touched.
func glyphWidth(r rune) float64 {
	widths := [...]float64{
		348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, // space to /
		696, 696, 696, 696, 696, 696, 696, 696, 696, 696, 400, 400, 838, 838, 838, 580, // 0 to ?
		1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775, 637, 995, 837, 850, // @ to O
		733, 850, 770, 720, 682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838, 500, // P to _
		500, 675, 716, 593, 716, 678, 435, 716, 712, 343, 343, 665, 343, 1042, 712, 687, // ` to o
		716, 716, 493, 595, 478, 712, 652, 924, 645, 652, 582, 712, 365, 712, 838, // p to ~
	}
	if r < ' ' || r > '~' {
		return 1.05
	}
	return widths[r-' '] / 1000
}

// textWidth is an upper bound for the width of a text. Browsers round the glyphs
// of a scaled picture a little.
func textWidth(s string, size float64) float64 {
	em := 0.0
	for _, r := range s {
		em += glyphWidth(r)
	}
	return em * size * 1.01
}

// box is a rectangle; y grows downwards.
type box struct{ x0, y0, x1, y1 float64 }

func (b box) meets(o box) bool { return b.x0 < o.x1 && o.x0 < b.x1 && b.y0 < o.y1 && o.y0 < b.y1 }

func (b box) inside(o box) bool { return b.x0 >= o.x0 && b.x1 <= o.x1 && b.y0 >= o.y0 && b.y1 <= o.y1 }

// placer puts labels where nothing else is, or not at all: what a label says
// stands in the table too.
type placer struct {
	bounds box
	taken  []box
	labels []fenceLabel
}

// block keeps labels away from a space.
func (p *placer) block(b box) { p.taken = append(p.taken, b) }

// put places the first of the labels that fits.
func (p *placer) put(ways ...fenceLabel) bool {
	for _, l := range ways {
		b := l.box()
		if !b.inside(p.bounds) || p.hits(b) {
			continue
		}
		p.labels = append(p.labels, l)
		p.taken = append(p.taken, b)
		return true
	}
	return false
}

func (p *placer) hits(b box) bool {
	for _, t := range p.taken {
		if t.meets(b) {
			return true
		}
	}
	return false
}

// around are ways to put one text near a point, in order of preference. Each
// offset is dx, dy and the anchor.
func around(x, y float64, class string, parts []fencePart, offsets ...offset) []fenceLabel {
	ways := make([]fenceLabel, len(offsets))
	for i, o := range offsets {
		ways[i] = fenceLabel{X: x + o.dx, Y: y + o.dy, Anchor: o.anchor, Class: class, Parts: parts}
	}
	return ways
}

type offset struct {
	dx, dy float64
	anchor string
}
