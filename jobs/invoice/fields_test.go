package invoice

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestFieldsOfADocument(t *testing.T) {
	t.Parallel()
	raw := []byte("\ufeff" + `{"files": ["pdf"], "lines": [{"quantity": "1"}, {"quantity": "1"}], "n": 1.50, "null": null}`)
	got, err := Fields(raw)
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"files", "lines", "n", "null"}) {
		t.Errorf("fields %q", names)
	}
	if string(got["n"]) != "1.50" || string(got["lines"]) != `[{"quantity": "1"}, {"quantity": "1"}]` {
		t.Errorf("values %s", got)
	}
	clear(raw)
	if string(got["n"]) != "1.50" {
		t.Error("the values share memory with the text")
	}
	example, err := Fields(Example())
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(again); err != nil {
		t.Errorf("the example put together again: %v", err)
	}
}

// What a map of fields would lose is refused with its path.
func TestFieldsRefusesWhatWouldBeLost(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"prepaid": "1.00", "prepaid": "2.00"}`:      "prepaid: is given twice",
		`{"prepaid": "1.00", "pre\u0070aid": "2.00"}`: "prepaid: is given twice",
		`{"files": ["pdf"], "files": null}`:           "files: is given twice",
		`{"number": "a", }`:                           "document: is not JSON: line 1, column 17: ",
		"{\n\"number\": x}":                           "document: is not JSON: line 2, column 11: ",
		`{} {}`:                                       "document: is not JSON: line 1, column 4: ",
		``:                                            "document: is empty; it must be one JSON object",
		`[1]`:                                         "document: must be a JSON object",
		`null`:                                        "document: must be a JSON object",
		"{\"a\": \"\xff\"}":                           "document: is not UTF-8 text: ",
	} {
		if fields, err := Fields([]byte(raw)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\n got %v, %v\nwant %s", raw, fields, err, want)
		}
	}
}
