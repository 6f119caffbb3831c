package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

const (
	// maxShown bounds how much of a payload a page shows, in bytes.
	maxShown = 16 << 10
)

// jobView is the page of a job.
type jobView struct {
	storage.Job
	Name     string
	Chip     chip
	Progress progress
	Attempts []attemptRow
	More     bool
	Payload  string // indented JSON, as far as it is shown
	Cut      bool
	CLI      string
	Curl     string
	// Reused says that the form was sent before and this is the job that it made.
	Reused bool
	// Files are the files that the job published, while they exist.
	Files []storage.File
	// Gone says that the export was deleted.
	Gone bool
	// Errors are what went wrong with a plain job, the newest first.
	Errors []storage.JobError
	// Stacks says whether this account sees stacks.
	Stacks bool
	// Attempt is the one at work, or the one that published; nil when there is none.
	Attempt  *storage.Attempt
	Pace     string // how fast it is, in words
	Warnings []string
	// Next is the job after this one in its chain; its id is zero when there is none.
	Next storage.Job
	// BatchPath is the page of the job's batch; empty when there is none to link.
	BatchPath string
}

func (s *Server) jobPage(w http.ResponseWriter, r *http.Request) error {
	j, attempts, err := s.readJob(r)
	if err != nil {
		return err
	}
	v := jobView{Job: j, Name: j.Title, Chip: jobChip(j.State), Reused: r.URL.Query().Get("reused") != ""}
	if v.Name == "" {
		v.Name = j.Kind
	}
	if len(attempts) > maxAttempts {
		v.More, attempts = true, attempts[:maxAttempts]
	}
	v.Attempts = attemptRows(attempts, false, time.Now())
	v.Progress = jobProgress(j, attempts)
	v.Payload, v.Cut = showPayload(j.Payload)
	v.CLI, v.Curl = asCLI(j), asCurl(j, s.base(r))
	v.showAttempt(attempts)
	if err := s.showLinks(r, &v); err != nil {
		return err
	}
	if j.Plain() {
		v.Chip, v.Progress, v.Stacks = plainChip(j.State), plainProgress(j), of(r).principal.scope.All
		v.Errors, err = s.store.JobErrors(r.Context(), j.ID, maxAttempts)
	} else {
		err = s.showResult(r, &v, attempts)
	}
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, "job", v)
}

// showAttempt tells about the attempt that counts: the one at work, or the one that published.
func (v *jobView) showAttempt(attempts []storage.Attempt) {
	if v.AttemptID == nil {
		return
	}
	a := byID(attempts, *v.AttemptID)
	if a == nil || v.State != storage.JobDone && a.FinishedAt != nil {
		return
	}
	v.Attempt, v.Pace, v.Warnings = a, paceOf(*a).String(), showWarnings(a.Warnings)
}

// showLinks finds what the job belongs to.
func (s *Server) showLinks(r *http.Request, v *jobView) (err error) {
	if v.BatchID != nil && s.paths["GET /batches/{id}"] {
		v.BatchPath = "/batches/" + v.BatchID.String()
	}
	if v.ChainID != nil {
		v.Next, err = s.store.JobAfter(r.Context(), of(r).principal.scope, v.ID)
	}
	return err
}

// InChain says that there is a job after this one.
func (v jobView) InChain() bool { return v.Next.ID != uuid.Nil }

// Masked says that the payload holds values that nobody is shown.
func (v jobView) Masked() bool { return bytes.Contains(v.Job.Payload, []byte(`"$$sealed"`)) }

// FromFile says that the payload is too long for a command, which then names a file.
func (v jobView) FromFile() bool { return strings.Contains(v.CLI+v.Curl, "job.json") }

// Message is what went wrong, without a stack; empty when nothing did.
func (v jobView) Message() string {
	if v.Error == nil {
		return ""
	}
	message, _ := splitStack(*v.Error)
	return message
}

// showResult fills in what the job has published, if its export still exists.
func (s *Server) showResult(r *http.Request, v *jobView, attempts []storage.Attempt) error {
	_, err := s.store.Export(r.Context(), of(r).principal.scope, v.ExportID)
	if errors.Is(err, storage.ErrNotFound) {
		v.Gone = true
		return nil
	}
	if err != nil {
		return err
	}
	i := slices.IndexFunc(attempts, func(a storage.Attempt) bool {
		return a.State == storage.AttemptPublished || a.State == storage.AttemptSuperseded
	})
	if i < 0 {
		return nil
	}
	v.Files, err = s.store.Files(r.Context(), attempts[i].ID)
	return err
}

// readJob reads the job of a route and its attempts, at most one more than are shown.
func (s *Server) readJob(r *http.Request) (storage.Job, []storage.Attempt, error) {
	id, err := pathID(r)
	if err != nil {
		return storage.Job{}, nil, err
	}
	j, err := s.store.Job(r.Context(), of(r).principal.scope, id)
	if err != nil {
		return j, nil, err
	}
	attempts, err := s.store.JobAttempts(r.Context(), id, maxAttempts+1)
	scope := of(r).principal.scope
	j.Error = withoutStack(scope, j.Error)
	hideStacks(scope, attempts)
	return j, attempts, err
}

// jobProgress is one bar over all steps. It is full only when the files are published.
func jobProgress(j storage.Job, attempts []storage.Attempt) progress {
	switch {
	case j.State == storage.JobDone:
		return progress{Percent: 100, Step: "published"}
	case j.State.Ended():
		return progress{Step: string(j.State)}
	case j.AttemptID != nil:
		if a := byID(attempts, *j.AttemptID); a != nil {
			return stepProgress(a.Step, a.Rows, a.RowsExpected)
		}
	}
	return progress{Step: "waiting"}
}

// Cancellable says whether cancelling would change anything.
func (v jobView) Cancellable() bool {
	return v.State == storage.JobQueued || v.State == storage.JobRunning
}

// Active says that the job is at work.
func (v jobView) Active() bool {
	return v.State == storage.JobRunning || v.State == storage.JobCancelling
}

// HasExport says that the job's export can be looked at.
func (v jobView) HasExport() bool { return !v.Plain() && !v.Gone }

// ResultText is what a plain job has left, as indented JSON; empty for nothing.
func (v jobView) ResultText() string {
	if v.Result == nil {
		return ""
	}
	text, _ := showPayload(v.Result)
	return text
}

// Due is when a waiting job may begin, nil when it may now.
func (v jobView) Due(now time.Time) *time.Time {
	if v.State == storage.JobQueued && v.DueAt.After(now) {
		return &v.DueAt
	}
	return nil
}

// Waits says for what a waiting job waits: lease, retry, later or nothing.
func (v jobView) Waits() string {
	if v.WaitingFor == nil {
		return ""
	}
	return *v.WaitingFor
}

// phase is a part of the bar.
type phase struct{ Name, Class string }

// Phases are the steps of an attempt, behind it, at it or ahead of it.
func (v jobView) Phases() []phase {
	list := []phase{{Name: "count"}, {Name: "read"}, {Name: "write"}, {Name: "seal"}, {Name: "publish"}}
	begins := []int{0, atRead, atWrite, atSeal, atPublish, 100}
	for i, from := range begins[:len(list)] {
		switch p := v.Progress.Percent; {
		case p >= begins[i+1]:
			list[i].Class = "behind"
		case p >= from && v.Active():
			list[i].Class = "now"
		default:
			list[i].Class = "ahead"
		}
	}
	return list
}

// Timeout is how long each attempt may take.
func (v jobView) Timeout() string { return showDuration(time.Duration(v.TimeoutSeconds) * time.Second) }

// FileURL is the address of a file that the job published.
func (v jobView) FileURL(f storage.File) string { return pinnedURL(v.ExportID, f) }

// cancelForm cancels a job and shows it again.
func (s *Server) cancelForm(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	who := of(r).principal
	state, err := s.cancelJob(r, id)
	if err != nil {
		return err
	}
	s.log.Info("job cancelled", "request_id", of(r).id, "job", id, "state", state, "who", who.name)
	if state == storage.JobCancelled || state == storage.JobCancelling {
		j, err := s.store.Job(r.Context(), who.scope, id)
		if err != nil {
			return err
		}
		if err := s.audit(r, auditCancelled, jobObject(j), map[string]any{"state": state}); err != nil {
			return err
		}
	}
	http.Redirect(w, r, "/jobs/"+id.String(), http.StatusSeeOther)
	return nil
}

func showPayload(raw json.RawMessage) (text string, wasCut bool) {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		out.Write(raw)
	}
	if out.Len() <= maxShown {
		return out.String(), false
	}
	return string(bytes.ToValidUTF8(out.Bytes()[:maxShown], nil)) + "…", true
}
