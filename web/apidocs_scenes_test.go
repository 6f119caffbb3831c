package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/storage"
)

// probe asks a running server and holds every answer against the description.
type probe struct {
	*world
	t        *testing.T
	contract *contract
	all, acme, globex,
	viewer creds
	succeeded map[string]bool // operations that have answered 2xx or 3xx
}

// scene is a request of an operation and the status that it must have.
type scene struct {
	operation string
	fill      string // what stands for the wildcards, with spaces between
	query     string
	body      string
	status    int
	who       creds // a token for all tenants when it is not said
	header    []string
}

func newProbe(t *testing.T) *probe {
	w := newWorld(t, func(c *Config) {
		c.Sweep = storage.NewSweep(c.Store, c.Files, storage.SweepOptions{Grace: -time.Hour, Quarantine: -time.Hour})
	})
	p := &probe{world: w, t: t, all: w.token(""), acme: w.token("acme"), globex: w.token("globex"), viewer: w.tokenThatMay("acme", storage.VerbView), succeeded: map[string]bool{}}
	p.contract = w.contract(p.all)
	return p
}

// address fills the wildcards of an operation.
func address(operation, fill string) (method, path string) {
	method, path, _ = strings.Cut(operation, " ")
	for _, with := range strings.Fields(fill) {
		path = strings.Replace(path, wildcard(path), with, 1)
	}
	return method, path
}

// play asks and checks; what is wrong is named and the test goes on.
func (p *probe) play(s scene) answer {
	p.t.Helper()
	method, path := address(s.operation, s.fill)
	if s.who == nobody {
		s.who = p.all
	}
	header := s.header
	if s.body != "" {
		header = append([]string{"Content-Type", "application/json"}, header...)
	}
	if s.query != "" {
		path += "?" + s.query
	}
	got := p.send(method, path, s.who, strings.NewReader(s.body), header...)
	p.judge(s, got)
	return got
}

func (p *probe) judge(s scene, got answer) {
	p.t.Helper()
	if got.StatusCode != s.status {
		p.t.Errorf("%s (%s %s) answered %d, want %d:\n%.600s", s.operation, s.fill, s.query, got.StatusCode, s.status, got.body)
		return
	}
	if err := p.contract.check(s.operation, got); err != nil {
		p.t.Errorf("%s answered %d not as described: %v\n%.900s", s.operation, got.StatusCode, err, got.body)
		return
	}
	if got.StatusCode < 400 {
		p.succeeded[s.operation] = true
	}
}

func (p *probe) playAll(scenes ...scene) {
	p.t.Helper()
	for _, s := range scenes {
		p.play(s)
	}
}

// Every operation answers as it is described, when all is well and when it refuses.
func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	p.jobScenes()
	p.failedScenes()
	p.exportScenes()
	p.invoiceScenes()
	p.batchScenes()
	p.scheduleScenes()
	p.queueScenes()
	p.labScenes()
	p.noticeScenes()
	p.keepScenes()
	p.cleanupScenes()
	p.playAll(
		scene{operation: "GET /api/v1/audit", query: "limit=200", status: 200},
		scene{operation: "GET /api/v1/audit", query: "limit=1&actor=token+test&object_kind=job", status: 200},
		scene{operation: "GET /api/v1/audit", query: "format=csv", status: 200},
		scene{operation: "GET /api/v1/audit", query: "day=soon", status: 422},
		scene{operation: "GET /api/v1/audit", query: "after=x", status: 400})
	for _, name := range slices.Sorted(maps.Keys(p.contract.operations())) {
		if !p.succeeded[name] {
			t.Errorf("no scene has %s succeed", name)
		}
	}
}

// Every operation refuses as it is described: who has no token, whose token may not,
// what is not there, and what cannot be read.
func TestRefusalsAreAsDescribed(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	weak := map[string]creds{}
	for _, verb := range storage.Verbs() {
		for _, other := range storage.Verbs() {
			if other != verb && weak[string(verb)] == nobody {
				weak[string(verb)] = p.tokenThatMay("", other)
			}
		}
	}
	wrong := creds{"Authorization", "Bearer fl_wrong"}
	for name, op := range p.contract.operations() {
		none := strings.Repeat(uuid.NewString()+" ", strings.Count(name, "{"))
		p.play(scene{operation: name, fill: none, who: wrong, status: 401})
		p.play(scene{operation: name, fill: none, who: weak[op["x-verb"].(string)], status: 403})
		if !strings.HasPrefix(name, "GET ") {
			p.play(scene{operation: name, fill: none, status: 403, header: []string{"Sec-Fetch-Site", "cross-site"}})
		}
		body, takes := op["requestBody"].(map[string]any)
		if slices.Contains(objectFirst(), name) { // keepScenes have what such a body answers
			p.play(scene{operation: name, fill: none, body: `{"nonsense":1}`, status: 404})
			continue
		}
		if takes {
			p.play(scene{operation: name, fill: none, body: `{"nonsense":1}`, status: 422})
			p.play(scene{operation: name, fill: none, body: `{}`, status: 415, header: []string{"Content-Type", "text/plain"}})
		}
		if strings.Contains(name, "{") && (!takes || body["required"] == false) && name != "POST /api/v1/queues/{name}/pause" {
			p.play(scene{operation: name, fill: none, status: 404})
		}
		if strings.Contains(fmt.Sprint(op["parameters"]), "/limit") && !strings.Contains(name, "{") {
			p.play(scene{operation: name, query: "limit=many", status: 422})
		}
	}
}

// objectFirst are the operations that look for their object before they read the body.
func objectFirst() []string {
	return []string{"POST /api/v1/exports/{id}/pin", "POST /api/v1/exports/{id}/hold"}
}

func (p *probe) jobScenes() {
	p.t.Helper()
	key := []string{"Idempotency-Key", "k1"}
	made := decode[jobJSON](p.t, p.play(scene{operation: "POST /api/v1/jobs", body: ordersBody, header: key, status: 202}))
	other := strings.Replace(ordersBody, "2026-01-01", "2026-01-02", 1)
	note := p.note(p.acme, "acme", `,"queue":"mail","priority":7,"tags":["a"],"delay":"1h","backoff":"exp:2s:10m","retry_for":"2h","unique":"active"`)
	done, attempt := p.published("acme", "jobs", "Jobs", "a.csv", "id\n1\n")
	fenced, _, _ := p.fenced("acme", "fenced", "Fenced")
	running := p.job("acme", "running", "Running")
	p.beginUnder(running, "w-1", 4211)
	p.playAll(
		scene{operation: "POST /api/v1/jobs", body: ordersBody, header: key, status: 202},
		scene{operation: "POST /api/v1/jobs", body: other, header: key, status: 422},
		scene{operation: "POST /api/v1/jobs", body: ordersBody, header: []string{"Idempotency-Key", ""}, status: 400},
		scene{operation: "POST /api/v1/jobs", body: ordersBody, who: p.globex, status: 403},
		scene{operation: "POST /api/v1/jobs", body: noteBody, header: []string{"Prefer", "wait=1"}, status: 202},
		scene{operation: "GET /api/v1/jobs", query: "limit=1", status: 200},
		scene{operation: "GET /api/v1/jobs", query: "state=queued&kind=note&tag=a&queue=mail&tenant=acme", status: 200},
		scene{operation: "GET /api/v1/jobs", query: "limit=200", status: 200},
		scene{operation: "GET /api/v1/jobs", query: "state=lost", status: 422},
		scene{operation: "GET /api/v1/jobs", query: "after=x", status: 400},
		scene{operation: "GET /api/v1/jobs/{id}", fill: made.ID, status: 200},
		scene{operation: "GET /api/v1/jobs/{id}", fill: done.ID.String(), status: 200, header: []string{"Prefer", "wait=1"}},
		scene{operation: "GET /api/v1/jobs/{id}", fill: fenced.ID.String(), status: 200},
		scene{operation: "GET /api/v1/jobs/{id}", fill: running.ID.String(), status: 200},
		scene{operation: "GET /api/v1/jobs/{id}", fill: note.ID.String(), status: 200},
		scene{operation: "GET /api/v1/jobs/{id}", fill: note.ID.String(), who: p.globex, status: 404},
		scene{operation: "GET /api/v1/jobs/{id}/events", fill: done.ID.String(), status: 200},
		scene{operation: "POST /api/v1/jobs/{id}/cancel", fill: note.ID.String(), status: 200},
		scene{operation: "POST /api/v1/jobs/{id}/cancel", fill: running.ID.String(), status: 202},
		scene{operation: "POST /api/v1/jobs/{id}/cancel", fill: done.ID.String(), status: 409},
		scene{operation: "POST /api/v1/jobs/{id}/cancel", fill: made.ID, who: p.personAs("Omar", "acme", storage.RoleRequester), status: 403},
		scene{operation: "POST /api/v1/jobs/bulk", body: `{"jobs":[` + noteBody + `,` + noteBody + `]}`, status: 202},
		scene{operation: "POST /api/v1/jobs/bulk", body: `{"jobs":[]}`, header: []string{"Idempotency-Key", ""}, status: 400},
		scene{operation: "POST /api/v1/jobs/bulk", body: `{"jobs":[` + noteBody + `]}`, header: []string{"Idempotency-Key", "many"}, status: 202},
		scene{operation: "POST /api/v1/jobs/bulk", body: `{"jobs":[` + noteBody + `,` + noteBody + `]}`, header: []string{"Idempotency-Key", "many"}, status: 422},
		scene{operation: "POST /api/v1/chains", body: `{"tenant":"acme","jobs":[` + noteBody + `,` + noteBody + `]}`, status: 202},
		scene{operation: "GET /api/v1/exports/{id}", fill: fenced.ExportID.String(), status: 200},
		scene{operation: "GET /api/v1/exports/{id}/attempts/{attempt}/files/{name}", fill: done.ExportID.String() + " " + attempt.ID.String() + " a.csv", status: 200},
	)
	p.followed()
}

// followed opens the stream that does not end and closes it.
func (p *probe) followed() {
	p.t.Helper()
	r := must(http.NewRequestWithContext(p.ctx, "GET", p.base+"/api/v1/events", nil))(p.t)
	r.Header.Set(p.acme.name, p.acme.value)
	res := must(http.DefaultClient.Do(r))(p.t)
	_ = res.Body.Close()
	p.judge(scene{operation: "GET /api/v1/events", status: 200}, answer{Response: res})
}

func (p *probe) failedScenes() {
	p.t.Helper()
	fail := func() storage.Job { return p.failedNote(p.acme, "acme", `,"queue":"failing"`) }
	one := fail()
	p.playAll(
		scene{operation: "GET /api/v1/jobs/{id}", fill: one.ID.String(), status: 200},
		scene{operation: "GET /api/v1/failed", query: "kind=note", status: 200},
		scene{operation: "GET /api/v1/failed", query: "batch=x", status: 422},
		scene{operation: "GET /api/v1/failed/groups", status: 200},
		scene{operation: "POST /api/v1/failed/retry", body: `{"confirm":7}`, status: 409},
		scene{operation: "POST /api/v1/jobs/{id}/retry", fill: one.ID.String(), status: 202},
		scene{operation: "POST /api/v1/jobs/{id}/retry", fill: one.ID.String(), status: 409},
		scene{operation: "POST /api/v1/jobs/{id}/forget", fill: one.ID.String(), status: 409},
	)
	must(p.store.CancelJob(p.ctx, principalAll.scope, one.ID))(p.t)
	p.playAll(scene{operation: "POST /api/v1/jobs/{id}/forget", fill: fail().ID.String(), status: 200},
		scene{operation: "POST /api/v1/failed/forget", body: `{"kind":"note"}`, status: 200},
		scene{operation: "POST /api/v1/failed/retry", body: `{"queue":"failing","confirm":0}`, status: 200})
}

func (p *probe) exportScenes() {
	p.t.Helper()
	j, _ := p.published("acme", "exports", "Exports", "a.csv", "id\n1\n")
	export := j.ExportID.String()
	file := "GET /api/v1/exports/{id}/files/{name}"
	got := p.play(scene{operation: file, fill: export + " a.csv", status: 200})
	link := decode[struct{ ID string }](p.t, p.play(scene{operation: "POST /api/v1/exports/{id}/links", fill: export, body: `{"file":"a.csv","lifetime":"1h","max_uses":2}`, status: 201})).ID
	again, old := p.published("acme", "swept", "Swept", "a.csv", "id\n1\n")
	p.again(again, "id\n2\n")
	p.playAll(
		scene{operation: file, fill: export + " a.csv", status: 206, header: []string{"Range", "bytes=0-1"}},
		scene{operation: file, fill: export + " a.csv", status: 304, header: []string{"If-None-Match", got.Header.Get("ETag")}},
		scene{operation: file, fill: export + " a.csv", status: 416, header: []string{"Range", "bytes=900-"}},
		scene{operation: file, fill: export + " b.csv", status: 404},
		scene{operation: file, fill: export + " a.csv", who: p.globex, status: 404},
		scene{operation: "GET /api/v1/exports", query: "limit=1", status: 200},
		scene{operation: "GET /api/v1/exports", query: "q=swept", status: 200},
		scene{operation: "GET /api/v1/exports/{id}", fill: export, status: 200},
		scene{operation: "POST /api/v1/exports/{id}/links", fill: export, body: `{"file":"a.csv","lifetime":"soon"}`, status: 422},
		scene{operation: "GET /api/v1/exports/{id}/links", fill: export, status: 200},
		scene{operation: "DELETE /api/v1/exports/{id}/links/{link}", fill: export + " " + link, status: 200},
		scene{operation: "GET /api/v1/exports/{id}/links", fill: export, status: 200},
		scene{operation: "GET /api/v1/reports", status: 200},
		scene{operation: "GET /api/v1/reports", who: p.acme, status: 200},
	)
	must(storage.NewSweep(p.store, p.files, storage.SweepOptions{Worker: "w"}).Run(p.ctx))(p.t)
	p.play(scene{operation: "GET /api/v1/exports/{id}/attempts/{attempt}/files/{name}", fill: again.ExportID.String() + " " + old.ID.String() + " a.csv", status: 410})
}

func (p *probe) invoiceScenes() {
	p.t.Helper()
	if err := p.store.CreateSeries(p.ctx, storage.Series{Tenant: "acme", Name: "s", Prefix: "A-", Digits: 3, First: 1}); err != nil {
		p.t.Fatal(err)
	}
	body := `{"series":"s","customer":"c1","period":"2026-10","document":` + numberless(p.t) + `}`
	p.playAll(
		scene{operation: "POST /api/v1/invoices", who: p.acme, body: body, status: 201},
		scene{operation: "POST /api/v1/invoices", who: p.acme, body: body, status: 200},
		scene{operation: "POST /api/v1/invoices", who: p.acme, body: `{"series":"s","document":` + string(invoice.Example()) + `}`, status: 422},
		scene{operation: "GET /api/v1/invoices/schema", status: 200},
		scene{operation: "GET /api/v1/series/{name}", fill: "s", who: p.acme, status: 200},
		scene{operation: "GET /api/v1/series/{name}", fill: "s", query: "tenant=acme", who: p.globex, status: 403},
	)
	if err := p.store.VoidInvoice(p.ctx, principalAll.scope, "A-001", "wrong"); err != nil {
		p.t.Fatal(err)
	}
	p.play(scene{operation: "GET /api/v1/series/{name}", fill: "s", query: "tenant=acme", status: 200})
}

func (p *probe) batchScenes() {
	p.t.Helper()
	made := p.play(scene{operation: "POST /api/v1/batches", body: `{"tenant":"acme","title":"Night","key":"n","jobs":[` + noteBody + `],"chains":[[` + noteBody + `]],"finally":` + noteBody + `}`, status: 202})
	id := strings.TrimPrefix(made.Header.Get("Location"), "/api/v1/batches/")
	p.playAll(
		scene{operation: "GET /api/v1/batches", query: "limit=1", status: 200},
		scene{operation: "GET /api/v1/batches", query: "after=x", status: 400},
		scene{operation: "GET /api/v1/batches/{id}", fill: id, status: 200},
		scene{operation: "GET /api/v1/batches/{id}", fill: id, who: p.globex, status: 404},
		scene{operation: "POST /api/v1/batches/{id}/retry", fill: id, status: 200},
		scene{operation: "POST /api/v1/batches/{id}/cancel", fill: id, status: 200},
	)
}

func (p *probe) scheduleScenes() {
	p.t.Helper()
	body := `{"cron":"0 3 * * *","zone":"Europe/Berlin","kind":"note","payload":{"text":"x"},"overlap":false,"missed":"once","options":{"queue":"mail"}}`
	put := "PUT /api/v1/schedules/{name}"
	p.playAll(
		scene{operation: put, fill: "nightly", who: p.acme, body: body, status: 201},
		scene{operation: put, fill: "nightly", who: p.acme, body: body, status: 200},
		scene{operation: put, fill: "nightly", who: p.acme, body: strings.Replace(body, "0 3", "99 3", 1), status: 422},
		scene{operation: put, fill: "nightly", who: p.viewer, body: body, status: 403},
		scene{operation: "POST /api/v1/schedules/{name}/run", fill: "nightly", status: 202},
		scene{operation: "POST /api/v1/schedules/{name}/run", fill: "nightly", status: 409},
		scene{operation: "POST /api/v1/schedules/{name}/pause", fill: "nightly", status: 200},
		scene{operation: "POST /api/v1/schedules/{name}/resume", fill: "nightly", status: 200},
		scene{operation: "GET /api/v1/schedules/{name}/runs", fill: "nightly", status: 200},
		scene{operation: "GET /api/v1/schedules", status: 200},
		scene{operation: "GET /api/v1/schedules/{name}", fill: "nightly", status: 200},
		scene{operation: "DELETE /api/v1/schedules/{name}", fill: "nightly", status: 204},
	)
}

func (p *probe) queueScenes() {
	p.t.Helper()
	j := p.note(p.all, "acme", `,"queue":"busy"`)
	p.end(j, storage.Finish{}) // it goes on
	p.playAll(
		scene{operation: "POST /api/v1/queues/{name}/pause", fill: "mail", status: 200},
		scene{operation: "POST /api/v1/queues/{name}/pause", fill: "a%20b", status: 422},
		scene{operation: "GET /api/v1/queues", status: 200},
		scene{operation: "GET /api/v1/queues", who: p.acme, status: 403},
		scene{operation: "POST /api/v1/queues/{name}/resume", fill: "mail", status: 200},
		scene{operation: "GET /api/v1/workers", status: 200},
	)
}

func (p *probe) labScenes() {
	p.t.Helper()
	p.playLab()
	p.playAll(
		scene{operation: "GET /api/v1/lab", status: 200},
		scene{operation: "GET /api/v1/lab", who: p.acme, status: 200}, // nothing in it is anybody's
	)
}

func (p *probe) noticeScenes() {
	p.t.Helper()
	body := `{"name":"shop","kind":"webhook","url":"http://hooks.internal/x","topics":["export.published"],"job_kinds":["report"]}`
	add := "POST " + targetsPath
	made := decode[targetJSON](p.t, p.play(scene{operation: add, who: p.acme, body: body, status: 201}))
	one := "/api/v1/notify/targets/{id}"
	delivery := decode[struct{ ID string }](p.t, p.play(scene{operation: "POST " + one + "/test", fill: made.ID, status: 202})).ID
	p.playAll(
		scene{operation: add, who: p.acme, body: body, status: 409},
		scene{operation: add, who: p.acme, body: strings.Replace(body, "{", `{"tenant":"globex",`, 1), status: 403},
		scene{operation: "GET " + targetsPath, status: 200},
		scene{operation: "GET " + one, fill: made.ID, status: 200},
		scene{operation: "POST " + one + "/rotate", fill: made.ID, status: 200},
		scene{operation: "POST " + one + "/disable", fill: made.ID, status: 200},
		scene{operation: "POST " + one + "/test", fill: made.ID, status: 422},
		scene{operation: "GET " + one, fill: made.ID, status: 200},
		scene{operation: "POST " + one + "/enable", fill: made.ID, status: 200},
		scene{operation: "GET /api/v1/notify/deliveries", query: "limit=1&target=" + made.ID, status: 200},
		scene{operation: "GET /api/v1/notify/deliveries", query: "state=lost", status: 422},
		scene{operation: "GET /api/v1/notify/deliveries/{id}", fill: delivery, status: 200},
		scene{operation: "POST /api/v1/notify/deliveries/{id}/replay", fill: delivery, status: 202},
		scene{operation: "POST /api/v1/notify/deliveries/replay", body: `{"target":"` + made.ID + `"}`, status: 202},
		scene{operation: "POST /api/v1/notify/deliveries/replay", query: "target=" + uuid.NewString(), status: 404},
		scene{operation: "DELETE " + one, fill: made.ID, status: 204},
	)
}

// keepScenes are about rules, pins, holds and deleted exports.
func (p *probe) keepScenes() {
	p.t.Helper()
	p.retentionScenes()
	j, attempt := p.published("acme", "kept", "Kept", "a.csv", "id\n1\n")
	one, fill := "/api/v1/exports/{id}", j.ExportID.String()
	note := `{"note":"case 7"}`
	p.playAll(
		scene{operation: "POST " + one + "/pin", fill: fill, body: note, status: 200},
		scene{operation: "POST " + one + "/pin", fill: fill, body: `{"note":"case 7","attempt":"` + attempt.ID.String() + `"}`, status: 200},
		scene{operation: "POST " + one + "/pin", fill: fill, body: `{"note":"case 7","attempt":"` + uuid.NewString() + `"}`, status: 404},
		scene{operation: "POST " + one + "/pin", fill: fill, body: note, who: p.globex, status: 404},
		scene{operation: "DELETE " + one, fill: fill, status: 409},
		scene{operation: "GET /api/v1/retention/kept", query: "limit=1", status: 200},
		scene{operation: "GET /api/v1/retention/kept", query: "export=" + fill, status: 200},
		scene{operation: "GET /api/v1/retention/kept", query: "export=x", status: 422},
		scene{operation: "POST " + one + "/unpin", fill: fill, status: 200},
		scene{operation: "POST " + one + "/unpin", fill: fill, status: 404},
		scene{operation: "POST " + one + "/unpin", fill: fill, query: "attempt=" + attempt.ID.String(), status: 200},
		scene{operation: "POST " + one + "/unpin", fill: fill, query: "attempt=x", status: 422},
		scene{operation: "POST " + one + "/hold", fill: fill, body: note, status: 200},
		scene{operation: "POST " + one + "/hold", fill: fill, body: note, status: 409},
		scene{operation: "DELETE " + one, fill: fill, status: 409},
		scene{operation: "POST " + one + "/release", fill: fill, status: 200},
		scene{operation: "POST " + one + "/release", fill: fill, status: 404},
		scene{operation: "DELETE " + one, fill: fill, status: 200},
		scene{operation: "DELETE " + one, fill: fill, status: 404},
		scene{operation: "GET /api/v1/retention/deleted", query: "limit=1", status: 200},
		scene{operation: "POST " + one + "/restore", fill: fill, status: 200},
		scene{operation: "POST " + one + "/restore", fill: fill, status: 404},
	)
	for _, operation := range objectFirst() {
		p.playAll(
			scene{operation: operation, fill: fill, body: `{"nonsense":1}`, status: 422},
			scene{operation: operation, fill: fill, body: `{}`, status: 422},
			scene{operation: operation, fill: fill, body: note, status: 415, header: []string{"Content-Type", "text/plain"}},
		)
	}
	p.play(scene{operation: "DELETE " + one, fill: fill, status: 200})
	must(storage.NewSweep(p.store, p.files, storage.SweepOptions{Worker: "w"}).Run(p.ctx))(p.t) // its files go
	p.play(scene{operation: "POST " + one + "/restore", fill: fill, status: 409})
}

func (p *probe) retentionScenes() {
	p.t.Helper()
	at := "/api/v1/retention"
	p.playAll(
		scene{operation: "PUT " + at, body: `{}`, status: 200},
		scene{operation: "PUT " + at, who: p.acme, body: `{"kind":"note","current_days":90,"superseded_days":30,"superseded_keep":5}`, status: 200},
		scene{operation: "PUT " + at, body: `{"current_days":0}`, status: 422},
		scene{operation: "PUT " + at, body: `{"superseded_keep":5}`, status: 422},
		scene{operation: "PUT " + at, who: p.acme, body: `{"tenant":"globex"}`, status: 403},
		scene{operation: "GET " + at, status: 200},
		scene{operation: "GET " + at, who: p.globex, status: 200},
		scene{operation: "GET " + at + "/in-force", query: "limit=1", status: 200},
		scene{operation: "GET " + at + "/in-force", query: "after=x", status: 400},
		scene{operation: "POST " + at + "/preview", body: `{"tenant":"acme","kind":"report","current_days":30,"superseded_days":14}`, status: 200},
		scene{operation: "POST " + at + "/preview", body: `{"kind":"note","remove":true}`, status: 200},
		scene{operation: "POST " + at + "/preview", body: `{"current_days":0}`, status: 422},
		scene{operation: "POST " + at + "/preview", who: p.acme, body: `{"tenant":"globex"}`, status: 403},
		scene{operation: "DELETE " + at, query: "tenant=acme&kind=note", who: p.globex, status: 403},
		scene{operation: "DELETE " + at, query: "kind=note", who: p.globex, status: 404},
		scene{operation: "DELETE " + at, query: "tenant=acme&kind=note", status: 200},
		scene{operation: "DELETE " + at, status: 200},
		scene{operation: "DELETE " + at, status: 404},
	)
}

func (p *probe) cleanupScenes() {
	p.t.Helper()
	j, _ := p.published("acme", "to be cleaned", "Cleaned", "a.csv", "id\n1\n")
	p.again(j, "id\n2\n")
	p.playAll(
		scene{operation: "GET /api/v1/sweep/plan", query: "limit=10", status: 200},
		scene{operation: "GET /api/v1/sweep/plan", who: p.acme, status: 403},
		scene{operation: "POST /api/v1/sweep/run", status: 202},
	)
	eventually(p.t, "the clean-up has deleted something", func() bool {
		var list struct{ Items []json.RawMessage }
		got := p.play(scene{operation: "GET /api/v1/sweep/deletions", query: "limit=100", status: 200})
		return json.Unmarshal([]byte(got.body), &list) == nil && len(list.Items) > 0
	})
	p.playAll(
		scene{operation: "GET /api/v1/sweeps", status: 200},
		scene{operation: "GET /api/v1/sweep/deletions", query: "run=1", status: 200},
		scene{operation: "GET /api/v1/sweep/deletions", query: "run=x", status: 422},
	)
	if err := p.store.SwitchSweep(p.ctx, false, "Root", "moving"); err != nil {
		p.t.Fatal(err)
	}
	p.play(scene{operation: "POST /api/v1/sweep/run", status: 409})
}
