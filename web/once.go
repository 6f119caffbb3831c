package web

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/fenceline/fenceline/storage"
)

// made is what a request made, and how it is answered.
type made struct {
	status   int
	location string
	answer   any
	note     func() error // writes it down when it is there for good
}

// once answers a request that makes something. With an Idempotency-Key the deed
// and its answer are kept together, and the same request gets the same status and
// bytes again, from whichever server process it asks; another one is refused. tx
// is nil when there is no key.
func (s *Server) once(w http.ResponseWriter, r *http.Request, body []byte, do func(tx storage.Tx) (made, error)) error {
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	var m made
	if key == "" {
		if m, err = do(nil); err != nil {
			return err
		}
		if err := m.note(); err != nil {
			return err
		}
		if m.location != "" {
			w.Header().Set("Location", m.location)
		}
		return respond(w, m.status, m.answer)
	}
	request := storage.KeyedRequest{Tenant: of(r).principal.scope.Tenant, Key: key, What: fmt.Appendf(nil, "%s %s\n%s", r.Method, r.URL.Path, body)}
	a, again, err := s.store.Once(r.Context(), request, func(tx storage.Tx) (a storage.Answer, err error) {
		if m, err = do(tx); err != nil {
			return a, err
		}
		a = storage.Answer{Status: m.status, Location: m.location}
		if a.Body, err = json.Marshal(m.answer); err != nil {
			return a, fmt.Errorf("encode the answer: %w", err)
		}
		return a, nil
	})
	if err != nil {
		return err
	}
	if again {
		s.log.Info("answered again", "request_id", of(r).id, "path", r.URL.Path, "who", of(r).principal.name)
	} else if err := m.note(); err != nil {
		return err
	}
	if a.Location != "" {
		w.Header().Set("Location", a.Location)
	}
	respondWith(w, a.Status, a.Body)
	return nil
}
