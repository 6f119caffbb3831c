package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func (w *world) link() string {
	w.t.Helper()
	return must(w.store.NewSigninLink(w.ctx, uuid.Nil, time.Minute))(w.t)
}

func TestSignin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link := w.link()
	if got, want := w.server.SigninURL(link), w.base+"/signin?token="+link; got != want {
		t.Errorf("the link is %s, want %s", got, want)
	}
	for range 2 { // looking uses nothing up
		page := w.get("/signin?token="+link, nobody).want(t, 200, `name="name"`, "Welcome", link)
		if policy := page.Header.Get("Referrer-Policy"); policy != "strict-origin" {
			t.Errorf("the page with the secret in its address has the referrer policy %q", policy)
		}
	}
	w.post("/signin", nobody, url.Values{"token": {link}, "name": {" "}}).want(t, 422, "Enter your name")
	w.post("/signin", nobody, url.Values{"token": {link}, "name": {strings.Repeat("ß", 101)}}).want(t, 422, "at most 100")
	in := w.post("/signin", nobody, url.Values{"token": {link}, "name": {" রহিমা "}}).want(t, 303)
	if to := in.Header.Get("Location"); to != "/" {
		t.Errorf("signing in leads to %q", to)
	}
	cookie := checkCookie(t, in.Cookies(), "fenceline", false)
	who := creds{"Cookie", cookie.Name + "=" + cookie.Value}
	w.get("/", who).want(t, 200, "রহিমা", "Sign out")
	w.get("/signin", who).want(t, 303)

	w.post("/signin", nobody, url.Values{"token": {link}, "name": {"Eve"}}).want(t, 403, "fenceline signin")
	w.get("/signin?token="+link, nobody).want(t, 403, "This link does not work")

	out := w.post("/signout", who, nil).want(t, 303)
	if c := out.Cookies(); len(c) != 1 || c[0].MaxAge >= 0 {
		t.Errorf("signing out leaves the cookies %v", c)
	}
	w.get("/", who).want(t, 303)
	if strings.Contains(w.log.String(), link) {
		t.Error("the log holds the secret of the link")
	}
}

func checkCookie(t *testing.T, cookies []*http.Cookie, name string, secure bool) *http.Cookie {
	t.Helper()
	if len(cookies) != 1 {
		t.Fatalf("%d cookies were set", len(cookies))
	}
	c := cookies[0]
	if c.Name != name || !c.HttpOnly || c.Secure != secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 7*24*3600 {
		t.Errorf("the cookie is %+v", c)
	}
	return c
}

// The second person signs in as the first user: there are no others to make yet.
func TestSigninAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.person("Nadia", "")
	link := w.link()
	w.get("/signin?token="+link, nobody).want(t, 200, "You sign in as", "Nadia").without(t, `name="name"`)
	in := w.post("/signin", nobody, url.Values{"token": {link}, "name": {"Eve"}}).want(t, 303)
	w.get("/", creds{"Cookie", "fenceline=" + in.Cookies()[0].Value}).want(t, 200, "Nadia").without(t, "Eve")
}

func TestSigninOverTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.PublicURL = "https://exports.example.com/" })
	link := w.link()
	if got, want := w.server.SigninURL(link), "https://exports.example.com/signin?token="+link; got != want {
		t.Errorf("the link is %s, want %s", got, want)
	}
	in := w.post("/signin", nobody, url.Values{"token": {link}, "name": {"Nadia"}}).want(t, 303)
	checkCookie(t, in.Cookies(), "__Host-fenceline", true)
	w.send("POST", "/signin", nobody, nil, "Origin", "https://exports.example.com", "Content-Type", "application/x-www-form-urlencoded").want(t, 403, "This link does not work")
}

func TestSigninIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link := w.link()
	for range maxFailedSignins {
		w.get("/signin?token=wrong", nobody).want(t, 403)
	}
	for _, got := range []answer{w.get("/signin?token="+link, nobody), w.post("/signin", nobody, url.Values{"token": {link}, "name": {"N"}})} {
		got.want(t, 429, "Too many")
		if after := got.Header.Get("Retry-After"); after == "" || after == "0" {
			t.Errorf("Retry-After is %q", after)
		}
	}
	w.get("/signin", nobody).want(t, 200)
}

func TestLimiter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	l := newLimiter(2, time.Minute)
	l.now = func() time.Time { return now }
	l.failed("a")
	if l.blocked("a") != 0 {
		t.Error("one failure of two blocks")
	}
	l.failed("a")
	if got := l.blocked("a"); got != time.Minute {
		t.Errorf("after two failures one waits %s", got)
	}
	if l.blocked("b") != 0 {
		t.Error("another address is blocked")
	}
	now = now.Add(time.Minute)
	if l.blocked("a") != 0 {
		t.Error("blocked after the window")
	}
	for i := range 3 * maxTracked {
		l.failed(fmt.Sprint(i))
	}
	if len(l.seen) > maxTracked {
		t.Errorf("%d addresses are kept, %d are allowed", len(l.seen), maxTracked)
	}
}

func TestClientKey(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.7:1234":               "192.0.2.7",
		"[::ffff:192.0.2.7]:1234":      "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:1":     "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80":            "fe80::/64",
		"@":                            "@",
		"[2001:db8:1:2:ffff::1]:65535": "2001:db8:1:2::/64",
	} {
		if got := clientKey(remote); got != want {
			t.Errorf("%s counts as %s, want %s", remote, got, want)
		}
	}
}
