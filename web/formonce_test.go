package web

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// twice says of a form why it makes one thing when it is sent twice.
type twice struct {
	why  string // by nature; empty when it is by its nonce
	form url.Values
	make func(*world) string // what its path names, unless it is the thing of its path
	page string              // the address of the page that asks, whose hidden fields are sent besides
}

// formsTwice are all forms of the dashboard. Whoever adds one says here why it may be sent twice.
func formsTwice(t *testing.T) map[string]twice {
	const sets, ends, asks, named = "it sets what is set already", "what it ends has ended", "it changes nothing", "a name is given once"
	failed := func(w *world) string { return w.failed(own, uuid.NewString(), "no table").ID.String() }
	kept := func(do func(*world, uuid.UUID) error) func(*world) string {
		return func(w *world) string {
			j, _ := w.published(own, uuid.NewString(), "t", "a.csv", "id\n1\n")
			must(0, do(w, j.ExportID))(w.t)
			return j.ExportID.String()
		}
	}
	all, keyed := storage.Scope{All: true}, func(pairs ...string) twice {
		form := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			form.Add(pairs[i], pairs[i+1])
		}
		return twice{form: form}
	}
	return map[string]twice{
		"/settings/tokens": keyed("name", "shop", "verbs", "view", "expires", "90d"), "/settings/users": keyed("name", "Zoë", "role", "viewer", "tenant", own),
		"/settings/users/{id}/password": keyed(), "/exports/{id}/links": keyed("file", "a.csv", "lifetime", "1h"), "/targets/new": keyed("name", "shop", "kind", "webhook", "url", "https://example.com/"),
		"/targets/{id}/rotate": keyed(), "/targets/{id}/test": keyed(), "/schedules/{name}/run": keyed(), "/new/{report}": keyed("tenant", own, "p.from", "2026-01-01"),
		"/invoices": keyed("tenant", own, "document", numberless(t), "series", own+"/inv"),

		"/signin": {why: "a link works once, and a password's session takes the place of the one before", form: url.Values{"token": {"x"}}}, "/signout": {why: ends},
		"/jobs/{id}/cancel": {why: ends}, "/jobs/{id}/retry": {why: "a job that waits is not retried", make: failed},
		"/batches/{id}/retry": {why: "a job that waits is not retried"}, "/batches/{id}/cancel": {why: ends}, "/batches/{id}/zip": {why: "its job is the one that there is, see TestBatchPage"},
		"/failed/all": {why: "a job that waits is not retried", page: "/failed/all?do=retry", make: failed}, "/jobs/bulk": {why: ends, page: "/jobs/bulk?do=cancel"},
		"/new/{report}/preview": {why: asks, form: url.Values{"tenant": {own}, "p.from": {"2026-01-01"}}}, "/invoices/preview": {why: asks, form: url.Values{"document": {numberless(t)}, "series": {own + "/inv"}}}, "/schedules/-/preview": {why: asks, form: scheduleForm("x")},
		"/cleanup/run": {why: "one runs at a time, and takes what is due"}, "/cleanup/off": {why: sets, form: url.Values{"note": {"x"}}}, "/cleanup/on": {why: sets},
		"/exports/{id}/pin": {why: sets, form: url.Values{"note": {"x"}}}, "/exports/{id}/hold": {why: "it is on hold already", form: url.Values{"reason": {"x"}}},
		"/exports/{id}/unpin":   {why: ends, make: kept(func(w *world, id uuid.UUID) error { return w.store.PinExport(w.ctx, all, id, nil, "x", byTest) })},
		"/exports/{id}/release": {why: ends, make: kept(func(w *world, id uuid.UUID) error { return w.store.HoldExport(w.ctx, all, id, "x", byTest) })},
		"/exports/{id}/restore": {why: sets, make: kept(func(w *world, id uuid.UUID) error { return w.store.DeleteExport(w.ctx, all, id) })},
		"/exports/{id}/delete":  {why: ends}, "/exports/{id}/links/{link}/revoke": {why: ends},
		"/settings/kept/hold": {why: "it is on hold already", form: url.Values{"tenant": {"held"}, "reason": {"x"}}}, "/settings/kept/release?tenant=held": {why: ends},
		"/settings/retention/change": {why: sets, form: url.Values{"do": {"set"}, "kind": {"report"}, "current_days": {"90"}}},
		"/queues/{name}/pause":       {why: sets, make: func(*world) string { return "default" }}, "/queues/{name}/resume": {why: ends, make: func(*world) string { return "default" }},
		"/schedules/-/new": {why: named, form: scheduleForm("once")}, "/schedules/{name}/edit": {why: sets, form: scheduleForm("x")},
		"/schedules/{name}/pause": {why: sets}, "/schedules/{name}/resume": {why: sets}, "/schedules/{name}/delete": {why: ends},
		"/settings/password": {why: "the current one is asked for, and is another by then", form: url.Values{"new": {goodPassword}, "again": {goodPassword}}},
		"/settings/sessions": {why: ends}, "/settings/sessions/{id}/end": {why: ends, make: func(*world) string { return uuid.NewString() }},
		"/settings/users/{id}/role": {why: sets, form: url.Values{"role": {"viewer"}, "tenant": {own}}}, "/settings/users/{id}/disable": {why: sets}, "/settings/users/{id}/enable": {why: sets},
		"/settings/users/{id}/signout": {why: ends}, "/settings/users/{id}/remove": {why: ends}, "/settings/tokens/{id}/revoke": {why: ends},
		"/targets/{id}/enable": {why: sets}, "/targets/{id}/disable": {why: sets}, "/targets/{id}/replay": {why: "what waits is not given up"}, "/targets/{id}/remove": {why: ends},
	}
}

// rowCounts are how many rows each table has, but for what is only said or noted of a deed.
func (w *world) rowCounts() map[string]int64 {
	w.t.Helper()
	counts := map[string]int64{}
	must(0, w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		var names []string
		err := tx.Raw(`SELECT relname FROM pg_class WHERE relnamespace = 'fenceline'::regnamespace AND relkind = 'r' AND relname NOT IN ('audit', 'requests', 'retention_changes', 'sweeps', 'news')
			AND relname NOT LIKE 'stats%'`).Scan(&names).Error
		for _, name := range names {
			var n int64
			if err == nil {
				err = tx.Raw("SELECT count(*) FROM fenceline." + name).Row().Scan(&n)
			}
			counts[name] = n
		}
		return err
	}))(w.t)
	return counts
}

// Every form of the dashboard makes one thing when it is sent twice.
func TestEveryFormSentTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(0, w.store.CreateSeries(w.ctx, storage.Series{Tenant: own, Name: "inv", Prefix: "I-", Digits: 3, First: 1}))(t)
	all, seen := formsTwice(t), map[string]bool{}
	for _, rt := range w.server.routes() {
		if rt.method != "POST" || rt.access == api || rt.access == open && rt.path != "/signin" {
			continue
		}
		path := rt.path
		if path == "/settings/kept/release" {
			path += "?tenant=held"
		}
		c, ok := all[path]
		if !ok {
			t.Errorf("POST %s: say in formsTwice why it makes one thing when it is sent twice", rt.path)
			continue
		}
		seen[path] = true
		if c.make == nil {
			if thing := thingOf(rt.path); thing != nil {
				c.make = thing.make
			} else {
				c.make = func(*world) string { return "" }
			}
		}
		for part := range strings.FieldsSeq(c.make(w)) {
			path = strings.Replace(path, wildcard(path), part, 1)
		}
		if c.why == "" {
			c.form.Set("nonce", uuid.NewString())
		}
		who := w.person(fmt.Sprint("Root of ", rt.path), "")
		if c.page != "" {
			c.form = hiddenOf(w.get(c.page, who).want(t, 200))
		}
		first := w.post(path, who, c.form)
		if first.StatusCode >= 400 && !slices.Contains([]string{"/signin", "/settings/sessions/{id}/end", "/batches/{id}/zip", "/cleanup/run"}, rt.path) {
			t.Errorf("POST %s answers %d at once:\n%.300s", path, first.StatusCode, first.body)
		}
		before := w.rowCounts()
		second := w.post(path, who, c.form)
		if after := w.rowCounts(); !maps.Equal(before, after) {
			t.Errorf("POST %s makes more when it is sent twice:\n%v\n%v", path, before, after)
		}
		to := strings.TrimSuffix(second.Header.Get("Location"), "?reused=1")
		if c.why == "" && (second.StatusCode != first.StatusCode || to != first.Header.Get("Location")) {
			t.Errorf("POST %s is answered %d %q, then %d %q", path, first.StatusCode, first.Header.Get("Location"), second.StatusCode, to)
		}
	}
	for path := range all {
		if !seen[path] {
			t.Errorf("there is no form at %s", path)
		}
	}
}

// Who clicks twice sees the answer to the second click: it holds the secret of the one token there is.
func TestMakeATokenClickedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, other := w.person("Root", ""), w.person("Zoë", "")
	page := w.get("/settings/tokens", who).want(t, 200)
	form := hiddenIn(page)
	if form.Get("nonce") == "" {
		t.Fatalf("the form has no nonce:\n%s", page.body)
	}
	for name, value := range map[string]string{"name": "shop", "verbs": "view", "expires": "90d"} {
		form.Set(name, value)
	}
	secrets := make([]string, 4)
	var clicks sync.WaitGroup
	for i := range secrets {
		clicks.Go(func() {
			secrets[i] = shown(t, w.post("/settings/tokens", who, form).want(t, 200, "The token was made."))
		})
	}
	clicks.Wait()
	if len(slices.Compact(secrets)) != 1 {
		t.Errorf("more than one secret was shown")
	}
	w.get("/api/v1/jobs", creds{"Authorization", "Bearer " + secrets[0]}).want(t, 200)
	if n := strings.Count(w.get("/settings/tokens", who).body, "<bdi>shop</bdi>"); n != 1 {
		t.Errorf("%d tokens were made", n)
	}
	if log := must(w.store.AuditLog(w.ctx, storage.Scope{All: true}, storage.AuditFilter{Action: auditTokenMade}))(t); len(log.Items) != 1 {
		t.Errorf("the log tells of %d tokens", len(log.Items))
	}
	if theirs := shown(t, w.post("/settings/tokens", other, form).want(t, 200)); theirs == secrets[0] {
		t.Error("somebody else with the same form was shown the secret")
	}
	form.Set("name", "till") // another form
	if another := shown(t, w.post("/settings/tokens", who, form).want(t, 200)); another == secrets[0] {
		t.Error("another token has the same secret")
	}
	held := ""
	must(0, w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		return tx.Raw("SELECT string_agg(encode(answer, 'escape'), ' ') FROM fenceline.requests").Row().Scan(&held)
	}))(t)
	if held == "" || strings.Contains(held, secrets[0]) || strings.Contains(held, "shop") {
		t.Errorf("what is kept can be read: %s", held)
	}
}
