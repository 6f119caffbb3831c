package web

import (
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/report"
)

// What is wrong with a query or its rows is said in the form, and no cell makes
// the page endless.
func TestPreviewOfReportsThatFail(t *testing.T) {
	t.Parallel()
	file := func(sql string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(sql)} }
	w := newWorld(t, func(c *Config) {
		catalog := report.NewCatalog(fstest.MapFS{
			"zero.sql": file("SELECT 1 / (n - 1) AS a FROM generate_series(1, 2) n ORDER BY 1"),
			"slow.sql": file("-- timeout: 50ms\nSELECT pg_sleep(60)::text AS a ORDER BY 1"),
			"long.sql": file("SELECT repeat('ü', 100000) AS a ORDER BY 1"),
		})
		c.Reports = must(jobs.NewReports(jobs.ReportConfig{Catalog: catalog, Store: c.Store}))(t)
	})
	who := w.person("Nadia", "")
	w.post("/new/zero/preview", who, url.Values{"tenant": {"default"}}).want(t, 422, "zero.sql:1: ", "division by zero").without(t, `id="preview"`)
	w.post("/new/slow/preview", who, url.Values{"tenant": {"default"}}).want(t, 422, "limit of 50ms").without(t, `id="preview"`)
	long := w.post("/new/long/preview", who, url.Values{"tenant": {"default"}}).want(t, 200, "ü…")
	if n := strings.Count(long.body, "ü"); n != previewCell/2 {
		t.Errorf("%d characters of a cell", n)
	}
}

// A preview of a part says about how much there is, and a viewer sees no button.
func TestPreviewSaysHowMuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	given := url.Values{"tenant": {"acme"}, "p.rows": {"1500"}}
	w.post("/new/slow/preview", w.person("Nadia", ""), given).want(t, 200, "The first 10 rows of about 1,500.")
	viewer := w.withRole("Vi", "", "viewer")
	w.get("/new/slow", viewer).want(t, 200, "not ask for them").without(t, "Start export", "Preview ten rows")
	w.post("/new/slow/preview", viewer, given).want(t, 403)
	w.post("/new/slow", viewer, given).want(t, 403)
}
