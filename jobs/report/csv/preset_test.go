package csv_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/report/csv"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// example is a file that must come out byte for byte, with its warnings.
type example struct {
	name     string
	layout   *tabular.Layout
	locale   string
	zone     string
	rows     [][]string
	want     string
	warnings []tabular.Warning
}

func (x example) run(t *testing.T) {
	t.Parallel()
	if x.locale != "" {
		x.layout.Locale = localeOf(t, x.locale)
	}
	if x.zone != "" {
		x.layout.Zone = zoneOf(t, x.zone)
	}
	got, warnings := mustWrite(t, x.layout, x.rows...)
	if got != x.want {
		t.Errorf("got  %q\nwant %q", got, x.want)
	}
	if !reflect.DeepEqual(warnings, x.warnings) {
		t.Errorf("got %+v, want %+v", warnings, x.warnings)
	}
}

func localeOf(t *testing.T, name string) tabular.Locale {
	t.Helper()
	l, ok := tabular.LocaleByName(name)
	if !ok {
		t.Fatalf("no locale %s", name)
	}
	return l
}

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func warning(column string, note tabular.Note, rows ...int64) []tabular.Warning {
	return []tabular.Warning{{Format: "csv", Column: column, Kind: string(note), Count: int64(len(rows)), Rows: rows}}
}

const (
	data  = tabular.Data
	sheet = tabular.Spreadsheet
	bom   = "\xef\xbb\xbf"
)

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

// TestPresets goes through the table of the two presets, line by line.
func TestPresets(t *testing.T) {
	t.Parallel()
	kinds := []tabular.Field{field("i", tabular.OIDInt8, tabular.Integer), field("d", tabular.OIDNumeric, tabular.Decimal), field("m", tabular.OIDNumeric, tabular.Money),
		field("p", tabular.OIDNumeric, tabular.Percent), field("f", tabular.OIDFloat8, tabular.Decimal), field("c", tabular.OIDText, tabular.Code), field("t", tabular.OIDText, tabular.Text)}
	kindRow := []string{"-7", "1234.50", "-0.01", "0.125", "1e-05", "1.5", "2.5"}
	states := map[string]string{"new": "Neu", "paid": "Bezahlt; geliefert"}
	allNull := append(texts("a", "b"), field("n", tabular.OIDInt4, tabular.Integer), field("o", tabular.OIDBool, tabular.Boolean))
	stamps := []tabular.Field{field("at", tabular.OIDTimestampTZ, tabular.Timestamp), field("local", tabular.OIDTimestamp, tabular.Timestamp), field("day", tabular.OIDDate, tabular.Date)}
	stampRow := []string{"2026-07-01 14:30:00.25+02", "2026-07-01 09:00:00.5", "2026-07-01"}
	instants := stamps[:1:1]
	rest := []tabular.Field{field("doc", tabular.OIDJSONB, tabular.JSON), arrayField("list", tabular.OIDInt4), field("raw", tabular.OIDBytea, tabular.Plain), field("span", tabular.OIDInterval, tabular.Plain)}
	restRow := []string{`{"a": 1, "b": "x"}`, "{1,NULL,3}", `\x00ff`, "-1 days +02:00:00"}
	for _, x := range []example{
		{name: "encoding, line end, header: data", layout: layout(data, texts("a", "ü")...), rows: [][]string{{"é", "x\r\ny"}}, want: "\"a\",\"ü\"\né,\"x\r\ny\"\n"},
		{name: "encoding, line end, header: spreadsheet", layout: layout(sheet, texts("a", "ü")...), rows: [][]string{{"é", "x\r\ny"}, {"a\rb", "a\nb"}}, want: bom + "\"a\",\"ü\"\r\né,\"x\r\ny\"\r\n\"a\rb\",\"a\nb\"\r\n"},
		{name: "zero rows: data", layout: layout(data, texts("a")...), want: "\"a\"\n"},
		{name: "zero rows: spreadsheet", layout: layout(sheet, texts("a")...), want: bom + "\"a\"\r\n"},
		{name: "numbers: data", layout: layout(data, kinds...), locale: "en-US", rows: [][]string{kindRow}, want: `"i","d","m","p","f","c","t"` + "\n-7,1234.50,-0.01,0.125,1e-05,1.5,2.5\n"},
		{name: "numbers: de-DE", layout: layout(sheet, kinds...), locale: "de-DE", rows: [][]string{kindRow}, want: bom + `"i";"d";"m";"p";"f";"c";"t"` + "\r\n-7;1234,50;-0,01;0,125;1e-05;1.5;2.5\r\n"},
		{name: "numbers: en-US", layout: layout(sheet, kinds...), locale: "en-US", rows: [][]string{kindRow}, want: bom + `"i","d","m","p","f","c","t"` + "\r\n-7,1234.50,-0.01,0.125,1e-05,1.5,2.5\r\n"},
		{name: "numbers: de-CH", layout: layout(sheet, kinds[:2]...), locale: "de-CH", rows: [][]string{{"1", "1.5"}}, want: bom + "\"i\";\"d\"\r\n1;1.5\r\n"},
		{name: "NULL, empty text: data", layout: layout(data, allNull...), rows: [][]string{{null, "", null, null}}, want: "\"a\",\"b\",\"n\",\"o\"\n,\"\",,\n"},
		{name: "NULL, empty text: spreadsheet", layout: layout(sheet, allNull...), rows: [][]string{{null, "", null, null}}, want: bom + "\"a\",\"b\",\"n\",\"o\"\r\n,,,\r\n"},
		{name: "booleans: data", layout: layout(data, field("o", tabular.OIDBool, tabular.Boolean)), rows: [][]string{{"t"}, {"f"}}, want: "\"o\"\ntrue\nfalse\n"},
		{name: "booleans: de-DE", layout: layout(sheet, field("o", tabular.OIDBool, tabular.Boolean)), locale: "de-DE", rows: [][]string{{"t"}, {"f"}}, want: bom + "\"o\"\r\nWAHR\r\nFALSCH\r\n"},
		{name: "booleans: no locale", layout: layout(sheet, field("o", tabular.OIDBool, tabular.Boolean)), rows: [][]string{{"t"}, {"false"}}, want: bom + "\"o\"\r\ntrue\r\nfalse\r\n"},
		{name: "times: data", layout: layout(data, stamps...), zone: "Europe/Berlin", rows: [][]string{stampRow}, want: "\"at\",\"local\",\"day\"\n2026-07-01T14:30:00.25+02:00,2026-07-01 09:00:00.5,2026-07-01\n"},
		{name: "times: spreadsheet", layout: layout(sheet, stamps...), zone: "Europe/Berlin", rows: [][]string{stampRow}, want: bom + "\"at (Europe/Berlin)\",\"local\",\"day\"\r\n2026-07-01 14:30:00.25,2026-07-01 09:00:00.5,2026-07-01\r\n"},
		{name: "times: de-DE", layout: layout(sheet, stamps...), locale: "de-DE", zone: "Europe/Berlin", rows: [][]string{stampRow}, want: bom + "\"at (Europe/Berlin)\";\"local\";\"day\"\r\n2026-07-01 14:30:00,25;2026-07-01 09:00:00,5;2026-07-01\r\n"},
		{name: "times: no zone is UTC", layout: layout(sheet, instants...), rows: [][]string{{"2026-07-01 12:30:00+00"}}, want: bom + "\"at (UTC)\"\r\n2026-07-01 12:30:00\r\n"},
		{name: "times that cannot be: data", layout: layout(data, instants...), rows: [][]string{{"infinity"}, {"0044-03-15 10:00:00+00 BC"}, {"-infinity"}}, want: "\"at\"\ninfinity\n0044-03-15 10:00:00+00 BC\n-infinity\n", warnings: warning("at", tabular.NoteTimeAsText, 1, 2, 3)},
		{name: "times that cannot be: spreadsheet", layout: layout(sheet, instants...), rows: [][]string{{"infinity"}, {"1800-01-01 00:53:28+00:53:28"}}, want: bom + "\"at (UTC)\"\r\ninfinity\r\n1800-01-01 00:53:28+00:53:28\r\n", warnings: warning("at", tabular.NoteTimeAsText, 1, 2)},
		{name: "long integers, codes: data", layout: layout(data, field("id", tabular.OIDInt8, tabular.Integer), field("zip", tabular.OIDText, tabular.Code)), rows: [][]string{{"352776136104522888", "02138"}}, want: "\"id\",\"zip\"\n352776136104522888,02138\n"},
		{name: "long integers, codes: spreadsheet", layout: layout(sheet, field("zip", tabular.OIDText, tabular.Code), field("id", tabular.OIDInt8, tabular.Integer)), rows: [][]string{{"02138", "352776136104522888"}, {"00", "123456789012345"}, {"1", "-1234567890123456"}, {"2", "120000000000000000"}},
			want: bom + "\"zip\",\"id\"\r\n02138,352776136104522888\r\n00,123456789012345\r\n1,-1234567890123456\r\n2,120000000000000000\r\n", warnings: warning("id", tabular.NoteLongDigits, 1, 3)},
		{name: "long codes: spreadsheet", layout: layout(sheet, field("card", tabular.OIDText, tabular.Code)), rows: [][]string{{"4111111111111111"}, {"4111-1111-1111-1111"}, {"0000000000000000123"}}, want: bom + "\"card\"\r\n4111111111111111\r\n4111-1111-1111-1111\r\n0000000000000000123\r\n", warnings: warning("card", tabular.NoteLongDigits, 1)},
		{name: "formulas: data", layout: layout(data, texts("a")...), rows: [][]string{{"=1+1"}, {"-5"}, {"+49 30 123"}}, want: "\"a\"\n=1+1\n-5\n+49 30 123\n", warnings: warning("a", tabular.NoteFormula, 1, 3)},
		{name: "formulas: spreadsheet", layout: layout(sheet, texts("a")...), rows: [][]string{{"=1+1"}, {"-5"}, {"+49 30 123"}}, want: bom + "\"a\"\r\n'=1+1\r\n-5\r\n'+49 30 123\r\n", warnings: warning("a", tabular.NoteGuarded, 1, 3)},
		{name: "numbers are no formulas: spreadsheet", layout: layout(sheet, kinds[:5]...), locale: "fr-FR", rows: [][]string{{"-1", "-1.5", "+2.5", "-0.5", "-1e-05"}}, want: bom + `"i";"d";"m";"p";"f"` + "\r\n-1;-1,5;+2,5;-0,5;-1e-05\r\n"},
		{name: "JSON, array, bytea, interval: data", layout: layout(data, rest...), rows: [][]string{restRow}, want: `"doc","list","raw","span"` + "\n" + `"{""a"":1,""b"":""x""}","[1,null,3]",\x00ff,-1 days +02:00:00` + "\n"},
		{name: "JSON, array, bytea, interval: spreadsheet", layout: layout(sheet, rest...), locale: "it-IT", rows: [][]string{restRow}, want: bom + `"doc";"list";"raw";"span"` + "\r\n" + `"{""a"":1,""b"":""x""}";[1,null,3];\x00ff;-1 days +02:00:00` + "\r\n"},
		{name: "enum, code: data", layout: layout(data, enumField("state", nil)), rows: [][]string{{"paid"}}, want: "\"state\"\npaid\n"},
		{name: "enum, label: spreadsheet", layout: layout(sheet, enumField("state", states)), locale: "de-DE", rows: [][]string{{"new"}, {"paid"}, {"lost"}, {"=x()"}}, want: bom + "\"state\"\r\nNeu\r\n\"Bezahlt; geliefert\"\r\nlost\r\n'=x()\r\n",
			warnings: append(warning("state", tabular.NoteGuarded, 4), warning("state", tabular.NoteNoLabel, 3, 4)...)},
		{name: "delimiter by choice: data", layout: &tabular.Layout{Preset: data, Fields: layout(data, texts("a", "b")...).Fields, Locale: tabular.Locale{Delimiter: '\t', DecimalMark: ',', True: "JA"}}, rows: [][]string{{"x,y", "x\ty"}}, want: "\"a\"\t\"b\"\nx,y\t\"x\ty\"\n"},
		{name: "a mark that is the delimiter", layout: &tabular.Layout{Preset: sheet, Fields: layout(sheet, kinds[:2]...).Fields, Locale: tabular.Locale{Delimiter: ',', DecimalMark: ',', True: "a,b"}}, rows: [][]string{{"1", "1.5"}, {"2", "2"}}, want: bom + "\"i\",\"d\"\r\n1,\"1,5\"\r\n2,2\r\n"},
		{name: "array bounds", layout: layout(data, arrayField("list", tabular.OIDInt4), field("x", 0, tabular.Text)), rows: [][]string{{"[2:3]={1,2}", "y"}}, want: "\"list\",\"x\"\n\"[1,2]\",y\n", warnings: warning("list", tabular.NoteBounds, 1)},
	} {
		t.Run(x.name, x.run)
	}
}

// TestHeadersAreKeysOrLabels: programs get names, people labels.
func TestHeadersAreKeysOrLabels(t *testing.T) {
	t.Parallel()
	for preset, want := range map[tabular.Preset]string{data: "\"ordered_at\",\"a\"\"b\",\"raw\"\n", sheet: bom + "\"Ordered at (Asia/Tokyo)\",\"A \"\"B\"\"\",\"raw\"\r\n"} {
		l := layout(preset, field("ordered_at", tabular.OIDTimestampTZ, tabular.Timestamp), field(`a"b`, tabular.OIDText, tabular.Text),
			field("raw", tabular.OIDTimestampTZ, tabular.Text)) // with its offset, so that no zone need be named
		l.Zone = zoneOf(t, "Asia/Tokyo")
		l.Fields[0].Label, l.Fields[1].Label = "Ordered at", `A "B"`
		if got, _ := mustWrite(t, l); got != want {
			t.Errorf("%s: got %q", preset, got)
		}
	}
}

// TestIndexPicksTheValue: hidden columns are in the rows, and enums may be there twice.
func TestIndexPicksTheValue(t *testing.T) {
	t.Parallel()
	l := layout(data, field("b", tabular.OIDText, tabular.Text), field("state", 16999, tabular.Enum), enumField("state_label", map[string]string{"n": "New"}))
	l.Fields[0].Index, l.Fields[1].Index, l.Fields[2].Index = 2, 1, 1
	if got, _ := mustWrite(t, l, []string{"hidden", "n", "x"}, []string{"hidden", null, "y"}); got != "\"b\",\"state\",\"state_label\"\nx,n,New\ny,,\n" {
		t.Errorf("got %q", got)
	}
}

func TestOneColumnHasNoBlankLine(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"a"}, {null}, {""}, {`\N`}, {`\.`}, {`\..`}}
	for _, x := range []example{
		{name: "data", layout: layout(data, texts("x")...), rows: rows, want: "\"x\"\na\n\\N\n\"\"\n\"\\N\"\n\"\\.\"\n\\..\n", warnings: warning("x", tabular.NoteNullMarker, 2)},
		{name: "spreadsheet", layout: layout(sheet, texts("x")...), rows: rows, want: bom + "\"x\"\r\na\r\n\"\"\r\n\"\"\r\n\\N\r\n\\.\r\n\\..\r\n"},
		{name: "numbers", layout: layout(sheet, field("x", tabular.OIDInt4, tabular.Integer)), rows: [][]string{{null}, {"1"}}, want: bom + "\"x\"\r\n\"\"\r\n1\r\n"},
		{name: "empty label", layout: layout(sheet, enumField("x", map[string]string{"a": ""})), rows: [][]string{{"a"}}, want: bom + "\"x\"\r\n\"\"\r\n"},
	} {
		t.Run(x.name, x.run)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	f := csv.Format()
	if f.Name != "csv" || f.MediaType != "text/csv; charset=utf-8" || !f.Compressible || f.New == nil {
		t.Errorf("got %+v", f)
	}
}

func TestLayoutsThatNoReaderTakesApart(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*tabular.Layout){
		`delimiter: "x" cannot stand between fields: use a comma, a semicolon, a TAB or |`:  func(l *tabular.Layout) { l.Locale.Delimiter = 'x' },
		`delimiter: "\"" cannot stand between fields: use a comma, a semicolon, a TAB or |`: func(l *tabular.Layout) { l.Locale.Delimiter = '"' },
		`decimal mark: ";" is none: use a point or a comma`:                                 func(l *tabular.Layout) { l.Locale.DecimalMark = ';' },
		`preset: "excel" is unknown: use data or spreadsheet`:                               func(l *tabular.Layout) { l.Preset = "excel" },
	} {
		l := layout(data, texts("a")...)
		change(l)
		if file, _, err := write(l); err == nil || err.Error() != want || file != "" {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestStrictFails(t *testing.T) {
	t.Parallel()
	berlin := zoneOf(t, "Europe/Berlin")
	for name, l := range map[string]*tabular.Layout{
		"2024-10-27 02:30:00+01": layout(sheet, field("x", tabular.OIDTimestampTZ, tabular.Timestamp)),
		"infinity":               layout(data, field("x", tabular.OIDTimestampTZ, tabular.Timestamp)),
		"[0:0]={1}":              layout(data, arrayField("x", tabular.OIDInt4)),
	} {
		l.Strict, l.Zone = true, berlin
		if _, _, err := write(l, []string{name}); err == nil || !strings.HasPrefix(err.Error(), `row 1, column "x": `) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := layout(sheet, texts("x")...)
	l.Strict = true
	if got, _, err := write(l, []string{"=1+1"}); err != nil || !strings.Contains(got, "'=1+1") {
		t.Errorf("guarding loses nothing: %q, %v", got, err)
	}
}
