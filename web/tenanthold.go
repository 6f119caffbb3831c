package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// tenantHoldRoutes are the part of the table about holds of a whole tenant, or of a kind of it.
func (s *Server) tenantHoldRoutes() []route {
	const administer = storage.VerbAdminister
	return []route{
		{"GET", "/settings/kept/hold", signedIn, administer, s.holdTenantPage},
		{"POST", "/settings/kept/hold", signedIn, administer, s.holdTenantForm},
		{"POST", "/settings/kept/release", signedIn, administer, s.releaseTenantForm},
	}
}

// askTenantHold are the fields that name what is to be put on hold, for who may do it.
func askTenantHold(who principal, given url.Values) []formField {
	if !who.may(storage.VerbAdminister) {
		return nil
	}
	fields := []formField{{Name: "kind", Label: "Kind", Kind: "text", Value: given.Get("kind"), Hint: "Such as report or invoice. Empty: every kind."}}
	if who.scope.All {
		fields = append([]formField{{Name: "tenant", Label: "Tenant", Kind: "text", Value: given.Get("tenant"), Required: true, Hint: "All of its exports, and those to come."}}, fields...)
	}
	return fields
}

// tenantHoldView is the page that says what a hold would be on, before it is.
type tenantHoldView struct {
	storage.Kept
	All     string // what it is on
	Exports int64  // that there are of it now, counted up to [storage.CountCap]+1
	Fields  []formField
	Problem string
}

// heldPart reads what a form or a query names: a tenant, or a kind of it.
func heldPart(r *http.Request, given url.Values) (k storage.Kept, err error) {
	if k.Tenant, err = scopedTenant(of(r).principal, given.Get("tenant")); err != nil {
		return k, err
	}
	if k.Tenant == "" {
		return k, invalid.New("tenant", "", "is needed: say whose exports are to stay")
	}
	if kind := strings.TrimSpace(given.Get("kind")); kind != "" {
		k.Kind = &kind
	}
	return k, nil
}

// holdTenantPage says what would be on hold, and asks why.
func (s *Server) holdTenantPage(w http.ResponseWriter, r *http.Request) error {
	k, err := heldPart(r, r.URL.Query())
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return s.showKept(w, r, http.StatusUnprocessableEntity, r.URL.Query(), bad.Problems)
	}
	if err != nil {
		return err
	}
	return s.showTenantHold(w, r, http.StatusOK, k, nil)
}

func (s *Server) showTenantHold(w http.ResponseWriter, r *http.Request, status int, k storage.Kept, problems []invalid.Problem) (err error) {
	v := tenantHoldView{Kept: k, All: keptRow{Kept: k}.All()}
	if v.Exports, err = s.store.CountExports(r.Context(), k.Tenant, k.Kind); err != nil {
		return err
	}
	v.Fields = []formField{{Name: "reason", Label: "Why", Kind: "text", Required: true, Hint: "For who finds it a year later."}}
	v.Problem = place(v.Fields, problems)
	w.Header().Set("Cache-Control", "no-store")
	return s.render(w, r, status, "tenanthold", v)
}

// holdTenantForm puts a tenant, or a kind of it, on hold.
func (s *Server) holdTenantForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	k, err := heldPart(r, r.PostForm)
	if err != nil {
		return err
	}
	note, err := noteOf(r.PostForm, "reason")
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return s.showTenantHold(w, r, http.StatusUnprocessableEntity, k, bad.Problems)
	}
	return s.changeTenantHold(w, r, k, auditHeld, "held", func(e storage.AuditEntry) error {
		return s.store.HoldTenant(r.Context(), k.Tenant, k.Kind, note, e)
	})
}

// releaseTenantForm releases such a hold, which its address names.
func (s *Server) releaseTenantForm(w http.ResponseWriter, r *http.Request) error {
	k, err := heldPart(r, r.URL.Query())
	if err != nil {
		return err
	}
	return s.changeTenantHold(w, r, k, auditReleased, "released", func(e storage.AuditEntry) error {
		return s.store.ReleaseTenant(r.Context(), k.Tenant, k.Kind, e)
	})
}

func (s *Server) changeTenantHold(w http.ResponseWriter, r *http.Request, k storage.Kept, action, done string, do func(storage.AuditEntry) error) error {
	details := map[string]any{}
	if k.Kind != nil {
		details["kind"] = *k.Kind
	}
	e, err := auditEntry(r, action, object{tenant: k.Tenant}, details)
	if err == nil {
		err = do(e)
	}
	if err != nil {
		return err
	}
	s.log.Info(action, "request_id", of(r).id, "tenant", k.Tenant, "kind", deref(k.Kind), "who", of(r).principal.name)
	http.Redirect(w, r, "/settings/kept?done="+done, http.StatusSeeOther)
	return nil
}
