package report_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invalid"
)

func TestLists(t *testing.T) {
	t.Parallel()
	tests := []struct{ typ, value, canonical, array string }{
		{"integer", "", "[]", "{}"},
		{"integer", " ", "[]", "{}"},
		{"integer", "[]", "[]", "{}"},
		{"integer", "1", "1", `{"1"}`},
		{"integer", "1, 02 ,-0", "1,2,0", `{"1","2","0"}`},
		{"integer", ` ["1", 2] `, "1,2", `{"1","2"}`},
		{"decimal", "1.50,-2", "1.50,-2", `{"1.50","-2"}`},
		{"decimal", "[1.50]", "1.50", `{"1.50"}`},
		{"boolean", "[true,false]", "true,false", `{"true","false"}`},
		{"date", "2026-01-31,2026-02-01", "2026-01-31,2026-02-01", `{"2026-01-31","2026-02-01"}`},
		{"timestamp", "2026-01-31", "2026-01-31T00:00:00Z", `{"2026-01-31T00:00:00Z"}`},
		{"uuid", "123E4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000", `{"123e4567-e89b-12d3-a456-426614174000"}`},
		{"enum(new, in transit)", "in transit,new", "in transit,new", `{"in transit","new"}`},
		{"text", "a,,b", `["a","","b"]`, `{"a","","b"}`},
		{"text", "a,", `["a",""]`, `{"a",""}`},
		{"text", `["a,b"," c","<&>"]`, `["a,b"," c","<&>"]`, `{"a,b"," c","<&>"}`},
		{"text", `["a,b"]`, `["a,b"]`, `{"a,b"}`},
		{"text", `["[x]"]`, `["[x]"]`, `{"[x]"}`},
		{"text", `["x","[y]"]`, "x,[y]", `{"x","[y]"}`},
		{"text", `say "hi",back\slash,NULL,{x}`, `say "hi",back\slash,NULL,{x}`, `{"say \"hi\"","back\\slash","NULL","{x}"}`},
		{"text", `["\ufffd","�"]`, "�,�", `{"�","�"}`},
	}
	for _, tt := range tests {
		d := parse(t, "x", "-- param: p list("+tt.typ+")\nselect :p")
		given := map[string]string{"p": tt.value}
		got, err := d.Canonical(given)
		if err != nil || got["p"] != tt.canonical {
			t.Errorf("%s %q: got %q, %v, want %q", tt.typ, tt.value, got["p"], err, tt.canonical)
		}
		if again, err := d.Canonical(got); err != nil || !maps.Equal(again, got) {
			t.Errorf("%s %q: canonical values became %v, %v", tt.typ, tt.value, again, err)
		}
		if q, err := d.Bind(given); err != nil || deref(q.Args[0]) != tt.array {
			t.Errorf("%s %q: bound as %+v, %v", tt.typ, tt.value, q, err)
		}
	}
}

func TestListsRefuse(t *testing.T) {
	t.Parallel()
	const noArray = `is no JSON array of texts, numbers or booleans, as in ["a","b"]`
	tests := []struct{ typ, value, want string }{
		{"integer", "1,x", `holds "x", which is not a whole number from -9223372036854775808 to 9223372036854775807`},
		{"integer", "1,", `holds "", which is not a whole number from -9223372036854775808 to 9223372036854775807`},
		{"integer", "[1.0]", `holds "1.0", which is not a whole number from -9223372036854775808 to 9223372036854775807`},
		{"text", "[1", noArray},
		{"text", "[null]", noArray},
		{"text", "[[1]]", noArray},
		{"text", `[{"a":1}]`, noArray},
		{"text", `["\ud800"]`, noArray},
		{"text", `["a"] x`, noArray},
		{"text", "a\xff", "is not UTF-8 text"},
		{"text", `["\u0000"]`, "holds \"\\x00\", which is not UTF-8 text"},
		{"enum(new,paid)", "new,payd", `holds "payd", which is not one of new, paid; did you mean paid?`},
		{"text", strings.Repeat("a,", 60_000), "is longer than 100000 bytes"},
	}
	for _, tt := range tests {
		_, err := parse(t, "x", "-- param: p list("+tt.typ+")\nselect :p").Bind(map[string]string{"p": tt.value})
		refused, ok := errors.AsType[*invalid.Error](err)
		if !ok || refused.Problems[0].Field != "params.p" || refused.Problems[0].Message != tt.want {
			t.Errorf("%s %.20q: got %v", tt.typ, tt.value, err)
		}
	}
	_, err := parse(t, "x", "-- param: p list(date) required \"Days\"\nselect :p").Bind(nil)
	if err == nil || err.Error() != `params.p: is required: a list such as a,b or ["a","b"], each a date such as 2026-01-31 (Days)` {
		t.Errorf("got %v", err)
	}
}

func TestListsAreArraysInTheQuery(t *testing.T) {
	t.Parallel()
	for typ, want := range map[string]string{
		"text": "text", "integer": "int8", "decimal": "numeric", "boolean": "bool", "date": "date", "timestamp": "timestamptz", "uuid": "uuid", "enum(a,b)": "text",
	} {
		d := parse(t, "x", "-- param: p list("+typ+")\nselect x = any(:p), :p[1]")
		if q, err := d.Bind(nil); err != nil || q.SQL != "select x = any($1::"+want+"[]), ($1::"+want+"[])[1]" || q.Args[0] != nil {
			t.Errorf("%s: got %+v, %v", typ, q, err)
		}
	}
	d := parse(t, "x", "-- param: p list(text) default 'a, b'\nselect :p")
	if q, err := d.Bind(nil); err != nil || deref(q.Args[0]) != `{"a","b"}` {
		t.Errorf("got %+v, %v", q, err)
	}
}

// FuzzList: every list of texts has one spelling, which reads back as the same.
func FuzzList(f *testing.F) {
	f.Add("a,b")
	f.Add(`["a\u2028",""]`)
	f.Add("[")
	f.Add(" [,]")
	f.Fuzz(func(t *testing.T, value string) {
		d := parse(t, "x", "-- param: p list(text)\nselect :p")
		once, err := d.Canonical(map[string]string{"p": value})
		if err != nil {
			return
		}
		twice, err := d.Canonical(once)
		if err != nil || twice["p"] != once["p"] {
			t.Errorf("%q became %q and then %q, %v", value, once["p"], twice["p"], err)
		}
		one, _ := d.Bind(map[string]string{"p": value})
		two, _ := d.Bind(once)
		if deref(one.Args[0]) != deref(two.Args[0]) {
			t.Errorf("%q is bound as %q, its spelling %q as %q", value, deref(one.Args[0]), once["p"], deref(two.Args[0]))
		}
	})
}
