package xlsx

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestCut(t *testing.T) {
	t.Parallel()
	fill := func(n int) string { return strings.Repeat("x", n) }
	family := "\U0001F468\u200D\U0001F469" // man, joiner, woman
	for _, c := range []struct{ name, value, want string }{
		{"the longest", fill(32767), fill(32767)},
		{"case 25: one too many", fill(32768), fill(32767)},
		{"case 25: CRLF", strings.Repeat("a\r\n", 32768), strings.Repeat("a\r\n", 10922) + "a"},
		{"between CR and LF", fill(32766) + "\r\n", fill(32766)},
		{"many bytes, few units", strings.Repeat("株", 32767), strings.Repeat("株", 32767)},
		{"half a pair", fill(32766) + "😀", fill(32766)},
		{"the last pair fits", fill(32765) + "😀", fill(32765) + "😀"},
		{"pairs only", strings.Repeat("😀", 16384), strings.Repeat("😀", 16383)},
		{"accent", fill(32766) + "e\u0301", fill(32766)},
		{"vowel sign", fill(32766) + "ক\u09BF", fill(32766)},
		{"joined emoji", fill(32764) + family, fill(32764)},
		{"skin tone", fill(32765) + "\U0001F44D\U0001F3FD", fill(32765)},
		{"marks without end", fill(32700) + strings.Repeat("\u0301", 100), fill(32700) + strings.Repeat("\u0301", 67)},
		{"nothing but marks", strings.Repeat("\u0301", 40000), strings.Repeat("\u0301", 32767)},
	} {
		if got := string(cut([]byte(c.value))); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, len(got), len(c.want))
		}
		file, warnings := mustEncode(t, layoutOf(field(tabular.Text, tabular.OIDText)), 0, []string{c.value})
		if got := sheetOf(t, file, 1).find("A2").value(); got != c.want || len(utf16.Encode([]rune(got))) > maxUnits {
			t.Errorf("%s: the file has %d bytes", c.name, len(got))
		}
		want := ""
		if c.want != c.value {
			want = "c1:cut×1@[1]"
		}
		if got := noted(warnings); got != want {
			t.Errorf("%s: noted %q, want %q", c.name, got, want)
		}
	}
}

// Every character arrives in a reader of XML as it is, or is replaced and said so.
func TestEveryCharacter(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= 0x10FFFF; r++ {
		if !utf8.ValidRune(r) || r > 0x3000 && r < 0xF000 || r > 0x10100 && r < 0x10FFF0 {
			continue
		}
		allowed := r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r != 0xFFFE && r != 0xFFFF // XML 1.0, 2.2
		out, replaced := appendText([]byte("<t>"), []byte("a"+string(r)+"b"))
		if replaced == allowed {
			t.Errorf("%U: replaced %t", r, replaced)
		}
		want := "a" + string(r) + "b"
		if !allowed {
			want = "a\uFFFDb"
		}
		var got string
		if err := xml.Unmarshal(append(out, "</t>"...), &got); err != nil || got != want {
			t.Errorf("%U: %q, %v", r, got, err)
		}
	}
}

// isPlain must see every byte that is not, wherever it stands.
func TestIsPlain(t *testing.T) {
	t.Parallel()
	for size := range 20 {
		for at := range size {
			for c := range 256 {
				v := bytes.Repeat([]byte{'x'}, size)
				v[at] = byte(c)
				want := c >= ' ' && c < 0x80 && !strings.ContainsRune("&<>_", rune(c))
				if c == '\t' || c == '\n' {
					continue // found plain in short text only; either is right
				}
				if isPlain(v) != want {
					t.Errorf("byte %#x at %d of %d: plain %t", c, at, size, isPlain(v))
				}
			}
		}
	}
	if !isPlain([]byte("123e4567-e89b-12d3-a456-426614174000")) || !isPlain(nil) {
		t.Error("plain text is not found plain")
	}
}
