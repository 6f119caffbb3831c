package web

import (
	"strings"

	"github.com/fenceline/fenceline/storage"
)

// navItem is a link of the main navigation.
type navItem struct {
	Path, Label string
	needs       storage.Verb
	allTenants  bool // only for those who see every tenant
	// Current is the value of aria-current: "page" on the page itself, "true" on
	// one below it, empty elsewhere.
	Current string
}

// navGroup is some links under a heading; the first has none.
type navGroup struct {
	Label string
	Items []navItem
}

// navigation is every page that the navigation may link, in its order; those that
// the table of routes lacks are left out.
func navigation() []navGroup {
	return []navGroup{
		{"", []navItem{
			{Path: "/", Label: "Overview", needs: storage.VerbView},
			{Path: "/exports", Label: "Exports", needs: storage.VerbView},
			{Path: "/new", Label: "New export", needs: storage.VerbRequest},
			{Path: "/invoices", Label: "Invoices", needs: storage.VerbRequest},
		}},
		{"Runner", []navItem{
			{Path: "/jobs", Label: "Jobs", needs: storage.VerbView},
			{Path: "/failed", Label: "Failed", needs: storage.VerbView},
			{Path: "/batches", Label: "Batches", needs: storage.VerbView},
			{Path: "/schedules", Label: "Schedules", needs: storage.VerbView},
			{Path: "/queues", Label: "Queues and workers", needs: storage.VerbView, allTenants: true},
		}},
		{"Care", []navItem{
			{Path: "/cleanup", Label: "Clean-up", needs: storage.VerbView, allTenants: true},
			{Path: "/lab", Label: "Lab", needs: storage.VerbView},
			{Path: "/targets", Label: "Notices", needs: storage.VerbAdminister},
			{Path: "/audit", Label: "Audit", needs: storage.VerbAdminister},
			{Path: "/settings", Label: "Settings", needs: storage.VerbView},
			{Path: "/api/docs", Label: "API", needs: storage.VerbView},
		}},
	}
}

// linked is the navigation of what there is in a table of routes.
func linked(table []route) []navGroup {
	there := map[string]bool{}
	for _, rt := range table {
		there[rt.method+" "+rt.path] = true
	}
	there["GET /"] = there["GET /{$}"]
	return keep(navigation(), func(it *navItem) bool { return there["GET "+it.Path] })
}

// navFor is the navigation that somebody sees on a page.
func (s *Server) navFor(who principal, path string) []navGroup {
	return keep(s.nav, func(it *navItem) bool {
		switch {
		case it.Path == path:
			it.Current = "page"
		case it.Path != "/" && strings.HasPrefix(path, it.Path+"/"):
			it.Current = "true"
		}
		return who.may(it.needs) && (!it.allTenants || who.scope.All)
	})
}

// keep copies groups with those items for which a function answers true; it may change them. Empty groups go.
func keep(groups []navGroup, wanted func(*navItem) bool) (kept []navGroup) {
	for _, g := range groups {
		var items []navItem
		for _, it := range g.Items {
			if wanted(&it) {
				items = append(items, it)
			}
		}
		if len(items) > 0 {
			kept = append(kept, navGroup{g.Label, items})
		}
	}
	return kept
}
