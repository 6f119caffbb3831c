package web

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// share makes a link over the API and answers its path.
func (w *world) share(who creds, j storage.Job, body string) (linkJSON, string) {
	w.t.Helper()
	l := decode[linkJSON](w.t, w.call("/api/v1"+exportPath(j.ExportID)+"/links", who, body).want(w.t, 201))
	path, ok := strings.CutPrefix(l.URL, w.base)
	if !ok || !strings.HasPrefix(path, "/l/") {
		w.t.Fatalf("the link is %q", l.URL)
	}
	return l, path
}

// A link opens the publication that it was made for, also after a newer one, for
// nobody in particular, and looking at it uses nothing up.
func TestLinkOpensItsPublication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("acme")
	j, one := w.published("acme", "k", "K", "বিক্রয়.csv", "id\n1\n")
	l, path := w.share(who, j, `{"file":"বিক্রয়.csv","lifetime":"1h","max_uses":2}`)
	if l.AttemptID != one.ID || time.Until(l.ExpiresAt) > time.Hour || l.MadeBy != "token test" {
		t.Errorf("the link is %+v", l)
	}
	for range 3 {
		w.get(path, nobody).want(t, 200, "বিক্রয়.csv", "Download", "2 more times").without(t, "A newer version")
	}
	w.send("HEAD", path+"/file", nobody, nil).want(t, 200)
	w.published("acme", "k", "K", "other.csv", "id\n2\n")

	page := w.get(path, nobody).want(t, 200, "A newer version was published")
	got := w.get(path+"/file", nobody).want(t, 200)
	if got.body != "id\n1\n" {
		t.Errorf("the link gave %q", got.body)
	}
	for _, h := range []struct{ of, name, want string }{
		{page.Header.Get("Cache-Control"), "Cache-Control of the page", "private, no-store"}, {got.Header.Get("Cache-Control"), "Cache-Control", "private, no-store"},
		{page.Header.Get("Referrer-Policy"), "Referrer-Policy", "no-referrer"}, {got.Header.Get("Referrer-Policy"), "Referrer-Policy of the file", "no-referrer"},
		{got.Header.Get("X-Content-Type-Options"), "X-Content-Type-Options", "nosniff"},
		{got.Header.Get("Content-Disposition"), "Content-Disposition", `attachment; filename="_______.csv"; filename*=UTF-8''` + url.PathEscape("বিক্রয়.csv")},
	} {
		if h.of != h.want {
			t.Errorf("%s is %q, want %q", h.name, h.of, h.want)
		}
	}
	w.get(path+"/file", nobody).want(t, 200)
	w.get(path+"/file", nobody).want(t, 410, "opens nothing any more")
	w.get(path, nobody).want(t, 410)
	if used := w.entries(auditLinkUsed); len(used) != 2 || used[0].ActorKind != storage.ActorLink || !strings.Contains(string(used[0].Details), "token test") || *used[0].Tenant != "acme" {
		t.Errorf("the log holds %+v", used)
	}
	if secret := strings.TrimPrefix(path, "/l/"); strings.Contains(w.log.String(), secret) {
		t.Error("the log holds the secret of the link")
	}
}

func TestLinksAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j, stale, current := w.fenced("acme", "k", "K")
	who := w.token("acme")
	path := "/api/v1" + exportPath(j.ExportID) + "/links"
	w.call(path, w.token("globex"), `{"file":"second.csv"}`).want(t, 404)
	w.call(path, who, `{"file":"first.csv"}`).want(t, 404)
	w.call(path, who, `{"file":"first.csv","attempt":"`+stale.ID.String()+`"}`).want(t, 404)
	w.call(path, who, `{"file":"second.csv","attempt":"`+current.ID.String()+`"}`).want(t, 201)
	for _, body := range []string{`{}`, `{"file":"second.csv","lifetime":"8760h"}`, `{"file":"second.csv","lifetime":"0s"}`, `{"file":"second.csv","lifetime":"soon"}`,
		`{"file":"second.csv","max_uses":-1}`, `{"file":"second.csv","attempt":"x"}`, `{"file":"second.csv","forever":true}`} {
		w.call(path, who, body).want(t, 422)
	}
	viewer := w.tokenThatMay("acme", storage.VerbView)
	w.call(path, viewer, `{"file":"second.csv"}`).want(t, 403)
	list := decode[storage.Page[storage.Link]](t, w.get(path, viewer).want(t, 200))
	if len(list.Items) != 1 || list.Items[0].FileName != "second.csv" {
		t.Errorf("the links are %+v", list)
	}
	for _, wrong := range []string{"/l/x", "/l/x/file", "/l/" + strings.Repeat("x", 5000)} {
		w.get(wrong, nobody).want(t, 404)
	}
}

func TestLinkIsRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, other := w.token("acme"), w.token("globex")
	j, _ := w.published("acme", "k", "K", "a.csv", "id\n1\n")
	l, path := w.share(who, j, `{"file":"a.csv"}`)
	at := "/api/v1" + exportPath(j.ExportID) + "/links/" + l.ID.String()
	w.send("DELETE", at, other, nil).want(t, 404)
	w.get(path, nobody).want(t, 200)
	for range 2 {
		w.send("DELETE", at, who, nil).want(t, 200, `"revoked_by":"token test"`)
	}
	w.get(path, nobody).want(t, 410)
	w.get(path+"/file", nobody).want(t, 410)
	w.send("DELETE", strings.TrimSuffix(at, l.ID.String())+j.ID.String(), who, nil).want(t, 404)
	if n := len(w.entries(auditLinkRevoked)); n == 0 {
		t.Error("nobody would know who revoked the link")
	}
}

// A link whose files were cleaned up, or whose export was deleted, says so.
func TestLinkToWhatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	j, _ := w.published("acme", "k", "K", "a.csv", "id\n1\n")
	_, path := w.share(who, j, `{"file":"a.csv"}`)
	w.published("acme", "k", "K", "a.csv", "id\n2\n")
	must(storage.NewSweep(w.store, w.files, storage.SweepOptions{Worker: "w"}).Run(w.ctx))(t)
	w.get(path, nobody).want(t, 410, "cleaned up")
	w.get(path+"/file", nobody).want(t, 410, "cleaned up")

	_, path = w.share(who, j, `{"file":"a.csv"}`)
	if err := w.store.DeleteExport(w.ctx, storage.Scope{All: true}, j.ExportID); err != nil {
		t.Fatal(err)
	}
	w.get(path, nobody).want(t, 410)
}

// A person makes a link on the page of the export, sees it once, and revokes it.
func TestLinkForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	j, b := w.published("acme", "k", "K", "a.csv", "id\n1\n")
	w.get(exportPath(j.ExportID), who).want(t, 200, "Make a link", `value="24h0m0s" selected`)
	made := w.post(exportPath(j.ExportID)+"/links", who, url.Values{"file": {"a.csv"}, "attempt": {b.ID.String()}, "lifetime": {"1h0m0s"}, "max_uses": {" 1 "}}).want(t, 200, "at most once")
	found := regexp.MustCompile(`<code>(http[^<]*)</code>`).FindStringSubmatch(made.body)
	if found == nil || made.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("there is no link in\n%s", made.body)
	}
	path := strings.TrimPrefix(found[1], w.base)
	w.get(path+"/file", nobody).want(t, 200)
	w.get(exportPath(j.ExportID), who).want(t, 200, "used up", "1 of 1").without(t, path)

	w.post(exportPath(j.ExportID)+"/links", who, url.Values{"file": {"a.csv"}}).want(t, 200)
	open := must(w.store.Links(w.ctx, storage.Scope{All: true}, j.ExportID, "", 1))(t).Items[0]
	w.get(exportPath(j.ExportID), who).want(t, 200, "/links/"+open.ID.String()+"/revoke")
	w.post(exportPath(j.ExportID)+"/links/"+open.ID.String()+"/revoke", who, nil).want(t, 303)
	w.get(exportPath(j.ExportID), who).want(t, 200, "revoked").without(t, "/links/"+open.ID.String()+"/revoke")
	w.post(exportPath(j.ExportID)+"/links", who, url.Values{"file": {"a.csv"}, "max_uses": {"many"}}).want(t, 422)
	w.post(exportPath(j.ExportID)+"/links", who, url.Values{"file": {"b.csv"}}).want(t, 404)
}

// Every publication whose files are there can be had by its own address.
func TestDownloadOfEarlierPublications(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j, one := w.published("acme", "k", "K", "a.csv", "id\n1\n")
	_, two := w.published("acme", "k", "K", "a.csv", "id\n2\n")
	for base, who := range map[string]creds{exportPath(j.ExportID): w.person("Nadia", ""), "/api/v1" + exportPath(j.ExportID): w.token("acme")} {
		first, second := base+"/attempts/"+one.ID.String()+"/files/a.csv", base+"/attempts/"+two.ID.String()+"/files/a.csv"
		old, current := w.get(first, who).want(t, 200), w.get(second, who).want(t, 200)
		if old.body != "id\n1\n" || current.body != "id\n2\n" {
			t.Errorf("%s: %q, then %q", base, old.body, current.body)
		}
		sum := sha256.Sum256([]byte(old.body))
		part := w.get(first, who, "Range", "bytes=3-3").want(t, 206)
		for _, a := range []answer{old, part, w.send("HEAD", first, who, nil)} {
			if got := a.Header.Get("Repr-Digest"); got != "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":" {
				t.Errorf("%d: Repr-Digest is %q", a.StatusCode, got)
			}
		}
		w.get(base+"/attempts/x/files/a.csv", who).want(t, 404)
	}
	other, _ := w.published("acme", "o", "O", "a.csv", "x")
	w.get("/api/v1"+exportPath(other.ExportID)+"/attempts/"+one.ID.String()+"/files/a.csv", w.token("")).want(t, 404)
	w.get("/api/v1"+exportPath(j.ExportID)+"/attempts/"+one.ID.String()+"/files/a.csv", w.token("globex")).want(t, 404)
	must(storage.NewSweep(w.store, w.files, storage.SweepOptions{Worker: "w"}).Run(w.ctx))(t)
	w.get("/api/v1"+exportPath(j.ExportID)+"/attempts/"+one.ID.String()+"/files/a.csv", w.token("")).want(t, 410)
	w.get("/api/v1"+exportPath(j.ExportID)+"/attempts/"+two.ID.String()+"/files/a.csv", w.token("")).want(t, 200)
}

// tokenThatMay makes an API token for a tenant with some verbs.
func (w *world) tokenThatMay(tenant string, verbs ...storage.Verb) creds {
	w.t.Helper()
	_, secret, err := w.store.NewToken(w.ctx, "test", tenant, verbs...)
	if err != nil {
		w.t.Fatal(err)
	}
	return creds{"Authorization", "Bearer " + secret}
}
