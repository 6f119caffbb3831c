package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// principal is who makes a request. The zero value is nobody and sees nothing.
type principal struct {
	name  string
	scope storage.Scope
	token bool      // a program with an API token, not a person with a session
	user  uuid.UUID // of the person; nil for a token
	verbs []storage.Verb
}

// may reports whether who makes the request may do deeds of a kind.
func (p principal) may(v storage.Verb) bool { return slices.Contains(p.verbs, v) }

// mayCancel reports whether who makes the request may cancel a job that somebody asked
// for: operators anybody's, others their own.
func (p principal) mayCancel(requestedBy string) bool {
	return p.may(storage.VerbOperate) || p.may(storage.VerbRequest) && p.name != "" && p.name == requestedBy
}

// cancelJob cancels a job when who makes the request may.
func (s *Server) cancelJob(r *http.Request, id uuid.UUID) (storage.JobState, error) {
	who := of(r).principal
	j, err := s.store.Job(r.Context(), who.scope, id)
	if err != nil {
		return "", err
	}
	if !who.mayCancel(j.RequestedBy) {
		return "", errNotYours
	}
	return s.store.CancelJob(r.Context(), who.scope, id)
}

// maxSecret bounds what is looked up as a secret; ours are shorter.
const maxSecret = 200

// identify answers who makes a request, or [errSignIn] when it is nobody that the route lets in.
func (s *Server) identify(r *http.Request, need access) (principal, error) {
	if need == open {
		return principal{}, nil
	}
	secret, given := bearer(r)
	if given && need != signedIn {
		return s.byToken(r.Context(), secret)
	}
	if need == apiToken {
		return principal{}, errSignIn
	}
	return s.bySession(r)
}

// bearer is the secret of an Authorization header (RFC 6750 section 2.1).
func bearer(r *http.Request) (secret string, given bool) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", false
	}
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimSpace(secret), true
}

func (s *Server) byToken(ctx context.Context, secret string) (principal, error) {
	if secret == "" || len(secret) > maxSecret {
		return principal{}, errSignIn
	}
	t, err := s.store.TokenBySecret(ctx, secret)
	if errors.Is(err, storage.ErrNotFound) {
		return principal{}, errSignIn
	}
	return principal{name: "token " + t.Name, scope: t.Scope(), token: true, verbs: t.Verbs}, err
}

func (s *Server) bySession(r *http.Request) (principal, error) {
	secret := s.session(r)
	if secret == "" {
		return principal{}, errSignIn
	}
	u, err := s.store.SessionUser(r.Context(), secret)
	if errors.Is(err, storage.ErrNotFound) {
		return principal{}, errSignIn
	}
	return principal{name: u.Name, scope: u.Scope(), user: u.ID, verbs: u.Role.Verbs()}, err
}

// session is the secret in the session cookie, or empty.
func (s *Server) session(r *http.Request) string {
	c, err := r.Cookie(s.cookieName(r))
	if err != nil || len(c.Value) > maxSecret {
		return ""
	}
	return c.Value
}

// cookieName has the prefix __Host- over TLS: browsers then take the cookie only
// from this host itself, and only over TLS.
func (s *Server) cookieName(r *http.Request) string {
	if s.overTLS(r) {
		return "__Host-fenceline"
	}
	return "fenceline"
}

func (s *Server) setSession(w http.ResponseWriter, r *http.Request, secret string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(r), Value: secret, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: s.overTLS(r), SameSite: http.SameSiteLaxMode,
	})
}
