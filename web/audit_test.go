package web

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// entries are what the audit log holds of an action.
func (w *world) entries(action string) []storage.AuditEntry {
	w.t.Helper()
	page, err := w.store.AuditLog(w.ctx, storage.Scope{All: true}, storage.AuditFilter{Action: action})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Items
}

// Whatever changes something or lets data out is in the log, once, with who it was.
func TestDeedsAreAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	person, token := w.person("Nadia", ""), w.token("acme")
	j, _ := w.published("acme", "k", "K", "a.csv", "id\n1\n")
	waiting, other := w.job("acme", "w", "W"), w.job("acme", "v", "V")
	failed := w.failedNote(token, "acme", "").ID
	for _, c := range []struct {
		do     func() answer
		status int
		action string
		id     string // of the object, unless empty
		actor  string
		tenant string
	}{
		{func() answer { return w.call("/api/v1/jobs", token, `{"kind":"note","payload":{"text":"hunter2"}}`) }, 202, auditAsked, "", "test", "acme"},
		{func() answer {
			return w.post("/new/orders", person, url.Values{"tenant": {"acme"}, "p.from": {"2026-01-01"}, "c.formats": {"csv"}})
		}, 303, auditAsked, "", "Nadia", "acme"},
		{func() answer {
			return w.call("/api/v1/jobs/bulk", token, `{"jobs":[{"kind":"note","payload":{"text":"a"}},{"kind":"note","payload":{"text":"b"}}]}`)
		}, 202, auditAskedMany, "", "test", "acme"},
		{func() answer {
			return w.call("/api/v1/chains", token, `{"jobs":[{"kind":"note","payload":{"text":"a"}},{"kind":"note","payload":{"text":"b"}}]}`)
		}, 202, auditAskedChain, "", "test", "acme"},
		{func() answer {
			return w.call("/api/v1/batches", token, `{"key":"b","jobs":[{"kind":"note","payload":{"text":"a"}}]}`)
		}, 202, auditBatchAsked, "", "test", "acme"},
		{func() answer { return w.get("/api/v1"+exportPath(j.ExportID)+"/files/a.csv", token) }, 200, auditDownloaded, j.ExportID.String(), "test", "acme"},
		{func() answer { return w.get(exportPath(j.ExportID)+"/files/a.csv", person) }, 200, auditDownloaded, j.ExportID.String(), "Nadia", "acme"},
		{func() answer { return w.post("/jobs/"+waiting.ID.String()+"/cancel", person, nil) }, 303, auditCancelled, waiting.ID.String(), "Nadia", "acme"},
		{func() answer { return w.call("/api/v1/jobs/"+other.ID.String()+"/cancel", token, "") }, 200, auditCancelled, other.ID.String(), "test", "acme"},
		{func() answer { return w.call("/api/v1/jobs/"+failed.String()+"/retry", token, "") }, 202, auditRetried, failed.String(), "test", "acme"},
		{func() answer { return w.call("/api/v1/failed/forget", person, "{}") }, 200, auditForgot, "", "Nadia", ""},
		{func() answer { return w.call("/api/v1/queues/default/pause", person, "") }, 200, auditQueuePaused, "default", "Nadia", ""},
		{func() answer { return w.call("/api/v1/queues/default/resume", person, "") }, 200, auditQueueResumed, "default", "Nadia", ""},
		{func() answer {
			return w.send("PUT", "/api/v1/schedules/nightly", token, strings.NewReader(`{"cron":"0 3 * * *","kind":"note","payload":{"text":"n"}}`), "Content-Type", "application/json")
		}, 201, auditScheduleSaved, "nightly", "test", "acme"},
		{func() answer { return w.call("/api/v1/schedules/nightly/pause", token, "") }, 200, auditSchedulePaused, "nightly", "test", "acme"},
		{func() answer { return w.call("/api/v1/schedules/nightly/resume", token, "") }, 200, auditScheduleResumed, "nightly", "test", "acme"},
		{func() answer { return w.call("/api/v1/schedules/nightly/run", token, "") }, 202, auditScheduleRun, "nightly", "test", "acme"},
		{func() answer { return w.send("DELETE", "/api/v1/schedules/nightly", token, nil) }, 204, auditScheduleDeleted, "nightly", "test", "acme"},
	} {
		before := len(w.entries(c.action))
		got := c.do().want(t, c.status)
		after := w.entries(c.action)
		if len(after) != before+1 {
			t.Errorf("%s %s left %d entries of %s, want 1", got.Request.Method, got.Request.URL.Path, len(after)-before, c.action)
			continue
		}
		e, tenant := after[0], ""
		if e.Tenant != nil {
			tenant = *e.Tenant
		}
		if e.Actor != c.actor || tenant != c.tenant || c.id != "" && e.ObjectID != c.id || e.RequestID != got.Header.Get("X-Request-Id") || e.Address != "127.0.0.1" {
			t.Errorf("%s: the entry is %+v of tenant %q", c.action, e, tenant)
		}
		if kind := storage.ActorUser; e.ActorKind != kind && c.actor == "Nadia" || e.ActorKind != storage.ActorToken && c.actor == "test" {
			t.Errorf("%s: the actor is a %s", c.action, e.ActorKind)
		}
		if strings.Contains(string(e.Details), "hunter2") {
			t.Errorf("%s: the entry holds what is in the payload: %s", c.action, e.Details)
		}
	}
}

// What was refused is no deed, and looking is none.
func TestLookingIsNotAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, other := w.token("acme"), w.token("globex")
	j, _ := w.published("acme", "k", "K", "a.csv", "id\n1\n")
	path := "/api/v1" + exportPath(j.ExportID) + "/files/a.csv"
	tag := w.send("HEAD", path, who, nil).want(t, 200).Header.Get("ETag")
	w.get(path, who, "If-None-Match", tag).want(t, 304)
	w.get(path, other).want(t, 404)
	w.call("/api/v1/jobs/"+j.ID.String()+"/cancel", other, "").want(t, 404)
	w.call("/api/v1/jobs/"+j.ID.String()+"/cancel", who, "").want(t, 409)
	w.get("/api/v1/exports", who).want(t, 200)
	if all := w.entries(""); len(all) != 0 {
		t.Errorf("the log holds %+v", all)
	}
}

// Data that nobody would know of does not leave.
func TestDownloadWithoutAuditFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	j, _ := w.published("acme", "k", "K", "a.csv", "id\n1\n")
	if err := w.store.Exec(w.ctx, "ALTER TABLE fenceline.audit ADD CONSTRAINT full_up CHECK (false)"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/v1" + exportPath(j.ExportID) + "/files/a.csv"} {
		w.get(path, who).want(t, 500).without(t, "id\n1\n")
	}
}

func TestEveryActionHasWords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, a := range auditWords() {
		if seen[a.Action] || a.Words == "" || inWords(a.Action) != a.Words {
			t.Errorf("the action %s is there twice, or has no words", a.Action)
		}
		seen[a.Action] = true
	}
}

func TestAuditPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, tenant := w.person("Nadia", ""), w.person("Gus", "globex")
	j, _ := w.published("acme", "k", "Sales <b>", "a.csv", "id\n1\n")
	w.get("/audit", admin).want(t, 200, "Nothing was written down yet")
	w.get(exportPath(j.ExportID)+"/files/a.csv", admin).want(t, 200)
	w.call("/api/v1/queues/default/pause", admin, "").want(t, 200)

	w.get("/audit", admin).want(t, 200, "downloaded", "a.csv", "Nadia", `href="/exports/`+j.ExportID.String()+`"`, "paused a queue", "127.0.0.1", "token 1")
	w.get("/audit", tenant).want(t, 200, "Nothing was written down yet").without(t, "a.csv", "paused a queue</td>")
	w.get("/audit?action=queue.paused", admin).want(t, 200, "default").without(t, "a.csv")
	w.get("/audit?actor=Gus", admin).want(t, 200, "No entries match")
	w.get("/audit?object="+j.ExportID.String(), admin).want(t, 200, "a.csv").without(t, "bdi class=\"key\">default")
	day := time.Now().In(time.FixedZone("", 14*3600)).Format(time.DateOnly) // Kiritimati is always the first
	w.get("/audit?zone=Pacific/Kiritimati&day="+day, admin).want(t, 200, "a.csv")
	w.get("/audit?zone=Pacific/Kiritimati&day=2020-01-01", admin).want(t, 200, "No entries match")
	w.get("/audit?day=yesterday", admin).want(t, 422)
	w.get("/audit?after=x", admin).want(t, 400)
}

func TestAPIAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all, acme := w.token(""), w.token("acme")
	for _, name := range []string{"a", "b", "=c"} {
		w.call("/api/v1/queues/"+strings.TrimPrefix(name, "=")+"/pause", all, "").want(t, 200)
	}
	j := w.job("acme", "k", "K")
	w.call("/api/v1/jobs/"+j.ID.String()+"/cancel", acme, "").want(t, 200)
	page := decode[storage.Page[storage.AuditEntry]](t, w.get("/api/v1/audit?limit=3", all).want(t, 200))
	if len(page.Items) != 3 || page.Next == "" || page.Items[0].Action != auditCancelled {
		t.Errorf("the first page is %+v", page)
	}
	rest := decode[storage.Page[storage.AuditEntry]](t, w.get("/api/v1/audit?limit=3&after="+page.Next, all).want(t, 200))
	if len(rest.Items) != 1 || rest.Next != "" || rest.Items[0].ObjectID != "a" {
		t.Errorf("the second page is %+v", rest)
	}
	if own := decode[storage.Page[storage.AuditEntry]](t, w.get("/api/v1/audit", acme).want(t, 200)); len(own.Items) != 1 {
		t.Errorf("a tenant sees %+v", own.Items)
	}
	csv := w.get("/api/v1/audit?format=csv&action=queue.paused", all).want(t, 200, "at,actor,actor_kind", "queue.paused,queue,b")
	if n := strings.Count(csv.body, "\n"); n != 4 || !strings.HasPrefix(csv.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the CSV has %d lines:\n%s", n, csv.body)
	}
	for _, wrong := range []string{"?format=xml", "?from=today", "?day=x", "?limit=0", "?day=2026-01-01&zone=Mars"} {
		w.get("/api/v1/audit"+wrong, all).want(t, 422)
	}
	if got := csvCells(storage.AuditEntry{Actor: "=HYPERLINK(1)"})[1]; got != "'=HYPERLINK(1)" {
		t.Errorf("a formula goes out as %s", got)
	}
}
