package web

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

// batch asks for so many plain jobs at once and answers the path of its page.
func (w *world) batch(who creds, tenant string, n int, more string) string {
	w.t.Helper()
	list := strings.TrimSuffix(strings.Repeat(`{"kind":"note","payload":{"text":"x"}},`, n), ",")
	made := w.call("/api/v1/batches", who, `{"tenant":"`+tenant+`","title":"Run of `+tenant+` <b>","jobs":[`+list+`]`+more+`}`).want(w.t, 202)
	return strings.TrimPrefix(made.Header.Get("Location"), "/api/v1")
}

// move takes so many waiting jobs of a batch to another state, through those between.
func (w *world) move(batch string, n int, state storage.JobState) {
	w.t.Helper()
	id := batch[strings.LastIndex(batch, "/")+1:]
	const some = " WHERE id IN (SELECT id FROM fenceline.jobs WHERE batch_id = ?::uuid AND state = ? ORDER BY id LIMIT ?)"
	if state != storage.JobCancelled {
		w.exec("UPDATE fenceline.jobs SET state = 'running', run_id = gen_random_uuid(), worker_id = gen_random_uuid(), ready_at = NULL"+some, id, "queued", n)
		if state == storage.JobRunning {
			return
		}
		w.exec("UPDATE fenceline.jobs SET state = ?, finished_at = CASE WHEN ? <> 'cancelling' THEN now() END, error = CASE WHEN ? = 'failed' THEN 'no luck' END"+some, string(state), string(state), string(state), id, "running", n)
		return
	}
	w.exec("UPDATE fenceline.jobs SET state = 'cancelled', finished_at = now(), ready_at = NULL"+some, id, "queued", n)
}

var (
	partCount  = regexp.MustCompile(`<b class="count">([0-9,]+)</b>`)
	totalCount = regexp.MustCompile(`<b class="total">([0-9,]+)</b>`)
)

// The states part the total: no job is counted twice, none is left out (laravel/horizon#1063).
func TestBatchPageParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, api := w.person("Nadia", ""), w.token("")
	path := w.batch(api, "acme", 15, "")
	w.move(path, 5, storage.JobDone)
	w.move(path, 2, storage.JobFailed)
	w.move(path, 1, storage.JobCancelling)
	w.move(path, 3, storage.JobCancelled)
	w.move(path, 1, storage.JobRunning) // after the others: they begin with those that run
	page := w.get(path, who).want(t, 200, "Run of acme &lt;b&gt;", ">failed</span> <b class=\"count\">2</b>", ">waiting</span> <b class=\"count\">3</b>", ">done</span> <b class=\"count\">5</b>",
		">cancelled</span> <b class=\"count\">3</b>", ">cancelling</span> <b class=\"count\">1</b>", "no luck", "Why they failed", ">66 %</output>")
	page.without(t, "Run of acme <b>", "ZIP")
	sum := 0
	for _, m := range partCount.FindAllStringSubmatch(page.body, -1) {
		n, _ := strconv.Atoi(m[1])
		sum += n
	}
	if total := totalCount.FindStringSubmatch(page.body); total[1] != "15" || sum != 15 {
		t.Errorf("the parts are %d, the total %s, want 15 both", sum, total[1])
	}
	w.get("/batches", who).want(t, 200, "5 done, 1 running, 1 cancelling, 3 waiting, 2 failed, 3 cancelled", path)
	w.get(path+"?state=failed", who).want(t, 200, "only failed").without(t, `class="chip queued">waiting</span></td>`)
	w.get(path+"?state=x", who).want(t, 422, "is no state of jobs")
	w.get(path+"?after=x", who).want(t, 400, "Start again")
	w.get("/batches?state=x", who).want(t, 422, "is no state of batches")
	w.get("/batches?after=x", who).want(t, 400, "Start again")
}

func TestBatchActions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	api, op := w.token(""), w.personAs("Omar", "acme", storage.RoleOperator)
	path := w.batch(api, "acme", 4, `,"finally":`+noteBody+`,"catch":`+noteBody)
	w.move(path, 2, storage.JobFailed)
	w.get(path, op).want(t, 200, "Retry 2 jobs", "Cancel 2 jobs", "<b>catch</b>, when the first has failed", "<b>finally</b>", "not called yet").without(t, "<b>then</b>")
	w.post(path+"/retry", op, nil).want(t, 303)
	w.get(path, op).want(t, 200, `>waiting</span> <b class="count">4</b>`).without(t, "Retry 2 jobs")
	w.post(path+"/cancel", op, nil).want(t, 303)
	w.get(path, op).want(t, 200, `>cancelled</span> <b class="count">4</b>`, "Cancelled at").without(t, "Cancel 4 jobs")
	w.post(path+"/zip", op, nil).want(t, 422) // what is not whole is not packed

	vera := w.personAs("Vera", "acme", storage.RoleRequester)
	again := w.batch(api, "acme", 2, "")
	w.get(again, vera).want(t, 200).without(t, again+"/cancel", again+"/retry")
	w.post(again+"/cancel", vera, nil).want(t, 403)
	other := w.personAs("Gina", "globex", storage.RoleAdmin)
	for _, do := range []string{"/cancel", "/retry", "/zip"} {
		w.post(again+do, other, nil).want(t, 404)
	}
	w.get(again, other).want(t, 404)
	w.get("/batches", other).want(t, 200, "No batches yet.").without(t, "acme")
	w.get("/batches?tenant=acme", other).want(t, 200, "No batches match.").without(t, again)
	w.get(again, op).want(t, 200, `>waiting</span> <b class="count">2</b>`)
}

func TestBatchesPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, api := w.person("Nadia", ""), w.token("")
	for range 2*listRows + 1 {
		w.batch(api, "acme", 1, "")
	}
	rows, pages := w.walk("/batches?state=open", who)
	once(t, rows, 2*listRows+1)
	if pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
	jobs, pages := w.walk(w.batch(api, "acme", 2*listRows+1, ""), who)
	once(t, jobs, 2*listRows+1)
	if pages != 3 {
		t.Errorf("%d pages of jobs, want 3", pages)
	}
}

// A whole batch that has published files can be packed, once however often it is asked for.
func TestBatchZIP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, api := w.person("Nadia", ""), w.token("")
	path := w.batch(api, "acme", 1, "")
	w.move(path, 1, storage.JobDone)
	w.get(path, who).want(t, 200).without(t, "ZIP") // it has published nothing
	j, _ := w.published("acme", "k", "Invoice 7", "7.pdf", "x\n")
	w.exec("UPDATE fenceline.jobs SET batch_id = ?::uuid WHERE id = ?", strings.TrimPrefix(path, "/batches/"), j.ID)
	w.get(path, who).want(t, 200, "Pack as ZIP")
	job := w.post(path+"/zip", who, nil).want(t, 303).Header.Get("Location")
	if again := w.post(path+"/zip", who, nil).want(t, 303).Header.Get("Location"); again != job {
		t.Errorf("clicking twice made %s and %s", job, again)
	}
	w.get(path, who).want(t, 200, "ZIP, not ready yet")
}
