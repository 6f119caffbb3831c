package web

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// operator is who may see and touch what all tenants share; others get 403.
func operator(r *http.Request) (principal, error) {
	who := of(r).principal
	if !who.scope.All {
		return who, errAllTenants
	}
	return who, nil
}

// apiQueues lists the queues with what waits and runs in them.
func (s *Server) apiQueues(w http.ResponseWriter, r *http.Request) error {
	if _, err := operator(r); err != nil {
		return err
	}
	list, err := s.store.Queues(r.Context())
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, map[string]any{"items": list})
}

// apiPause lets nothing of a queue begin.
func (s *Server) apiPause(w http.ResponseWriter, r *http.Request) error {
	who, err := operator(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	if err := jobs.CheckName("name", name); err != nil {
		return err
	}
	if err := s.store.PauseQueue(r.Context(), name, who.name); err != nil {
		return err
	}
	s.log.Info("queue paused", "request_id", of(r).id, "queue", name, "who", who.name)
	if err := s.audit(r, auditQueuePaused, object{kind: "queue", id: name}, nil); err != nil {
		return err
	}
	return respond(w, http.StatusOK, map[string]any{"name": name, "paused": true})
}

// apiResume ends the pause of a queue; 404 when there is none.
func (s *Server) apiResume(w http.ResponseWriter, r *http.Request) error {
	who, err := operator(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	if err := s.store.ResumeQueue(r.Context(), name); err != nil {
		return err
	}
	s.log.Info("queue resumed", "request_id", of(r).id, "queue", name, "who", who.name)
	if err := s.audit(r, auditQueueResumed, object{kind: "queue", id: name}, nil); err != nil {
		return err
	}
	return respond(w, http.StatusOK, map[string]any{"name": name, "paused": false})
}

const (
	// maxWorkers bounds the list of workers, maxRunning what is shown of each.
	maxWorkers, maxRunning = 200, 20
	// workersSince is how old the last heartbeat of a worker is at most that is shown.
	workersSince = time.Minute
)

// workerJSON is a worker with what it runs.
type workerJSON struct {
	storage.Worker
	HeartbeatAge float64   `json:"heartbeat_age_seconds"`
	Runs         []runJSON `json:"runs"`
}

type runJSON struct {
	Job       uuid.UUID        `json:"job"`
	Kind      string           `json:"kind"`
	Title     string           `json:"title"`
	Tenant    string           `json:"tenant"`
	State     storage.JobState `json:"state"`
	AttemptID *uuid.UUID       `json:"attempt_id,omitempty"`
	RunID     *uuid.UUID       `json:"run_id,omitempty"`
}

// apiWorkers lists the workers that beat, with what each runs.
func (s *Server) apiWorkers(w http.ResponseWriter, r *http.Request) error {
	if _, err := operator(r); err != nil {
		return err
	}
	workers, err := s.store.Workers(r.Context(), workersSince, maxWorkers)
	if err != nil {
		return err
	}
	list := make([]workerJSON, len(workers))
	for i, one := range workers {
		list[i] = workerJSON{Worker: one, HeartbeatAge: one.Silent.Seconds(), Runs: []runJSON{}}
		running, err := s.store.RunningOn(r.Context(), one, maxRunning)
		if err != nil {
			return err
		}
		for _, j := range running {
			list[i].Runs = append(list[i].Runs, runJSON{j.ID, j.Kind, j.Title, j.Tenant, j.State, j.AttemptID, j.RunID})
		}
	}
	return respond(w, http.StatusOK, map[string]any{"items": list})
}
