package web

import (
	"fmt"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// axis draws round times below the plot, and the breaks with their lengths.
func (d *fenceDrawing) axis() {
	stretches := d.scale.stretches
	for i, st := range stretches {
		d.ticksOf(st, len(stretches) > 1)
		if i == 0 {
			continue
		}
		before := stretches[i-1]
		b := fenceBreak{X: before.x1 + 4, Width: st.x0 - before.x1 - 8}
		d.Breaks = append(d.Breaks, b)
		gap := roughly(st.from.Sub(before.to))
		for _, text := range []string{gap + " later", gap} {
			if d.place.put(fenceLabel{X: b.X + b.Width/2, Y: 16, Anchor: "middle", Class: "gap", Parts: []fencePart{words(text)}}) {
				break
			}
		}
	}
}

// ticksOf marks a stretch. With breaks the beginning of each stretch is marked
// with its day, since round times alone do not say how they follow each other.
func (d *fenceDrawing) ticksOf(st stretch, broken bool) {
	apart := 84.0
	step, times := st.ticks(apart)
	if broken || len(times) == 0 {
		form := formTime
		if broken {
			form = formDay
		}
		d.tick(st.from, form)
	}
	form := formTime
	if step >= time.Minute {
		form = formMinute
	}
	for _, t := range times {
		d.tick(t, form)
	}
}

func (d *fenceDrawing) tick(t time.Time, form string) {
	x, y := d.scale.x(t), d.Bottom+20
	ways := around(x, y, "tick", []fencePart{timePart(form, t)}, offset{0, 0, "middle"}, offset{-4, 0, "start"}, offset{4, 0, "end"})
	if form == formDay {
		ways = append(ways, around(x, y, "tick", []fencePart{timePart(formTime, t)}, offset{0, 0, "middle"}, offset{-4, 0, "start"}, offset{4, 0, "end"})...)
	}
	if d.place.put(ways...) {
		d.Ticks = append(d.Ticks, x)
	}
}

// label says in the picture what happened to an attempt.
func (d *fenceDrawing) label(i int) {
	a, row := d.attempts[i], d.Rows[i]
	m := row.Mark
	above, under := -row.BarHeight/2-7, row.BarHeight/2+14
	switch m.Kind {
	case "published":
		d.place.put(around(m.X, row.Y, "ok", []fencePart{words("published "), timePart(formTime, verdictTime(a, d.Now))},
			offset{8, above, "end"}, offset{-8, above, "start"}, offset{-12, under, "end"}, offset{10, under, "start"})...)
	case "fenced":
		d.place.put(around(m.X, m.Y, "amber", []fencePart{words(d.refusal(a, m))},
			offset{12, 5, "start"}, offset{-12, 5, "end"}, offset{8, 24, "start"}, offset{-8, 24, "end"}, offset{8, 34, "start"}, offset{-8, 34, "end"})...)
	case "running":
		text := "running"
		if a.State == storage.AttemptSealed {
			text = "sealed, not published yet"
		}
		d.place.put(around(m.X, row.Y, "run", []fencePart{words(text)}, offset{0, above, "end"}, offset{0, under, "end"})...)
	default:
		d.place.put(around(m.X, row.Y, classOf(m.Kind), []fencePart{words(m.Kind + " "), timePart(formTime, verdictTime(a, d.Now))},
			offset{14, 4, "start"}, offset{8, above, "end"}, offset{-8, above, "start"}, offset{8, under, "end"})...)
	}
	if row.HandedOn > 0 {
		next := takeover(a, d.attempts, d.Now)
		d.place.put(around(row.HandedOn, row.Y, "amber", []fencePart{words("handed on "), timePart(formTime, next.StartedAt)},
			offset{5, above, "start"}, offset{-5, above, "end"}, offset{5, under, "start"}, offset{-5, under, "end"})...)
	}
	if row.Silent != nil {
		d.silent(a, row, above, under)
	}
}

func (d *fenceDrawing) silent(a storage.Attempt, row fenceRow, above, under float64) {
	quiet := silenceOf(a, takeover(a, d.attempts, d.Now), d.Lease, d.Now)
	text := "no heartbeat for " + showDuration(quiet.Length())
	if quiet.AtLeast {
		text = "no heartbeat for at least " + showDuration(quiet.Length())
	}
	x := row.Silent.X
	d.place.put(append(
		around(x, row.Y, "plain", []fencePart{words(text)}, offset{2, under, "start"}, offset{2, above, "start"}),
		around(x+row.Silent.Width, row.Y, "plain", []fencePart{words("no heartbeat")}, offset{0, under, "end"}, offset{0, above, "end"})...)...)
}

// refusal says against what a stale attempt ran.
func (d *fenceDrawing) refusal(a storage.Attempt, m fenceMark) string {
	switch {
	case a.FencedBy == nil || *a.FencedBy <= a.Token:
		return fmt.Sprintf("%d refused", a.Token)
	case m.RiseTo < m.RiseFrom:
		return fmt.Sprintf("%d < %d refused", a.Token, *a.FencedBy)
	}
	return fmt.Sprintf("gave way to %d", *a.FencedBy)
}

func classOf(kind string) string {
	switch kind {
	case "failed":
		return "bad"
	case "condemned":
		return "amber"
	}
	return "plain"
}

// nameLine says what the line is, once, where there is room.
func (d *fenceDrawing) nameLine() {
	published := d.publications()
	if len(published) == 0 {
		return
	}
	text := []fencePart{words("the fence: last published token")}
	x, y := d.Left, d.Bottom
	var ways []fenceLabel
	for _, i := range published {
		ways = append(ways, around(x, y, "ok", text, offset{6, -6, "start"})...)
		x, y = d.ends[i], d.Rows[i].Y
	}
	ways = append(ways, around(d.Right, y, "ok", text, offset{-4, 16, "end"}, offset{-4, -7, "end"})...)
	d.place.put(ways...)
}

// attemptTitle is an attempt in words, with times in UTC.
func attemptTitle(a storage.Attempt) string {
	token := fmt.Sprint(a.Token)
	if a.LeaseOrder.Name != "" {
		token += " · " + a.LeaseOrder.String()
	}
	text := fmt.Sprintf("Attempt %s by %s: %s, began %s", token, a.Worker, attemptChip(a).Text, a.StartedAt.UTC().Format(time.DateTime))
	if a.FinishedAt != nil {
		text += fmt.Sprintf(", took %s", showDuration(a.FinishedAt.Sub(a.StartedAt)))
	}
	return text + " (UTC)"
}

// roughly is a length of time in one unit, rounded.
func roughly(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d.Round(unit.length) >= unit.length && d >= unit.length*9/10 {
			return fmt.Sprintf("%d %s", d.Round(unit.length)/unit.length, unit.name)
		}
	}
	return showDuration(d)
}
