package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// listRows is how many rows a page of a list has.
const listRows = 25

// jobListRoutes are the part of the table about lists of jobs.
func (s *Server) jobListRoutes() []route {
	return []route{
		{"GET", "/jobs", signedIn, storage.VerbView, s.jobsPage},
		{"GET", "/jobs/bulk", signedIn, storage.VerbOperate, s.jobsBulkPage},
		{"POST", "/jobs/bulk", signedIn, storage.VerbOperate, s.jobsBulkForm},
	}
}

// jobLine is a line of a list of jobs.
type jobLine struct {
	storage.Job
	Name     string
	Chip     chip
	Progress *progress
	// Note says what the columns do not: why it failed, what it waits for.
	Note string
}

func newJobLine(j storage.Job) jobLine {
	row := jobLine{Job: j, Name: jobName(j), Chip: jobChip(j.State)}
	if j.Plain() {
		row.Chip = plainChip(j.State)
	}
	switch {
	case j.State == storage.JobQueued:
		row.Note = waitNote(j)
	case j.State.Ended() && j.State != storage.JobDone && j.Error != nil:
		row.Note = cut(firstLine(*j.Error), 120)
	case j.Plain() && !j.State.Ended():
		row.Progress = new(plainProgress(j))
	}
	return row
}

func jobName(j storage.Job) string {
	if j.Title != "" {
		return j.Title
	}
	return j.Kind
}

// waitNote is what a job waits for, in words; the time is in a column of its own.
func waitNote(j storage.Job) string {
	why := ""
	if j.WaitingFor != nil {
		why = *j.WaitingFor
	}
	text := map[string]string{
		"lease": "for another attempt on its export", "rate": "for its turn at a rate", "overlap": "for another run of its kind",
		"circuit": "for a closed circuit", "cap": "for room under a cap", "chain": "for the job before it", "retry": "to be tried again",
	}[why]
	if j.Error != nil && why == "retry" {
		return "tries again after: " + cut(firstLine(*j.Error), 120)
	}
	return text
}

// jobsView is the page of all jobs.
type jobsView struct {
	Filters filterBar
	Rows    []jobLine
	Pager   pager
	Empty   emptyState
	// What can be done to all that match: addresses, empty when nothing can.
	CancelAll, RetryAll string
	Done                string // what was just done
}

// jobNames is what can be chosen among jobs.
func jobNames() []string {
	return []string{"state", "kind", "queue", "tag", "tenant", "by", "batch"}
}

// jobSearch reads what was chosen; what is no choice is refused.
func jobSearch(l listing) (storage.JobSearch, error) {
	refused := new(invalid.Error)
	f := storage.JobSearch{RequestedBy: l.Get("by"), JobFilter: storage.JobFilter{State: l.state(refused), Kind: l.Get("kind"), Queue: l.Get("queue"),
		Tag: l.Get("tag"), Tenant: l.Get("tenant"), Batch: l.id("batch", refused), After: l.After, Limit: listRows}}
	return f, refused.OrNil()
}

func (s *Server) jobsPage(w http.ResponseWriter, r *http.Request) error {
	l := newListing(r, jobNames()...)
	f, err := jobSearch(l)
	if err != nil {
		return err
	}
	who := of(r).principal
	found, err := s.store.SearchJobs(r.Context(), who.scope, f)
	if err != nil {
		return err
	}
	v := jobsView{Filters: s.jobFilters(l, who), Pager: l.pager(found.Next), Done: doneText(r.URL.Query())}
	v.Pager.Note = lookedText(found.Looked, "jobs", l.After)
	for _, j := range found.Items {
		v.Rows = append(v.Rows, newJobLine(j))
	}
	v.Empty = l.nothing("jobs", emptyState{Title: "No jobs yet.", Text: "A job begins with", Href: "/new", Link: "a new export", Command: "fenceline dispatch report NAME --wait -o file.csv"})
	if found.Looked > 0 {
		v.Empty = emptyState{Title: "No jobs match so far.", Text: "Nothing among those that were looked at is like what was chosen above.", Href: v.Pager.Older, Link: "Look further back"}
	}
	if who.may(storage.VerbOperate) && len(v.Rows) > 0 {
		v.CancelAll, v.RetryAll = bulkAddresses(l, f.State)
	}
	return s.render(w, r, http.StatusOK, "jobs", v)
}

// lookedText says how far a search went.
func lookedText(looked int, what, after string) string {
	if looked == 0 {
		return ""
	}
	newest := "newest"
	if after != "" {
		newest = "next"
	}
	return fmt.Sprintf("Searched the %s %s %s; “Older” goes on from there.", newest, showNumber(int64(looked)), what)
}

func (s *Server) jobFilters(l listing, who principal) filterBar {
	state := formField{Name: "state", Label: "State", Kind: "select", Options: []formOption{
		{"", "Any", false}, {"queued", "Waiting", false}, {"running", "Running", false}, {"done", "Done or published", false},
		{"superseded", "Superseded", false}, {"failed", "Failed", false}, {"cancelling", "Cancelling", false}, {"cancelled", "Cancelled", false}}}
	fields := []formField{state, selectField("kind", "Kind", "Any", s.dispatcher.Kinds()...),
		{Name: "queue", Label: "Queue", Kind: "text"}, {Name: "tag", Label: "Tag", Kind: "text"}}
	if who.scope.All {
		fields = append(fields, formField{Name: "tenant", Label: "Tenant", Kind: "text"})
	}
	fields = append(fields, formField{Name: "by", Label: "Requested by", Kind: "text"}, formField{Name: "batch", Label: "Batch", Kind: "text", Hint: "its id"})
	return l.filters(3, fields...)
}

// bulkAddresses are where all jobs that match can be cancelled and retried, as far as their state allows it.
func bulkAddresses(l listing, state storage.JobState) (cancel, retry string) {
	all := l
	all.Path = "/jobs/bulk"
	at := func(do string) string {
		q, _ := url.Parse(all.Address(""))
		values := q.Query()
		values.Set("do", do)
		return all.Path + "?" + values.Encode()
	}
	switch state {
	case "":
		return at("cancel"), at("retry")
	case storage.JobQueued, storage.JobRunning:
		return at("cancel"), ""
	case storage.JobFailed:
		return "", at("retry")
	}
	return "", ""
}

// doneText says what the form before has done, by the address that it led to.
func doneText(q url.Values) string {
	n, err := strconv.ParseInt(q.Get("n"), 10, 64)
	if err != nil || n < 0 {
		return ""
	}
	jobs := countOf(n, "job")
	switch q.Get("did") {
	case "cancel":
		return upperFirst(jobs) + " cancelled. What runs is shown as cancelling until its worker confirms."
	case "retry":
		return upperFirst(jobs) + " queued again."
	}
	return ""
}

// countOf is a number with its noun and the verb of a sentence about what was done.
func countOf(n int64, noun string) string {
	return showNumber(n) + " " + count.Noun(n, noun) + count.Verb(n, " was", " were")
}

// bulkView asks whether to do something to all jobs that match.
type bulkView struct {
	Cancel bool // else retry
	Count  int64
	Chosen []formOption // in words
	Hidden []formOption
	Back   string
}

// Capped says that there are more than were counted.
func (v bulkView) Capped() bool { return v.Count > storage.CountCap }

// bulkAction is what is asked for: cancel or retry.
func bulkAction(do string) (cancel bool, err error) {
	if do != "cancel" && do != "retry" {
		return false, invalid.New("do", do, "must be cancel or retry")
	}
	return do == "cancel", nil
}

// jobsBulkPage says how many jobs match and asks. The newest job is remembered: what is dispatched
// after the look is not touched.
func (s *Server) jobsBulkPage(w http.ResponseWriter, r *http.Request) error {
	cancel, err := bulkAction(r.URL.Query().Get("do"))
	if err != nil {
		return err
	}
	l := newListing(r, jobNames()...)
	f, err := jobSearch(l)
	if err != nil {
		return err
	}
	ctx, scope := r.Context(), of(r).principal.scope
	if f.UpTo, err = s.store.NewestJob(ctx, scope); err != nil {
		return err
	}
	v := bulkView{Cancel: cancel, Hidden: []formOption{{Value: r.URL.Query().Get("do"), Text: "do"}, {Value: f.UpTo.String(), Text: "upto"}}}
	if cancel {
		v.Count, err = s.store.CountCancellable(ctx, scope, f)
	} else if failed, narrowed, some := failedLike(f, scope); some {
		v.Count, err = s.store.CountFailedCapped(ctx, narrowed, failed)
	}
	if err != nil {
		return err
	}
	for _, name := range jobNames() {
		if value := l.Get(name); value != "" {
			v.Chosen = append(v.Chosen, formOption{Value: value, Text: map[string]string{"by": "requested by"}[name]})
			if last := &v.Chosen[len(v.Chosen)-1]; last.Text == "" {
				last.Text = name
			}
			v.Hidden = append(v.Hidden, formOption{Value: value, Text: name})
		}
	}
	l.Path, l.After = "/jobs", ""
	v.Back = l.Address("")
	return s.render(w, r, http.StatusOK, "jobsbulk", v)
}

// failedLike is the filter of failed jobs that matches as a search does; some is false when none can match.
func failedLike(f storage.JobSearch, scope storage.Scope) (failed storage.FailedFilter, narrowed storage.Scope, some bool) {
	if f.Tenant != "" {
		if !scope.Sees(f.Tenant) {
			return failed, scope, false
		}
		scope = storage.Scope{Tenant: f.Tenant}
	}
	return storage.FailedFilter{Kind: f.Kind, Queue: f.Queue, Tag: f.Tag, Batch: f.Batch, RequestedBy: f.RequestedBy, UpTo: f.UpTo},
		scope, f.State == "" || f.State == storage.JobFailed
}

// jobsBulkForm does it, a thousand at a time, however many there are.
func (s *Server) jobsBulkForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	cancel, err := bulkAction(r.PostForm.Get("do"))
	if err != nil {
		return err
	}
	l := listing{Path: "/jobs", names: jobNames(), chosen: url.Values{}}
	for _, name := range jobNames() {
		if value := r.PostForm.Get(name); value != "" {
			l.chosen.Set(name, value)
		}
	}
	f, err := jobSearch(l)
	if err != nil {
		return err
	}
	if f.UpTo, err = uuid.Parse(r.PostForm.Get("upto")); err != nil {
		return invalid.New("upto", r.PostForm.Get("upto"), "is not the id of a job: go back and look at the jobs again")
	}
	n, err := s.bulk(r, cancel, f)
	if err != nil {
		return err
	}
	s.log.Info("jobs in bulk", "request_id", of(r).id, "do", r.PostForm.Get("do"), "jobs", n, "who", of(r).principal.name)
	if err := s.auditBulk(r, cancel, l, n); err != nil {
		return err
	}
	l.names = append(l.names, "did", "n")
	l.chosen.Set("did", r.PostForm.Get("do"))
	l.chosen.Set("n", strconv.FormatInt(n, 10))
	http.Redirect(w, r, l.Address(""), http.StatusSeeOther)
	return nil
}

// auditBulk writes down what was done to how many jobs, and which were chosen.
func (s *Server) auditBulk(r *http.Request, cancel bool, l listing, n int64) error {
	action, details := auditRetried, map[string]any{"jobs": n}
	if cancel {
		action = auditCancelled
	}
	for _, name := range jobNames() {
		if value := l.Get(name); value != "" {
			details[name] = value
		}
	}
	return s.audit(r, action, object{kind: "jobs", tenant: l.Get("tenant")}, details)
}

func (s *Server) bulk(r *http.Request, cancel bool, f storage.JobSearch) (int64, error) {
	scope := of(r).principal.scope
	if cancel {
		return s.store.CancelMatching(r.Context(), scope, f)
	}
	failed, narrowed, some := failedLike(f, scope)
	if !some {
		return 0, nil
	}
	return s.store.RetryFailed(r.Context(), narrowed, failed)
}
