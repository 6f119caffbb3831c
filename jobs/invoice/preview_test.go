package invoice_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/jobs/invoice/pdf"
)

// What a page draws, has, and asks for.
var (
	usedGlyph  = regexp.MustCompile(`<use href="#(g\d+)"`)
	knownGlyph = regexp.MustCompile(`<path id="(g\d+)"`)
	address    = regexp.MustCompile(`href="([^"]{0,20})`)
)

// The pictures have the pages, and on each the very glyphs, of the PDF.
func TestPreviewIsThePDF(t *testing.T) {
	t.Parallel()
	r, err := invoice.NewRenderer(invoice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := invoice.Parse(invoice.Example())
	if err != nil {
		t.Fatal(err)
	}
	pages, report, err := r.Preview(doc)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	written, err := r.WritePDF(&file, doc)
	if err != nil || len(pages) != written.Pages || fmt.Sprint(report) != fmt.Sprint(written) {
		t.Fatalf("%d pages and %+v; the PDF has %+v, %v", len(pages), report, written, err)
	}
	path := filepath.Join(t.TempDir(), "a.pdf")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, page := range pages {
		sound(t, page)
		number := strconv.Itoa(i + 1)
		text, err := exec.CommandContext(t.Context(), "pdftotext", "-f", number, "-l", number, path, "-").Output()
		if err != nil {
			t.Fatalf("pdftotext: %v", err)
		}
		want := len(strings.Join(strings.Fields(strings.Map(latinOnly, string(text))), ""))
		if got := len(usedGlyph.FindAll(page, -1)); got < want*9/10 || got > len([]rune(string(text))) {
			t.Errorf("page %s has %d glyphs, and the PDF %d letters", number, got, want)
		}
	}
}

func latinOnly(r rune) rune {
	if r > 0x7f {
		return -1
	}
	return r
}

// sound fails the test when a page is no XML, draws a glyph that it does not
// have, or needs anything from elsewhere.
func sound(t *testing.T, page []byte) {
	t.Helper()
	for dec := xml.NewDecoder(bytes.NewReader(page)); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the page is no XML: %v", err)
		}
	}
	known := map[string]bool{}
	for _, m := range knownGlyph.FindAllSubmatch(page, -1) {
		known[string(m[1])] = true
	}
	for _, m := range usedGlyph.FindAllSubmatch(page, -1) {
		if !known[string(m[1])] {
			t.Errorf("the glyph %s has no outline", m[1])
		}
	}
	for _, m := range address.FindAllSubmatch(page, -1) {
		if a := string(m[1]); !strings.HasPrefix(a, "#g") && !strings.HasPrefix(a, "data:image/") {
			t.Errorf("the page asks for %s", a)
		}
	}
}

// A logo comes out of the page as the picture that went in.
func TestPicturesComeBack(t *testing.T) {
	t.Parallel()
	picture := image.NewNRGBA(image.Rect(0, 0, 3, 2))
	for i := range 6 {
		picture.SetNRGBA(i%3, i/3, color.NRGBA{uint8(40 * i), 7, 200, uint8(255 - 50*(i%2))})
	}
	var file bytes.Buffer
	if err := png.Encode(&file, picture); err != nil {
		t.Fatal(err)
	}
	in, err := pdf.DecodeImage(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	mediaType, data := in.File()
	out, err := png.Decode(bytes.NewReader(data))
	if err != nil || mediaType != "image/png" {
		t.Fatalf("%s, %v", mediaType, err)
	}
	for i := range 6 {
		if got, want := color.NRGBAModel.Convert(out.At(i%3, i/3)), picture.NRGBAAt(i%3, i/3); got != want {
			t.Errorf("pixel %d is %v, want %v", i, got, want)
		}
	}
	file.Reset()
	if err := jpeg.Encode(&file, picture, nil); err != nil {
		t.Fatal(err)
	}
	photo, err := pdf.DecodeImage(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if mediaType, data := photo.File(); mediaType != "image/jpeg" || !bytes.Equal(data, file.Bytes()) {
		t.Errorf("a photo became %s of %d bytes", mediaType, len(data))
	}
}
