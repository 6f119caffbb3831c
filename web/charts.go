package web

import (
	"fmt"
	"math"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// The ground of a chart in its own units: it is stretched to its card, so that it
// holds no text.
const (
	chartWidth  = 1000.0
	chartHeight = 140.0
)

// bar is a rectangle of a chart. Tip says what it stands for.
type bar struct {
	X, Y, Width, Height float64
	Class               string
}

// column is a span of time in a chart: its bars, its tip, and the row of the table that says the same.
type column struct {
	X, Width float64
	Bars     []bar
	At       time.Time
	Tip      string // without the time
	Cells    []string
}

// chart is bars over time, and the same as a table.
type chart struct {
	ID, Title  string
	Summary    string // says in a sentence what the picture shows
	Legend     []formOption
	Top        string // what the height stands for
	From, Mid  time.Time
	To         time.Time
	Heads      []string
	Columns    []column
	Rows       []column // of the table: those in which something was, the newest first
	Step       string
	empty      bool
	EmptyTitle string
}

// Empty says that there is nothing to draw.
func (c chart) Empty() bool { return c.empty }

// newChart lays the columns out. heights gives a span's parts from the bottom up, with the classes of their bars.
func newChart(c chart, h storage.History, classes []string, heights func(storage.Stat) []float64, words func(storage.Stat) (tip string, cells []string), show func(float64) string) chart {
	c.From, c.To, c.Step = h.From, h.From.Add(time.Duration(len(h.Spans))*h.Step), showDuration(h.Step)
	c.Mid = h.From.Add(c.To.Sub(h.From) / 2).Truncate(time.Minute)
	highest := 0.0
	for _, t := range h.Spans {
		sum := 0.0
		for _, part := range heights(t) {
			sum += part
		}
		highest = max(highest, sum)
	}
	if c.empty = highest == 0; c.empty {
		return c
	}
	top := niceTop(highest)
	c.Top = show(top)
	width := chartWidth / float64(len(h.Spans))
	for i, t := range h.Spans {
		col := column{X: float64(i) * width, Width: width, At: t.At}
		col.Tip, col.Cells = words(t)
		y := chartHeight
		for j, part := range heights(t) {
			if part <= 0 {
				continue
			}
			tall := max(part/top*(chartHeight-2), 2)
			y -= tall
			col.Bars = append(col.Bars, bar{col.X + width*.1, max(y, 0), width * .8, tall, classes[j]})
		}
		c.Columns = append(c.Columns, col)
		if len(col.Bars) > 0 {
			c.Rows = append([]column{col}, c.Rows...)
		}
	}
	return c
}

// niceTop is the first of 1, 2, 5, 10, … that is not below v.
func niceTop(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 5} {
		if step*unit >= v*(1-1e-9) {
			return step * unit
		}
	}
	return 10 * unit
}

// throughputChart shows what ended in each span.
func throughputChart(h storage.History) chart {
	t := h.Total
	c := chart{ID: "throughput", Title: "Jobs ended per " + spanName(h.Step),
		Summary:    fmt.Sprintf("%s published, %s other jobs done, %s failed, %s fenced out.", showNumber(t.Published), showNumber(t.Done), showNumber(t.Failed), showNumber(t.Fenced)),
		Legend:     []formOption{{"c-published", "published", false}, {"c-done", "other jobs done", false}, {"c-failed", "failed", false}, {"c-fenced", "fenced out", false}},
		Heads:      []string{"Published", "Other jobs done", "Failed", "Fenced out"},
		EmptyTitle: "Nothing has ended in this window."}
	return newChart(c, h, []string{"c-published", "c-done", "c-failed", "c-fenced"},
		func(t storage.Stat) []float64 {
			return []float64{float64(t.Published), float64(t.Done), float64(t.Failed), float64(t.Fenced)}
		},
		func(t storage.Stat) (string, []string) {
			return fmt.Sprintf("%s published, %s other done, %s failed, %s fenced out", showNumber(t.Published), showNumber(t.Done), showNumber(t.Failed), showNumber(t.Fenced)),
				[]string{showNumber(t.Published), showNumber(t.Done), showNumber(t.Failed), showNumber(t.Fenced)}
		},
		func(top float64) string { return showNumber(int64(math.Ceil(top))) })
}

// waitChart shows how long jobs waited that ended in each span.
func waitChart(h storage.History) chart {
	c := chart{ID: "waits", Title: "Wait from due to begun, per " + spanName(h.Step),
		Summary:    fmt.Sprintf("Half of %s waited at most %s, 95 of a hundred at most %s.", howMany(h.Total.Waits, "job"), showDuration(h.Total.Wait(.5)), showDuration(h.Total.Wait(.95))),
		Legend:     []formOption{{"c-p50", "median", false}, {"c-p95", "95 of a hundred", false}},
		Heads:      []string{"Jobs", "Mean", "Median", "95 of a hundred"},
		EmptyTitle: "No job that began once has ended in this window."}
	if h.Total.Waits == 0 {
		c.Summary = "There is no wait to measure."
	}
	return newChart(c, h, []string{"c-p50", "c-p95"},
		func(t storage.Stat) []float64 {
			median := t.Wait(.5).Seconds()
			return []float64{median, t.Wait(.95).Seconds() - median}
		},
		func(t storage.Stat) (string, []string) {
			if t.Waits == 0 {
				return "no job", []string{"0", "–", "–", "–"}
			}
			return fmt.Sprintf("median %s, 95 of a hundred %s", showDuration(t.Wait(.5)), showDuration(t.Wait(.95))),
				[]string{showNumber(t.Waits), showDuration(t.WaitSum / time.Duration(t.Waits)), showDuration(t.Wait(.5)), showDuration(t.Wait(.95))}
		},
		func(top float64) string { return showDuration(time.Duration(top * float64(time.Second))) })
}

// spanName is the length of a span as a title says it.
func spanName(d time.Duration) string {
	switch d {
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	}
	return showDuration(d)
}

// UTC is a time as the tips of charts say it: no script reaches them.
func (v view) UTC(t time.Time) string { return t.UTC().Format("2 Jan 15:04") }
