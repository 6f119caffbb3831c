package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

const noteBody = `{"kind":"note","tenant":"acme","payload":{"text":"hi"}}`

// note dispatches a plain job over the API.
func (w *world) note(who creds, tenant, options string) storage.Job {
	w.t.Helper()
	body := fmt.Sprintf(`{"kind":"note","tenant":%q,"payload":{"text":"hi"}%s}`, tenant, options)
	return decode[storage.Job](w.t, w.call("/api/v1/jobs", who, body).want(w.t, 202))
}

// end begins a plain job as a worker does and ends it.
func (w *world) end(job storage.Job, f storage.Finish) {
	w.t.Helper()
	worker := uuid.New()
	if err := w.store.RegisterWorker(w.ctx, storage.Worker{ID: worker, Name: "w-" + worker.String()[:4], Host: "h", PID: 1, Version: "v", Queues: json.RawMessage(`{"default":1}`), Concurrency: 2}); err != nil {
		w.t.Fatal(err)
	}
	turned := must(w.store.Turn(w.ctx, worker, nil, []storage.Want{{Queue: job.Queue, Runs: []uuid.UUID{uuid.New()}}}))(w.t)
	if len(turned.Claimed) != 1 || turned.Claimed[0].Job.ID != job.ID {
		w.t.Fatalf("claimed %+v, not %s", turned.Claimed, job.ID)
	}
	if f.Outcome == "" {
		return // it goes on
	}
	f.Job, f.Run = job.ID, turned.Claimed[0].Run
	must(w.store.Turn(w.ctx, worker, []storage.Finish{f}, nil))(w.t)
}

func (w *world) failedNote(who creds, tenant, options string) storage.Job {
	w.t.Helper()
	j := w.note(who, tenant, options)
	w.end(j, storage.Finish{Outcome: "failed", Reason: "panic", Error: "no luck", Stack: "goroutine 1", Final: true})
	return j
}

func TestAPIDispatchOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	j := w.note(who, "acme", `,"queue":"mail","priority":7,"tags":["a","b"],"delay":"1h","max_attempts":9,"backoff":"exp:2s:10m","timeout":"90s","retry_for":"2h"`)
	if j.Queue != "mail" || j.Priority != 7 || len(j.Tags) != 2 || j.MaxAttempts != 9 || j.TimeoutSeconds != 90 || j.RetryUntil == nil || !j.Plain() || time.Until(j.DueAt) < 50*time.Minute || !strings.Contains(string(j.Backoff), `"max":600`) {
		t.Errorf("the job is %+v with the backoff %s", j, j.Backoff)
	}
	first := w.note(who, "acme", `,"unique":"active","unique_key":"k"`)
	if again := w.note(who, "acme", `,"unique":"active","unique_key":"k"`); again.ID != first.ID {
		t.Error("a unique job was made twice")
	}
	body := `{"kind":"note","payload":{"text":"x"},"idempotency_key":"k1"}`
	w.call("/api/v1/jobs", who, body, "Idempotency-Key", "k1").want(t, 202)
	w.call("/api/v1/jobs", who, body, "Idempotency-Key", "k2").want(t, 422, `"field":"idempotency_key"`)
	for _, bad := range []string{`"delay":"soon"`, `"at":"tomorrow"`, `"unique":"always"`, `"debounce":"30s"`, `"unique_key":"k"`, `"debounce":"30s:5m","delay":"1s"`, `"timeout":"1ms"`, `"max_attempts":0`, `"tags":[""]`, `"backoff":"exp:2s"`} {
		w.call("/api/v1/jobs", who, `{"kind":"note","payload":{"text":"x"},`+bad+`}`).want(t, 422, `"field"`)
	}
	w.get("/api/v1/jobs?queue=mail", who).want(t, 200, j.ID.String()).without(t, first.ID.String())
	w.get("/api/v1/jobs?tag=b", who).want(t, 200, j.ID.String()).without(t, first.ID.String())
	w.get("/api/v1/jobs?kind=report", who).want(t, 200, `{"items":[]}`)
}

func TestAPIMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	list := func(n int, each string) string { return strings.TrimSuffix(strings.Repeat(each+",", n), ",") }
	got := decode[struct{ Jobs []dispatchedJSON }](t, w.call("/api/v1/jobs/bulk", who, `{"jobs":[`+list(1500, noteBody)+`]}`).want(t, 202))
	if len(got.Jobs) != 1500 || got.Jobs[0].Kind != "note" {
		t.Errorf("%d jobs", len(got.Jobs))
	}
	bad := `{"kind":"note","payload":{"text":7}}`
	w.call("/api/v1/jobs/bulk", who, `{"jobs":[`+noteBody+`,`+bad+`]}`).want(t, 422, `"field":"jobs[1].payload.text"`)
	w.call("/api/v1/jobs/bulk", who, `{"jobs":[`+noteBody+`,{"kind":"note","delay":"x"}]}`).want(t, 422, `"field":"jobs[1].delay"`)
	w.call("/api/v1/jobs/bulk", who, `{"jobs":[`+noteBody+`,{"kidn":"note"}]}`).want(t, 422, `"field":"jobs[1].kidn"`)
	w.call("/api/v1/jobs/bulk", who, `{"jobs":[]}`).want(t, 422, "1 to 100000")

	chain := decode[struct{ Jobs []dispatchedJSON }](t, w.call("/api/v1/chains", who, `{"tenant":"acme","jobs":[`+list(3, `{"kind":"note","payload":{"text":"x"}}`)+`]}`).want(t, 202))
	last := decode[storage.Job](t, w.get("/api/v1/jobs/"+chain.Jobs[2].ID, who).want(t, 200))
	if last.Tenant != "acme" || last.AfterJob == nil || last.AfterJob.String() != chain.Jobs[1].ID {
		t.Errorf("the last of the chain is %+v", last)
	}
	made := w.call("/api/v1/batches", who, `{"tenant":"acme","title":"B","jobs":[`+list(2, `{"kind":"note","payload":{"text":"x"}}`)+`],"chains":[[`+noteBody+`,`+noteBody+`]],"finally":`+noteBody+`}`).want(t, 202)
	where := made.Header.Get("Location")
	w.get(where, who).want(t, 200, `"total":4`, `"queued":4`).without(t, "RequestHash")
	of := decode[storage.Page[storage.Job]](t, w.get("/api/v1/jobs?batch="+where[strings.LastIndex(where, "/")+1:], who).want(t, 200))
	if len(of.Items) != 4 || of.Items[0].BatchID == nil {
		t.Errorf("%d jobs of the batch", len(of.Items))
	}
	w.get("/api/v1/jobs?batch=x", who).want(t, 422, `"field":"batch"`)
	w.call("/api/v1/batches", who, `{"tenant":"globex","jobs":[`+noteBody+`]}`).want(t, 422, "acme")
	w.call("/api/v1/batches", who, `{"jobs":[{"kind":"note","payload":{"text":"x"}}],"then":{"kind":"nope"}}`).want(t, 422, `"field":"then.kind"`)
	w.call("/api/v1/batches", who, `{"tenant":"acme","jobs":[`+noteBody+`],"then":{"kind":"note","tenant":"globex"}}`).want(t, 422, `"field":"then.tenant"`)
	w.call("/api/v1/batches", who, `{"tenant":"acme","jobs":[`+noteBody+`],"chains":[[`+noteBody+`],[`+noteBody+`,`+bad+`]]}`).want(t, 422, `"field":"chains[1][1].payload.text"`)
	w.call("/api/v1/batches", who, `{"tenant":"acme","chains":[[]]}`).want(t, 422, `"field":"chains[0]"`)
	w.call("/api/v1/batches", who, `{"tenant":"acme","chains":[[{"kind":"note","payload":{"text":"x"},"unique":"active"}]]}`).want(t, 422, `"field":"chains[0][0]"`)
	w.call(where+"/cancel", who, "").want(t, 200, `"cancelled":4`, `"cancelled_at"`)
}

// A tenant's token sees and touches what is its tenant's, on every route.
func TestAPIRunnerScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all, acme, globex := w.token(""), w.token("acme"), w.token("globex")
	failed := w.failedNote(all, "acme", `,"tags":["x"]`)
	waiting := w.note(acme, "", "")
	if waiting.Tenant != "acme" {
		t.Errorf("a token of acme made a job of %s", waiting.Tenant)
	}
	batch := w.call("/api/v1/batches", acme, `{"jobs":[{"kind":"note","payload":{"text":"x"}}]}`).want(t, 202).Header.Get("Location")
	path := "/api/v1/jobs/" + failed.ID.String()

	for _, body := range []struct{ path, body string }{
		{"/api/v1/jobs", noteBody}, {"/api/v1/jobs/bulk", `{"jobs":[` + noteBody + `]}`}, {"/api/v1/chains", `{"jobs":[` + noteBody + `]}`},
		{"/api/v1/chains", `{"tenant":"acme","jobs":[{"kind":"note","payload":{"text":"x"}}]}`}, {"/api/v1/batches", `{"tenant":"acme","jobs":[{"kind":"note","payload":{"text":"x"}}]}`},
	} {
		w.call(body.path, globex, body.body).want(t, 403, "other-tenant")
	}
	w.call("/api/v1/batches", globex, `{"jobs":[`+noteBody+`]}`).want(t, 422) // its batch, another's job
	for _, get := range []string{path, batch} {
		w.get(get, globex).want(t, 404)
		w.get(get, acme).want(t, 200)
	}
	for _, post := range []string{path + "/cancel", path + "/retry", path + "/forget", batch + "/cancel", batch + "/retry"} {
		w.call(post, globex, "").want(t, 404)
	}
	for _, get := range []string{"/api/v1/jobs", "/api/v1/jobs?tenant=acme", "/api/v1/jobs?tag=x", "/api/v1/failed", "/api/v1/failed?tag=x"} {
		w.get(get, globex).want(t, 200, `{"items":[]}`)
		w.get(get, acme).want(t, 200, failed.ID.String())
	}
	w.call("/api/v1/failed/retry", globex, `{}`).want(t, 200, `{"queued":0}`)
	w.call("/api/v1/failed/forget", globex, `{}`).want(t, 200, `{"forgotten":0}`)
	if got := must(w.store.Job(w.ctx, principalAll.scope, failed.ID))(t); got.State != storage.JobFailed {
		t.Errorf("another tenant made the job %s", got.State)
	}
	for _, who := range []creds{acme, globex, w.person("Nadia", "acme")} {
		w.get("/api/v1/queues", who).want(t, 403, "all-tenants-only")
		w.get("/api/v1/workers", who).want(t, 403)
		w.call("/api/v1/queues/default/pause", who, "", "Sec-Fetch-Site", "same-origin").want(t, 403)
		w.call("/api/v1/queues/default/resume", who, "", "Sec-Fetch-Site", "same-origin").want(t, 403)
	}
	w.get(path, all).want(t, 200, "goroutine 1", `"reason":"panic"`)
	w.get(path, acme).want(t, 200, "no luck").without(t, "goroutine 1")
	w.get("/jobs/"+failed.ID.String(), w.person("Gil", "globex")).want(t, 404)
}

func TestAPIFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	one, two := w.failedNote(who, "acme", ""), w.failedNote(who, "acme", `,"queue":"mail","tags":["x"]`)
	page := w.get("/api/v1/failed?limit=1", who).want(t, 200, two.ID.String())
	page.without(t, one.ID.String())
	w.get("/api/v1/failed?after="+two.ID.String(), who).want(t, 200, one.ID.String()).without(t, two.ID.String())
	w.get("/api/v1/failed?queue=mail&error=LUCK", who).want(t, 200, two.ID.String()).without(t, one.ID.String())
	w.get("/api/v1/failed?batch=x", who).want(t, 422, `"field":"batch"`)
	w.get("/api/v1/failed?after=x", who).want(t, 400)
	for _, path := range []string{"/api/v1/failed?error=%00", "/api/v1/failed?kind=%ff", "/api/v1/jobs?tag=%00", "/api/v1/exports?q=%ff", "/api/v1/schedules/%00"} {
		w.get(path, who).want(t, 422, "not UTF-8")
	}
	w.call("/api/v1/failed/retry", who, `{"error":"\u0000"}`).want(t, 422, "not UTF-8")

	w.call("/api/v1/failed/retry", who, `{"confirm":1}`).want(t, 409, "count-differs", "2 failed jobs match, not 1")
	w.call("/api/v1/failed/forget", who, `{"tag":"x","confirm":2}`).want(t, 409, "1 failed job matches")
	w.call("/api/v1/failed/retry", who, `{"quue":"mail"}`).want(t, 422, `"field":"quue"`)
	w.call("/api/v1/failed/retry", who, `{"queue":"mail","confirm":1}`).want(t, 200, `{"queued":1}`)
	if got := must(w.store.Job(w.ctx, principalAll.scope, two.ID))(t); got.State != storage.JobQueued {
		t.Errorf("a retried job is %s", got.State)
	}
	w.call("/api/v1/jobs/"+one.ID.String()+"/forget", who, "").want(t, 200, `"state":"cancelled"`)
	w.call("/api/v1/jobs/"+one.ID.String()+"/forget", who, "").want(t, 409, "job-not-failed")
	third := w.failedNote(who, "acme", `,"unique":"active","unique_key":"k","queue":"u"`)
	w.note(who, "acme", `,"unique":"active","unique_key":"k","queue":"u"`)
	w.call("/api/v1/jobs/"+third.ID.String()+"/retry", who, "").want(t, 409, "job-not-unique")
	w.call("/api/v1/failed/forget", who, `{}`).want(t, 200, `{"forgotten":1}`)
}

func TestAPIQueuesAndWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	j := w.note(who, "acme", `,"queue":"mail"`)
	w.call("/api/v1/queues/mail/pause", who, "").want(t, 200, `"paused":true`)
	w.call("/api/v1/queues/mail/pause", who, "").want(t, 200)
	got := decode[struct{ Items []storage.Queue }](t, w.get("/api/v1/queues", who).want(t, 200)).Items
	if len(got) != 1 || got[0].Name != "mail" || got[0].Waiting != 1 || got[0].PausedBy != "token test" {
		t.Errorf("the queues are %+v", got)
	}
	w.call("/api/v1/queues/a%20b/pause", who, "").want(t, 422)
	w.call("/api/v1/queues/mail/resume", who, "").want(t, 200, `"paused":false`)
	w.call("/api/v1/queues/mail/resume", who, "").want(t, 404)
	w.end(j, storage.Finish{})
	list := decode[struct{ Items []workerJSON }](t, w.get("/api/v1/workers", who).want(t, 200)).Items
	if len(list) != 1 || len(list[0].Runs) != 1 || list[0].Runs[0].Job != j.ID {
		t.Errorf("the workers are %+v", list)
	}
}

func TestPlainJobPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	api, who := w.token(""), w.person("Nadia", "")
	waiting := w.note(api, "acme", "")
	page := w.get("/jobs/"+waiting.ID.String(), who).want(t, 200, "fenceline dispatch job note", "It waits for a worker", "No attempt has gone wrong")
	page.without(t, "/exports/0000", "Its export", "was deleted", "publish")
	w.end(waiting, storage.Finish{Outcome: "done", Result: json.RawMessage(`{"sent":3}`)})
	w.get("/jobs/"+waiting.ID.String(), who).want(t, 200, "&#34;sent&#34;: 3", "100 %").without(t, "Published")
	failed := w.failedNote(api, "acme", "")
	w.get("/jobs/"+failed.ID.String(), who).want(t, 200, "no luck", "goroutine 1", "Try again")
	w.get("/jobs/"+failed.ID.String(), w.person("Ana", "acme")).want(t, 200, "no luck").without(t, "goroutine 1")
	begun := w.note(api, "acme", "")
	w.end(begun, storage.Finish{})
	w.get("/jobs/"+begun.ID.String(), who).want(t, 200, "at work").without(t, "publish")
}

func TestMaintenanceIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, tenant := w.person("Nadia", ""), w.person("Ana", "acme")
	if got := w.get("/readyz", nobody).want(t, 200); got.body != "ready\n" {
		t.Errorf("readyz says %q", got.body)
	}
	w.get("/", who).want(t, 200).without(t, "Maintenance")
	if err := w.store.SetMaintenance(w.ctx, true, "moving <files>"); err != nil {
		t.Fatal(err)
	}
	w.get("/readyz", nobody).want(t, 200, "ready, in maintenance").without(t, "moving")
	w.get("/", who).want(t, 200, "Maintenance since", "moving &lt;files&gt;")
	w.get("/", tenant).want(t, 200, "Maintenance since").without(t, "moving")
}
