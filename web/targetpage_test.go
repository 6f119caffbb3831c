package web

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

var (
	shownSecret = regexp.MustCompile(`whsec_[A-Za-z0-9+/=_-]+`)
	targetLink  = regexp.MustCompile(`action="(/targets/[0-9a-f-]+)/test"`)
)

func hook(name string) url.Values {
	return url.Values{"name": {name}, "tenant": {"acme"}, "kind": {"webhook"}, "url": {"https://hooks.internal/in?key=letmein"}}
}

func TestTargetPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.personAs("Root", "", storage.RoleAdmin)
	w.get("/targets", who).want(t, 200, "Nobody is told of anything yet.", `href="/targets/new"`).without(t, "<table")
	w.get("/targets/new", who).want(t, 200, `name="url"`)
	added := w.post("/targets/new", who, hook("shop")).want(t, 201, "shown this once", "It is", "Send a test", "Nothing was sent yet.")
	secret := html.UnescapeString(shownSecret.FindString(added.body))
	path := targetLink.FindStringSubmatch(added.body)[1]
	if secret == "" || added.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the secret is %q, kept as %q", secret, added.Header.Get("Cache-Control"))
	}
	w.get("/targets", who).want(t, 200, "hooks.internal", "export.published", `class="chip published">active`).without(t, secret, "letmein")
	w.get(path, who).want(t, 200, "https://hooks.internal/in?key=letmein").without(t, "whsec_")
	w.post("/targets/new", who, hook("shop")).want(t, 409, `id="name-problem"`, "is taken")

	w.post(path+"/test", who, nil).want(t, 303)
	w.get(path, who).want(t, 200, "<td class=\"lead\">test<", `class="chip queued">waiting`)
	w.get(path+"?state=dead", who).want(t, 200, "No deliveries match.")
	w.exec("UPDATE fenceline.deliveries SET state = 'dead', attempts = 9, last_status = 503, last_error = 'away <b>'")
	w.exec("UPDATE fenceline.notify_targets SET failures = 9, failing_since = now()")
	w.get(path+"?state=dead", who).want(t, 200, `class="chip failed">given up`, "503 ", "away &lt;b&gt;", "Send 1 notice again")
	w.get("/targets", who).want(t, 200, `class="chip failed">failing`)
	w.post(path+"/replay", who, nil).want(t, 303)
	w.get(path, who).want(t, 200, `class="chip fenced">tries again`).without(t, "Send 1 notice again")

	rotated := w.post(path+"/rotate", who, nil).want(t, 200, "shown this once", "signs too until")
	if now := html.UnescapeString(shownSecret.FindString(rotated.body)); now == "" || now == secret {
		t.Errorf("the new secret is %q", now)
	}
	w.post(path+"/disable", who, nil).want(t, 303)
	w.get(path, who).want(t, 200, "by Root", path+"/enable").without(t, path+"/test")
	w.post(path+"/test", who, nil).want(t, 422, "is disabled")
	w.post(path+"/enable", who, nil).want(t, 303)
	if got := w.post(path+"/remove", who, nil).want(t, 303).Header.Get("Location"); got != "/targets" {
		t.Errorf("removing leads to %s", got)
	}
	w.get(path, who).want(t, 404)
	if strings.Contains(w.log.String(), secret) || strings.Contains(w.log.String(), "letmein") {
		t.Error("a secret is in the log")
	}
}

func TestTargetFormRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.personAs("Root", "", storage.RoleAdmin)
	for change, field := range map[string]string{"name=A B": "name", "url=https://169.254.169.254/": "url", "kind=pigeon": "kind", "topics=job.faild": "topics", "tenant=a b": "tenant", "addresses=x@example.com": "addresses"} {
		form := hook("x")
		name, value, _ := strings.Cut(change, "=")
		form.Set(name, value)
		w.post("/targets/new", who, form).want(t, 422, "Nothing was added.", `id="`+field+`-problem"`)
	}
	mail := url.Values{"name": {"ops"}, "kind": {"mail"}, "addresses": {"a@example.com, b@example.com"}, "topics": {"job.failed"}, "job_kinds": {"report"}}
	w.post("/targets/new", who, mail).want(t, 201, "a@example.com", "job.failed").without(t, "whsec_", "New secret")
	id := must(w.store.TargetNamed(w.ctx, "default", "ops"))(t).ID.String()
	w.get("/targets/"+id+"?state=lost", who).want(t, 422, "is no state of deliveries")
	w.get("/targets/"+id+"?after=x", who).want(t, 400, "Start again")
	w.get("/targets?after=x", who).want(t, 400, "Start again")
	w.get("/targets/x", who).want(t, 404)
}

// Addresses of webhooks may be secrets: only administrators see targets, and only those of their tenant.
func TestTargetsByRole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	added := w.post("/targets/new", w.personAs("Root", "", storage.RoleAdmin), hook("shop")).want(t, 201)
	path := targetLink.FindStringSubmatch(added.body)[1]
	op, other := w.personAs("Omar", "", storage.RoleOperator), w.personAs("Gina", "globex", storage.RoleAdmin)
	w.get("/jobs", op).want(t, 200).without(t, `href="/targets"`)
	w.get("/targets", other).want(t, 200, "Nobody is told").without(t, "shop<", "acme")
	for _, p := range []string{"/targets", "/targets/new", path} {
		w.get(p, op).want(t, 403)
	}
	w.get(path, other).want(t, 404)
	for _, do := range []string{"test", "rotate", "enable", "disable", "replay", "remove"} {
		w.post(path+"/"+do, op, nil).want(t, 403)
		w.post(path+"/"+do, other, nil).want(t, 404)
	}
	w.post("/targets/new", op, hook("x")).want(t, 403)
	w.post("/targets/new", other, hook("x")).want(t, 403) // for another tenant
	if got := must(w.store.TargetNamed(w.ctx, "acme", "shop"))(t); got.DisabledAt != nil {
		t.Errorf("the target is %+v", got)
	}
}

func TestTargetsManyPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.personAs("Root", "", storage.RoleAdmin)
	for i := range 2*listRows + 1 {
		w.post("/targets/new", who, hook(fmt.Sprintf("hook-%02d", i))).want(t, 201)
	}
	rows, pages := w.walk("/targets", who)
	once(t, rows, 2*listRows+1)
	if pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
}
