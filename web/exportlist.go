package web

import (
	"net/http"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// exportListRoutes are the part of the table about the list of exports.
func (s *Server) exportListRoutes() []route {
	return []route{{"GET", "/exports", signedIn, storage.VerbView, s.exportsPage}}
}

// exportRow is a line of the list of exports.
type exportRow struct {
	storage.ExportSummary
	Chip     chip
	Progress *progress
	// Note says what the columns do not: why it failed, what it waits for.
	Note string
}

// exportsView is the page of all exports.
type exportsView struct {
	Filters filterBar
	Rows    []exportRow
	Pager   pager
	Empty   emptyState
}

func (s *Server) exportsPage(w http.ResponseWriter, r *http.Request) error {
	l := newListing(r, "q", "state", "kind", "tenant")
	f := storage.ExportSearch{State: storage.ExportState(l.Get("state")), Tenant: l.Get("tenant"),
		ExportFilter: storage.ExportFilter{Kind: l.Get("kind"), Search: l.Get("q"), After: l.After, Limit: listRows}}
	if !f.State.Known() {
		return invalid.New("state", l.Get("state"), "is no state of exports; use current, running, failed or never")
	}
	who := of(r).principal
	found, err := s.store.SearchExports(r.Context(), who.scope, f)
	if err != nil {
		return err
	}
	v := exportsView{Filters: s.exportFilters(l, who), Pager: l.pager(found.Next)}
	v.Pager.Note = lookedText(found.Looked, "exports", l.After)
	for _, e := range found.Items {
		v.Rows = append(v.Rows, newExportRow(e))
	}
	v.Empty = l.nothing("exports", emptyState{Title: "No exports yet.", Text: "Ask for the first one with", Href: "/new", Link: "New export",
		Command: "fenceline dispatch report NAME --wait -o file.csv"})
	if found.Looked > 0 {
		v.Empty = emptyState{Title: "No exports match so far.", Text: "Nothing among those that were looked at is like what was chosen above.", Href: v.Pager.Older, Link: "Look further back"}
	}
	return s.render(w, r, http.StatusOK, "exports", v)
}

func (s *Server) exportFilters(l listing, who principal) filterBar {
	state := formField{Name: "state", Label: "State", Kind: "select", Options: []formOption{
		{"", "Any", false}, {"current", "Has current files", false}, {"running", "Being made now", false},
		{"failed", "Last job failed", false}, {"never", "Never published", false}}}
	fields := []formField{{Name: "q", Label: "Title or key", Kind: "search", Hint: "Search titles and keys"}, state, selectField("kind", "Kind", "Any", s.dispatcher.Kinds()...)}
	if who.scope.All {
		fields = append(fields, formField{Name: "tenant", Label: "Tenant", Kind: "text"})
	}
	return l.filters(len(fields), fields...)
}

func newExportRow(e storage.ExportSummary) exportRow {
	row := exportRow{ExportSummary: e, Chip: chip{"queued", "no file yet"}}
	if e.AttemptID != nil {
		row.Chip = chip{"published", "current"}
	}
	if e.JobState == nil {
		return row
	}
	switch *e.JobState {
	case storage.JobRunning, storage.JobCancelling:
		row.Chip = jobChip(*e.JobState)
		if e.WorkingStep != nil && e.WorkingRows != nil {
			p := stepProgress(*e.WorkingStep, *e.WorkingRows, nil)
			row.Progress = &p
		}
	case storage.JobQueued:
		row.Chip = jobChip(*e.JobState)
		if e.JobError != nil {
			row.Note = "tries again after: " + cut(firstLine(*e.JobError), 120)
		}
	case storage.JobFailed:
		row.Chip = jobChip(*e.JobState)
		if e.JobError != nil {
			row.Note = cut(firstLine(*e.JobError), 120)
		}
	case storage.JobCancelled:
		if e.AttemptID == nil {
			row.Chip = jobChip(*e.JobState)
		}
	}
	return row
}

// Name is what the export is called.
func (e exportRow) Name() string { return exportName(e.Export) }

func exportName(e storage.Export) string {
	if e.Title != "" {
		return e.Title
	}
	return e.Key
}

// More is how many files there are besides the one that is named.
func (e exportRow) More() int { return e.Files - 1 }
