package web

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// apiFailed lists failed jobs that match, the newest first.
func (s *Server) apiFailed(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	refused := new(invalid.Error)
	most := limit(q, refused)
	f := storage.FailedFilter{Kind: q.Get("kind"), Queue: q.Get("queue"), Error: q.Get("error"), Tag: q.Get("tag")}
	f.Batch = optionalID("batch", q.Get("batch"), refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	var after uuid.UUID
	if text := q.Get("after"); text != "" {
		var err error
		if after, err = uuid.Parse(text); err != nil {
			return storage.ErrCursor
		}
	}
	page, err := s.store.Failed(r.Context(), of(r).principal.scope, f, after, most)
	if err != nil {
		return err
	}
	withoutStacks(of(r).principal.scope, page.Items)
	return respondPage(w, r, page)
}

func optionalID(field, text string, refused *invalid.Error) uuid.UUID {
	if text == "" {
		return uuid.Nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		refused.Add(field, text, "is not an id")
	}
	return id
}

// apiForget takes one failed job off the list.
func (s *Server) apiForget(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	who := of(r).principal
	if err := s.store.ForgetJob(r.Context(), who.scope, id); err != nil {
		return err
	}
	s.log.Info("job forgotten", "request_id", of(r).id, "job", id, "who", who.name)
	j, err := s.store.Job(r.Context(), who.scope, id)
	if err != nil {
		return err
	}
	if err := s.audit(r, auditForgot, jobObject(j), nil); err != nil {
		return err
	}
	return respond(w, http.StatusOK, j)
}

// apiRetryFailed queues every failed job again that matches.
func (s *Server) apiRetryFailed(w http.ResponseWriter, r *http.Request) error {
	return s.onFailed(w, r, "queued", s.store.RetryFailed)
}

// apiForgetFailed takes every failed job off the list that matches.
func (s *Server) apiForgetFailed(w http.ResponseWriter, r *http.Request) error {
	return s.onFailed(w, r, "forgotten", s.store.ForgetFailed)
}

// onFailed does something to the failed jobs that the body chooses. When it says
// how many it expects (confirm), it must be that many: what was looked at is what
// is touched.
func (s *Server) onFailed(w http.ResponseWriter, r *http.Request, done string, do func(context.Context, storage.Scope, storage.FailedFilter) (int64, error)) error {
	var f storage.FailedFilter
	var batch string
	var confirm *int64
	err := readObject(w, r, map[string]any{"kind": &f.Kind, "queue": &f.Queue, "error": &f.Error, "tag": &f.Tag, "batch": &batch, "confirm": &confirm})
	if err != nil {
		return err
	}
	refused := new(invalid.Error)
	f.Batch = optionalID("batch", batch, refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	who := of(r).principal
	if confirm != nil {
		n, err := s.store.CountFailed(r.Context(), who.scope, f)
		if err != nil {
			return err
		}
		if n != *confirm {
			return &failure{http.StatusConflict, "count-differs", "It would be another number of jobs",
				fmt.Sprintf("%s %s, not %d. Look again and confirm %d.", count.Of(n, "failed job"), count.Verb(n, "matches", "match"), *confirm, n)}
		}
	}
	n, err := do(r.Context(), who.scope, f)
	if err != nil {
		return err
	}
	s.log.Info("failed jobs "+done, "request_id", of(r).id, "jobs", n, "who", who.name)
	action := auditRetried
	if done == "forgotten" {
		action = auditForgot
	}
	details := map[string]any{"jobs": n, "kind": f.Kind, "queue": f.Queue, "error": f.Error, "tag": f.Tag, "batch": batch}
	if err := s.audit(r, action, object{kind: "failed"}, details); err != nil {
		return err
	}
	return respond(w, http.StatusOK, map[string]int64{done: n})
}
