package web

import "github.com/fenceline/fenceline/storage"

// navItem is a link of the main navigation.
type navItem struct {
	Path, Label string
	needs       storage.Verb
	allTenants  bool // only for those who see every tenant
	Current     bool
}

// navigation is every page that the navigation may link, in its order; those that
// the table of routes lacks are left out.
func navigation() []navItem {
	return []navItem{
		{Path: "/", Label: "Overview", needs: storage.VerbView},
		{Path: "/exports", Label: "Exports", needs: storage.VerbView},
		{Path: "/new", Label: "New export", needs: storage.VerbRequest},
		{Path: "/invoices", Label: "Invoices", needs: storage.VerbRequest},
		{Path: "/jobs", Label: "Jobs", needs: storage.VerbView},
		{Path: "/failed", Label: "Failed", needs: storage.VerbView},
		{Path: "/queues", Label: "Queues and workers", needs: storage.VerbView},
		{Path: "/batches", Label: "Batches", needs: storage.VerbView},
		{Path: "/schedules", Label: "Schedules", needs: storage.VerbView},
		{Path: "/cleanup", Label: "Clean-up", needs: storage.VerbView, allTenants: true},
		{Path: "/audit", Label: "Audit", needs: storage.VerbAdminister},
		{Path: "/settings", Label: "Settings", needs: storage.VerbView},
	}
}

// linked is the navigation of what there is in a table of routes.
func linked(table []route) []navItem {
	there := map[string]bool{}
	for _, rt := range table {
		there[rt.method+" "+rt.path] = true
	}
	there["GET /"] = there["GET /{$}"]
	var items []navItem
	for _, it := range navigation() {
		if there["GET "+it.Path] {
			items = append(items, it)
		}
	}
	return items
}

// navFor is the navigation that somebody sees on a page.
func (s *Server) navFor(who principal, path string) []navItem {
	var items []navItem
	for _, it := range s.nav {
		if !who.may(it.needs) || it.allTenants && !who.scope.All {
			continue
		}
		it.Current = it.Path == path
		items = append(items, it)
	}
	return items
}
