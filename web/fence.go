package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// fence is the picture of an export's attempts: time to the right, tokens
// upwards. Each attempt is a bar from its start to its verdict. The line steps up
// to a token when it is published; what ends below the line was refused.
type fence struct {
	Name                     string // tells two pictures on a page apart
	Width, Height            float64
	Left, Right, Top, Bottom float64 // of the plot
	Rows                     []fenceRow
	Line, Area               string // paths; empty before the first publication
	Ticks                    []float64
	Breaks                   []fenceBreak
	Labels                   []fenceLabel
}

// AnySilent says whether the legend must explain silence.
func (f fence) AnySilent() bool {
	return slices.ContainsFunc(f.Rows, func(r fenceRow) bool { return r.Silent != nil })
}

// fenceRow is one attempt.
type fenceRow struct {
	Token     int64
	Worker    string // as much of it as fits
	Y         float64
	BarTop    float64
	BarHeight float64
	Solid     []fenceSpan
	Silent    *fenceSpan
	HandedOn  float64 // where the job went to the next attempt; 0 when it did not
	Mark      fenceMark
	Title     string // all of it in words, on hover
}

// HandTop and HandBottom are where the mark of a handed-on job begins and ends.
func (r fenceRow) HandTop() float64 { return r.BarTop - 7 }

// HandBottom is the lower edge of the bar.
func (r fenceRow) HandBottom() float64 { return r.BarTop + r.BarHeight }

// fenceSpan is a part of a bar.
type fenceSpan struct{ X, Width float64 }

// fenceMark is how an attempt came out.
type fenceMark struct {
	Kind string // published, fenced, failed, cancelled, condemned, or running for none
	X, Y float64
	// RiseTo is where a refused attempt meets the line above it; equal to Y when there is none.
	RiseFrom, RiseTo float64
}

// fenceBreak is a gap in time that is not drawn to scale.
type fenceBreak struct{ X, Width float64 }

// fenceOptions say how to draw.
type fenceOptions struct {
	Name  string
	Width float64
	Now   time.Time
	Lease time.Duration
}

// The measures of the picture, in its own units.
const (
	fenceNarrow  = 480 // below this width workers are not named
	fenceMinBar  = 5
	fenceMark2   = 9 // half a mark, with some air
	fenceAxis    = 30
	fenceMaxName = 150
)

// fenceDrawing is a picture in the making.
type fenceDrawing struct {
	fenceOptions
	fence
	attempts []storage.Attempt // by token
	scale    timeScale
	ends     []float64 // where each bar ends
	place    placer
}

// drawFence draws attempts, at least one, in any order.
func drawFence(attempts []storage.Attempt, o fenceOptions) fence {
	d := fenceDrawing{fenceOptions: o, attempts: slices.Clone(attempts)}
	slices.SortFunc(d.attempts, func(a, b storage.Attempt) int { return cmp.Compare(a.Token, b.Token) })
	d.fence.Name, d.fence.Width = o.Name, o.Width
	d.layOut()
	for i := range d.attempts {
		d.bar(i)
	}
	d.line()
	for i := range d.attempts {
		d.mark(i)
	}
	d.axis()
	for i := range d.attempts {
		d.label(i)
	}
	d.nameLine()
	d.Labels = d.place.labels
	return d.fence
}

// layOut decides where the plot and its rows lie.
func (d *fenceDrawing) layOut() {
	n := len(d.attempts)
	pitch, bar := 56.0, 18.0
	switch {
	case n > 6:
		pitch, bar = 36, 12
	case n > 3:
		pitch, bar = 48, 16
	}
	busy := make([]interval, n)
	for i, a := range d.attempts {
		busy[i] = interval{a.StartedAt, later(a.StartedAt, verdictTime(a, d.Now))}
	}
	d.Left, d.Right = d.gutter(), d.fence.Width-6
	d.scale = newTimeScale(busy, d.Left+4, d.Right-d.margin(), min(30, d.fence.Width/28))
	d.Top = 8
	if len(d.scale.stretches) > 1 {
		d.Top += 18 // for the lengths of the breaks
	}
	d.Bottom = d.Top + 30 + float64(n-1)*pitch + bar/2 + 18
	d.Height = d.Bottom + fenceAxis
	d.place.bounds = box{0, 0, d.fence.Width, d.Height}
	for i, a := range d.attempts {
		y := d.Bottom - bar/2 - 18 - float64(i)*pitch
		row := fenceRow{Token: a.Token, Y: y, BarTop: y - bar/2, BarHeight: bar, Title: attemptTitle(a)}
		if d.fence.Width >= fenceNarrow {
			row.Worker = fit(a.Worker, fenceMaxName)
		}
		d.Rows = append(d.Rows, row)
		d.place.block(box{0, y - 12, d.Left, y + 6}) // token and worker
	}
}

// gutter is the width of the tokens and workers to the left of the plot.
func (d *fenceDrawing) gutter() float64 {
	token, name := 0.0, 0.0
	for _, a := range d.attempts {
		token = max(token, textWidth(fmt.Sprint(a.Token), 12.5))
		name = max(name, textWidth(a.Worker, 12))
	}
	if d.fence.Width < fenceNarrow {
		return 10 + token + 14
	}
	return 10 + token + 14 + min(name, fenceMaxName) + 12
}

// margin is the room to the right of the last verdict: for a mark, and for words
// when that verdict was a refusal.
func (d *fenceDrawing) margin() float64 {
	last := slices.MaxFunc(d.attempts, func(a, b storage.Attempt) int {
		return verdictTime(a, d.Now).Compare(verdictTime(b, d.Now))
	})
	if d.fence.Width >= fenceNarrow && outcome(last) == storage.AttemptFenced {
		return 126
	}
	return 12
}

// bar draws from start to verdict, with what was silent apart.
func (d *fenceDrawing) bar(i int) {
	a, row := d.attempts[i], &d.Rows[i]
	end := later(a.StartedAt, verdictTime(a, d.Now))
	x0 := min(d.scale.x(a.StartedAt), d.Right-12-fenceMinBar)
	x1 := max(d.scale.x(end), x0+fenceMinBar)
	d.ends = append(d.ends, x1)
	d.place.block(box{x0, row.BarTop, x1, row.BarTop + row.BarHeight})
	next := takeover(a, d.attempts, d.Now)
	if next != nil {
		row.HandedOn = min(max(d.scale.x(next.StartedAt), x0), x1)
		d.place.block(box{row.HandedOn - 1, row.BarTop - 8, row.HandedOn + 1, row.BarTop})
	}
	quiet := silenceOf(a, next, d.Lease, d.Now)
	if quiet == nil {
		row.Solid = []fenceSpan{{x0, x1 - x0}}
		return
	}
	s0 := min(max(d.scale.x(quiet.From), x0), x1)
	s1 := min(max(d.scale.x(quiet.To), s0), x1)
	row.Silent = &fenceSpan{s0, s1 - s0}
	for _, s := range []fenceSpan{{x0, s0 - x0}, {s1, x1 - s1}} {
		if s.Width > 0 {
			row.Solid = append(row.Solid, s)
		}
	}
}

// publications are the rows that were published, in the order of their tokens and so of time.
func (d *fenceDrawing) publications() []int {
	var list []int
	for i, a := range d.attempts {
		if wasPublished(a) {
			list = append(list, i)
		}
	}
	return list
}

// line draws the last published token over time: along the floor while there was none of those shown.
func (d *fenceDrawing) line() {
	published := d.publications()
	if len(published) == 0 {
		return
	}
	var path strings.Builder
	x, y := d.Left, d.Bottom
	fmt.Fprintf(&path, "M%.1f %.1f", x, y)
	for _, i := range published {
		d.ends[i] = max(d.ends[i], x) // a bar of the least width may end after its successor's
		d.run(x, d.ends[i], y)
		d.place.block(box{d.ends[i] - 2, d.Rows[i].Y, d.ends[i] + 2, y})
		x, y = d.ends[i], d.Rows[i].Y
		fmt.Fprintf(&path, " H%.1f V%.1f", x, y)
	}
	d.run(x, d.Right, y)
	fmt.Fprintf(&path, " H%.1f", d.Right)
	d.Line = path.String()
	d.Area = fmt.Sprintf("%s V%.1f H%.1f Z", d.Line, d.Bottom, d.Left)
}

// run keeps labels off a level piece of the line.
func (d *fenceDrawing) run(x0, x1, y float64) { d.place.block(box{x0, y - 2, x1, y + 2}) }

// levelAt is where the line is at a time; the floor when nothing was published.
func (d *fenceDrawing) levelAt(t time.Time) float64 {
	level := d.Bottom
	for _, i := range d.publications() {
		if !verdictTime(d.attempts[i], d.Now).After(t) {
			level = d.Rows[i].Y
		}
	}
	return level
}

// mark draws how an attempt came out at the end of its bar.
func (d *fenceDrawing) mark(i int) {
	a, row := d.attempts[i], &d.Rows[i]
	m := fenceMark{Kind: "running", X: d.ends[i], Y: row.Y, RiseFrom: row.Y, RiseTo: row.Y}
	switch o := outcome(a); o {
	case storage.AttemptPublished, storage.AttemptSuperseded:
		m.Kind = "published"
	case storage.AttemptFenced:
		m.Kind = "fenced"
		m.X = min(m.X+fenceMark2, d.Right-fenceMark2)
		if level := d.levelAt(verdictTime(a, d.Now)); level < row.Y {
			m.X = d.ends[i]
			m.Y = d.below(level, m.X)
			m.RiseFrom, m.RiseTo = row.BarTop, m.Y+fenceMark2
		}
	case storage.AttemptFailed, storage.AttemptCancelled, storage.AttemptCondemned:
		m.Kind = string(o)
	}
	row.Mark = m
	if m.Kind != "running" {
		d.place.block(box{m.X - fenceMark2, m.Y - fenceMark2, m.X + fenceMark2, m.Y + fenceMark2})
	}
	if m.RiseFrom > m.RiseTo {
		d.place.block(box{m.X - 2, m.RiseTo, m.X + 2, m.RiseFrom})
	}
}

// below is a place under the line where a refused mark does not cover a published one.
func (d *fenceDrawing) below(level, x float64) float64 {
	for _, i := range d.publications() {
		if d.Rows[i].Y == level && x-d.ends[i] < 2*fenceMark2 && d.ends[i]-x < 2*fenceMark2 {
			return level + 2*fenceMark2
		}
	}
	return level + fenceMark2 + 1
}

func later(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}

// fit is as much of a text as a width holds.
func fit(s string, width float64) string {
	r := []rune(s)
	for n := len(r); n > 0; n-- {
		short := string(r[:n])
		if n < len(r) {
			short += "…"
		}
		if textWidth(short, 12) <= width {
			return short
		}
	}
	return ""
}
