package web

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// failedRoutes are the part of the table about what has failed, in groups.
func (s *Server) failedRoutes() []route {
	return []route{
		{"GET", "/failed", signedIn, storage.VerbView, s.failedPage},
		{"GET", "/failed/{group}", signedIn, storage.VerbView, s.failedGroupPage},
		{"GET", "/failed/all", signedIn, storage.VerbOperate, s.failedAllPage},
		{"POST", "/failed/all", signedIn, storage.VerbOperate, s.failedAllForm},
		{"GET", "/api/v1/failed/groups", api, storage.VerbView, s.apiFailedGroups},
	}
}

// groupRows is how many groups a page has at most.
const groupRows = 25

// failedView is the page of failed jobs by their errors.
type failedView struct {
	Filters          filterBar
	Groups           []groupLine
	More             bool
	Empty            emptyState
	RetryAll, Forget string // addresses of the question; empty when there is nothing to do or no right to
	Done             string // what was just done
	NewestOnly       bool   // the groups are of the newest that match only
	Group            *groupLine
	Jobs             []jobLine
	Pager            pager
}

type groupLine struct {
	storage.FailedGroup
	Href string // its page
}

// failedNames is what can be chosen among failed jobs.
func failedNames() []string { return []string{"kind", "queue", "tag", "tenant", "error"} }

func failedChoice(l listing) storage.FailedFilter {
	return storage.FailedFilter{Kind: l.Get("kind"), Queue: l.Get("queue"), Tag: l.Get("tag"), Tenant: l.Get("tenant"), Error: l.Get("error")}
}

func (s *Server) failedPage(w http.ResponseWriter, r *http.Request) error {
	who := of(r).principal
	l := newListing(r, failedNames()...)
	f := failedChoice(l)
	v := failedView{Filters: s.failedFilters(l, who), Done: failedDone(r.URL.Query())}
	groups, more, err := s.store.FailedGroups(r.Context(), who.scope, f, groupRows)
	if err != nil {
		return err
	}
	var sum int64
	for _, g := range groups {
		at := l
		at.Path = "/failed/" + g.ID.String()
		v.Groups = append(v.Groups, groupLine{g, at.Address("")})
		sum += g.Count
	}
	v.More, v.NewestOnly = more, f != storage.FailedFilter{Tenant: f.Tenant} && sum > storage.CountCap
	v.Empty = l.nothing("failed jobs", emptyState{Title: "No job has failed.", Text: "Jobs that are out of attempts are listed here by their errors, to be retried or forgotten together."})
	if who.may(storage.VerbOperate) && len(groups) > 0 {
		v.RetryAll, v.Forget = allAddress(l, uuid.Nil, "retry"), allAddress(l, uuid.Nil, "forget")
	}
	return s.render(w, r, http.StatusOK, "failed", v)
}

func (s *Server) failedGroupPage(w http.ResponseWriter, r *http.Request) error {
	id, err := uuid.Parse(r.PathValue("group"))
	if err != nil || id.String() != r.PathValue("group") {
		return errMissing
	}
	who := of(r).principal
	g, err := s.store.FailedGroup(r.Context(), who.scope, id)
	if err != nil {
		return err
	}
	l := newListing(r, failedNames()...)
	f := failedChoice(l)
	f.Group = id
	page, err := s.store.FailedRecent(r.Context(), who.scope, f, l.After, listRows)
	if err != nil {
		return err
	}
	v := failedView{Group: &groupLine{FailedGroup: g}, Filters: s.failedFilters(l, who), Pager: l.pager(page.Next), Empty: l.nothing("failed jobs", emptyState{Title: "No jobs are left in this group.", Href: "/failed", Link: "All that has failed"})}
	for _, j := range page.Items {
		v.Jobs = append(v.Jobs, newJobLine(j))
	}
	if who.may(storage.VerbOperate) && len(v.Jobs) > 0 {
		v.RetryAll, v.Forget = allAddress(l, id, "retry"), allAddress(l, id, "forget")
	}
	return s.render(w, r, http.StatusOK, "failed", v)
}

func (s *Server) failedFilters(l listing, who principal) filterBar {
	fields := []formField{selectField("kind", "Kind", "Any", s.dispatcher.Kinds()...), {Name: "queue", Label: "Queue", Kind: "text"}, {Name: "tag", Label: "Tag", Kind: "text"}}
	if who.scope.All {
		fields = append(fields, formField{Name: "tenant", Label: "Tenant", Kind: "text"})
	}
	return l.filters(len(fields)+1, append(fields, formField{Name: "error", Label: "Error holds", Kind: "text"})...)
}

// allAddress is where is asked whether to do something to all that match.
func allAddress(l listing, group uuid.UUID, do string) string {
	q := url.Values{"do": {do}}
	if group != uuid.Nil {
		q.Set("group", group.String())
	}
	for _, name := range failedNames() {
		if value := l.Get(name); value != "" {
			q.Set(name, value)
		}
	}
	return "/failed/all?" + q.Encode()
}

// failedAllView asks whether to do something to all failed jobs that match.
type failedAllView struct {
	Forget bool // else retry
	Count  int64
	Group  *storage.FailedGroup
	Chosen []formOption // in words
	Hidden []formOption
	Back   string
}

// Capped says that there are more than were counted.
func (v failedAllView) Capped() bool { return v.Count > storage.CountCap }

// failedAction reads what is to be done and to what from an address or a form.
func failedAction(q url.Values) (do string, f storage.FailedFilter, err error) {
	refused := new(invalid.Error)
	if do = q.Get("do"); do != "retry" && do != "forget" {
		refused.Add("do", do, "must be retry or forget")
	}
	l := listing{names: failedNames(), chosen: q}
	f = failedChoice(l)
	f.Group = optionalID("group", q.Get("group"), refused)
	if text := q.Get("until"); text != "" {
		if f.Until, err = time.Parse(time.RFC3339Nano, text); err != nil {
			refused.Add("until", text, "is not a time: go back and look at the jobs again")
		}
	}
	return do, f, refused.OrNil()
}

// failedAllPage says how many match and asks. The time of the look is remembered:
// what fails after it is not touched.
func (s *Server) failedAllPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	do, f, err := failedAction(q)
	if err != nil {
		return err
	}
	scope := of(r).principal.scope
	if f.Until, err = s.store.Now(r.Context()); err != nil {
		return err
	}
	v := failedAllView{Forget: do == "forget", Back: "/failed", Hidden: []formOption{{Value: do, Text: "do"}, {Value: f.Until.Format(time.RFC3339Nano), Text: "until"}}}
	if v.Count, err = s.store.CountFailedCapped(r.Context(), scope, f); err != nil {
		return err
	}
	if f.Group != uuid.Nil && v.Count > 0 {
		g, err := s.store.FailedGroup(r.Context(), scope, f.Group)
		if err != nil {
			return err
		}
		v.Group, v.Back = &g, "/failed/"+g.ID.String()
	}
	for _, name := range append(failedNames(), "group") {
		if value := q.Get(name); value != "" {
			v.Hidden = append(v.Hidden, formOption{Value: value, Text: name})
			if name != "group" {
				v.Chosen = append(v.Chosen, formOption{Value: value, Text: name})
			}
		}
	}
	return s.render(w, r, http.StatusOK, "failedall", v)
}

// failedAllForm does it, a thousand at a time, however many there are.
func (s *Server) failedAllForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	do, f, err := failedAction(r.PostForm)
	if err != nil {
		return err
	}
	if f.Until.IsZero() {
		return invalid.New("until", "", "is missing: go back and look at the jobs again")
	}
	who := of(r).principal
	work, action := s.store.RetryFailed, auditRetried
	if do == "forget" {
		work, action = s.store.ForgetFailed, auditForgot
	}
	n, err := work(r.Context(), who.scope, f)
	if n > 0 {
		details := map[string]any{"jobs": n}
		for _, name := range append(failedNames(), "group") {
			if value := r.PostForm.Get(name); value != "" {
				details[name] = value
			}
		}
		if failure := s.audit(r, action, object{kind: "failed"}, details); failure != nil {
			return failure
		}
	}
	if err != nil {
		return err
	}
	s.log.Info("failed jobs: "+do, "request_id", of(r).id, "jobs", n, "who", who.name)
	http.Redirect(w, r, "/failed?did="+do+"&n="+strconv.FormatInt(n, 10), http.StatusSeeOther)
	return nil
}

// failedDone says what the form before has done, by the address that it led to.
func failedDone(q url.Values) string {
	n, err := strconv.ParseInt(q.Get("n"), 10, 64)
	if err != nil || n < 0 {
		return ""
	}
	jobs := upperFirst(countOf(n, "job"))
	switch q.Get("did") {
	case "retry":
		return jobs + " queued again."
	case "forget":
		return jobs + " taken off this list. Their errors stay with them."
	}
	return ""
}

// apiFailedGroups lists the groups of failed jobs, the one with the newest failure first.
func (s *Server) apiFailedGroups(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	refused := new(invalid.Error)
	most := limit(q, refused)
	f := storage.FailedFilter{Kind: q.Get("kind"), Queue: q.Get("queue"), Error: q.Get("error"), Tag: q.Get("tag"), Tenant: q.Get("tenant")}
	f.Batch = optionalID("batch", q.Get("batch"), refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	if most <= 0 {
		most = groupRows
	}
	groups, more, err := s.store.FailedGroups(r.Context(), of(r).principal.scope, f, min(most, 50))
	if err != nil {
		return err
	}
	if groups == nil {
		groups = []storage.FailedGroup{}
	}
	return respond(w, http.StatusOK, struct {
		Items []storage.FailedGroup `json:"items"`
		More  bool                  `json:"more"`
	}{groups, more})
}
