package web

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

//go:embed templates
var templateFiles embed.FS

// pages are the templates, one set per page.
type pages map[string]*template.Template

// wide is a number of any whole type, as templates hand it on.
func wide(n any) int64 { return reflect.ValueOf(n).Int() }

// newPages parses what was embedded at build time; a mistake in it is one of the program.
func newPages(a assets) pages {
	funcs := template.FuncMap{
		"asset":     func(name string) string { return a.urls[name] },
		"number":    showNumber,
		"count":     showCount,
		"things":    func(n any, noun string) string { return howMany(wide(n), noun) },
		"noun":      func(n any, noun string) string { return count.Noun(wide(n), noun) },
		"verb":      func(n any, one, many string) string { return count.Verb(wide(n), one, many) },
		"size":      showSize,
		"duration":  showDuration,
		"shortHash": shortHash,
		"short":     func(id uuid.UUID) string { return id.String()[24:] }, // the random end: the beginnings of v7 ids are alike
		"cut":       cut,
		"capped":    func(n int64) string { return showCapped(n) },
		"firstLine": firstLine,
		"warnings":  showWarnings,
		"px":        func(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) },
		"inc":       func(n int) int { return n + 1 },
		"deref":     func(n *int64) int64 { return *n },
		"named":     func(name, value string) namedText { return namedText{name, value} },
		"pass":      func(v view, value any) passed { return passed{v, value} },
	}
	parts := []string{"layout.html", "parts.html", "fence.html", "links.html", "retention.html"} // of all pages; each other file is a page
	shared := template.New("").Funcs(funcs)
	for _, name := range parts {
		template.Must(shared.ParseFS(templateFiles, "templates/"+name))
	}
	entries, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // it was embedded
	}
	all := pages{}
	for _, e := range entries {
		if !slices.Contains(parts, e.Name()) {
			name := strings.TrimSuffix(e.Name(), ".html")
			all[name] = template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, "templates/"+e.Name()))
		}
	}
	return all
}

// view is what a template is given: the page's own data and what all pages show.
type view struct {
	Page any
	User string // empty when nobody is signed in
	Path string
	// AllTenants is whether the viewer sees every tenant.
	AllTenants bool
	Now        time.Time
	// Seen is the newest event before the page was read; empty when nobody is signed in.
	Seen string
	// Nav is what the navigation links for the viewer.
	Nav []navGroup

	// Recovery is why nothing is published at present; empty when all is well.
	Recovery string

	verbs []storage.Verb
}

// May reports whether the viewer may do deeds of a kind, such as "operate".
func (v view) May(verb storage.Verb) bool { return slices.Contains(v.verbs, verb) }

// MayCancel reports whether the viewer may cancel a job that somebody asked for.
func (v view) MayCancel(requestedBy string) bool {
	return principal{name: v.User, verbs: v.verbs}.mayCancel(requestedBy)
}

// Time is a time in one of the forms of format.go, as an element for the script.
func (v view) Time(form string, t time.Time) template.HTML { return clock{v.Now}.html(form, t) }

// Since is the length of time from t until now.
func (v view) Since(t time.Time) string { return showDuration(v.Now.Sub(t)) }

// passed is what a template inside a page is given: the page's view and a value.
type passed struct {
	View  view
	Value any
}

// namedText is a text with what it is.
type namedText struct{ Name, Value string }

// fragmentHeader asks for the middle of a page only: the script sends it.
const fragmentHeader = "Fenceline-Fragment"

// render answers with a page, or with its middle when the script asks for that.
func (s *Server) render(w http.ResponseWriter, r *http.Request, status int, page string, data any) error {
	who := of(r).principal
	v := view{Page: data, User: who.name, Path: r.URL.Path, AllTenants: who.scope.All, Now: time.Now(), Nav: s.navFor(who, r.URL.Path), verbs: who.verbs, Seen: of(r).seen}
	v.Recovery = s.recoveryNeeded(r.Context(), who.scope)
	part := "layout"
	if r.Header.Get(fragmentHeader) != "" {
		part = "main"
	}
	var out bytes.Buffer
	if err := s.pages[page].ExecuteTemplate(&out, part, v); err != nil {
		return fmt.Errorf("render page %s: %w", page, err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Vary", fragmentHeader)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "private, no-cache")
	}
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // when it fails nobody is left to tell
	return nil
}

// respond answers with JSON.
func respond(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	respondWith(w, status, body)
	return nil
}

// respondWith answers with JSON that is encoded already.
func respondWith(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "private, no-cache")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // when it fails nobody is left to tell
}

// pathID is the {id} of a route. What is no id names nothing.
func pathID(r *http.Request) (uuid.UUID, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil || id.String() != r.PathValue("id") {
		return uuid.Nil, errMissing
	}
	return id, nil
}
