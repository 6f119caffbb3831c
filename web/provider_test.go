package web

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/oidc"
)

var nadia = somebody{ID: "id-1", Username: "nadia", Password: "correct horse", FirstName: "Nadia", LastName: "Rahman", Claims: map[string]any{"groups": []string{"staff"}, "org": "acme"}}

// visit is a browser without a screen, which follows whatever leads on.
type visit struct {
	w *world
	*http.Client
}

func (w *world) visit() visit {
	jar := must(cookiejar.New(nil))(w.t)
	return visit{w, &http.Client{Jar: jar, Timeout: time.Minute}}
}

func (v visit) answered(res *http.Response, err error) answer {
	v.w.t.Helper()
	if err != nil {
		v.w.t.Fatal(err)
	}
	defer res.Body.Close()
	return answer{res, string(must(io.ReadAll(res.Body))(v.w.t))}
}

// signIn goes by the provider's own form, and answers what comes in the end.
func (v visit) signIn(issuer string, who somebody) answer {
	v.w.t.Helper()
	form := v.answered(v.Get(v.w.base+"/signin/provider")).want(v.w.t, 200, "Password:")
	asked := form.Request.URL.Query().Get("authRequestID")
	if asked == "" || !strings.HasPrefix(form.Request.URL.String(), issuer+"/login") {
		v.w.t.Fatalf("the browser was led to %s", form.Request.URL)
	}
	return v.answered(v.PostForm(issuer+"/login/username", url.Values{"id": {asked}, "username": {who.Username}, "password": {who.Password}}))
}

func (w *world) known(name string) storage.User {
	w.t.Helper()
	return must(w.store.UserByName(w.ctx, storage.Scope{All: true}, name))(w.t)
}

func TestSigninByProvider(t *testing.T) {
	t.Parallel()
	var issuer string
	omar := somebody{ID: "id-2", Username: "omar", Password: "battery staple", Claims: map[string]any{"groups": []string{"guests"}, "org": "acme"}}
	root := somebody{ID: "id-3", Username: "Root", Password: "tr0ub4dor", Claims: map[string]any{"groups": []string{"staff"}, "org": "*"}}
	w := newWorld(t, byProvider(t, &issuer, nadia, omar, root))
	w.visit().signIn(issuer, nadia).want(t, 403, "An administrator has to sign in first")
	admin := w.person("Root", "")
	w.get("/signin", nobody).want(t, 200, `href="/signin/provider"`, "Example ID")

	v := w.visit()
	in := v.signIn(issuer, nadia).want(t, 200, "nadia", "Sign out")
	if in.Request.URL.String() != w.base+"/" {
		t.Errorf("the sign-in leads to %s", in.Request.URL)
	}
	u := w.known("nadia")
	if u.Role != storage.RoleViewer || u.TenantName() != "acme" || u.Issuer != issuer {
		t.Errorf("the user is %+v", u)
	}
	w.get("/settings/users/"+u.ID.String(), admin).want(t, 200, "Signs in by", issuer)
	if list := must(w.store.Sessions(w.ctx, u.ID, ""))(t); len(list) != 1 || list[0].Via != storage.ViaProvider {
		t.Errorf("the sessions are %+v", list)
	}
	v.signIn(issuer, nadia).want(t, 200, "Sign out")
	if again := w.known("nadia"); again.ID != u.ID {
		t.Error("the second sign-in makes another user")
	}
	w.visit().signIn(issuer, omar).want(t, 403, "may not sign in here")
	// A name is no proof: this Root is not the local one.
	w.visit().signIn(issuer, root).want(t, 200, "Root (2)", "Sign out")

	must(w.store.ChangeUser(w.ctx, storage.Scope{All: true}, u.ID, storage.UserChange{Disabled: new(true)}))(t)
	w.visit().signIn(issuer, nadia).want(t, 403, "disabled here")
	if n := len(w.entries(auditUserAdded)); n != 2 {
		t.Errorf("%d users were added in the audit log", n)
	}
	if n := len(w.entries(auditSignedIn)); n != 3 {
		t.Errorf("%d sign-ins are in the audit log", n)
	}
	if list := w.entries(auditSigninRefused); len(list) != 3 || !strings.Contains(string(list[0].Details), "disabled") || !strings.Contains(string(list[0].Details), "id-1") {
		t.Errorf("refused in the audit log: %+v", list)
	}
	for _, secret := range []string{clientSecret, "code=", nadia.Password} {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
}

// Less that the provider says ends what was begun with more, and nobody takes the last admin away.
func TestClaimsChangeSessions(t *testing.T) {
	t.Parallel()
	var issuer string
	w := newWorld(t, byProvider(t, &issuer, nadia))
	w.person("Root", "")
	first := w.visit()
	first.signIn(issuer, nadia).want(t, 200, "Sign out")
	u := w.known("nadia")
	must(w.store.ChangeUser(w.ctx, storage.Scope{All: true}, u.ID, storage.UserChange{Role: new(storage.RoleOperator)}))(t)
	_, local, err := w.store.BeginSession(w.ctx, u.ID, storage.ViaLink, "", storage.Visitor{})
	must(local, err)(t)
	w.get("/", creds{"Cookie", "fenceline=" + local}).want(t, 200)
	w.visit().signIn(issuer, nadia).want(t, 200, "Sign out")
	w.get("/", creds{"Cookie", "fenceline=" + local}).want(t, 303)
	if w.known("nadia").Role != storage.RoleViewer || len(w.entries(auditUserChanged)) != 1 {
		t.Error("the role is not what the provider says")
	}
	scope := storage.Scope{All: true}
	must(w.store.ChangeUser(w.ctx, scope, u.ID, storage.UserChange{Role: new(storage.RoleAdmin), Tenant: new("")}))(t)
	must(w.store.ChangeUser(w.ctx, scope, w.known("Root").ID, storage.UserChange{Disabled: new(true)}))(t)
	w.visit().signIn(issuer, nadia).want(t, 403, "last administrator")
	if w.known("nadia").Role != storage.RoleAdmin {
		t.Error("the last admin is gone")
	}
}

func TestProviderInABrowser(t *testing.T) {
	t.Parallel()
	var issuer string
	w := newWorld(t, byProvider(t, &issuer, nadia))
	w.person("Root", "")
	b := newTab(t, w.base)
	b.open("/signin")
	b.do(chromedp.Click(chromedp.CSS(`a[href="/signin/provider"]`)))
	b.waitForText("Username:")
	b.do(chromedp.SendKeys(chromedp.ID("username"), nadia.Username), chromedp.SendKeys(chromedp.ID("password"), nadia.Password), chromedp.Click(chromedp.CSS("button")))
	b.waitForText("Sign out")
	if at := is[string](b, "location.href"); at != w.base+"/" {
		t.Errorf("the browser is at %s", at)
	}
	b.mu.Lock() // the provider's pages are not ours: they have no icon, for one
	b.console, b.outside = nil, nil
	b.mu.Unlock()
	b.open("/settings")
	b.waitForText("nadia")
	b.quiet()
}

// A provider that is away stops nothing else.
func TestProviderIsAway(t *testing.T) {
	t.Parallel()
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(t) // where nobody answers
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) {
		c.Provider = &oidc.Config{Issuer: "http://" + ln.Addr().String(), ClientID: clientID, ClientSecret: clientSecret, Name: "Example ID", DefaultRole: storage.RoleViewer}
	})
	got := w.get("/signin/provider", nobody).want(t, 503, "The sign-in service does not answer", "password")
	if after := got.Header.Get("Retry-After"); after != "5" || len(got.Cookies()) != 0 {
		t.Errorf("Retry-After is %q, the cookies are %v", after, got.Cookies())
	}
	w.get("/signin", nobody).want(t, 200, "Example ID")
	w.get("/healthz", nobody).want(t, 200)
}

func TestWithoutProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("/signin", nobody).want(t, 200).without(t, "/signin/provider")
	for _, path := range []string{"/signin/provider", CallbackPath} {
		w.get(path, nobody).want(t, 404, "OIDC_ISSUER")
	}
}

// The cookie of the way there is the browser's alone, and answers that hold nothing are counted.
func TestCallbackIsGuarded(t *testing.T) {
	t.Parallel()
	var issuer string
	w := newWorld(t, byProvider(t, &issuer, nadia))
	there := w.get("/signin/provider", nobody).want(t, 303)
	cookies := there.Cookies()
	if len(cookies) != 1 {
		t.Fatalf("the cookies are %v", cookies)
	}
	c := cookies[0]
	if c.Name != "fenceline-signin" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 600 || c.Path != "/" || c.Domain != "" {
		t.Errorf("the cookie is %+v", c)
	}
	to := must(url.Parse(there.Header.Get("Location")))(t)
	back := CallbackPath + "?code=guess&state=" + to.Query().Get("state")
	w.get(back, nobody).want(t, 403, "Begin again") // of another browser: no cookie
	own := creds{"Cookie", c.Name + "=" + c.Value}
	w.get(back, own).want(t, 403, "Begin again")
	for n := 2; n < maxFailedSignins; n++ {
		w.get(back+fmt.Sprint(n), own).want(t, 403)
	}
	if got := w.get(back, own).want(t, 429); got.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	w.get("/signin/provider", nobody).want(t, 429)
	if _, err := w.store.UserByName(w.ctx, storage.Scope{All: true}, "nadia"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("somebody was made: %v", err)
	}
}
