package web

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/chromedp/chromedp"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/demo"
	"github.com/fenceline/fenceline/storage"
)

var screenshots = flag.String("screenshots", "", "folder that TestScreenshots leaves its pictures in")

// mostPicture bounds a picture of the README, in bytes.
const mostPicture = 100_000

// The pictures of the README, by `make screenshots`: the shop of the demo, exports
// that a real worker made, one attempt that was frozen and refused, and failures.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openShop()
	sales := w.shopStory()
	dir := cmp.Or(*screenshots, t.TempDir())
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for everybody to read
		t.Fatal(err)
	}
	b := newTab(t, w.base)
	b.signIn(w.person("Robin", ""))
	b.screen("light", 1280)
	for name, path := range map[string]string{"overview": "/", "export": exportPath(sales.ExportID), "failed": "/failed"} {
		b.open(path)
		b.waitFor(`document.readyState === "complete" && (!document.querySelector("[data-live]") || document.getElementById("live").textContent === "Live")`)
		raw := must(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(t)
		small := fewColours(t, raw)
		if len(small) > mostPicture || len(small) < 5000 {
			t.Errorf("the picture of %s has %d bytes", name, len(small))
		}
		if err := os.WriteFile(filepath.Join(dir, name+".png"), small, 0o644); err != nil { //nolint:gosec // for everybody to read
			t.Error(err)
		}
	}
	b.quiet()
}

// openShop gives the world the tables and the reports of the demo.
func (w *world) openShop() {
	w.t.Helper()
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error { return tx.Exec(demo.ShopSQL()).Error })
	if err != nil {
		w.t.Fatal(err)
	}
	catalog := report.NewCatalog(demo.Reports(), fstest.MapFS{
		"payouts.sql": {Data: []byte("-- title: Payouts\n-- param: day date required \"Day\"\nSELECT n AS number, 100 / (3 - n) AS share, :day AS day FROM generate_series(1, 9) n ORDER BY n\n")},
	})
	reports := must(jobs.NewReports(jobs.ReportConfig{Catalog: catalog, Store: w.store}))(w.t)
	w.registry = must(jobs.NewRegistry(reports.Kind()))(w.t)
	w.dispatcher = jobs.NewDispatcher(w.store, w.registry)
}

// shopStory lets a worker of the shop make what was asked for, after another one
// was frozen over the sales of the year, which comes back too late.
func (w *world) shopStory() storage.Job {
	w.t.Helper()
	ask := func(payload string) storage.Job {
		return must(w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "report", Payload: []byte(payload)}, jobs.RequestedBy("Robin")))(w.t).Job
	}
	sales := ask(`{"report":"sales-by-month","params":{"year":"2026"}}`)
	stale := w.begin(sales, "shop-2")
	if err := w.store.Heartbeat(w.ctx, stale.ID, storage.Progress{Step: "write", Rows: 5}); err != nil {
		w.t.Fatal(err)
	}
	must(w.store.HandOnLost(w.ctx, 0, 10))(w.t)
	w.work("shop-1", nil)
	list := []storage.Job{sales}
	for _, payload := range []string{
		`{"report":"orders","params":{"from":"2026-01-01","to":"2026-02-01"},"formats":["csv","xlsx"]}`, `{"report":"stock"}`, `{"report":"stock","params":{"category":"Garden"}}`,
		`{"report":"customers","formats":["xlsx"]}`, `{"report":"payouts","params":{"day":"2026-11-29"}}`, `{"report":"payouts","params":{"day":"2026-11-30"}}`,
	} {
		list = append(list, ask(payload))
	}
	for _, j := range list {
		eventually(w.t, "the shop's job "+j.Title+" has ended", func() bool { j, _ := w.look(j.ID); return j.State.Ended() })
	}
	w.seal(sales, stale, "sales-by-month.csv", "month,orders\n2026-01,1\n")
	if err := w.store.Publish(w.ctx, stale.ID); err == nil {
		w.t.Error("the stale attempt was published")
	}
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error { // what the charts are made of, this minute included
		return tx.Exec("SELECT fenceline.roll_stats(make_interval(secs => -120))").Error
	})
	if err != nil {
		w.t.Error(err)
	}
	return sales
}

// fewColours is a picture with the 256 colours that it has most of, each other one
// as the nearest of these: a page has few, besides the edges of its letters.
func fewColours(t *testing.T, raw []byte) []byte {
	t.Helper()
	picture := must(png.Decode(bytes.NewReader(raw)))(t)
	count := map[color.RGBA]int{}
	each := func(visit func(x, y int, c color.RGBA)) {
		for y := range picture.Bounds().Dy() {
			for x := range picture.Bounds().Dx() {
				visit(x, y, color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA))
			}
		}
	}
	each(func(_, _ int, c color.RGBA) { count[c]++ })
	often := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return count[b] - count[a] })
	var palette color.Palette
	for _, c := range often[:min(len(often), 256)] {
		palette = append(palette, c)
	}
	out := image.NewPaletted(picture.Bounds(), palette)
	nearest := map[color.RGBA]uint8{}
	each(func(x, y int, c color.RGBA) {
		index, known := nearest[c]
		if !known {
			index = uint8(palette.Index(c)) //nolint:gosec // at most 256
			nearest[c] = index
		}
		out.SetColorIndex(x, y, index)
	})
	var file bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, out); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}
