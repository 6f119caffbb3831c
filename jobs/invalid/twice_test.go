package invalid

import "testing"

func TestTwice(t *testing.T) {
	t.Parallel()
	deep := map[string]string{
		`{"lines": [{"a": 1}, {"quantity": "1", "quantity": 2}]}`: "lines[1].quantity: is given twice",
		`{"a": [[{"b": {"c": 1, "c": 1}}]], "d": [{}, []]}`:       "a[0][0].b.c: is given twice",
	}
	for raw, want := range deep {
		if err := Twice([]byte(raw)); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", raw, err, want)
		}
	}
	for _, raw := range []string{`{"a": {"b": 1}, "b": [{"b": 1}, {"b": 2}]}`, `[]`, `null`, `{"a": `, ``, `{"a" 1, "a": 2}`} {
		if err := Twice([]byte(raw)); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
