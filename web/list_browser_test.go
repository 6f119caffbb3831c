package web

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/fenceline/fenceline/storage"
)

// TestListsInABrowser looks at every page with a list, empty and full, wide and
// narrow, sees a plain job come without loading the page again, and cancels what matches.
func TestListsInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.base)
	b.screen("light", 1280)
	b.open(strings.TrimPrefix(w.server.SigninURL(w.link()), w.base))
	b.do(chromedp.SendKeys(chromedp.ID("name"), "Nadia"), chromedp.Click(chromedp.CSS("button.primary")))
	b.waitForText("Exports")
	lists := map[string]string{"exports": "/exports", "jobs": "/jobs", "queues": "/queues", "batches": "/batches", "schedules": "/schedules", "targets": "/targets"}
	for name, path := range lists {
		b.open(path)
		b.look("empty-" + name)
	}
	b.screen("light", 1280)
	seeAPlainJob(b, w)
	w.published("acme", "k?"+strings.Repeat("warehouse=المستودع-", 12), "حركة المواد "+strings.Repeat("unbreakable", 12), "বিক্রয়.csv", "id\n1\n")
	api, root := w.token(""), w.personAs("Root", "", storage.RoleAdmin)
	batch := w.batch(api, "acme", 6, `,"finally":`+noteBody)
	w.move(batch, 2, storage.JobFailed)
	w.worker("host-with-a-very-long-name.example.internal-1234-abcdef", 0)
	w.post("/schedules/-/new", root, scheduleForm("payday", "zone", "America/Argentina/ComodRivadavia")).want(t, 303)
	w.post("/schedules/payday/run", root, nil).want(t, 303)
	target := targetLink.FindStringSubmatch(w.post("/targets/new", root, hook("shop")).want(t, 201).body)[1]
	w.post(target+"/test", root, nil).want(t, 303)
	w.exec("SELECT fenceline.fence_token('acme', ?, 'w-1')", strings.Repeat("account:", 30))
	for name, path := range map[string]string{"batch": batch, "schedule": "/schedules/payday", "schedule-form": "/schedules/payday/edit", "new-schedule": "/schedules/-/new",
		"target": target, "new-target": "/targets/new", "bulk": "/jobs/bulk?do=cancel&queue=default"} {
		lists[name] = path
	}
	for name, path := range lists {
		b.open(path)
		b.look(name)
	}
	b.screen("light", 1280)
	cancelWhatMatches(b)
	b.quiet()
}

// seeAPlainJob waits for what no event tells of.
func seeAPlainJob(b *tab, w *world) {
	b.t.Helper()
	b.open("/jobs")
	b.waitForText("No jobs yet.")
	is[bool](b, "window.sameDocument = true")
	w.note(w.token(""), "acme", `,"tags":["seen-live"]`)
	b.waitForText("seen-live")
	if !is[bool](b, "window.sameDocument === true") {
		b.t.Error("the page was loaded again instead of updated")
	}
}

func cancelWhatMatches(b *tab) {
	b.t.Helper()
	b.open("/jobs?state=queued&queue=default")
	b.do(chromedp.Click(chromedp.CSS(`a[href^="/jobs/bulk?do=cancel"]`)))
	b.waitForText("Jobs that are dispatched from now on are not touched.")
	b.do(chromedp.Click(chromedp.CSS("button.danger")))
	b.waitForText("were cancelled")
	b.waitForText("No jobs match.")
}
