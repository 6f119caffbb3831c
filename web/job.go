package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

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
	v.CLI, v.Curl = asCLI(j), asCurl(j, s.publicURL)
	if j.Plain() {
		v.Chip, v.Progress, v.Stacks = plainChip(j.State), plainProgress(j), of(r).principal.scope.All
		if v.Errors, err = s.store.JobErrors(r.Context(), j.ID, maxAttempts); err != nil {
			return err
		}
		return s.render(w, r, http.StatusOK, "job", v)
	}
	if err := s.showResult(r, &v, attempts); err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, "job", v)
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
	list := []phase{{Name: "read"}, {Name: "write"}, {Name: "seal"}, {Name: "publish"}}
	for i, from := range []int{0, atWrite, atSeal, atPublish} {
		switch p := v.Progress.Percent; {
		case p == 100 || i+1 < len(list) && p >= []int{atWrite, atSeal, atPublish}[i]:
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
func (v jobView) FileURL(f storage.File) string {
	return fileURL("/exports/", v.ExportID, f.Name) + "?attempt=" + f.AttemptID.String()
}

// cancelForm cancels a job and shows it again.
func (s *Server) cancelForm(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	who := of(r).principal
	state, err := s.store.CancelJob(r.Context(), who.scope, id)
	if err != nil {
		return err
	}
	s.log.Info("job cancelled", "request_id", of(r).id, "job", id, "state", state, "who", who.name)
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
