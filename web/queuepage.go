package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

// queueRoutes are the part of the table about the page of queues and workers.
func (s *Server) queueRoutes() []route {
	return []route{
		{"GET", "/queues", signedIn, storage.VerbView, s.queuesPage},
		{"POST", "/queues/{name}/pause", signedIn, storage.VerbOperate, s.pauseQueueForm},
		{"POST", "/queues/{name}/resume", signedIn, storage.VerbOperate, s.resumeQueueForm},
	}
}

const (
	// workersShown is how long a worker is shown after its last heartbeat, stoppedShown when it has said goodbye.
	workersShown, stoppedShown = 24 * time.Hour, 10 * time.Minute
	// beatLate is after how long a heartbeat is late: it comes every second.
	beatLate = 5 * time.Second
	// maxRunningJobs bounds what is read of the jobs at work, runsShown what is shown of one worker.
	maxRunningJobs, runsShown = 2000, 8
	// maxQueuesShown bounds the list of queues.
	maxQueuesShown = 500
)

// queueRow is a queue with what waits, by why, and runs.
type queueRow struct {
	storage.Queue
	storage.QueueDelay
}

// Path is the beginning of the addresses of what can be done to it.
func (q queueRow) Path() string { return "/queues/" + url.PathEscape(q.Name) }

// Pause asks before it pauses.
func (q queueRow) Pause() confirmation {
	return confirmation{ID: "pause-" + q.Name, Label: "Pause", Action: q.Path() + "/pause", Button: "Pause it",
		Text: fmt.Sprintf("Nothing of the queue %s begins any more: %s would wait. What runs goes on.", q.Name, countWaiting(q.Waiting))}
}

func countWaiting(n int64) string {
	return showCount(n) + " " + count.Noun(n, "job") + " that " + count.Verb(n, "is", "are") + " due"
}

// workerRow is a worker with what it works on.
type workerRow struct {
	storage.Worker
	Chip   chip
	Note   string
	Queues []string // with their weights
	Runs   []storage.RunningJob
	More   int // that are not shown
}

// limitRow is a rate, a hold or a circuit.
type limitRow struct {
	storage.Limit
	Chip chip
	Note string
}

// Capped says that more wait than were counted.
func (l limitRow) Capped() bool { return l.Waiting >= storage.LimitCountCap }

// queuesView is the page of queues, workers, limits and fences.
type queuesView struct {
	Queues      []queueRow
	Workers     []workerRow
	Alive       int
	Slots, Busy int
	Caps        []storage.Cap
	Limits      []limitRow
	LimitPager  pager
	Fences      []storage.FenceState
	FencePager  pager
	NoQueue     emptyState
	NoWorker    emptyState
	Maintenance storage.Maintenance
}

func (s *Server) queuesPage(w http.ResponseWriter, r *http.Request) error {
	if !of(r).principal.scope.All { // nothing links here for them
		return errMissing
	}
	ctx := r.Context()
	v := queuesView{Maintenance: s.maintained(ctx),
		NoQueue:  emptyState{Title: "No queue holds anything.", Text: "A queue is there as soon as a job is dispatched to it, a worker serves it or it is paused.", Command: "fenceline dispatch report NAME --queue mail"},
		NoWorker: emptyState{Title: "No worker was seen in the last day.", Text: "Jobs wait until one runs:", Command: "fenceline work"}}
	if err := s.fillQueues(ctx, &v); err != nil {
		return err
	}
	if err := s.fillWorkers(ctx, &v); err != nil {
		return err
	}
	if err := s.fillLimits(r, &v); err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, "queues", v)
}

func (s *Server) fillQueues(ctx context.Context, v *queuesView) error {
	queues, err := s.store.Queues(ctx)
	if err != nil {
		return err
	}
	queues = queues[:min(len(queues), maxQueuesShown)]
	delays, err := s.store.QueueDelays(ctx, queues)
	if err != nil {
		return err
	}
	for _, q := range queues {
		v.Queues = append(v.Queues, queueRow{q, delays[q.Name]})
	}
	return nil
}

func (s *Server) fillWorkers(ctx context.Context, v *queuesView) error {
	workers, err := s.store.Workers(ctx, workersShown, maxWorkers)
	if err != nil {
		return err
	}
	running, err := s.store.RunningJobs(ctx, maxRunningJobs)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, one := range workers {
		if one.StoppedAt != nil && now.Sub(*one.StoppedAt) > stoppedShown {
			continue
		}
		row := workerRow{Worker: one, Queues: weights(one.Queues)}
		for _, j := range running {
			if j.WorkerID != nil && *j.WorkerID == one.ID || j.Worker != nil && *j.Worker == one.Name {
				row.Runs = append(row.Runs, j)
			}
		}
		if len(row.Runs) > runsShown {
			row.Runs, row.More = row.Runs[:runsShown], len(row.Runs)-runsShown
		}
		var alive bool
		if row.Chip, row.Note, alive = s.workerState(one); alive {
			v.Alive, v.Slots, v.Busy = v.Alive+1, v.Slots+one.Concurrency, v.Busy+one.Running
		}
		v.Workers = append(v.Workers, row)
	}
	slices.SortStableFunc(v.Workers, func(a, b workerRow) int { return cmp.Compare(a.Name, b.Name) }) // rows stay where they are
	return nil
}

// workerState says how a worker is, by the database's clock.
func (s *Server) workerState(w storage.Worker) (c chip, note string, alive bool) {
	lease := cmp.Or(s.lease, time.Minute)
	switch {
	case w.StoppedAt != nil:
		return chip{"superseded", "stopped"}, "said goodbye", false
	case w.Silent > lease:
		return chip{"failed", "lost"}, "no heartbeat for " + showDuration(w.Silent) + "; its jobs were handed on", false
	case w.Silent > beatLate:
		return chip{"fenced", "silent"}, "no heartbeat for " + showDuration(w.Silent) + "; after " + showDuration(lease) + " its jobs go to others", true
	case w.Asked != nil && *w.Asked == "drain":
		return chip{"queued", "draining"}, "takes nothing new", true
	case w.Asked != nil:
		return chip{"queued", "stopping"}, "ends after what it runs", true
	}
	return chip{"published", "alive"}, "", true
}

// weights are the queues of a worker, those that it serves most first.
func weights(raw json.RawMessage) (list []string) {
	byName := map[string]int{}
	if json.Unmarshal(raw, &byName) != nil {
		return nil
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(byName[b], byName[a]), strings.Compare(a, b))
	})
	for _, name := range names {
		if byName[name] > 1 {
			name += fmt.Sprintf(" ×%d", byName[name])
		}
		list = append(list, name)
	}
	return list
}

func (s *Server) fillLimits(r *http.Request, v *queuesView) (err error) {
	ctx, scope, q := r.Context(), of(r).principal.scope, r.URL.Query()
	if v.Caps, err = s.store.Caps(ctx); err != nil {
		return err
	}
	limits, err := s.store.Limits(ctx, scope, storage.LimitFilter{After: q.Get("limits"), Limit: listRows})
	if err != nil {
		return err
	}
	for _, l := range limits.Items {
		row := limitRow{Limit: l}
		row.Chip, row.Note = limitState(l)
		v.Limits = append(v.Limits, row)
	}
	fences, err := s.store.Fences(ctx, scope, storage.FenceFilter{After: q.Get("fences"), Limit: listRows})
	if err != nil {
		return err
	}
	v.Fences = fences.Items
	v.LimitPager = subPager("limits", q.Get("limits"), limits.Next)
	v.FencePager = subPager("fences", q.Get("fences"), fences.Next)
	return nil
}

// subPager leads through one of several lists on the page of queues.
func subPager(name, at, next string) (p pager) {
	if at != "" {
		p.Newest = "/queues#" + name
	}
	if next != "" {
		p.Older = "/queues?" + name + "=" + url.QueryEscape(next) + "#" + name
	}
	return p
}

// limitState shows how a limit stands.
func limitState(l storage.Limit) (chip, string) {
	switch l.State {
	case "open":
		return chip{"failed", "open"}, "nothing passes for now"
	case "half-open":
		return chip{"fenced", "half-open"}, "the next run may try"
	case "probing":
		return chip{"running", "probing"}, "one run tries whether it works again"
	case "closed":
		if l.Failures == 1 {
			return chip{"published", "closed"}, "1 failure remembered"
		}
		return chip{"published", "closed"}, count.Of(l.Failures, "failure") + " remembered"
	case "held":
		return chip{"running", "held"}, "one at a time"
	case "left":
		return chip{"queued", "left"}, "its run is gone; the next takes it"
	case "busy":
		return chip{"queued", "busy"}, "the next turn is later"
	}
	return chip{"published", l.State}, ""
}

func (s *Server) pauseQueueForm(w http.ResponseWriter, r *http.Request) error {
	return s.onQueue(w, r, auditQueuePaused, func(name, who string) error { return s.store.PauseQueue(r.Context(), name, who) })
}

func (s *Server) resumeQueueForm(w http.ResponseWriter, r *http.Request) error {
	return s.onQueue(w, r, auditQueueResumed, func(name, _ string) error {
		err := s.store.ResumeQueue(r.Context(), name)
		if errors.Is(err, storage.ErrNotFound) {
			return nil // it was resumed already: as asked
		}
		return err
	})
}

func (s *Server) onQueue(w http.ResponseWriter, r *http.Request, action string, do func(name, who string) error) error {
	who, err := operator(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	if err := jobs.CheckName("name", name); err != nil {
		return err
	}
	if err := do(name, who.name); err != nil {
		return err
	}
	s.log.Info(action, "request_id", of(r).id, "queue", name, "who", who.name)
	if err := s.audit(r, action, object{kind: "queue", id: name}, nil); err != nil {
		return err
	}
	http.Redirect(w, r, "/queues", http.StatusSeeOther)
	return nil
}
