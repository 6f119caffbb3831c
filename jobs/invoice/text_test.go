package invoice

import (
	"strings"
	"testing"
	"unicode"
)

func TestTextThatCannotBePrintedIsRefused(t *testing.T) {
	t.Parallel()
	const cover = "cover Latin, Greek and Cyrillic for now"
	tests := []struct {
		name, text string
		words      []string
	}{
		{"case 32: Arabic", "مرحبا", []string{"U+0645 م (Arabic)", cover}},
		{"case 33: Japanese", "キマイ", []string{"U+30AD キ (Katakana)", cover}},
		{"case 33: Hebrew", "שלום Ltd", []string{"U+05E9 ש (Hebrew)", cover}},
		{"Bengali", "বাংলা", []string{"U+09AC ব (Bengali)", "U+09BE (combining mark) (Bengali)", cover}},
		{"Chinese", "中文", []string{"U+4E2D 中 (Han)", cover}},
		{"emoji", "ok 😀", []string{"U+1F600 😀", cover}},
		{"mark that composes with nothing", "x\u0301", []string{"U+0301 (combining mark)", cover}},
		{"right-to-left mark", "a\u200fb", []string{"U+200F (invisible)"}},
		{"soft hyphen", "a\u00adb", []string{"U+00AD (invisible)"}},
		{"private use", "a\uf800b", []string{"U+F800"}},
		{"control", "a\x1bb", []string{"control characters", "U+001B"}},
		{"tabulator", "a\tb", []string{"control characters", "U+0009"}},
		{"line separator", "a\u2028b", []string{"U+2028"}},
		{"replacement character", "a\ufffdb", []string{"U+FFFD", "lost before"}},
		{"many", "абв한국어어어日本語漢字中文", []string{"U+D55C", "and 2 more"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			oneProblem(t, simple(t, object{"lines": []any{line(tt.text, "1", "1", "19")}}), "lines[0].description", tt.words...)
			oneProblem(t, simple(t, object{"customer": object{"name": "B", "address": []any{"ok", tt.text}}}), "customer.address[1]")
		})
	}
}

func TestTextIsComposed(t *testing.T) {
	t.Parallel()
	d := parse(t, simple(t, object{"notes": "Cafe\u0301 A\u030angstro\u0308m \u0438\u0306\r\nnext"}))
	if want := "Café Ångström й\nnext"; d.Notes != want {
		t.Errorf("notes are %+q, want %+q", d.Notes, want)
	}
}

// The fonts must hold no script that needs more than one glyph after another
// from left to right: shows would let it through.
func TestFontsHoldOnlyPlainScripts(t *testing.T) {
	t.Parallel()
	fonts, err := builtinTypefaces()
	if err != nil {
		t.Fatal(err)
	}
	scripts := map[string]int{}
	for c := rune(0); c < 0x10000; c++ {
		if fonts.shows(c) && !unicode.IsControl(c) {
			scripts[script(c)]++
		}
	}
	for name, n := range scripts {
		if name != "" && name != "Latin" && name != "Greek" && name != "Cyrillic" {
			t.Errorf("the fonts show %d characters of %s", n, name)
		}
	}
	if scripts["Latin"] < 250 || scripts["Greek"] < 60 || scripts["Cyrillic"] < 80 {
		t.Errorf("the fonts lost characters: %v", scripts)
	}
	const alphabets = "ÄÖÜßéèçñøåæœłżđșțřűğışİ ΑΩάήΐϋ АЯёіїєґђћџ №€£¥ “„«»–—…’•™©®½"
	for _, c := range alphabets {
		if !fonts.shows(c) {
			t.Errorf("the fonts lack %q", c)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	fonts, err := builtinTypefaces()
	if err != nil {
		t.Fatal(err)
	}
	st := style{font: newDocFont(fonts.regular, "F1"), size: 10}
	tests := []struct {
		name, text string
		width      float64
		want       string
	}{
		{"fits", "one two", 100, "one two"},
		{"breaks at a space", "one two three", st.width("one two") + 0.5, "one two|three"},
		{"breaks at line breaks", "a\n\nb", 100, "a||b"},
		{"breaks a word that is too long", "wwwwww x", st.width("wwww") + 0.5, "wwww|ww x"},
		{"a word too long goes on its own line first", "a wwwwww", st.width("wwww") + 0.5, "a|wwww|ww"},
		{"does not break at a no-break space", "a b\u00a0c", st.width("b\u00a0c") + 0.5, "a|b\u00a0c"},
		{"one character at least", "abc", 0.1, "a|b|c"},
		{"spaces inside stay", "a  b", 100, "a  b"},
		{"nothing", "", 10, ""},
	}
	for _, tt := range tests {
		lines := wrap(st, tt.text, tt.width)
		if got := strings.Join(lines, "|"); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		for _, l := range lines {
			if st.width(l) > tt.width && len([]rune(l)) > 1 {
				t.Errorf("%s: %q is %.1f wide, more than %.1f", tt.name, l, st.width(l), tt.width)
			}
		}
	}
}
