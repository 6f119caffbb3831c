package web

import (
	"net/http"

	"github.com/fenceline/fenceline/storage"
)

// apiRetry queues a failed job again: 202 with the job, 409 when it has not failed.
func (s *Server) apiRetry(w http.ResponseWriter, r *http.Request) error {
	j, err := s.retry(r)
	if err != nil {
		return err
	}
	return respond(w, http.StatusAccepted, j)
}

// retryForm queues a failed job again and shows it.
func (s *Server) retryForm(w http.ResponseWriter, r *http.Request) error {
	j, err := s.retry(r)
	if err != nil {
		return err
	}
	http.Redirect(w, r, "/jobs/"+j.ID.String(), http.StatusSeeOther)
	return nil
}

func (s *Server) retry(r *http.Request) (storage.Job, error) {
	id, err := pathID(r)
	if err != nil {
		return storage.Job{}, err
	}
	who := of(r).principal
	j, err := s.store.RetryJob(r.Context(), who.scope, id)
	if err != nil {
		return storage.Job{}, err
	}
	s.log.Info("job retried", "request_id", of(r).id, "job", id, "who", who.name)
	if err := s.audit(r, auditRetried, jobObject(j), nil); err != nil {
		return storage.Job{}, err
	}
	return j, nil
}
