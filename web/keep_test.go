package web

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func TestKeepOverTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, other := w.withRole("Ada", "acme", storage.RoleAdmin), w.withRole("Eve", "globex", storage.RoleAdmin)
	operator := w.withRole("Olga", "acme", storage.RoleOperator)
	j, _ := w.published("acme", "sales", "Sales", "sales.csv", "id\n1\n")
	path := "/api/v1" + exportPath(j.ExportID)
	ask := func(method, path, body string, who creds) answer {
		return w.send(method, path, who, strings.NewReader(body), "Content-Type", "application/json")
	}
	ask("POST", path+"/pin", `{}`, operator).want(t, 422, "note")
	ask("POST", path+"/pin", `{"note":"year end"}`, operator).want(t, 200, "kept until it is unpinned: Olga pinned it")
	ask("POST", path+"/pin", `{"note":"year end"}`, other).want(t, 404)
	ask("POST", path+"/hold", `{"note":"case 7"}`, operator).want(t, 403)
	ask("DELETE", path, "", admin).want(t, 409, "pinned")
	ask("POST", path+"/unpin", "", operator).want(t, 200, "kept until a newer publication replaces it")
	ask("POST", path+"/hold", `{"note":"case 7"}`, admin).want(t, 200, "kept until its hold is released")
	ask("POST", path+"/hold", `{"note":"case 7"}`, admin).want(t, 409)
	w.get(exportPath(j.ExportID), operator).want(t, 200, "kept until its hold is released: Ada put it on hold, “case 7”")
	ask("DELETE", path, "", admin).want(t, 409, "on-hold")
	w.post(exportPath(j.ExportID)+"/delete", admin, nil).want(t, 409)
	ask("POST", path+"/release", "", admin).want(t, 200)
	ask("POST", path+"/release", "", admin).want(t, 404)
	ask("DELETE", path, "", admin).want(t, 200)
	ask("POST", path+"/restore", "", other).want(t, 404)
	ask("POST", path+"/restore", "", admin).want(t, 200, "kept until a newer publication replaces it")
	ask("POST", "/api/v1"+exportPath(uuid.New())+"/restore", "", admin).want(t, 404)

	ask("PUT", "/api/v1/retention", `{"kind":"report","superseded_days":6}`, admin).want(t, 422, `"field":"superseded_days"`, "LINK_MAX")
	ask("PUT", "/api/v1/retention", `{"tenant":"globex","kind":"report"}`, admin).want(t, 403)
	ask("PUT", "/api/v1/retention", `{"kind":"report","current_days":30,"superseded_days":9,"superseded_keep":2}`, admin).want(t, 200, `"tenant":"acme"`, `"superseded_days":9`)
	ask("GET", "/api/v1/retention", "", other).want(t, 200, `"items":[]`)
	w.get(exportPath(j.ExportID), operator).want(t, 200, "the rule for report of acme keeps 30 days")
	ask("DELETE", "/api/v1/retention?kind=report", "", other).want(t, 404)
	ask("DELETE", "/api/v1/retention?kind=report", "", admin).want(t, 200, `"items":[]`)
}
