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

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if err := w.store.Transaction(w.ctx, func(tx storage.Tx) error { return tx.Exec(sql, args...).Error }); err != nil {
		w.t.Fatal(err)
	}
}

var (
	nextLink = regexp.MustCompile(`href="([^"]+)" rel="next"`)
	leadLink = regexp.MustCompile(`<td class="lead"><a href="([^"]+)"`)
)

// walk goes from page to page and answers the links of all rows.
func (w *world) walk(path string, who creds) (rows []string, pages int) {
	w.t.Helper()
	for ; path != "" && pages < 20; pages++ {
		body := w.get(path, who).want(w.t, 200).body
		for _, m := range leadLink.FindAllStringSubmatch(body, -1) {
			rows = append(rows, m[1])
		}
		next := nextLink.FindStringSubmatch(body)
		if path = ""; next != nil {
			path = html.UnescapeString(next[1])
		}
	}
	return rows, pages
}

// once fails the test unless all rows differ.
func once(t *testing.T, rows []string, want int) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r] {
			t.Errorf("%s comes twice", r)
		}
		seen[r] = true
	}
	if len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
}

func TestJobsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, api := w.person("Nadia", ""), w.token("")
	w.get("/jobs", who).want(t, 200, "No jobs yet.", `href="/new"`, "fenceline dispatch report").without(t, "<table")
	for i := range 2*listRows + 3 {
		w.job("acme", fmt.Sprintf("k-%d", i), fmt.Sprintf("Daily %d", i))
	}
	rows, pages := w.walk("/jobs", who)
	once(t, rows, 2*listRows+3)
	if pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
	failed := w.failedNote(api, "acme", `,"queue":"mail","tags":["nightly","<b>"]`)
	failedPath := "/jobs/" + failed.ID.String()
	for _, query := range []string{"state=failed", "kind=note", "queue=mail", "tag=nightly", "by=token+test", "tag=%3Cb%3E"} {
		page := w.get("/jobs?"+query, who).want(t, 200, failedPath, "no luck", `class="chip failed"`, "&lt;b&gt;")
		page.without(t, "Daily", "<b>")
	}
	w.get("/jobs?state=queued&tag=nightly", who).want(t, 200, "No jobs match.", `href="/jobs">Show all jobs`)
	w.get("/jobs?batch="+uuid.NewString(), who).want(t, 200, "No jobs match.")
	w.get("/jobs?state=queued&after="+uuid.Nil.String(), who).want(t, 200, "No older jobs.", `href="/jobs?state=queued">Back to the newest`)
	w.get("/jobs?state=asleep", who).want(t, 422, "is no state of jobs")
	w.get("/jobs?batch=x", who).want(t, 422, "is not an id")
	w.get("/jobs?after=rubbish", who).want(t, 400, "Start again")
	w.get("/jobs?kind=%00", who).want(t, 422)
}

// Times are shown with their zone and UTC on hover (laravel/horizon#562).
func TestJobsPageTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.job("acme", "k", "Daily")
	at := must(w.store.Job(w.ctx, principalAll.scope, j.ID))(t).CreatedAt.UTC()
	w.get("/jobs", w.person("Nadia", "")).want(t, 200, "times in <span data-zone>UTC</span>", `title="`+at.Format(time.DateTime)+` UTC"`)
}

func TestJobsOfTwoTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	api := w.token("")
	mine, theirs := w.job("acme", "a", "Sales of acme"), w.job("globex", "g", "Payouts of globex")
	w.failedNote(api, "globex", `,"tags":["x"]`)
	ada := w.personAs("Ada", "acme", storage.RoleOperator)
	w.get("/jobs", ada).want(t, 200, "Sales of acme").without(t, "globex", `name="tenant"`)
	w.get("/jobs?tenant=globex", ada).want(t, 200, "No jobs match").without(t, "Payouts")
	w.get("/jobs/bulk?do=cancel&tenant=globex", ada).want(t, 200, "No job to cancel")
	w.get("/jobs/bulk?do=retry&tenant=globex", ada).want(t, 200, "No job to retry")
	upto := url.Values{"do": {"cancel"}, "upto": {uuid.Max.String()}}
	w.post("/jobs/bulk", ada, upto).want(t, 303)
	w.post("/jobs/bulk", ada, url.Values{"do": {"retry"}, "upto": {uuid.Max.String()}, "tenant": {"globex"}}).want(t, 303)
	if got := must(w.store.Job(w.ctx, principalAll.scope, theirs.ID))(t); got.State != storage.JobQueued {
		t.Errorf("another tenant made the job %s", got.State)
	}
	if got := must(w.store.Job(w.ctx, principalAll.scope, mine.ID))(t); got.State != storage.JobCancelled {
		t.Errorf("one's own job is %s", got.State)
	}
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)

// hidden are the fields that a page hands on.
func hidden(a answer) url.Values {
	form := url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(a.body, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	return form
}

// What all that match means is said with a count before, and holds for all of them
// (riverqueue/riverui#590); what runs is cancelling until its worker confirms
// (389ds/389-ds-base#6552).
func TestJobsInBulk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root, api := w.person("Root", ""), w.token("")
	list := strings.TrimSuffix(strings.Repeat(`{"kind":"note","tenant":"acme","queue":"wrong","payload":{"text":"hi"}},`, 2300), ",")
	w.call("/api/v1/jobs/bulk", api, `{"jobs":[`+list+`]}`).want(t, 202)
	running := w.job("acme", "k", "Running")
	attempt := w.begin(running, "w-1")
	right := w.note(api, "acme", `,"queue":"right"`)

	w.get("/jobs?queue=wrong", root).want(t, 200, "/jobs/bulk?do=cancel&amp;queue=wrong")
	ask := w.get("/jobs/bulk?do=cancel&queue=wrong", root).want(t, 200, "Cancel 2,300 jobs?", "wrong", `href="/jobs?queue=wrong"`)
	done := w.post("/jobs/bulk", root, hidden(ask)).want(t, 303)
	to := done.Header.Get("Location")
	w.get(to, root).want(t, 200, "2,300 jobs were cancelled", `class="chip cancelled"`).without(t, `class="chip queued"`)
	again := w.post("/jobs/bulk", root, hidden(ask)).want(t, 303) // an impatient second click
	w.get(again.Header.Get("Location"), root).want(t, 200, "0 jobs were cancelled")
	if got := must(w.store.Job(w.ctx, principalAll.scope, right.ID))(t); got.State != storage.JobQueued {
		t.Errorf("a job that did not match is %s", got.State)
	}

	ask = w.get("/jobs/bulk?do=cancel&state=running", root).want(t, 200, "Cancel 1 job?")
	w.post("/jobs/bulk", root, hidden(ask)).want(t, 303)
	w.get("/jobs?state=cancelling", root).want(t, 200, running.ID.String(), ">cancelling</span>")
	w.seal(running, attempt, "late.csv", "id\n1\n")
	if err := w.store.Publish(w.ctx, attempt.ID); err == nil {
		t.Error("a cancelled job has published")
	}
	w.get("/jobs?state=cancelled&kind=report", root).want(t, 200, running.ID.String())
}

func TestRetryInBulk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root, api := w.person("Root", ""), w.token("")
	j := w.failedNote(api, "acme", "")
	w.get("/jobs?state=failed", root).want(t, 200, "/jobs/bulk?do=retry&amp;state=failed").without(t, "do=cancel")
	ask := w.get("/jobs/bulk?do=retry&state=failed", root).want(t, 200, "Retry 1 job?")
	w.post("/jobs/bulk", root, hidden(ask)).want(t, 303)
	if got := must(w.store.Job(w.ctx, principalAll.scope, j.ID))(t); got.State != storage.JobQueued {
		t.Errorf("the job is %s", got.State)
	}
	w.post("/jobs/bulk", root, url.Values{"do": {"retry"}}).want(t, 422, "look at the jobs again")
	w.post("/jobs/bulk", root, url.Values{"do": {"burn"}}).want(t, 422, "must be cancel or retry")
	for _, role := range []storage.Role{storage.RoleViewer, storage.RoleRequester} {
		who := w.personAs("Vera "+string(role), "", role)
		w.get("/jobs", who).want(t, 200, j.ID.String()).without(t, "/jobs/bulk")
		w.get("/jobs/bulk?do=cancel", who).want(t, 403)
		w.post("/jobs/bulk", who, url.Values{"do": {"cancel"}, "upto": {uuid.Max.String()}}).want(t, 403)
	}
	if got := must(w.store.Job(w.ctx, principalAll.scope, j.ID))(t); got.State != storage.JobQueued {
		t.Errorf("somebody who may not has made the job %s", got.State)
	}
}
