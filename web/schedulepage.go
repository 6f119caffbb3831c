package web

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// scheduleRoutes are the part of the table about the pages of schedules. No schedule
// is called "-", so what is below it clashes with no name.
func (s *Server) scheduleRoutes() []route {
	return []route{
		{"GET", "/schedules", signedIn, storage.VerbView, s.schedulesPage},
		{"GET", "/schedules/-/new", signedIn, storage.VerbOperate, s.newSchedulePage},
		{"POST", "/schedules/-/new", signedIn, storage.VerbOperate, s.newScheduleForm},
		{"POST", "/schedules/-/preview", signedIn, storage.VerbOperate, s.previewScheduleForm},
		{"GET", "/schedules/{name}", signedIn, storage.VerbView, s.schedulePage},
		{"GET", "/schedules/{name}/edit", signedIn, storage.VerbOperate, s.editSchedulePage},
		{"POST", "/schedules/{name}/edit", signedIn, storage.VerbOperate, s.editScheduleForm},
		{"POST", "/schedules/{name}/pause", signedIn, storage.VerbOperate, s.pauseScheduleForm},
		{"POST", "/schedules/{name}/resume", signedIn, storage.VerbOperate, s.resumeScheduleForm},
		{"POST", "/schedules/{name}/run", signedIn, storage.VerbOperate, s.runScheduleForm},
		{"POST", "/schedules/{name}/delete", signedIn, storage.VerbOperate, s.deleteScheduleForm},
	}
}

// schedulePath is the address of a schedule's page.
func schedulePath(name string) string { return "/schedules/" + url.PathEscape(name) }

// scheduleRow is a schedule as lists and its page show it.
type scheduleRow struct {
	jobs.ScheduleView
	Path string
	Chip chip
	Last *runLine
}

// runLine is what came of a fire time.
type runLine struct {
	storage.ScheduleRun
	Chip chip
}

func newScheduleRow(sc jobs.ScheduleView) scheduleRow {
	row := scheduleRow{ScheduleView: sc, Path: schedulePath(sc.Name), Chip: chip{"published", "active"}}
	switch {
	case sc.PausedAt != nil:
		row.Chip = chip{"cancelled", "paused"}
	case sc.Problem != nil:
		row.Chip = chip{"failed", "has a problem"}
	case len(sc.Next) == 0:
		row.Chip = chip{"superseded", "never comes"}
	}
	if sc.LastOutcome != nil && sc.LastFire != nil {
		last := newRunLine(storage.ScheduleRun{Outcome: *sc.LastOutcome, FireAt: *sc.LastFire, Reason: sc.LastReason, JobID: sc.LastJob, JobState: sc.LastState})
		row.Last = &last
	}
	return row
}

func newRunLine(r storage.ScheduleRun) runLine {
	line := runLine{ScheduleRun: r, Chip: chip{"queued", r.Outcome}}
	switch {
	case r.JobState != nil:
		line.Chip = jobChip(*r.JobState)
		if *r.JobState == storage.JobDone {
			line.Chip.Text = "done" // a job may publish nothing
		}
	case r.Outcome == storage.RunRefused:
		line.Chip = chip{"failed", r.Outcome}
	case r.Outcome == storage.RunSkipped:
		line.Chip = chip{"superseded", r.Outcome}
	}
	return line
}

// localTime is a time in its own zone, for people.
func localTime(t time.Time) string { return t.Format("Mon 2 Jan 2006, 15:04 MST") }

// NextLocal is the next time in the schedule's zone, or empty.
func (r scheduleRow) NextLocal() string {
	if len(r.Next) == 0 {
		return ""
	}
	return localTime(r.Next[0])
}

// schedulesView is the page of all schedules.
type schedulesView struct {
	Rows  []scheduleRow
	Pager pager
	Empty emptyState
}

func (s *Server) schedulesPage(w http.ResponseWriter, r *http.Request) error {
	l := newListing(r)
	page, err := s.schedules.List(r.Context(), of(r).principal.scope, storage.ScheduleFilter{After: l.After, Limit: listRows})
	if err != nil {
		return err
	}
	v := schedulesView{Pager: l.pager(page.Next)}
	for _, sc := range page.Items {
		v.Rows = append(v.Rows, newScheduleRow(sc))
	}
	first := emptyState{Title: "No schedules yet.", Text: "A schedule asks for a job by the clock.", Command: `fenceline schedule put nightly NAME --cron "0 6 * * *" --zone Europe/Berlin`}
	if of(r).principal.may(storage.VerbOperate) {
		first.Href, first.Link = "/schedules/-/new", "Make the first one"
	}
	v.Empty = l.nothing("schedules", first)
	return s.render(w, r, http.StatusOK, "schedules", v)
}

// fireTime is a coming time of a schedule.
type fireTime struct {
	At    time.Time
	Local string
}

func fireTimes(list []time.Time) (out []fireTime) {
	for _, t := range list {
		out = append(out, fireTime{t, localTime(t)})
	}
	return out
}

// scheduleView is the page of a schedule.
type scheduleView struct {
	scheduleRow
	Times   []fireTime
	Payload string
	Cut     bool
	Options string
	Runs    []runLine
	Pager   pager
	Empty   emptyState
	// What can be done to it; nil when it cannot.
	Run, Pause, Delete *confirmation
	Edit               bool
}

func (s *Server) schedulePage(w http.ResponseWriter, r *http.Request) error {
	who, name := of(r).principal, r.PathValue("name")
	sc, err := s.schedules.Show(r.Context(), who.scope, name)
	if err != nil {
		return err
	}
	v := scheduleView{scheduleRow: newScheduleRow(sc), Times: fireTimes(sc.Next)}
	v.Payload, v.Cut = showPayload(sc.Payload)
	if text := string(sc.Options); text != "{}" {
		v.Options = text
	}
	v.offer(who)
	l := newListing(r)
	page, err := s.store.ScheduleRuns(r.Context(), who.scope, name, l.After, listRows)
	if err != nil {
		return err
	}
	for _, run := range page.Items {
		v.Runs = append(v.Runs, newRunLine(run))
	}
	v.Path = schedulePath(name)
	v.Pager = l.pager(page.Next)
	v.Empty = l.nothing("runs", emptyState{Title: "It has not come yet.", Text: "Its runs are listed here, also those that were skipped or refused, with the reason."})
	return s.render(w, r, http.StatusOK, "schedule", v)
}

// offer fills in what somebody may do to the schedule.
func (v *scheduleView) offer(who principal) {
	if !who.may(storage.VerbOperate) {
		return
	}
	v.Run = &confirmation{ID: "run", Label: "Run now", Action: v.Path + "/run", Button: "Run it now", Safe: true, Nonce: rand.Text(),
		Text: "One job is dispatched at once, besides those of its times. Words for days in its payload mean today."}
	if v.PausedAt == nil {
		v.Pause = &confirmation{ID: "pause", Label: "Pause", Action: v.Path + "/pause", Button: "Pause it",
			Text: "It comes no more until it is resumed, and what it misses meanwhile is not made up. Jobs that it has dispatched go on."}
	}
	if v.Source != storage.FromFile {
		v.Edit = true
		v.Delete = &confirmation{ID: "delete", Label: "Delete", Action: v.Path + "/delete", Button: "Delete it",
			Text: "This one schedule is deleted. Its jobs stay, and the record of its runs until that is pruned."}
	}
}

func (s *Server) pauseScheduleForm(w http.ResponseWriter, r *http.Request) error {
	return s.onSchedule(w, r, auditSchedulePaused, schedulePath(r.PathValue("name")), func(scope storage.Scope, name string) error {
		return s.store.PauseSchedule(r.Context(), scope, name)
	})
}

func (s *Server) resumeScheduleForm(w http.ResponseWriter, r *http.Request) error {
	return s.onSchedule(w, r, auditScheduleResumed, schedulePath(r.PathValue("name")), func(scope storage.Scope, name string) error {
		return s.store.ResumeSchedule(r.Context(), scope, name)
	})
}

func (s *Server) deleteScheduleForm(w http.ResponseWriter, r *http.Request) error {
	return s.onSchedule(w, r, auditScheduleDeleted, "/schedules", func(scope storage.Scope, name string) error {
		return s.store.DeleteSchedule(r.Context(), scope, name)
	})
}

// onSchedule does something to a schedule, writes it down and goes on to a page.
func (s *Server) onSchedule(w http.ResponseWriter, r *http.Request, action, to string, do func(storage.Scope, string) error) error {
	who, name := of(r).principal, r.PathValue("name")
	if err := do(who.scope, name); err != nil {
		return err
	}
	s.log.Info(action, "request_id", of(r).id, "schedule", name, "who", who.name)
	if err := s.audit(r, action, object{kind: "schedule", id: name}, nil); err != nil {
		return err
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// runScheduleForm fires a schedule by hand and shows its job. The same form sent twice is one run.
func (s *Server) runScheduleForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	who, name := of(r).principal, r.PathValue("name")
	nonce := r.PostForm.Get("nonce")
	if nonce != "" {
		nonce = "form " + nonce
	}
	run, again, err := s.schedules.RunNow(r.Context(), who.scope, name, who.name, nonce)
	if err != nil {
		return err
	}
	s.log.Info(auditScheduleRun, "request_id", of(r).id, "schedule", name, "job", run.JobID, "again", again, "who", who.name)
	if !again {
		if err := s.audit(r, auditScheduleRun, object{kind: "schedule", id: name}, map[string]any{"job": run.JobID}); err != nil {
			return err
		}
	}
	to := schedulePath(name)
	if run.JobID != nil {
		to = "/jobs/" + run.JobID.String()
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// taken reports whether there is a schedule of a name that the scope sees.
func (s *Server) taken(r *http.Request, name string) (bool, error) {
	_, err := s.store.Schedule(r.Context(), of(r).principal.scope, name)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
