package invoice

import (
	"encoding/base64"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invalid"
)

func TestParseStyle(t *testing.T) {
	t.Parallel()
	logo := base64.StdEncoding.EncodeToString(testLogo(t))
	s, err := ParseStyle(marshal(t, object{"layout": "modern", "accent": "#0f5C5c", "footer": "One\nTwo", "columns": []any{"tax", "quantity"}, "logo": logo}))
	if err != nil {
		t.Fatal(err)
	}
	if s.Logo == nil || s.Logo.Width != 240 || s.Logo.Height != 72 {
		t.Errorf("the logo is %+v", s.Logo)
	}
	s.Logo = nil
	if want := (Style{Layout: "modern", Accent: 0x0F5C5C, Footer: "One\nTwo", Columns: []string{"tax", "quantity"}}); !reflect.DeepEqual(s, want) {
		t.Errorf("read %+v, want %+v", s, want)
	}
	if s, err := ParseStyle([]byte(`{}`)); err != nil || !reflect.DeepEqual(s, Style{}) {
		t.Errorf("nothing reads as %+v, %v", s, err)
	}
	if s, err := ParseStyle([]byte(`{"accent":"#000000"}`)); err != nil || s.accent() != 1 {
		t.Errorf("black reads as %#x, %v", s.accent(), err)
	}
}

func TestParseStyleRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ raw, field, words string }{
		{`{"layout":"baroque"}`, "layout", `"baroque" is not known; it can be classic, modern`},
		{`{"accent":"red"}`, "accent", "is not a colour"},
		{`{"accent":"#12345"}`, "accent", "is not a colour"},
		{`{"accent":"#12345g"}`, "accent", "is not a colour"},
		{`{"accent":1}`, "accent", "must be a colour in quotes"},
		{`{"columns":["tax","price"]}`, "columns[1]", `"price" is not known; it can be position, quantity`},
		{`{"columns":"tax"}`, "columns", "must be a list"},
		{`{"footer":"1\n2\n3\n4\n5"}`, "footer", "at most 4"},
		{`{"logo":"https://example.org/logo.png"}`, "logo", "addresses are not fetched"},
		{`{"logo":"AAAA"}`, "logo", "neither a PNG nor a JPEG"},
		{`{"color":"#123456"}`, "color", "known are layout"},
		{`[]`, "document", "must be an object"},
	}
	for _, tt := range tests {
		_, err := ParseStyle([]byte(tt.raw))
		refusal, ok := errors.AsType[*invalid.Error](err)
		if !ok || len(refusal.Problems) != 1 || refusal.Problems[0].Field != tt.field || !strings.Contains(refusal.Error(), tt.words) {
			t.Errorf("%s gave %v", tt.raw, err)
		}
	}
	for _, s := range []Style{{Layout: "x"}, {Accent: 1 << 24}, {Columns: []string{"x"}}, {Footer: "1\n2\n3\n4\n5"}} {
		if _, err := NewRenderer(Options{Style: s}); err == nil || !strings.Contains(err.Error(), "style: ") {
			t.Errorf("%+v gave %v", s, err)
		}
	}
}

func TestStyleChoosesColumns(t *testing.T) {
	t.Parallel()
	raw := simple(t, object{"lines": []any{with(with(line("Thing", "3", "100.00", "19"), "unit", "pcs"), "discount_percent", "10")}})
	tests := []struct {
		columns []string
		want    string
	}{
		{nil, "Description Quantity Unit price Discount Tax Amount 1 Thing 3 pcs 100.00 10% 19% 270.00"},
		{[]string{}, "Description Amount Thing 270.00"},
		{[]string{ColumnQuantity}, "Description Quantity Amount Thing 3 pcs 270.00"},
		{[]string{ColumnTax, ColumnPosition}, "Description Tax Amount 1 Thing 19% 270.00"},
		// Price and amount do not agree without the discount, which therefore stands elsewhere.
		{[]string{ColumnQuantity, ColumnPrice}, "Description Quantity Unit price Amount Thing Discount (10%): -€30.00 3 pcs 100.00 270.00"},
	}
	for _, tt := range tests {
		for _, layout := range []string{LayoutClassic, LayoutModern} {
			path, _ := writeWith(t, renderer(t, Options{Style: Style{Layout: layout, Columns: tt.columns}}), parse(t, raw))
			mustHold(t, text(t, path), tt.want)
		}
	}
}

func TestStyleShowsFooterAndColour(t *testing.T) {
	t.Parallel()
	r := renderer(t, Options{Style: Style{Accent: 0x112233, Footer: "Registered in Hamburg\nশাখা ঢাকা"}})
	path, report := writeWith(t, r, parse(t, manyLines(t, 60)))
	for i, page := range pages(t, path) {
		mustHold(t, page, "Registered in Hamburg শাখা ঢাকা")
		if i >= report.Pages {
			t.Errorf("page %d of %d", i+1, report.Pages)
		}
	}
	plain, err := os.ReadFile(path)
	if err != nil || len(plain) == 0 {
		t.Fatal(err)
	}
	mustHold(t, run(t, "qpdf", "--qdf", "--object-streams=disable", path, "-"), "0.066 0.133 0.200 rg")
	light := Style{Accent: 0xFFEE88}
	if light.onAccent() != inkText || (Style{}).onAccent() != 0xFFFFFF || tint(0x000000, 50) != 0x808080 {
		t.Error("text on the accent cannot be read")
	}
}

// An accent that is as good as white must not hide the amount due, nor anything
// else that is set in it.
func TestTextInAPaleAccentCanBeRead(t *testing.T) {
	t.Parallel()
	for accent, readable := range map[string]bool{"#FFFFFF": false, "#FFFF00": false, "#FFEE88": false, "#0F5C5C": true, "#D00000": true} {
		for _, name := range []string{LayoutClassic, LayoutModern} {
			s, err := ParseStyle(marshal(t, object{"layout": name, "accent": accent}))
			if err != nil {
				t.Fatal(err)
			}
			text := (&layout{look: s}).accent(10).ink
			if readable && text != s.Accent || !readable && text != inkText {
				t.Errorf("%s, %s: text is %06X", name, accent, uint32(text))
			}
		}
	}
}

// Case 41: the logo's bytes come with the document; nothing is fetched, and no
// logo is fine.
func TestLogoOfTheDocument(t *testing.T) {
	t.Parallel()
	logo := base64.StdEncoding.EncodeToString(testLogo(t))
	own := parse(t, simple(t, object{"logo": logo}))
	other, err := ParseStyle(marshal(t, object{"logo": logo}))
	if err != nil {
		t.Fatal(err)
	}
	images := func(d *Document, s Style) int {
		path, _ := writeWith(t, renderer(t, Options{Style: s}), d)
		return len(strings.Split(strings.TrimSpace(run(t, "pdfimages", "-list", path)), "\n")) - 2
	}
	const pictureAndMask = 2
	if images(own, Style{}) != pictureAndMask || images(own, Style{Layout: LayoutModern}) != pictureAndMask {
		t.Error("the document's logo is not there once")
	}
	if images(parse(t, simple(t, nil)), other) != pictureAndMask || images(parse(t, simple(t, nil)), Style{}) != 0 {
		t.Error("the style's logo is not there, or one is where there is none")
	}
	oneProblem(t, simple(t, object{"logo": "http://localhost/logo.png"}), "logo", "in base64", "addresses are not fetched")
	oneProblem(t, simple(t, object{"logo": "AAAA"}), "logo", "neither a PNG nor a JPEG")
	oneProblem(t, simple(t, object{"logo": 5}), "logo", "PNG or JPEG")
	oneProblem(t, simple(t, object{"logo": "data:image/png;base64," + logo}), "logo", "before the comma")
	oneProblem(t, simple(t, object{"logo": logo[:len(logo)/8*4]}), "logo", "damaged", "save it again")
	own.Logo = []byte("damaged")
	if _, err := own.WritePDF(nil); err == nil || !strings.Contains(err.Error(), "logo") {
		t.Errorf("a damaged logo gave %v", err)
	}
}

func TestLogosAreForgotten(t *testing.T) {
	t.Parallel()
	var c logoCache
	data := testLogo(t)
	first, err := c.get(data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.get(data); err != nil || again != first {
		t.Errorf("the second time gave another picture, error %v", err)
	}
	for i := range 3 * maxLogos {
		if _, err := c.get(append(data, byte(i), 1)); err != nil { // what follows a PNG file does not matter
			t.Fatal(err)
		}
		if len(c.images) > maxLogos {
			t.Fatalf("%d logos are kept", len(c.images))
		}
	}
}
