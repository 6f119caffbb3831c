package invalid

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestObject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ raw, want string }{
		{`{"name":"a","n":3,"list":["x"],"yes":true,"raw":{"a":1}}`, ""},
		{`{}`, ""},
		{`[]`, "body: must be one JSON object"},
		{`{"name":"a"`, "body: must be one JSON object"},
		{`{"name":"a"} {}`, "body: holds more than one"},
		{`{"Name":"a"}`, "p.Name: is not a known field; there are list, n, name, raw, yes"},
		{`{"name":"a","name":"b"}`, "p.name: is given twice"},
		{`{"name":1}`, `p.name: "1" must be text`},
		{`{"n":1.5}`, `p.n: "1.5" must be a whole number`},
		{`{"list":"x"}`, "must be a list of texts"},
		{`{"yes":"x"}`, "must be true or false"},
	} {
		var name string
		var n int
		var list []string
		var yes bool
		var raw json.RawMessage
		err := Object([]byte(tt.raw), "body", "p.", map[string]any{"name": &name, "n": &n, "list": &list, "yes": &yes, "raw": &raw})
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.raw, err)
			}
			continue
		}
		var bad *Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.raw, err, tt.want)
		}
	}
}
