package web

import (
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

func scheduleForm(name string, change ...string) url.Values {
	form := url.Values{"name": {name}, "tenant": {"acme"}, "kind": {"note"}, "payload": {`{"text":"hi <b>"}`}, "cron": {"30 2 * * *"}, "zone": {"Europe/Berlin"}, "missed": {"once"}, "overlap": {"yes"}}
	for i := 0; i+1 < len(change); i += 2 {
		form.Set(change[i], change[i+1])
	}
	return form
}

func TestSchedulePages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.personAs("Omar", "", storage.RoleOperator)
	w.get("/schedules", who).want(t, 200, "No schedules yet.", `href="/schedules/-/new"`, "fenceline schedule put").without(t, "<table")
	w.get("/schedules/-/new", who).want(t, 200, `name="cron"`, `<option value="note">`)

	// Each name has its page, also one that could be taken for a form.
	for _, name := range []string{"new", "edit", "a..b"} {
		to := w.post("/schedules/-/new", who, scheduleForm(name)).want(t, 303).Header.Get("Location")
		if to != "/schedules/"+name {
			t.Fatalf("saving leads to %s", to)
		}
		w.get(to, who).want(t, 200, "<title>Schedule: "+name, "of tenant <bdi>acme</bdi>", "Europe/Berlin", "Omar", "hi &lt;b&gt;", "02:30 CE", "It has not come yet.", to+"/edit", to+"/delete")
	}
	w.get("/schedules", who).want(t, 200, "/schedules/new", "30 2 * * *", "02:30 CE", "none yet")
	w.get("/schedules/nothing", who).want(t, 404)

	w.post("/schedules/new/pause", who, nil).want(t, 303)
	w.get("/schedules/new", who).want(t, 200, ">paused</span>", "Not while it is paused.", "/schedules/new/resume").without(t, "/schedules/new/pause")
	w.post("/schedules/new/resume", who, nil).want(t, 303)
	job := w.post("/schedules/new/run", who, nil).want(t, 303).Header.Get("Location")
	w.get(job, who).want(t, 200, "note")
	w.get("/schedules/new", who).want(t, 200, job, "by hand, <bdi>Omar</bdi>", `class="chip queued">waiting`)
	w.get("/schedules", who).want(t, 200, job)

	w.get("/schedules/new/edit", who).want(t, 200, `value="30 2 * * *"`, "The next times").without(t, `name="name"`)
	w.post("/schedules/new/edit", who, scheduleForm("ignored", "cron", "15 4 * * *")).want(t, 303)
	w.get("/schedules/new", who).want(t, 200, "15 4 * * *")
	w.get("/schedules/ignored", who).want(t, 404)
	w.post("/schedules/nothing/edit", who, scheduleForm("nothing")).want(t, 404)

	w.post("/schedules/new/delete", who, nil).want(t, 303)
	w.get("/schedules/new", who).want(t, 404)
}

// The next five times are shown before anything is kept, at clock changes too.
func TestSchedulePreview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.personAs("Omar", "", storage.RoleOperator)
	page := w.post("/schedules/-/preview", who, scheduleForm("x", "cron", "0 12 25 12 *", "zone", "Asia/Dhaka")).want(t, 200, "25 Dec", "12:00 &#43;06", `value="0 12 25 12 *"`, "hi &lt;b&gt;")
	if n := strings.Count(page.body, "12:00 &#43;06"); n != 5 {
		t.Errorf("%d times are shown, want 5", n)
	}
	w.post("/schedules/-/preview", who, scheduleForm("x", "cron", "0 0 31 2 *")).want(t, 422, "never comes")
	w.post("/schedules/-/preview", who, scheduleForm("x", "cron", "every day", "zone", "Mars/Base")).want(t, 422, `id="cron-problem"`, `id="zone-problem"`)
	w.get("/schedules", who).want(t, 200, "No schedules yet.")
	for change, want := range map[string]string{
		"name=a b": `id="name-problem"`, "kind=nope": `id="kind-problem"`, "payload={": `id="payload-problem"`, "payload={\"txt\":1}": `id="payload-problem"`, "options=x": `id="options-problem"`,
		`options={"queue":"a b"}`: `id="options-problem"`, "missed=never": `id="missed-problem"`, "cron=": `id="cron-problem"`, "tenant=a b": `id="tenant-problem"`,
	} {
		field, value, _ := strings.Cut(change, "=")
		w.post("/schedules/-/new", who, scheduleForm("x", field, value)).want(t, 422, "Nothing was saved.", want)
	}
	w.post("/schedules/-/new", who, scheduleForm("x")).want(t, 303)
	w.post("/schedules/-/new", who, scheduleForm("x", "cron", "1 1 1 1 *")).want(t, 422, `id="name-problem"`, "is taken")
	w.get("/schedules/x", who).want(t, 200, "30 2 * * *")
}

func TestSchedulesOfTwoTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	op, ada := w.personAs("Omar", "", storage.RoleOperator), w.personAs("Ada", "globex", storage.RoleOperator)
	w.post("/schedules/-/new", op, scheduleForm("payday")).want(t, 303)
	w.get("/schedules", ada).want(t, 200, "No schedules yet.").without(t, "payday")
	w.get("/schedules/payday", ada).want(t, 404)
	w.get("/schedules/payday/edit", ada).want(t, 404)
	for _, do := range []string{"edit", "pause", "resume", "run", "delete"} {
		form := scheduleForm("payday")
		form.Del("tenant")
		w.post("/schedules/payday/"+do, ada, form).want(t, 404)
	}
	w.post("/schedules/-/new", ada, scheduleForm("mine")).want(t, 403) // for another tenant
	form := scheduleForm("payday")
	form.Del("tenant")
	w.post("/schedules/-/new", ada, form).want(t, 409, "The name is taken")
	if got := must(w.store.Schedule(w.ctx, principalAll.scope, "payday"))(t); got.Tenant != "acme" || got.PausedAt != nil {
		t.Errorf("the schedule is %+v", got)
	}
	viewer := w.personAs("Vera", "", storage.RoleViewer)
	w.get("/schedules/payday", viewer).want(t, 200).without(t, "/schedules/payday/")
	w.get("/schedules", viewer).without(t, "/schedules/-/new")
	w.get("/schedules/-/new", viewer).want(t, 403)
	for _, do := range []string{"edit", "pause", "run", "delete"} {
		w.post("/schedules/payday/"+do, viewer, nil).want(t, 403)
	}
}

func TestScheduleFromAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.personAs("Omar", "", storage.RoleOperator)
	w.post("/schedules/-/new", who, scheduleForm("payday")).want(t, 303)
	w.exec("UPDATE fenceline.schedules SET source = 'file' WHERE name = 'payday'")
	w.get("/schedules", who).want(t, 200, "from the file")
	w.get("/schedules/payday", who).want(t, 200, "change it there", "/schedules/payday/pause").without(t, "/payday/edit", "/payday/delete")
	w.get("/schedules/payday/edit", who).want(t, 409, "comes from a file")
	w.post("/schedules/payday/edit", who, scheduleForm("payday", "cron", "1 1 * * *")).want(t, 409)
	w.post("/schedules/payday/delete", who, nil).want(t, 409)
}

func TestSchedulesManyPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.personAs("Omar", "", storage.RoleOperator)
	for i := range 2*listRows + 1 {
		w.post("/schedules/-/new", who, scheduleForm(fmt.Sprintf("s-%02d", i))).want(t, 303)
	}
	rows, pages := w.walk("/schedules", who)
	once(t, rows, 2*listRows+1)
	if pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
	w.exec(`INSERT INTO fenceline.schedule_runs (schedule, tenant, fire_key, fire_at, outcome, reason)
		SELECT 's-00', 'acme', i::text, now() - make_interval(days => i), 'skipped', 'reason ' || i FROM generate_series(1, ?::int) i`, 2*listRows+1)
	first := w.get("/schedules/s-00", who).want(t, 200, ">skipped</span>", "reason 51", "reason 27")
	first.without(t, "reason 26<")
	next := html.UnescapeString(nextLink.FindStringSubmatch(first.body)[1])
	next = html.UnescapeString(nextLink.FindStringSubmatch(w.get(next, who).want(t, 200, "reason 26<").body)[1])
	w.get(next, who).want(t, 200, "reason 1<", `href="/schedules/s-00">Newest`).without(t, `rel="next"`)
	w.get("/schedules/s-00?after=x", who).want(t, 400, "Start again")
}

// An impatient second click on "Run it now" is the run of the first; a page that is opened again runs it again.
func TestRunNowClickedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, api := w.personAs("Omar", "acme", storage.RoleOperator), w.token("acme")
	w.post("/schedules/-/new", who, scheduleForm("night")).want(t, 303)
	click := func() url.Values {
		nonce := nonceField.FindStringSubmatch(w.get("/schedules/night", who).want(t, 200).body)
		if nonce == nil {
			t.Fatal("the form has no nonce")
		}
		return url.Values{"nonce": {nonce[1]}}
	}
	form := click()
	first := w.post("/schedules/night/run", who, form).want(t, 303).Header.Get("Location")
	if again := w.post("/schedules/night/run", who, form).want(t, 303).Header.Get("Location"); again != first {
		t.Errorf("the second click made %s, after %s", again, first)
	}
	if other := w.post("/schedules/night/run", who, click()).want(t, 303).Header.Get("Location"); other == first {
		t.Error("a new form is taken for the first one")
	}
	one := w.call("/api/v1/schedules/night/run", api, "", "Idempotency-Key", "k").want(t, 202)
	two := w.call("/api/v1/schedules/night/run", api, "", "Idempotency-Key", "k").want(t, 202)
	if one.Header.Get("Location") != two.Header.Get("Location") {
		t.Errorf("the key made %s and %s", one.Header.Get("Location"), two.Header.Get("Location"))
	}
	entries := must(w.store.AuditLog(w.ctx, storage.Scope{All: true}, storage.AuditFilter{Action: auditScheduleRun}))(t)
	if len(entries.Items) != 3 {
		t.Errorf("%d runs are in the audit log, want 3", len(entries.Items))
	}
}
