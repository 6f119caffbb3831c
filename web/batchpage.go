package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// batchRoutes are the part of the table about the pages of batches.
func (s *Server) batchRoutes() []route {
	return []route{
		{"GET", "/batches", signedIn, storage.VerbView, s.batchesPage},
		{"GET", "/batches/{id}", signedIn, storage.VerbView, s.batchPage},
		{"POST", "/batches/{id}/retry", signedIn, storage.VerbOperate, s.retryBatchForm},
		{"POST", "/batches/{id}/cancel", signedIn, storage.VerbOperate, s.cancelBatchForm},
		{"POST", "/batches/{id}/zip", signedIn, storage.VerbRequest, s.zipBatchForm},
	}
}

// share is one part of a whole, drawn as a piece of a bar of 1,000.
type share struct {
	Class, Text string
	State       string // the filter of the jobs of this part; empty when several states are in it
	Count       int64
	X, Width    float64
}

// batchParts are the states in which the jobs of a batch can be. They part the batch:
// each job is in one of them and in no other.
func batchParts(counts map[storage.JobState]int64) (parts []share, total int64) {
	all := []share{
		{Class: "published", Text: "done", State: "done", Count: counts[storage.JobDone]},
		{Class: "superseded", Text: "superseded", State: "superseded", Count: counts[storage.JobSuperseded]},
		{Class: "running", Text: "running", State: "running", Count: counts[storage.JobRunning]},
		{Class: "running", Text: "cancelling", State: "cancelling", Count: counts[storage.JobCancelling]},
		{Class: "queued", Text: "waiting", State: "queued", Count: counts[storage.JobQueued]},
		{Class: "failed", Text: "failed", State: "failed", Count: counts[storage.JobFailed]},
		{Class: "cancelled", Text: "cancelled", State: "cancelled", Count: counts[storage.JobCancelled]},
	}
	for _, p := range all {
		total += p.Count
	}
	at := 0.0
	for _, p := range all {
		if p.Count == 0 {
			continue
		}
		p.X, p.Width = at, 1000*float64(p.Count)/float64(total)
		at += p.Width
		parts = append(parts, p)
	}
	return parts, total
}

// batchRow is a line of the list of batches.
type batchRow struct {
	storage.Batch
	Name  string
	Chip  chip
	Parts []share
	Total int64
	// Capped says that a part was not counted to its end.
	Capped bool
}

func newBatchRow(b storage.Batch, counts map[storage.JobState]int64) batchRow {
	row := batchRow{Batch: b, Name: b.Title, Chip: chip{"running", "at work"}}
	if row.Name == "" {
		row.Name = b.Key
	}
	row.Parts, row.Total = batchParts(counts)
	live := counts[storage.JobQueued] + counts[storage.JobRunning] + counts[storage.JobCancelling]
	switch {
	case row.Total == 0:
		row.Chip = chip{"queued", "no jobs"}
	case live == counts[storage.JobQueued] && live > 0 && live == row.Total:
		row.Chip = chip{"queued", "waiting"}
	case live > 0 && b.CancelledAt != nil:
		row.Chip = chip{"running", "cancelling"}
	case live > 0:
	case counts[storage.JobFailed] > 0:
		row.Chip = chip{"failed", "failed"}
	case counts[storage.JobCancelled] > 0:
		row.Chip = chip{"cancelled", "cancelled"}
	default:
		row.Chip = chip{"published", "done"}
	}
	for _, p := range row.Parts {
		row.Capped = row.Capped || p.Count > storage.CountCap
	}
	return row
}

// batchesView is the page of all batches.
type batchesView struct {
	Filters filterBar
	Rows    []batchRow
	Pager   pager
	Empty   emptyState
}

func (s *Server) batchesPage(w http.ResponseWriter, r *http.Request) error {
	l := newListing(r, "state", "tenant")
	if state := l.Get("state"); state != "" && state != "open" {
		return invalid.New("state", state, "is no state of batches; use open")
	}
	who := of(r).principal
	page, err := s.store.ListBatches(r.Context(), who.scope, storage.BatchFilter{Tenant: l.Get("tenant"), Open: l.Get("state") == "open", After: l.After, Limit: listRows})
	if err != nil {
		return err
	}
	ids := make([]uuid.UUID, len(page.Items))
	for i, b := range page.Items {
		ids[i] = b.ID
	}
	counts, err := s.store.CountBatches(r.Context(), ids)
	if err != nil {
		return err
	}
	fields := []formField{{Name: "state", Label: "State", Kind: "select", Options: []formOption{{"", "Any", false}, {"open", "Not ended", false}}}}
	if who.scope.All {
		fields = append(fields, formField{Name: "tenant", Label: "Tenant", Kind: "text"})
	}
	v := batchesView{Filters: l.filters(len(fields), fields...), Pager: l.pager(page.Next)}
	for _, b := range page.Items {
		v.Rows = append(v.Rows, newBatchRow(b, counts[b.ID]))
	}
	v.Empty = l.nothing("batches", emptyState{Title: "No batches yet.", Text: "A batch is many jobs that are asked for together: an invoice run, or a call of POST /api/v1/batches.",
		Command: "fenceline dispatch invoices SOURCE"})
	return s.render(w, r, http.StatusOK, "batches", v)
}

// batchCall is what a batch calls when something has happened to it.
type batchCall struct {
	When, What string
	Called     *storage.BatchCall
}

// batchView is the page of a batch.
type batchView struct {
	batchRow
	Failures []storage.BatchFailure
	Calls    []batchCall
	Jobs     []jobLine
	Pager    pager
	State    string // of the jobs that are shown; empty for all
	Empty    emptyState
	// What can be done to it.
	Retry, Cancel *confirmation
	// ZIP is the export that holds everything; CanZIP says that it can be made.
	ZIP    *storage.Export
	CanZIP bool
	Done   int64 // per cent
}

func (s *Server) batchPage(w http.ResponseWriter, r *http.Request) error {
	b, err := s.readBatch(r)
	if err != nil {
		return err
	}
	counts, err := s.store.CountBatch(r.Context(), b.ID)
	if err != nil {
		return err
	}
	v := batchView{batchRow: newBatchRow(b, counts.States), Failures: counts.Failures}
	v.Capped = false // all of them were counted
	if v.Total > 0 {
		v.Done = 100 * (v.Total - counts.States[storage.JobQueued] - counts.States[storage.JobRunning] - counts.States[storage.JobCancelling]) / v.Total
	}
	v.offer(of(r).principal, counts)
	if v.Calls, err = s.batchCalls(r, b); err != nil {
		return err
	}
	if err := s.findZIP(r, &v, counts); err != nil {
		return err
	}
	if err := s.batchJobs(r, &v); err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, "batch", v)
}

// offer fills in what somebody may do to the batch now.
func (v *batchView) offer(who principal, counts storage.BatchCounts) {
	if !who.may(storage.VerbOperate) {
		return
	}
	path := "/batches/" + v.ID.String()
	if n := counts.States[storage.JobFailed]; n > 0 {
		v.Retry = &confirmation{ID: "retry", Label: "Retry what failed", Action: path + "/retry", Button: "Retry " + numberOf(n, "job", "jobs"), Safe: true,
			Text: numberOf(n, "job", "jobs") + " of this batch failed. They are queued again with their errors kept."}
	}
	if n := counts.States[storage.JobQueued] + counts.States[storage.JobRunning]; n > 0 {
		v.Cancel = &confirmation{ID: "cancel", Label: "Cancel batch", Action: path + "/cancel", Button: "Cancel " + numberOf(n, "job", "jobs"),
			Text: "What is left of this batch, " + numberOf(n, "job", "jobs") + ", will not run or is told to stop. What is done stays. Nothing can be added afterwards."}
	}
}

// numberOf is a number with its noun.
func numberOf(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return showNumber(n) + " " + many
}

// batchCalls are the calls that the batch was made with, each with what came of it.
func (s *Server) batchCalls(r *http.Request, b storage.Batch) ([]batchCall, error) {
	called, err := s.store.BatchCalls(r.Context(), b.ID)
	if err != nil {
		return nil, err
	}
	var list []batchCall
	for _, c := range []struct {
		event, when, what string
		request           json.RawMessage
	}{{"success", "then", "when every job is done", b.OnSuccess}, {"failure", "catch", "when the first has failed", b.OnFailure}, {"end", "finally", "when all have ended", b.OnEnd}} {
		call := batchCall{When: c.when, What: c.what}
		if i := slices.IndexFunc(called, func(x storage.BatchCall) bool { return x.Event == c.event }); i >= 0 {
			call.Called = &called[i]
		}
		if call.Called != nil || len(c.request) > 0 {
			list = append(list, call)
		}
	}
	return list, nil
}

// findZIP looks for the ZIP with everything, or whether it can be made.
func (s *Server) findZIP(r *http.Request, v *batchView, counts storage.BatchCounts) error {
	e, err := s.store.ExportNamed(r.Context(), v.Tenant, jobs.BatchZIPName, v.ID.String())
	if err == nil {
		v.ZIP = &e
	} else if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	whole := counts.Total > 0 && counts.States[storage.JobDone]+counts.States[storage.JobSuperseded] == counts.Total
	if !whole || v.ZIP != nil && v.ZIP.AttemptID != nil || !of(r).principal.may(storage.VerbRequest) || !slices.Contains(s.dispatcher.Kinds(), jobs.BatchZIPName) {
		return nil
	}
	files, err := s.store.BatchFiles(r.Context(), v.ID, uuid.Nil, 20)
	v.CanZIP = len(files) > 0
	return err
}

// batchJobs fills in a page of the jobs of the batch.
func (s *Server) batchJobs(r *http.Request, v *batchView) error {
	l := newListing(r, "state")
	refused := new(invalid.Error)
	f := storage.JobSearch{JobFilter: storage.JobFilter{Batch: v.ID, State: l.state(refused), After: l.After, Limit: listRows}}
	if err := refused.OrNil(); err != nil {
		return err
	}
	found, err := s.store.SearchJobs(r.Context(), of(r).principal.scope, f)
	if err != nil {
		return err
	}
	for _, j := range found.Items {
		v.Jobs = append(v.Jobs, newJobLine(j))
	}
	v.State, v.Pager = string(f.State), l.pager(found.Next)
	v.Pager.Note = lookedText(found.Looked, "jobs", l.After)
	v.Empty = l.nothing("jobs", emptyState{Title: "This batch has no jobs.", Text: "They were pruned, or none was added."})
	return nil
}

func (s *Server) retryBatchForm(w http.ResponseWriter, r *http.Request) error {
	return s.onBatch(w, r, auditBatchRetried, s.store.RetryBatch)
}

func (s *Server) cancelBatchForm(w http.ResponseWriter, r *http.Request) error {
	return s.onBatch(w, r, auditBatchCancelled, s.store.CancelBatch)
}

// onBatch does something to a batch and shows it.
func (s *Server) onBatch(w http.ResponseWriter, r *http.Request, action string, do func(context.Context, storage.Scope, uuid.UUID) (int64, error)) error {
	b, err := s.readBatch(r)
	if err != nil {
		return err
	}
	who := of(r).principal
	n, err := do(r.Context(), who.scope, b.ID)
	if err != nil {
		return err
	}
	s.log.Info(action, "request_id", of(r).id, "batch", b.ID, "jobs", n, "who", who.name)
	if err := s.audit(r, action, batchObject(b), map[string]any{"jobs": n}); err != nil {
		return err
	}
	http.Redirect(w, r, "/batches/"+b.ID.String(), http.StatusSeeOther)
	return nil
}

// zipBatchForm asks for a ZIP of everything. Asked for twice it is one job.
func (s *Server) zipBatchForm(w http.ResponseWriter, r *http.Request) error {
	b, err := s.readBatch(r)
	if err != nil {
		return err
	}
	if !slices.Contains(s.dispatcher.Kinds(), jobs.BatchZIPName) {
		return errMissing
	}
	raw := json.RawMessage(fmt.Sprintf(`{"batch":%q}`, b.ID))
	who := of(r).principal
	receipt, err := s.dispatcher.Dispatch(r.Context(), nil, jobs.Request{Kind: jobs.BatchZIPName, Tenant: b.Tenant, Payload: raw}, jobs.RequestedBy(who.name), jobs.UniqueWhileActive(""))
	if err != nil {
		return err
	}
	s.log.Info("dispatched", "request_id", of(r).id, "job", receipt.Job.ID, "kind", jobs.BatchZIPName, "reused", receipt.Reused, "who", who.name)
	if err := s.auditJob(r, auditAsked, receipt); err != nil {
		return err
	}
	http.Redirect(w, r, "/jobs/"+receipt.Job.ID.String(), http.StatusSeeOther)
	return nil
}
