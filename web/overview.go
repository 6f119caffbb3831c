package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// tile is a number with its meaning.
type tile struct {
	Label, Value, Note string
	Class              string // colours the value
}

// overviewView is the first page.
type overviewView struct {
	Tiles   []tile
	Exports []exportRow
	// What was searched for, and what could be.
	Search, Kind string
	Kinds        []string
	Older        string // the address of the next page
	First        string // the address of the first page, when this is another
	Maintenance  storage.Maintenance
}

// Filtered says that the list may leave exports out.
func (v overviewView) Filtered() bool { return v.Search != "" || v.Kind != "" }

func (s *Server) overviewPage(w http.ResponseWriter, r *http.Request) error {
	scope := of(r).principal.scope
	q := r.URL.Query()
	v := overviewView{Search: q.Get("q"), Kind: q.Get("kind"), Kinds: s.dispatcher.Kinds()}
	counts, err := s.store.Overview(r.Context(), scope)
	if err != nil {
		return err
	}
	v.Tiles, v.Maintenance = overviewTiles(counts, time.Now()), s.maintained(r.Context())
	if !scope.All { // the note is among operators
		v.Maintenance.Note = ""
	}
	page, err := s.store.Exports(r.Context(), scope, storage.ExportFilter{Kind: v.Kind, Search: v.Search, After: q.Get("after"), Limit: 25})
	if err != nil {
		return err
	}
	for _, e := range page.Items {
		v.Exports = append(v.Exports, newExportRow(e))
	}
	if page.Next != "" {
		v.Older = v.address(page.Next)
	}
	if q.Get("after") != "" {
		v.First = v.address("")
	}
	return s.render(w, r, http.StatusOK, "overview", v)
}

// address is the list from a cursor on, with the same search.
func (v overviewView) address(after string) string {
	q := url.Values{}
	for name, value := range map[string]string{"q": v.Search, "kind": v.Kind, "after": after} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return "/"
	}
	return "/?" + q.Encode()
}

func overviewTiles(o storage.Overview, now time.Time) []tile {
	window := " in the last " + windowName(storage.OverviewWindow)
	waiting := tile{Label: "Waiting now", Value: showCount(o.Waiting), Note: "nothing is due"}
	if o.OldestWait != nil {
		waiting.Note = "the oldest for " + showDuration(now.Sub(*o.OldestWait))
	}
	fenced := tile{Label: "Fenced out" + window, Value: showCount(o.Fenced), Note: "stale attempts"}
	if o.Fenced > 0 {
		fenced.Class, fenced.Note = "fenced", "nothing was lost"
	}
	failed := tile{Label: "Failed" + window, Value: showCount(o.Failed), Note: "jobs out of attempts"}
	if o.Failed > 0 {
		failed.Class = "failed"
	}
	return []tile{
		{Label: "Running now", Value: showCount(o.Running), Note: "jobs at work"}, waiting,
		{Label: "Published" + window, Value: showCount(o.Published), Note: "jobs done"}, fenced, failed,
	}
}

// windowName is a window of time as a label says it: "hour", "24 hours".
func windowName(d time.Duration) string {
	switch d {
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	case 7 * 24 * time.Hour:
		return "week"
	}
	return showDuration(d)
}
