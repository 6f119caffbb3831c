package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// cleanupRoutes are the part of the table about the clean-up. It is for all tenants at once.
func (s *Server) cleanupRoutes() []route {
	return []route{
		{"GET", "/cleanup", signedIn, storage.VerbView, s.cleanupPage},
		{"POST", "/cleanup/run", signedIn, storage.VerbAdminister, s.runSweepForm},
		{"POST", "/cleanup/off", signedIn, storage.VerbAdminister, s.sweepOffForm},
		{"POST", "/cleanup/on", signedIn, storage.VerbAdminister, s.sweepOnForm},
		{"GET", "/api/v1/sweeps", api, storage.VerbView, s.apiSweeps},
		{"GET", "/api/v1/sweep/plan", api, storage.VerbView, s.apiSweepPlan},
		{"POST", "/api/v1/sweep/run", api, storage.VerbAdminister, s.apiRunSweep},
		{"GET", "/api/v1/sweep/deletions", api, storage.VerbView, s.apiDeletions},
	}
}

const (
	// maxRuns is how many clean-ups the page lists, maxPlanned how many items of the plan.
	maxRuns, maxPlanned = 20, 50
	// longestSweepNote bounds why somebody switched it off, in characters.
	longestSweepNote = 200
)

// cleanupView is the page of the clean-up.
type cleanupView struct {
	Runs      []sweepRow
	Waiting   []waitingRow
	Any       bool // something waits
	Stored    storage.StoredTotal
	Off       *storage.SweepOff
	Plan      []storage.SweepItem
	Refused   string // why there is no plan
	More      bool   // than the plan shows
	Deletions []storage.Deletion
	Pager     pager
}

type sweepRow struct {
	storage.SweepRun
	Chip chip
}

// Took is how long a clean-up took, or has been at it.
func (r sweepRow) Took(now time.Time) string {
	if r.FinishedAt != nil {
		now = *r.FinishedAt
	}
	return showDuration(now.Sub(r.StartedAt))
}

// Why says why a run ended, when that was not because nothing was left.
func (r sweepRow) Why() string {
	if r.Stopped == nil || r.Error != nil {
		return ""
	}
	switch *r.Stopped {
	case "limit":
		return "reached the limit of one run; the next goes on"
	case "time":
		return "its time was over; the next goes on"
	case "failures":
		return "too many items failed"
	}
	return ""
}

// waitingRow is what waits for one reason.
type waitingRow struct {
	storage.Waiting
	What string
}

// sweepReason says the reasons to people.
func sweepReason(name string) string {
	switch name {
	case "silent":
		return "Attempts that fell silent: to be condemned"
	case "lost":
		return "Attempts that were fenced, failed, cancelled or condemned"
	case "replaced":
		return "Publications that a newer one replaced"
	case "probe":
		return "Deleted before: to be looked at again"
	case "outlived":
		return "Replaced publications that a rule no longer keeps"
	case "export-deleted":
		return "Exports that were deleted"
	case "expired":
		return "Current publications whose rule lets them expire"
	}
	return name
}

// Run asks before it runs, and says what and how many.
func (v cleanupView) Run() confirmation {
	var parts []string
	var bytes int64
	for _, w := range v.Waiting {
		if w.Due == 0 || w.Action == "probe" {
			continue
		}
		n := showCount(w.Due)
		if w.Action == "condemn" {
			parts = append(parts, "condemns "+n+" silent "+count.Noun(w.Due, "attempt"))
			continue
		}
		if w.Action == "expire" {
			parts = append(parts, "deletes "+n+" "+count.Noun(w.Due, "export")+" whose time is over, to lose files later")
			continue
		}
		bytes += w.Bytes
		parts = append(parts, "deletes the files of "+n+" "+count.Noun(w.Due, "attempt")+" ("+w.Reason+")")
	}
	text := "Nothing is due to be deleted now; folders of deleted attempts are looked at again."
	if len(parts) > 0 {
		text = "It " + strings.Join(parts, ", ") + ": " + showSize(bytes) + " in all. Deleted files do not come back. Current files stay."
	}
	return confirmation{ID: "run-sweep", Label: "Run now", Action: "/cleanup/run", Button: "Clean up now", Text: text, Safe: len(parts) == 0}
}

// cleanupPage shows what the clean-up did and will do, for all tenants at once, to those who see them all.
func (s *Server) cleanupPage(w http.ResponseWriter, r *http.Request) error {
	if !of(r).principal.scope.All {
		return errMissing
	}
	v := cleanupView{}
	ctx := r.Context()
	runs, err := s.store.SweepRuns(ctx, maxRuns)
	if err != nil {
		return err
	}
	for _, run := range runs {
		v.Runs = append(v.Runs, sweepRow{run, sweepChip(run)})
	}
	waiting, err := s.sweeps.sweep.Waiting(ctx)
	if err != nil {
		return err
	}
	for _, wait := range waiting {
		v.Any = v.Any || wait.Due+wait.Later > 0
		v.Waiting = append(v.Waiting, waitingRow{wait, sweepReason(wait.Reason)})
	}
	if v.Stored, err = s.store.Stored(ctx); err != nil {
		return err
	}
	if v.Off, err = s.store.SweepSwitch(ctx); err != nil {
		return err
	}
	v.Plan, v.More, err = s.planned(r, maxPlanned)
	switch {
	case errors.Is(err, storage.ErrUnsafe), errors.Is(err, storage.ErrRecoveryNeeded):
		v.Refused = err.Error()
	case err != nil:
		return err
	}
	list := newListing(r)
	page, err := s.store.Deletions(ctx, storage.DeletionFilter{After: list.After, Limit: 25})
	if err != nil {
		return err
	}
	v.Deletions, v.Pager = page.Items, list.pager(page.Next)
	return s.render(w, r, http.StatusOK, "cleanup", v)
}

// planned is the beginning of the plan, and whether there is more; an error where a run would refuse.
func (s *Server) planned(r *http.Request, most int) (items []storage.SweepItem, more bool, err error) {
	if err := s.sweeps.sweep.Check(r.Context()); err != nil {
		return nil, false, err
	}
	sweep := s.sweeps.sweep.With(func(o *storage.SweepOptions) { o.Limit = min(o.Limit, most) })
	t, err := sweep.Plan(r.Context(), func(it storage.SweepItem) error {
		items = append(items, it)
		return nil
	})
	return items, t.Limited, err
}

func sweepChip(r storage.SweepRun) chip {
	switch {
	case r.Error != nil:
		return chip{"failed", "stopped"}
	case r.FinishedAt == nil:
		return chip{"running", "running"}
	case r.Failed > 0:
		return chip{"fenced", "incomplete"}
	}
	return chip{"published", "done"}
}

// runSweep starts a run, unless somebody has switched them off.
func (s *Server) runSweep(r *http.Request) error {
	who, err := operator(r)
	if err != nil {
		return err
	}
	off, err := s.store.SweepSwitch(r.Context())
	if err != nil {
		return err
	}
	if off != nil {
		return errSweepOff
	}
	if err := s.sweeps.start(who.name); err != nil {
		return err
	}
	return s.audit(r, auditSweepRun, object{kind: "sweep"}, nil)
}

func (s *Server) runSweepForm(w http.ResponseWriter, r *http.Request) error {
	if err := s.runSweep(r); err != nil && !errors.Is(err, errSweepBusy) { // the page shows the one at work
		return err
	}
	http.Redirect(w, r, "/cleanup", http.StatusSeeOther)
	return nil
}

func (s *Server) sweepOffForm(w http.ResponseWriter, r *http.Request) error {
	return s.switchSweep(w, r, false, auditSweepOff)
}

func (s *Server) sweepOnForm(w http.ResponseWriter, r *http.Request) error {
	return s.switchSweep(w, r, true, auditSweepOn)
}

func (s *Server) switchSweep(w http.ResponseWriter, r *http.Request, on bool, action string) error {
	who, err := operator(r)
	if err != nil {
		return err
	}
	note := cut(strings.TrimSpace(r.PostFormValue("note")), longestSweepNote)
	if err := s.store.SwitchSweep(r.Context(), on, who.name, note); err != nil {
		return err
	}
	if err := s.audit(r, action, object{kind: "sweep"}, map[string]any{"note": note}); err != nil {
		return err
	}
	http.Redirect(w, r, "/cleanup", http.StatusSeeOther)
	return nil
}

// apiSweeps lists the newest clean-ups.
func (s *Server) apiSweeps(w http.ResponseWriter, r *http.Request) error {
	if _, err := operator(r); err != nil {
		return err
	}
	refused := new(invalid.Error)
	n := limit(r.URL.Query(), refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	if n == 0 {
		n = maxRuns
	}
	runs, err := s.store.SweepRuns(r.Context(), n)
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, map[string]any{"items": some(runs)})
}

// apiSweepPlan answers what waits, and the beginning of the plan.
func (s *Server) apiSweepPlan(w http.ResponseWriter, r *http.Request) error {
	if _, err := operator(r); err != nil {
		return err
	}
	refused := new(invalid.Error)
	n := limit(r.URL.Query(), refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	if n == 0 {
		n = maxPlanned
	}
	items, more, err := s.planned(r, n)
	if err != nil {
		return err
	}
	waiting, err := s.sweeps.sweep.Waiting(r.Context())
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, map[string]any{"items": some(items), "more": more, "waiting": waiting})
}

// apiRunSweep starts a clean-up: 202. GET /api/v1/sweeps tells how it goes.
func (s *Server) apiRunSweep(w http.ResponseWriter, r *http.Request) error {
	if err := s.runSweep(r); err != nil {
		return err
	}
	return respond(w, http.StatusAccepted, map[string]any{"started": true})
}

// apiDeletions lists what was deleted, the newest first.
func (s *Server) apiDeletions(w http.ResponseWriter, r *http.Request) error {
	if _, err := operator(r); err != nil {
		return err
	}
	q, refused := r.URL.Query(), new(invalid.Error)
	f := storage.DeletionFilter{After: q.Get("after"), Limit: limit(q, refused)}
	if text := q.Get("run"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			refused.Add("run", text, "must be the number of a run")
		}
		f.Run = n
	}
	if err := refused.OrNil(); err != nil {
		return err
	}
	page, err := s.store.Deletions(r.Context(), f)
	if err != nil {
		return fmt.Errorf("list deletions: %w", err)
	}
	page.Items = some(page.Items)
	return respond(w, http.StatusOK, page)
}
