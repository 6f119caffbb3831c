package web

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// watchBar keeps every value that the bar has had on the page that is open.
const watchBar = `(() => {
	window.seen = [];
	const look = () => { const bar = document.querySelector(".wide-bar progress"); if (bar && window.seen.at(-1) !== bar.value) window.seen.push(bar.value); };
	new MutationObserver(look).observe(document.querySelector("[data-live=progress]"), { childList: true, subtree: true, attributes: true });
	look();
	return true;
})()`

// A person asks for an export, clicks too often, watches a real worker make it,
// and downloads it; asks for another one, and cancels it at work.
func TestARunInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hold := holdAt{jobs.PointRead: make(chan struct{}), jobs.PointSealed: make(chan struct{})}
	w.work("w-1", hold)
	b := newTab(t, w.base)
	b.signIn(w.person("Robin", ""))
	b.screen("light", 1280)
	b.open("/new/slow")
	b.do(chromedp.SetValue(chromedp.ID("tenant"), "acme"), chromedp.SetValue(chromedp.CSS(`[name="p.rows"]`), "1500"))
	is[bool](b, `(() => { const button = document.querySelector(".form button.primary"); for (let i = 0; i < 5; i++) button.click(); return true })()`)
	b.waitFor(`location.pathname.startsWith("/jobs/") && document.getElementById("live").textContent === "Live"`)
	is[bool](b, "window.sameDocument = true")
	b.waitForText("Now reading")
	is[bool](b, watchBar)
	close(hold[jobs.PointRead])
	b.waitForText("95 %")
	b.waitForText("Now publishing 1,500 rows")
	close(hold[jobs.PointSealed])
	b.waitForText("Published: 1,500 rows")
	seen := is[[]float64](b, "window.seen")
	if !slices.IsSorted(seen) || len(seen) < 3 || seen[len(seen)-1] != 100 || slices.Contains(seen[:len(seen)-1], 100) {
		t.Errorf("the bar showed %v", seen)
	}
	if !is[bool](b, "window.sameDocument === true") {
		t.Error("the page was loaded again instead of updated")
	}
	if n := len(must(w.store.Jobs(w.ctx, principalAll.scope, storage.JobFilter{}))(t).Items); n != 1 {
		t.Errorf("five clicks made %d jobs", n)
	}
	id := must(w.store.Jobs(w.ctx, principalAll.scope, storage.JobFilter{}))(t).Items[0]
	b.do(chromedp.Click(chromedp.CSS(`.actions a[href^="/exports/"]:not([download])`)))
	b.waitForText("Current files")
	downloadAndCompare(b, w, id)
	cancelAtWork(b, w)
	b.quiet()
}

// cancelAtWork cancels a job that a worker is at, and waits until the worker has confirmed.
func cancelAtWork(b *tab, w *world) {
	b.t.Helper()
	receipt := must(w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "report", Tenant: "acme", Payload: []byte(`{"report":"slow","params":{"rows":200000}}`)}))(b.t)
	b.open("/jobs/" + receipt.Job.ID.String())
	b.waitForText("Now writing")
	b.do(chromedp.Click(chromedp.CSS("#cancel summary")), chromedp.WaitVisible(chromedp.CSS("#cancel .danger")), chromedp.Click(chromedp.CSS("#cancel .danger")))
	b.waitForText("It was cancelled")
	j, attempts := w.look(receipt.Job.ID)
	if j.State != storage.JobCancelled || len(attempts) != 1 || attempts[0].State != storage.AttemptCancelled {
		b.t.Errorf("the job is %s after %+v", j.State, attempts)
	}
}

// A job that failed is tried again from its page, and says why it fails.
func TestRetryInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost := w.job("acme", "payouts", "Payouts")
	failed := w.begin(lost, "w-9")
	must(w.store.EndAttempt(w.ctx, failed.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "the bank does not answer", Counts: true, Final: true}))(t)
	b := newTab(t, w.base)
	b.signIn(w.person("Robin", ""))
	b.open("/jobs/" + lost.ID.String())
	b.waitForText("the bank does not answer")
	b.do(chromedp.Click(chromedp.CSS(`form[action$="/retry"] button`)))
	b.waitFor(`document.querySelector("h1") !== null && !document.querySelector('form[action$="/retry"]') && document.querySelector(".chip.queued") !== null`)
	w.work("w-1", nil)
	b.waitForText("Published: ")
	b.quiet()
}

// focused describes what has the focus and whether that can be seen.
const focused = `(() => {
	const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
	const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
	return { Name: e.nodeName + " " + (e.id || e.name || e.getAttribute("href") || e.textContent.trim().slice(0, 30)), Body: e === document.body, Ring: ring, Inside: box.bottom > 0 && box.top < innerHeight };
})()`

type focus struct {
	Name               string
	Body, Ring, Inside bool
}

// With the keyboard alone everything is reached in the order of the page, the focus
// is always seen, and a form is filled, sent, and what it made is cancelled.
func TestKeyboardOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j, _, _ := w.fenced("acme", "sales", "Sales")
	b := newTab(t, w.base)
	b.signIn(w.person("Robin", ""))
	b.screen("light", 1280)
	for _, path := range []string{"/", exportPath(j.ExportID), "/jobs/" + j.ID.String(), "/new/orders", "/invoices"} {
		b.open(path)
		b.tabThrough(path)
	}
	b.open("/new/orders")
	b.press(kb.Tab)
	if got := is[focus](b, focused); !strings.Contains(got.Name, "#main") || !got.Inside {
		t.Errorf("the first stop is %+v, want the link that skips to the content", got)
	}
	b.press(kb.Enter, kb.Tab)
	if got := is[string](b, `document.activeElement.closest("main") ? "main" : document.activeElement.outerHTML`); got != "main" {
		t.Errorf("after skipping the next stop is %s", got)
	}
	is[bool](b, `(() => { document.getElementById("tenant").focus(); return true })()`)
	b.press(kb.Tab, "01", "01", "2026", kb.Enter) // the date field of an English browser: month, day, year
	b.waitForText("It waits for a worker")
	b.reach("#cancel summary")
	b.press(kb.Enter, kb.Tab, kb.Enter)
	b.waitForText("It was cancelled")
	b.quiet()
}

func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.do(chromedp.KeyEvent(k))
	}
}

// reach presses Tab until an element has the focus.
func (b *tab) reach(selector string) {
	b.t.Helper()
	for range 100 {
		if is[bool](b, fmt.Sprintf("document.activeElement === document.querySelector(%q)", selector)) {
			return
		}
		b.press(kb.Tab)
	}
	b.t.Fatalf("%s is not reached with the keyboard", selector)
}

// stops are what the keyboard should reach, in the order of the page.
const stops = `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
	.filter((e) => !e.disabled && e.getClientRects().length && getComputedStyle(e).visibility !== "hidden" && !e.closest("[popover]:not(:popover-open)") || e.classList.contains("skip")).length`

// tabThrough goes through a page from its beginning to its end.
func (b *tab) tabThrough(path string) {
	b.t.Helper()
	last, seen := -1, 0
	for range 200 {
		b.press(kb.Tab)
		at := is[focus](b, focused)
		if at.Body {
			break
		}
		place := is[int](b, `[...document.querySelectorAll("*")].indexOf(document.activeElement)`)
		if place < last {
			break // it has begun again
		}
		if place > last {
			seen++
		}
		last = place
		if !at.Ring {
			b.t.Errorf("%s: nobody sees that %s has the focus", path, at.Name)
		}
		if !at.Inside {
			b.t.Errorf("%s: %s has the focus off the screen", path, at.Name)
		}
	}
	if want := is[int](b, stops); seen < want {
		b.t.Errorf("%s: the keyboard reached %d of %d stops", path, seen, want)
	}
}

// A document is typed, its pages appear by themselves, and it is issued.
func TestInvoicesInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work("w-1", nil)
	b := newTab(t, w.base)
	b.signIn(w.person("Robin", ""))
	b.open("/invoices?example=1")
	is[bool](b, "window.sameDocument = true")
	if loaded := is[bool](b, `(() => { const i = document.querySelector(".sheet"); return i.complete && i.naturalWidth > 0 })()`); !loaded {
		b.waitFor(`(() => { const i = document.querySelector(".sheet"); return i.complete && i.naturalWidth > 0 })()`)
	}
	is[bool](b, `(() => {
		const text = document.getElementById("document");
		text.value = text.value.replace('"unit_price": "389.00"', '"unit_price": "x"');
		text.dispatchEvent(new InputEvent("input", { bubbles: true }));
		return true;
	})()`)
	b.waitForText("lines[0].unit_price")
	is[bool](b, `(() => {
		const text = document.getElementById("document");
		text.value = text.value.replace('"unit_price": "x"', '"unit_price": "389.00"').replace("2026-0042", "2026-0043");
		text.dispatchEvent(new InputEvent("input", { bubbles: true }));
		return true;
	})()`)
	b.waitFor(`document.querySelector("#preview header").textContent.includes("2026-0043") && !document.getElementById("problems")`)
	if !is[bool](b, "window.sameDocument === true") {
		t.Error("the page was loaded again for the preview")
	}
	b.do(chromedp.Click(chromedp.CSS(".beside button.primary")))
	b.waitForText("Published: ")
	b.quiet()
	w.get("/invoices", w.person("Robin", "")).want(t, 200, "2026-0043")
	w.post("/invoices/preview", w.person("Robin", ""), url.Values{"document": {"{}"}}).want(t, 422)
}
