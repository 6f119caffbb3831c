package web

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// concrete fills the wildcards of a route.
func concrete(path string) string {
	return strings.NewReplacer("{$}", "", "{id}", uuid.NewString(), "{group}", uuid.NewString(), "{name}", "a.csv", "{report}", "orders", "{file}", "app.css", "{attempt}", uuid.NewString(), "{link}", uuid.NewString(), "{secret}", "x").Replace(path)
}

// Every route but the named ones is closed to nobody. The test walks the table,
// so a new route that is open by mistake fails here.
func TestRoutesAreClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wrong := []creds{nobody, {"Authorization", "Bearer fl_wrong"}, {"Authorization", "Basic YTpi"}, {"Cookie", "fenceline=wrong"}}
	for _, rt := range w.server.routes() {
		name := rt.method + " " + rt.path
		if rt.access == open {
			if !slices.Contains(mayBeOpen(), name) {
				t.Errorf("%s is open", name)
			}
			continue
		}
		for _, who := range wrong {
			got := w.send(rt.method, concrete(rt.path), who, nil)
			if rt.access == signedIn {
				if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/signin" {
					t.Errorf("%s with %q answered %d to %q, want a redirect to /signin", name, who, got.StatusCode, got.Header.Get("Location"))
				}
				continue
			}
			if got.StatusCode != 401 || got.Header.Get("Content-Type") != "application/problem+json" || got.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q answered %d %v, want a 401 problem with WWW-Authenticate", name, who, got.StatusCode, got.Header)
			}
		}
	}
}

// The other way round: with credentials no route says that they are missing.
func TestRoutesLetIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	person, token := w.person("Nadia", ""), w.token("")
	for _, rt := range w.server.routes() {
		if rt.path == "/events" || rt.path == "/api/v1/events" || rt.path == "/signout" { // one does not end, the other ends the session
			continue
		}
		who := person
		if rt.access == apiToken {
			who = token
		}
		got := w.send(rt.method, concrete(rt.path), who, nil)
		if got.StatusCode == 401 || got.StatusCode >= 500 || got.Header.Get("Location") == "/signin" {
			t.Errorf("%s %s answered %d %s", rt.method, rt.path, got.StatusCode, got.body)
		}
	}
	if got := w.get("/metrics", person); got.StatusCode != 401 {
		t.Errorf("metrics answered %d to a session, want 401: they want a token", got.StatusCode)
	}
	if got := w.get("/", token); got.Header.Get("Location") != "/signin" {
		t.Errorf("a page answered %d to a token, want the sign-in page", got.StatusCode)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	for _, path := range []string{"/", "/signin", "/api/v1/jobs", "/nothing", "/api/nothing", "/healthz", exportPath(uuid.New())} {
		h := w.get(path, who).Header
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s has the policy %q", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Request-Id") == "" || h.Get("Referrer-Policy") == "" {
			t.Errorf("%s lacks a header: %v", path, h)
		}
	}
	if got := w.get("/healthz", nobody, "X-Request-Id", "from-the-proxy.1").Header.Get("X-Request-Id"); got != "from-the-proxy.1" {
		t.Errorf("the request id is %q, want the one that was given", got)
	}
	if got := w.get("/healthz", nobody, "X-Request-Id", `a" b`).Header.Get("X-Request-Id"); strings.Contains(got, `"`) {
		t.Errorf("the request id is %q, taken as it came", got)
	}
}

func TestNoRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	page := w.get("/nothing", who).want(t, 404, "Not found", "There is no such address")
	if !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
		t.Errorf("a page that does not exist is %s", page.Header.Get("Content-Type"))
	}
	p := decode[problem](t, w.get("/api/v1/nothing", who).want(t, 404))
	if p.Type != "urn:fenceline:problem:not-found" || p.Status != 404 || p.RequestID == "" {
		t.Errorf("the problem is %+v", p)
	}
	wrong := w.send("PUT", "/api/v1/jobs", who, nil).want(t, 405)
	if allow := wrong.Header.Get("Allow"); !strings.Contains(allow, "POST") || !strings.Contains(allow, "GET") {
		t.Errorf("Allow is %q", allow)
	}
	w.send("DELETE", "/", who, nil).want(t, 405, "<!doctype html>")
}

func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	j := w.job("acme", "k", "K")
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		w.send("POST", "/jobs/"+j.ID.String()+"/cancel", who, nil, header...).want(t, 403)
		w.send("POST", "/api/v1/jobs/"+j.ID.String()+"/cancel", who, nil, header...).want(t, 403, "cross-origin")
	}
	if got := must(w.store.Job(w.ctx, principalAll.scope, j.ID))(t); got.State != "queued" {
		t.Errorf("another site's form made the job %s", got.State)
	}
	w.send("POST", "/jobs/"+j.ID.String()+"/cancel", who, nil, "Sec-Fetch-Site", "same-origin").want(t, 303)
}

func TestErrorsDoNotLeak(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	handler := w.server.chain([]route{
		{"GET", "/leak", open, "", func(http.ResponseWriter, *http.Request) error { return errors.New("password=hunter2") }},
		{"GET", "/panic", open, "", func(http.ResponseWriter, *http.Request) error { panic("password=hunter2") }},
		{"GET", "/api/leak", api, storage.VerbView, func(http.ResponseWriter, *http.Request) error { return errors.New("password=hunter2") }},
	})
	w.base = newPlainServer(t, handler)
	for _, path := range []string{"/leak", "/panic"} {
		w.get(path, nobody).want(t, 500, "Something went wrong").without(t, "hunter2")
	}
	got := w.get("/api/leak", w.token("")).want(t, 500)
	got.without(t, "hunter2")
	id := decode[problem](t, got).RequestID
	eventually(t, "the log has the error with the request id", func() bool {
		return strings.Contains(w.log.String(), "hunter2") && strings.Contains(w.log.String(), id)
	})
}

func TestStatic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"app.css", "app.js", "icon.svg"} {
		got := w.get(w.server.assets.urls[name], nobody).want(t, 200)
		if cache := got.Header.Get("Cache-Control"); !strings.Contains(cache, "immutable") || !strings.Contains(cache, "max-age=31536000") {
			t.Errorf("%s is kept as %q", name, cache)
		}
	}
	w.get("/static/app.css", nobody).want(t, 404) // without its hash it is no address
}
