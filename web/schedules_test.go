package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

const ordersSchedule = `{"cron":"30 2 * * *","zone":"Europe/Berlin","kind":"report","payload":{"report":"orders","params":{"from":"@yesterday"}},"missed":"skip","overlap":false,"options":{"queue":"slow","timeout":"90s"}}`

func (w *world) putSchedule(name string, who creds, body string) answer {
	w.t.Helper()
	return w.send("PUT", "/api/v1/schedules/"+name, who, strings.NewReader(body), "Content-Type", "application/json")
}

type scheduleAnswer struct {
	Name, Cron, Zone, Tenant, Missed, Source string
	Overlap                                  bool
	ChangedBy                                string  `json:"changed_by"`
	PausedAt                                 *string `json:"paused_at"`
	LastOutcome                              string  `json:"last_outcome"`
	LastState                                string  `json:"last_state"`
	Next                                     []string
}

func TestAPISchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("acme")
	made := decode[scheduleAnswer](t, w.putSchedule("nightly", who, ordersSchedule).want(t, 201))
	if made.Tenant != "acme" || made.Missed != "skip" || made.Overlap || made.Source != "edited" || made.ChangedBy != "token test" || len(made.Next) != 5 || !strings.Contains(made.Next[0], "T02:30:00+") {
		t.Errorf("%+v", made)
	}
	w.putSchedule("nightly", who, strings.Replace(ordersSchedule, "30 2", "45 2", 1)).want(t, 200, `"cron":"45 2 * * *"`)
	const at = "/api/v1/schedules/nightly"
	w.get(at, who).want(t, 200, `"cron":"45 2 * * *"`)
	w.get("/api/v1/schedules", who).want(t, 200, `"name":"nightly"`, `"next":["`)
	if p := decode[scheduleAnswer](t, w.call(at+"/pause", who, "").want(t, 200)); p.PausedAt == nil || len(p.Next) != 0 {
		t.Errorf("%+v", p)
	}
	ran := w.call(at+"/run", who, "").want(t, 202, `"manual":true`, `"asked_by":"token test"`, `"job_id":"`)
	w.get(ran.Header.Get("Location"), who).want(t, 200, `"queue":"slow"`, `"timeout_seconds":90`)
	w.call(at+"/run", who, "").want(t, 409, "schedule-overlaps")
	w.get(at+"/runs", who).want(t, 200, `"outcome":"dispatched"`, `"job_state":"queued"`)
	if p := decode[scheduleAnswer](t, w.call(at+"/resume", who, "").want(t, 200)); p.PausedAt != nil || p.LastOutcome != "dispatched" || p.LastState != "queued" {
		t.Errorf("%+v", p)
	}
	w.send("DELETE", at, who, nil).want(t, 204)
	w.get(at, who).want(t, 404)
	w.get(at+"/runs", who).want(t, 200, `"outcome":"dispatched"`) // the history stays
}

func TestAPISchedulesRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, other := w.token("acme"), w.token("globex")
	w.putSchedule("nightly", who, ordersSchedule).want(t, 201)
	for name, tt := range map[string]struct{ body, field string }{
		"no cron":       {`{"kind":"report","payload":{"report":"orders"}}`, "cron"},
		"bad cron":      {strings.Replace(ordersSchedule, "30 2", "30 25", 1), "cron"},
		"bad zone":      {strings.Replace(ordersSchedule, "Berlin", "Atlantis", 1), "zone"},
		"bad word":      {strings.Replace(ordersSchedule, "@yesterday", "@someday", 1), "params.from"},
		"bad option":    {strings.Replace(ordersSchedule, `"queue"`, `"quee"`, 1), "options.quee"},
		"bad overlap":   {strings.Replace(ordersSchedule, "false", `"no"`, 1), "overlap"},
		"bad missed":    {strings.Replace(ordersSchedule, "skip", "some", 1), "missed"},
		"unknown field": {`{"corn":"@daily"}`, "corn"},
		"no such kind":  {strings.Replace(ordersSchedule, `"kind":"report"`, `"kind":"reprot"`, 1), "kind"},
	} {
		p := decode[problem](t, w.putSchedule("other", who, tt.body).want(t, 422))
		if len(p.Errors) == 0 || p.Errors[0].Field != tt.field {
			t.Errorf("%s: %+v", name, p)
		}
	}
	w.putSchedule("a%20b", who, ordersSchedule).want(t, 422, `"field":"name"`)
	w.putSchedule("x", who, strings.Replace(ordersSchedule, `{"cron"`, `{"tenant":"globex","cron"`, 1)).want(t, 403)
	w.putSchedule("nightly", other, ordersSchedule).want(t, 409, "name-taken")
	const at = "/api/v1/schedules/nightly"
	for _, path := range []string{at + "/pause", at + "/resume", at + "/run"} {
		w.call(path, other, "").want(t, 404)
	}
	w.get(at, other).want(t, 404)
	w.get(at+"/runs", other).want(t, 404)
	w.send("DELETE", at, other, nil).want(t, 404)
	w.get("/api/v1/schedules", other).want(t, 200, `{"items":[]}`)
	w.get("/api/v1/schedules?limit=x", who).want(t, 422)
	w.get(at+"/runs?after=x", who).want(t, 400, "cursor")
	if _, err := w.store.SyncSchedules(w.ctx, storage.ScheduleFile{Path: "s.yml"}, []storage.Schedule{{Name: "filed", Cron: "@daily", Zone: "UTC", Tenant: "acme", Kind: "report",
		Payload: []byte(`{}`), Options: []byte(`{}`), Missed: "once"}}); err != nil {
		t.Fatal(err)
	}
	w.putSchedule("filed", who, ordersSchedule).want(t, http.StatusConflict, "schedule-from-file")
	w.send("DELETE", "/api/v1/schedules/filed", who, nil).want(t, http.StatusConflict, "schedule-from-file")
	w.call("/api/v1/schedules/filed/pause", who, "").want(t, 200)
}
