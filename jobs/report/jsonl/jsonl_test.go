package jsonl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/report/jsonl"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// null stands for NULL in the rows of tests.
const null = "\x00NULL"

func field(name string, oid uint32, kind tabular.Kind) tabular.Field {
	return tabular.Field{Column: tabular.Column{Name: name, OID: oid}, Key: name, Label: "Label of " + name, Kind: kind, Decimals: -1}
}

func arrayField(name string, elem uint32) tabular.Field {
	f := field(name, 1009, tabular.JSON)
	f.Elem = elem
	return f
}

func enumField(name string, labels map[string]string) tabular.Field {
	f := field(name, 16999, tabular.Enum)
	f.Labels = labels
	return f
}

func layout(fields ...tabular.Field) *tabular.Layout {
	for i := range fields {
		fields[i].Index = i
	}
	return &tabular.Layout{Fields: fields, Preset: tabular.Data}
}

func values(texts ...string) [][]byte {
	row := make([][]byte, len(texts))
	for i, v := range texts {
		if v != null {
			row[i] = []byte(v)
		}
	}
	return row
}

func write(l *tabular.Layout, rows ...[]string) (string, []tabular.Warning, error) {
	var out bytes.Buffer
	notes := tabular.NewNotes("jsonl", l)
	e, err := jsonl.Format().New(&out, l, notes)
	if err != nil {
		return "", nil, err
	}
	for i, row := range rows {
		if err := e.Row(int64(i+1), values(row...)); err != nil {
			e.Abort()
			return out.String(), notes.Warnings(), err
		}
	}
	err = e.Close()
	return out.String(), notes.Warnings(), err
}

func warning(column string, note tabular.Note, rows ...int64) []tabular.Warning {
	return []tabular.Warning{{Format: "jsonl", Column: column, Kind: string(note), Count: int64(len(rows)), Rows: rows}}
}

func TestValues(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"n": `Neu "2"`}
	for _, tt := range []struct {
		name     string
		fields   []tabular.Field
		rows     [][]string
		want     string
		warnings []tabular.Warning
	}{
		{"no rows", []tabular.Field{field("a", tabular.OIDText, tabular.Text)}, nil, "", nil},
		{"keys are escaped and in order", []tabular.Field{field(`b"\`, tabular.OIDText, tabular.Text), field("ä\n", tabular.OIDText, tabular.Text)}, [][]string{{"1", "2"}}, `{"b\"\\":"1","ä\n":"2"}` + "\n", nil},
		{"text", []tabular.Field{field("a", tabular.OIDText, tabular.Text)}, [][]string{{"=1+1"}, {""}, {null}, {"a\"\\\r\n\t\x01é\u2028"}}, `{"a":"=1+1"}` + "\n" + `{"a":""}` + "\n" + `{"a":null}` + "\n" + `{"a":"a\"\\\r\n\t\u0001é` + "\u2028\"}\n", nil},
		{"codes are strings", []tabular.Field{field("zip", tabular.OIDInt4, tabular.Code), field("n", tabular.OIDText, tabular.Text)}, [][]string{{"2138", "007"}}, `{"zip":"2138","n":"007"}` + "\n", nil},
		{"numbers have their digits", []tabular.Field{field("i", tabular.OIDInt8, tabular.Integer), field("d", tabular.OIDNumeric, tabular.Money), field("f", tabular.OIDFloat8, tabular.Decimal), field("p", tabular.OIDNumeric, tabular.Percent)},
			[][]string{{"352776136104522888", "12345678901234567890.10", "1e-05", "0.00"}, {null, "NaN", "-Infinity", "Infinity"}}, `{"i":352776136104522888,"d":12345678901234567890.10,"f":1e-05,"p":0.00}` + "\n" + `{"i":null,"d":"NaN","f":"-Infinity","p":"Infinity"}` + "\n", nil},
		{"booleans", []tabular.Field{field("a", tabular.OIDBool, tabular.Boolean), field("b", tabular.OIDBool, tabular.Boolean)}, [][]string{{"t", "f"}, {null, "true"}}, `{"a":true,"b":false}` + "\n" + `{"a":null,"b":true}` + "\n", nil},
		{"JSON is itself", []tabular.Field{field("a", tabular.OIDJSONB, tabular.JSON), field("b", tabular.OIDJSON, tabular.JSON)}, [][]string{{`{"x": [1, 2]}`, "{\n \"x\": 1.0,\n \"x\": 2\n}"}, {"null", `"s"`}}, `{"a":{"x":[1,2]},"b":{"x":1.0,"x":2}}` + "\n" + `{"a":null,"b":"s"}` + "\n", nil},
		{"arrays", []tabular.Field{arrayField("a", tabular.OIDInt4), arrayField("b", tabular.OIDText), arrayField("c", tabular.OIDTimestampTZ)}, [][]string{{"{{1,NULL},{2,3}}", `{"a b",NULL,"NULL"}`, `{"2026-01-31 09:30:00+01"}`}}, `{"a":[[1,null],[2,3]],"b":["a b",null,"NULL"],"c":["2026-01-31T09:30:00+01:00"]}` + "\n", nil},
		{"array bounds", []tabular.Field{arrayField("a", tabular.OIDInt4)}, [][]string{{"[0:1]={7,8}"}}, `{"a":[7,8]}` + "\n", warning("a", tabular.NoteBounds, 1)},
		{"times", []tabular.Field{field("at", tabular.OIDTimestampTZ, tabular.Timestamp), field("local", tabular.OIDTimestamp, tabular.Timestamp), field("day", tabular.OIDDate, tabular.Date), field("time", tabular.OIDTime, tabular.Plain)},
			[][]string{{"2026-01-31 09:30:00.123456+05:30", "2026-01-31 09:30:00", "2026-01-31", "09:30:00"}}, `{"at":"2026-01-31T09:30:00.123456+05:30","local":"2026-01-31T09:30:00","day":"2026-01-31","time":"09:30:00"}` + "\n", nil},
		{"the repeated hour of autumn", []tabular.Field{field("at", tabular.OIDTimestampTZ, tabular.Timestamp)}, [][]string{{"2024-10-27 02:30:00+02"}, {"2024-10-27 02:30:00+01"}}, `{"at":"2024-10-27T02:30:00+02:00"}` + "\n" + `{"at":"2024-10-27T02:30:00+01:00"}` + "\n", nil},
		{"times that cannot be", []tabular.Field{field("day", tabular.OIDDate, tabular.Date), field("at", tabular.OIDTimestampTZ, tabular.Timestamp)}, [][]string{{"infinity", "infinity"}, {"0044-03-15 BC", "0044-03-15 10:00:00+00 BC"}}, `{"day":"infinity","at":"infinity"}` + "\n" + `{"day":"0044-03-15 BC","at":"0044-03-15 10:00:00+00 BC"}` + "\n", warning("at", tabular.NoteTimeAsText, 1, 2)},
		{"local times that cannot be", []tabular.Field{field("at", tabular.OIDTimestamp, tabular.Timestamp)}, [][]string{{"-infinity"}, {"12026-01-01 00:00:00"}}, `{"at":"-infinity"}` + "\n" + `{"at":"12026-01-01 00:00:00"}` + "\n", warning("at", tabular.NoteTimeAsText, 1, 2)},
		{"bytea and the rest", []tabular.Field{field("raw", tabular.OIDBytea, tabular.Plain), field("span", tabular.OIDInterval, tabular.Plain), field("range", 3904, tabular.Text)}, [][]string{{`\x00ff`, "-1 days", "[1,5)"}}, `{"raw":"\\x00ff","span":"-1 days","range":"[1,5)"}` + "\n", nil},
		{"enums", []tabular.Field{enumField("code", nil), enumField("label", labels)}, [][]string{{"n", "n"}, {null, null}, {"x", "x"}}, `{"code":"n","label":"Neu \"2\""}` + "\n" + `{"code":null,"label":null}` + "\n" + `{"code":"x","label":"x"}` + "\n", warning("label", tabular.NoteNoLabel, 3)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, warnings, err := write(layout(tt.fields...), tt.rows...)
			if err != nil || got != tt.want || !reflect.DeepEqual(warnings, tt.warnings) {
				t.Errorf("got  %s, %+v, %v\nwant %s", got, warnings, err, tt.want)
			}
			for _, line := range strings.SplitAfter(got, "\n") {
				if line != "" && !json.Valid([]byte(line)) {
					t.Errorf("no JSON: %s", line)
				}
			}
		})
	}
}

// TestIndexPicksTheValue: hidden columns are in the rows, and enums may be there twice.
func TestIndexPicksTheValue(t *testing.T) {
	t.Parallel()
	l := layout(field("b", tabular.OIDText, tabular.Text), enumField("state", nil), enumField("state_label", map[string]string{"n": "New"}))
	l.Fields[0].Index, l.Fields[1].Index, l.Fields[2].Index = 2, 1, 1
	if got, _, err := write(l, []string{"hidden", "n", "x"}); err != nil || got != `{"b":"x","state":"n","state_label":"New"}`+"\n" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestWrongValuesNameRowAndColumn(t *testing.T) {
	t.Parallel()
	fields := []tabular.Field{field("note", tabular.OIDText, tabular.Text), field("ok", tabular.OIDBool, tabular.Boolean), field("n", tabular.OIDNumeric, tabular.Decimal),
		field("doc", tabular.OIDJSON, tabular.JSON), arrayField("list", tabular.OIDInt4), field("at", tabular.OIDTimestampTZ, tabular.Timestamp)}
	good := []string{"ü", "t", "1", "{}", "{}", "infinity"}
	for want, at := range map[string]int{
		`column "note": value "a\xffb" is not UTF-8 text`: 0, `column "note": value "a\x00b" is not UTF-8 text`: 0,
		`column "ok": value "yes" is not t or f`:                                       1,
		`column "n": value "007" is not a number as PostgreSQL prints it`:              2,
		`column "n": value "" is not a number as PostgreSQL prints it`:                 2,
		`column "doc": value "{" is not JSON in UTF-8`:                                 3,
		`column "list": value "{x}" is not an array as PostgreSQL prints it, in UTF-8`: 4,
		`column "at": value "\xff" is not UTF-8 text`:                                  5,
	} {
		row := append([]string(nil), good...)
		if _, err := fmt.Sscanf(want[strings.Index(want, "value ")+len("value "):], "%q", &row[at]); err != nil {
			t.Fatal(want, err)
		}
		if file, _, err := write(layout(fields...), good, row); fmt.Sprint(err) != "row 2, "+want || file != "" {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, _, err := write(layout(fields...), good[:5]); err == nil || err.Error() != "row 1 has 5 values, and the layout needs 6" {
		t.Errorf("got %v", err)
	}
	if _, _, err := write(layout(field("\xff", 0, tabular.Text))); err == nil || !strings.Contains(err.Error(), `column 1, "\xff", is not UTF-8`) {
		t.Errorf("got %v", err)
	}
}

func TestStrictFails(t *testing.T) {
	t.Parallel()
	l := layout(field("at", tabular.OIDTimestamp, tabular.Timestamp))
	l.Strict = true
	if _, _, err := write(l, []string{"infinity"}); err == nil || !strings.HasPrefix(err.Error(), `row 1, column "at": `) {
		t.Errorf("got %v", err)
	}
	l = layout(arrayField("list", tabular.OIDInt4))
	l.Strict = true
	if _, _, err := write(l, []string{"[0:0]={1}"}); err == nil || !strings.HasPrefix(err.Error(), `row 1, column "list": `) {
		t.Errorf("got %v", err)
	}
}

// TestAnErrorIsFinal: neither later rows nor Close can make a file of it.
func TestAnErrorIsFinal(t *testing.T) {
	t.Parallel()
	l := layout(field("ok", tabular.OIDBool, tabular.Boolean))
	var out bytes.Buffer
	e, err := jsonl.Format().New(&out, l, tabular.NewNotes("jsonl", l))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Row(1, values("t")); err != nil {
		t.Fatal(err)
	}
	bad := e.Row(2, values("x"))
	if again, end := e.Row(3, values("t")), e.Close(); bad == nil || !errors.Is(again, bad) || !errors.Is(end, bad) || out.Len() > 0 {
		t.Errorf("%v, %v, %v, %q", bad, again, end, &out)
	}
	e, err = jsonl.Format().New(&out, l, tabular.NewNotes("jsonl", l))
	if err != nil {
		t.Fatal(err)
	}
	e.Abort()
	if e.Row(1, values("t")) == nil || e.Close() == nil || out.Len() > 0 {
		t.Errorf("after Abort: %q", &out)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	f := jsonl.Format()
	if f.Name != "jsonl" || f.MediaType != "application/x-ndjson" || !f.Compressible || f.New == nil {
		t.Errorf("got %+v", f)
	}
}

// TestRowsDoNotAllocate guards the speed: all kinds of columns, with notes.
func TestRowsDoNotAllocate(t *testing.T) {
	l, rows := orders()
	extra := []tabular.Field{field("ok", tabular.OIDBool, tabular.Boolean), enumField("state", map[string]string{"a": "A label"}), arrayField("list", tabular.OIDText), field("end", tabular.OIDTimestamp, tabular.Timestamp)}
	for i, f := range extra {
		f.Index = len(rows[0]) + i
		l.Fields = append(l.Fields, f)
	}
	e, err := jsonl.Format().New(io.Discard, l, tabular.NewNotes("jsonl", l))
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		rows[i] = append(rows[i], values("t", []string{"a", "none"}[i%2], `{"a b",NULL}`, []string{"infinity", "2024-10-27 02:30:00"}[i%2])...)
	}
	n := 0
	row := func() {
		if err := e.Row(int64(n+1), rows[n%len(rows)]); err != nil {
			t.Fatal(err)
		}
		n++
	}
	for range 2000 {
		row()
	}
	// By the hundred, because AllocsPerRun rounds a part of one down to none.
	hundred := func() {
		for range 100 {
			row()
		}
	}
	if allocs := testing.AllocsPerRun(50, hundred); allocs != 0 {
		t.Errorf("%v allocations in a hundred rows", allocs)
	}
}

// FuzzJSONL: any texts and JSON in, the same out by encoding/json.
func FuzzJSONL(f *testing.F) {
	f.Add("a", "é\u2028\"\\", `{"a": 1.10}`)
	f.Add("key\n", "\x01\x7f", `[]`)
	f.Add("", "\xff", `1e5`)
	f.Fuzz(func(t *testing.T, key, text, doc string) {
		if key == "doc" {
			return
		}
		file, _, err := write(layout(field(key, tabular.OIDText, tabular.Text), field("doc", tabular.OIDJSON, tabular.JSON)), []string{text, doc}, []string{null, null})
		if err != nil {
			all := key + " " + text + " " + doc
			if valid := strings.ToValidUTF8(all, "") == all; valid && !strings.Contains(text, "\x00") && json.Valid([]byte(doc)) {
				t.Fatal(err)
			}
			return
		}
		lines := strings.SplitAfter(file, "\n")
		if len(lines) != 3 || lines[2] != "" {
			t.Fatalf("%d lines in %q", len(lines), file)
		}
		var got map[string]json.RawMessage
		var gotText string
		var want bytes.Buffer
		if err := errors.Join(json.Unmarshal([]byte(lines[0]), &got), json.Unmarshal(got[key], &gotText), json.Compact(&want, []byte(doc))); err != nil || gotText != text || string(got["doc"]) != want.String() {
			t.Errorf("%q and %s became %s (%v)", text, doc, lines[0], err)
		}
	})
}

// readAll is what a Python program does, with numbers as their digits.
const readAll = `
import json, sys
with open(sys.argv[1], encoding='utf-8') as f:
    rows = [json.loads(line, parse_float=lambda d: 'digits ' + d, parse_int=lambda d: 'digits ' + d) for line in f]
json.dump(rows, sys.stdout)
`

func TestPythonReadsTheSameValues(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	pieces := []string{"a", `"`, `\`, "\n", "\r", "\t", "\x01", "\x7f", "é", "মে", "\u2028", "\u0085", "😀", "{", "}", ","}
	rows := [][]string{}
	for range 1000 {
		text := ""
		for range random.IntN(8) {
			text += pieces[random.IntN(len(pieces))]
		}
		rows = append(rows, []string{text, fmt.Sprintf("%d%018d.%04d0", random.IntN(9)+1, random.Int64N(1e18), random.IntN(1e4)), fmt.Sprintf(`[ %d , {"k" : null} ]`, random.IntN(100))})
	}
	file, _, err := write(layout(field("text", tabular.OIDText, tabular.Text), field("n", tabular.OIDNumeric, tabular.Decimal), field("doc", tabular.OIDJSON, tabular.JSON)), rows...)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "python3", "-c", readAll, path)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("python3 (Debian package python3): %v\n%s", err, &stderr)
	}
	var got []struct {
		Text string
		N    string
		Doc  []any
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != len(rows) {
		t.Fatalf("%d rows of %d, %v", len(got), len(rows), err)
	}
	for i, row := range rows {
		first, _, _ := strings.Cut(strings.TrimPrefix(row[2], "[ "), " ")
		if got[i].Text != row[0] || got[i].N != "digits "+row[1] || len(got[i].Doc) != 2 || got[i].Doc[0] != "digits "+first {
			t.Fatalf("%q became %+v", row, got[i])
		}
	}
}
