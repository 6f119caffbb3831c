package web

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/storage"
)

// maxBody bounds the body of a call, in bytes.
const maxBody = 1 << 20

// apiDispatch accepts a job: 202, with its address.
func (s *Server) apiDispatch(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	var spec jobs.Spec
	if err := readObject(w, r, spec.Fields()); err != nil {
		return err
	}
	if key != "" && spec.IdempotencyKey != "" && key != spec.IdempotencyKey {
		return invalid.New("idempotency_key", spec.IdempotencyKey, "is not the one of the header Idempotency-Key; give one of them")
	}
	spec.IdempotencyKey = cmp.Or(key, spec.IdempotencyKey)
	who := of(r).principal
	if spec.Tenant, err = tenantFor(who, spec.Tenant); err != nil {
		return err
	}
	item, err := spec.Item()
	if err != nil {
		return err
	}
	receipt, err := s.dispatchOnce(r, spec, item)
	if err != nil {
		return err
	}
	s.log.Info("dispatched", "request_id", of(r).id, "job", receipt.Job.ID, "kind", spec.Kind, "reused", receipt.Reused, "who", who.name)
	if err := s.auditJob(r, auditAsked, receipt); err != nil {
		return err
	}
	w.Header().Set("Location", "/api/v1/jobs/"+receipt.Job.ID.String())
	j, err := s.awaitEnd(w, r, receipt.Job)
	if err != nil {
		return err
	}
	status := http.StatusAccepted
	if j.State.Ended() && preferWait(r.Header) > 0 {
		status = http.StatusOK
	}
	j.Error = withoutStack(who.scope, j.Error)
	return respond(w, status, struct {
		storage.Job
		Reused bool `json:"reused"`
	}{j, receipt.Reused})
}

// dispatchOnce dispatches what a spec asks for, unless another request with its idempotency key is at it.
func (s *Server) dispatchOnce(r *http.Request, spec jobs.Spec, item jobs.Item) (jobs.Receipt, error) {
	done, err := s.keys.begin(spec.Tenant, spec.IdempotencyKey)
	if err != nil {
		return jobs.Receipt{}, err
	}
	defer done()
	return s.dispatcher.Dispatch(r.Context(), nil, item.Request, append(item.Options, jobs.RequestedBy(of(r).principal.name))...)
}

// readObject reads a body: a JSON object of exactly these fields, each once.
func readObject(w http.ResponseWriter, r *http.Request, fields map[string]any) error {
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	return invalid.Object(body, "body", "", fields)
}

// readBody reads a body of JSON of at most so many bytes.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, errMediaType
	}
	defer limitBody(w, r, most)()
	body, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, err
	}
	if err != nil {
		return nil, &failure{http.StatusBadRequest, "body", "The body did not arrive", "The body of the request ended early or came too slowly."}
	}
	return body, nil
}

// idempotencyKey reads the header of the IETF draft
// (draft-ietf-httpapi-idempotency-key-header): a string in quotes as RFC 8941
// writes it, or the bare characters that most clients send.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key := strings.TrimSpace(values[0])
	if quoted, ok := strings.CutPrefix(key, `"`); ok {
		unescaped := strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(strings.TrimSuffix(quoted, `"`))
		if !strings.HasSuffix(quoted, `"`) {
			unescaped = ""
		}
		key = unescaped
	}
	printable := strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	if len(values) > 1 || key == "" || len(key) > 255 || !printable {
		return "", &failure{http.StatusBadRequest, "idempotency-key", "The idempotency key cannot be used",
			"Send one header Idempotency-Key with 1 to 255 printable ASCII characters."}
	}
	return key, nil
}

// apiJob shows a job with its attempts and errors.
func (s *Server) apiJob(w http.ResponseWriter, r *http.Request) error {
	j, attempts, err := s.readJob(r)
	if err != nil {
		return err
	}
	if preferWait(r.Header) > 0 && !j.State.Ended() {
		if _, err := s.awaitEnd(w, r, j); err != nil {
			return err
		}
		if j, attempts, err = s.readJob(r); err != nil {
			return err
		}
	}
	failures, err := s.store.JobErrors(r.Context(), j.ID, maxAttempts)
	if err != nil {
		return err
	}
	if !of(r).principal.scope.All { // stacks are for those who write handlers
		for i := range failures {
			failures[i].Stack = nil
			failures[i].Error, _ = splitStack(failures[i].Error)
		}
	}
	return respond(w, http.StatusOK, struct {
		storage.Job
		Attempts []storage.Attempt  `json:"attempt_list"`
		More     bool               `json:"more_attempts"`
		Errors   []storage.JobError `json:"errors"` // the newest first
	}{j, some(attempts[:min(len(attempts), maxAttempts)]), len(attempts) > maxAttempts, failures})
}

// apiCancel cancels a job: 200 when it is cancelled, 202 while its worker has to confirm.
func (s *Server) apiCancel(w http.ResponseWriter, r *http.Request) error {
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
	if state != storage.JobCancelled && state != storage.JobCancelling {
		return errEnded
	}
	j, err := s.store.Job(r.Context(), who.scope, id)
	if err != nil {
		return err
	}
	if err := s.audit(r, auditCancelled, jobObject(j), map[string]any{"state": state}); err != nil {
		return err
	}
	status := http.StatusOK
	if !j.State.Ended() {
		status = http.StatusAccepted
	}
	return respond(w, status, j)
}

func (s *Server) apiJobs(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	f := storage.JobFilter{State: storage.JobState(q.Get("state")), Kind: q.Get("kind"), Queue: q.Get("queue"), Tag: q.Get("tag"), Tenant: q.Get("tenant"), After: q.Get("after")}
	refused := new(invalid.Error)
	f.Limit = limit(q, refused)
	if !knownState(f.State) {
		refused.Add("state", q.Get("state"), "is no state of jobs; use queued, running, done, superseded, failed, cancelling or cancelled")
	}
	if text := q.Get("export"); text != "" {
		id, err := uuid.Parse(text)
		if err != nil {
			refused.Add("export", text, "is not the id of an export")
		}
		f.ExportID = id
	}
	f.Batch = optionalID("batch", q.Get("batch"), refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	page, err := s.store.Jobs(r.Context(), of(r).principal.scope, f)
	if err != nil {
		return err
	}
	withoutStacks(of(r).principal.scope, page.Items)
	return respondPage(w, r, page)
}

func knownState(state storage.JobState) bool {
	switch state {
	case "", storage.JobQueued, storage.JobRunning, storage.JobCancelling:
		return true
	}
	return state.Ended()
}

func (s *Server) apiExports(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	refused := new(invalid.Error)
	f := storage.ExportFilter{Kind: q.Get("kind"), Search: q.Get("q"), After: q.Get("after"), Limit: limit(q, refused)}
	if err := refused.OrNil(); err != nil {
		return err
	}
	page, err := s.store.Exports(r.Context(), of(r).principal.scope, f)
	if err != nil {
		return err
	}
	return respondPage(w, r, page)
}

// respondPage answers with a page of a list; what follows it has its address in Link (RFC 8288).
func respondPage[T any](w http.ResponseWriter, r *http.Request, page storage.Page[T]) error {
	page.Items = some(page.Items)
	if page.Next != "" {
		q := r.URL.Query()
		q.Set("after", page.Next)
		w.Header().Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, r.URL.Path, q.Encode()))
	}
	return respond(w, http.StatusOK, page)
}

// limit is how many items are asked for; 0 when the store decides.
func limit(q url.Values, refused *invalid.Error) int {
	text := q.Get("limit")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 200 {
		refused.Add("limit", text, "must be a number from 1 to 200")
	}
	return n
}

// some is a list that JSON shows as [] when it is empty.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// fileJSON is a file with its address.
type fileJSON struct {
	storage.File
	URL string `json:"url"`
}

// apiExport shows an export with its current files and its newest attempts.
func (s *Server) apiExport(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	e, err := s.store.Export(r.Context(), of(r).principal.scope, id)
	if err != nil {
		return err
	}
	attempts, err := s.store.Attempts(r.Context(), id, maxAttempts)
	if err != nil {
		return err
	}
	list := []fileJSON{}
	if e.AttemptID != nil {
		current, err := s.store.Files(r.Context(), *e.AttemptID)
		if err != nil {
			return err
		}
		for _, f := range current {
			list = append(list, fileJSON{f, fileURL("/api/v1/exports/", id, f.Name)})
		}
	}
	return respond(w, http.StatusOK, struct {
		storage.Export
		Files    []fileJSON        `json:"files"`
		Attempts []storage.Attempt `json:"attempts"`
	}{e, list, some(attempts)})
}

// reportJSON is a report that can be asked for.
type reportJSON struct {
	Name        string         `json:"name"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	Formats     []string       `json:"formats"` // when the request chooses none
	Zone        string         `json:"zone"`
	Params      []report.Param `json:"params"`
}

// apiReports lists the reports that can be used; those that cannot are in the log.
func (s *Server) apiReports(w http.ResponseWriter, r *http.Request) error {
	defs, err := s.reports.Catalog().List()
	if err != nil {
		s.log.Warn("some reports cannot be used", "request_id", of(r).id, "error", err)
	}
	list := []reportJSON{}
	for _, d := range usable(defs, of(r).principal) {
		j := reportJSON{Name: d.Name, Title: d.Title, Description: d.Description, Formats: d.Formats, Zone: d.Zone, Params: []report.Param{}}
		for _, p := range d.Params {
			if p.Name == d.Tenant { // it comes from the job
				continue
			}
			j.Params = append(j.Params, p)
		}
		list = append(list, j)
	}
	broken := some(mistakes(err))
	if !of(r).principal.scope.All { // files and lines are for those who write reports
		broken = []string{}
	}
	return respond(w, http.StatusOK, map[string]any{"items": list, "broken": broken})
}
