package web

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/people"
)

func (s *Server) tokensPage(w http.ResponseWriter, r *http.Request) error {
	return s.showTokens(w, r, http.StatusOK, settingsView{}, nil)
}

// showTokens lists API tokens with the form for another one.
func (s *Server) showTokens(w http.ResponseWriter, r *http.Request, status int, v settingsView, problems []invalid.Problem) error {
	who, l := of(r).principal, newListing(r)
	after, err := afterToken(l)
	if err != nil {
		return err
	}
	list, more, err := s.store.TokenPage(r.Context(), who.scope, after, settingsPageSize)
	if err != nil {
		return err
	}
	for _, t := range list {
		v.Tokens = append(v.Tokens, newTokenRow(t, time.Now()))
	}
	if more {
		v.Pager = l.pager(list[len(list)-1].ID.String())
	}
	v.Tab = "tokens"
	v.Fields = []formField{{Name: "name", Label: "Name", Kind: "text", Value: r.PostForm.Get("name"), Required: true, Hint: "What it is for. The audit log and the list of jobs show it."}}
	if who.scope.All {
		v.Fields = append(v.Fields, formField{Name: "tenant", Label: "Tenant", Kind: "text", Value: r.PostForm.Get("tenant"), Hint: "The only tenant that it sees. Empty: all of them."})
	}
	expires := "90d"
	if r.PostForm.Has("expires") {
		expires = r.PostForm.Get("expires")
	}
	v.Fields = append(v.Fields, formField{Name: "expires", Label: "Ends", Kind: "text", Value: expires, Hint: "Such as 90d, 12h or 2027-01-31. Empty: never."})
	for _, verb := range who.verbs {
		chosen := slices.Contains(r.PostForm["verbs"], string(verb)) || !r.PostForm.Has("name") && verb == storage.VerbView
		v.Verbs = append(v.Verbs, formOption{Value: string(verb), Text: verbWords(verb), Chosen: chosen})
	}
	v.Problem = place(v.Fields, problems)
	return s.showSettings(w, r, status, v)
}

func verbWords(v storage.Verb) string {
	switch v {
	case storage.VerbView:
		return "look and download"
	case storage.VerbRequest:
		return "ask for exports"
	case storage.VerbOperate:
		return "cancel, retry, pause, schedule"
	}
	return "administer"
}

func newTokenRow(t storage.Token, now time.Time) tokenRow {
	row := tokenRow{Token: t, Chip: chip{"published", "works"}}
	switch {
	case t.RevokedAt != nil:
		row.Chip = chip{"cancelled", "revoked"}
	case !t.Works(now):
		row.Chip = chip{"superseded", "expired"}
	default:
		row.Revoke = confirmation{ID: "revoke-" + t.ID.String(), Label: "Revoke", Button: "Revoke for good", Action: "/settings/tokens/" + t.ID.String() + "/revoke",
			Text: "Programs that use this token get 401 from now on. It cannot be taken back."}
	}
	return row
}

// addTokenForm makes a token and shows its secret, this once.
func (s *Server) addTokenForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	who := of(r).principal
	tenant, err := scopedTenant(who, r.PostForm.Get("tenant"))
	if err != nil {
		return err
	}
	spec, err := people.Token(r.PostForm.Get("name"), tenant, r.PostForm["verbs"], r.PostForm.Get("expires"), time.Now())
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return s.showTokens(w, r, http.StatusUnprocessableEntity, settingsView{}, bad.Problems)
	}
	if err := errors.Join(err, grantable(who, spec.Verbs)); err != nil {
		return err
	}
	spec.CreatedBy = who.name
	made, _, err := formOnce(s, r, func(tx storage.Tx) (m secretMade[storage.Token], err error) {
		if m.What, m.Secret, err = s.store.AddTokenIn(tx, spec); err != nil {
			return m, err
		}
		t := m.What
		return m, s.auditIn(r, tx, auditTokenMade, tokenObject(t.ID, tenant), map[string]any{"name": t.Name, "verbs": t.Verbs, "expires": t.ExpiresAt})
	})
	if err != nil {
		return err
	}
	r.PostForm = nil // the form for the next one is empty
	return s.showTokens(w, r, http.StatusOK, settingsView{Done: "The token was made.", Secret: made.Secret, SecretOf: "Token " + made.What.Name}, nil)
}

func (s *Server) revokeTokenForm(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	if err := s.store.RevokeToken(r.Context(), of(r).principal.scope, id); err != nil {
		return err
	}
	if err := s.audit(r, auditTokenRevoked, tokenObject(id, ""), nil); err != nil {
		return err
	}
	http.Redirect(w, r, "/settings/tokens", http.StatusSeeOther)
	return nil
}
