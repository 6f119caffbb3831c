package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// Who may do what, for every route of the table × every role and token × tenants. A new
// route must say what it needs, and one that names an object in its path must say here
// how to make one: otherwise these tests fail.

// own is the tenant of the objects.
const own = jobs.DefaultTenant

// mayBeOpen are the routes for anybody. Whoever adds one must mean it.
func mayBeOpen() []string {
	return []string{"GET /healthz", "GET /readyz", "GET /signin", "POST /signin", "GET /static/{file}", "GET /l/{secret}", "GET /l/{secret}/file",
		"GET /signin/provider", "GET /signin/callback"}
}

// allTenantsOnly are the routes that a tenant's people may not use whatever their role,
// with what they are told.
func allTenantsOnly() map[string]int {
	return map[string]int{
		"GET /cleanup": 404, "GET /api/v1/queues": 403, "GET /api/v1/workers": 403, "GET /metrics": 403,
		"POST /cleanup/run": 403, "POST /cleanup/off": 403, "POST /cleanup/on": 403,
		"GET /api/v1/sweeps": 403, "GET /api/v1/sweep/plan": 403, "POST /api/v1/sweep/run": 403, "GET /api/v1/sweep/deletions": 403,
		"GET /queues": 404, "POST /queues/{name}/pause": 403, "POST /queues/{name}/resume": 403,
		"POST /api/v1/queues/{name}/pause": 403, "POST /api/v1/queues/{name}/resume": 403,
	}
}

// noObject are the routes whose wildcards name nothing that belongs to a tenant.
func noObject() []string {
	return []string{"/static/{file}", "/l/{secret}", "/l/{secret}/file", "/queues/{name}/pause", "/queues/{name}/resume", "/settings/sessions/{id}/end", "/api/v1/queues/{name}/pause", "/api/v1/queues/{name}/resume"}
}

// bodies are what routes want to be sent before they look for the object.
func bodies() map[string]string {
	return map[string]string{
		"POST /exports/{id}/links": "file=a.csv&lifetime=1h", "POST /api/v1/exports/{id}/links": `{"file":"a.csv"}`,
		"POST /new/{report}": "p.from=2026-01-01", "POST /new/{report}/preview": "p.from=2026-01-01",
		"POST /exports/{id}/pin": "note=x", "POST /exports/{id}/hold": "reason=x",
		"POST /settings/users/{id}/role": "role=viewer&tenant=default",
	}
}

// mayBeMissing are routes that answer 404 to those whom they let in: a queue that is not
// paused cannot be resumed, and sessions are one's own (see TestOwnSessions).
func mayBeMissing() []string {
	return []string{"POST /settings/kept/release", "POST /exports/{id}/unpin", "POST /exports/{id}/release", "POST /exports/{id}/restore", "DELETE /api/v1/retention", "POST /api/v1/exports/{id}/restore", "POST /api/v1/exports/{id}/release", "POST /api/v1/exports/{id}/unpin", "POST /queues/{name}/resume", "POST /api/v1/queues/{name}/resume", "POST /settings/sessions/{id}/end"}
}

// thing is a kind of object: how to make one of the tenant own, as it stands in the
// path, and what stands there for one that does not exist.
type thing struct {
	below   string // the path up to the object, with its wildcards
	make    func(w *world) string
	nothing func() string
}

func things() []thing {
	export := func(w *world) string {
		j, _ := w.published(own, uuid.NewString(), "t", "a.csv", "id\n1\n")
		return j.ExportID.String()
	}
	job := func(w *world) string { return w.job(own, uuid.NewString(), "t").ID.String() }
	attempt := func(w *world) string {
		j, b := w.published(own, uuid.NewString(), "t", "a.csv", "id\n1\n")
		return j.ExportID.String() + " " + b.ID.String()
	}
	name := func() string { return "n" + uuid.NewString()[:13] }
	two := func() string { return uuid.NewString() + " " + uuid.NewString() }
	return []thing{
		{"/exports/{id}/attempts/{attempt}", attempt, two},
		{"/api/v1/exports/{id}/attempts/{attempt}", attempt, two},
		{"/exports/{id}/links/{link}", makeLink, two},
		{"/api/v1/exports/{id}/links/{link}", makeLink, two},
		{"/failed/{group}", makeFailedGroup, uuid.NewString},
		{"/invoices/series/{name}", makeSeries, name},
		{"/exports/{id}", export, uuid.NewString},
		{"/api/v1/exports/{id}", export, uuid.NewString},
		{"/jobs/{id}", job, uuid.NewString},
		{"/api/v1/jobs/{id}", job, uuid.NewString},
		{"/new/{report}", func(*world) string { return "house" }, name},
		{"/batches/{id}", makeBatch, uuid.NewString},
		{"/api/v1/batches/{id}", makeBatch, uuid.NewString},
		{"/schedules/{name}", makeSchedule, name},
		{"/api/v1/schedules/{name}", makeSchedule, name},
		{"/api/v1/series/{name}", makeSeries, name},
		{"/settings/users/{id}", func(w *world) string {
			return must(w.store.AddUser(w.ctx, storage.NewUser{Name: uuid.NewString(), Tenant: own, Role: storage.RoleViewer}))(w.t).ID.String()
		}, uuid.NewString},
		{"/settings/tokens/{id}", func(w *world) string {
			t, _, err := w.store.NewToken(w.ctx, "t", own)
			return must(t, err)(w.t).ID.String()
		}, uuid.NewString},
		{"/targets/{id}", makeTarget, uuid.NewString},
		{"/api/v1/notify/targets/{id}", makeTarget, uuid.NewString},
		{"/api/v1/notify/deliveries/{id}", makeDelivery, uuid.NewString},
	}
}

func makeLink(w *world) string {
	w.t.Helper()
	j, _ := w.published(own, uuid.NewString(), "t", "a.csv", "id\n1\n")
	made := w.call("/api/v1/exports/"+j.ExportID.String()+"/links", w.token(own), `{"file":"a.csv","lifetime":"1h"}`).want(w.t, 201)
	return j.ExportID.String() + " " + decode[struct{ ID string }](w.t, made).ID
}

// makeFailedGroup makes a job that has failed in a way of its own.
func makeFailedGroup(w *world) string {
	w.t.Helper()
	j := w.job(own, uuid.NewString(), "t")
	b := w.begin(j, "w-1")
	why := "no column " + strings.Map(func(r rune) rune { return 'a' + r%26 }, uuid.NewString())
	must(w.store.EndAttempt(w.ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: why, Counts: true, Final: true}))(w.t)
	groups, _, err := w.store.FailedGroups(w.ctx, storage.Scope{Tenant: own}, storage.FailedFilter{}, 200)
	i := slices.IndexFunc(groups, func(g storage.FailedGroup) bool { return strings.Contains(g.Error, why) })
	if err != nil || i < 0 {
		w.t.Fatalf("%q is in none of %d groups: %v", why, len(groups), err)
	}
	return groups[i].ID.String()
}

func makeBatch(w *world) string {
	w.t.Helper()
	return must(w.store.EnsureBatch(w.ctx, storage.Batch{Tenant: own, Key: uuid.NewString(), Title: "t"}))(w.t).ID.String()
}

func makeSchedule(w *world) string {
	w.t.Helper()
	name := "s" + uuid.NewString()[:13]
	w.putSchedule(name, w.token(own), ordersSchedule).want(w.t, 201)
	return name
}

func makeSeries(w *world) string {
	w.t.Helper()
	name := "s" + uuid.NewString()[:8]
	if err := w.store.CreateSeries(w.ctx, storage.Series{Tenant: own, Name: name, Prefix: name + "-", Digits: 3, First: 1}); err != nil {
		w.t.Fatal(err)
	}
	return name
}

func makeTarget(w *world) string {
	w.t.Helper()
	body := fmt.Sprintf(`{"name":%q,"kind":"webhook","url":"https://example.com/"}`, uuid.NewString()[:13])
	return decode[targetJSON](w.t, w.call(targetsPath, w.token(own), body).want(w.t, 201)).ID
}

func makeDelivery(w *world) string {
	w.t.Helper()
	made := w.call(targetsPath+"/"+makeTarget(w)+"/test", w.token(own), "").want(w.t, 202)
	var delivery struct{ ID string }
	if err := json.Unmarshal([]byte(made.body), &delivery); err != nil || delivery.ID == "" {
		w.t.Fatalf("no delivery in %s: %v", made.body, err)
	}
	return delivery.ID
}

// thingOf is the kind of object that a route names; the longest rule wins.
func thingOf(path string) (found *thing) {
	for _, th := range things() {
		if (path == th.below || strings.HasPrefix(path, th.below+"/")) && (found == nil || len(th.below) > len(found.below)) {
			found = &th
		}
	}
	return found
}

// actor is somebody who asks.
type actor struct {
	name   string
	who    creds
	tenant string // empty: all
	token  bool
	verbs  []storage.Verb
}

func (w *world) actors() []actor {
	w.t.Helper()
	list := []actor{{name: "nobody"}}
	for _, tenant := range []string{own, "globex", ""} {
		for _, role := range storage.Roles() {
			name := string(role) + " of " + tenant
			list = append(list, actor{name, w.personAs(name, tenant, role), tenant, false, role.Verbs()})
		}
		for _, verb := range storage.Verbs() {
			_, secret, err := w.store.NewToken(w.ctx, "test", tenant, verb)
			if err != nil {
				w.t.Fatal(err)
			}
			list = append(list, actor{fmt.Sprintf("token of %q with %s", tenant, verb), creds{"Authorization", "Bearer " + secret}, tenant, true, []storage.Verb{verb}})
		}
	}
	return list
}

// ask sends a request of a route with something in its wildcards.
func (w *world) ask(rt route, what string, a actor) answer {
	w.t.Helper()
	method := rt.method
	if strings.HasSuffix(rt.path, "/events") {
		method = "HEAD" // it would not end
	}
	path := rt.path
	for part := range strings.FieldsSeq(what) { // some objects are named by two
		path = strings.Replace(path, wildcard(path), part, 1)
	}
	path = strings.NewReplacer("{$}", "", "{name}", "a.csv", "{file}", "app.css").Replace(path)
	var header []string
	body, form := bodies()[rt.method+" "+rt.path], "application/x-www-form-urlencoded"
	if rt.access != signedIn {
		form = "application/json"
	}
	if method != "GET" && method != "HEAD" {
		header = []string{"Content-Type", form}
	}
	return w.send(method, path, a.who, strings.NewReader(body), header...)
}

// wildcard is the first in a path.
func wildcard(path string) string {
	_, rest, found := strings.Cut(path, "{")
	if !found || strings.HasPrefix(rest, "$") {
		return "\x00" // in no path
	}
	inside, _, _ := strings.Cut(rest, "}")
	return "{" + inside + "}"
}

// expected is what the table lets an actor see before any object counts: a status, or 0
// when the handler decides.
func (a actor) expected(rt route) int {
	switch {
	case a.who == nobody && rt.access != signedIn:
		return http.StatusUnauthorized
	case rt.access == signedIn && (a.token || a.who == nobody):
		return http.StatusSeeOther
	case rt.access == apiToken && !a.token:
		return http.StatusUnauthorized
	case !slices.Contains(a.verbs, rt.needs):
		return http.StatusForbidden
	}
	if status, is := allTenantsOnly()[rt.method+" "+rt.path]; is && a.tenant != "" {
		return status
	}
	return 0
}

func TestEveryRouteHasARule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, rt := range w.server.routes() {
		for _, complaint := range missingRules(rt) {
			t.Error(complaint)
		}
	}
	for _, bad := range []route{
		{"GET", "/leak", open, "", nil}, {"GET", "/leak", open, storage.VerbView, nil}, {"GET", "/leak", api, "", nil},
		{"GET", "/leak", signedIn, "rule", nil}, {"GET", "/leak/{id}", api, storage.VerbView, nil},
	} {
		if len(missingRules(bad)) == 0 {
			t.Errorf("nothing is said about %+v", bad)
		}
	}
}

func missingRules(rt route) (complaints []string) {
	name := rt.method + " " + rt.path
	switch {
	case rt.access == open && !slices.Contains(mayBeOpen(), name):
		complaints = append(complaints, name+" is open, and not in the list of those that may be")
	case rt.access == open && rt.needs != "":
		complaints = append(complaints, name+" is open and needs a verb")
	case rt.access != open && !slices.Contains(storage.Verbs(), rt.needs):
		complaints = append(complaints, name+" does not say what a role must allow")
	}
	if wildcard(rt.path) != "\x00" && !slices.Contains(noObject(), rt.path) && thingOf(rt.path) == nil {
		complaints = append(complaints, name+" names an object, and things() does not say how to make one")
	}
	return complaints
}

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	actors := w.actors()
	routes := slices.DeleteFunc(slices.Clone(w.server.routes()), func(rt route) bool { return rt.access == open })
	slices.SortStableFunc(routes, func(a, b route) int { return ends(a) - ends(b) })
	asked := 0
	for _, rt := range routes {
		th := thingOf(rt.path)
		theirs, none := "", "x"
		if th != nil {
			theirs, none = th.make(w), th.nothing()
		}
		for _, a := range actors {
			asked++
			switch want := a.expected(rt); {
			case want != 0:
				w.isRefused(rt, a, want, w.ask(rt, none, a))
				if th != nil {
					w.sameAnswer(rt, a, theirs, none)
				}
			case th != nil && a.tenant != own && a.tenant != "":
				if got := w.sameAnswer(rt, a, theirs, none); got.StatusCode != 404 && !slices.Contains(creates(), rt.method+" "+rt.path) {
					t.Errorf("%s %s: %s got %d for an object of another tenant, want 404:\n%s", rt.method, rt.path, a.name, got.StatusCode, got.body)
				}
			case th != nil && slices.Contains(onesOwnOnly(), rt.method+" "+rt.path) && !slices.Contains(a.verbs, storage.VerbOperate):
				w.isRefused(rt, a, http.StatusForbidden, w.ask(rt, th.make(w), a)) // Nadia asked for it
			case th != nil:
				w.isLetIn(rt, a, w.ask(rt, th.make(w), a))
			default:
				w.isLetIn(rt, a, w.ask(rt, "x", a))
			}
		}
	}
	t.Logf("%d routes, %d questions", len(routes), asked)
}

// creates are routes that make what does not exist: nothing of another tenant may be told by them.
func creates() []string { return []string{"PUT /api/v1/schedules/{name}"} }

// onesOwnOnly are routes that those who may only ask use on what they asked for.
func onesOwnOnly() []string {
	return []string{"POST /jobs/{id}/cancel", "POST /api/v1/jobs/{id}/cancel"}
}

// ends sorts what ends the session behind the rest.
func ends(rt route) int {
	if rt.path == "/signout" {
		return 1
	}
	return 0
}

func (w *world) isRefused(rt route, a actor, want int, got answer) {
	w.t.Helper()
	if got.StatusCode != want || want == 303 && got.Header.Get("Location") != "/signin" {
		w.t.Errorf("%s %s: %s got %d, want %d:\n%.300s", rt.method, rt.path, a.name, got.StatusCode, want, got.body)
	}
}

func (w *world) isLetIn(rt route, a actor, got answer) {
	w.t.Helper()
	away := got.Header.Get("Location") == "/signin" && rt.path != "/signout"
	if got.StatusCode == 404 && slices.Contains(mayBeMissing(), rt.method+" "+rt.path) {
		return
	}
	if got.StatusCode >= 500 || away || slices.Contains([]int{401, 403, 404, 405}, got.StatusCode) {
		w.t.Errorf("%s %s: %s got %d, want to be let in:\n%.300s", rt.method, rt.path, a.name, got.StatusCode, got.body)
	}
}

// sameAnswer asks for an object of another tenant and for one that does not exist; who
// asks must not be able to tell them apart.
func (w *world) sameAnswer(rt route, a actor, theirs, none string) answer {
	w.t.Helper()
	one, other := w.ask(rt, theirs, a), w.ask(rt, none, a)
	position := regexp.MustCompile(`data-seen="[^"]*"`) // of the live events, which come meanwhile
	bare := func(got answer, what string) string {
		return position.ReplaceAllString(strings.NewReplacer(got.Header.Get("X-Request-Id"), "ID", what, "WHAT").Replace(got.body), "")
	}
	if a, b := bare(one, theirs), bare(other, none); a != b || one.StatusCode != other.StatusCode {
		w.t.Errorf("%s %s: an object of another tenant answers %d\n%s\nand none answers %d\n%s", rt.method, rt.path, one.StatusCode, a, other.StatusCode, b)
	}
	for name := range one.Header {
		if name == "X-Request-Id" || name == "Date" {
			continue
		}
		if a, b := strings.ReplaceAll(one.Header.Get(name), theirs, "WHAT"), strings.ReplaceAll(other.Header.Get(name), none, "WHAT"); a != b {
			w.t.Errorf("%s %s: an object of another tenant answers %s: %s, none answers %s", rt.method, rt.path, name, a, b)
		}
	}
	return one
}

// Who may only ask cancels its own jobs; an operator anybody's.
func TestCancelOnlyOnesOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nadia, omar := w.personAs("Nadia", own, storage.RoleRequester), w.personAs("Omar", own, storage.RoleRequester)
	operator, viewer := w.personAs("Pia", own, storage.RoleOperator), w.personAs("Vic", own, storage.RoleViewer)
	_, secret, err := w.store.NewToken(w.ctx, "ci", own, storage.VerbView, storage.VerbRequest)
	if err != nil {
		t.Fatal(err)
	}
	ci := creds{"Authorization", "Bearer " + secret}
	for _, c := range []struct {
		who    creds
		name   string
		cancel bool
	}{{nadia, "Nadia", true}, {omar, "Omar", false}, {viewer, "Vic", false}, {ci, "ci", false}, {operator, "Pia", true}} {
		j := w.job(own, uuid.NewString(), "t") // Nadia asked for it
		status, page := 403, 403
		if c.cancel {
			status, page = 200, 303
		}
		if c.who != ci {
			shows := strings.Contains(w.get("/jobs/"+j.ID.String(), c.who).want(t, 200).body, "Cancel job")
			if shows != c.cancel {
				t.Errorf("%s is shown the button: %t", c.name, shows)
			}
			w.post("/jobs/"+j.ID.String()+"/cancel", c.who, nil).want(t, page)
		}
		j = w.job(own, uuid.NewString(), "t")
		w.call("/api/v1/jobs/"+j.ID.String()+"/cancel", c.who, "").want(t, status)
		if got := must(w.store.Job(w.ctx, principalAll.scope, j.ID))(t); (got.State == storage.JobCancelled) != c.cancel {
			t.Errorf("after %s cancelled it, the job is %s", c.name, got.State)
		}
	}
	mine := decode[struct{ ID string }](t, w.call("/api/v1/jobs", ci, `{"kind":"note","payload":{"text":"x"}}`).want(t, 202))
	w.call("/api/v1/jobs/"+mine.ID+"/cancel", nadia, "").want(t, 403, "not-yours")
	w.call("/api/v1/jobs/"+mine.ID+"/cancel", ci, "").want(t, 200)
}

// What somebody may do changes with the next request, not with the next sign-in.
func TestARoleCountsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.person("Root", "")
	who := w.personAs("Nadia", own, storage.RoleRequester)
	u := must(w.store.UserByName(w.ctx, principalAll.scope, "Nadia"))(t)
	w.get("/new/house", who).want(t, 200)
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error { // not by ChangeUser, which ends the session
		return tx.Exec("UPDATE fenceline.users SET role = 'viewer' WHERE id = ?", u.ID).Error
	})
	if err != nil {
		t.Fatal(err)
	}
	w.post("/new/house", who, nil).want(t, 403)
	must(w.store.ChangeUser(w.ctx, principalAll.scope, u.ID, storage.UserChange{Role: new(storage.RoleOperator)}))(t)
	w.get("/", who).want(t, 303)
	expired := must(w.store.NewSigninLink(w.ctx, u.ID, -time.Minute))(t)
	w.get("/signin?token="+expired, nobody).want(t, 403)
}
