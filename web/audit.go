package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// object is what something was done to. An empty tenant is that of who does it,
// or all of them.
type object struct{ kind, id, tenant string }

func jobObject(j storage.Job) object { return object{"job", j.ID.String(), j.Tenant} }

func batchObject(b storage.Batch) object { return object{"batch", b.ID.String(), b.Tenant} }

func exportObject(e storage.Export) object { return object{"export", e.ID.String(), e.Tenant} }

// auditPatience is how long an entry may take to be written after its deed is done.
const auditPatience = 10 * time.Second

// audit writes down what the request does. The deed may be done already, so that
// the entry is written even when nobody waits for the answer any more; when it
// cannot be written the request fails, loudly. Details hold no secrets.
func (s *Server) audit(r *http.Request, action string, on object, details map[string]any) error {
	e, err := auditEntry(r, action, on, details)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), auditPatience)
	defer cancel()
	if err := s.store.Audit(ctx, e); err != nil {
		s.log.Error("could not write the audit log", "request_id", e.RequestID, "action", action, "object", on.id, "who", e.Actor, "error", err)
		return err
	}
	return nil
}

// auditEntry is the entry of what a request does.
func auditEntry(r *http.Request, action string, on object, details map[string]any) (storage.AuditEntry, error) {
	known := of(r)
	who := known.principal
	e := storage.AuditEntry{
		Actor: who.name, ActorKind: storage.ActorUser, Action: action, ObjectKind: on.kind, ObjectID: on.id, RequestID: known.id, Address: clientAddress(r),
	}
	switch {
	case who.token:
		e.Actor, e.ActorKind = strings.TrimPrefix(who.name, "token "), storage.ActorToken
	case who.name == "":
		e.Actor, e.ActorKind = "somebody", storage.ActorLink
	}
	if tenant := on.tenant; tenant != "" {
		e.Tenant = &tenant
	} else if !who.scope.All && who.scope.Tenant != "" {
		e.Tenant = &who.scope.Tenant
	}
	if len(details) == 0 {
		return e, nil
	}
	var err error
	if e.Details, err = json.Marshal(briefly(details)); err != nil {
		return e, fmt.Errorf("encode the details of %s: %w", action, err)
	}
	return e, nil
}

// briefly cuts long texts, leaves empty ones out and takes U+0000, which PostgreSQL cannot store, away.
func briefly(details map[string]any) map[string]any {
	short := make(map[string]any, len(details))
	for name, v := range details {
		text, is := v.(string)
		if !is {
			short[name] = v
		} else if text != "" {
			short[name] = cut(strings.ReplaceAll(text, "\x00", "\ufffd"), 300)
		}
	}
	return short
}

// clientAddress is whose connection it is, without the port.
func clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// auditJob writes down that a job was asked for. What is in its payload stays out: it may be secret.
func (s *Server) auditJob(r *http.Request, action string, receipt jobs.Receipt) error {
	j := receipt.Job
	details := map[string]any{"kind": j.Kind, "title": j.Title}
	if receipt.Reused {
		details["reused"] = true
	}
	return s.audit(r, action, jobObject(j), details)
}

// auditJobs writes down that many jobs were asked for at once, with the first of each tenant.
func (s *Server) auditJobs(r *http.Request, action string, receipts []jobs.Receipt) error {
	count := map[string]int{}
	var firsts []jobs.Receipt
	for _, receipt := range receipts {
		if count[receipt.Job.Tenant]++; count[receipt.Job.Tenant] == 1 {
			firsts = append(firsts, receipt)
		}
	}
	for _, first := range firsts {
		details := map[string]any{"jobs": count[first.Job.Tenant], "kind": first.Job.Kind, "title": first.Job.Title}
		if err := s.audit(r, action, jobObject(first.Job), details); err != nil {
			return err
		}
	}
	return nil
}
