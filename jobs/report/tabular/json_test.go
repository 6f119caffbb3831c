package tabular_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestAppendJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a": [1, null], "b": "x y"}`:       `{"a":[1,null],"b":"x y"}`,
		" {\n\t\"a\" : 1 ,\r\n \"a\" : 2 } ": `{"a":1,"a":2}`,
		`[ ]`:                                `[]`, `{ }`: `{}`, `[[], {}, [{}]]`: `[[],{},[{}]]`, ` true `: `true`, `null`: `null`, `"a  b"`: `"a  b"`,
		`12345678901234567890.10e+05`: `12345678901234567890.10e+05`, `-0`: `-0`, `0.10`: `0.10`,
		`"\u00e9\ud800 \/ \" \\"`: `"\u00e9\ud800 \/ \" \\"`, `{"ключ": "значение"}`: `{"ключ":"значение"}`,
	} {
		got, ok := tabular.AppendJSON([]byte("x"), []byte(in))
		if !ok || string(got) != "x"+want {
			t.Errorf("%s: got %s, %t", in, got, ok)
		}
	}
	for _, in := range []string{"", " ", "{", "[", "[1", "[1,", "[1,]", "[,1]", "{1:2}", `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1]`, `[1}`, `"a`, `"\x"`, `"\u12g4"`, `"\u12`,
		"\"a\nb\"", "\"a\x00\"", "nul", "True", "01", "1.", ".5", "+1", "1e", "-", "1 2", "[] []", "'a'", "\"\xff\"", "NaN", "\ufeff1"} {
		if got, ok := tabular.AppendJSON([]byte("x"), []byte(in)); ok || string(got) != "x" {
			t.Errorf("%q: got %s, %t", in, got, ok)
		}
	}
}

func TestAppendJSONGoesDeep(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{1, 63, 64, 65, 128, 129, 200, 10_000, 10_001} {
		// Arrays and objects in turn, with two members each, so that going back matters.
		in := strings.Repeat(`[ {"a": `, depth/2) + strings.Repeat("[", depth%2) + " 1 " + strings.Repeat("]", depth%2) + strings.Repeat(`, "b": 2} , 3]`, depth/2)
		var want bytes.Buffer
		wantOK := json.Compact(&want, []byte(in)) == nil
		if got, ok := tabular.AppendJSON(nil, []byte(in)); ok != wantOK || ok && !bytes.Equal(got, want.Bytes()) {
			t.Errorf("depth %d: got %t and %d bytes, want %t and %d", depth, ok, len(got), wantOK, want.Len())
		}
	}
}

// FuzzAppendJSON: what encoding/json takes, and the same bytes.
func FuzzAppendJSON(f *testing.F) {
	for _, seed := range []string{`{"a": [1, 2.50e1, "\u00e9"], "b": {}}`, `[[ ]]`, "\xff", `"\ud800"`, `{"a":1 "b"}`, `-`, ` 1 `, `[{"a":[]},2]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var want bytes.Buffer
		wantOK := utf8.Valid(in) && json.Compact(&want, in) == nil
		got, ok := tabular.AppendJSON(nil, in)
		if ok != wantOK || ok && !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%q: got %s, %t, want %s, %t", in, got, ok, want.Bytes(), wantOK)
		}
	})
}

func TestAppendJSONString(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": `""`, "a": `"a"`, `a"b\c`: `"a\"b\\c"`, "\b\f\n\r\t": `"\b\f\n\r\t"`, "\x00\x01\x1f\x7f": "\"\\u0000\\u0001\\u001f\x7f\"", "é\u2028</script>": "\"é\u2028</script>\"",
	} {
		if got := tabular.AppendJSONString([]byte("x"), []byte(in)); string(got) != "x"+want {
			t.Errorf("%q: got %s", in, got)
		}
	}
}

func FuzzAppendJSONString(f *testing.F) {
	f.Add("a\"\\\x00\u2028é")
	f.Fuzz(func(t *testing.T, in string) {
		if !utf8.ValidString(in) {
			return
		}
		var got string
		if err := json.Unmarshal(tabular.AppendJSONString(nil, []byte(in)), &got); err != nil || got != in {
			t.Errorf("%q became %q, %v", in, got, err)
		}
	})
}

func TestAppendJSONNumber(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"12.50": "12.50", "-0": "-0", "1e-05": "1e-05", "9223372036854775807": "9223372036854775807", "NaN": `"NaN"`, "Infinity": `"Infinity"`, "-Infinity": `"-Infinity"`} {
		if got, ok := tabular.AppendJSONNumber(nil, []byte(in)); !ok || string(got) != want {
			t.Errorf("%s: got %s, %t", in, got, ok)
		}
	}
	for _, in := range []string{"", "+1", "007", "0x10", "1,5", "nan", "1 ", "1e"} {
		if got, ok := tabular.AppendJSONNumber(nil, []byte(in)); ok || len(got) > 0 {
			t.Errorf("%q: got %s, %t", in, got, ok)
		}
	}
}
