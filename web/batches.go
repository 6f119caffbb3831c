package web

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// batchPage is how many batches a page of the API has when it asks for no number.
const batchPage = 50

// batchJSON is a batch with what has become of it.
type batchJSON struct {
	storage.Batch
	Counts storage.BatchCounts `json:"counts"`
}

// apiBatches lists the newest batches.
func (s *Server) apiBatches(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	refused := new(invalid.Error)
	most := limit(q, refused)
	if most == 0 {
		most = batchPage
	}
	var after uuid.UUID
	if text := q.Get("after"); text != "" {
		var err error
		if after, err = uuid.Parse(text); err != nil {
			return storage.ErrCursor
		}
	}
	if err := refused.OrNil(); err != nil {
		return err
	}
	list, err := s.store.Batches(r.Context(), of(r).principal.scope, after, most)
	if err != nil {
		return err
	}
	page := storage.Page[storage.Batch]{Items: list}
	if len(list) == most {
		page.Next = list[most-1].ID.String()
	}
	return respondPage(w, r, page)
}

// apiBatch shows how far a batch is.
func (s *Server) apiBatch(w http.ResponseWriter, r *http.Request) error {
	b, err := s.readBatch(r)
	if err != nil {
		return err
	}
	return s.respondBatch(w, r, b)
}

func (s *Server) readBatch(r *http.Request) (storage.Batch, error) {
	id, err := pathID(r)
	if err != nil {
		return storage.Batch{}, err
	}
	return s.store.Batch(r.Context(), of(r).principal.scope, id)
}

func (s *Server) respondBatch(w http.ResponseWriter, r *http.Request, b storage.Batch) error {
	counts, err := s.store.CountBatch(r.Context(), b.ID)
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, batchJSON{b, counts})
}

// apiRetryBatch queues what failed in a batch again.
func (s *Server) apiRetryBatch(w http.ResponseWriter, r *http.Request) error {
	b, err := s.readBatch(r)
	if err != nil {
		return err
	}
	n, err := s.store.RetryBatch(r.Context(), of(r).principal.scope, b.ID)
	if err != nil {
		return err
	}
	s.log.Info("batch retried", "request_id", of(r).id, "batch", b.ID, "jobs", n, "who", of(r).principal.name)
	if err := s.audit(r, auditBatchRetried, batchObject(b), map[string]any{"jobs": n}); err != nil {
		return err
	}
	return s.respondBatch(w, r, b)
}
