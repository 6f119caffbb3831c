package web

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// cells are the texts of the cells of a row of a table, by their labels.
func cells(t *testing.T, a answer, rowID string) map[string]string {
	t.Helper()
	_, row, found := strings.Cut(a.body, `<tr id="`+rowID+`">`)
	if !found {
		t.Fatalf("there is no row %s:\n%s", rowID, a.body)
	}
	row, _, _ = strings.Cut(row, "</tr>")
	list := map[string]string{}
	for _, m := range regexp.MustCompile(`(?s)<td data-label="([^"]+)"[^>]*>(.*?)</td>`).FindAllStringSubmatch(row, -1) {
		list[m[1]] = strings.TrimSpace(regexp.MustCompile(`<[^>]+>`).ReplaceAllString(m[2], " "))
	}
	return list
}

// worker makes a worker known whose last heartbeat is so old.
func (w *world) worker(name string, silent time.Duration) uuid.UUID {
	w.t.Helper()
	id := uuid.New()
	err := w.store.RegisterWorker(w.ctx, storage.Worker{ID: id, Name: name, Host: "host-1", PID: 7, Version: "v1.2", Queues: json.RawMessage(`{"default":1,"mail":3}`), Concurrency: 4})
	if err != nil {
		w.t.Fatal(err)
	}
	w.exec("UPDATE fenceline.workers SET heartbeat_at = clock_timestamp() - make_interval(secs => ?) WHERE id = ?", silent.Seconds(), id)
	return id
}

func TestQueuesPageEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("/queues", w.person("Nadia", "")).want(t, 200, "No queue holds anything.", "No worker was seen", "fenceline work", "No limit holds anything back.", "No fence was drawn.").without(t, "<table")
}

// What waits is parted by why: due, later, held and running are all that has not ended.
func TestQueuesPageParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, api := w.person("Nadia", ""), w.token("")
	for range 3 {
		w.note(api, "acme", `,"queue":"mail"`)
	}
	w.note(api, "acme", `,"queue":"mail","delay":"1h"`)
	w.note(api, "acme", `,"queue":"mail","delay":"2h"`)
	held := w.note(api, "acme", `,"queue":"mail"`)
	w.exec("UPDATE fenceline.jobs SET waiting_for = 'cap', ready_at = NULL WHERE id = ?", held.ID)
	w.end(w.note(api, "acme", `,"queue":"mail","priority":100`), storage.Finish{})
	w.failedNote(api, "acme", `,"queue":"mail","priority":100`) // has ended: counted nowhere

	got := cells(t, w.get("/queues", who).want(t, 200), "q-mail")
	want := map[string]string{"Due now": "3", "Later": "2", "Held": "1", "Running": "1"}
	sum := 0
	for label, n := range want {
		if got[label] != n {
			t.Errorf("%s is %q, want %s", label, got[label], n)
		}
		v, _ := strconv.Atoi(got[label])
		sum += v
	}
	page := must(w.store.SearchJobs(w.ctx, principalAll.scope, storage.JobSearch{JobFilter: storage.JobFilter{Queue: "mail"}}))(t)
	alive := 0
	for _, j := range page.Items {
		if !j.State.Ended() {
			alive++
		}
	}
	if sum != alive {
		t.Errorf("the parts are %d, the jobs that have not ended %d", sum, alive)
	}
	if got["Oldest wait"] == "–" {
		t.Error("nothing has waited, though three jobs are due")
	}
}

func TestPauseAQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	api := w.token("")
	w.note(api, "acme", `,"queue":"mail"`)
	op := w.personAs("Omar", "", storage.RoleOperator)
	w.get("/queues", op).want(t, 200, "1 job that is due would wait", `action="/queues/mail/pause"`)
	w.post("/queues/mail/pause", op, nil).want(t, 303)
	w.get("/queues", op).want(t, 200, ">paused</span>", "<bdi>Omar</bdi>", `action="/queues/mail/resume"`).without(t, "/pause\"")
	w.post("/queues/mail/resume", op, nil).want(t, 303)
	w.get("/queues", op).without(t, ">paused</span>")
	w.post("/queues/mail/resume", op, nil).want(t, 303) // an impatient second click
	w.post("/queues/"+strings.Repeat("x", 70)+"/pause", op, nil).want(t, 422)

	viewer := w.personAs("Vera", "", storage.RoleViewer)
	w.get("/queues", viewer).want(t, 200).without(t, "/pause", "/resume")
	w.post("/queues/mail/pause", viewer, nil).want(t, 403)
	ada := w.personAs("Ada", "acme", storage.RoleAdmin) // of one tenant; queues are of all
	w.get("/queues", ada).want(t, 404)
	w.post("/queues/mail/pause", ada, nil).want(t, 403)
	w.get("/jobs", ada).without(t, `href="/queues"`)
	if got := must(w.store.Queues(w.ctx))(t); len(got) != 1 || got[0].PausedAt != nil {
		t.Errorf("the queues are %+v", got)
	}
}

func TestWorkersOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, api := w.person("Nadia", ""), w.token("")
	fresh, frozen, lost, gone := w.worker("w-fresh", 0), w.worker("w-frozen", 12*time.Second), w.worker("w-lost", time.Hour), w.worker("w-gone", 0)
	if err := w.store.WorkerStopped(w.ctx, gone); err != nil {
		t.Fatal(err)
	}
	job := w.note(api, "acme", "")
	must(w.store.Turn(w.ctx, fresh, nil, []storage.Want{{Queue: "default", Runs: []uuid.UUID{uuid.New()}}}))(t)
	must(w.store.BeatWorker(w.ctx, fresh, 1, nil))(t)
	export := w.job("acme", "k", "Sales <b>")
	w.begin(export, "w-frozen")

	page := w.get("/queues", who).want(t, 200, "2 alive, 1 of 8 slots busy", "host-1", "v1.2", "mail ×3")
	page.without(t, "Sales <b>")
	for id, want := range map[uuid.UUID][2]string{fresh: {"alive", "note"}, frozen: {"silent", "Sales &lt;b&gt;"}, lost: {"lost", "nothing"}, gone: {"stopped", "nothing"}} {
		got := cells(t, page, "w-"+id.String())
		if !strings.Contains(got["State"], want[0]) || !strings.Contains(got["Works on"], want[1]) {
			t.Errorf("the worker is %+v, want %v", got, want)
		}
	}
	page.want(t, 200, "/jobs/"+job.ID.String(), "/jobs/"+export.ID.String())
	w.exec("UPDATE fenceline.workers SET heartbeat_at = clock_timestamp() - interval '2 days', stopped_at = NULL WHERE id = ?", lost)
	w.get("/queues", who).without(t, "w-lost")
}

func TestLimitsAndFencesOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	w.exec(`INSERT INTO fenceline.limit_circuits (tenant, key, failures, opened_at, open_until, expires_at)
		VALUES ('acme', 'kind:mail', ARRAY[now()], now(), now() + interval '1 hour', now() + interval '2 hours')`)
	if err := w.store.SetCap(w.ctx, storage.Cap{Scope: "queue", Name: "mail", MaxRunning: 4}); err != nil {
		t.Fatal(err)
	}
	for i := range 2*listRows + 1 {
		w.exec("SELECT fenceline.fence_token(?, ?, ?)", "acme", fmt.Sprintf("account:%03d", i), "w-1")
	}
	page := w.get("/queues", who).want(t, 200, "kind:mail", ">open</span>", "4 at once", "account:000", `href="/queues?fences=`)
	page.without(t, fmt.Sprintf("account:%03d", listRows))
	next := regexp.MustCompile(`href="(/queues\?fences=[^"#]+)`).FindStringSubmatch(page.body)
	second := w.get(next[1], who).want(t, 200, fmt.Sprintf("account:%03d", listRows), "account:049", `href="/queues#fences">Newest`)
	next = regexp.MustCompile(`href="(/queues\?fences=[^"#]+)`).FindStringSubmatch(second.body)
	w.get(next[1], who).want(t, 200, "account:050").without(t, "account:049", "?fences=")
	w.get("/queues?fences=rubbish", who).want(t, 400, "Start again")
	w.get("/queues?limits=%ff", who).want(t, 400, "Start again")
}
