package pdf

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/invoice/typeset"
)

func fonts(tb testing.TB) *typeset.Fonts {
	tb.Helper()
	var list []*typeset.Font
	for _, name := range []string{"NotoSans-Regular", "NotoSansBengali-Regular", "NotoSansArabic-Regular"} {
		data, err := os.ReadFile(filepath.Join("..", "fonts", name+".ttf"))
		if err != nil {
			tb.Fatal(err)
		}
		f, err := typeset.ParseFont(data)
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, f)
	}
	return typeset.NewFonts(list...)
}

func info() Info {
	return Info{Title: `<T&"`, Author: "শান্তি", Language: "en", Producer: "P(r)o\\d", Date: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)}
}

// save finishes d and returns the path of its file.
func save(tb testing.TB, d *Document) string {
	tb.Helper()
	data, err := d.Finish(info())
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "out.pdf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func run(tb testing.TB, name string, args ...string) string {
	tb.Helper()
	if _, err := exec.LookPath(name); err != nil {
		tb.Fatalf("%s is not installed; the tests need the Debian packages poppler-utils and qpdf: %v", name, err)
	}
	out, err := exec.CommandContext(tb.Context(), name, args...).CombinedOutput()
	if err != nil {
		tb.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestDocumentIsSound(t *testing.T) {
	t.Parallel()
	s := typeset.NewSetter(fonts(t))
	var d Document
	for range 2 { // the second time in the memory of the first
		d.Reset(300, 200)
		cell := d.Root().Add(RoleTable).Add(RoleRow).Add(RoleCell)
		for i := range 3 { // one element over pages
			p := d.NewPage()
			p.Rect(10, 10, 20.125, 1, 0x336699)
			p.Text(20, 40, 9, 0x112233, s.Line(fmt.Sprint("cell ", i, " মার্চ"), false), cell)
			p.Text(20, 190, 7, 0, s.Line(fmt.Sprint("page ", i), false), nil)
		}
		cell.Add(RoleSection).Add(RoleParagraph) // without content: left out
		path := save(t, &d)
		if out := run(t, "qpdf", "--check", path); !strings.Contains(out, "No syntax or stream encoding errors") {
			t.Error(out)
		}
		if out := run(t, "pdftotext", path, "-"); out != "cell 0 মার্চ\n\npage 0\n\n\fcell 1 মার্চ\n\npage 1\n\n\fcell 2 মার্চ\n\npage 2\n\n\f" {
			t.Errorf("the text is %q", out)
		}
		out := strings.Join(strings.Fields(run(t, "pdfinfo", "-struct-text", path)), " ")
		// Of the text of an element, pdfinfo reads what comes before the first span with a text of its own.
		if want := `Document Table (block) TR TD "cell 0 মা`; !strings.HasPrefix(out, want) || strings.Count(out, `"cell`) != 3 || strings.Contains(out, "Sect") {
			t.Errorf("the structure is %s, want %s", out, want)
		}
		out = run(t, "pdfinfo", path)
		for _, want := range []string{`<T&"`, "শান্তি", `P(r)o\d`, "Tue Feb  3 00:00:00 2026", "Tagged:          yes", "PDF version:     1.7", "Pages:           3"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
		if out := run(t, "pdfinfo", "-meta", path); !strings.Contains(out, "&lt;T&amp;&#34;") {
			t.Errorf("the metadata is %s", out)
		}
	}
}

func TestBytesDependOnContentAlone(t *testing.T) {
	t.Parallel()
	s := typeset.NewSetter(fonts(t))
	build := func(d *Document, text string) []byte {
		d.Reset(300, 200)
		d.NewPage().Text(20, 40, 9, 0, s.Line(text, false), d.Root().Add(RoleParagraph))
		data, err := d.Finish(info())
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Clone(data)
	}
	var used Document
	build(&used, "something else, শাখা")
	if a, b := build(&used, "one ক্ষ"), build(new(Document), "one ক্ষ"); !bytes.Equal(a, b) {
		t.Error("the same content gave other bytes")
	}
	if a, b := build(&used, "one"), build(&used, "two"); bytes.Equal(a, b) {
		t.Error("other content gave the same bytes")
	}
}

// A mark below the line is drawn there, and what follows is on the line again.
func TestMarksAreLifted(t *testing.T) {
	t.Parallel()
	var d Document
	d.Reset(300, 200)
	d.NewPage().Text(20, 40, 10, 0, typeset.NewSetter(fonts(t)).Line("مقدمًا ok", false), nil)
	out := run(t, "qpdf", "--qdf", "--object-streams=disable", save(t, &d), "-")
	down, up := strings.Index(out, "-0.99 Ts"), strings.Index(out, "\n0 Ts")
	if down < 0 || up < down {
		t.Errorf("the mark is lowered at %d and the line goes on at %d", down, up)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 1: "1", 1.5: "1.5", 1.25: "1.25", 1.005: "1", -0.001: "0", -2.5: "-2.5", 0.05: "0.05", 841.89: "841.89", -0.999: "-1"} {
		if got := string(appendNumber(nil, v)); got != want {
			t.Errorf("%g is written %s, want %s", v, got, want)
		}
	}
}

func encoded(tb testing.TB, encode func(io.Writer, image.Image) error, img image.Image) []byte {
	tb.Helper()
	var out bytes.Buffer
	if err := encode(&out, img); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func asJPEG(w io.Writer, img image.Image) error { return jpeg.Encode(w, img, nil) }

func filled(img interface {
	image.Image
	Set(x, y int, c color.Color)
}, c color.Color) image.Image {
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			img.Set(x, y, c)
		}
	}
	return img
}

func TestPictures(t *testing.T) {
	t.Parallel()
	size := image.Rect(0, 0, 40, 20)
	tests := []struct {
		name string
		data []byte
		want string // of pdfimages
	}{
		{"solid", encoded(t, png.Encode, filled(image.NewNRGBA(size), color.NRGBA{200, 10, 10, 255})), "image 40 20 rgb 3 8 image"},
		{"see-through", encoded(t, png.Encode, filled(image.NewNRGBA(size), color.NRGBA{200, 10, 10, 100})), "image 40 20 rgb 3 8 image smask 40 20 gray 1 8 image"},
		{"sixteen bits", encoded(t, png.Encode, filled(image.NewNRGBA64(size), color.NRGBA64{50000, 0, 0, 65535})), "image 40 20 rgb 3 8 image"},
		{"palette", encoded(t, png.Encode, image.NewPaletted(size, color.Palette{color.White, color.Transparent})), "image 40 20 rgb 3 8 image"},
		{"JPEG", encoded(t, asJPEG, filled(image.NewNRGBA(size), color.NRGBA{200, 10, 10, 255})), "image 40 20 rgb 3 8 jpeg"},
		{"gray JPEG", encoded(t, asJPEG, filled(image.NewGray(size), color.Gray{90})), "image 40 20 gray 1 8 jpeg"},
	}
	for _, tt := range tests {
		img, err := DecodeImage(tt.data)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		var d Document
		d.Reset(300, 200)
		for range 2 { // drawn twice, embedded once
			d.NewPage().Picture(10, 10, 80, 40, img, d.Root().Add(RoleFigure).Describe("A logo"))
		}
		path := save(t, &d)
		run(t, "qpdf", "--check", path)
		var got []string
		seen := map[string]bool{}
		for _, l := range strings.Split(strings.TrimSpace(run(t, "pdfimages", "-list", path)), "\n")[2:] {
			f := strings.Fields(l)
			if !seen[f[10]+f[2]] { // the number of the object
				seen[f[10]+f[2]] = true
				got = append(got, f[2:9]...)
			}
		}
		if joined := strings.Join(got, " "); joined != tt.want {
			t.Errorf("%s is %s, want %s", tt.name, joined, tt.want)
		}
	}
}

// bomb is a small PNG file that says it has so many pixels, and has.
func bomb(width, height int) []byte {
	chunk := func(out []byte, kind string, data []byte) []byte {
		out = binary.BigEndian.AppendUint32(out, uint32(len(data)))
		body := append([]byte(kind), data...)
		return binary.BigEndian.AppendUint32(append(out, body...), crc32.ChecksumIEEE(body))
	}
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(width)), uint32(height))
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	row := make([]byte, 1+width*4)
	for range min(height, 100) {
		w.Write(row)
	}
	w.Close()
	out := chunk([]byte("\x89PNG\r\n\x1a\n"), "IHDR", append(head, 8, 6, 0, 0, 0))
	return chunk(chunk(out, "IDAT", packed.Bytes()), "IEND", nil)
}

func TestPicturesThatAreRefused(t *testing.T) {
	t.Parallel()
	good := encoded(t, png.Encode, image.NewNRGBA(image.Rect(0, 0, 40, 20)))
	photo := encoded(t, asJPEG, image.NewNRGBA(image.Rect(0, 0, 40, 20)))
	tests := []struct {
		name  string
		data  []byte
		words string
	}{
		{"too many pixels", bomb(9000, 9000), "9000 × 9000 pixels; at most 4000000"},
		{"too wide", bomb(10_001, 1), "10000 on a side"},
		{"too large a file", make([]byte, MaxImageBytes+1), "at most 1048576"},
		{"nothing", nil, "neither a PNG nor a JPEG"},
		{"text", []byte("<svg/>"), "neither a PNG nor a JPEG"},
		{"half a PNG", good[:len(good)/2], "not enough pixel data"},
		{"half a JPEG", photo[:len(photo)/2], "unexpected EOF"},
		{"damaged", bytes.Replace(good, []byte("IDAT"), []byte("IDAX"), 1), "png: invalid format"},
	}
	for _, tt := range tests {
		if _, err := DecodeImage(tt.data); !errors.Is(err, ErrImage) || !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%s: error %v", tt.name, err)
		}
	}
}

// The profile is a sound one of version 2: its size and the places of its parts.
func TestColourProfile(t *testing.T) {
	t.Parallel()
	p := buildProfile()
	if n := binary.BigEndian.Uint32(p); int(n) != len(p) || string(p[36:40]) != "acsp" || string(p[12:20]) != "mntrRGB " {
		t.Fatalf("it says it has %d bytes and has %d: % x", n, len(p), p[:40])
	}
	curve := map[string]uint32{}
	for i := range int(binary.BigEndian.Uint32(p[128:])) {
		tag := p[132+12*i:]
		at, size := binary.BigEndian.Uint32(tag[4:]), binary.BigEndian.Uint32(tag[8:])
		if int(at+size) > len(p) || at%4 != 0 {
			t.Errorf("part %s is at %d with %d bytes", tag[:4], at, size)
		}
		curve[string(tag[:4])] = at
	}
	if len(curve) != 9 || curve["rTRC"] != curve["bTRC"] {
		t.Errorf("its parts are %v", curve)
	}
	middle := binary.BigEndian.Uint16(p[curve["gTRC"]+12+2*512:])
	if light := float64(middle) / 65535; light < 0.213 || light > 0.217 {
		t.Errorf("half of full is %.3f of the light", light)
	}
}

func FuzzDecodeImage(f *testing.F) {
	f.Add(encoded(f, png.Encode, image.NewNRGBA(image.Rect(0, 0, 4, 2))))
	f.Add(encoded(f, asJPEG, image.NewGray(image.Rect(0, 0, 4, 2))))
	f.Add(bomb(500, 500))
	f.Fuzz(func(t *testing.T, data []byte) {
		img, err := DecodeImage(data)
		if err != nil {
			return
		}
		var d Document
		d.Reset(100, 100)
		d.NewPage().Picture(0, 0, 10, 10, img, nil)
		if _, err := d.Finish(info()); err != nil {
			t.Error(err)
		}
	})
}
