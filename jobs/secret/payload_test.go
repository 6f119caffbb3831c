package secret_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/secret"
)

func TestFieldsAreSealedAndOpened(t *testing.T) {
	t.Parallel()
	k := ring(t, entry(t, "k1"))
	for _, c := range []struct {
		paths  []string
		raw    string
		masked string
	}{
		{[]string{"token"}, `{"a":1,"token":"s3cr3t"}`, `{"a":1,"token":{"$sealed":true}}`},
		{[]string{"token"}, `{"TOKEN":"s3cr3t","to\u212aen":2}`, `{"TOKEN":{"$sealed":true},"to` + "\u212a" + `en":{"$sealed":true}}`}, // as encoding/json matches names
		{[]string{"a.b"}, `{"a":{"b":{"deep":[1,2]},"c":1},"b":1}`, `{"a":{"b":{"$sealed":true},"c":1},"b":1}`},
		{[]string{"items.*.token"}, `{"items":[{"token":1},{"x":2},{"token":null}]}`, `{"items":[{"token":{"$sealed":true}},{"x":2},{"token":{"$sealed":true}}]}`},
		{[]string{"items.*.token"}, `{"items":{"a":{"token":"x"},"b":7}}`, `{"items":{"a":{"token":{"$sealed":true}},"b":7}}`},
		{[]string{"*"}, `{"a":1,"b":[2]}`, `{"a":{"$sealed":true},"b":{"$sealed":true}}`},
		{[]string{"a", "a.b"}, `{"a":{"b":1}}`, `{"a":{"$sealed":true}}`},
		{[]string{"n"}, `{"n":12345678901234567890.10}`, `{"n":{"$sealed":true}}`},
		{[]string{"none"}, `{"a":"<b>"}`, `{"a":"\u003cb\u003e"}`},
		{nil, `{"a":{}}`, `{"a":{}}`},
	} {
		s, err := k.SealJSON("here", json.RawMessage(c.raw), c.paths)
		if err != nil {
			t.Fatal(err)
		}
		if string(s.Masked) != c.masked {
			t.Errorf("%s by %v\n got %s\nwant %s", c.raw, c.paths, s.Masked, c.masked)
		}
		if strings.Contains(string(s.JSON), "s3cr3t") {
			t.Errorf("not sealed: %s", s.JSON)
		}
		plain, fields, err := k.OpenJSON("here", s.JSON)
		if err != nil {
			t.Fatal(err)
		}
		if !same(t, string(plain), c.raw) || fmt.Sprint(fields) != fmt.Sprint(s.Fields) {
			t.Errorf("sealed %s, opened %s with %v instead of %v", c.raw, plain, fields, s.Fields)
		}
		if found, err := secret.Find(json.RawMessage(c.raw), c.paths); err != nil || found.JSON != nil || string(found.Masked) != c.masked {
			t.Errorf("found %s, %v", found.Masked, err)
		}
	}
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	var texts [2]string
	for i, text := range []string{a, b} {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(raw)
	}
	return texts[0] == texts[1]
}

// A sealed value opens where it was sealed and nowhere else.
func TestASealedFieldIsNotMoved(t *testing.T) {
	t.Parallel()
	k := ring(t, entry(t, "k1"))
	s, err := k.SealJSON("here", json.RawMessage(`{"a":"1","b":"2","l":["3","4"]}`), []string{"a", "b", "l.*"})
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		A, B json.RawMessage
		L    []json.RawMessage
	}
	if err := json.Unmarshal(s.JSON, &p); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"to another field":   fmt.Sprintf(`{"a":%s}`, p.B),
		"to another element": fmt.Sprintf(`{"l":[%s,%s]}`, p.L[1], p.L[0]),
		"into an object":     fmt.Sprintf(`{"l":{"a":%s}}`, p.A),
		"one level up":       fmt.Sprintf(`{"0":%s}`, p.L[0]),
	} {
		var bad *secret.KeyError
		if plain, _, err := k.OpenJSON("here", json.RawMessage(text)); !errors.As(err, &bad) {
			t.Errorf("%s: opened as %s, %v", what, plain, err)
		}
	}
	if _, _, err := k.OpenJSON("there", s.JSON); err == nil {
		t.Error("opened in another text")
	}
	if secret.Context("a", "b") == secret.Context(`a","b`) || secret.Context("ab") == secret.Context("a", "b") {
		t.Error("two contexts are one")
	}
}

func TestTheReservedNameIsRefused(t *testing.T) {
	t.Parallel()
	for raw, field := range map[string]string{
		`{"a":{"$sealed":"v1.k1.AAAA"}}`: "a.$sealed", `{"a":[{"$sealed":true}]}`: "a.0.$sealed", `{"$sealed":1,"b":2}`: "$sealed",
		`{"a":{"\u0024sealed":1}}`: "a.$sealed",
	} {
		var bad *invalid.Error
		if _, err := secret.Find(json.RawMessage(raw), nil); !errors.As(err, &bad) || bad.Problems[0].Field != field {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if _, err := secret.Find(json.RawMessage(`{"a":"$sealed","b":"{\"$sealed\":\"v1.k1.AA\"}"}`), nil); err != nil {
		t.Errorf("a value that is not a name: %v", err)
	}
}

func TestFieldsAreSealedAgain(t *testing.T) {
	t.Parallel()
	one, two := entry(t, "k1"), entry(t, "k2")
	old, both := ring(t, one), ring(t, two, one)
	s, err := old.SealJSON("here", json.RawMessage(`{"a":"x","l":[1,2],"n":1}`), []string{"a", "l.*"})
	if err != nil {
		t.Fatal(err)
	}
	fresh, n, err := both.ResealJSON("here", s.JSON)
	if err != nil || n != 3 {
		t.Fatal(n, err)
	}
	if plain, _, err := ring(t, two).OpenJSON("here", fresh); err != nil || string(plain) != `{"a":"x","l":[1,2],"n":1}` {
		t.Errorf("%s, %v", plain, err)
	}
	if again, n, err := both.ResealJSON("here", fresh); n != 0 || err != nil || string(again) != string(fresh) {
		t.Errorf("sealed %d values once more, %v", n, err)
	}
	if left, n, err := ring(t, two).ResealJSON("here", s.JSON); err == nil || n != 0 || string(left) != string(s.JSON) {
		t.Errorf("without the old key: %d, %v", n, err)
	}
	if got := secret.Mask(fresh); string(got) != `{"a":{"$sealed":true},"l":[{"$sealed":true},{"$sealed":true}],"n":1}` {
		t.Errorf("masked %s", got)
	}
}

func TestPathsAreChecked(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"", ".", "a.", ".a", "a..b"} {
		if secret.CheckPaths([]string{"ok.*", p}) == nil {
			t.Errorf("%q was accepted", p)
		}
	}
	if err := secret.CheckPaths([]string{"a", "a.*.b", "*"}); err != nil {
		t.Error(err)
	}
}
