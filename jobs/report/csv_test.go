package report_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
)

// OIDs of pg_type that the tests use.
const (
	oidBool, oidBytea, oidInt8, oidInt4, oidText   = 16, 17, 20, 23, 25
	oidFloat8, oidTimestamp, oidTimestamptz        = 701, 1114, 1184
	oidInterval, oidNumeric, oidJSONB, oidTextList = 1186, 1700, 3802, 1009
)

// table is a source of rows that are already there.
type table struct {
	columns []report.Column
	rows    [][][]byte
	at      int
	err     error
}

func (s *table) Columns() []report.Column { return s.columns }
func (s *table) Next() bool               { s.at++; return s.at <= len(s.rows) }
func (s *table) Values() [][]byte         { return s.rows[s.at-1] }
func (s *table) Err() error               { return s.err }

// null stands for NULL in the rows of tests.
const null = "\x00NULL"

func columns(oid uint32, names ...string) []report.Column {
	var all []report.Column
	for _, name := range names {
		all = append(all, report.Column{Name: name, OID: oid})
	}
	return all
}

func newTable(columns []report.Column, rows ...[]string) *table {
	s := &table{columns: columns}
	for _, row := range rows {
		var values [][]byte
		for _, v := range row {
			if v == null {
				values = append(values, nil)
			} else {
				values = append(values, []byte(v))
			}
		}
		s.rows = append(s.rows, values)
	}
	return s
}

func writeCSV(t *testing.T, rows report.Rows) (string, report.Summary) {
	t.Helper()
	var out bytes.Buffer
	summary, err := report.WriteCSV(t.Context(), &out, rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), summary
}

// The numbers are those of the cases that users reported elsewhere, as this
// project collected them.
func TestCSVCases(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		columns []report.Column
		rows    [][]string
		want    string
	}{
		{"1 quotes in headers and values are doubled", columns(oidText, `header_""_"`), [][]string{{`value_"_`}}, "\"header_\"\"\"\"_\"\"\"\n\"value_\"\"_\"\n"},
		{"3 codes keep their zeros", columns(oidText, "zip", "n"), [][]string{{"02138", "007"}}, "\"zip\",\"n\"\n02138,007\n"},
		{"4 long integers keep their digits", columns(oidInt8, "id"), [][]string{{"352776136104522888"}}, "\"id\"\n352776136104522888\n"},
		{"6 no byte order mark", columns(oidText, "id"), [][]string{{"ü"}}, "\"id\"\nü\n"},
		{"11 NULL, empty text and the word NULL differ", columns(oidText, "n", "e", "s"), [][]string{{null, "", "NULL"}}, "\"n\",\"e\",\"s\"\n,\"\",NULL\n"},
		{"12 zero and false are not empty", []report.Column{{Name: "used", OID: oidInt4}, {Name: "ok", OID: oidBool}, {Name: "price", OID: oidNumeric}},
			[][]string{{"0", "f", "0.00"}, {"1", "t", "NaN"}}, "\"used\",\"ok\",\"price\"\n0,false,0.00\n1,true,NaN\n"},
		{"15 the repeated hour of autumn", columns(oidTimestamptz, "at"),
			[][]string{{"2024-10-27 02:00:00+02"}, {"2024-10-27 02:30:00+02"}, {"2024-10-27 02:00:00+01"}, {"2024-10-27 02:30:00+01"}, {"2024-10-27 01:30:00.123+00"}},
			"\"at\"\n2024-10-27T02:00:00+02:00\n2024-10-27T02:30:00+02:00\n2024-10-27T02:00:00+01:00\n2024-10-27T02:30:00+01:00\n2024-10-27T01:30:00.123+00:00\n"},
		{"16 jsonb is JSON", columns(oidJSONB, "doc", "n"), [][]string{{`{"a": [1, null], "b": "x"}`, "-5"}}, "\"doc\",\"n\"\n\"{\"\"a\"\": [1, null], \"\"b\"\": \"\"x\"\"}\",-5\n"},
		{"17 bytea is hex", columns(oidBytea, "data"), [][]string{{`\x00ff5c4e`}}, "\"data\"\n\\x00ff5c4e\n"},
		{"21 zero rows have a header", columns(oidText, "a", "b"), nil, "\"a\",\"b\"\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, summary := writeCSV(t, newTable(tt.columns, tt.rows...))
			if got != tt.want || summary.Rows != int64(len(tt.rows)) || len(summary.Warnings) != 0 {
				t.Errorf("got %q, %+v\nwant %q", got, summary, tt.want)
			}
		})
	}
}

func TestFieldsAreQuotedWhenReadersNeedIt(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"a": "a", "a b": "a b", "a,b": `"a,b"`, `a"b`: `"a""b"`, `"`: `""""`, "a\nb": "\"a\nb\"", "a\rb": "\"a\rb\"", "a\r\nb": "\"a\r\nb\"",
		" a": `" a"`, "a ": `"a "`, " ": `" "`, "\ta": "\"\ta\"", "a\v": "\"a\v\"", "a\tb": "a\tb", "": `""`, null: "", "NULL": "NULL",
		`\N`: `\N`, `\.`: `\.`, `\`: `\`, ";": ";", "'": "'", "ü,": `"ü,"`, "\u00a0x": "\u00a0x", `{"a","b c"}`: `"{""a"",""b c""}"`,
		`""`: `""""""`, "a\"\"\n": "\"a\"\"\"\"\n\"", strings.Repeat("x", 200_000): strings.Repeat("x", 200_000),
	} {
		got, _ := writeCSV(t, newTable(columns(oidText, "x", "y"), []string{value, "z"}))
		if got != "\"x\",\"y\"\n"+want+",z\n" {
			t.Errorf("%.20q: got %.60q", value, got)
		}
	}
}

func TestOneColumnHasNoBlankLine(t *testing.T) {
	t.Parallel()
	got, summary := writeCSV(t, newTable(columns(oidText, "x"), []string{"a"}, []string{null}, []string{""}, []string{`\N`}, []string{`\.`}, []string{null}, []string{`\..`}))
	if want := "\"x\"\na\n\\N\n\"\"\n\"\\N\"\n\"\\.\"\n\\N\n\\..\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := []report.Warning{{Column: "x", Kind: report.WarnNullMarker, Count: 2, Rows: []int64{2, 6}}}
	if !reflect.DeepEqual(summary.Warnings, want) || summary.Rows != 7 {
		t.Errorf("got %+v", summary)
	}
	records, err := csv.NewReader(strings.NewReader(got)).ReadAll()
	if err != nil || len(records) != 8 {
		t.Errorf("a common reader found %d records, %v", len(records), err)
	}
}

func TestTimestamps(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"2026-01-01 10:00:00.123+00": "2026-01-01T10:00:00.123+00:00", "2026-01-01 10:00:00+05:30": "2026-01-01T10:00:00+05:30",
		"2026-01-01 10:00:00.123456-03": "2026-01-01T10:00:00.123456-03:00", "0001-01-01 00:00:00+00": "0001-01-01T00:00:00+00:00",
	} {
		got, summary := writeCSV(t, newTable(columns(oidTimestamptz, "at", "y"), []string{value, null}))
		if got != "\"at\",\"y\"\n"+want+",\n" || len(summary.Warnings) != 0 {
			t.Errorf("%s: got %q, %+v", value, got, summary)
		}
	}
	kept := []string{"infinity", "-infinity", "0044-03-15 10:00:00+00 BC", "12026-01-01 10:00:00+00", "1890-01-01 00:00:00-00:01:15",
		"2026-01-01T10:00:00Z", "2026-01-01 10:00:00", "2026-01-01 10:00:00.+00", "2026-01-01 10:00:00+0x"}
	rows := [][]string{{"2026-01-01 10:00:00+00"}}
	for _, value := range kept {
		rows = append(rows, []string{value})
	}
	got, summary := writeCSV(t, newTable(columns(oidTimestamptz, "at"), rows...))
	if want := "\"at\"\n2026-01-01T10:00:00+00:00\n" + strings.Join(kept, "\n") + "\n"; got != want {
		t.Errorf("got %s", got)
	}
	want := []report.Warning{{Column: "at", Kind: report.WarnTimestampText, Count: 9, Rows: []int64{2, 3, 4, 5, 6}}}
	if !reflect.DeepEqual(summary.Warnings, want) {
		t.Errorf("got %+v", summary.Warnings)
	}
	got, summary = writeCSV(t, newTable(columns(oidTimestamp, "at"), []string{"2026-01-01 10:00:00.5"}, []string{"infinity"}))
	if got != "\"at\"\n2026-01-01 10:00:00.5\ninfinity\n" || len(summary.Warnings) != 0 {
		t.Errorf("without a zone: got %q, %+v", got, summary)
	}
}

func TestFormulasAreCountedAndKept(t *testing.T) {
	t.Parallel()
	formulas := []string{"=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "\rx", "-", "+4930123456", "-12.50", "-1e5", "-.5", "+", "=", "-.", "-1e", "--1", "-1.2.3", "a=b", " =1"}
	var rows [][]string
	for _, f := range formulas {
		rows = append(rows, []string{"x", f})
	}
	got, summary := writeCSV(t, newTable(columns(oidText, "a", "b"), rows...))
	// Not counted: numbers, signs alone, and what does not begin with one.
	want := []report.Warning{{Column: "b", Kind: report.WarnFormula, Count: 10, Rows: []int64{1, 2, 3, 4, 5}}}
	if !reflect.DeepEqual(summary.Warnings, want) {
		t.Errorf("got %+v", summary.Warnings)
	}
	_, read, err := readStrictly(got)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range formulas {
		if *read[i][1] != f {
			t.Errorf("%q was written as %q", f, *read[i][1])
		}
	}
	for _, oid := range []uint32{oidNumeric, oidInt8, oidFloat8, oidInterval, oidJSONB} {
		if _, summary := writeCSV(t, newTable(columns(oid, "a", "b"), []string{"-1 days", "-2"})); len(summary.Warnings) != 0 {
			t.Errorf("type %d: got %+v", oid, summary.Warnings)
		}
	}
	for _, oid := range []uint32{0, 1043, 16999, oidTextList} {
		if _, summary := writeCSV(t, newTable(columns(oid, "a"), []string{"=1"})); len(summary.Warnings) != 1 {
			t.Errorf("type %d: got %+v", oid, summary.Warnings)
		}
	}
}

func TestWarningsGoByColumn(t *testing.T) {
	t.Parallel()
	cols := append(columns(oidTimestamptz, "z"), columns(oidText, "y", "x")...)
	_, summary := writeCSV(t, newTable(cols, []string{"now", "", "=a"}, []string{null, "=b", "=c"}, []string{"infinity", null, null}))
	want := []report.Warning{
		{Column: "z", Kind: report.WarnTimestampText, Count: 2, Rows: []int64{1, 3}},
		{Column: "y", Kind: report.WarnFormula, Count: 1, Rows: []int64{2}},
		{Column: "x", Kind: report.WarnFormula, Count: 2, Rows: []int64{1, 2}},
	}
	if !reflect.DeepEqual(summary.Warnings, want) {
		t.Errorf("got %+v", summary.Warnings)
	}
}

func TestWrongValuesNameRowAndColumn(t *testing.T) {
	t.Parallel()
	cols := append(columns(oidText, "note"), columns(oidBool, "ok")...)
	for want, row := range map[string][]string{
		`row 2, column "note": value "a\xffb" is not UTF-8 text`: {"a\xffb", "t"},
		`row 2, column "note": value "a\x00b" is not UTF-8 text`: {"a\x00b", "t"},
		`row 2, column "ok": value "yes" is not t or f`:          {"a", "yes"},
		`row 2, column "ok": value "" is not t or f`:             {"a", ""},
		`row 2 has 1 values for 2 columns`:                       {"a"},
		`row 2 has 3 values for 2 columns`:                       {"a", "t", "x"},
	} {
		var out bytes.Buffer
		_, err := report.WriteCSV(t.Context(), &out, newTable(cols, []string{"ü", "true"}, row), nil)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestColumnsMustBeToldApart(t *testing.T) {
	t.Parallel()
	for want, cols := range map[string][]report.Column{
		`columns[2]: "id" is also the name of columns[0]: give each its own with AS`: columns(oidText, "id", "ID", "id"),
		`columns: the report has none: select at least one`:                          nil,
		`columns[1]: is no name: give the column one with AS`:                        columns(oidText, "a", ""),
		"columns[0]: \"\\xff\" is no name: give the column one with AS":              columns(oidText, "\xff"),
	} {
		var out bytes.Buffer
		_, err := report.WriteCSV(t.Context(), &out, newTable(cols), nil)
		if _, ok := errors.AsType[*invalid.Error](err); !ok || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if out.Len() > 0 {
			t.Errorf("%q was written", out.String())
		}
	}
}

// readStrictly reads the data preset and nothing else. A nil field is NULL.
func readStrictly(file string) (header []string, rows [][]*string, err error) {
	for len(file) > 0 {
		before := file
		var record []*string
		for more := true; more; {
			var field *string
			if field, more, file, err = readField(file); err != nil {
				return nil, nil, err
			}
			record = append(record, field)
		}
		line := record[0]
		switch {
		case len(record) > 1:
		case line == nil:
			return nil, nil, errors.New("blank line")
		case *line == `\N` && !strings.HasSuffix(before[:len(before)-len(file)], "\"\n"):
			record[0] = nil
		}
		rows = append(rows, record)
	}
	if len(rows) == 0 {
		return nil, nil, errors.New("no header")
	}
	for _, name := range rows[0] {
		header = append(header, *name)
	}
	return header, rows[1:], nil
}

func readField(s string) (field *string, more bool, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ",\"\r\n")
		if end < 0 || s[end] == '"' || s[end] == '\r' {
			return nil, false, "", fmt.Errorf("unquoted field in %q", s)
		}
		if v := s[:end]; v != "" {
			field = &v
		}
		return field, s[end] == ',', s[end+1:], nil
	}
	var v strings.Builder
	for s = s[1:]; ; s = s[1:] {
		before, after, found := strings.Cut(s, `"`)
		if !found || after == "" {
			return nil, false, "", fmt.Errorf("open quote before %q", s)
		}
		v.WriteString(before)
		s = after
		if s[0] != '"' {
			break
		}
		v.WriteByte('"')
	}
	text := v.String()
	if s[0] != ',' && s[0] != '\n' {
		return nil, false, "", fmt.Errorf("text behind a quote: %q", s)
	}
	return &text, s[0] == ',', s[1:], nil
}

// FuzzWriteCSV: any rows in, the same rows out, by a strict reader that tells
// NULL from empty text and by encoding/csv.
func FuzzWriteCSV(f *testing.F) {
	f.Add(1, "a\x1f\x1e\x1f\\N\x1f\\.\x1f \x1f")
	f.Add(3, "a,b\x1f\x1e\x1f\"\x1f\r\n\x1f=\x1fü\x1f\n")
	f.Add(2, "")
	f.Add(2, "\\N\x1fx")
	f.Fuzz(func(t *testing.T, width int, data string) {
		if width < 1 || width > 5 {
			return
		}
		// \x1f separates fields, a field of \x1e is NULL.
		var rows [][]string
		for i, v := range strings.Split(data, "\x1f") {
			if v == "\x1e" {
				v = null
			}
			if i%width == 0 {
				rows = append(rows, nil)
			}
			rows[i/width] = append(rows[i/width], v)
		}
		for last := len(rows) - 1; len(rows[last]) < width; {
			rows[last] = append(rows[last], null)
		}
		source := newTable(columns(oidText, "a", "b", "c", "d", "e")[:width], rows...)
		var out bytes.Buffer
		summary, err := report.WriteCSV(t.Context(), &out, source, nil)
		if err != nil {
			if strings.ToValidUTF8(data, "") != data || strings.Contains(data, "\x00") {
				return
			}
			t.Fatal(err)
		}
		compare(t, out.String(), rows, summary)
	})
}

func compare(t *testing.T, file string, rows [][]string, summary report.Summary) {
	t.Helper()
	_, read, err := readStrictly(file)
	if err != nil || len(read) != len(rows) || summary.Rows != int64(len(rows)) {
		t.Fatalf("%q: read %d rows, %v; wrote %d; want %d", file, len(read), err, summary.Rows, len(rows))
	}
	common, err := csv.NewReader(strings.NewReader(file)).ReadAll()
	if err != nil || len(common) != len(rows)+1 {
		t.Fatalf("%q: encoding/csv read %d records, %v", file, len(common), err)
	}
	for i, row := range rows {
		for j, want := range row {
			got := null
			if read[i][j] != nil {
				got = *read[i][j]
			}
			if got != want {
				t.Errorf("row %d field %d: %q became %q", i, j, want, got)
			}
			if want == null {
				want = map[bool]string{true: `\N`}[len(row) == 1]
			}
			// encoding/csv turns CRLF inside a field into LF.
			if got := common[i+1][j]; got != strings.ReplaceAll(want, "\r\n", "\n") {
				t.Errorf("row %d field %d: encoding/csv read %q for %q", i, j, got, want)
			}
		}
	}
}
