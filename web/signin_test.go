package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
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
	l := newLimiter("test", 2, time.Minute, nil)
	l.now = func() time.Time { return now }
	l.failed(t.Context(), "a")
	if l.blocked(t.Context(), "a") != 0 {
		t.Error("one failure of two blocks")
	}
	l.failed(t.Context(), "a")
	if got := l.blocked(t.Context(), "a"); got != time.Minute {
		t.Errorf("after two failures one waits %s", got)
	}
	if l.blocked(t.Context(), "b") != 0 {
		t.Error("another address is blocked")
	}
	now = now.Add(time.Minute)
	if l.blocked(t.Context(), "a") != 0 {
		t.Error("blocked after the window")
	}
	for i := range 3 * maxTracked {
		l.failed(t.Context(), fmt.Sprint(i))
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

// user makes a user who signs in with a password.
func (w *world) user(name, tenant string, role storage.Role, text string) storage.User {
	w.t.Helper()
	hash := must(w.server.hasher.Hash(w.ctx, text))(w.t)
	return must(w.store.AddUser(w.ctx, storage.NewUser{Name: name, Tenant: tenant, Role: role, Password: hash}))(w.t)
}

const goodPassword = "correct horse battery"

func (w *world) signIn(name, text string, who creds) answer {
	w.t.Helper()
	return w.post("/signin", who, url.Values{"name": {name}, "password": {text}})
}

func TestSigninByPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.person("Root", "")
	w.user("Nadia", "acme", storage.RoleViewer, goodPassword)
	w.get("/signin", nobody).want(t, 200, `type="password"`, `autocomplete="current-password"`)
	var refusals []string
	for _, c := range [][2]string{{"Nadia", goodPassword + "x"}, {"Nobody", goodPassword}, {"Root", ""}, {"Root", goodPassword}} {
		got := w.signIn(c[0], c[1], nobody).want(t, 403, "do not go together")
		refusals = append(refusals, strings.ReplaceAll(got.body, c[0], "NAME"))
	}
	for _, body := range refusals {
		if body != refusals[0] {
			t.Error("what is wrong can be told by the answer")
		}
	}
	in := w.signIn(" Nadia ", goodPassword, nobody).want(t, 303)
	cookie := checkCookie(t, in.Cookies(), "fenceline", false)
	first := creds{"Cookie", cookie.Name + "=" + cookie.Value}
	w.get("/", first).want(t, 200, "Nadia")
	again := w.signIn("Nadia", goodPassword, first).want(t, 303).Cookies()[0].Value
	if again == cookie.Value {
		t.Error("the session was kept at sign-in")
	}
	w.get("/", first).want(t, 303) // it was replaced
	w.get("/", creds{"Cookie", "fenceline=" + again}).want(t, 200)
	w.send("POST", "/signin", nobody, strings.NewReader("name=Nadia&password=x"), "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "cross-site").want(t, 403, "another site")
	if strings.Contains(w.log.String(), goodPassword) {
		t.Error("the log holds the password")
	}
}

// However many addresses try, a name has so many tries; others are not hurt, nor is who succeeds.
func TestSigninByPasswordIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.person("Root", "")
	w.user("Nadia", "acme", storage.RoleViewer, goodPassword)
	for range maxFailedSignins - 1 {
		w.signIn("Nadia", "wrong", nobody).want(t, 403)
	}
	for range 3 { // what succeeds gives back what it took
		w.signIn("Nadia", goodPassword, nobody).want(t, 303)
	}
	w.signIn("Nadia", "wrong", nobody).want(t, 403)
	got := w.signIn("Nadia", goodPassword, nobody).want(t, 429, "too many attempts")
	if after := got.Header.Get("Retry-After"); after == "" || after == "0" {
		t.Errorf("Retry-After is %q", after)
	}
	w.server.signins.clear(w.ctx, "127.0.0.1") // as from another address
	for range maxFailedNames - 1 {
		w.signIn("nadia", "wrong", nobody).want(t, 403)
		w.server.signins.clear(w.ctx, "127.0.0.1")
	}
	w.signIn("Nadia", goodPassword, nobody).want(t, 429)
	w.server.signins.clear(w.ctx, "127.0.0.1")
	w.signIn("Omar", "wrong", nobody).want(t, 403)
}

// An old hash is made again at the next sign-in, and other sessions go on.
func TestPasswordsAreRehashed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.person("Root", "")
	// Of the reference implementation, with other parameters: "password", salt "somesalt".
	const old = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	must(w.store.AddUser(w.ctx, storage.NewUser{Name: "Nadia", Role: storage.RoleViewer, Password: old}))(t)
	before := w.personAs("Nadia", "", storage.RoleViewer)
	for range 2 {
		w.signIn("Nadia", "password", nobody).want(t, 303)
	}
	_, hash, err := w.store.PasswordOf(w.ctx, "Nadia")
	if err != nil || hash == old || !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,") {
		t.Errorf("the hash is %s, %v", hash, err)
	}
	w.get("/", before).want(t, 200)
}
