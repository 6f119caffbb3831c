package web

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// apiSchedules lists schedules by name, each with its next time and its newest run.
func (s *Server) apiSchedules(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	refused := new(invalid.Error)
	f := storage.ScheduleFilter{After: q.Get("after"), Limit: limit(q, refused)}
	if err := refused.OrNil(); err != nil {
		return err
	}
	page, err := s.schedules.List(r.Context(), of(r).principal.scope, f)
	if err != nil {
		return err
	}
	return respondPage(w, r, page)
}

// apiSchedule shows a schedule with its next five times.
func (s *Server) apiSchedule(w http.ResponseWriter, r *http.Request) error {
	return s.respondSchedule(w, r, http.StatusOK)
}

func (s *Server) respondSchedule(w http.ResponseWriter, r *http.Request, status int) error {
	v, err := s.schedules.Show(r.Context(), of(r).principal.scope, r.PathValue("name"))
	if err != nil {
		return err
	}
	return respond(w, status, v)
}

// apiPutSchedule makes a schedule (201) or replaces the one of its name (200).
func (s *Server) apiPutSchedule(w http.ResponseWriter, r *http.Request) error {
	sc := storage.Schedule{Name: r.PathValue("name"), Overlap: true}
	err := readObject(w, r, map[string]any{
		"cron": &sc.Cron, "zone": &sc.Zone, "tenant": &sc.Tenant, "kind": &sc.Kind, "payload": &sc.Payload, "missed": &sc.Missed, "overlap": &sc.Overlap,
		"options": (*json.RawMessage)(&sc.Options),
	})
	if err != nil {
		return err
	}
	who := of(r).principal
	if sc.Tenant, err = tenantFor(who, sc.Tenant); err != nil {
		return err
	}
	_, created, err := s.schedules.Put(r.Context(), who.scope, sc, who.name)
	if err != nil {
		return err
	}
	s.log.Info("schedule saved", "request_id", of(r).id, "schedule", sc.Name, "new", created, "who", who.name)
	if err := s.audit(r, auditScheduleSaved, object{"schedule", sc.Name, cmp.Or(sc.Tenant, jobs.DefaultTenant)}, map[string]any{"new": created, "cron": sc.Cron, "kind": sc.Kind}); err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return s.respondSchedule(w, r, status)
}

// apiDeleteSchedule deletes a schedule: 204. Its jobs and its runs stay.
func (s *Server) apiDeleteSchedule(w http.ResponseWriter, r *http.Request) error {
	who := of(r).principal
	if err := s.store.DeleteSchedule(r.Context(), who.scope, r.PathValue("name")); err != nil {
		return err
	}
	s.log.Info("schedule deleted", "request_id", of(r).id, "schedule", r.PathValue("name"), "who", who.name)
	if err := s.audit(r, auditScheduleDeleted, object{kind: "schedule", id: r.PathValue("name")}, nil); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// apiPauseSchedule lets a schedule fire no more.
func (s *Server) apiPauseSchedule(w http.ResponseWriter, r *http.Request) error {
	who := of(r).principal
	if err := s.store.PauseSchedule(r.Context(), who.scope, r.PathValue("name")); err != nil {
		return err
	}
	s.log.Info("schedule paused", "request_id", of(r).id, "schedule", r.PathValue("name"), "who", who.name)
	if err := s.audit(r, auditSchedulePaused, object{kind: "schedule", id: r.PathValue("name")}, nil); err != nil {
		return err
	}
	return s.respondSchedule(w, r, http.StatusOK)
}

// apiResumeSchedule lets a paused schedule fire again.
func (s *Server) apiResumeSchedule(w http.ResponseWriter, r *http.Request) error {
	who := of(r).principal
	if err := s.store.ResumeSchedule(r.Context(), who.scope, r.PathValue("name")); err != nil {
		return err
	}
	s.log.Info("schedule resumed", "request_id", of(r).id, "schedule", r.PathValue("name"), "who", who.name)
	if err := s.audit(r, auditScheduleResumed, object{kind: "schedule", id: r.PathValue("name")}, nil); err != nil {
		return err
	}
	return s.respondSchedule(w, r, http.StatusOK)
}

// apiRunSchedule fires a schedule by hand: 202, with its job.
func (s *Server) apiRunSchedule(w http.ResponseWriter, r *http.Request) error {
	who := of(r).principal
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	if key != "" {
		key = "api " + who.scope.Tenant + " " + key
	}
	run, again, err := s.schedules.RunNow(r.Context(), who.scope, r.PathValue("name"), who.name, key)
	if err != nil {
		return err
	}
	s.log.Info("schedule run by hand", "request_id", of(r).id, "schedule", run.Schedule, "job", run.JobID, "again", again, "who", who.name)
	if !again {
		if err := s.audit(r, auditScheduleRun, object{kind: "schedule", id: run.Schedule}, map[string]any{"job": run.JobID}); err != nil {
			return err
		}
	}
	if run.JobID != nil { // it may have been pruned since the first request
		w.Header().Set("Location", "/api/v1/jobs/"+run.JobID.String())
	}
	return respond(w, http.StatusAccepted, run)
}

// apiScheduleRuns lists the runs of a schedule, the newest first.
func (s *Server) apiScheduleRuns(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	refused := new(invalid.Error)
	most := limit(q, refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	page, err := s.store.ScheduleRuns(r.Context(), of(r).principal.scope, r.PathValue("name"), q.Get("after"), most)
	if err != nil {
		return err
	}
	return respondPage(w, r, page)
}
