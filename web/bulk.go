package web

import (
	"encoding/json"
	"net/http"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// maxBulk bounds the body of a call that asks for many jobs, in bytes.
const maxBulk = 64 << 20

// dispatchedJSON is one of many jobs that were asked for.
type dispatchedJSON struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Reused bool   `json:"reused,omitempty"`
}

func dispatchedList(receipts []jobs.Receipt) []dispatchedJSON {
	list := make([]dispatchedJSON, len(receipts))
	for i, r := range receipts {
		list[i] = dispatchedJSON{r.Job.ID.String(), r.Job.Kind, r.Reused}
	}
	return list
}

// ofTenants gives each item the tenant that its caller may ask for.
func ofTenants(who principal, items []jobs.Item) (err error) {
	for i := range items {
		if items[i].Tenant, err = tenantFor(who, items[i].Tenant); err != nil {
			return err
		}
	}
	return nil
}

// apiBulk accepts many jobs, all or none.
func (s *Server) apiBulk(w http.ResponseWriter, r *http.Request) error {
	raw, err := readBody(w, r, maxBulk)
	if err != nil {
		return err
	}
	var specs []json.RawMessage
	if err := invalid.Object(raw, "body", "", map[string]any{"jobs": &specs}); err != nil {
		return err
	}
	items, err := jobs.ParseSpecs(specs, "jobs")
	if err != nil {
		return err
	}
	who := of(r).principal
	if err := ofTenants(who, items); err != nil {
		return err
	}
	return s.once(w, r, raw, func(tx storage.Tx) (made, error) {
		receipts, err := s.dispatcher.DispatchAll(r.Context(), tx, items, jobs.RequestedBy(who.name))
		return made{status: http.StatusAccepted, answer: map[string]any{"jobs": dispatchedList(receipts)}, note: func() error {
			s.log.Info("dispatched in bulk", "request_id", of(r).id, "jobs", len(receipts), "who", who.name)
			return s.auditJobs(r, auditAskedMany, receipts)
		}}, err
	})
}

// apiChain accepts jobs that run one after the other.
func (s *Server) apiChain(w http.ResponseWriter, r *http.Request) error {
	raw, err := readBody(w, r, maxBulk)
	if err != nil {
		return err
	}
	_, items, err := jobs.ParseChain(raw)
	if err != nil {
		return err
	}
	who := of(r).principal
	if err := ofTenants(who, items); err != nil {
		return err
	}
	return s.once(w, r, raw, func(tx storage.Tx) (made, error) {
		receipts, err := s.dispatcher.Chain(r.Context(), tx, items, jobs.RequestedBy(who.name))
		return made{status: http.StatusAccepted, answer: map[string]any{"jobs": dispatchedList(receipts)}, note: func() error {
			s.log.Info("dispatched a chain", "request_id", of(r).id, "jobs", len(receipts), "who", who.name)
			return s.auditJobs(r, auditAskedChain, receipts)
		}}, err
	})
}

// apiMakeBatch accepts a batch, with its address.
func (s *Server) apiMakeBatch(w http.ResponseWriter, r *http.Request) error {
	raw, err := readBody(w, r, maxBulk)
	if err != nil {
		return err
	}
	request, err := jobs.ParseBatch(raw)
	if err != nil {
		return err
	}
	who := of(r).principal
	if request.Tenant, err = tenantFor(who, request.Tenant); err != nil {
		return err
	}
	request.RequestedBy = who.name
	return s.once(w, r, raw, func(tx storage.Tx) (made, error) {
		batch, receipts, err := s.dispatcher.Batch(r.Context(), tx, request) // which sees that its jobs are of its tenant
		answer := struct {
			Batch storage.Batch    `json:"batch"`
			Jobs  []dispatchedJSON `json:"jobs"`
		}{batch, dispatchedList(receipts)}
		return made{status: http.StatusAccepted, location: "/api/v1/batches/" + batch.ID.String(), answer: answer, note: func() error {
			s.log.Info("dispatched a batch", "request_id", of(r).id, "batch", batch.ID, "jobs", len(receipts), "who", who.name)
			return s.audit(r, auditBatchAsked, batchObject(batch), map[string]any{"jobs": len(receipts), "title": batch.Title})
		}}, err
	})
}

// apiCancelBatch cancels what is left of a batch.
func (s *Server) apiCancelBatch(w http.ResponseWriter, r *http.Request) error {
	b, err := s.readBatch(r)
	if err != nil {
		return err
	}
	who := of(r).principal
	n, err := s.store.CancelBatch(r.Context(), who.scope, b.ID)
	if err != nil {
		return err
	}
	s.log.Info("batch cancelled", "request_id", of(r).id, "batch", b.ID, "jobs", n, "who", who.name)
	if err := s.audit(r, auditBatchCancelled, batchObject(b), map[string]any{"jobs": n}); err != nil {
		return err
	}
	if b, err = s.store.Batch(r.Context(), who.scope, b.ID); err != nil {
		return err
	}
	return s.respondBatch(w, r, b)
}
