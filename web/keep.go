package web

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// keepRoutes are the part of the table about what is kept, and for how long.
func (s *Server) keepRoutes() []route {
	const view, operate, administer = storage.VerbView, storage.VerbOperate, storage.VerbAdminister
	return append([]route{
		{"GET", "/api/v1/retention", api, view, s.apiRetention},
		{"PUT", "/api/v1/retention", api, administer, s.apiSetRetention},
		{"DELETE", "/api/v1/retention", api, administer, s.apiRemoveRetention},
		{"DELETE", "/api/v1/exports/{id}", api, administer, s.apiDeleteExport},
		{"POST", "/api/v1/exports/{id}/restore", api, administer, s.apiRestore},
		{"POST", "/api/v1/exports/{id}/pin", api, operate, s.apiPin},
		{"POST", "/api/v1/exports/{id}/unpin", api, operate, s.apiUnpin},
		{"POST", "/api/v1/exports/{id}/hold", api, administer, s.apiHold},
		{"POST", "/api/v1/exports/{id}/release", api, administer, s.apiRelease},
	}, append(s.retentionRoutes(), s.keepPageRoutes()...)...)
}

// superseded is how long the files of deleted exports stay.
func (s *Server) superseded() time.Duration { return s.sweeps.sweep.Options().Superseded }

// keeping is the sentence that says until when the current publication stays, and why.
func (s *Server) keeping(r *http.Request, id uuid.UUID) (string, error) {
	k, err := s.store.Keeping(r.Context(), of(r).principal.scope, id, s.superseded())
	return k.Sentence(), err
}

func (s *Server) apiRetention(w http.ResponseWriter, r *http.Request) error {
	rules, err := s.store.RetentionRules(r.Context(), of(r).principal.scope)
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, map[string]any{"items": rules})
}

// ruleFor says what a rule is for: people of one tenant make rules of their own tenant only.
func ruleFor(r *http.Request, tenant, kind string) (rule storage.RetentionRule, err error) {
	if tenant, err = tenantFor(of(r).principal, tenant); err != nil {
		return rule, err
	}
	if tenant != "" {
		rule.Tenant = &tenant
	}
	if kind != "" {
		rule.Kind = &kind
	}
	return rule, nil
}

// apiSetRetention sets the rule for a tenant, a kind, both or everything.
func (s *Server) apiSetRetention(w http.ResponseWriter, r *http.Request) error {
	var tenant, kind string
	var given storage.RetentionRule
	err := readObject(w, r, map[string]any{
		"tenant": &tenant, "kind": &kind, "current_days": &given.CurrentDays, "superseded_days": &given.SupersededDays, "superseded_keep": &given.SupersededKeep,
	})
	if err != nil {
		return err
	}
	rule, err := ruleFor(r, tenant, kind)
	if err != nil {
		return err
	}
	rule.CurrentDays, rule.SupersededDays, rule.SupersededKeep = given.CurrentDays, given.SupersededDays, given.SupersededKeep
	if err := s.checkRule(rule); err != nil {
		return err
	}
	e, err := auditEntry(r, auditRetentionChanged, object{}, nil)
	if err != nil {
		return err
	}
	if err := s.store.SetRetention(r.Context(), rule, e); err != nil {
		return err
	}
	return s.apiRetention(w, r)
}

// apiRemoveRetention removes the rule for exactly the tenant and kind of the query; 404 when there is none.
func (s *Server) apiRemoveRetention(w http.ResponseWriter, r *http.Request) error {
	rule, err := ruleFor(r, r.URL.Query().Get("tenant"), r.URL.Query().Get("kind"))
	if err != nil {
		return err
	}
	e, err := auditEntry(r, auditRetentionChanged, object{}, nil)
	if err != nil {
		return err
	}
	if err := s.store.RemoveRetention(r.Context(), rule.Tenant, rule.Kind, e); err != nil {
		return err
	}
	return s.apiRetention(w, r)
}

// keepOne does something to the export of a path and answers what keeps it then. The object comes
// first: who may not see it learns nothing, whatever the request holds.
func (s *Server) keepOne(w http.ResponseWriter, r *http.Request, action string, do func(storage.Scope, uuid.UUID, storage.AuditEntry) error) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	scope := of(r).principal.scope
	if _, err := s.store.Keeping(r.Context(), scope, id, s.superseded()); err != nil {
		return err
	}
	e, err := auditEntry(r, action, object{}, nil)
	if err != nil {
		return err
	}
	if err := do(scope, id, e); err != nil {
		return err
	}
	s.log.Info(action, "request_id", of(r).id, "export", id, "who", of(r).principal.name)
	text, err := s.keeping(r, id)
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, map[string]any{"export": id, "keeping": text})
}

// readNote reads why somebody keeps something, and of what; a note is needed.
func readNote(w http.ResponseWriter, r *http.Request) (note string, attempt *uuid.UUID, err error) {
	var text string
	if err := readObject(w, r, map[string]any{"note": &note, "attempt": &text}); err != nil {
		return "", nil, err
	}
	if note == "" {
		return "", nil, invalid.New("note", "", "is needed: say why, for who finds it later")
	}
	if text == "" {
		return note, nil, nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return "", nil, invalid.New("attempt", text, "must be the id of a publication")
	}
	return note, &id, nil
}

func (s *Server) apiPin(w http.ResponseWriter, r *http.Request) error {
	return s.keepOne(w, r, auditPinned, func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) error {
		note, attempt, err := readNote(w, r)
		if err != nil {
			return err
		}
		return s.store.PinExport(r.Context(), scope, id, attempt, note, e)
	})
}

// apiUnpin takes the pin of an export back, or with ?attempt= that of a publication; 404 when it has none.
func (s *Server) apiUnpin(w http.ResponseWriter, r *http.Request) error {
	return s.keepOne(w, r, auditUnpinned, func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) error {
		var attempt *uuid.UUID
		if text := r.URL.Query().Get("attempt"); text != "" {
			of, err := uuid.Parse(text)
			if err != nil {
				return invalid.New("attempt", text, "must be the id of a publication")
			}
			attempt = &of
		}
		return s.store.UnpinExport(r.Context(), scope, id, attempt, e)
	})
}

func (s *Server) apiHold(w http.ResponseWriter, r *http.Request) error {
	return s.keepOne(w, r, auditHeld, func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) error {
		note, attempt, err := readNote(w, r)
		if err == nil && attempt != nil {
			err = invalid.New("attempt", attempt.String(), "cannot be held alone: a hold is on a whole export; leave it out, or pin the publication")
		}
		if err != nil {
			return err
		}
		return s.store.HoldExport(r.Context(), scope, id, note, e)
	})
}

func (s *Server) apiRelease(w http.ResponseWriter, r *http.Request) error {
	return s.keepOne(w, r, auditReleased, func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) error {
		return s.store.ReleaseExport(r.Context(), scope, id, e)
	})
}

// apiDeleteExport deletes an export, softly; a pinned one is to be unpinned first.
func (s *Server) apiDeleteExport(w http.ResponseWriter, r *http.Request) error {
	return s.keepOne(w, r, auditDeleted, func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) error {
		return s.store.DeleteExport(r.Context(), scope, id, e)
	})
}

func (s *Server) apiRestore(w http.ResponseWriter, r *http.Request) error {
	return s.keepOne(w, r, auditRestored, func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) error {
		return s.store.RestoreExport(r.Context(), scope, id, e)
	})
}
