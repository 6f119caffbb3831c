package web

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

const ordersBody = `{"kind":"report","tenant":"acme","payload":{"report":"orders","params":{"from":"2026-01-01"}}}`

type jobJSON struct {
	ID          string
	Tenant      string
	State       string
	RequestedBy string `json:"requested_by"`
	Reused      bool
	AttemptList []struct{ Token int64 } `json:"attempt_list"`
}

func TestAPIDispatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	got := w.call("/api/v1/jobs", who, ordersBody, "Idempotency-Key", "k1").want(t, 202)
	j := decode[jobJSON](t, got)
	if j.State != "queued" || j.Tenant != "acme" || j.Reused || j.RequestedBy != "token test" {
		t.Errorf("the job is %+v", j)
	}
	where := got.Header.Get("Location")
	if where != "/api/v1/jobs/"+j.ID {
		t.Errorf("Location is %q", where)
	}
	if read := decode[jobJSON](t, w.get(where, who).want(t, 200)); read.ID != j.ID || read.AttemptList == nil {
		t.Errorf("at its address is %+v", read)
	}
	again := decode[jobJSON](t, w.call("/api/v1/jobs", who, ordersBody, "Idempotency-Key", `"k1"`).want(t, 202))
	if again.ID != j.ID || !again.Reused {
		t.Errorf("the same key gave %+v", again)
	}
	other := strings.Replace(ordersBody, "2026-01-01", "2026-01-02", 1)
	w.call("/api/v1/jobs", who, other, "Idempotency-Key", "k1").want(t, 422, "urn:fenceline:problem:idempotency-key-reused").without(t, j.ID)
	w.call("/api/v1/jobs", w.person("Nadia", ""), ordersBody, "Sec-Fetch-Site", "same-origin").want(t, 202, `"requested_by":"Nadia"`)
}

func TestAPIDispatchRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	for _, tt := range []struct {
		name, body string
		status     int
		field      string // of the first refused field
	}{
		{"nothing", ``, 422, "body"},
		{"a list", `[]`, 422, "body"},
		{"two objects", ordersBody + `{}`, 422, "body"},
		{"cut off", ordersBody[:40], 422, "body"},
		{"unknown field", `{"kind":"report","prority":1,"payload":{}}`, 422, "prority"},
		{"priority", strings.Replace(ordersBody, "{", `{"priority":101,`, 1), 422, "priority"},
		{"priority in words", strings.Replace(ordersBody, "{", `{"priority":"high",`, 1), 422, "priority"},
		{"backoff", strings.Replace(ordersBody, "{", `{"backoff":"5",`, 1), 422, "backoff"},
		{"queue", strings.Replace(ordersBody, "{", `{"queue":"a b",`, 1), 422, "queue"},
		{"another case", `{"Kind":"report","payload":{}}`, 422, "Kind"},
		{"twice", `{"kind":"report","kind":"invoice","payload":{}}`, 422, "kind"},
		{"number", `{"kind":7,"payload":{}}`, 422, "kind"},
		{"unknown kind", `{"kind":"reprot","payload":{}}`, 422, "kind"},
		{"no payload", `{"kind":"report"}`, 422, "payload"},
		{"bad parameter", strings.Replace(ordersBody, "2026-01-01", "soon", 1), 422, "params.from"},
		{"bad tenant", strings.Replace(ordersBody, "acme", "a b", 1), 422, "tenant"},
		{"too large", `{"kind":"` + strings.Repeat("x", maxBody) + `"}`, 413, ""},
	} {
		got := w.call("/api/v1/jobs", who, tt.body).want(t, tt.status)
		p := decode[problem](t, got)
		if got.Header.Get("Content-Type") != "application/problem+json" || p.Status != tt.status || p.RequestID != got.Header.Get("X-Request-Id") {
			t.Errorf("%s: the problem is %+v", tt.name, p)
		}
		if tt.field != "" && (len(p.Errors) == 0 || p.Errors[0].Field != tt.field || p.Errors[0].Message == "") {
			t.Errorf("%s: the refused fields are %+v, want %s first", tt.name, p.Errors, tt.field)
		}
	}
	w.send("POST", "/api/v1/jobs", who, strings.NewReader(ordersBody), "Content-Type", "text/plain").want(t, 415)
	for _, key := range []string{"", `"open`, strings.Repeat("x", 256), "ключ"} {
		w.call("/api/v1/jobs", who, ordersBody, "Idempotency-Key", key).want(t, 400, "urn:fenceline:problem:idempotency-key")
	}
	if page := must(w.store.Jobs(w.ctx, storage.Scope{All: true}, storage.JobFilter{}))(t); len(page.Items) != 0 {
		t.Errorf("%d jobs were made of refused requests", len(page.Items))
	}
}

func TestAPITenantOfAToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("acme")
	forced := strings.Replace(ordersBody, `"tenant":"acme",`, "", 1)
	if j := decode[jobJSON](t, w.call("/api/v1/jobs", who, forced).want(t, 202)); j.Tenant != "acme" {
		t.Errorf("a token of acme made a job of %s", j.Tenant)
	}
	w.call("/api/v1/jobs", who, strings.Replace(ordersBody, "acme", "globex", 1)).want(t, 403, "other-tenant")
	if j := decode[jobJSON](t, w.call("/api/v1/jobs", w.token(""), forced).want(t, 202)); j.Tenant != "default" {
		t.Errorf("a request without a tenant made a job of %s", j.Tenant)
	}
}

func TestAPICancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	queued, running := w.job("acme", "q", "Q"), w.job("acme", "r", "R")
	w.begin(running, "w-1")
	w.call("/api/v1/jobs/"+queued.ID.String()+"/cancel", who, "").want(t, 200, `"state":"cancelled"`)
	w.call("/api/v1/jobs/"+queued.ID.String()+"/cancel", who, "").want(t, 200, `"state":"cancelled"`)
	w.call("/api/v1/jobs/"+running.ID.String()+"/cancel", who, "").want(t, 202, `"state":"cancelling"`)
	done, _ := w.published("acme", "d", "D", "d.csv", "id\n")
	w.call("/api/v1/jobs/"+done.ID.String()+"/cancel", who, "").want(t, 409, "job-ended")
	w.call("/api/v1/jobs/"+uuid.NewString()+"/cancel", who, "").want(t, 404)
}

func TestAPILists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	w.get("/api/v1/exports", who).want(t, 200, `{"items":[]}`)
	first, _ := w.published("acme", "a", "A", "a.csv", "id\n1\n")
	second := w.job("acme", "b", "B")

	page := w.get("/api/v1/jobs?limit=1", who).want(t, 200, second.ID.String())
	page.without(t, first.ID.String())
	link := page.Header.Get("Link")
	next, _, found := strings.Cut(strings.TrimPrefix(link, "<"), ">; rel=\"next\"")
	if !found {
		t.Fatalf("Link is %q", link)
	}
	if u, err := url.Parse(next); err != nil || u.Query().Get("limit") != "1" {
		t.Errorf("the next page is %q", next)
	}
	last := w.get(next, who).want(t, 200, first.ID.String())
	last.without(t, second.ID.String())
	if last.Header.Get("Link") != "" {
		t.Errorf("the last page links to %q", last.Header.Get("Link"))
	}
	w.get("/api/v1/jobs?state=done", who).want(t, 200, first.ID.String()).without(t, second.ID.String())
	w.get("/api/v1/jobs?export="+second.ExportID.String(), who).want(t, 200, second.ID.String()).without(t, first.ID.String())
	w.get("/api/v1/exports?q=a&kind=report", who).want(t, 200, first.ExportID.String(), `"file_name":"a.csv"`)
	for _, query := range []string{"jobs?state=doen", "jobs?limit=0", "jobs?limit=x", "jobs?export=x", "exports?limit=201"} {
		w.get("/api/v1/"+query, who).want(t, 422, `"field"`)
	}
	for _, query := range []string{"jobs?after=x", "exports?after=x"} {
		w.get("/api/v1/"+query, who).want(t, 400, "cursor")
	}
}

func TestAPIExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	j, stale, current := w.fenced("acme", "k", "K")
	got := decode[struct {
		LastToken int64 `json:"last_token"`
		Files     []struct{ Name, SHA256, URL string }
		Attempts  []struct {
			Token    int64
			State    string
			FencedBy int64 `json:"fenced_by"`
		}
	}](t, w.get("/api/v1"+exportPath(j.ExportID), who).want(t, 200))
	if got.LastToken != current.Token || len(got.Files) != 1 || len(got.Attempts) != 2 {
		t.Fatalf("the export is %+v", got)
	}
	if a := got.Attempts[1]; a.Token != stale.Token || a.State != "fenced" || a.FencedBy != current.Token {
		t.Errorf("the stale attempt is %+v", a)
	}
	w.get(got.Files[0].URL, who).want(t, 200, "id\n2\n")
	w.get("/api/v1/reports", who).want(t, 200, `"name":"orders"`, `"values":["new","paid"]`, `"default":"0"`, "broken.sql:1")
}
