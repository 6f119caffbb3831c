package web

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func TestOverviewEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := w.get("/", w.person("Nadia", "")).want(t, 200,
		"No exports yet", "fenceline dispatch report", `href="/new"`, "Published in the last hour", "Fenced out in the last hour", "Failed in the last hour")
	page.without(t, "<table")
}

func TestOverviewStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	w.fenced("acme", "sales", "بيع <b>أكتوبر</b>")
	running := w.begin(w.job("acme", "stock", "Stock"), "w-9")
	if err := w.store.Heartbeat(w.ctx, running.ID, storage.Progress{Step: "write", Rows: 1234567}); err != nil {
		t.Fatal(err)
	}
	failed := w.begin(w.job("globex", "payouts", "Payouts"), "w-9")
	must(w.store.EndAttempt(w.ctx, failed.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "column “fee” does not exist\nat line 3", Counts: true, Final: true}))(t)
	page := w.get("/", who).want(t, 200, html.EscapeString("بيع <b>أكتوبر</b>"), "writing, 1,234,567 rows so far", "column “fee” does not exist", "w-frozen",
		`Published in the last hour</a></dt><dd class="value ">1<`, `Fenced out in the last hour</a></dt><dd class="value fenced">1<`, `Failed in the last hour</a></dt><dd class="value failed">1<`,
		`Running now</a></dt><dd class="value ">1<`, "Last clean-up", "nothing that waits will begin")
	page.without(t, "<b>أكتوبر</b>", "at line 3", "No exports yet")
	w.get("/", w.person("Ada", "globex")).want(t, 200, `Failed in the last hour</a></dt><dd class="value failed">1<`, `Published in the last hour</a></dt><dd class="value ">0<`).
		without(t, "Stock", "w-frozen", "Last clean-up")
	w.get("/?window=year", who).want(t, 422)
}

// What was counted by the minute is drawn, and told as a table.
func TestOverviewCharts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	w.get("/", who).want(t, 200, "Nothing has ended in this window")
	err := w.store.Exec(w.ctx, `INSERT INTO fenceline.stats_minutes SELECT date_bin('1 minute', now() - interval '3 minutes', '2000-01-01Z'), tenant, n, 0, 3, 1, n, n * 150,
			ARRAY[0, 0, 0, 0, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] FROM (VALUES ('', 1200), ('acme', 700)) x (tenant, n);
		INSERT INTO fenceline.stats_hours SELECT date_bin('1 hour', now() - interval '50 hours', '2000-01-01Z'), '', 5000, 0, 0, 0, 0, 0, ARRAY[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]`)
	if err != nil {
		t.Fatal(err)
	}
	w.get("/", who).want(t, 200, "1,200 published, 0 other jobs done, 3 failed, 1 fenced out", "Jobs ended per minute", `role="img" aria-labelledby="throughput-t throughput-d"`,
		`class="c-published"`, `class="c-fenced"`, "Half of 1,200 jobs waited at most 150 ms", `<td class="num">1,200</td>`, "2,000</span>").without(t, "style=")
	w.get("/?window=day", who).want(t, 200, "Jobs ended per 15 min", "1,200 published", "Failed in the last day")
	w.get("/?window=week", who).want(t, 200, "Jobs ended per hour", "5,000 published", "Failed in the last week")
	w.get("/", w.person("Ada", "acme")).want(t, 200, "700 published")
	w.get("/", w.person("Eve", "globex")).want(t, 200, "Nothing has ended in this window").without(t, "700")
}

// What another tenant has does not exist: in lists, pages, forms, downloads, calls.
func TestTwoTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, _ := w.published("acme", "a", "Sales of acme", "a.csv", "id\n1\n")
	other, theirs := w.published("globex", "g", "Payouts of globex", "g.csv", "id\n1\n")
	queued := w.job("globex", "q", "Waiting of globex")
	person, token := w.person("Ada", "acme"), w.token("acme")

	w.get("/", person).want(t, 200).without(t, "globex")
	w.get("/api/v1/exports", token).want(t, 200, "Sales of acme").without(t, "globex")
	w.get("/api/v1/jobs", token).want(t, 200, mine.ID.String()).without(t, "globex")
	w.get("/api/v1/jobs?export="+other.ExportID.String(), token).want(t, 200, `"items":[]`)

	for _, path := range []string{
		exportPath(other.ExportID), "/jobs/" + other.ID.String(),
		exportPath(other.ExportID) + "/files/g.csv",
		exportPath(other.ExportID) + "/files/g.csv?attempt=" + theirs.ID.String(),
		exportPath(mine.ExportID) + "/files/g.csv?attempt=" + theirs.ID.String(), // through an export of one's own
	} {
		w.get(path, person).want(t, 404).without(t, "globex")
		w.get("/api/v1"+path, token).want(t, 404).without(t, "globex")
	}
	w.post("/jobs/"+queued.ID.String()+"/cancel", person, nil).want(t, 404)
	w.call("/api/v1/jobs/"+queued.ID.String()+"/cancel", token, "").want(t, 404)
	if got := must(w.store.Job(w.ctx, storage.Scope{All: true}, queued.ID))(t); got.State != storage.JobQueued {
		t.Errorf("another tenant made the job %s", got.State)
	}
	w.get("/cleanup", person).want(t, 404)
	w.get("/", person).without(t, "/cleanup")
	w.get("/cleanup", w.person("Root", "")).want(t, 200)
}

func TestExportPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	j, stale, current := w.fenced("acme", "sales?a=b&c=d", "Sales “October”")
	page := w.get(exportPath(j.ExportID), who).want(t, 200,
		"Sales “October”", "second.csv", "/files/second.csv?attempt="+current.ID.String(), "w-frozen", "w-second",
		fmt.Sprintf("Attempt %d was fenced out at", stale.Token), fmt.Sprintf("Attempt %d took over at", current.Token),
		"without a heartbeat from worker", fmt.Sprintf("Nothing from attempt %d was published", stale.Token), "due for clean-up",
		fmt.Sprintf("%d &lt; %d, refused by the database", stale.Token, current.Token), `class="fence wide"`, `class="fence narrow"`,
		fmt.Sprintf("token <b class=\"mono\">%d</b>", current.Token), "No warnings", "data as of", "/jobs/"+j.ID.String(), "2 attempts")
	page.without(t, "first.csv", "style=", "onclick=")
	sum := w.currentFile(j.ExportID)
	page.want(t, 200, `title="`+sum.SHA256.String()+`"`, `data-copy="`+sum.SHA256.String()+`"`)

	sweep := storage.NewSweep(w.store, w.files, storage.SweepOptions{Worker: "sweeper"})
	if res := must(sweep.Run(w.ctx))(t); res.Deleted != 1 {
		t.Fatalf("the clean-up deleted %d attempts, want 1", res.Deleted)
	}
	w.get(exportPath(j.ExportID), who).want(t, 200, "cleaned up at", "files swept", `class="chip fenced">fenced`).without(t, "due for clean-up")
	w.get("/cleanup", who).want(t, 200, "sweeper", "done")
}

func (w *world) currentFile(export uuid.UUID) storage.File {
	w.t.Helper()
	e := must(w.store.Export(w.ctx, storage.Scope{All: true}, export))(w.t)
	list := must(w.store.Files(w.ctx, *e.AttemptID))(w.t)
	return list[0]
}

func TestExportPageWithoutFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	j := w.job("acme", "k", "Nothing yet")
	w.get(exportPath(j.ExportID), who).want(t, 200, "No file yet", "No attempt yet", "Its job", "waiting for a worker").without(t, "<svg class=\"fence", "took over")
	w.begin(j, "w-1")
	w.get(exportPath(j.ExportID), who).want(t, 200, `<svg class="fence wide"`, "at work", "reading").without(t, "published token: what")
	for _, id := range []string{"x", uuid.NewString(), strings.ToUpper(j.ExportID.String())} {
		w.get("/exports/"+id, who).want(t, 404)
	}
}

func TestJobPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	j := w.job("acme", "k", "Sales")
	path := "/jobs/" + j.ID.String()
	w.get(path, who).want(t, 200, "It waits for a worker", "Cancel this job", "The job will not run", "fenceline dispatch report orders --param from=2026-01-01 --format csv --tenant acme --max-attempts 2 --wait",
		"curl "+w.base+"/api/v1/jobs", "&#34;from&#34;: &#34;2026-01-01&#34;")
	b := w.begin(j, "w-1")
	expected := int64(2000)
	if err := w.store.Heartbeat(w.ctx, b.ID, storage.Progress{Step: "write", Rows: 500, Expected: &expected}); err != nil {
		t.Fatal(err)
	}
	w.get(path, who).want(t, 200, "writing, 500 of about 2,000 rows", "<output>30 %</output>", "can no longer be published")
	w.seal(j, b, "sales.csv", "id\n1\n")
	w.get(path, who).want(t, 200, fmt.Sprintf("<output>%d %%</output>", atPublish))
	w.publish(b)
	w.get(path, who).want(t, 200, "<output>100 %</output>", "/files/sales.csv?attempt="+b.ID.String()).without(t, "Cancel this job")
}

func TestJobPageOfAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	j := w.job("acme", "k", "Sales")
	for _, final := range []bool{false, true} {
		b := w.begin(j, "w-1")
		must(w.store.EndAttempt(w.ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "panic: <oh>\n\nstack of it", Counts: true, Final: final}))(t)
		page := w.get("/jobs/"+j.ID.String(), who).want(t, 200, "panic: &lt;oh&gt;", "stack of it", "Whole message", `class="chip failed">failed`)
		if !final {
			page.want(t, 200, "The last attempt failed. It is tried again", "1 of 2 failures used")
		}
	}
	w.post("/jobs/"+j.ID.String()+"/cancel", who, nil).want(t, 303) // it has ended and stays failed
	w.get("/jobs/"+j.ID.String(), who).want(t, 200, "2 of 2 failures used")
}

func TestCancelForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	queued, running := w.job("acme", "q", "Q"), w.job("acme", "r", "R")
	b := w.begin(running, "w-1")
	if to := w.post("/jobs/"+queued.ID.String()+"/cancel", who, nil).want(t, 303).Header.Get("Location"); to != "/jobs/"+queued.ID.String() {
		t.Errorf("cancelling leads to %s", to)
	}
	w.get("/jobs/"+queued.ID.String(), who).want(t, 200, "It was cancelled").without(t, "Cancel this job")
	w.post("/jobs/"+running.ID.String()+"/cancel", who, nil).want(t, 303)
	w.get("/jobs/"+running.ID.String(), who).want(t, 200, "the worker has been told and has to confirm").without(t, "Cancel this job")
	must(w.store.EndAttempt(w.ctx, b.ID, storage.Ending{State: storage.AttemptCancelled, Reason: "cancelled"}))(t)
	w.get("/jobs/"+running.ID.String(), who).want(t, 200, "It was cancelled", "the job was cancelled")
}

var nonceField = regexp.MustCompile(`name="nonce" value="([^"]+)"`)

func TestNewExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	w.get("/new", who).want(t, 200, "Orders", "Every order.", `href="/new/orders"`, "broken.sql:1", "titel").without(t, `href="/new/broken"`)
	w.get("/new/broken", who).want(t, 422, "broken.sql:1")
	w.get("/new/nothing", who).want(t, 404)
	form := w.get("/new/orders", who).want(t, 200, "First day", `type="date"`, "Only this status", `<option value="paid">`, `value="0"`, `name="tenant"`)
	nonce := nonceField.FindStringSubmatch(form.body)
	if nonce == nil {
		t.Fatal("the form has no nonce")
	}
	given := url.Values{"nonce": {nonce[1]}, "tenant": {"no tenant!"}, "p.from": {"tomorrow"}, "p.status": {"lost"}, "p.least": {"12.50"}}
	bad := w.post("/new/orders", who, given).want(t, 422, "Nothing was started", `value="tomorrow"`, `value="12.50"`, `value="no tenant!"`, `aria-invalid="true"`, nonce[1],
		`id="p.from-problem"`, "“tomorrow” is not a date", "“lost” is not one of new, paid")
	bad.without(t, `id="p.least-problem"`)
	given.Set("p.from", "2026-01-01")
	given.Set("p.status", "")
	w.post("/new/orders", who, given).want(t, 422, `id="tenant-problem"`)

	given.Set("c.zone", "Europe/Belin")
	given["c.formats"] = []string{"csv", "docx"}
	w.post("/new/orders", who, given).want(t, 422, `id="c.zone-problem"`, "Europe/Berlin", "“docx” is no format", "<details open>")
	given.Set("c.zone", "Europe/Berlin")
	given["c.formats"] = []string{"csv", "xlsx"}

	given.Set("tenant", "acme")
	w.post("/new/orders/preview", who, given).want(t, 200, "The only row", `title="integer">id</th>`, `value="2026-01-01"`, nonce[1], `value="xlsx" checked`)
	w.post("/new/orders/preview", who, url.Values{"tenant": {"acme"}}).want(t, 422, `id="p.from-problem"`).without(t, `id="preview"`)
	first := w.post("/new/orders", who, given).want(t, 303).Header.Get("Location")
	w.get(first, who).want(t, 200, "Orders", "Nadia", "acme", "--param from=2026-01-01", "--param least=12.50", "--format csv,xlsx", "--zone Europe/Berlin").without(t, "You asked for this before", "status=")
	again := w.post("/new/orders", who, given).want(t, 303).Header.Get("Location")
	if again != first+"?reused=1" {
		t.Errorf("the same form sent twice leads to %s and %s", first, again)
	}
	given.Set("nonce", uuid.NewString()) // of a form that was opened anew
	if anew := w.post("/new/orders", who, given).want(t, 303).Header.Get("Location"); anew != first+"?reused=1" {
		t.Errorf("the same asked for in another form went to %s, the first to %s", anew, first)
	}
	w.get(again, who).want(t, 200, "You asked for this before")
	given.Set("p.from", "2026-01-02")
	if changed := w.post("/new/orders", who, given).want(t, 303).Header.Get("Location"); strings.HasPrefix(changed, first) {
		t.Error("other values in the same form are the same job")
	}
}

func TestNewExportOfATenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Ada", "acme")
	w.get("/new", who).want(t, 200, `href="/new/orders"`).without(t, `href="/new/house"`)
	w.get("/new/orders", who).want(t, 200).without(t, `name="tenant"`)
	w.get("/new/house", who).want(t, 404)
	w.post("/new/house", who, url.Values{}).want(t, 404)
	w.post("/new/house/preview", who, url.Values{}).want(t, 404).without(t, `id="preview"`)
	w.post("/new/orders/preview", who, url.Values{"p.from": {"2026-01-01"}, "tenant": {"globex"}}).want(t, 403)
	to := w.post("/new/orders", who, url.Values{"p.from": {"2026-01-01"}}).want(t, 303).Header.Get("Location")
	w.get(to, who).want(t, 200, "acme")
	w.post("/new/orders", who, url.Values{"p.from": {"2026-01-01"}, "tenant": {"globex"}}).want(t, 403)
}

// The script asks for the middle of a page only.
func TestFragment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	got := w.get("/", who, fragmentHeader, "1").want(t, 200, "data-live")
	got.without(t, "<html", `class="nav"`, "<script")
	if got.Header.Get("Vary") != fragmentHeader {
		t.Errorf("Vary is %q", got.Header.Get("Vary"))
	}
}

func TestFormTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.post("/new/orders", w.person("Nadia", ""), url.Values{"p.from": {strings.Repeat("x", maxForm)}}).want(t, 413)
}

func TestTilesFollowTheWindow(t *testing.T) {
	t.Parallel()
	now := time.Now()
	oldest := now.Add(-4 * time.Second)
	for _, name := range []string{"hour", "day", "week"} {
		_, chosen, err := chooseWindow(name)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(overviewTiles(chosen, storage.Overview{Running: 3, Waiting: storage.CountCap + 1, OldestWait: &oldest, Tail: storage.Stat{Fenced: 2}}, storage.Stat{Fenced: 40}, now))
		for _, want := range []string{"10,000+", "the oldest for 4 s", "Fenced out in the last " + name + " 42"} {
			if !strings.Contains(text, want) {
				t.Errorf("the tiles lack %q: %s", want, text)
			}
		}
	}
}

// A job outlives its export; what it made cannot be had any more.
func TestJobOfADeletedExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	j, _ := w.published("acme", "k", "Sales", "sales.csv", "id\n1\n")
	w.get("/jobs/"+j.ID.String(), who).want(t, 200, "Its export", "Download")
	if err := w.store.DeleteExport(w.ctx, principalAll.scope, j.ExportID); err != nil {
		t.Fatal(err)
	}
	w.get("/jobs/"+j.ID.String(), who).want(t, 200, "Its export was deleted").without(t, "Download", exportPath(j.ExportID), "data-events")
	w.get(exportPath(j.ExportID)+"/files/sales.csv", who).want(t, 404)
	w.get("/", who).want(t, 200).without(t, exportPath(j.ExportID))
}
