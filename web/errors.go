package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/password"
)

// failure is an error with its status: what the caller is told. Its texts are
// for people; slug is the stable end of the problem's type.
type failure struct {
	status        int
	slug          string
	title, detail string
}

// Error is the detail.
func (f *failure) Error() string { return f.detail }

var (
	errSignIn = &failure{401, "unauthenticated", "Sign in first",
		"Send an API token as “Authorization: Bearer fl_…”, or sign in with the link that “fenceline signin” prints."}
	errCrossOrigin = &failure{403, "cross-origin", "Refused",
		"The request came from a page of another site. Open Fenceline itself and try again there."}
	errVerb         = &failure{403, "not-allowed", "Not allowed", "The role of this account, or the verbs of this token, do not allow it. Ask an administrator."}
	errTenant       = &failure{403, "other-tenant", "Another tenant", "This account may only ask for its own tenant."}
	errAllTenants   = &failure{403, "all-tenants-only", "For all tenants only", "This needs an account that sees every tenant."}
	errNoRoute      = &failure{404, "not-found", "Not found", "There is no such address."}
	errMissing      = &failure{404, "not-found", "Not found", "It does not exist, or this account may not see it."}
	errMethod       = &failure{405, "method-not-allowed", "Method not allowed", "This address takes other methods: see the header Allow."}
	errBadText      = &failure{422, "invalid", "A text cannot be read", "A text in the request is not UTF-8, or holds the character U+0000. Send it without."}
	errNotFailed    = &failure{409, "job-not-failed", "The job has not failed", "Only a job that has failed can be tried again or forgotten."}
	errSweepOff     = &failure{409, "sweep-off", "Clean-ups are switched off", "Nothing was deleted. Switch them on first."}
	errSweepBusy    = &failure{409, "sweep-busy", "A clean-up is at work", "One runs at a time. Wait for its end."}
	errOnHold       = &failure{409, "on-hold", "It is on hold", "Nothing of it is deleted until an administrator releases its hold."}
	errPinned       = &failure{409, "pinned", "It is pinned", "Somebody pinned it so that it stays. Unpin it first."}
	errHeldAlready  = &failure{409, "held-already", "It is on hold already", "Release that hold before you place another one."}
	errNoRestore    = &failure{409, "cannot-restore", "It cannot be restored", "A clean-up has decided that its files go, or another export has its key by now."}
	errFromFile     = &failure{409, "schedule-from-file", "The schedule comes from a file", "It can be paused and resumed here; to change or delete it, edit the file of schedules."}
	errNameTaken    = &failure{409, "name-taken", "The name is taken", "Another schedule has this name. Choose another one."}
	errOverlap      = &failure{409, "schedule-overlaps", "A run is still at work", "The schedule is not to overlap, and an earlier run of it waits or runs."}
	errNotUnique    = &failure{409, "job-not-unique", "Another job has its place", "Another job of the same unique key waits or runs. Wait for its end, or cancel it."}
	errBatchEnded   = &failure{409, "batch-ended", "The batch takes no more jobs", "It was cancelled, or its end was acted on."}
	errEnded        = &failure{409, "job-ended", "The job has ended", "A job that has ended cannot be cancelled."}
	errTargetExists = &failure{409, "target-exists", "The name is taken", "There is a target of this name. Remove it first, or choose another name."}
	errUserExists   = &failure{409, "user-exists", "The name is taken", "There is a user of this name. Choose another one."}
	errLastAdmin    = &failure{409, "last-admin", "The last admin stays", "Nobody else could let others in: make another user an admin of all tenants first."}
	errNotYours     = &failure{403, "not-yours", "Not allowed", "Somebody else asked for this job. Who asked, or an operator, may cancel it."}
	errGone         = &failure{410, "gone", "Gone", "It was deleted."}
	errFilesGone    = &failure{410, "files-gone", "These files are gone",
		"This publication was replaced by a newer one and its files were cleaned up. The page of the export has the current file."}
	errLinkEnded = &failure{410, "link-ended", "This link opens nothing any more", "It has expired, it was revoked, or it was used as often as it may be. Ask who sent it for a new one."}
	errFilesLost = &failure{410, "files-lost", "These files are lost", "They were missing after a restore and were given up. Ask for the export again."}
	errTooLarge  = &failure{413, "too-large", "Too large", "The body of the request is too large."}
	errMediaType = &failure{415, "media-type", "Unsupported media type", "Send JSON, with the header “Content-Type: application/json”."}
	errKeyReused = &failure{422, "idempotency-key-reused", "The idempotency key was used before",
		"The same Idempotency-Key came with another request before. Use a new key for a new request."}
	errKeyInUse = &failure{409, "idempotency-key-in-use", "The first request is still being answered",
		"Another request with this Idempotency-Key is at work. Wait for its answer, then send this one again."}
	errInternal = &failure{500, "internal", "Something went wrong", "The server could not answer. Its log has more under the request id."}
	errHashBusy = &failure{503, "busy", "Too many sign in at once", "Wait a moment and try again."}
	errRecovery = &failure{503, "recovery-needed", "Recovery is needed", "The database and its files do not fit together, so nothing is published or cleaned up. An operator has to run “fenceline recover”."}
	errSlow     = &failure{503, "unavailable", "Not available", "The database did not answer in time. Try again in a moment."}
)

// busyError says that who tries to sign in has to wait.
type busyError struct{ wait time.Duration }

// Error says for how long.
func (b *busyError) Error() string {
	return fmt.Sprintf("There were too many attempts to sign in that failed. Wait %s and try again.", showDuration(max(b.wait.Round(time.Second), time.Second)))
}

// problem is an answer in the form of RFC 9457.
type problem struct {
	Type      string            `json:"type"`
	Title     string            `json:"title"`
	Status    int               `json:"status"`
	Detail    string            `json:"detail,omitempty"`
	RequestID string            `json:"request_id"`
	Errors    []invalid.Problem `json:"errors,omitempty"` // the refused fields
}

// problemType is the stable name of a kind of problem.
func problemType(slug string) string { return "urn:fenceline:problem:" + slug }

// failureOf is where every error becomes a status. What it does not know is
// internal: its text stays in the log.
func failureOf(err error) (f *failure, fields []invalid.Problem) {
	var (
		bad   *invalid.Error
		busy  *busyError
		rate  *rateError
		links *linkRateError
		large *http.MaxBytesError
	)
	switch {
	case errors.As(err, &f):
		return f, nil
	case errors.As(err, &bad):
		return &failure{422, "invalid", "Some fields are wrong", bad.Error()}, bad.Problems
	case storage.IsBadText(err):
		return errBadText, nil
	case errors.As(err, &rate):
		return &failure{429, "rate-limited", "Too many requests", rate.Error()}, nil
	case errors.As(err, &links):
		return &failure{429, "rate-limited", "Too many requests", links.Error()}, nil
	case errors.As(err, &busy):
		return &failure{429, "too-many-requests", "Too many attempts", busy.Error()}, nil
	case errors.As(err, &large):
		return errTooLarge, nil
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrNoSeries), errors.Is(err, report.ErrNotFound):
		return errMissing, nil
	case errors.Is(err, storage.ErrLinkEnded):
		return errLinkEnded, nil
	case errors.Is(err, storage.ErrGone):
		return errGone, nil
	case errors.Is(err, storage.ErrUserExists):
		return errUserExists, nil
	case errors.Is(err, storage.ErrLastAdmin):
		return errLastAdmin, nil
	case errors.Is(err, storage.ErrNotFailed):
		return errNotFailed, nil
	case errors.Is(err, storage.ErrTargetExists):
		return errTargetExists, nil
	case errors.Is(err, storage.ErrOff):
		return errSweepOff, nil
	case errors.Is(err, storage.ErrOnHold):
		return errOnHold, nil
	case errors.Is(err, storage.ErrHeldAlready):
		return errHeldAlready, nil
	case errors.Is(err, storage.ErrCannotRestore):
		return errNoRestore, nil
	case errors.Is(err, storage.ErrPinned):
		return errPinned, nil
	case errors.Is(err, storage.ErrFromFile):
		return errFromFile, nil
	case errors.Is(err, storage.ErrNameTaken):
		return errNameTaken, nil
	case errors.Is(err, storage.ErrOverlap):
		return errOverlap, nil
	case errors.Is(err, storage.ErrNotUnique):
		return errNotUnique, nil
	case errors.Is(err, storage.ErrBatchEnded):
		return errBatchEnded, nil
	case errors.Is(err, storage.ErrKeyInUse):
		return errKeyInUse, nil
	case errors.Is(err, storage.ErrKeyReused):
		return errKeyReused, nil
	case errors.Is(err, storage.ErrRecoveryNeeded), errors.Is(err, storage.ErrUnsafe):
		return errRecovery, nil
	case errors.Is(err, storage.ErrCursor):
		return &failure{400, "cursor", "Not a page of this list", "The cursor is not one that this list gave out. Start again without it."}, nil
	case errors.Is(err, password.ErrBusy):
		return errHashBusy, nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, storage.ErrUnknownOutcome):
		return errSlow, nil
	}
	return errInternal, nil
}

// fail answers a request with an error: a problem for programs, a page for people.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	known := of(r)
	f, fields := failureOf(err)
	if r.Context().Err() != nil { // nobody waits for the answer
		s.log.Debug("the client went away", "request_id", known.id, "error", err)
		return
	}
	if f.status >= 500 {
		s.log.Error("request failed", "request_id", known.id, "method", r.Method, "path", shownPath(r), "error", err)
	}
	h := w.Header()
	for _, name := range []string{"Content-Disposition", "Content-Encoding", "Content-Length", "Etag", "Last-Modified", "Location"} {
		h.Del(name) // the answer that failed may have set them
	}
	h.Set("Cache-Control", "no-store")
	var busy *busyError
	var rate *rateError
	var links *linkRateError
	switch {
	case errors.As(err, &rate):
		busy = &busyError{rate.wait}
	case errors.As(err, &links):
		busy = &busyError{links.wait}
	}
	if busy != nil || errors.As(err, &busy) {
		h.Set("Retry-After", fmt.Sprint(int(math.Ceil(busy.wait.Seconds()))))
	}
	switch {
	case f == errSignIn && !known.api:
		http.Redirect(w, r, "/signin", http.StatusSeeOther)
	case known.api:
		s.failAPI(w, known.id, f, fields)
	default:
		s.failPage(w, r, f)
	}
}

func (s *Server) failAPI(w http.ResponseWriter, id string, f *failure, fields []invalid.Problem) {
	if f.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="fenceline"`)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(f.status)
	p := problem{Type: problemType(f.slug), Title: f.title, Status: f.status, Detail: f.detail, RequestID: id, Errors: fields}
	if err := json.NewEncoder(w).Encode(p); err != nil {
		s.log.Debug("could not send a problem", "request_id", id, "error", err)
	}
}

// errorView is the page of an error.
type errorView struct {
	Status        int
	Title, Detail string
	RequestID     string
}

func (s *Server) failPage(w http.ResponseWriter, r *http.Request, f *failure) {
	v := errorView{Status: f.status, Title: f.title, Detail: f.detail, RequestID: of(r).id}
	if err := s.render(w, r, f.status, "error", v); err != nil {
		s.log.Error("could not render the page of an error", "request_id", v.RequestID, "error", err)
		http.Error(w, f.title, f.status)
	}
}
