package web

import (
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/password"
)

// settingsRoutes are the part of the table about accounts, people and tokens.
func (s *Server) settingsRoutes() []route {
	const view, administer = storage.VerbView, storage.VerbAdminister
	return []route{
		{"GET", "/settings", signedIn, view, s.accountPage},
		{"POST", "/settings/password", signedIn, view, s.passwordForm},
		{"POST", "/settings/sessions/{id}/end", signedIn, view, s.endSessionForm},
		{"POST", "/settings/sessions", signedIn, view, s.endOthersForm},
		{"GET", "/settings/users", signedIn, administer, s.usersPage},
		{"POST", "/settings/users", signedIn, administer, s.addUserForm},
		{"GET", "/settings/users/{id}", signedIn, administer, s.userPage},
		{"POST", "/settings/users/{id}/role", signedIn, administer, s.userRoleForm},
		{"POST", "/settings/users/{id}/password", signedIn, administer, s.userPasswordForm},
		{"POST", "/settings/users/{id}/disable", signedIn, administer, s.userDisableForm},
		{"POST", "/settings/users/{id}/enable", signedIn, administer, s.userEnableForm},
		{"POST", "/settings/users/{id}/signout", signedIn, administer, s.userSignoutForm},
		{"POST", "/settings/users/{id}/remove", signedIn, administer, s.userRemoveForm},
		{"GET", "/settings/tokens", signedIn, administer, s.tokensPage},
		{"POST", "/settings/tokens", signedIn, administer, s.addTokenForm},
		{"POST", "/settings/tokens/{id}/revoke", signedIn, administer, s.revokeTokenForm},
		{"GET", "/settings/tenants", signedIn, administer, s.tenantsPage},
		{"GET", "/settings/presets", signedIn, view, s.presetsPage},
	}
}

// Setting is a line of what is configured, as the settings page shows it.
type Setting struct{ Name, Value, Help string }

// settingsView is the settings page, whichever of its tabs is shown.
type settingsView struct {
	Tab  string
	Tabs []settingsTab

	User     storage.User
	Sessions []sessionRow
	Fields   []formField
	Problem  string
	Done     string // what was just done
	Secret   string // what is shown this once
	SecretOf string
	Nonce    string // of a form that makes something

	Users   []userRow
	Tokens  []tokenRow
	Tenants []storage.TenantUse
	Facts   []Setting
	Presets []presetRow
	Choices []confirmation
	Verbs   []formOption // of a new token
	Pager   pager

	Rules   *retentionView
	Kept    []keptRow
	Deleted []deletedRow
	Grace   string // for how long what was deleted can be restored
}

type settingsTab struct{ Path, Label, Current string }

// tabs are those that somebody may look at.
func tabs(who principal, current string) (list []settingsTab) {
	for _, t := range []struct {
		path, label string
		needs       storage.Verb
	}{
		{"/settings", "My account", storage.VerbView}, {"/settings/users", "Users", storage.VerbAdminister},
		{"/settings/tokens", "API tokens", storage.VerbAdminister}, {"/settings/tenants", "Tenants", storage.VerbAdminister},
		{"/settings/retention", "Retention", storage.VerbView}, {"/settings/kept", "Pins and holds", storage.VerbView},
		{"/settings/deleted", "Deleted", storage.VerbAdminister}, {"/settings/presets", "Presets", storage.VerbView},
	} {
		if !who.may(t.needs) {
			continue
		}
		tab := settingsTab{Path: t.path, Label: t.label}
		if t.path == current {
			tab.Current = "page"
		}
		list = append(list, tab)
	}
	return list
}

// showSettings renders a tab. Nobody keeps a copy: some hold secrets, all say who may do what.
func (s *Server) showSettings(w http.ResponseWriter, r *http.Request, status int, v settingsView) error {
	current := "/settings"
	if v.Tab != "account" {
		current += "/" + v.Tab
	}
	v.Tabs, v.Nonce = tabs(of(r).principal, current), rand.Text()
	w.Header().Set("Cache-Control", "no-store")
	return s.render(w, r, status, "settings", v)
}

// sessionRow is a line of the list of sessions.
type sessionRow struct {
	storage.Session
	End confirmation
}

// Agent is what the browser is, in few words.
func (r sessionRow) Agent() string { return agentName(r.Browser) }

// agentName makes a name of what a browser sends; it lies to be served well, so the order counts.
func agentName(agent string) string {
	first := func(words ...[2]string) string {
		for _, w := range words {
			if strings.Contains(agent, w[0]) {
				return w[1]
			}
		}
		return ""
	}
	browser := first([2]string{"Edg/", "Edge"}, [2]string{"OPR/", "Opera"}, [2]string{"Firefox/", "Firefox"}, [2]string{"Chrome/", "Chrome"}, [2]string{"Safari/", "Safari"}, [2]string{"curl/", "curl"})
	system := first([2]string{"Android", "Android"}, [2]string{"iPhone", "iPhone"}, [2]string{"iPad", "iPad"}, [2]string{"Windows", "Windows"}, [2]string{"Mac OS X", "macOS"}, [2]string{"Linux", "Linux"})
	switch {
	case browser == "" && agent == "":
		return "unknown"
	case browser == "":
		return cut(agent, 40)
	case system == "":
		return browser
	}
	return browser + " on " + system
}

func (s *Server) accountPage(w http.ResponseWriter, r *http.Request) error {
	return s.showAccount(w, r, http.StatusOK, "", "")
}

func (s *Server) showAccount(w http.ResponseWriter, r *http.Request, status int, done, problem string) error {
	who := of(r).principal
	u, err := s.store.User(r.Context(), storage.Scope{All: true}, who.user)
	if err != nil {
		return err
	}
	list, err := s.store.Sessions(r.Context(), who.user, s.session(r))
	if err != nil {
		return err
	}
	v := settingsView{Tab: "account", User: u, Done: done, Problem: problem}
	for _, one := range list {
		v.Sessions = append(v.Sessions, sessionRow{one, confirmation{ID: "end-" + one.ID.String(), Label: "End", Button: "End it",
			Text: "That browser has to sign in again.", Action: "/settings/sessions/" + one.ID.String() + "/end"}})
	}
	return s.showSettings(w, r, status, v)
}

// passwordForm changes one's own password. Who has one must know it: a browser that
// was left alone must not be enough. The limit by name counts here too.
func (s *Server) passwordForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	who := of(r).principal
	given, fresh := r.PostForm.Get("current"), r.PostForm.Get("new")
	refuse := func(problem string) error {
		return s.showAccount(w, r, http.StatusUnprocessableEntity, "", problem)
	}
	_, hash, err := s.store.PasswordOf(r.Context(), who.name)
	if err != nil {
		return err
	}
	if hash != "" {
		if wait := s.names.take(r.Context(), nameKey(who.name)); wait > 0 {
			return &busyError{wait}
		}
		ok, _, err := s.hasher.Verify(r.Context(), hash, given)
		if err != nil {
			return err
		}
		if !ok {
			return refuse("The current password is another one.")
		}
		s.names.clear(r.Context(), nameKey(who.name))
	}
	if problem := password.Check(fresh, who.name); problem != "" {
		return refuse("The new password " + problem + ".")
	}
	if fresh != r.PostForm.Get("again") {
		return refuse("The new password was not typed the same twice.")
	}
	if hash, err = s.hasher.Hash(r.Context(), fresh); err != nil {
		return err
	}
	if _, err := s.store.ChangeUser(r.Context(), storage.Scope{All: true}, who.user, storage.UserChange{Password: &hash, Keep: s.session(r)}); err != nil {
		return err
	}
	if err := s.audit(r, auditPasswordSet, object{kind: "user", id: who.user.String()}, map[string]any{"name": who.name}); err != nil {
		return err
	}
	return s.showAccount(w, r, http.StatusOK, "The password was changed, and your other sessions were ended.", "")
}

func (s *Server) endSessionForm(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	who := of(r).principal
	if err := s.store.EndSessionOf(r.Context(), who.user, id); err != nil {
		return err
	}
	if err := s.audit(r, auditSessionRevoked, object{kind: "user", id: who.user.String()}, map[string]any{"session": id}); err != nil {
		return err
	}
	http.Redirect(w, r, "/settings", http.StatusSeeOther)
	return nil
}

func (s *Server) endOthersForm(w http.ResponseWriter, r *http.Request) error {
	who := of(r).principal
	n, err := s.store.EndSessionsOf(r.Context(), who.user, s.session(r))
	if err != nil {
		return err
	}
	if err := s.audit(r, auditSessionRevoked, object{kind: "user", id: who.user.String()}, map[string]any{"sessions": n}); err != nil {
		return err
	}
	http.Redirect(w, r, "/settings", http.StatusSeeOther)
	return nil
}

// settingsPageSize is how many users, tokens or tenants a page lists.
const settingsPageSize = 50

func (s *Server) tenantsPage(w http.ResponseWriter, r *http.Request) error {
	l := newListing(r)
	list, more, err := s.store.Tenants(r.Context(), of(r).principal.scope, l.After, settingsPageSize)
	if err != nil {
		return err
	}
	v := settingsView{Tab: "tenants", Tenants: list}
	if more {
		v.Pager = l.pager(list[len(list)-1].Name)
	}
	return s.showSettings(w, r, http.StatusOK, v)
}

// scopedTenant is the tenant of which somebody may administer people and tokens: what was
// asked for by who sees all, the own for others, whatever they ask for.
func scopedTenant(who principal, asked string) (string, error) {
	tenant, err := tenantFor(who, strings.TrimSpace(asked))
	if err == nil && tenant == "" && !who.scope.All {
		err = errTenant // an empty tenant would be all of them
	}
	return tenant, err
}

// grantable refuses what somebody may not do and so may not hand on.
func grantable(who principal, verbs []storage.Verb) error {
	for _, v := range verbs {
		if !slices.Contains(who.verbs, v) {
			return errVerb
		}
	}
	return nil
}

// userOf is the user of a route, in the scope of who asks.
func (s *Server) userOf(r *http.Request) (storage.User, error) {
	id, err := pathID(r)
	if err != nil {
		return storage.User{}, err
	}
	u, err := s.store.User(r.Context(), of(r).principal.scope, id)
	if errors.Is(err, storage.ErrNotFound) {
		err = errMissing
	}
	return u, err
}

func userObject(u storage.User) object { return object{"user", u.ID.String(), u.TenantName()} }

func tokenObject(id uuid.UUID, tenant string) object { return object{"token", id.String(), tenant} }

// showCapped is a number that was counted up to [storage.TenantCountCap].
func showCapped(n int64) string {
	if n >= storage.TenantCountCap {
		return showNumber(storage.TenantCountCap) + " or more"
	}
	return showNumber(n)
}
