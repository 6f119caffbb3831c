package web

import (
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

const (
	// sessionTime is how long a sign-in lasts.
	sessionTime = 7 * 24 * time.Hour
	// maxFailedSignins is how often a minute an address may come with a link that does not work.
	maxFailedSignins = 10
	// maxForm bounds the body of a form, in bytes.
	maxForm = 256 << 10
	// maxName bounds a user's name, in characters; the database has the same bound.
	maxName = 100
)

// signinView is the sign-in page in all its states.
type signinView struct {
	Token string
	// AskName is true when there is no user yet: who signs in first says who it is.
	AskName bool
	Name    string // the user as whom one signs in, or what was typed
	Problem string // about the name
	Refused bool   // the link does not work
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
	if err := s.tryLink(w, r, token); err != nil {
		return s.refuseLink(w, r, err)
	}
	first, err := s.store.FirstUser(r.Context())
	if err != nil {
		return err
	}
	return s.showSignin(w, r, http.StatusOK, signinView{Token: token, AskName: first == "", Name: first})
}

// tryLink fails with [storage.ErrNotFound] when a link does not work, and with
// a [*busyError] when its address has tried too many.
func (s *Server) tryLink(w http.ResponseWriter, r *http.Request, token string) error {
	if wait := s.signins.blocked(clientKey(r.RemoteAddr)); wait > 0 {
		return &busyError{wait}
	}
	if len(token) > maxSecret {
		return storage.ErrNotFound
	}
	valid, err := s.store.SigninLinkValid(r.Context(), token)
	if err == nil && !valid {
		err = storage.ErrNotFound
	}
	return err
}

// signin uses a link up and begins a session.
func (s *Server) signin(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	token := r.PostForm.Get("token")
	if err := s.tryLink(w, r, token); err != nil {
		return s.refuseLink(w, r, err)
	}
	name, err := s.store.FirstUser(r.Context())
	if err != nil {
		return err
	}
	if name == "" {
		given := strings.TrimSpace(r.PostForm.Get("name"))
		if problem := checkName(given); problem != "" {
			return s.showSignin(w, r, http.StatusUnprocessableEntity, signinView{Token: token, AskName: true, Name: given, Problem: problem})
		}
		name = given
	}
	secret, err := s.store.UseSigninLink(r.Context(), token, name, sessionTime)
	if err != nil {
		return s.refuseLink(w, r, err)
	}
	s.setSession(w, secret, int(sessionTime.Seconds()))
	s.log.Info("signed in", "request_id", of(r).id, "who", name)
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

// refuseLink answers for a link that does not work, and counts it.
func (s *Server) refuseLink(w http.ResponseWriter, r *http.Request, err error) error {
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	s.signins.failed(clientKey(r.RemoteAddr))
	return s.showSignin(w, r, http.StatusForbidden, signinView{Refused: true})
}

func (s *Server) showSignin(w http.ResponseWriter, r *http.Request, status int, v signinView) error {
	w.Header().Set("Referrer-Policy", signinReferrer)
	w.Header().Set("Cache-Control", "no-store")
	return s.render(w, r, status, "signin", v)
}

// signout ends the session.
func (s *Server) signout(w http.ResponseWriter, r *http.Request) error {
	if err := s.store.EndSession(r.Context(), s.session(r)); err != nil {
		return err
	}
	s.setSession(w, "", -1)
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
	return nil
}

func checkName(name string) string {
	switch {
	case name == "":
		return "Enter your name, as others should read it."
	case utf8.RuneCountInString(name) > maxName:
		return "Enter a shorter name: at most 100 characters."
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "Enter a name without control characters."
	}
	return ""
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
