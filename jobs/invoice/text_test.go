package invoice

import "testing"

func TestTextThatCannotBePrintedIsRefused(t *testing.T) {
	t.Parallel()
	const look = "have no look or may have any"
	tests := []struct {
		name, text string
		words      []string
	}{
		{"soft hyphen", "a\u00adb", []string{"U+00AD (invisible)", look}},
		{"override of direction", "a\u202e00.1\u202c", []string{"U+202E (invisible), U+202C (invisible)", look}},
		{"private use", "a\uf800b", []string{"U+F800", look}},
		{"control", "a\x1bb", []string{"control characters", "U+001B"}},
		{"tabulator", "a\tb", []string{"control characters", "U+0009"}},
		{"line separator", "a\u2028b", []string{"U+2028"}},
		{"replacement character", "a\ufffdb", []string{"U+FFFD", "lost before"}},
		{"many", "\ue000\ue001\ue002\ue003\ue004\ue005\ue006\ue007\ue008\ue009", []string{"U+E007", "and 2 more"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			oneProblem(t, simple(t, object{"lines": []any{line(tt.text, "1", "1", "19")}}), "lines[0].description", tt.words...)
			oneProblem(t, simple(t, object{"customer": object{"name": "B", "address": []any{"ok", tt.text}}}), "customer.address[1]")
		})
	}
}

// What a font may have is for the one who writes the document to say.
func TestTextOfEveryScriptIsRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"مرحبا", "キマイ", "שלום Ltd", "বাংলা", "中文", "ok 😀", "x\u0301", "a\u200fb", "क्\u200dष", "\u20682026-1\u2069"} {
		if d := parse(t, simple(t, object{"notes": text})); d.Notes != text {
			t.Errorf("%+q was read as %+q", text, d.Notes)
		}
	}
}

func TestTextIsComposed(t *testing.T) {
	t.Parallel()
	d := parse(t, simple(t, object{"notes": "Cafe\u0301 A\u030angstro\u0308m \u0438\u0306\r\nnext"}))
	if want := "Café Ångström й\nnext"; d.Notes != want {
		t.Errorf("notes are %+q, want %+q", d.Notes, want)
	}
}
