package web

import (
	"testing"

	"github.com/fenceline/fenceline/storage"
)

// The stack of a panic is for those who see all tenants, in every list and on every page.
func TestStacksAreNotForTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.job("acme", "k", "K")
	b := w.begin(j, "w-1")
	must(w.store.EndAttempt(w.ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "panic",
		Error: "panic: no column fee\n\ngoroutine 7 [running]:\nmain.secret()\n\t/src/main.go:1", Counts: true, Final: true}))(t)
	for _, path := range []string{"/api/v1/failed", "/api/v1/jobs", "/api/v1/jobs/" + j.ID.String()} {
		w.get(path, w.token("acme")).want(t, 200, "no column fee").without(t, "main.secret", "goroutine")
		w.get(path, w.token("")).want(t, 200, "main.secret")
	}
	who := w.person("Amira", "acme")
	for _, path := range []string{"/failed", "/jobs", "/jobs/" + j.ID.String(), "/exports/" + j.ExportID.String()} {
		w.get(path, who).want(t, 200, "no column fee").without(t, "main.secret")
	}
}
