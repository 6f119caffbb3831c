package web

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// shown is the secret that a page shows once.
func shown(t testing.TB, a answer) string {
	t.Helper()
	m := regexp.MustCompile(`<pre class="command"><code>([^<]+)</code>`).FindStringSubmatch(a.body)
	if m == nil || a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("no secret, or one that is kept (%q):\n%s", a.Header.Get("Cache-Control"), a.body)
	}
	return m[1]
}

func (w *world) sessionOf(in answer) creds {
	w.t.Helper()
	return creds{"Cookie", "fenceline=" + in.want(w.t, 303).Cookies()[0].Value}
}

func TestOwnSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.person("Root", "")
	nadia := w.user("Nadia", "acme", storage.RoleViewer, goodPassword)
	one, two, three := w.sessionOf(w.signIn("Nadia", goodPassword, nobody)), w.sessionOf(w.signIn("Nadia", goodPassword, nobody)), w.sessionOf(w.signIn("Nadia", goodPassword, nobody))
	omar := w.personAs("Omar", "acme", storage.RoleAdmin)
	w.get("/settings", one).want(t, 200, "this one", "127.0.0.1", "by password").without(t, "/settings/users")
	var id string
	for _, s := range must(w.store.Sessions(w.ctx, nadia.ID, strings.TrimPrefix(two.value, "fenceline=")))(t) {
		if s.Current {
			id = s.ID.String()
		}
	}
	w.post("/settings/sessions/"+id+"/end", omar, nil).want(t, 404)
	w.post("/settings/sessions/"+id+"/end", one, nil).want(t, 303)
	w.get("/", two).want(t, 303)
	w.get("/", three).want(t, 200)
	w.post("/settings/sessions", one, nil).want(t, 303)
	w.get("/", three).want(t, 303)
	w.get("/", one).want(t, 200)
	w.get("/", omar).want(t, 200)
}

func TestOwnPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.person("Root", "")
	w.user("Nadia", "acme", storage.RoleViewer, goodPassword)
	who, other := w.sessionOf(w.signIn("Nadia", goodPassword, nobody)), w.sessionOf(w.signIn("Nadia", goodPassword, nobody))
	const fresh = "staple battery horse"
	for _, c := range [][4]string{
		{"wrong", fresh, fresh, "another one"}, {goodPassword, "short", "short", "at least 12"}, {goodPassword, fresh, fresh + "x", "same twice"},
	} {
		w.post("/settings/password", who, url.Values{"current": {c[0]}, "new": {c[1]}, "again": {c[2]}}).want(t, 422, c[3])
	}
	w.get("/", other).want(t, 200)
	w.post("/settings/password", who, url.Values{"current": {goodPassword}, "new": {fresh}, "again": {fresh}}).want(t, 200, "was changed")
	w.get("/", who).want(t, 200)
	w.get("/", other).want(t, 303)
	w.signIn("Nadia", goodPassword, nobody).want(t, 403)
	w.signIn("Nadia", fresh, nobody).want(t, 303)
	for range maxFailedNames { // who finds a browser open must not guess for ever
		w.post("/settings/password", who, url.Values{"current": {"wrong"}, "new": {fresh}, "again": {fresh}}).want(t, 422)
	}
	w.post("/settings/password", who, url.Values{"current": {fresh}, "new": {goodPassword}, "again": {goodPassword}}).want(t, 429)
}

func TestAdministerUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.person("Root", "")
	made := w.post("/settings/users", root, url.Values{"name": {"Nadia"}, "role": {"viewer"}, "tenant": {"acme"}}).want(t, 200, "Nadia")
	text := shown(t, made)
	who := w.sessionOf(w.signIn("Nadia", text, nobody))
	w.post("/settings/users", root, url.Values{"name": {"Nadia"}, "role": {"viewer"}}).want(t, 422, "taken")
	w.post("/settings/users", root, url.Values{"name": {""}, "role": {"owner"}, "tenant": {"a b"}}).want(t, 422, "viewer, requester", "letters, digits")
	u := must(w.store.UserByName(w.ctx, principalAll.scope, "Nadia"))(t)
	at := "/settings/users/" + u.ID.String()
	w.get(at, root).want(t, 200, "Nadia", "1 session ends").without(t, text)

	w.post(at+"/role", root, url.Values{"role": {"admin"}, "tenant": {"acme"}}).want(t, 303)
	w.get("/", who).want(t, 303) // the role changed
	who = w.sessionOf(w.signIn("Nadia", text, nobody))
	again := shown(t, w.post(at+"/password", root, nil).want(t, 200))
	w.get("/", who).want(t, 303)
	w.signIn("Nadia", text, nobody).want(t, 403)
	who = w.sessionOf(w.signIn("Nadia", again, nobody))

	aTenantsAdmin(w, who)
	w.post(at+"/disable", root, nil).want(t, 303)
	w.get("/", who).want(t, 303)
	w.signIn("Nadia", again, nobody).want(t, 403)
	w.post(at+"/enable", root, nil).want(t, 303)
	who = w.sessionOf(w.signIn("Nadia", again, nobody))
	w.post(at+"/signout", root, nil).want(t, 303)
	w.get("/", who).want(t, 303)
	w.post(at+"/remove", root, nil).want(t, 303)
	w.get(at, root).want(t, 404)
	self := "/settings/users/" + must(w.store.UserByName(w.ctx, principalAll.scope, "Root"))(t).ID.String()
	for _, deed := range []string{"/disable", "/remove"} {
		w.post(self+deed, root, nil).want(t, 409, "last admin")
	}
	w.post(self+"/role", root, url.Values{"role": {"viewer"}}).want(t, 409, "last admin")
	done := map[string]bool{}
	for _, e := range must(w.store.AuditLog(w.ctx, principalAll.scope, storage.AuditFilter{Limit: 200}))(t).Items {
		done[e.Action] = true
		if strings.HasPrefix(e.Action, "session.") && e.Address != "127.0.0.1" {
			t.Errorf("%s came from %q", e.Action, e.Address)
		}
	}
	for _, action := range []string{auditSignedIn, auditSigninRefused, auditSessionRevoked, auditUserAdded, auditUserChanged, auditUserDisabled, auditUserEnabled, auditUserRemoved, auditPasswordSet} {
		if !done[action] {
			t.Errorf("the audit log has no %s", action)
		}
	}
	if log := w.log.String(); strings.Contains(log, text) || strings.Contains(log, again) {
		t.Error("the log holds a password")
	}
}

// aTenantsAdmin sees and changes the people and tokens of the tenant only.
func aTenantsAdmin(w *world, who creds) {
	w.t.Helper()
	w.get("/settings/users", who).want(w.t, 200, "Nadia").without(w.t, "Root", `name="tenant"`)
	w.post("/settings/users", who, url.Values{"name": {"Omar"}, "role": {"admin"}, "tenant": {"globex"}}).want(w.t, 403)
	w.post("/settings/users", who, url.Values{"name": {"Omar"}, "role": {"admin"}, "tenant": {""}}).want(w.t, 200)
	omar := must(w.store.UserByName(w.ctx, principalAll.scope, "Omar"))(w.t)
	if omar.TenantName() != "acme" {
		w.t.Errorf("a tenant's admin made a user of %q", omar.TenantName())
	}
	w.post("/settings/users/"+omar.ID.String()+"/role", who, url.Values{"role": {"operator"}, "tenant": {""}}).want(w.t, 303)
	if omar = must(w.store.User(w.ctx, principalAll.scope, omar.ID))(w.t); omar.TenantName() != "acme" || omar.Role != storage.RoleOperator {
		w.t.Errorf("a tenant's admin made it %+v", omar)
	}
	token := shown(w.t, w.post("/settings/tokens", who, url.Values{"name": {"ci"}, "verbs": {"view"}, "tenant": {""}}).want(w.t, 200))
	if got := must(w.store.TokenBySecret(w.ctx, token))(w.t); got.Scope() != (storage.Scope{Tenant: "acme"}) || got.CreatedBy != "Nadia" {
		w.t.Errorf("a tenant's admin made the token %+v", got)
	}
	w.get("/settings/tenants", who).want(w.t, 200, "acme").without(w.t, "globex")
}

func TestAdministerTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.person("Root", "")
	w.get("/settings/tokens", root).want(t, 200, "No tokens yet")
	secret := shown(t, w.post("/settings/tokens", root, url.Values{"name": {"ci"}, "verbs": {"view", "request"}, "tenant": {"acme"}, "expires": {"90d"}}).want(t, 200, "view, request"))
	ci := creds{"Authorization", "Bearer " + secret}
	w.get("/api/v1/jobs", ci).want(t, 200)
	w.call("/api/v1/failed/retry", ci, "{}").want(t, 403)
	w.post("/settings/tokens", root, url.Values{"name": {""}, "expires": {"soon"}}).want(t, 422, "days such as 90d", "at least one")
	w.get("/settings/tokens", root).want(t, 200).without(t, secret)
	made := must(w.store.TokenBySecret(w.ctx, secret))(t)
	w.post("/settings/tokens/"+uuid.NewString()+"/revoke", root, nil).want(t, 404)
	w.post("/settings/tokens/"+made.ID.String()+"/revoke", root, nil).want(t, 303)
	w.get("/api/v1/jobs", ci).want(t, 401)
	past := time.Now().Add(-time.Minute)
	must(w.store.UserByName(w.ctx, principalAll.scope, "Root"))(t)
	if _, _, err := w.store.AddToken(w.ctx, storage.TokenSpec{Name: "old", ExpiresAt: &past}); err != nil {
		t.Fatal(err)
	}
	w.get("/settings/tokens", root).want(t, 200, "revoked", "expired")
	for _, path := range []string{"/settings/tenants", "/settings/retention", "/settings/presets"} {
		w.get(path, root).want(t, 200)
	}
}

// Presets are said with where they come from; files are for those who may know of them.
func TestPresetsOfReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("/settings/presets", w.person("Root", "")).want(t, 200, "Orders", "orders.sql", "Of the house", "house.sql", ">data<", "-- preset: spreadsheet")
	w.get("/settings/presets", w.personAs("Omar", "acme", storage.RoleViewer)).want(t, 200, "Orders").without(t, "orders.sql", "Of the house")
}

func TestHeadersOverTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.PublicURL = "https://exports.example.com" })
	h := w.get("/signin", nobody).Header
	if h.Get("Strict-Transport-Security") == "" || h.Get("Permissions-Policy") == "" || h.Get("Cache-Control") != "no-store" || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
		t.Errorf("the headers are %v", h)
	}
	if newWorld(t).get("/signin", nobody).Header.Get("Strict-Transport-Security") != "" {
		t.Error("a site without TLS demands it")
	}
}

func TestAgentName(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                           "Firefox on Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0":        "Edge on Windows",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile Safari/604.1": "Safari on iPhone",
		"curl/8.5.0": "curl", "": "unknown", "Something/1": "Something/1",
	} {
		if got := agentName(agent); got != want {
			t.Errorf("%q is %q, want %q", agent, got, want)
		}
	}
}
