package invoice

import (
	"flag"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

// looksUpdate approves what is there: look at the pictures in testdata/looks
// afterwards, each is a first page.
//
//	go test ./jobs/invoice -run TestLooks -update
var looksUpdate = flag.Bool("update", false, "approve how the pages look now")

// How far a page may be from its picture: fonts are drawn a little differently
// by every version of the program that draws them.
const (
	maxMeanDifference = 1.2   // of 255, over all pixels
	maxFarPixels      = 0.004 // share of the pixels that differ by more than a third of the way from black to white
)

func TestLooks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ tag, layout string }{
		{"en", LayoutClassic}, {"de", LayoutModern}, {"fr", LayoutClassic}, {"bn", LayoutModern}, {"hi", LayoutClassic},
		{"mr", LayoutModern}, {"ar", LayoutClassic}, {"ar", LayoutModern},
	} {
		name := tt.tag + "-" + tt.layout
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			style := Style{Layout: tt.layout, Footer: "Northlight Workshop Ltd · Registered in Hamburg, HRB 12345"}
			path, _ := writeWith(t, renderer(t, Options{Style: style}), parse(t, sample(t, tt.tag)))
			drawn := filepath.Join(t.TempDir(), name)
			run(t, "pdftoppm", "-r", "40", "-png", "-singlefile", path, drawn)
			approved := filepath.Join("testdata", "looks", name+".png")
			if *looksUpdate {
				data, err := os.ReadFile(drawn + ".png")
				if err == nil {
					err = os.WriteFile(approved, data, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			mean, far := difference(t, loadPicture(t, approved), loadPicture(t, drawn+".png"))
			if mean > maxMeanDifference || far > maxFarPixels {
				t.Errorf("the page differs from %s by %.2f on average, and far in %.2f %% of the pixels; look at both, and approve it with -update",
					approved, mean, 100*far)
			}
		})
	}
}

// The comparison sees a page that lacks a line.
func TestLooksSeesAMissingLine(t *testing.T) {
	t.Parallel()
	d := parse(t, sample(t, "en"))
	d.Lines = d.Lines[:len(d.Lines)-1]
	path, _ := writeWith(t, renderer(t, Options{Style: Style{Footer: "Northlight Workshop Ltd · Registered in Hamburg, HRB 12345"}}), d)
	drawn := filepath.Join(t.TempDir(), "page")
	run(t, "pdftoppm", "-r", "40", "-png", "-singlefile", path, drawn)
	mean, far := difference(t, loadPicture(t, filepath.Join("testdata", "looks", "en-classic.png")), loadPicture(t, drawn+".png"))
	if mean <= maxMeanDifference && far <= maxFarPixels {
		t.Errorf("it differs by %.2f on average and far in %.2f %% only", mean, 100*far)
	}
}

func loadPicture(t *testing.T, path string) *image.NRGBA {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	out := image.NewNRGBA(img.Bounds())
	draw.Draw(out, out.Bounds(), img, img.Bounds().Min, draw.Src)
	return out
}

// difference compares the colours of two pictures.
func difference(t *testing.T, a, b *image.NRGBA) (mean, far float64) {
	t.Helper()
	if a.Bounds() != b.Bounds() {
		t.Fatalf("the pictures are %v and %v", a.Bounds(), b.Bounds())
	}
	sum, distant := 0, 0
	for i, v := range a.Pix {
		d := int(v) - int(b.Pix[i])
		if d < 0 {
			d = -d
		}
		sum += d
		if d > 85 {
			distant++
		}
	}
	n := 0.75 * float64(len(a.Pix)) // a page is never see-through
	return float64(sum) / n, float64(distant) / n
}
