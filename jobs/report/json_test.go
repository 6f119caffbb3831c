package report_test

import (
	"encoding/json"
	"testing"

	"github.com/fenceline/fenceline/jobs/report"
)

// Whatever encoding/json would change without a word is no text.
func TestJSONText(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`""`: "", `"a\"\\ü"`: `a"\ü`, `"\ud83d\ude00"`: "😀", `"\uFFFD"`: "\ufffd", "\"\ufffd\"": "\ufffd",
		`"\\ufffd"`: `\ufffd`, `"\\\ufffd"`: "\\\ufffd", `"\\ud800"`: `\ud800`,
	} {
		if got, ok := report.JSONText([]byte(raw)); !ok || got != want {
			t.Errorf("%s: got %q, %t", raw, got, ok)
		}
	}
	for _, raw := range []string{`"\ud800"`, `"\udc00\ud800"`, `"\ufffd\ud800"`, `"\\ufffd\ud800"`, "\"\xff\"", "\"\ufffd\xff\"", `1`, ``, `"a`} {
		if got, ok := report.JSONText([]byte(raw)); ok {
			t.Errorf("%s: got %q", raw, got)
		}
	}
}

// Commands and pages answer a parameter with the names that the API has.
func TestParamsAsJSON(t *testing.T) {
	t.Parallel()
	d, err := report.Parse("a.sql", []byte("-- param: a list(enum(x,y)) default x \"A\"\n-- param: b date required\nselect :a, :b"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(d.Params)
	want := `[{"name":"a","type":"list","elem":"enum","label":"A","required":false,"default":"x","values":["x","y"]},` +
		`{"name":"b","type":"date","label":"b","required":true}]`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}
