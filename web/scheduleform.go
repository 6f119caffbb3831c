package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// scheduleFormView is the form of a schedule.
type scheduleFormView struct {
	Name   string // of the one that is changed; empty for a new one
	Action string
	Back   string
	Fields []formField
	// Problems are those that belong to no field; Wrong says that there is any.
	Problems []string
	Wrong    bool
	Times    []fireTime // the next times of what the form says
	Never    bool       // it says a time that never comes
}

// scheduleValues is a schedule as the form holds it.
func scheduleValues(sc storage.Schedule) url.Values {
	payload, _ := showPayload(sc.Payload)
	overlap := "no"
	if sc.Overlap {
		overlap = "yes"
	}
	v := url.Values{"tenant": {sc.Tenant}, "kind": {sc.Kind}, "payload": {payload}, "cron": {sc.Cron}, "zone": {sc.Zone}, "missed": {sc.Missed}, "overlap": {overlap}}
	if len(sc.Options) > 2 {
		v.Set("options", string(sc.Options))
	}
	return v
}

func (s *Server) newSchedulePage(w http.ResponseWriter, r *http.Request) error {
	given := url.Values{"zone": {"UTC"}, "payload": {"{}"}, "overlap": {"yes"}}
	return s.showSchedule(w, r, http.StatusOK, "", given, nil)
}

func (s *Server) editSchedulePage(w http.ResponseWriter, r *http.Request) error {
	sc, err := s.store.Schedule(r.Context(), of(r).principal.scope, r.PathValue("name"))
	if err != nil {
		return err
	}
	if sc.Source == storage.FromFile {
		return errFromFile
	}
	if len(sc.Payload) > maxShown {
		return &failure{http.StatusConflict, "payload-too-large", "Too large for the form", "The payload of this schedule is too large to be changed here. Use “fenceline schedule put”, or the API."}
	}
	return s.showSchedule(w, r, http.StatusOK, sc.Name, scheduleValues(sc.Schedule), nil)
}

// previewScheduleForm shows the form again with the next five times of what it says.
func (s *Server) previewScheduleForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	_, _, err := jobs.ParseCron(r.PostForm.Get("cron"), cmp.Or(strings.TrimSpace(r.PostForm.Get("zone")), "UTC"))
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return s.showSchedule(w, r, http.StatusUnprocessableEntity, r.PostForm.Get("changes"), r.PostForm, bad.Problems)
	}
	if err != nil {
		return err
	}
	return s.showSchedule(w, r, http.StatusOK, r.PostForm.Get("changes"), r.PostForm, nil)
}

func (s *Server) newScheduleForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	name := strings.TrimSpace(r.PostForm.Get("name"))
	taken, err := s.taken(r, name)
	if err != nil {
		return err
	}
	if taken { // saving would replace it
		return s.showSchedule(w, r, http.StatusUnprocessableEntity, "", r.PostForm, []invalid.Problem{{Field: "name", Value: name, Message: "is taken: change that schedule, or choose another name"}})
	}
	return s.saveSchedule(w, r, "", name)
}

func (s *Server) editScheduleForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	name := r.PathValue("name")
	if _, err := s.store.Schedule(r.Context(), of(r).principal.scope, name); err != nil {
		return err
	}
	return s.saveSchedule(w, r, name, name)
}

// saveSchedule keeps what the form says; changes is the schedule that it is about, empty for a new one.
func (s *Server) saveSchedule(w http.ResponseWriter, r *http.Request, changes, name string) error {
	who := of(r).principal
	sc, err := scheduleOf(who, name, r.PostForm)
	created := false
	if err == nil {
		_, created, err = s.schedules.Put(r.Context(), who.scope, sc, who.name)
	}
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return s.showSchedule(w, r, http.StatusUnprocessableEntity, changes, r.PostForm, bad.Problems)
	}
	if err != nil {
		return err
	}
	s.log.Info(auditScheduleSaved, "request_id", of(r).id, "schedule", name, "new", created, "who", who.name)
	if err := s.audit(r, auditScheduleSaved, object{"schedule", name, cmp.Or(sc.Tenant, jobs.DefaultTenant)}, map[string]any{"new": created, "cron": sc.Cron, "kind": sc.Kind}); err != nil {
		return err
	}
	http.Redirect(w, r, schedulePath(name), http.StatusSeeOther)
	return nil
}

// scheduleOf reads the form.
func scheduleOf(who principal, name string, form url.Values) (sc storage.Schedule, err error) {
	text := func(field string) string { return strings.TrimSpace(form.Get(field)) }
	sc = storage.Schedule{Name: name, Cron: text("cron"), Zone: text("zone"), Kind: text("kind"), Missed: text("missed"), Overlap: text("overlap") != "no",
		Payload: json.RawMessage(cmp.Or(text("payload"), "{}"))}
	refused := new(invalid.Error)
	if !json.Valid(sc.Payload) {
		refused.Add("payload", "", "is not JSON: it must be an object such as {\"report\": \"orders\"}")
	}
	if options := text("options"); options != "" {
		if sc.Options = json.RawMessage(options); !json.Valid(sc.Options) {
			refused.Add("options", "", "are not JSON: they must be an object such as {\"queue\": \"mail\"}")
		}
	}
	if err := refused.OrNil(); err != nil {
		return sc, err
	}
	sc.Tenant, err = tenantFor(who, text("tenant"))
	return sc, err
}

// showSchedule shows the form with what it holds.
func (s *Server) showSchedule(w http.ResponseWriter, r *http.Request, status int, changes string, given url.Values, problems []invalid.Problem) error {
	v := scheduleFormView{Name: changes, Action: "/schedules/-/new", Back: "/schedules", Wrong: len(problems) > 0}
	if changes != "" {
		v.Back = schedulePath(changes)
		v.Action = v.Back + "/edit"
	}
	v.Fields = s.scheduleFields(of(r).principal, changes == "")
	for i := range v.Fields {
		v.Fields[i].Value = given.Get(v.Fields[i].Name)
	}
	for _, p := range problems {
		v.place(p)
	}
	if cron := strings.TrimSpace(given.Get("cron")); cron != "" {
		fires, err := jobs.NextFires(storage.Schedule{Cron: cron, Zone: cmp.Or(strings.TrimSpace(given.Get("zone")), "UTC")}, time.Now(), 5)
		for _, f := range fires {
			v.Times = append(v.Times, fireTime{f.At, localTime(f.At)})
		}
		v.Never = err == nil && len(fires) == 0
	}
	return s.render(w, r, status, "scheduleform", v)
}

func (s *Server) scheduleFields(who principal, named bool) (fields []formField) {
	if named {
		fields = append(fields, formField{Name: "name", Label: "Name", Kind: "text", Required: true, Hint: "Letters, digits, dots, hyphens or underscores. It does not change."})
	}
	if who.scope.All {
		fields = append(fields, formField{Name: "tenant", Label: "Tenant", Kind: "text", Hint: "Whose jobs they will be. Left empty it is " + jobs.DefaultTenant + "."})
	}
	kind := selectField("kind", "Kind of job", "choose…", s.dispatcher.Kinds()...)
	kind.Required = true
	return append(fields, kind,
		formField{Name: "payload", Label: "Payload", Kind: "textarea", Required: true, Hint: `JSON, such as {"report": "orders", "params": {"from": "@yesterday"}}. Words such as @today and @last-month become days when it comes.`},
		formField{Name: "cron", Label: "When", Kind: "text", Required: true, Hint: "A cron expression: minute, hour, day, month, weekday, such as 0 6 * * 1-5."},
		formField{Name: "zone", Label: "Time zone", Kind: "text", Hint: "Its times are in this zone, such as Europe/Berlin."},
		formField{Name: "missed", Label: "Times that nobody looked at", Kind: "select", Options: []formOption{
			{Value: "once", Text: "one run for the newest of them"}, {Value: "skip", Text: "no run"}, {Value: "all", Text: "a run for each"}}},
		formField{Name: "overlap", Label: "While an earlier run is still at work", Kind: "select", Options: []formOption{
			{Value: "yes", Text: "run beside it"}, {Value: "no", Text: "skip this time"}}},
		formField{Name: "options", Label: "Options of the job", Kind: "textarea", Hint: `JSON, such as {"queue": "mail", "tags": ["nightly"], "max_attempts": 3, "timeout": "10m"}. May be empty.`})
}

// place puts a problem at its field, or above the form when there is none.
func (v *scheduleFormView) place(p invalid.Problem) {
	field, _, _ := strings.Cut(strings.ReplaceAll(p.Field, "[", "."), ".")
	if slices.Contains([]string{"queue", "priority", "tags", "max_attempts", "timeout"}, field) {
		field = "options"
	}
	text := problemText(p)
	if field != p.Field {
		text = p.Field + ": " + text
	}
	for i := range v.Fields {
		if v.Fields[i].Name == field {
			v.Fields[i].Problem = text
			return
		}
	}
	// What the kind says of its payload names fields of the payload.
	for i := range v.Fields {
		if v.Fields[i].Name == "payload" && v.Fields[i].Problem == "" {
			v.Fields[i].Problem = p.Field + ": " + problemText(p)
			return
		}
	}
	v.Problems = append(v.Problems, p.Field+": "+problemText(p))
}
