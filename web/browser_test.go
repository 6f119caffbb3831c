package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/fenceline/fenceline/storage"
)

// tab is a browser's tab. Its methods end the test when something fails.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu      sync.Mutex
	console []string
	outside []string // addresses elsewhere that pages asked for
}

// chromium finds the browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("Chromium is not installed: apt-get install chromium (Debian), brew install --cask chromium (macOS)")
	return ""
}

func newTab(t *testing.T, base string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU)
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, endBrowser := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(endBrowser)
	ctx, endTab := chromedp.NewContext(allocator)
	t.Cleanup(endTab)
	b := &tab{t: t, ctx: ctx, base: base}
	b.do()
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.console = append(b.console, m.String())
			b.mu.Unlock()
		}
	}()
	requests := chromedp.Events(ctx, network.RequestWillBeSent)
	go func() {
		for sent, err := range requests {
			if err != nil {
				return
			}
			b.note(sent.Request.URL)
		}
	}()
	return b
}

// note remembers a request that leaves the site.
func (b *tab) note(address string) {
	if strings.HasPrefix(address, b.base+"/") || strings.HasPrefix(address, "data:") || strings.HasPrefix(address, "blob:"+b.base) || address == "about:blank" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outside = append(b.outside, address)
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx := b.ctx
	if len(actions) > 0 { // without any, the browser is started, and lives as long as this context
		limited, cancel := context.WithTimeout(b.ctx, time.Minute)
		defer cancel()
		ctx = limited
	}
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// is answers what an expression is in the page.
func is[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// waitFor waits until an expression is true. (The policy of the pages forbids
// what [chromedp.Poll] does.)
func (b *tab) waitFor(expression string) {
	b.t.Helper()
	eventually(b.t, expression, func() bool {
		v, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression)) // it fails while a page loads
		return err == nil && v
	})
}

func (b *tab) waitForText(text string) {
	b.t.Helper()
	b.waitFor(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

func (b *tab) screen(scheme string, width int64) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(width, 900))
}

func (b *tab) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.console {
		b.t.Errorf("the console says: %s", line)
	}
	for _, address := range b.outside {
		b.t.Errorf("a page asks for %s", address)
	}
	b.console, b.outside = nil, nil
}

// TestInABrowser goes the way of a person: sign in by the link, see what is
// published as it happens, download it, ask for more, cancel.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.base)
	if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Dhaka"}); err != nil {
		t.Fatal(err)
	}
	b.screen("light", 1280)
	b.open(strings.TrimPrefix(w.server.SigninURL(w.link()), w.base))
	b.do(chromedp.SendKeys(chromedp.ID("name"), "Nadia"), chromedp.Click(chromedp.CSS("button.primary")))
	b.waitForText("No exports yet")
	b.open("/exports")
	b.waitFor(`document.getElementById("live").textContent === "Live"`)

	j := watchItHappen(b, w)
	downloadAndCompare(b, w, j)
	askAndCancel(b)
	keepsWhatIsOpen(b, w)
	b.quiet()
	lookAtEveryPage(b, w, j)
}

// watchItHappen sees an attempt publish and another one refused, without loading the page again.
func watchItHappen(b *tab, w *world) storage.Job {
	b.t.Helper()
	is[bool](b, "window.sameDocument = true")
	j := w.job("acme", "sales", "বিক্রয়, অক্টোবর")
	b.waitForText("বিক্রয়, অক্টোবর")
	stale := w.begin(j, "w-frozen")
	must(w.store.HandOnLost(w.ctx, 0, 10))(b.t)
	second := w.begin(j, "w-second")
	b.waitForText("running")
	w.seal(j, second, "বিক্রয়.csv", "id\n1\n2\n")
	w.publish(second)
	b.waitForText("বিক্রয়.csv")
	if !is[bool](b, "window.sameDocument === true") {
		b.t.Error("the page was loaded again instead of updated")
	}
	b.do(chromedp.Click(chromedp.CSS("td.lead a")))
	b.waitFor(`document.querySelector(".fence.wide circle.ok") !== null`)
	b.waitFor(`document.getElementById("live").textContent === "Live"`)
	is[bool](b, "window.sameDocument = true")
	w.seal(j, stale, "stale.csv", "id\n1\n")
	if err := w.store.Publish(w.ctx, stale.ID); err == nil {
		b.t.Error("the stale attempt was published")
	}
	b.waitForText(fmt.Sprintf("Attempt %d was fenced out at", stale.Token))
	b.waitFor(`document.querySelector(".fence.wide .cross") !== null`)
	if !is[bool](b, "window.sameDocument === true") {
		b.t.Error("the page was loaded again instead of updated")
	}
	if zone := is[string](b, `document.querySelector("[data-zone]").textContent`); zone != "Asia/Dhaka" {
		b.t.Errorf("times are shown in %q, want the viewer's zone", zone)
	}
	begun := must(w.store.Attempt(w.ctx, second.ID))(b.t).StartedAt
	local := begun.In(time.FixedZone("", 6*3600)).Format(time.TimeOnly)
	b.waitForText(fmt.Sprintf("took over at %s", local))
	return j
}

func downloadAndCompare(b *tab, w *world, j storage.Job) {
	b.t.Helper()
	dir := b.t.TempDir()
	_, err := chromedp.CallBrowser(b.ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.Click(chromedp.CSS(".actions a.primary")))
	want := w.currentFile(j.ExportID)
	var got []byte
	eventually(b.t, "the file is downloaded", func() bool {
		got, err = os.ReadFile(filepath.Join(dir, want.Name))
		return err == nil && int64(len(got)) == want.Size
	})
	sum := sha256.Sum256(got)
	if shown := is[string](b, `document.querySelector(".hash").title`); shown != hex.EncodeToString(sum[:]) {
		b.t.Errorf("the page shows the hash %s, the file has %x", shown, sum)
	}
}

func askAndCancel(b *tab) {
	b.t.Helper()
	b.open("/new/orders")
	b.do(chromedp.Click(chromedp.CSS("button.primary")))
	b.waitForText("Is required")
	b.mu.Lock() // Chromium reports the status 422 of a form as a failed load
	b.console = nil
	b.mu.Unlock()
	b.do(chromedp.SetValue(chromedp.CSS(`[name="p.from"]`), "2026-01-01"), chromedp.Click(chromedp.CSS(`[formaction]`)))
	b.waitForText("The only row")
	b.look("preview")
	if from := is[string](b, `document.querySelector('[name="p.from"]').value`); from != "2026-01-01" {
		b.t.Errorf("after the preview the form holds %q", from)
	}
	b.do(chromedp.Click(chromedp.CSS("button.primary")))
	b.waitForText("It waits for a worker")
	b.do(chromedp.Click(chromedp.CSS("#cancel summary")), chromedp.WaitVisible(chromedp.CSS("#cancel .danger")), chromedp.Click(chromedp.CSS("#cancel .danger")))
	b.waitForText("It was cancelled")
}

// keepsWhatIsOpen reads a payload with the keyboard while the job goes on above it.
func keepsWhatIsOpen(b *tab, w *world) {
	b.t.Helper()
	j := w.job("acme", "reading", "Read while it changes")
	b.open("/jobs/" + j.ID.String())
	b.waitFor(`document.getElementById("live").textContent === "Live"`)
	is[bool](b, `(() => {
		const summary = document.querySelector("#payload summary");
		summary.click();
		summary.focus();
		scrollTo(0, 200);
		return true;
	})()`)
	w.begin(j, "w-1")
	b.waitForText("w-1")
	if !is[bool](b, `document.getElementById("payload").open && document.activeElement === document.querySelector("#payload summary") && scrollY === 200`) {
		b.t.Error("an update has closed what was open, taken the focus or scrolled")
	}
}

// overlaps counts the texts of the pictures that lie on each other, as the browser has set them.
const overlaps = `[...document.querySelectorAll(".fence")].reduce((n, svg) => {
	const boxes = [...svg.querySelectorAll("text")].map((e) => e.getBoundingClientRect()).filter((r) => r.width);
	const out = svg.getBoundingClientRect();
	const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
	boxes.forEach((a, i) => {
		if (a.left < out.left - 1 || a.right > out.right + 1) n++;
		boxes.slice(i + 1).forEach((b) => { if (meet(a, b)) n++; });
	});
	return n;
}, 0)`

// unlabelled counts the controls without a name.
const unlabelled = `[...document.querySelectorAll("input:not([type=hidden]), select, button, a, summary")]
	.filter((e) => !(e.labels && e.labels.length) && !e.textContent.trim() && !e.getAttribute("aria-label")).length`

// lookAtEveryPage checks each page, wide and narrow, with everything open. With
// FENCELINE_SCREENSHOTS set to a folder it leaves pictures there, in both themes.
func lookAtEveryPage(b *tab, w *world, j storage.Job) {
	b.t.Helper()
	long := w.job("acme", "k?"+strings.Repeat("warehouse=المستودع-", 12), "حركة المواد "+strings.Repeat("unbreakable", 12))
	busy := w.begin(long, "host-with-a-very-long-name.example.internal-1234-abcdef")
	expected := int64(5_000_000)
	if err := w.store.Heartbeat(w.ctx, busy.ID, storage.Progress{Step: "write", Rows: 3_200_000, Expected: &expected, Bytes: 1}); err != nil {
		b.t.Fatal(err)
	}
	for name, path := range map[string]string{
		"overview": "/", "week": "/?window=week", "failed": "/failed", "failed-all": "/failed/all?do=retry", "export": exportPath(j.ExportID), "running": exportPath(long.ExportID),
		"job": "/jobs/" + j.ID.String(), "long-job": "/jobs/" + long.ID.String(), "new": "/new", "form": "/new/orders",
	} {
		b.open(path)
		b.look(name)
	}
}

// look checks the page that is open.
func (b *tab) look(name string) {
	b.t.Helper()
	is[bool](b, `document.querySelectorAll("details").forEach((d) => { d.open = true }), true`)
	if n := is[int](b, unlabelled); n > 0 {
		b.t.Errorf("%s: %d controls have no name", name, n)
	}
	dir := os.Getenv("FENCELINE_SCREENSHOTS")
	for _, width := range []int64{1280, 760, 390} {
		b.screen("light", width)
		if over := is[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
			b.t.Errorf("%s: the page scrolls sideways by %d on a screen %d wide", name, over, width)
		}
		if n := is[int](b, overlaps); n > 0 {
			b.t.Errorf("%s: %d labels of the picture overlap or leave it on a screen %d wide", name, n, width)
		}
		if dir == "" {
			continue
		}
		for _, scheme := range []string{"light", "dark"} {
			b.screen(scheme, width)
			picture := must(chromedp.Run(b.ctx, chromedp.FullScreenshot(100)))(b.t)
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, scheme, width)), picture, 0o600); err != nil {
				b.t.Error(err)
			}
		}
	}
}

// Without a script everything is there, with times in UTC.
func TestWithoutScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.published("acme", "k", "Sales", "sales.csv", "id\n1\n")
	b := newTab(t, w.base)
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.open(strings.TrimPrefix(w.server.SigninURL(w.link()), w.base))
	b.do(chromedp.SendKeys(chromedp.ID("name"), "Nadia"), chromedp.Click(chromedp.CSS("button.primary")), chromedp.WaitVisible(chromedp.CSS("nav.nav")))
	b.open("/exports")
	b.do(chromedp.WaitVisible(chromedp.CSS("td.lead a")))
	text := must(chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("main"))))(t)
	for _, want := range []string{"times in UTC", "Sales", "sales.csv", "current"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page without a script lacks %q:\n%s", want, text)
		}
	}
	b.quiet()
}
