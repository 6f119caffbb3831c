package web

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

func TestRecoveryIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who, tenant := w.person("Nadia", ""), w.person("Ana", "acme")
	if err := w.store.Pair(w.ctx, w.files); err != nil {
		t.Fatal(err)
	}
	w.get("/", who).want(t, 200).without(t, "Recovery is needed")
	w.exec("UPDATE fenceline.epoch SET state = 'stopped', reason = 'a <copy>'")
	if err := w.store.Pair(w.ctx, w.files); !errors.Is(err, storage.ErrRecoveryNeeded) {
		t.Fatal(err)
	}
	if got := w.get("/readyz", nobody).want(t, 200); got.body != "ready, recovery needed\n" {
		t.Errorf("readyz says %q", got.body)
	}
	w.get("/", who).want(t, 200, "Recovery is needed", "a &lt;copy&gt;", "fenceline recover")
	w.get("/cleanup", who).want(t, 200, "Nothing would be cleaned up", "a &lt;copy&gt;")
	w.get("/api/v1/sweep/plan", w.token("")).want(t, 503, "recovery-needed")
	w.get("/", tenant).want(t, 200, "Recovery is needed", "Jobs are accepted and wait").without(t, "&lt;copy")
	f, _ := failureOf(fmt.Errorf("clean up: %w", &storage.RecoveryError{Why: "a secret of the servers"}))
	if f.status != 503 || f.slug != "recovery-needed" {
		t.Errorf("%+v", f)
	}
}

func TestFilesThatAreLostAreSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	job, b := w.published("acme", "e", "Orders", "orders.csv", "a\r\n")
	page, file := "/exports/"+job.ExportID.String(), "/exports/"+job.ExportID.String()+"/files/orders.csv"
	w.get(page, who).want(t, 200).without(t, "These files are lost")
	if _, err := w.files.Remove(w.ctx, files.Place{Export: job.ExportID, Token: b.Token, Attempt: b.ID}); err != nil {
		t.Fatal(err)
	}
	w.get(file, who).want(t, 500) // nobody knew
	w.exec("UPDATE fenceline.exports SET files_lost_at = now()")
	w.get(page, who).want(t, 200, "These files are lost")
	w.get(file, who).want(t, 410, "These files are lost")
	w.published("acme", "e", "Orders", "orders.csv", "b\r\n")
	w.get(page, who).want(t, 200).without(t, "These files are lost")
	w.get(file, who).want(t, 200, "b")
}
