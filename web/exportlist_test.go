package web

import (
	"fmt"
	"html"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

func TestExportsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.personAs("Vera", "", storage.RoleViewer)
	w.get("/exports", who).want(t, 200, "No exports yet.", "fenceline dispatch report").without(t, "<table", ">New export</a></div></div>")
	current, _ := w.published("acme", "sales?month=10", "بيع <b>أكتوبر</b>", "বিক্রয়.csv", "id\n1\n2\n")
	running := w.job("acme", "stock", "Stock")
	b := w.begin(running, "w-9")
	if err := w.store.Heartbeat(w.ctx, b.ID, storage.Progress{Step: "write", Rows: 1234567}); err != nil {
		t.Fatal(err)
	}
	failed := w.job("globex", "payouts", "Payouts 100%")
	must(w.store.EndAttempt(w.ctx, w.begin(failed, "w-9").ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "column “fee” does not exist\nat line 3", Counts: true, Final: true}))(t)
	waiting := w.job("acme", "later", "")
	page := w.get("/exports", who).want(t, 200, html.EscapeString("بيع <b>أكتوبر</b>"), "বিক্রয়.csv", `class="chip published">current`, "writing, 1,234,567 rows so far",
		`class="chip failed">failed`, "column “fee” does not exist", "<bdi>later</bdi>", `aria-current="page">Exports`)
	page.without(t, "<b>أكتوبر</b>", "at line 3")
	all := []storage.Job{current, running, failed, waiting}
	shows := func(query string, want ...storage.Job) {
		t.Helper()
		rows, _ := w.walk("/exports?"+query, who)
		once(t, rows, len(want))
		for _, j := range want {
			if got := fmt.Sprint(rows); !contains(rows, exportPath(j.ExportID)) {
				t.Errorf("%s shows %s, want %s among them", query, got, j.Title)
			}
		}
	}
	// Those with current files and those without are all there are.
	shows("state=current", current)
	shows("state=never", running, failed, waiting)
	shows("state=running", running)
	shows("state=failed", failed)
	shows("tenant=globex", failed)
	shows("kind=report", all...)
	shows("kind=invoice")
	shows("q=LATER", waiting)
	shows("q=100%25", failed)
	shows("q=sales%3Fmonth", current)
	shows("q=_tock")
	w.get("/exports?q=nothing", who).want(t, 200, "No exports match.", `value="nothing"`, `href="/exports">Show all exports`)
	w.get("/exports?state=lost", who).want(t, 422, "is no state of exports")
	w.get("/exports?after=rubbish", who).want(t, 400, "Start again")

	ada := w.person("Ada", "acme")
	w.get("/exports", ada).want(t, 200, "Stock").without(t, "globex", "Payouts", `name="tenant"`)
	w.get("/exports?tenant=globex", ada).want(t, 200, "No exports match.").without(t, "Payouts")
}

func contains(list []string, one string) bool {
	for _, s := range list {
		if s == one {
			return true
		}
	}
	return false
}

func TestExportsPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	for i := range 2*listRows + 2 {
		w.job("acme", fmt.Sprintf("daily-%02d", i), fmt.Sprintf("Daily %02d", i))
	}
	rows, pages := w.walk("/exports?kind=report&q=daily", who)
	once(t, rows, 2*listRows+2)
	if pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
	second := nextLink.FindStringSubmatch(w.get("/exports", who).body)
	w.get(html.UnescapeString(second[1]), who).want(t, 200, `href="/exports">Newest`)
}
