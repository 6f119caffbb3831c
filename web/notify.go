package web

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/notify"
	"github.com/fenceline/fenceline/storage"
)

// notifyRoutes are the part of the table about who is told of what.
func (s *Server) notifyRoutes() []route {
	return append([]route{
		{"GET", "/api/v1/notify/targets", api, storage.VerbView, s.apiTargets},
		{"POST", "/api/v1/notify/targets", api, storage.VerbAdminister, s.apiAddTarget},
		{"GET", "/api/v1/notify/targets/{id}", api, storage.VerbView, s.apiTarget},
		{"DELETE", "/api/v1/notify/targets/{id}", api, storage.VerbAdminister, s.apiRemoveTarget},
		{"POST", "/api/v1/notify/targets/{id}/enable", api, storage.VerbAdminister, s.apiEnableTarget},
		{"POST", "/api/v1/notify/targets/{id}/disable", api, storage.VerbAdminister, s.apiDisableTarget},
		{"POST", "/api/v1/notify/targets/{id}/rotate", api, storage.VerbAdminister, s.apiRotateTarget},
		{"POST", "/api/v1/notify/targets/{id}/test", api, storage.VerbAdminister, s.apiTestTarget},
		{"GET", "/api/v1/notify/deliveries", api, storage.VerbView, s.apiDeliveries},
		{"POST", "/api/v1/notify/deliveries/replay", api, storage.VerbAdminister, s.apiReplayDead},
		{"GET", "/api/v1/notify/deliveries/{id}", api, storage.VerbView, s.apiDelivery},
		{"POST", "/api/v1/notify/deliveries/{id}/replay", api, storage.VerbAdminister, s.apiReplay},
	}, s.targetRoutes()...)
}

// targetSecret is a target with its secret, which is shown this once.
type targetSecret struct {
	storage.Target
	Secret string `json:"secret,omitempty"`
}

// apiTargets lists the targets.
func (s *Server) apiTargets(w http.ResponseWriter, r *http.Request) error {
	list, err := s.store.Targets(r.Context(), of(r).principal.scope)
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, map[string]any{"items": some(list)})
}

// apiAddTarget adds a target: 201, with the secret of a webhook.
func (s *Server) apiAddTarget(w http.ResponseWriter, r *http.Request) error {
	var n notify.Request
	var addresses, topics, kinds json.RawMessage
	err := readObject(w, r, map[string]any{"tenant": &n.Tenant, "name": &n.Name, "kind": &n.Kind, "url": &n.URL,
		"addresses": &addresses, "topics": &topics, "job_kinds": &kinds})
	if err != nil {
		return err
	}
	refused := new(invalid.Error)
	n.Addresses, n.Topics, n.JobKinds = texts("addresses", addresses, refused), texts("topics", topics, refused), texts("job_kinds", kinds, refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	who := of(r).principal
	if n.Tenant, err = tenantFor(who, n.Tenant); err != nil {
		return err
	}
	n.Tenant = cmp.Or(n.Tenant, jobs.DefaultTenant)
	t, secret, err := s.addTarget(r, n)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/v1/notify/targets/"+t.ID.String())
	return respond(w, http.StatusCreated, targetSecret{t, secret})
}

// texts reads a list of texts; nothing is an empty one.
func texts(field string, raw json.RawMessage, refused *invalid.Error) (list []string) {
	if len(raw) > 0 && json.Unmarshal(raw, &list) != nil {
		refused.Add(field, string(raw), "must be a list of texts")
	}
	return list
}

func (s *Server) apiTarget(w http.ResponseWriter, r *http.Request) error {
	return s.withTarget(w, r, http.StatusOK, "", func(scope storage.Scope, id uuid.UUID, _ storage.AuditEntry) (any, error) {
		return s.store.Target(r.Context(), scope, id)
	})
}

// apiRemoveTarget removes a target with its deliveries: 204.
func (s *Server) apiRemoveTarget(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	e, err := auditEntry(r, auditTargetRemoved, object{}, nil)
	if err == nil {
		err = s.store.RemoveTarget(r.Context(), of(r).principal.scope, id, e)
	}
	if err != nil {
		return err
	}
	s.log.Info("target removed", "request_id", of(r).id, "target", id, "who", of(r).principal.name)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) apiEnableTarget(w http.ResponseWriter, r *http.Request) error {
	return s.withTarget(w, r, http.StatusOK, auditTargetEnabled, func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) (any, error) {
		return s.store.EnableTarget(r.Context(), scope, id, e)
	})
}

func (s *Server) apiDisableTarget(w http.ResponseWriter, r *http.Request) error {
	return s.withTarget(w, r, http.StatusOK, auditTargetDisabled, func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) (any, error) {
		return s.store.DisableTarget(r.Context(), scope, id, "by "+of(r).principal.name, e)
	})
}

// apiRotateTarget gives a webhook another secret and shows it.
func (s *Server) apiRotateTarget(w http.ResponseWriter, r *http.Request) error {
	return s.withTarget(w, r, http.StatusOK, auditTargetRotated, func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) (any, error) {
		t, secret, err := s.targets.Rotate(r.Context(), scope, id, e)
		return targetSecret{t, secret}, err
	})
}

// apiTestTarget sends a target a test: 202, with the delivery, which shows what came of it.
func (s *Server) apiTestTarget(w http.ResponseWriter, r *http.Request) error {
	return s.withTarget(w, r, http.StatusAccepted, auditTargetTested, func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) (any, error) {
		return s.targets.Test(r.Context(), scope, id, e)
	})
}

// withTarget does something with what the path names, with the entry of the log that it is written down
// with unless action is empty, and answers with what comes of it.
func (s *Server) withTarget(w http.ResponseWriter, r *http.Request, status int, action string, do func(storage.Scope, uuid.UUID, storage.AuditEntry) (any, error)) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	e, err := auditEntry(r, action, object{}, nil)
	if err != nil {
		return err
	}
	v, err := do(of(r).principal.scope, id, e)
	if err != nil {
		return err
	}
	if action != "" {
		s.log.Info("notify", "request_id", of(r).id, "path", r.URL.Path, "who", of(r).principal.name)
	}
	return respond(w, status, v)
}

func targetObject(t storage.Target) object { return object{"target", t.ID.String(), t.Tenant} }

// apiDeliveries lists deliveries, the newest first.
func (s *Server) apiDeliveries(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	refused := new(invalid.Error)
	f := storage.DeliveryFilter{State: storage.DeliveryState(q.Get("state")), After: q.Get("after"), Limit: limit(q, refused)}
	if !f.State.Known() {
		refused.Add("state", q.Get("state"), "is no state of deliveries; use pending, delivered or dead")
	}
	f.Target = queryID(q.Get("target"), refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	page, err := s.store.Deliveries(r.Context(), of(r).principal.scope, f)
	if err != nil {
		return err
	}
	return respondPage(w, r, page)
}

func queryID(text string, refused *invalid.Error) (id uuid.UUID) {
	if text = strings.TrimSpace(text); text == "" {
		return id
	}
	id, err := uuid.Parse(text)
	if err != nil {
		refused.Add("target", text, "is not the id of a target")
	}
	return id
}

// apiDelivery shows a delivery with what it says.
func (s *Server) apiDelivery(w http.ResponseWriter, r *http.Request) error {
	return s.withTarget(w, r, http.StatusOK, "", func(scope storage.Scope, id uuid.UUID, _ storage.AuditEntry) (any, error) {
		return s.store.Delivery(r.Context(), scope, id)
	})
}

// apiReplay sends a delivery again: 202.
func (s *Server) apiReplay(w http.ResponseWriter, r *http.Request) error {
	return s.withTarget(w, r, http.StatusAccepted, auditDeliveryReplayed, func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) (any, error) {
		return s.store.ReplayDelivery(r.Context(), scope, id, e)
	})
}

// apiReplayDead sends everything again that was given up, or, with a target in the query or the body, what was for it: 202, with how many.
func (s *Server) apiReplayDead(w http.ResponseWriter, r *http.Request) error {
	asked, refused := r.URL.Query().Get("target"), new(invalid.Error)
	if r.ContentLength != 0 { // whoever names a target here must not be given all of them
		if err := readObject(w, r, map[string]any{"target": &asked}); err != nil {
			return err
		}
	}
	target := queryID(asked, refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	who := of(r).principal
	if target != uuid.Nil {
		if _, err := s.store.Target(r.Context(), who.scope, target); err != nil {
			return err
		}
	}
	n, err := s.store.ReplayDead(r.Context(), who.scope, target)
	if err != nil {
		return err
	}
	s.log.Info("dead deliveries replayed", "request_id", of(r).id, "deliveries", n, "who", who.name)
	if err := s.audit(r, auditDeliveryReplayed, object{kind: "target", id: asked}, map[string]any{"deliveries": n}); err != nil {
		return err
	}
	return respond(w, http.StatusAccepted, map[string]int64{"replayed": n})
}
