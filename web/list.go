package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// listing is the address of a page with a list: where it is, what was chosen, and
// after what it goes on. Each page of a list has an address that stays.
type listing struct {
	Path  string
	After string // the cursor of this page; empty for the first

	names  []string // what can be chosen, in the order of the address
	chosen url.Values
}

// newListing reads the address of a request; names are what can be chosen.
// Anything else in the query is left out of further addresses.
func newListing(r *http.Request, names ...string) listing {
	q := r.URL.Query()
	l := listing{Path: r.URL.Path, After: q.Get("after"), names: names, chosen: url.Values{}}
	for _, name := range names {
		if value := strings.TrimSpace(q.Get(name)); value != "" {
			l.chosen.Set(name, value)
		}
	}
	return l
}

// Get is what was chosen under a name, or empty.
func (l listing) Get(name string) string { return l.chosen.Get(name) }

// Filtered says that something was chosen, so that the list may leave rows out.
func (l listing) Filtered() bool { return len(l.chosen) > 0 }

// Address is the list from a cursor on, with the same choice.
func (l listing) Address(after string) string {
	var parts []string
	for _, name := range l.names {
		if value := l.Get(name); value != "" {
			parts = append(parts, url.QueryEscape(name)+"="+url.QueryEscape(value))
		}
	}
	if after != "" {
		parts = append(parts, "after="+url.QueryEscape(after))
	}
	if len(parts) == 0 {
		return l.Path
	}
	return l.Path + "?" + strings.Join(parts, "&")
}

// id reads the id that was chosen under a name, the zero one when none was.
func (l listing) id(name string, refused *invalid.Error) uuid.UUID {
	return optionalID(name, l.Get(name), refused)
}

// state reads the state of jobs that was chosen, empty for all.
func (l listing) state(refused *invalid.Error) storage.JobState {
	state := storage.JobState(l.Get("state"))
	if state != "" && !knownState(state) {
		refused.Add("state", string(state), "is no state of jobs")
	}
	return state
}

// pager is the foot of a list.
type pager struct {
	Newest, Older string // addresses; empty for none
	// Note says how far was looked, when that was not everything.
	Note string
}

// pager leads to the first page and to the one that begins after next.
func (l listing) pager(next string) pager {
	var p pager
	if l.After != "" {
		p.Newest = l.Address("")
	}
	if next != "" {
		p.Older = l.Address(next)
	}
	return p
}

// filterBar is the form above a list. It works without script: what was chosen
// is the address.
type filterBar struct {
	Action string
	Fields []formField
	More   []formField // behind "More filters", which is open when one of them was chosen
	Active bool        // something was chosen; there is a way to clear it
}

// Open reports whether a field behind "More filters" was chosen.
func (f filterBar) Open() bool {
	for _, field := range f.More {
		if field.Value != "" {
			return true
		}
	}
	return false
}

// filters is the filter bar of a list with some fields; shown before More are the first few.
func (l listing) filters(shown int, fields ...formField) filterBar {
	for i := range fields {
		fields[i].Value = l.Get(fields[i].Name)
	}
	shown = min(shown, len(fields))
	return filterBar{Action: l.Path, Fields: fields[:shown], More: fields[shown:], Active: l.Filtered()}
}

// selectField is a choice of one of some values, or of all of them.
func selectField(name, label, all string, values ...string) formField {
	return formField{Name: name, Label: label, Kind: "select", Options: options(false, all, values...)}
}

// emptyState is what a list shows that has no rows: why, and what to do next.
type emptyState struct {
	Title, Text string
	Href, Link  string // what to do next
	Command     string // the same in a terminal
}

// nothing is the empty state of a list: first when there is no row at all.
func (l listing) nothing(what string, first emptyState) emptyState {
	switch {
	case l.After != "":
		return emptyState{Title: "No older " + what + ".", Href: l.Address(""), Link: "Back to the newest"}
	case l.Filtered():
		return emptyState{Title: "No " + what + " match.", Text: "Nothing is like what was chosen above.", Href: l.Path, Link: "Show all " + what}
	}
	return first
}

// confirmation is a button that first says what it will do.
type confirmation struct {
	ID     string // in the page
	Label  string // of the button that opens it
	Text   string // what will happen, and to how many
	Action string // where the form goes
	Button string // does it
	Safe   bool   // nothing is lost by it
	Nonce  string // of a form that makes something: sent twice it does so once
}
