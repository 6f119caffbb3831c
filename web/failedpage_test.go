package web

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

func (w *world) failed(tenant, key, message string) storage.Job {
	w.t.Helper()
	j := w.job(tenant, key, key)
	must(w.store.EndAttempt(w.ctx, w.begin(j, "w-1").ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: message, Counts: true, Final: true}))(w.t)
	return j
}

// hiddenOf reads the hidden fields of a form that a page asks with.
func hiddenOf(a answer) url.Values {
	form := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`).FindAllStringSubmatch(a.body, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	return form
}

func TestFailedGroupsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	w.get("/failed", who).want(t, 200, "No job has failed").without(t, "Retry all")
	for i := range 3 {
		w.failed("acme", fmt.Sprint("key-", i), fmt.Sprintf("<i>no table 'orders_%d'", i))
	}
	theirs := w.failed("globex", "other", "division by zero")
	page := w.get("/failed", who).want(t, 200, html.EscapeString(`<i>no table "…"`), `<td data-label="Jobs" class="num">3</td>`, "division by zero", "Retry all that match", "/jobs/"+theirs.ID.String())
	page.without(t, "<i>no", "orders_1")
	w.get("/failed?error=ZERO", who).want(t, 200, "division by zero").without(t, "no table")
	w.get("/failed?kind=invoice", who).want(t, 200, "No failed jobs match")
	w.get("/failed?tenant=globex", who).want(t, 200, "division by zero").without(t, "no table")
	group := regexp.MustCompile(`href="(/failed/[0-9a-f-]{36})"><bdi>&lt;i&gt;no`).FindStringSubmatch(page.body)
	if group == nil {
		t.Fatal("the group has no page")
	}
	w.get(group[1], who).want(t, 200, "3 failed", "key-0", "key-2", "orders_2").without(t, "division")
	stranger := w.person("Eve", "globex")
	w.get(group[1], stranger).want(t, 404)
	w.get("/failed", stranger).want(t, 200, "division by zero").without(t, "no table")
	w.get("/failed/none", who).want(t, 404)
	w.retryAsked(t, who, group[1])
}

// retryAsked retries a group that is asked for by its page; what fails meanwhile stays.
func (w *world) retryAsked(t *testing.T, who creds, group string) {
	t.Helper()
	asked := regexp.MustCompile(`href="(/failed/all\?[^"]*do=retry[^"]*)"`).FindStringSubmatch(w.get(group, who).body)
	if asked == nil {
		t.Fatal("the page of the group asks nothing")
	}
	question := w.get(html.UnescapeString(asked[1]), who).want(t, 200, "Retry 3 failed jobs?", "Jobs that fail from now on are not touched")
	later := w.failed("acme", "later", "<i>no table 'late'")
	form := hiddenOf(question)
	w.post("/failed/all", who, url.Values{"do": {"retry"}}).want(t, 422)
	done := w.post("/failed/all", who, form).want(t, 303)
	w.get(done.Header.Get("Location"), who).want(t, 200, "3 jobs were queued again", `<td data-label="Jobs" class="num">1</td>`, later.ID.String())
	if got := must(w.store.Job(w.ctx, principalAll.scope, later.ID))(t); got.State != storage.JobFailed {
		t.Errorf("what failed after the question is %s", got.State)
	}
	forget := hiddenOf(w.get("/failed/all?do=forget&tenant=acme", who).want(t, 200, "Forget 1 failed job?"))
	w.get(w.post("/failed/all", who, forget).want(t, 303).Header.Get("Location"), who).want(t, 200, "1 job was taken off", "division by zero").without(t, "no table")
	w.get("/failed/all?do=erase", who).want(t, 422)
}

func TestFailedGroupsAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.failed("acme", "a", "no row 17")
	w.failed("acme", "b", "no row 18")
	type list struct {
		Items []storage.FailedGroup `json:"items"`
		More  bool                  `json:"more"`
	}
	got := decode[list](t, w.get("/api/v1/failed/groups?kind=report", w.token("acme")).want(t, 200))
	if len(got.Items) != 1 || got.Items[0].Count != 2 || got.Items[0].Pattern != "no row #" || got.Items[0].Samples[1] != j.ID || got.More {
		t.Errorf("the groups are %+v", got)
	}
	w.get("/api/v1/failed/groups", w.token("globex")).want(t, 200, `"items":[]`)
	w.get("/api/v1/failed/groups?batch=x", w.token("")).want(t, 422)
}
