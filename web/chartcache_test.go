package web

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// Charts are drawn once for the same numbers, and again for others, another window, another tenant or after a while.
func TestChartsAreDrawnOnce(t *testing.T) {
	t.Parallel()
	s := &Server{pages: newPages(assets{})}
	now := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	h := storage.History{From: now.Truncate(time.Minute).Add(-2 * time.Minute), Step: time.Minute, Spans: make([]storage.Stat, 3)}
	for i := range h.Spans {
		h.Spans[i].At = h.From.Add(time.Duration(i) * time.Minute)
	}
	h.Spans[1].Done = 41
	more := h
	more.Spans = slices.Clone(h.Spans)
	more.Spans[1].Done = 42
	key := chartKey{storage.Scope{Tenant: "acme"}, "hour"}
	first := must(s.charts(key, h, now))(t)
	if first.empty || !strings.Contains(string(first.html), "41 other done") {
		t.Fatalf("drawn was:\n%s", first.html)
	}
	for name, c := range map[string]struct {
		key   chartKey
		h     storage.History
		at    time.Time
		drawn bool // before
	}{
		"the same":       {key, h, now.Add(time.Second), true},
		"another number": {key, more, now, false},
		"another window": {chartKey{key.scope, "day"}, h, now, false},
		"another tenant": {chartKey{storage.Scope{Tenant: "beta"}, "hour"}, h, now, false},
		"all tenants":    {chartKey{storage.Scope{All: true}, "hour"}, h, now, false},
		"later":          {key, h, now.Add(chartsKept), false},
	} {
		if _, ok := s.drawn.find(c.key, c.h, c.at); ok != c.drawn {
			t.Errorf("%s: found drawn: %v", name, ok)
		}
	}
	if again := must(s.charts(key, more, now))(t); !strings.Contains(string(again.html), "42 other done") {
		t.Errorf("other numbers were drawn as:\n%s", again.html)
	}
}

// The charts of many tenants are not kept for ever.
func TestKeptChartsAreBounded(t *testing.T) {
	t.Parallel()
	var c chartCache
	for i := range 2 * maxCharts {
		c.keep(chartKey{storage.Scope{Tenant: string(rune('a' + i))}, "hour"}, drawnCharts{})
		if len(c.kept) > maxCharts {
			t.Fatalf("%d are kept", len(c.kept))
		}
	}
}

// Without a job there is no wait, not one of 0 ms.
func TestWaitsOfNobody(t *testing.T) {
	t.Parallel()
	if got := waitChart(storage.History{Step: time.Minute}).Summary; strings.Contains(got, "0 ms") || got == "" {
		t.Errorf("the chart says %q", got)
	}
}
