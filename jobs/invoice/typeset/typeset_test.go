package typeset

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/go-text/typesetting/language"
)

// noto are the fonts of the product, in their order.
var noto = sync.OnceValue(func() *Fonts {
	var list []*Font
	for _, name := range []string{"", "Bengali", "Devanagari", "Arabic", "Hebrew"} {
		for _, weight := range []string{"Regular", "Bold"} {
			data, err := os.ReadFile(filepath.Join("..", "fonts", "NotoSans"+name+"-"+weight+".ttf"))
			if err != nil {
				panic(err)
			}
			f, err := ParseFont(data)
			if err != nil {
				panic(err)
			}
			list = append(list, f)
		}
	}
	return NewFonts(list...)
})

// picture is a line as fonts and glyphs, from left to right.
func picture(l Line) string {
	var b strings.Builder
	for _, r := range l.Runs {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strings.TrimSuffix(strings.TrimPrefix(r.Font.Name, "NotoSans"), "-Regular"))
		b.WriteByte('[')
		for i, g := range r.Glyphs {
			if i > 0 {
				b.WriteByte('|')
			}
			fmt.Fprintf(&b, "%d=%d", g.ID, g.Cluster)
			if g.XOffset != 0 || g.YOffset != 0 {
				fmt.Fprintf(&b, "@%d,%d", g.XOffset, g.YOffset)
			}
			fmt.Fprintf(&b, "+%d", g.Advance)
		}
		b.WriteByte(']')
	}
	return b.String()
}

// lineText is what the runs of a line hold, in the order of the eye.
func lineText(l Line) string {
	var parts []string
	for _, r := range l.Runs {
		parts = append(parts, string(r.Text))
	}
	return strings.Join(parts, "")
}

func TestDirections(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, language, text, want string }{
		{"left to right", "en", "one two", "one two"},
		{"Hebrew on its own", "en", "שלום עולם", "עולם שלום"},
		{"Hebrew in English", "en", "for שלום עולם today", "for עולם שלום today"},
		{"English in Hebrew", "en", "שלום Fenceline Ltd עולם", "עולם Fenceline Ltd שלום"},
		{"numbers in Arabic", "ar", "حتى 14 أبريل", "أبريل 14 حتى"},
		{"a number is not turned", "ar", "1,234.50", "1,234.50"},
		{"a range after Arabic is", "ar", "فاتورة 2026-42", "42-2026 فاتورة"},
		{"but not when isolated", "ar", "فاتورة \u20682026-42\u2069", "\u20692026-42\u2068 فاتورة"},
		{"English in an Arabic document", "ar", "Table, oak.", "Table, oak."},
		{"signs alone follow the document", "ar", "5 %", "% 5"},
	}
	for _, tt := range tests {
		s := NewSetter(noto())
		s.SetLanguage(tt.language)
		if got := lineText(s.Line(tt.text, false)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestFontsFollowTheScript(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		bold bool
		want string
	}{
		{"Ab", false, "NotoSans-Regular"},
		{"Ab", true, "NotoSans-Bold"},
		{"Καφέ", false, "NotoSans-Regular"},
		{"Чай", false, "NotoSans-Regular"},
		{"বই", true, "NotoSansBengali-Bold"},
		{"क।", false, "NotoSansDevanagari-Regular"},
		{"ক।", false, "NotoSansBengali-Regular"}, // the same sign after another script
		{"نعم،", false, "NotoSansArabic-Regular"},
		{"שָׁלוֹם", false, "NotoSansHebrew-Regular"},
		{"क5", false, "NotoSansDevanagari-Regular NotoSans-Regular"},
		{"ক্\u200dষ", false, "NotoSansBengali-Regular"},
		{"৳5", false, "NotoSansBengali-Regular NotoSans-Regular"},
	}
	for _, tt := range tests {
		var names []string
		for _, r := range NewSetter(noto()).Line(tt.text, tt.bold).Runs {
			names = append(names, r.Font.Name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%q is set in %s, want %s", tt.text, got, tt.want)
		}
	}
}

func TestMissingCharactersAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": "", "キマイ": "キマイ", "a😀b": "😀", "বই 中": "中", "a\u200bb\u2066c\u2069": "", "שלום キ": "キ",
	} {
		if got := string(NewSetter(noto()).Line(text, false).Missing); got != want {
			t.Errorf("%q: missing are %q, want %q", text, got, want)
		}
	}
}

// testdata/harfbuzz.tsv was made by HarfBuzz 6.0 in C from the same fonts, with
// hb-shape --no-glyph-names --language=LANGUAGE FONT TEXT.
func TestShapingEqualsHarfBuzz(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "harfbuzz.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(lines) < 20 {
		t.Fatalf("there are only %d lines", len(lines))
	}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		s := NewSetter(noto())
		s.SetLanguage(f[1])
		if got, want := picture(s.Line(f[2], false)), f[0]+f[3]; got != want {
			t.Errorf("%s in %s:\ngot  %s\nwant %s", f[2], f[1], got, want)
		}
	}
}

func TestMarathiHasItsOwnLetters(t *testing.T) {
	t.Parallel()
	s := NewSetter(noto())
	s.SetLanguage("hi")
	hindi := picture(s.Line("शल", false))
	s.SetLanguage("mr")
	marathi := picture(s.Line("शल", false))
	if hindi == marathi {
		t.Errorf("श and ल look the same in both: %s", hindi)
	}
	s.SetLanguage("hi")
	if again := picture(s.Line("शल", false)); again != hindi {
		t.Errorf("the words of one language were kept for another: %s, want %s", again, hindi)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	s := NewSetter(noto())
	w := func(text string) float64 { return s.Line(text, false).Width + 0.001 }
	tests := []struct {
		name, text string
		width      float64
		want       string
	}{
		{"fits", "one two", 100, "one two"},
		{"breaks at a space", "one two three", w("one two"), "one two|three"},
		{"breaks at line breaks", "a\n\nb", 100, "a||b"},
		{"breaks a word that is too long", "wwwwww x", w("wwww"), "wwww|ww x"},
		{"a word too long goes on its own line first", "a wwwwww", w("wwww"), "a|wwww|ww"},
		{"does not break at a no-break space", "a b\u00a0c", w("b\u00a0c"), "a|b\u00a0c"},
		{"one character at least", "abc", 0.1, "a|b|c"},
		{"never within a character", "e\u0301e\u0301", 0.1, "e\u0301|e\u0301"},
		{"nor within a Bengali one", "ক্ষকি", 0.1, "ক্ষ|কি"},
		{"spaces inside stay", "a  b", 100, "a  b"},
		{"nothing", "", 10, ""},
		{"after a hyphen", "co-operation", w("operation"), "co-|operation"},
		{"between ideographs", "あいう", w("あい"), "あい|う"},
		{"no comma begins a line", "あい、う", w("あい"), "あ|い、|う"},
	}
	for _, tt := range tests {
		var got []string
		for _, l := range s.Wrap(tt.text, false, tt.width) {
			got = append(got, lineText(l))
			if l.Width > tt.width && len(l.Runs) > 0 && tt.width > 0.1 {
				t.Errorf("%s: %q is %.3f wide, more than %.3f", tt.name, lineText(l), l.Width, tt.width)
			}
		}
		if got := strings.Join(got, "|"); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A setter that is used for long remembers a bounded number of words, and what
// it answers does not depend on them.
func TestWordsAreForgotten(t *testing.T) {
	t.Parallel()
	s := NewSetter(noto())
	want := picture(s.Line("অফিস Office", false))
	for i := range 3 * maxWords {
		s.Line(fmt.Sprint("w", i), false)
		if s.count > maxWords {
			t.Fatalf("%d words are kept", s.count)
		}
	}
	if got := picture(s.Line("অফিস Office", false)); got != want {
		t.Errorf("later it is %s, want %s", got, want)
	}
}

// What a stranger writes must not keep a worker busy: the longest paragraphs end.
// They take milliseconds; what is not in proportion to them takes minutes.
func TestLongWordsEnd(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"one word": strings.Repeat("W", 10_000), "words": strings.Repeat("word ", 2000), "scripts": strings.Repeat("aकবم", 2500),
		"marks": strings.Repeat("\u0301", 10_000), "joiners": strings.Repeat("क\u200d", 5000), "halants": strings.Repeat("क्", 5000),
		"brackets": strings.Repeat("(", 5000) + strings.Repeat(")", 5000), "isolates": strings.Repeat("\u2067", 10_000), "directions": strings.Repeat("aא", 5000),
		"hyphens": strings.Repeat("-", 10_000), "ideographs": strings.Repeat("中", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan int)
			go func() { done <- len(NewSetter(noto()).Wrap(text, false, 40)) }()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Error("it goes on and on")
			}
		})
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]language.Script{"ar-EG": language.Arabic, "mr": language.Devanagari, "de": language.Latin, "bn-IN": language.Bengali} {
		s := NewSetter(noto())
		s.SetLanguage(tag)
		if s.script != want {
			t.Errorf("%s is written in %s, want %s", tag, s.script, want)
		}
	}
}

// Whatever is set, every character is in a cluster once and widths add up.
func FuzzWrap(f *testing.F) {
	for _, text := range []string{"one two", "ক্ষ্ম কি শান্তি", "सितंबर में", "مرحبا 123 (abc) לא", "a\u2067b\u2069\u200d\u0301 x", "\u202eabc"} {
		f.Add(text, 3.0)
	}
	f.Fuzz(func(t *testing.T, text string, width float64) {
		if len(text) > 2000 {
			return
		}
		s := NewSetter(noto())
		kept := 0
		for _, l := range s.Wrap(text, false, width) {
			sum := 0.0
			for i := range l.Runs {
				r := &l.Runs[i]
				seen := 0
				for g := 0; g < len(r.Glyphs); {
					end, from, to := r.Cluster(g)
					if from > to || to > len(r.Text) {
						t.Fatalf("%q: cluster %d to %d of %d", text, from, to, len(r.Text))
					}
					seen, g = seen+to-from, end
				}
				if len(r.Glyphs) > 0 && seen != len(r.Text) {
					t.Errorf("%q: clusters hold %d characters of %d", string(r.Text), seen, len(r.Text))
				}
				for _, g := range r.Glyphs {
					sum += float64(g.Advance) / float64(r.Font.UnitsPerEm)
				}
				kept += len(r.Text)
			}
			if diff := sum - l.Width; diff > 1e-6 || diff < -1e-6 {
				t.Errorf("%q: runs are %g wide, the line %g", text, sum, l.Width)
			}
		}
		want := 0
		for _, c := range text {
			if c != ' ' && c != '\n' {
				want++
			}
		}
		if kept < want {
			t.Errorf("%q: %d characters came out of %d", text, kept, want)
		}
	})
}

func TestCollectionsGiveTheirFirstFont(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "fonts", "NotoSansHebrew-Regular.ttf"))
	if err != nil {
		t.Fatal(err)
	}
	const header = 16
	tables := int(binary.BigEndian.Uint16(data[4:]))
	for i := range tables { // the places of tables count from the beginning of the file
		at := data[12+16*i+8:]
		binary.BigEndian.PutUint32(at, binary.BigEndian.Uint32(at)+header)
	}
	collection := append([]byte("ttcf\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x10"), data...)
	f, err := ParseFont(collection)
	if err != nil {
		t.Fatal(err)
	}
	if l := NewSetter(NewFonts(f)).Line("שלום", false); f.Name != "NotoSansHebrew-Regular" || len(l.Missing) > 0 {
		t.Errorf("%s lacks %q", f.Name, l.Missing)
	}
	for name, broken := range map[string][]byte{"cut off": collection[:40], "header alone": collection[:16], "CFF": []byte("OTTO\x00\x00\x00\x00\x00\x00\x00\x00\x00")} {
		if _, err := ParseFont(broken); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func FuzzParseFont(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("..", "fonts", "NotoSansHebrew-Regular.ttf"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(0, byte(0), len(data))
	f.Add(40, byte(255), len(data))
	f.Add(5, byte(3), 4000)
	f.Fuzz(func(t *testing.T, at int, to byte, size int) {
		if at < 0 || at >= len(data) || size < 0 || size > len(data) {
			return
		}
		broken := append([]byte(nil), data[:size]...)
		if at < size {
			broken[at] = to
		}
		font, err := ParseFont(broken)
		if err != nil {
			return
		}
		if strings.ContainsFunc(font.Name, unicode.IsSpace) {
			t.Errorf("the name is %q", font.Name)
		}
		l := NewSetter(NewFonts(font)).Line("שלום a", false)
		glyphs := []uint16{0}
		for _, r := range l.Runs {
			for _, g := range r.Glyphs {
				glyphs = append(glyphs, g.ID)
			}
		}
		if _, err := font.Subset(glyphs); err != nil && !strings.Contains(err.Error(), "subset") {
			t.Error(err)
		}
	})
}
