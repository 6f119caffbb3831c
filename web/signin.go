package web

import (
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/people"
)

const (
	// maxFailedSignins is how often a minute an address may fail to sign in.
	maxFailedSignins = 10
	// maxFailedNames is how often in [nameWindow] signing in under a name may fail, from
	// wherever: many addresses must not be worth more than one.
	maxFailedNames = 10
	nameWindow     = 15 * time.Minute
	// maxForm bounds the body of a form, in bytes.
	maxForm = 256 << 10
)

// signinView is the sign-in page in all its states.
type signinView struct {
	Token string
	// AskName is true when there is no user yet: who signs in first says who it is.
	AskName bool
	Name    string // the user as whom one signs in, or what was typed
	Problem string // about the name, or about name and password
	Refused bool   // the link does not work
	Notice  string // about a sign-in by the provider
	// Provider is what the button of the provider says; empty for no button.
	Provider string
}

// signinPage shows what a link will do. It uses nothing up: programs that show
// previews of links fetch them too.
func (s *Server) signinPage(w http.ResponseWriter, r *http.Request) error {
	token := r.URL.Query().Get("token")
	if token == "" {
		if _, err := s.bySession(r); err == nil {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return nil
		}
		return s.showSignin(w, r, http.StatusOK, signinView{})
	}
	name, err := s.tryLink(r, token)
	if err != nil {
		return s.refuseLink(w, r, err)
	}
	return s.showSignin(w, r, http.StatusOK, signinView{Token: token, AskName: name == "", Name: name})
}

// tryLink answers as whom a link signs in. It fails with [storage.ErrNotFound] when the
// link does not work, and with a [*busyError] when its address has failed too often.
func (s *Server) tryLink(r *http.Request, token string) (string, error) {
	if wait := s.signins.blocked(r.Context(), clientKey(r.RemoteAddr)); wait > 0 {
		return "", &busyError{wait}
	}
	if len(token) > maxSecret {
		return "", storage.ErrNotFound
	}
	return s.store.LinkUser(r.Context(), token)
}

// signin begins a session, by a link or by name and password.
func (s *Server) signin(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	token := r.PostForm.Get("token")
	if token == "" && r.PostForm.Has("password") {
		return s.signinByPassword(w, r)
	}
	name, err := s.tryLink(r, token)
	if err != nil {
		return s.refuseLink(w, r, err)
	}
	if name == "" {
		name = people.Name(r.PostForm.Get("name"))
		if problem := people.CheckName(name); problem != "" {
			return s.showSignin(w, r, http.StatusUnprocessableEntity, signinView{Token: token, AskName: true, Name: name, Problem: problem})
		}
	}
	u, secret, err := s.store.UseSigninLink(r.Context(), token, name, visitor(r))
	if err != nil {
		return s.refuseLink(w, r, err)
	}
	return s.signedIn(w, r, u, storage.ViaLink, secret)
}

// signinByPassword compares a password. What fails says nothing about which of the two
// was wrong, nor in the time that it takes.
func (s *Server) signinByPassword(w http.ResponseWriter, r *http.Request) error {
	name, text := people.Name(r.PostForm.Get("name")), r.PostForm.Get("password")
	address, user := clientKey(r.RemoteAddr), nameKey(name)
	// Counted before it is known: a thousand tries at once must not all find the count at zero.
	wait := s.signins.take(r.Context(), address)
	if wait == 0 {
		wait = s.names.take(r.Context(), user)
	}
	if wait > 0 {
		s.log.Warn("too many attempts to sign in", "request_id", of(r).id, "address", address)
		return &busyError{wait}
	}
	id, hash, err := s.store.PasswordOf(r.Context(), name)
	if err != nil {
		return err
	}
	ok, stale, err := s.hasher.Verify(r.Context(), hash, text)
	if err != nil {
		return err
	}
	if !ok {
		return s.refusePassword(w, r, name)
	}
	if stale {
		if hash, err = s.rehash(r, id, hash, text); err != nil {
			return err
		}
	}
	u, secret, err := s.store.BeginSession(r.Context(), id, storage.ViaPassword, hash, visitor(r))
	if errors.Is(err, storage.ErrNotFound) { // it was changed, or the user disabled, this instant
		return s.refusePassword(w, r, name)
	}
	if err != nil {
		return err
	}
	s.signins.giveBack(r.Context(), address)
	s.names.clear(r.Context(), user)
	return s.signedIn(w, r, u, storage.ViaPassword, secret)
}

func (s *Server) refusePassword(w http.ResponseWriter, r *http.Request, name string) error {
	s.log.Warn("sign-in refused", "request_id", of(r).id, "address", clientKey(r.RemoteAddr))
	if err := s.audit(r, auditSigninRefused, object{kind: "user"}, map[string]any{"name": name}); err != nil {
		return err
	}
	return s.showSignin(w, r, http.StatusForbidden, signinView{Name: name, Problem: "This name and this password do not go together."})
}

// rehash makes a hash of today's strength of a password that was just given.
func (s *Server) rehash(r *http.Request, id uuid.UUID, old, text string) (string, error) {
	fresh, err := s.hasher.Hash(r.Context(), text)
	if err != nil {
		return "", err
	}
	return fresh, s.store.Rehash(r.Context(), id, old, fresh)
}

// signedIn hands the session to the browser, in place of an earlier one.
func (s *Server) signedIn(w http.ResponseWriter, r *http.Request, u storage.User, via, secret string) error {
	if before := s.session(r); before != "" {
		if err := s.store.EndSession(r.Context(), before); err != nil {
			return err
		}
	}
	of(r).principal = principal{name: u.Name, scope: u.Scope(), user: u.ID}
	if err := s.audit(r, auditSignedIn, userObject(u), map[string]any{"via": via}); err != nil {
		return err
	}
	s.setSession(w, r, secret, int(storage.SessionTime.Seconds()))
	s.log.Info("signed in", "request_id", of(r).id, "who", u.Name, "via", via)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

// visitor is what the list of sessions shows of a request.
func visitor(r *http.Request) storage.Visitor {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	clean := func(text string) string {
		return strings.Map(func(c rune) rune {
			if unicode.IsControl(c) {
				return -1
			}
			return c
		}, strings.ToValidUTF8(text, ""))
	}
	return storage.Visitor{Address: clean(host), Browser: clean(r.UserAgent())}
}

// nameKey is what a name is counted under; names are as long as somebody likes.
func nameKey(name string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(name)))
	return string(sum[:])
}

// refuseLink answers for a link that does not work, and counts it.
func (s *Server) refuseLink(w http.ResponseWriter, r *http.Request, err error) error {
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	s.signins.failed(r.Context(), clientKey(r.RemoteAddr))
	if err := s.audit(r, auditSigninRefused, object{}, map[string]any{"via": storage.ViaLink}); err != nil {
		return err
	}
	return s.showSignin(w, r, http.StatusForbidden, signinView{Refused: true})
}

func (s *Server) showSignin(w http.ResponseWriter, r *http.Request, status int, v signinView) error {
	w.Header().Set("Referrer-Policy", signinReferrer)
	w.Header().Set("Cache-Control", "no-store")
	v.Provider = s.providerName()
	return s.render(w, r, status, "signin", v)
}

// signout ends the session.
func (s *Server) signout(w http.ResponseWriter, r *http.Request) error {
	if err := s.store.EndSession(r.Context(), s.session(r)); err != nil {
		return err
	}
	if err := s.audit(r, auditSignedOut, object{kind: "user", id: of(r).principal.user.String()}, nil); err != nil {
		return err
	}
	s.setSession(w, r, "", -1)
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
	return nil
}

// parseForm reads a form's body, within bounds of size and time.
func parseForm(w http.ResponseWriter, r *http.Request) error {
	defer limitBody(w, r, maxForm)()
	err := r.ParseForm()
	var large *http.MaxBytesError
	if err == nil || errors.As(err, &large) {
		return err
	}
	return invalid.New("form", "", "cannot be read: send it as application/x-www-form-urlencoded")
}

// limitBody bounds how large a body may be and how long it may take to come; the
// answer ends the bound on the time.
func limitBody(w http.ResponseWriter, r *http.Request, size int64) (done func()) {
	r.Body = http.MaxBytesReader(w, r.Body, size)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(30 * time.Second)) // not every transport has one
	return func() { _ = control.SetReadDeadline(time.Time{}) }
}

// signinReferrer keeps the link's secret out of every Referer header. Not
// no-referrer: with it browsers send "Origin: null", and over plain HTTP, where
// they send no Sec-Fetch-Site, the form would be refused as another site's.
const signinReferrer = "strict-origin"
