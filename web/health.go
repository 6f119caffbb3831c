package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// healthz says that the process serves.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	return plain(w, http.StatusOK, "ok")
}

// readyz says whether it can work, and if not why, in a word.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if word := s.unready(r.Context()); word != "" {
		return plain(w, http.StatusServiceUnavailable, word)
	}
	if s.store.Paired(r.Context()) != nil { // the same; whoever ends it must reach the pages that say so
		return plain(w, http.StatusOK, "ready, recovery needed")
	}
	if s.maintained(r.Context()).Since != nil { // it serves, and accepts jobs: they wait
		return plain(w, http.StatusOK, "ready, in maintenance")
	}
	return plain(w, http.StatusOK, "ready")
}

// maintained is whether maintenance goes on; no when the database does not say.
func (s *Server) maintained(ctx context.Context) storage.Maintenance {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	m, err := s.store.MaintenanceMode(ctx)
	if err != nil {
		s.log.Debug("could not look for maintenance", "error", err)
		return storage.Maintenance{}
	}
	return m
}

func (s *Server) unready(ctx context.Context) string {
	select {
	case <-s.stopping:
		return "stopping"
	default:
	}
	if s.ready == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := s.ready(ctx)
	var word NotReady
	switch {
	case err == nil:
		return ""
	case errors.As(err, &word):
	case errors.Is(err, context.DeadlineExceeded):
		word = "timeout"
	default:
		word = "unavailable"
	}
	s.log.Warn("not ready", "reason", string(word), "error", err)
	return string(word)
}

func plain(w http.ResponseWriter, status int, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // when it fails nobody is left to tell
	return nil
}

// serveMetrics shows counts over all tenants, so the token must see them all.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	if s.metrics == nil {
		return errNoRoute
	}
	if !of(r).principal.scope.All {
		return errAllTenants
	}
	s.metrics.ServeHTTP(w, r)
	return nil
}
