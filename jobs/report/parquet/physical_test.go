package parquet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// typeCase is a column, and what DuckDB reads from it. A nil is NULL.
type typeCase struct {
	name   string
	field  tabular.Field
	ddType string
	in     []any
	want   []any
	note   tabular.Note // of every value that changed
}

func field(oid uint32, kind tabular.Kind) tabular.Field {
	f := tabular.Field{Column: tabular.Column{OID: oid}, Kind: kind, Decimals: -1}
	if kind == "" {
		f.Kind = tabular.DefaultKind(f.Column)
	}
	return f
}

func numeric(precision, scale int) tabular.Field {
	f := field(tabular.OIDNumeric, "")
	f.Precision, f.Scale = precision, scale
	return f
}

func declared(kind tabular.Kind, decimals int) tabular.Field {
	f := field(tabular.OIDNumeric, kind)
	f.Decimals = decimals
	return f
}

func array(elem uint32) tabular.Field {
	f := tabular.Field{Column: tabular.Column{OID: 1007, Elem: elem}, Kind: tabular.JSON, Decimals: -1}
	return f
}

func labelled(labels map[string]string) tabular.Field {
	f := field(90001, tabular.Enum)
	f.Labels = labels
	return f
}

func same(v ...any) (in, want []any) { return v, v }

func typeCases() []typeCase {
	cases := append(numberCases(), timeCases()...)
	cases = append(cases, textCases()...)
	add := func(name string, f tabular.Field, dd string, values ...any) {
		in, want := same(values...)
		cases = append(cases, typeCase{name: name, field: f, ddType: dd, in: in, want: want})
	}
	add("int2", field(tabular.OIDInt2, ""), "SMALLINT", "-32768", "32767", nil, "0")
	add("int4", field(tabular.OIDInt4, ""), "INTEGER", "-2147483648", "2147483647", nil, "0")
	add("int8", field(tabular.OIDInt8, ""), "BIGINT", "-9223372036854775808", "9223372036854775807", nil, "352776136104522888")
	add("oid", field(tabular.OIDOID, ""), "BIGINT", "0", "4294967295", nil)
	add("code on integers", field(tabular.OIDInt8, tabular.Code), "VARCHAR", "352776136104522888", "-1", nil)
	add("text on a date", field(tabular.OIDDate, tabular.Text), "VARCHAR", "infinity", "2026-01-31", nil)
	add("uuid", field(tabular.OIDUUID, ""), "UUID", "00000000-0000-0000-0000-000000000000", nil, "ffffffff-ffff-ffff-ffff-ffffffffffff", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
	return cases
}

func numberCases() []typeCase {
	nines := strings.Repeat("9", 38)
	return []typeCase{
		{name: "bool", field: field(tabular.OIDBool, ""), ddType: "BOOLEAN", in: []any{"t", "f", nil, "t"}, want: []any{"true", "false", nil, "true"}},
		{name: "float4", field: field(tabular.OIDFloat4, ""), ddType: "FLOAT", in: []any{"NaN", "Infinity", "-Infinity", "-0", "1.5", nil}, want: []any{"nan", "inf", "-inf", "-0.0", "1.5", nil}},
		{name: "float8", field: field(tabular.OIDFloat8, ""), ddType: "DOUBLE", in: []any{"NaN", "Infinity", "-Infinity", "-0", "1.7976931348623157e+308", "5e-324", nil}, want: []any{"nan", "inf", "-inf", "-0.0", "1.7976931348623157e+308", "5e-324", nil}},
		{name: "numeric(9,2)", field: numeric(9, 2), ddType: "DECIMAL(9,2)", in: []any{"-9999999.99", "9999999.99", "0.00", "-0.01", nil, "7", "1.5000"}, want: []any{"-9999999.99", "9999999.99", "0.00", "-0.01", nil, "7.00", "1.50"}},
		{name: "numeric(18,4)", field: numeric(18, 4), ddType: "DECIMAL(18,4)", in: []any{"-99999999999999.9999", "99999999999999.9999", nil}, want: []any{"-99999999999999.9999", "99999999999999.9999", nil}},
		{name: "numeric(38,0)", field: numeric(38, 0), ddType: "DECIMAL(38,0)", in: []any{nines, "-" + nines, "-1", "0", nil}, want: []any{nines, "-" + nines, "-1", "0", nil}},
		{name: "numeric(19,19)", field: numeric(19, 19), ddType: "DECIMAL(19,19)", in: []any{"0.9999999999999999999", "-0.0000000000000000001"}, want: []any{".9999999999999999999", "-.0000000000000000001"}},
		{name: "numeric(3,5)", field: numeric(3, 5), ddType: "DECIMAL(5,5)", in: []any{"0.00999", "-0.00001"}, want: []any{".00999", "-.00001"}},
		{name: "numeric(3,-2)", field: numeric(3, -2), ddType: "DECIMAL(5,0)", in: []any{"99900", "-100"}, want: []any{"99900", "-100"}},
		{name: "numeric(12,2) NaN", field: numeric(12, 2), ddType: "DECIMAL(12,2)", in: []any{"NaN", "1.00", "Infinity", "-Infinity"}, want: []any{nil, "1.00", nil, nil}, note: tabular.NoteNoValue},
		{name: "numeric", field: field(tabular.OIDNumeric, ""), ddType: "VARCHAR", in: []any{"1.10", "1.1", "NaN", nil, "-" + nines + nines + ".5", "Infinity"}, want: []any{"1.10", "1.1", "NaN", nil, "-" + nines + nines + ".5", "Infinity"}},
		{name: "numeric(39,1)", field: numeric(39, 1), ddType: "VARCHAR", in: []any{"1.5", nines + ".5"}, want: []any{"1.5", nines + ".5"}},
		{name: "money with two decimals", field: declared(tabular.Money, 2), ddType: "DECIMAL(38,2)", in: []any{"12.5", "-0.01", "1000000000000000000000"}, want: []any{"12.50", "-0.01", "1000000000000000000000.00"}},
		{name: "percent with one decimal", field: declared(tabular.Percent, 1), ddType: "DECIMAL(38,3)", in: []any{"0.125", "1"}, want: []any{"0.125", "1.000"}},
	}
}

func timeCases() []typeCase {
	return []typeCase{
		{name: "date", field: field(tabular.OIDDate, ""), ddType: "DATE", in: []any{"1970-01-01", "1969-12-31", "0044-03-15 BC", "9999-12-31", nil, "5874897-12-31", "2024-02-29"}, want: []any{"1970-01-01", "1969-12-31", "0044-03-15 (BC)", "9999-12-31", nil, "5874897-12-31", "2024-02-29"}},
		{name: "date infinity", field: field(tabular.OIDDate, ""), ddType: "DATE", in: []any{"infinity", "-infinity", "1600-03-01"}, want: []any{nil, nil, "1600-03-01"}, note: tabular.NoteNoValue},
		{name: "timestamptz", field: field(tabular.OIDTimestampTZ, ""), ddType: "TIMESTAMP WITH TIME ZONE", in: []any{"2026-01-31 09:30:05.123456+07", "1969-12-31 23:59:59.999999+00", nil, "1883-11-18 12:03:57-04:56:02", "0001-12-31 23:59:59-08 BC", "294246-12-31 23:59:59+00"}, want: []any{"2026-01-31 02:30:05.123456+00", "1969-12-31 23:59:59.999999+00", nil, "1883-11-18 16:59:59+00", "0001-01-01 07:59:59+00", "294246-12-31 23:59:59+00"}},
		{name: "timestamptz out of reach", field: field(tabular.OIDTimestampTZ, ""), ddType: "TIMESTAMP WITH TIME ZONE", in: []any{"infinity", "-infinity", "294276-12-31 23:59:59+00"}, want: []any{nil, nil, nil}, note: tabular.NoteNoValue},
		{name: "timestamp", field: field(tabular.OIDTimestamp, ""), ddType: "TIMESTAMP", in: []any{"2024-10-27 02:30:00", "1969-12-31 23:59:59.5", nil, "4713-01-01 00:00:00 BC"}, want: []any{"2024-10-27 02:30:00", "1969-12-31 23:59:59.5", nil, "4713-01-01 (BC) 00:00:00"}},
		{name: "timestamp out of reach", field: field(tabular.OIDTimestamp, ""), ddType: "TIMESTAMP", in: []any{"infinity", "294276-12-31 23:59:59"}, want: []any{nil, nil}, note: tabular.NoteNoValue},
		{name: "time", field: field(tabular.OIDTime, ""), ddType: "TIME", in: []any{"00:00:00", "23:59:59.999999", nil, "09:30:00.5"}, want: []any{"00:00:00", "23:59:59.999999", nil, "09:30:00.5"}},
		{name: "time 24:00", field: field(tabular.OIDTime, ""), ddType: "TIME", in: []any{"24:00:00", "12:00:00"}, want: []any{nil, "12:00:00"}, note: tabular.NoteNoValue},
		{name: "timetz", field: field(tabular.OIDTimeTZ, ""), ddType: "VARCHAR", in: []any{"09:30:00+05:30"}, want: []any{"09:30:00+05:30"}},
		{name: "interval", field: field(tabular.OIDInterval, ""), ddType: "VARCHAR", in: []any{"1 mon -3 days +04:05:06"}, want: []any{"1 mon -3 days +04:05:06"}},
	}
}

func textCases() []typeCase {
	long := strings.Repeat("long text, ", 40_000)
	return []typeCase{
		{name: "text", field: field(tabular.OIDText, ""), ddType: "VARCHAR", in: []any{"", nil, "NULL", "a,\"b\"\r\nc\t", "=1+1", "02138", "শুভ 🎉", long}, want: []any{"", nil, "NULL", "a,\"b\"\r\nc\t", "=1+1", "02138", "শুভ 🎉", long}},
		{name: "json", field: field(tabular.OIDJSON, ""), ddType: "JSON", in: []any{"{ \"a\" : [1.0,\t2] ,\n\"b\": null}", nil, "\"x\"", "null"}, want: []any{`{"a":[1.0,2],"b":null}`, nil, `"x"`, "null"}},
		{name: "jsonb", field: field(tabular.OIDJSONB, ""), ddType: "JSON", in: []any{`{"a": {"b": "c d"}}`}, want: []any{`{"a":{"b":"c d"}}`}},
		{name: "int4[]", field: array(tabular.OIDInt4), ddType: "JSON", in: []any{"{1,NULL,3}", "{}", nil, "{{1,2},{3,4}}"}, want: []any{"[1,null,3]", "[]", nil, "[[1,2],[3,4]]"}},
		{name: "text[]", field: array(tabular.OIDText), ddType: "JSON", in: []any{`{a,"b c","NULL","d\"e"}`}, want: []any{`["a","b c","NULL","d\"e"]`}},
		{name: "int4[] from 2", field: array(tabular.OIDInt4), ddType: "JSON", in: []any{"[2:3]={5,6}"}, want: []any{"[5,6]"}, note: tabular.NoteBounds},
		{name: "bytea", field: field(tabular.OIDBytea, ""), ddType: "BLOB", in: []any{`\x`, nil, `\x00ff80`, `\x414243`}, want: []any{"", nil, `\x00\xFF\x80`, "ABC"}},
		{name: "enum", field: field(90001, tabular.Enum), ddType: "VARCHAR", in: []any{"open", nil}, want: []any{"open", nil}},
		{name: "enum with labels", field: labelled(map[string]string{"o": "Open", "c": ""}), ddType: "VARCHAR", in: []any{"o", "c", nil}, want: []any{"Open", "", nil}},
		{name: "enum without a label", field: labelled(map[string]string{"o": "Open"}), ddType: "VARCHAR", in: []any{"x"}, want: []any{"x"}, note: tabular.NoteNoLabel},
		{name: "inet", field: field(869, ""), ddType: "VARCHAR", in: []any{"::1/128"}, want: []any{"::1/128"}},
		{name: "money", field: field(tabular.OIDMoney, ""), ddType: "VARCHAR", in: []any{"-$1,234.50"}, want: []any{"-$1,234.50"}},
	}
}

// TestTypes has DuckDB read a file in which every case is a column.
func TestTypes(t *testing.T) {
	t.Parallel()
	cases := typeCases()
	l, rows := layoutOf(), [][][]byte(nil)
	for i, c := range cases {
		c.field.Index, c.field.Key, c.field.Name = i, c.name, c.name
		l.Fields = append(l.Fields, c.field)
		for len(rows) < len(c.in) {
			rows = append(rows, make([][]byte, len(cases)))
		}
		for n, v := range c.in {
			if s, ok := v.(string); ok {
				rows[n][i] = []byte(s)
			}
		}
	}
	file, warnings := mustWrite(t, l, rows...)
	from := quote(save(t, file))
	answers := duckdb(t, "SET TimeZone='UTC'", "DESCRIBE FROM "+from, "SELECT CAST(COLUMNS(*) AS VARCHAR) FROM "+from)
	for i, c := range cases {
		if got := *answers[1].Rows[i][1]; got != c.ddType {
			t.Errorf("%s: type %s, want %s", c.name, got, c.ddType)
		}
		for n, want := range c.want {
			if got := answers[2].Rows[n][i]; show(got) != show(want) {
				t.Errorf("%s: %v was read as %s, want %s", c.name, c.in[n], show(got), show(want))
			}
		}
		checkNotes(t, c, warnings)
	}
}

func show(v any) string {
	switch v := v.(type) {
	case *string:
		if v != nil {
			return fmt.Sprintf("%.100q", *v)
		}
	case string:
		return fmt.Sprintf("%.100q", v)
	}
	return "NULL"
}

// checkNotes expects one note for every value of the case that became another one.
func checkNotes(t *testing.T, c typeCase, warnings []tabular.Warning) {
	t.Helper()
	at := slices.IndexFunc(warnings, func(w tabular.Warning) bool { return w.Column == c.name })
	if c.note == "" {
		if at >= 0 {
			t.Errorf("%s: unexpected %+v", c.name, warnings[at])
		}
		return
	}
	want := int64(0)
	for i := range c.in {
		if c.want[i] == nil || c.note != tabular.NoteNoValue {
			want++
		}
	}
	if at < 0 || warnings[at].Kind != string(c.note) || warnings[at].Count != want {
		t.Errorf("%s: want %d of %s in %+v", c.name, want, c.note, warnings)
	}
}
