package web

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/storage"
)

// axe is the checker of accessibility that `make tools` installs.
func axe(t *testing.T) string {
	t.Helper()
	dir := must(os.Getwd())(t)
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if raw, err := os.ReadFile(filepath.Join(dir, "bin/axe/node_modules/axe-core/axe.min.js")); err == nil {
			return string(raw)
		}
	}
	t.Fatal("axe-core is not installed: run `make tools`")
	return ""
}

// violation is a rule of axe that a page breaks.
type violation struct {
	ID, Impact, Help string
	Nodes            []string
}

// violations are the serious ones on the page that is open. The script comes
// through the debugger, so that the page keeps its policy.
func (b *tab) violations(script string) []violation {
	b.t.Helper()
	if !is[bool](b, "typeof axe === 'object'") {
		b.do(chromedp.Evaluate[chromedp.Void](script))
	}
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]violation](`axe.run(document, {resultTypes: ["violations"], preload: false}).then((r) => r.violations
		.filter((v) => v.impact === "serious" || v.impact === "critical")
		.map((v) => ({ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.slice(0, 5).map((n) => n.target.join(" ") + ": " + n.html.slice(0, 160) + " " + n.any.map((a) => a.message).join("; ").slice(0, 200))})))`,
		chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("axe: %v", err)
	}
	return found
}

// signIn gives the browser somebody's session.
func (b *tab) signIn(who creds) {
	b.t.Helper()
	name, value, _ := strings.Cut(who.value, "=")
	if _, err := chromedp.Call(b.ctx, network.SetCookie, network.SetCookieParams{Name: name, Value: value, URL: b.base}); err != nil {
		b.t.Fatal(err)
	}
}

// samples are what stands for the wildcards of a route, by what comes before the
// first one, or the whole address of a route that needs a query.
type samples map[string]string

// fill makes an address of a route; false when nothing is known for its wildcards.
func (s samples) fill(path string) (string, bool) {
	if whole, known := s[path]; known {
		return whole, true
	}
	path = strings.TrimSuffix(path, "{$}")
	if !strings.Contains(path, "{") {
		return path, true
	}
	parts := strings.Split(path, "/")
	known := s[strings.Join(parts[1:slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, "{") })], "/")]
	for i, p := range parts {
		if strings.HasPrefix(p, "{") {
			if known == "" {
				return "", false
			}
			parts[i], known = known, ""
		}
	}
	return strings.Join(parts, "/"), true
}

// richWorld has something of everything, with long and foreign names.
func richWorld(t *testing.T) (*world, samples) {
	w := newWorld(t)
	who := w.person("Robin", "")
	j, _, _ := w.fenced("acme", "sales?month=2026-10", "বিক্রয়, অক্টোবর · حركة المواد · Sales")
	w.again(j, "id\n3\n")
	w.keepSome(j.ExportID)
	long := w.job("acme", "k?"+strings.Repeat("warehouse=المستودع-", 12), "Stock "+strings.Repeat("unbreakable", 14))
	busy := w.beginUnder(long, "host-with-a-very-long-name.example.internal-1234-abcdef", math.MaxInt64)
	expected := int64(5_000_000)
	if err := w.store.Heartbeat(w.ctx, busy.ID, storage.Progress{Step: "write", Rows: 3_200_000, Expected: &expected, Bytes: 1}); err != nil {
		t.Fatal(err)
	}
	lost := w.job("globex", "payouts", "Payouts")
	failed := w.begin(lost, "w-9")
	must(w.store.EndAttempt(w.ctx, failed.ID, storage.Ending{State: storage.AttemptFailed, Reason: "panic",
		Error: "panic: column “fee” does not exist\n\ngoroutine 7 [running]:\nmain.main()\n\t/src/main.go:1", Counts: true, Final: true}))(t)
	batch := w.call("/api/v1/batches", w.token(""), `{"tenant":"acme","title":"Night","jobs":[{"kind":"note","payload":{"text":"x"}},{"kind":"note","payload":{"text":"y"}}]}`).want(t, 202)
	w.call("/api/v1/chains", w.token(""), `{"tenant":"acme","jobs":[{"kind":"note","payload":{"text":"x"}},{"kind":"note","payload":{"text":"y"}}]}`).want(t, 202)
	w.send("PUT", "/api/v1/schedules/nightly", w.token(""), strings.NewReader(`{"cron":"0 3 * * *","zone":"Europe/Berlin","kind":"report","payload":{"report":"orders","params":{"from":"2026-01-01"}}}`), "Content-Type", "application/json")
	if err := w.store.CreateSeries(w.ctx, storage.Series{Tenant: "default", Name: "web", Prefix: "W-", Digits: 4, First: 1}); err != nil {
		t.Fatal(err)
	}
	w.post("/invoices", who, url.Values{"document": {numberless(t)}, "series": {"default/web"}, "nonce": {"n"}}).want(t, 303)
	w.playLab()
	at := batch.Header.Get("Location")
	group := regexp.MustCompile(`href="/failed/([0-9a-f-]{36})"`).FindStringSubmatch(w.get("/failed", who).want(t, 200).body)
	if group == nil {
		t.Fatal("the page of failed jobs has no group")
	}
	return w, samples{
		"exports": j.ExportID.String(), "jobs": lost.ID.String(), "new": "orders", "invoices/series": "web", "batches": at[strings.LastIndex(at, "/")+1:],
		"schedules": "nightly", "targets": makeTarget(w), "queues": "default", "/jobs/bulk": "/jobs/bulk?do=retry",
		"settings/users": must(w.store.AddUser(w.ctx, storage.NewUser{Name: "Zoë", Tenant: "acme", Role: storage.RoleViewer}))(t).ID.String(),
		"failed":         group[1], "/failed/all": "/failed/all?do=retry", "/settings/retention/change": "/settings/retention/change?do=set&kind=report&current_days=30",
		"/settings/kept/hold": "/settings/kept/hold?tenant=acme&kind=report",
	}
}

// pages are the addresses of all pages of the table: every GET route for people
// that answers HTML. A route with wildcards that no sample fills fails the test.
func (w *world) pages(t *testing.T, s samples, who creds) []string {
	t.Helper()
	var list []string
	for _, rt := range w.server.routes() {
		if rt.method != "GET" || rt.access != signedIn || strings.Contains(rt.path, "/files/") {
			continue
		}
		path, ok := s.fill(rt.path)
		if !ok {
			t.Errorf("no sample fills %s: say in richWorld what stands for its wildcards", rt.path)
			continue
		}
		got := w.get(path, who)
		if got.StatusCode != http.StatusOK {
			t.Errorf("the sample %s of %s answers %d", path, rt.path, got.StatusCode)
		} else if strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") {
			list = append(list, path)
		}
	}
	return list
}

// Every page of the route table, in both themes and as wide as a desk and a phone:
// nothing that axe calls serious, no scrolling sideways, a quiet console, and no
// request to anywhere else.
func TestEveryPageIsSound(t *testing.T) {
	t.Parallel()
	script := axe(t)
	w, s := richWorld(t)
	who := w.person("Robin", "")
	paths := w.pages(t, s, who)
	b := newTab(t, w.base)
	for _, path := range []string{"/signin", "/signin?token=" + w.link(), "/signin?token=x"} {
		b.open(path)
		if strings.HasSuffix(path, "=x") { // Chromium reports the status 403
			b.forget()
		}
		b.soundIn(path[:min(len(path), 16)], script, "light", 1280)
		b.soundIn(path[:min(len(path), 16)], script, "dark", 390)
		b.quiet()
	}
	b.signIn(who)
	extra := []string{"/invoices?example=1", "/lab?backend=none", "/nothing", "/jobs/" + must(w.store.Jobs(w.ctx, principalAll.scope, storage.JobFilter{State: storage.JobRunning}))(t).Items[0].ID.String()}
	for _, path := range append(paths, extra...) {
		b.open(path)
		if path == "/nothing" { // Chromium reports the status 404 of a page
			b.forget()
		}
		b.soundIn(path, script, "light", 1280)
		b.soundIn(path, script, "dark", 1280)
		b.soundIn(path, script, "light", 390)
		b.soundIn(path, script, "dark", 390)
		b.quiet()
	}
}

func (b *tab) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.console = nil
}

// soundIn checks the page that is open in one theme and width. With
// FENCELINE_SCREENSHOTS it leaves a picture there.
func (b *tab) soundIn(path, script, scheme string, width int64) {
	b.t.Helper()
	b.screen(scheme, width)
	over := is[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth")
	if over > 0 {
		b.t.Errorf("%s scrolls sideways by %d on a screen %d wide: %s", path, over, width, is[string](b, widest))
	}
	for _, v := range b.violations(script) {
		b.t.Errorf("%s in the %s theme, %d wide: %s (%s): %s\n  %s", path, scheme, width, v.Help, v.Impact, v.ID, strings.Join(v.Nodes, "\n  "))
	}
	if dir := os.Getenv("FENCELINE_SCREENSHOTS"); dir != "" {
		picture := must(chromedp.Run(b.ctx, chromedp.FullScreenshot(100)))(b.t)
		name := strings.Trim(strings.Map(func(r rune) rune {
			if strings.ContainsRune("/?=", r) {
				return '-'
			}
			return r
		}, path), "-")
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("walk-%s-%s-%d.png", name, scheme, width)), picture, 0o600); err != nil {
			b.t.Error(err)
		}
	}
}

// widest names what sticks out of the page.
const widest = `[...document.querySelectorAll("main *, nav *")].filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest(".scroll"))
	.slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join(" | ")`

// A viewer finds nothing to press that would change anything, on any page.
func TestViewersFindNoButtons(t *testing.T) {
	t.Parallel()
	w, s := richWorld(t)
	viewer := w.withRole("Vi", "", storage.RoleViewer)
	b := newTab(t, w.base)
	b.signIn(viewer)
	for _, rt := range w.server.routes() {
		path, ok := s.fill(rt.path)
		if !ok || rt.access != signedIn || rt.method != "GET" || strings.Contains(rt.path, "/files/") {
			continue
		}
		if rt.needs != storage.VerbView {
			w.get(path, viewer).want(t, 403)
			continue
		}
		if !strings.HasPrefix(w.get(path, viewer).Header.Get("Content-Type"), "text/html") {
			continue
		}
		b.open(path)
		if forms := is[[]string](b, changing); len(forms) > 0 {
			t.Errorf("%s shows a viewer what would change something: %s", path, strings.Join(forms, ", "))
		}
	}
	path := "/jobs/" + s["jobs"] + "/retry"
	if status := is[int](b, fmt.Sprintf("(() => { const x = new XMLHttpRequest(); x.open('POST', %q, false); x.send(); return x.status })()", path)); status != 403 {
		t.Errorf("a viewer's retry answers %d", status)
	}
	b.forget() // Chromium reports the 403
}

// changing are the forms of a page that a viewer finds a button for and may not send. What is one's own
// (signing out, one's password and sessions) everybody may change.
const changing = `[...document.querySelectorAll("main form")].filter((f) => f.method === "post" && [...f.elements].some((e) => e.type === "submit") && !/^\/(signout|account|settings\/(me|account|password|sessions))/.test(new URL(f.action).pathname)).map((f) => new URL(f.action).pathname)`

// numberless is the example without its number, for a series.
func numberless(t *testing.T) string {
	t.Helper()
	fields := must(invoice.Fields(invoice.Example()))(t)
	delete(fields, "number")
	return string(must(json.Marshal(fields))(t))
}
