package web

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

var byTest = storage.AuditEntry{Actor: "Ada", ActorKind: storage.ActorUser}

// keepSome has rules, pins, holds and a deleted export of everything.
func (w *world) keepSome(export uuid.UUID) {
	w.t.Helper()
	gone, b := w.published("acme", "gone", "Gone since yesterday", "a.csv", "id\n1\n")
	all := storage.Scope{All: true}
	for _, err := range []error{
		w.store.SetRetention(w.ctx, storage.RetentionRule{Kind: new("report"), CurrentDays: new(30), SupersededDays: new(7), SupersededKeep: 5}, byTest),
		w.store.SetRetention(w.ctx, storage.RetentionRule{Tenant: new("acme"), Kind: new("a-kind-with-a-rather-long-name")}, byTest),
		w.store.PinExport(w.ctx, all, export, nil, "Year end 2026, "+strings.Repeat("unbreakable", 12), byTest),
		w.store.PinExport(w.ctx, all, gone.ExportID, &b.ID, "for the auditors", byTest),
		w.store.HoldTenant(w.ctx, "globex", new("invoice"), "tax audit", byTest),
		w.store.HoldExport(w.ctx, all, export, "case 7", byTest),
		w.store.DeleteExport(w.ctx, all, gone.ExportID, byTest),
	} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// aged tells that an export was published so many days ago, and the publications before it that long ago too.
func (w *world) aged(export uuid.UUID, days int) {
	w.t.Helper()
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		for _, sql := range []string{
			"UPDATE fenceline.exports SET published_at = now() - make_interval(days => ?) WHERE id = ?",
			"UPDATE fenceline.attempts SET replaced_at = now() - make_interval(days => ?) WHERE export_id = ? AND state = 'superseded'",
		} {
			if err := tx.Exec(sql, days, export).Error; err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// A rule is put by the form, previewed, applied and lets an export expire; another one is kept by its hold.
func TestARuleFromFormToExpiry(t *testing.T) {
	t.Parallel()
	opt := storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: 7 * 24 * time.Hour, Worker: "w"}
	w := newWorld(t, func(c *Config) { c.Sweep = storage.NewSweep(c.Store, c.Files, opt) })
	who := w.person("Ada", "acme")
	old, _ := w.published("acme", "old", "Old", "a.csv", "id\n1\n")
	w.again(old, "id\n2\n")
	held, _ := w.published("acme", "held", "Held", "a.csv", "id\n1\n")
	young, _ := w.published("acme", "young", "Young", "a.csv", "id\n1\n")
	w.aged(old.ExportID, 40)
	w.aged(held.ExportID, 40)
	w.post(exportPath(held.ExportID)+"/hold", who, url.Values{"reason": {"case 7"}}).want(t, 303)

	w.get("/settings/retention", who).want(t, 200, "No rules.", "current publications stay for ever", "no rule", "Set a rule").without(t, `name="tenant"`)
	must(0, w.store.SetRetention(w.ctx, storage.RetentionRule{}, byTest))(t)
	w.get("/settings/retention", who).want(t, 200, "Everything", "for ever").without(t, "Remove…")
	change := "/settings/retention/change?do=set&kind=report&"
	w.get(change+"current_days=x&superseded_days=3", who).want(t, 422, "must be a whole number", "Set a rule").without(t, "Set the rule")
	w.get(change+"current_days=0&superseded_days=3", who).want(t, 422, "from 1 to 36500 days", "LINK_MAX")
	w.get(change+"tenant=globex", who).want(t, 403)
	w.get("/settings/retention/change?do=drop", who).want(t, 422, "do must be set or remove")
	asked := w.get(change+"current_days=30&superseded_days=30&superseded_keep=", who).want(t, 200, "Set <bdi>the rule for report of acme</bdi>?",
		"<b>1 current publication, 5 B</b>", "<b>1 replaced publication, 5 B</b>", "<dd>3 exports</dd>", "there is no such rule")
	if rules := must(w.store.RetentionRules(w.ctx, storage.Scope{All: true}))(t); len(rules) != 1 {
		t.Errorf("a preview has set %+v", rules)
	}
	w.post("/settings/retention/change", who, hiddenIn(asked)).want(t, 303)
	w.get("/settings/retention?done=set", who).want(t, 200, "The rule is set.", "Report of acme", "30 days", "set by <bdi>Ada</bdi>")
	w.get("/settings/retention?kind=report", who).want(t, 200, "Change the rule for report of acme", `value="30"`)

	if res := must(storage.NewSweep(w.store, w.files, opt).Run(w.ctx))(t); res.Expired != 1 || res.Deleted != 1 {
		t.Errorf("the clean-up: %+v", res)
	}
	w.get(exportPath(old.ExportID), who).want(t, 404)
	for _, j := range []uuid.UUID{held.ExportID, young.ExportID} {
		w.get(exportPath(j), who).want(t, 200)
	}
	w.get("/cleanup", w.person("Root", "")).want(t, 200, `<td data-label="Expired" class="num">1</td>`)
	w.get("/settings/deleted", who).want(t, 200, "Old", "its rule let it expire", exportPath(old.ExportID)+"/restore")
	w.post(exportPath(old.ExportID)+"/restore", who, nil).want(t, 303)
	w.get(exportPath(old.ExportID), who).want(t, 200)
	w.get("/settings/deleted", who).want(t, 200, "Nothing can be restored.")

	remove := "/settings/retention/change?do=remove&kind=report"
	w.post("/settings/retention/change", who, hiddenIn(w.get(remove, who).want(t, 200, "Remove <bdi>the rule for report of acme</bdi>?", "Nothing becomes due"))).want(t, 303)
	w.get(remove, who).want(t, 404)
	w.get("/audit?action=retention.changed", who).want(t, 200, "Ada", "changed how long things are kept")
}

// What could not be counted in time is said, and is no error.
func TestAPreviewThatIsOutOfTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Ada", "")
	old, _ := w.published("acme", "old", "Old", "a.csv", "id\n1\n")
	w.aged(old.ExportID, 40)
	const change = "/settings/retention/change?do=set&kind=report&current_days=30"
	w.get(change, who).want(t, 200, "<b>1 current publication, 5 B</b>").without(t, "t least")
	must(0, w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		if err := tx.Exec("LOCK TABLE fenceline.attempts").Error; err != nil { // so that counting waits
			return err
		}
		w.get(change, who).want(t, 200, "too much to count all of it in 5 s", "0 publications were looked at", "at least 1 export<", "None of those becomes due", "danger")
		return nil
	}))(t)
}

// hiddenIn is what the form of a page holds.
func hiddenIn(a answer) url.Values {
	form := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`).FindAllStringSubmatch(a.body, -1) {
		form.Set(m[1], m[2])
	}
	return form
}

func TestPinAndHoldByForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, operator, viewer := w.withRole("Ada", "acme", storage.RoleAdmin), w.withRole("Olga", "acme", storage.RoleOperator), w.withRole("Vi", "acme", storage.RoleViewer)
	other := w.withRole("Eve", "globex", storage.RoleAdmin)
	j, first := w.published("acme", "sales", "Sales <1>", "sales.csv", "id\n1\n")
	w.again(j, "id\n2\n")
	path := exportPath(j.ExportID)
	w.get(path+"/keep", viewer).want(t, 200, "Nobody keeps it by hand.").without(t, "<form class")
	w.get(path+"/keep", operator).want(t, 200, "Pin it", "The export: all its publications", first.ID.String()).without(t, "Put it on hold")
	w.get(path+"/keep", other).want(t, 404)
	w.get(path, operator).want(t, 200, path+"/keep")

	w.post(path+"/pin", operator, url.Values{"note": {" "}}).want(t, 422, "It is needed: say why", `aria-invalid="true"`)
	w.post(path+"/pin", operator, url.Values{"note": {"x"}, "attempt": {"y"}}).want(t, 422, "must be the id of a publication")
	w.post(path+"/pin", operator, url.Values{"note": {"x"}, "attempt": {uuid.NewString()}}).want(t, 404)
	w.post(path+"/pin", operator, url.Values{"note": {"year end"}}).want(t, 303)
	w.post(path+"/pin", operator, url.Values{"note": {"for the auditors"}, "attempt": {first.ID.String()}}).want(t, 303)
	w.get(path+"/keep?done=pinned", viewer).want(t, 200, "It is pinned, and stays", "kept until it is unpinned: Olga pinned it", "One publication pinned", "for the auditors").without(t, "/unpin")
	w.get(path+"/delete", admin).want(t, 200, "It cannot be deleted now.", "It is pinned", "“<span dir=\"auto\">year end</span>”").without(t, "Delete this export")
	w.post(path+"/delete", admin, nil).want(t, 409, "It is pinned", "Unpin it first")
	w.post(path+"/unpin", operator, nil).want(t, 303)
	w.post(path+"/unpin", operator, nil).want(t, 404)
	w.post(path+"/unpin?attempt="+first.ID.String(), operator, nil).want(t, 303)

	w.post(path+"/hold", operator, url.Values{"reason": {"case 7"}}).want(t, 403)
	w.post(path+"/hold", admin, url.Values{}).want(t, 422, "It is needed: say why")
	w.post(path+"/hold", admin, url.Values{"reason": {"case 7"}}).want(t, 303)
	w.post(path+"/hold", admin, url.Values{"reason": {"case 7"}}).want(t, 409, "on hold already")
	w.get(path+"/keep", admin).want(t, 200, "On hold", "case 7", path+"/release").without(t, "Put it on hold")
	w.get(path+"/delete", admin).want(t, 200, "It is on hold by <bdi>Ada</bdi>").without(t, "Delete this export")
	w.post(path+"/delete", admin, nil).want(t, 409, "It is on hold", "until an administrator releases its hold")
	w.get("/settings/kept", viewer).want(t, 200, "Sales &lt;1&gt;", "On hold", "case 7")
	w.get("/settings/kept", other).want(t, 200, "Nothing is pinned or on hold.")
	w.post(path+"/release", other, nil).want(t, 404)
	w.post(path+"/release", admin, nil).want(t, 303)

	to := w.post(path+"/delete", admin, nil).want(t, 303).Header.Get("Location")
	w.get(to, admin).want(t, 200, "It is deleted.", "by somebody", path+"/restore")
	w.get(to, operator).want(t, 403)
	w.get(path+"/keep", admin).want(t, 404)
	w.post(path+"/restore", admin, nil).want(t, 303)
	w.get(path+"/keep?done=restored", admin).want(t, 200, "It is there again.")
	for action, n := range map[string]int{"export.pinned": 2, "export.unpinned": 2, "export.held": 1, "export.released": 1, "export.deleted": 1, "export.restored": 1} {
		page := must(w.store.AuditLog(w.ctx, storage.Scope{Tenant: "acme"}, storage.AuditFilter{Action: action}))(t)
		if len(page.Items) != n || page.Items[0].ObjectID != j.ExportID.String() {
			t.Errorf("%s is %d times in the log, want %d", action, len(page.Items), n)
		}
	}
}

// A form from another site changes nothing.
func TestKeepFormsOfOtherSites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Root", "")
	j, _ := w.published("acme", "sales", "Sales", "sales.csv", "id\n1\n")
	for _, path := range []string{exportPath(j.ExportID) + "/pin", exportPath(j.ExportID) + "/hold", exportPath(j.ExportID) + "/restore", "/settings/retention/change", "/settings/kept/hold", "/settings/kept/release"} {
		w.send("POST", path, who, strings.NewReader("note=x&reason=x"), "Content-Type", "application/x-www-form-urlencoded", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site").want(t, 403)
	}
}
