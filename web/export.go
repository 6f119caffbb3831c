package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

const (
	// maxAttempts is how many attempts a page or an answer lists; one more is read to know whether there are.
	maxAttempts = 50
	// maxDrawn is how many attempts the picture shows.
	maxDrawn = 10
	// maxStories is how many fenced attempts are told about in full.
	maxStories = 3
	// maxJobs is how many jobs the page of an export lists.
	maxJobs = 10
	// maxPublications is how many publications it lists at once.
	maxPublications = 10
)

// exportView is the page of an export.
type exportView struct {
	storage.Export
	Name     string
	Chip     chip
	Current  *storage.Attempt
	Files    []storage.File
	Warnings []string

	Attempts []attemptRow
	More     bool // there are older attempts
	Pictures []fence
	Drawn    int
	Summary  string // the picture in words
	Stories  []story
	Untold   int // fenced attempts that the table alone tells about
	Jobs     []jobRow
	MoreJobs bool

	Publications []publicationRow
	Older        int64 // the token below which earlier publications are; 0 when there are none
	Before       int64 // where this page of publications begins; 0 for the newest
	CurrentJob   *storage.Job
	Links        linksView
	Keeping      string // until when the current publication stays, and why
}

// jobRow is a line of a list of jobs.
type jobRow struct {
	storage.Job
	Chip chip
}

func (s *Server) exportPage(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	scope := of(r).principal.scope
	e, err := s.store.Export(r.Context(), scope, id)
	if err != nil {
		return err
	}
	v := exportView{Export: e, Name: exportName(e), Chip: chip{"queued", "no file yet"}}
	attempts, err := s.store.Attempts(r.Context(), e.ID, maxAttempts+1)
	if err != nil {
		return err
	}
	hideStacks(scope, attempts)
	if len(attempts) > maxAttempts {
		v.More, attempts = true, attempts[:maxAttempts]
	}
	if err := s.showCurrent(r.Context(), &v, attempts); err != nil {
		return err
	}
	v.showAttempts(attempts, s.lease, time.Now())
	if err := s.showPublications(r, &v); err != nil {
		return err
	}
	return s.finishExport(w, r, scope, &v)
}

// showCurrent fills in what the pointer names.
func (s *Server) showCurrent(ctx context.Context, v *exportView, attempts []storage.Attempt) error {
	if v.AttemptID == nil {
		return nil
	}
	v.Chip = chip{"published", "current"}
	if v.Current = byID(attempts, *v.AttemptID); v.Current == nil {
		a, err := s.store.Attempt(ctx, *v.AttemptID)
		if err != nil {
			return err
		}
		v.Current = &a
	}
	v.Warnings = showWarnings(v.Current.Warnings)
	k, err := s.store.Keeping(ctx, storage.Scope{Tenant: v.Tenant}, v.ID, s.superseded())
	if err != nil {
		return err
	}
	v.Keeping = k.Sentence()
	v.Files, err = s.store.Files(ctx, *v.AttemptID)
	return err
}

func (v *exportView) showAttempts(attempts []storage.Attempt, lease time.Duration, now time.Time) {
	v.Attempts = attemptRows(attempts, true, now)
	v.Stories = fencedStories(attempts, lease, now)
	v.Untold = max(len(v.Stories)-maxStories, 0)
	v.Stories = v.Stories[:len(v.Stories)-v.Untold]
	if len(attempts) == 0 {
		return
	}
	drawn := attempts[:min(len(attempts), maxDrawn)]
	v.Drawn = len(drawn)
	v.Pictures = []fence{ // the style shows the one that fits the screen
		drawFence(drawn, fenceOptions{Name: "wide", Width: 880, Now: now, Lease: lease}),
		drawFence(drawn, fenceOptions{Name: "medium", Width: 600, Now: now, Lease: lease}),
		drawFence(drawn, fenceOptions{Name: "narrow", Width: 350, Now: now, Lease: lease}),
	}
	titles := make([]string, len(drawn))
	for i, a := range drawn {
		titles[i] = attemptTitle(a)
	}
	v.Summary = strings.Join(titles, ". ")
}

func (s *Server) finishExport(w http.ResponseWriter, r *http.Request, scope storage.Scope, v *exportView) error {
	page, err := s.store.Jobs(r.Context(), scope, storage.JobFilter{ExportID: v.ID, Limit: maxJobs})
	if err != nil {
		return err
	}
	v.MoreJobs = page.Next != ""
	for _, j := range page.Items {
		v.Jobs = append(v.Jobs, jobRow{j, jobChip(j.State)})
	}
	if len(v.Jobs) > 0 && v.AttemptID == nil {
		v.Chip = v.Jobs[0].Chip
	}
	if err := s.showShared(r, v); err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, "export", v)
}

// Working is the newest job when it is not over yet: the page says that something is on its way.
func (v *exportView) Working() *jobRow {
	if len(v.Jobs) > 0 && !v.Jobs[0].State.Ended() {
		return &v.Jobs[0]
	}
	return nil
}

// FileURL is the address of a file of the current publication. It names the
// publication: what was seen is what comes.
func (v *exportView) FileURL(f storage.File) string { return pinnedURL(v.ID, f) }

// Size is how large all current files are together.
func (v *exportView) Size() (sum int64) {
	for _, f := range v.Files {
		sum += f.Size
	}
	return sum
}

// pinnedURL is the address of a file of one publication.
func pinnedURL(export uuid.UUID, f storage.File) string {
	return fileURL("/exports/", export, f.Name) + "?attempt=" + f.AttemptID.String()
}

func fileURL(base string, export uuid.UUID, name string) string {
	return base + export.String() + "/files/" + url.PathEscape(name)
}
