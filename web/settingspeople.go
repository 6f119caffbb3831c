package web

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/password"
	"github.com/fenceline/fenceline/web/people"
)

// userRow is a line of the list of users.
type userRow struct {
	storage.User
}

// Chip is whether the user may sign in.
func (u userRow) Chip() chip {
	if u.DisabledAt != nil {
		return chip{"cancelled", "disabled"}
	}
	return chip{"published", "may sign in"}
}

func (s *Server) usersPage(w http.ResponseWriter, r *http.Request) error {
	return s.showUsers(w, r, http.StatusOK, settingsView{}, nil)
}

// showUsers lists users with the form for another one; problems are of that form.
func (s *Server) showUsers(w http.ResponseWriter, r *http.Request, status int, v settingsView, problems []invalid.Problem) error {
	who, l := of(r).principal, newListing(r)
	list, more, err := s.store.Users(r.Context(), who.scope, l.After, settingsPageSize)
	if err != nil {
		return err
	}
	for _, u := range list {
		v.Users = append(v.Users, userRow{u})
	}
	if more {
		v.Pager = l.pager(list[len(list)-1].Name)
	}
	v.Tab = "users"
	v.Fields = append([]formField{{Name: "name", Label: "Name", Kind: "text", Value: r.PostForm.Get("name"), Required: true,
		Hint: "Others read it where the user asks for an export."}}, roleFields(who, r.PostForm.Get("role"), r.PostForm.Get("tenant"))...)
	v.Problem = place(v.Fields, problems)
	return s.showSettings(w, r, status, v)
}

// roleFields ask for a role, and who sees all tenants also for one of them.
func roleFields(who principal, role, tenant string) []formField {
	f := formField{Name: "role", Label: "Role", Kind: "select", Value: role, Hint: "Viewers look and download; requesters also ask for exports and cancel their own; operators run everything; admins also let others in."}
	for _, r := range storage.Roles() {
		f.Options = append(f.Options, formOption{Value: string(r), Text: string(r)})
	}
	fields := []formField{f}
	if who.scope.All {
		fields = append(fields, formField{Name: "tenant", Label: "Tenant", Kind: "text", Value: tenant, Hint: "The only tenant that is seen. Empty: all of them."})
	}
	return fields
}

// place puts problems to their fields; those of no field are answered.
func place(fields []formField, problems []invalid.Problem) (rest string) {
	for _, p := range problems {
		found := false
		for i := range fields {
			if fields[i].Name == p.Field {
				fields[i].Problem, found = "It "+p.Message+".", true
			}
		}
		if !found {
			rest = p.Field + " " + p.Message
		}
	}
	return rest
}

// addUserForm makes a user with a password that is shown this once.
func (s *Server) addUserForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	who := of(r).principal
	tenant, err := scopedTenant(who, r.PostForm.Get("tenant"))
	if err != nil {
		return err
	}
	text := password.Generate()
	n, err := people.User(r.PostForm.Get("name"), r.PostForm.Get("role"), tenant, text)
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return s.showUsers(w, r, http.StatusUnprocessableEntity, settingsView{}, bad.Problems)
	}
	if err := errors.Join(err, grantable(who, n.Role.Verbs())); err != nil {
		return err
	}
	if n.Password, err = s.hasher.Hash(r.Context(), text); err != nil {
		return err
	}
	made, _, err := formOnce(s, r, func(tx storage.Tx) (m secretMade[storage.User], err error) {
		m.Secret = text
		if m.What, err = s.store.AddUserIn(tx, n); err != nil {
			return m, err
		}
		return m, s.auditIn(r, tx, auditUserAdded, userObject(m.What), map[string]any{"name": n.Name, "role": n.Role})
	})
	if errors.Is(err, storage.ErrUserExists) {
		return s.showUsers(w, r, http.StatusUnprocessableEntity, settingsView{}, []invalid.Problem{{Field: "name", Message: "is taken by another user"}})
	}
	if err != nil {
		return err
	}
	r.PostForm = nil // the form for the next one is empty
	return s.showUsers(w, r, http.StatusOK, settingsView{Done: "The user was added.", Secret: made.Secret, SecretOf: "Password of " + made.What.Name}, nil)
}

func (s *Server) userPage(w http.ResponseWriter, r *http.Request) error {
	u, err := s.userOf(r)
	if err != nil {
		return err
	}
	return s.showUser(w, r, http.StatusOK, u, settingsView{})
}

func (s *Server) showUser(w http.ResponseWriter, r *http.Request, status int, u storage.User, v settingsView) error {
	list, err := s.store.Sessions(r.Context(), u.ID, s.session(r))
	if err != nil {
		return err
	}
	for _, one := range list {
		v.Sessions = append(v.Sessions, sessionRow{Session: one})
	}
	v.Tab, v.User = "user", u
	v.Fields = roleFields(of(r).principal, string(u.Role), u.TenantName())
	at := "/settings/users/" + u.ID.String()
	toggle := confirmation{ID: "disable", Label: "Disable", Button: "Disable " + cut(u.Name, 40), Action: at + "/disable",
		Text: fmt.Sprintf("%s %s at once, and nobody signs in as this user until it is enabled again.", count.Of(len(list), "session"), count.Verb(len(list), "ends", "end"))}
	if u.DisabledAt != nil {
		toggle = confirmation{ID: "enable", Label: "Enable", Button: "Enable", Action: at + "/enable", Text: "The user may sign in again.", Safe: true}
	}
	v.Choices = []confirmation{
		{ID: "password", Label: "New password", Button: "Make a new password", Action: at + "/password", Nonce: rand.Text(),
			Text: fmt.Sprintf("A password is made and shown once. The old one no longer works, and %s %s.", count.Of(len(list), "session"), count.Verb(len(list), "ends", "end"))},
		{ID: "signout", Label: "End sessions", Button: "End them", Action: at + "/signout", Text: fmt.Sprintf("%s %s. The user may sign in again.", count.Of(len(list), "session"), count.Verb(len(list), "ends", "end"))},
		toggle,
		{ID: "remove", Label: "Remove", Button: "Remove for good", Action: at + "/remove",
			Text: fmt.Sprintf("The user and %s go. What was asked for keeps the name; API tokens go on.", count.Of(len(list), "session"))},
	}
	return s.showSettings(w, r, status, v)
}

// changeUser changes the user of a route, writes it down and answers the user as it is now.
func (s *Server) changeUser(r *http.Request, action string, c storage.UserChange) (storage.User, error) {
	u, err := s.userOf(r)
	if err != nil {
		return u, err
	}
	who := of(r).principal
	if u.ID == who.user {
		c.Keep = s.session(r)
	}
	if u, err = s.store.ChangeUser(r.Context(), who.scope, u.ID, c); err != nil {
		return u, err
	}
	return u, s.audit(r, action, userObject(u), map[string]any{"name": u.Name, "role": u.Role, "tenant": u.TenantName()})
}

func (s *Server) userRoleForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	u, err := s.userOf(r)
	if err != nil {
		return err
	}
	who := of(r).principal
	var refused invalid.Error
	c := storage.UserChange{Role: new(storage.Role(r.PostForm.Get("role")))}
	people.Role(&refused, string(*c.Role))
	if who.scope.All {
		c.Tenant = new(r.PostForm.Get("tenant"))
		people.Tenant(&refused, *c.Tenant)
	}
	if len(refused.Problems) > 0 {
		return s.showUser(w, r, http.StatusUnprocessableEntity, u, settingsView{Problem: refused.Error()})
	}
	if err := grantable(who, c.Role.Verbs()); err != nil {
		return err
	}
	if u, err = s.changeUser(r, auditUserChanged, c); err != nil {
		return err
	}
	return s.backToUser(w, r, u)
}

func (s *Server) backToUser(w http.ResponseWriter, r *http.Request, u storage.User) error {
	http.Redirect(w, r, "/settings/users/"+u.ID.String(), http.StatusSeeOther)
	return nil
}

func (s *Server) userPasswordForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	text, _, err := formOnce(s, r, func(storage.Tx) (string, error) {
		text := password.Generate()
		hash, err := s.hasher.Hash(r.Context(), text)
		if err != nil {
			return "", err
		}
		_, err = s.changeUser(r, auditPasswordSet, storage.UserChange{Password: &hash})
		return text, err
	})
	if err != nil {
		return err
	}
	u, err := s.userOf(r)
	if err != nil {
		return err
	}
	return s.showUser(w, r, http.StatusOK, u, settingsView{Done: "The password was changed.", Secret: text, SecretOf: "Password of " + u.Name})
}

func (s *Server) userDisableForm(w http.ResponseWriter, r *http.Request) error {
	u, err := s.changeUser(r, auditUserDisabled, storage.UserChange{Disabled: new(true)})
	if err != nil {
		return err
	}
	return s.backToUser(w, r, u)
}

func (s *Server) userEnableForm(w http.ResponseWriter, r *http.Request) error {
	u, err := s.changeUser(r, auditUserEnabled, storage.UserChange{Disabled: new(false)})
	if err != nil {
		return err
	}
	return s.backToUser(w, r, u)
}

func (s *Server) userSignoutForm(w http.ResponseWriter, r *http.Request) error {
	u, err := s.userOf(r)
	if err != nil {
		return err
	}
	n, err := s.store.EndSessionsOf(r.Context(), u.ID, "")
	if err != nil {
		return err
	}
	if err := s.audit(r, auditSessionRevoked, userObject(u), map[string]any{"name": u.Name, "sessions": n}); err != nil {
		return err
	}
	return s.backToUser(w, r, u)
}

func (s *Server) userRemoveForm(w http.ResponseWriter, r *http.Request) error {
	u, err := s.userOf(r)
	if err != nil {
		return err
	}
	if err := s.store.RemoveUser(r.Context(), of(r).principal.scope, u.ID); err != nil {
		return err
	}
	if err := s.audit(r, auditUserRemoved, userObject(u), map[string]any{"name": u.Name}); err != nil {
		return err
	}
	http.Redirect(w, r, "/settings/users", http.StatusSeeOther)
	return nil
}

// tokenRow is a line of the list of API tokens.
type tokenRow struct {
	storage.Token
	Chip   chip
	Revoke confirmation
}

// afterToken is the token that a page of the list begins behind.
func afterToken(l listing) (uuid.UUID, error) {
	if l.After == "" {
		return uuid.Nil, nil
	}
	id, err := uuid.Parse(l.After)
	if err != nil {
		return id, storage.ErrCursor
	}
	return id, nil
}
