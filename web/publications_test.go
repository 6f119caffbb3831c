package web

import (
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// again asks for an export once more and publishes it.
func (w *world) again(j storage.Job, content string) storage.Begun {
	w.t.Helper()
	e := must(w.store.Export(w.ctx, principalAll.scope, j.ExportID))(w.t)
	next := w.job(e.Tenant, e.Key, e.Title)
	b := w.begin(next, "w-2")
	w.seal(next, b, "sales.csv", content)
	w.publish(b)
	return b
}

// The order of a lease stands beside the token wherever attempts are shown, if its service gave one.
func TestTheOrderOfALeaseIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Robin", "")
	j := w.job("acme", "sales", "Sales")
	b := w.beginUnder(j, "w-1", 4211)
	w.seal(j, b, "sales.csv", "id\n1\n")
	w.publish(b)
	beside, under := fmt.Sprintf(`token <span class="mono">%d</span> · <span class="mono">revision 4211</span>`, b.Token), `</b><span class="under">revision 4211</span></td>`
	page := w.get(exportPath(j.ExportID), who).want(t, 200, beside, under, fmt.Sprintf("Attempt %d · revision 4211 by w-1", b.Token))
	if n := strings.Count(page.body, under); n != 2 {
		t.Errorf("it stands in %d tables, want those of publications and attempts", n)
	}
	w.get("/jobs/"+j.ID.String(), who).want(t, 200, under)
	w.again(j, "id\n2\n")
	w.get(exportPath(j.ExportID), who).want(t, 200, under).without(t, "· <span", `<span class="under"></span>`)
}

// withRole is a person of a tenant, or of all when it is empty, with a role.
func (w *world) withRole(name, tenant string, role storage.Role) creds {
	w.t.Helper()
	who := w.person(name, tenant)
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		return tx.Exec("UPDATE fenceline.users SET role = ? WHERE name = ?", role, name).Error
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return who
}

// Every publication is told with what replaced it, a page at a time, and its files
// come as long as they are there.
func TestPublications(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.withRole("Nadia", "acme", storage.RoleOperator)
	j, first := w.published("acme", "sales", "Sales", "sales.csv", "id\n0\n")
	attempts := []storage.Begun{first}
	for i := range 12 {
		attempts = append(attempts, w.again(j, fmt.Sprintf("id\n%d\n", i+1)))
	}
	newest := w.get(exportPath(j.ExportID), who).want(t, 200, "Publications", "before="+fmt.Sprint(attempts[3].Token),
		fmt.Sprintf(`by token <span class="mono">%d</span> of <a href="/jobs/`, attempts[12].Token), "Its files are still there", "Made by", "for <bdi>Nadia</bdi>")
	newest.without(t, "p-"+attempts[2].ID.String(), "Delete…")
	older := w.get(exportPath(j.ExportID)+"?before="+fmt.Sprint(attempts[3].Token), who).want(t, 200, "p-"+attempts[0].ID.String(), ">Newest<", "before token")
	older.without(t, "p-"+attempts[3].ID.String(), ">Older<")
	link := regexp.MustCompile(`href="([^"]*attempt=` + attempts[0].ID.String() + `)"`).FindStringSubmatch(older.body)
	if link == nil {
		t.Fatal("there is no link to the first publication's file")
	}
	w.get(html.UnescapeString(link[1]), who).want(t, 200, "id\n0\n")
	w.get(exportPath(j.ExportID)+"?before=x", who).want(t, 400)

	sweep := storage.NewSweep(w.store, w.files, storage.SweepOptions{Superseded: time.Nanosecond, Worker: "sweeper"})
	must(sweep.Run(w.ctx))(t)
	w.get(exportPath(j.ExportID), who).want(t, 200, "Its files were cleaned up").without(t, link[1])
}

// Deleting says first what goes, and is for administrators.
func TestDeleteAnExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, other := w.person("Root", ""), w.withRole("Ada", "globex", storage.RoleAdmin)
	operator := w.withRole("Olga", "acme", storage.RoleOperator)
	j, _ := w.published("acme", "sales", "Sales <1>", "sales.csv", "id\n1\n")
	w.again(j, "id\n2\n")
	waiting := w.job("acme", "sales", "Sales <1>")
	path := exportPath(j.ExportID) + "/delete"
	w.get(exportPath(j.ExportID), admin).want(t, 200, `href="`+path+`"`)
	w.get(path, admin).want(t, 200, "Delete “Sales &lt;1&gt;”?", "<b>1 job</b> that waits or runs is cancelled", "<b>2 files, 10 B</b>", "It does not come back")
	w.get(path, operator).want(t, 403)
	w.post(path, operator, nil).want(t, 403)
	w.get(path, other).want(t, 404)
	w.post(path, other, nil).want(t, 404)
	w.get(exportPath(uuid.New())+"/delete", admin).want(t, 404)
	w.post(path, admin, nil).want(t, 303)
	w.get(exportPath(j.ExportID), admin).want(t, 404)
	w.get(path, admin).want(t, 404)
	if got := must(w.store.Job(w.ctx, principalAll.scope, waiting.ID))(t); got.State != storage.JobCancelled {
		t.Errorf("the job that waited is %s", got.State)
	}
	w.get("/jobs/"+waiting.ID.String(), admin).want(t, 200, "Its export was deleted")
}

// A job says what comes before and after it, and what it belongs to.
func TestChainLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var out struct{ Jobs []dispatchedJSON }
	body := `{"tenant":"acme","jobs":[` + strings.Repeat(`{"kind":"note","payload":{"text":"x"}},`, 2) + `{"kind":"note","payload":{"text":"x"}}]}`
	if err := json.Unmarshal([]byte(w.call("/api/v1/chains", w.token(""), body).want(t, 202).body), &out); err != nil {
		t.Fatal(err)
	}
	who := w.person("Ada", "acme")
	w.get("/jobs/"+out.Jobs[1].ID, who).want(t, 200, `after <a href="/jobs/`+out.Jobs[0].ID, `then <a href="/jobs/`+out.Jobs[2].ID)
	w.get("/jobs/"+out.Jobs[2].ID, who).want(t, 200).without(t, "then <a")
}
