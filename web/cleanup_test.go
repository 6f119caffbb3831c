package web

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

func TestCleanupPage(t *testing.T) {
	t.Parallel()
	var w *world
	w = newWorld(t, func(c *Config) {
		c.Sweep = storage.NewSweep(c.Store, c.Files, storage.SweepOptions{Grace: time.Hour, Quarantine: -time.Hour, Superseded: time.Hour})
	})
	who, one := w.person("Root", ""), w.person("Nadia", "acme")
	j, stale, _ := w.fenced("acme", "sales", "Sales")
	w.get("/cleanup", who).want(t, 200, "deletes the files of 1 attempt (lost)", "can never be published", "/exports/"+j.ExportID.String(), "Switch clean-ups off", "No clean-up has run yet", "Nothing more was deleted").
		without(t, "style=", "onclick=")
	for _, path := range []string{"/cleanup/run", "/cleanup/off", "/cleanup/on"} {
		if got := w.post(path, one, nil); got.StatusCode == 303 {
			t.Errorf("POST %s by who sees one tenant: %d", path, got.StatusCode)
		}
	}
	w.post("/cleanup/off", who, url.Values{"note": {"moving <files>"}}).want(t, 303)
	w.get("/cleanup", who).want(t, 200, "switched off since", "moving &lt;files&gt;", "Switch clean-ups on").without(t, "Clean up now")
	w.post("/cleanup/run", who, nil).want(t, 409, "Clean-ups are switched off")
	w.call("/api/v1/sweep/run", who, "").want(t, 409, "sweep-off")
	w.post("/cleanup/on", who, nil).want(t, 303)

	w.call("/api/v1/sweep/run", one, "").want(t, 403)
	w.get("/api/v1/sweep/plan", one).want(t, 403)
	w.get("/api/v1/sweep/plan", who).want(t, 200, stale.ID.String(), `"reason":"lost"`, `"more":false`)
	w.post("/cleanup/run", who, nil).want(t, 303)
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(w.get("/api/v1/sweep/deletions", who).want(t, 200).body, stale.ID.String()) {
		if time.Now().After(deadline) {
			t.Fatal("the run deleted nothing")
		}
	}
	w.get("/api/v1/sweeps", who).want(t, 200, `"worker":"Root (dashboard)"`)
	w.get("/api/v1/sweep/deletions?run=x", who).want(t, 422)
	w.get("/api/v1/sweep/deletions?after=x", who).want(t, 400)
	w.get("/cleanup", who).want(t, 200, "Root (dashboard)", "was fenced and can never be published")
}
