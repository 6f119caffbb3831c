package web

import (
	"fmt"
	"slices"

	"github.com/fenceline/fenceline/storage"
)

// labPicture is one fault of the lab drawn: time to the right, above who believed
// to hold the lease, below what reached the row without the fence and the one with it.
type labPicture struct {
	Name, ID                 string
	Width, Height            float64
	Left, Right, Top, Bottom float64 // of the plot
	Rows                     []labLine
	Bars                     []labBar
	Both                     []labBar // where two believed it at once
	Marks                    []fenceMark
	Strokes                  []labBar // moments, as high as they reach
	Ticks                    []float64
	Labels                   []fenceLabel
}

// labLine is a row with its name.
type labLine struct {
	Name string
	Y    float64
}

// labBar is a rectangle. Frozen is a part of a belief in which the process was stopped.
type labBar struct {
	X, Y, Width, Height float64
	Frozen              bool
}

// The measures of the picture, in its own units.
const (
	labTop       = 50.0 // middle of the first row
	labPitch     = 54.0
	labThick     = 18.0
	labGutter    = 84.0
	labNoFence   = labTop + 2*labPitch
	labFenced    = labNoFence + 40
	labRoom      = 14.0 // right of the last moment
	labTickApart = 70.0
)

// labDrawing is a picture in the making.
type labDrawing struct {
	labPicture
	fault storage.LabFault
	end   int64 // of the story, in milliseconds
	place placer
}

// drawLab draws a fault that was played.
func drawLab(f storage.LabFault, name, id string, width float64) labPicture {
	d := labDrawing{fault: f, end: max(f.Events[len(f.Events)-1].AtMS, 1)}
	d.Name, d.ID, d.Width = name, id, width
	d.Left, d.Right, d.Top, d.Bottom = labGutter, width-6, 8, labFenced+24
	d.Height = d.Bottom + 26
	d.place.bounds = box{0, 0, d.Width, d.Height}
	d.Rows = []labLine{{"A", labTop}, {"B", labTop + labPitch}, {"no fence", labNoFence}, {"fence", labFenced}}
	d.place.block(box{0, 0, d.Left, d.Height})
	d.believed()
	d.together()
	for _, e := range f.Events {
		d.moment(e)
	}
	d.labels()
	d.axis()
	d.Labels = d.place.labels
	return d.labPicture
}

// x is the place of a moment.
func (d *labDrawing) x(ms int64) float64 {
	left := d.Left + 4
	return left + (d.Right-labRoom-left)*float64(min(max(ms, 0), d.end))/float64(d.end)
}

// y is the row of A or B.
func (d *labDrawing) y(who string) float64 {
	if who == "B" {
		return labTop + labPitch
	}
	return labTop
}

// believed draws a bar for each belief, hatched while its process was frozen.
func (d *labDrawing) believed() {
	froze, woke := d.when(storage.LabFroze), d.when(storage.LabWoke)
	for _, b := range d.fault.Beliefs {
		cuts := []int64{b.FromMS, b.ToMS}
		if b.Who == "A" && froze >= 0 {
			cuts = []int64{b.FromMS, min(max(froze, b.FromMS), b.ToMS), min(max(woke, froze), b.ToMS), b.ToMS}
		}
		for i := range cuts[1:] {
			x0, x1 := d.x(cuts[i]), d.x(cuts[i+1])
			if x1-x0 > 0 || len(cuts) == 2 {
				d.Bars = append(d.Bars, labBar{x0, d.y(b.Who) - labThick/2, max(x1-x0, 3), labThick, i == 1})
			}
		}
		d.place.block(box{d.x(b.FromMS), d.y(b.Who) - labThick/2, max(d.x(b.ToMS), d.x(b.FromMS)+3), d.y(b.Who) + labThick/2})
	}
}

// when is the first event of a kind; -1 when there is none.
func (d *labDrawing) when(kind string) int64 {
	i := slices.IndexFunc(d.fault.Events, func(e storage.LabEvent) bool { return e.Kind == kind })
	if i < 0 {
		return -1
	}
	return d.fault.Events[i].AtMS
}

// together marks the times in which A and B both believed to hold the lease.
func (d *labDrawing) together() {
	for _, a := range d.fault.Beliefs {
		for _, b := range d.fault.Beliefs {
			from, to := max(a.FromMS, b.FromMS), min(a.ToMS, b.ToMS)
			if a.Who != "A" || b.Who != "B" || from >= to {
				continue
			}
			x0, x1 := d.x(from), d.x(to)
			d.Both = append(d.Both, labBar{X: x0, Y: labTop - labThick/2 - 5, Width: max(x1-x0, 2), Height: labPitch + labThick + 10})
		}
	}
}

// moment draws what happened at one time.
func (d *labDrawing) moment(e storage.LabEvent) {
	x := d.x(e.AtMS)
	switch e.Kind {
	case storage.LabFroze, storage.LabWoke, storage.LabCut, storage.LabLost:
		d.stroke(x, d.y(e.Who)-labThick/2-7, labThick+7)
	case storage.LabFailed, storage.LabPromoted:
		d.stroke(x, labTop-labThick/2-7, labPitch+labThick+14)
	case storage.LabKilled:
		d.mark("failed", x, d.y(e.Who))
	case storage.LabWrote:
		kind := "published"
		if d.fault.Lost && e.Who == "A" {
			kind = "failed"
		}
		d.mark(kind, x, labNoFence)
	case storage.LabAccepted:
		d.mark("published", x, labFenced)
	case storage.LabRefused:
		d.mark("fenced", x, labFenced)
	}
}

func (d *labDrawing) stroke(x, y, height float64) {
	d.Strokes = append(d.Strokes, labBar{X: x, Y: y, Height: height})
	d.place.block(box{x - 1, y, x + 1, y + height})
}

func (d *labDrawing) mark(kind string, x, y float64) {
	d.Marks = append(d.Marks, fenceMark{Kind: kind, X: x, Y: y, RiseFrom: y, RiseTo: y})
	d.place.block(box{x - fenceMark2, y - fenceMark2, x + fenceMark2, y + fenceMark2})
}

// labels say in the picture what matters most first: what finds no place stands in the list too.
func (d *labDrawing) labels() {
	for _, e := range d.fault.Events {
		switch x := d.x(e.AtMS); e.Kind {
		case storage.LabWrote:
			text, class := fmt.Sprintf("%s: %d", e.Who, e.Value), "ok"
			if d.fault.Lost && e.Who == "A" {
				text, class = fmt.Sprintf("A: %d, B’s update is lost", e.Value), "bad"
			}
			d.beside(x, labNoFence, class, text)
		case storage.LabAccepted:
			d.beside(x, labFenced, "ok", fmt.Sprintf("%s: %d", e.Who, e.Value))
		case storage.LabRefused:
			d.beside(x, labFenced, "amber", fmt.Sprintf("A: %d, refused", e.Value))
		}
	}
	d.shared()
	if d.fault.TakeoverMS > 0 && len(d.fault.Beliefs) > 1 {
		d.near(d.x(d.fault.Beliefs[1].FromMS), labTop+labPitch, "run", "B has it after "+labTime(d.fault.TakeoverMS))
	}
	for _, m := range []struct{ kind, text string }{
		{storage.LabFroze, "frozen"}, {storage.LabWoke, "wakes"}, {storage.LabCut, "cut off"}, {storage.LabKilled, "killed"}, {storage.LabFailed, "the primary ends"}, {storage.LabLost, "knows"},
	} {
		if at := d.when(m.kind); at >= 0 {
			d.near(d.x(at), labTop, "plain", m.text)
		}
	}
}

// shared says for how long both believed it: between their bars, or below.
func (d *labDrawing) shared() {
	if len(d.Both) == 0 || d.fault.OverlapMS == 0 {
		return
	}
	b, text := d.Both[0], []fencePart{words("both believe, " + labTime(d.fault.OverlapMS))}
	d.place.put(around(b.X+b.Width/2, labTop+labPitch/2+5, "amber", text, offset{0, 0, "middle"}, offset{b.Width / 2, 0, "end"},
		offset{0, labPitch/2 + labThick + 6, "middle"}, offset{b.Width / 2, labPitch/2 + labThick + 6, "end"}, offset{-b.Width / 2, labPitch/2 + labThick + 6, "start"})...)
}

// labTime is a length of time as the verdicts have it.
func labTime(ms int64) string {
	if ms < 100 {
		return fmt.Sprintf("%d ms", ms)
	}
	return fmt.Sprintf("%.1f s", float64(ms)/1000)
}

// near puts a text above or below a row, where there is room.
func (d *labDrawing) near(x, y float64, class, text string) {
	above, under := -labThick/2-9, labThick/2+14
	d.place.put(around(x, y, class, []fencePart{words(text)}, offset{3, above, "start"}, offset{-3, above, "end"}, offset{3, above - 14, "start"}, offset{-3, above - 14, "end"}, offset{3, under, "start"}, offset{-3, under, "end"})...)
}

// beside puts a text next to a mark.
func (d *labDrawing) beside(x, y float64, class, text string) {
	d.place.put(around(x, y, class, []fencePart{words(text)}, offset{-13, 4, "end"}, offset{13, 4, "start"}, offset{8, 21, "end"}, offset{-8, 21, "start"}, offset{8, -13, "end"})...)
}

// axis counts the seconds.
func (d *labDrawing) axis() {
	step := int64(1000)
	for _, s := range []int64{100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000} {
		if step = s; (d.x(s)-d.x(0)) >= labTickApart || s >= d.end {
			break
		}
	}
	for ms := int64(0); ms <= d.end; ms += step {
		d.Ticks = append(d.Ticks, d.x(ms))
		text := []fencePart{words(fmt.Sprintf("%g s", float64(ms)/1000))}
		d.place.put(around(d.x(ms), d.Bottom+20, "tick", text, offset{0, 0, "middle"}, offset{-4, 0, "start"}, offset{4, 0, "end"})...)
	}
}
