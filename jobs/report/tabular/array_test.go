package tabular_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestAppendArrayJSON(t *testing.T) {
	t.Parallel()
	const oidBox, oidPoint = 603, 600
	tests := []struct {
		in     string
		elem   uint32
		want   string
		bounds bool
	}{
		{`{}`, tabular.OIDInt4, `[]`, false},
		{`{1,2,NULL,-3}`, tabular.OIDInt4, `[1,2,null,-3]`, false},
		{`{9223372036854775807}`, tabular.OIDInt8, `[9223372036854775807]`, false},
		{`{1.50,NaN,Infinity,-Infinity}`, tabular.OIDNumeric, `[1.50,"NaN","Infinity","-Infinity"]`, false},
		{`{1e+20,-0}`, tabular.OIDFloat8, `[1e+20,-0]`, false},
		{`{t,f,NULL}`, tabular.OIDBool, `[true,false,null]`, false},
		{`{{1,2},{3,NULL}}`, tabular.OIDInt2, `[[1,2],[3,null]]`, false},
		{`{{{1}},{{2}}}`, tabular.OIDOID, `[[[1]],[[2]]]`, false},
		{`{a,"b c","NULL",NULL,"","x,y","{}","q\"\\"}`, tabular.OIDText, `["a","b c","NULL",null,"","x,y","{}","q\"\\"]`, false},
		{`{null,Null}`, tabular.OIDText, `["null","Null"]`, false},
		{"{\"a\nb\",é}", tabular.OIDText, `["a\nb","é"]`, false},
		{`{"{\"a\": [1, 2]}","\"x\"",5,NULL,null}`, tabular.OIDJSONB, `[{"a":[1,2]},"x",5,null,null]`, false},
		{`{"2026-01-31 09:30:00.5+07",infinity,"0044-03-15 10:00:00+00 BC"}`, tabular.OIDTimestampTZ, `["2026-01-31T09:30:00.5+07:00","infinity","0044-03-15 10:00:00+00 BC"]`, false},
		{`{"2026-01-31 09:30:00",infinity}`, tabular.OIDTimestamp, `["2026-01-31T09:30:00","infinity"]`, false},
		{`{2026-01-31}`, tabular.OIDDate, `["2026-01-31"]`, false},
		{`{"\\x00ff"}`, tabular.OIDBytea, `["\\x00ff"]`, false},
		{`{(1,1),(0,0);(2,2),(1,1)}`, oidBox, `["(1,1),(0,0)","(2,2),(1,1)"]`, false},
		{`{"(1,2)"}`, oidPoint, `["(1,2)"]`, false},
		{`[2:3]={5,6}`, tabular.OIDInt4, `[5,6]`, true},
		{`[-1:0][2:2]={{5},{6}}`, tabular.OIDInt4, `[[5],[6]]`, true},
		{`{$1.00,"$1,234.50"}`, tabular.OIDMoney, `["$1.00","$1,234.50"]`, false},
		{`{007,1;2}`, 0, `["007","1;2"]`, false},
	}
	for _, tt := range tests {
		got, bounds, ok := tabular.AppendArrayJSON([]byte("x"), []byte(tt.in), tt.elem)
		if !ok || string(got) != "x"+tt.want || bounds != tt.bounds {
			t.Errorf("%s: got %s, %t, %t", tt.in, got, bounds, ok)
		}
	}
}

func TestAppendArrayJSONRefuses(t *testing.T) {
	t.Parallel()
	for in, elem := range map[string]uint32{
		"": 0, "1": 0, "{": 0, "{1": 0, "{1,}": 0, "{,1}": 0, "{1}}": 0, "{{1}": 0, "{{1},}": 0, "{}{}": 0, "{1}x": 0, `{"a}`: 0, `{"a"b}`: 0, `{a"b"}`: 0, `{a{b}}`: 0, `{"a\`: 0, `{a\b}`: 0,
		"{{}}": 0, "[2:3]": 0, "[2]={1}": 0, "[2:x]={1}": 0, "[2:3={1}": 0, "[:3]={1}": 0, "{\xff}": 0, "1,2": 0,
		"{x}": tabular.OIDInt4, "{1.": tabular.OIDNumeric, "{yes}": tabular.OIDBool, `{"{"}`: tabular.OIDJSON, "{+1}": tabular.OIDInt8,
	} {
		if got, _, ok := tabular.AppendArrayJSON([]byte("x"), []byte(in), elem); ok || string(got) != "x" {
			t.Errorf("%q: got %s, %t", in, got, ok)
		}
	}
}

// FuzzAppendArrayJSON: texts, quoted as PostgreSQL quotes them, come back; and
// whatever is taken gives JSON.
func FuzzAppendArrayJSON(f *testing.F) {
	f.Add("a\x1f\"\x1f\\\x1fNULL\x1f\x1f{,}", `{1,{2}}`, uint32(23))
	f.Add("é\n", `[1:2]={"{\"a\":1}",t}`, uint32(114))
	f.Fuzz(func(t *testing.T, joined, wild string, elem uint32) {
		if out, _, ok := tabular.AppendArrayJSON(nil, []byte(wild), elem); ok && !json.Valid(out) {
			t.Errorf("%q as %d became %s", wild, elem, out)
		}
		if !utf8.ValidString(joined) {
			return
		}
		texts := strings.Split(joined, "\x1f")
		in := []byte{'{'}
		for i, v := range texts {
			if i > 0 {
				in = append(in, ',')
			}
			in = append(in, '"')
			in = append(in, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v)...)
			in = append(in, '"')
		}
		out, _, ok := tabular.AppendArrayJSON(nil, append(in, '}'), tabular.OIDText)
		var got []string
		if err := json.Unmarshal(out, &got); !ok || err != nil || strings.Join(got, "\x1f") != joined || len(got) != len(texts) {
			t.Errorf("%s became %s (%v)", in, out, err)
		}
	})
}

func TestJSONAppendersDoNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 1<<12)
	doc, array := []byte(`{"a": [1, {"b": "c"}], "d": null}`), []byte(`{"{\"a\": 1}","[2, 3]"}`)
	stamps := []byte(`{"2026-01-31 09:30:00+07"}`)
	if n := testing.AllocsPerRun(100, func() {
		_, ok := tabular.AppendJSON(dst, doc)
		_, _, ok2 := tabular.AppendArrayJSON(dst, array, tabular.OIDJSON)
		_, _, ok3 := tabular.AppendArrayJSON(dst, stamps, tabular.OIDTimestampTZ)
		if !ok || !ok2 || !ok3 || !bytes.Equal(tabular.AppendJSONString(dst, doc)[:1], []byte(`"`)) {
			t.Error("not taken")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
