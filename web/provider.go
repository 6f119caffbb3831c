package web

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/oidc"
)

// CallbackPath is where the provider sends people back to, below the public URL.
const CallbackPath = "/signin/callback"

// providerRoutes are how people sign in by an OpenID provider. The way there is a link and
// not a form: browsers refuse forms that lead to another site.
func (s *Server) providerRoutes() []route {
	return []route{
		{"GET", "/signin/provider", open, "", s.toProvider},
		{"GET", CallbackPath, open, "", s.fromProvider},
	}
}

var (
	errProvider = &failure{503, "provider-unavailable", "The sign-in service does not answer",
		"Try again in a moment, or sign in with a password or a link. An administrator finds more in the log under the request id."}
	errNoProvider = &failure{404, "not-found", "Not found", "Nobody signs in by a provider here: OIDC_ISSUER is not set."}
)

// providerName is what the button on the sign-in page says, empty for no button.
func (s *Server) providerName() string {
	if s.provider == nil {
		return ""
	}
	return s.provider.Name()
}

// begunCookie is the name of the cookie of a sign-in that has begun.
func (s *Server) begunCookie(r *http.Request) string { return s.cookieName(r) + "-signin" }

func (s *Server) setBegun(w http.ResponseWriter, r *http.Request, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: s.begunCookie(r), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: s.overTLS(r), SameSite: http.SameSiteLaxMode,
	})
}

// toProvider sends a browser to the provider.
func (s *Server) toProvider(w http.ResponseWriter, r *http.Request) error {
	if s.provider == nil {
		return errNoProvider
	}
	if wait := s.signins.blocked(r.Context(), clientKey(r.RemoteAddr)); wait > 0 {
		return &busyError{wait}
	}
	address, cookie, err := s.provider.Begin(r.Context())
	if err != nil {
		return s.providerFailed(w, r, err)
	}
	s.setBegun(w, r, cookie, int(oidc.Patience.Seconds()))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, address, http.StatusSeeOther)
	return nil
}

// fromProvider begins the session of whom the provider sends back.
func (s *Server) fromProvider(w http.ResponseWriter, r *http.Request) error {
	if s.provider == nil {
		return errNoProvider
	}
	address := clientKey(r.RemoteAddr)
	if wait := s.signins.take(r.Context(), address); wait > 0 {
		return &busyError{wait}
	}
	cookie := ""
	if c, err := r.Cookie(s.begunCookie(r)); err == nil {
		cookie = c.Value
	}
	s.setBegun(w, r, "", -1)
	in, err := s.provider.Finish(r.Context(), cookie, r.URL.Query())
	if err != nil {
		return s.providerFailed(w, r, err)
	}
	done, err := s.store.SigninByProvider(r.Context(), in, visitor(r))
	if err != nil {
		return s.refusedByUs(w, r, in.Identity, err)
	}
	s.signins.giveBack(r.Context(), address)
	if err := s.auditProvider(r, done); err != nil {
		return err
	}
	return s.signedIn(w, r, done.User, storage.ViaProvider, done.Session)
}

// auditProvider writes down what the claims have done to the user.
func (s *Server) auditProvider(r *http.Request, done storage.ProviderResult) error {
	action := auditUserAdded
	switch {
	case done.Changed:
		action = auditUserChanged
	case !done.Made:
		return nil
	}
	u := done.User
	of(r).principal = principal{name: u.Name, scope: u.Scope(), user: u.ID}
	return s.audit(r, action, userObject(u), map[string]any{"via": storage.ViaProvider, "issuer": u.Issuer, "role": u.Role, "tenant": u.TenantName()})
}

// providerFailed answers for a provider that is away, or for a sign-in that does not hold.
func (s *Server) providerFailed(w http.ResponseWriter, r *http.Request, err error) error {
	if errors.Is(err, oidc.ErrUnavailable) {
		s.log.Error("the OpenID provider does not answer", "request_id", of(r).id, "error", err)
		w.Header().Set("Retry-After", fmt.Sprint(int(oidc.RetryAfter/time.Second)))
		return errProvider
	}
	var refused *oidc.Refused
	if !errors.As(err, &refused) {
		return err
	}
	if refused.Known.Subject == "" {
		return s.refuseProvider(w, r, refused.Known, refused.Reason, "The sign-in could not be completed. Begin again from here.")
	}
	// What was begun while the provider still let this person in must not go on.
	if _, err := s.store.EndSessionsAt(r.Context(), refused.Known); err != nil {
		return err
	}
	return s.refuseProvider(w, r, refused.Known, refused.Reason, "Your account at "+s.providerName()+" may not sign in here. An administrator can change that.")
}

// refusedByUs answers for somebody whom the provider has vouched for and we do not let in.
func (s *Server) refusedByUs(w http.ResponseWriter, r *http.Request, who storage.Identity, err error) error {
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return s.refuseProvider(w, r, who, "the user is disabled", "This account is disabled here. An administrator can enable it.")
	case errors.Is(err, storage.ErrNoAdmin):
		return s.refuseProvider(w, r, who, "there is no admin of all tenants yet", "An administrator has to sign in first: “fenceline signin” prints a link.")
	case errors.Is(err, storage.ErrLastAdmin):
		return s.refuseProvider(w, r, who, "the provider would take the last admin away", "The provider gives you less than you have here, and you are the last administrator of all tenants. Make another one first.")
	}
	return err
}

func (s *Server) refuseProvider(w http.ResponseWriter, r *http.Request, who storage.Identity, reason, told string) error {
	s.log.Warn("sign-in by the provider refused", "request_id", of(r).id, "address", clientKey(r.RemoteAddr), "reason", reason, "subject", who.Subject)
	details := map[string]any{"via": storage.ViaProvider, "reason": reason, "issuer": who.Issuer, "subject": who.Subject}
	if err := s.audit(r, auditSigninRefused, object{kind: "user"}, details); err != nil {
		return err
	}
	return s.showSignin(w, r, http.StatusForbidden, signinView{Notice: told})
}
