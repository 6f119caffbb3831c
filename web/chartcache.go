package web

import (
	"bytes"
	"fmt"
	"html/template"
	"slices"
	"sync"
	"time"

	"github.com/fenceline/fenceline/storage"
)

const (
	// chartsKept is for how long drawn charts are used again at most: their times are written relative to the day.
	chartsKept = time.Minute
	// maxCharts bounds for how many scopes and windows drawn charts are kept.
	maxCharts = 300
)

// chartKey is whose charts they are, and of which window.
type chartKey struct {
	scope  storage.Scope
	window string
}

// drawnCharts are charts as HTML, with the numbers that they show.
type drawnCharts struct {
	history storage.History
	at      time.Time
	empty   bool // nothing has ended
	html    template.HTML
}

// shows reports whether the charts are those of some numbers.
func (d drawnCharts) shows(h storage.History, now time.Time) bool {
	return d.history.From.Equal(h.From) && d.history.Step == h.Step && now.Sub(d.at) < chartsKept && slices.Equal(d.history.Spans, h.Spans)
}

// chartCache keeps drawn charts. The numbers are read for each request and change once
// a minute; to draw hundreds of bars and rows again for each viewer would be most of
// what the overview costs. It is safe for concurrent use; the zero value is empty.
type chartCache struct {
	mu   sync.Mutex
	kept map[chartKey]drawnCharts
}

func (c *chartCache) find(key chartKey, h storage.History, now time.Time) (drawnCharts, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.kept[key]
	return d, ok && d.shows(h, now)
}

func (c *chartCache) keep(key chartKey, d drawnCharts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= maxCharts {
		c.kept = map[chartKey]drawnCharts{}
	}
	c.kept[key] = d
}

// charts draws what ended in a window, or finds it drawn.
func (s *Server) charts(key chartKey, h storage.History, now time.Time) (drawnCharts, error) {
	if d, ok := s.drawn.find(key, h, now); ok {
		return d, nil
	}
	list := []chart{throughputChart(h), waitChart(h)}
	var out bytes.Buffer
	if err := s.pages["overview"].ExecuteTemplate(&out, "charts", passed{view{Now: now}, list}); err != nil {
		return drawnCharts{}, fmt.Errorf("draw charts: %w", err)
	}
	d := drawnCharts{h, now, list[0].Empty(), template.HTML(out.String())} // by a template, which has escaped it
	s.drawn.keep(key, d)
	return d, nil
}
