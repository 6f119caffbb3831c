package web

import (
	"net/url"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

// A tenant is put on hold by forms: first what it would be on, then why; and released.
func TestATenantIsPutOnHoldByForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root, admin, operator := w.withRole("Root", "", storage.RoleAdmin), w.withRole("Ada", "acme", storage.RoleAdmin), w.withRole("Olga", "acme", storage.RoleOperator)
	j, _ := w.published("acme", "sales", "Sales", "sales.csv", "id\n1\n")
	other, _ := w.published("globex", "sales", "Sales", "sales.csv", "id\n1\n")

	w.get("/settings/kept", operator).want(t, 200, "Nothing is pinned").without(t, "Put a tenant on hold")
	w.get("/settings/kept", admin).want(t, 200, "Put a tenant on hold", `name="kind"`).without(t, `name="tenant"`)
	w.get("/settings/kept", root).want(t, 200, `name="tenant"`)
	w.get("/settings/kept/hold", root).want(t, 422, "It is needed: say whose exports are to stay", "Pins and holds")
	w.get("/settings/kept/hold", operator).want(t, 403)
	w.get("/settings/kept/hold?tenant=globex", admin).want(t, 403)
	w.get("/settings/kept/hold?tenant=nobody", root).want(t, 200, "Put <bdi>everything of nobody</bdi> on hold?", "There is no export of it now")
	asked := w.get("/settings/kept/hold?tenant=acme&kind=report", root).want(t, 200, "Put <bdi>every report of acme</bdi> on hold?", "<b>1 export</b>", "those to come")
	if kept := must(w.store.Kept(w.ctx, storage.Scope{All: true}, storage.KeptFilter{}))(t); len(kept.Items) != 0 {
		t.Errorf("who only asked has put %+v on hold", kept.Items)
	}

	form := hiddenIn(asked)
	w.post("/settings/kept/hold", root, form).want(t, 422, "It is needed: say why", "every report of acme")
	form.Set("reason", "case 7")
	w.post("/settings/kept/hold", operator, form).want(t, 403)
	w.post("/settings/kept/hold", admin, url.Values{"tenant": {"globex"}, "reason": {"x"}}).want(t, 403)
	w.post("/settings/kept/hold", root, form).want(t, 303)
	w.post("/settings/kept/hold", root, form).want(t, 409, "on hold already")
	w.get("/settings/kept?done=held", root).want(t, 200, "It is on hold.", "every report of acme", "case 7", "/settings/kept/release?kind=report&amp;tenant=acme")
	w.get("/settings/kept", operator).want(t, 200, "every report of acme", "fenceline export release --tenant acme --kind report").without(t, "/settings/kept/release")
	w.post(exportPath(j.ExportID)+"/delete", admin, nil).want(t, 409, "It is on hold")
	w.post(exportPath(other.ExportID)+"/delete", root, nil).want(t, 303)

	release := "/settings/kept/release?kind=report&tenant=acme"
	w.post(release, operator, nil).want(t, 403)
	w.post("/settings/kept/release?tenant=acme", root, nil).want(t, 404) // everything of it is not on hold
	w.post(strings.Replace(release, "acme", "globex", 1), admin, nil).want(t, 403)
	w.post(release, admin, nil).want(t, 303)
	w.post(release, admin, nil).want(t, 404)
	w.post(exportPath(j.ExportID)+"/delete", admin, nil).want(t, 303)

	for action, who := range map[string]string{"export.held": "Root", "export.released": "Ada"} {
		page := must(w.store.AuditLog(w.ctx, storage.Scope{Tenant: "acme"}, storage.AuditFilter{Action: action}))(t)
		if len(page.Items) != 1 || page.Items[0].Actor != who || page.Items[0].ObjectKind != "tenant" || page.Items[0].ObjectID != "all report of acme" || string(page.Items[0].Details) != `{"kind": "report"}` {
			t.Errorf("the log tells of %s: %+v", action, page.Items)
		}
	}
}
