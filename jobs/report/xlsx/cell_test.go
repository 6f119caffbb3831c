package xlsx

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// sample is a value with the cell that it must become. What programs show for it
// is only said where it differs.
type sample struct {
	name   string
	field  tabular.Field
	value  string
	kind   string // n, b, inlineStr, or "" for no cell
	want   string // its text or number
	format string // number format; General when empty
	note   tabular.Note

	python string // what openpyxl reads, as the test's script prints it
	office string // what LibreOffice shows
}

func numeric(kind tabular.Kind, decimals int, currency string) tabular.Field {
	f := field(kind, tabular.OIDNumeric)
	f.Decimals, f.Currency = decimals, currency
	return f
}

func array(elem uint32) tabular.Field {
	f := field(tabular.JSON, 0)
	f.Elem = elem
	return f
}

func enum(labels map[string]string) tabular.Field {
	f := field(tabular.Enum, tabular.OIDText)
	f.Labels = labels
	return f
}

// samples are the rows of the table "data, spreadsheet, XLSX" and the cases of
// real reports, by their number in the collection.
func samples() []sample {
	text, code := field(tabular.Text, tabular.OIDText), field(tabular.Code, tabular.OIDText)
	integer, float := field(tabular.Integer, tabular.OIDInt8), field(tabular.Decimal, tabular.OIDFloat8)
	decimal := numeric(tabular.Decimal, -1, "")
	date, local, zoned := field(tabular.Date, tabular.OIDDate), field(tabular.Timestamp, tabular.OIDTimestamp), field(tabular.Timestamp, tabular.OIDTimestampTZ)
	boolean, plain := field(tabular.Boolean, tabular.OIDBool), field(tabular.Plain, tabular.OIDBytea)
	js := field(tabular.JSON, tabular.OIDJSONB)
	seconds, fractions := "yyyy\\-mm\\-dd\\ hh:mm:ss", "yyyy\\-mm\\-dd\\ hh:mm:ss.000"
	status := map[string]string{"S": "Shipped", "7": "007", "E": ""}
	return []sample{
		{name: "NULL text", field: text, value: null},
		{name: "empty text", field: text, value: ""},
		{name: "NULL number", field: integer, value: null},
		{name: "true", field: boolean, value: "t", kind: "b", want: "1", python: "True", office: "TRUE"},
		{name: "false, case 12", field: boolean, value: "f", kind: "b", want: "0", python: "False", office: "FALSE"},

		{name: "integer", field: integer, value: "-42", kind: "n", want: "-42", format: "0"},
		{name: "integer of 15 digits", field: integer, value: "123456789012345", kind: "n", want: "123456789012345", format: "0"},
		{name: "integer of 16 digits", field: integer, value: "1234567890123456", kind: "inlineStr", want: "1234567890123456", format: "@", note: tabular.NoteAsText},
		{name: "bigint, case 4", field: integer, value: "352776136104522888", kind: "inlineStr", want: "352776136104522888", format: "@", note: tabular.NoteAsText},
		{name: "round integer that is a double", field: integer, value: "1000000000000000000", kind: "n", want: "1000000000000000000", format: "0"},
		{name: "decimal", field: decimal, value: "0.00", kind: "n", want: "0.00", python: "0", office: "0"},
		{name: "decimal of 17 digits", field: decimal, value: "0.12345678901234567", kind: "inlineStr", want: "0.12345678901234567", format: "@", note: tabular.NoteAsText},
		{name: "decimal with decimals", field: numeric(tabular.Decimal, 3, ""), value: "1234.5", kind: "n", want: "1234.5", format: "0.000", office: "1234.500"},
		{name: "decimal without", field: numeric(tabular.Decimal, 0, ""), value: "1234.5", kind: "n", want: "1234.5", format: "0", office: "1235"},
		{name: "huge numeric", field: decimal, value: "1" + strings.Repeat("0", 400), kind: "inlineStr", want: "1" + strings.Repeat("0", 400), format: "@", note: tabular.NoteAsText},
		{name: "tiny numeric", field: decimal, value: "0." + strings.Repeat("0", 320) + "1", kind: "inlineStr", want: "0." + strings.Repeat("0", 320) + "1", format: "@", note: tabular.NoteAsText},
		{name: "numeric NaN", field: decimal, value: "NaN", kind: "inlineStr", want: "NaN", format: "@", note: tabular.NoteAsText},
		{name: "numeric infinity", field: decimal, value: "-Infinity", kind: "inlineStr", want: "-Infinity", format: "@", note: tabular.NoteAsText},
		{name: "float", field: float, value: "1.5e-07", kind: "n", want: "1.5e-07", office: "0.00000015"},
		{name: "float with all its digits", field: float, value: "0.30000000000000004", kind: "n", want: "0.30000000000000004", office: "0.3"},
		{name: "float that Excel cannot reach", field: float, value: "1.5e+308", kind: "inlineStr", want: "1.5e+308", format: "@", note: tabular.NoteAsText},
		{name: "subnormal float", field: float, value: "5e-324", kind: "inlineStr", want: "5e-324", format: "@", note: tabular.NoteAsText},
		{name: "small numeric", field: decimal, value: "0." + strings.Repeat("0", 306) + "1", kind: "n", want: "0." + strings.Repeat("0", 306) + "1", office: "1E-307"},
		{name: "large float", field: float, value: "9.87e+306", kind: "n", want: "9.87e+306", office: "9.87E+306"},
		{name: "small float", field: float, value: "-1.5e-307", kind: "n", want: "-1.5e-307", office: "-1.5E-307"},
		{name: "large integer with zeros", field: decimal, value: "2" + strings.Repeat("0", 306) + ".50", kind: "inlineStr", want: "2" + strings.Repeat("0", 306) + ".50", format: "@", note: tabular.NoteAsText},
		{name: "float of another writer", field: float, value: "1E400", kind: "inlineStr", want: "1E400", format: "@", note: tabular.NoteAsText},
		{name: "exponent without end", field: float, value: "1e-99999999999999999999", kind: "inlineStr", want: "1e-99999999999999999999", format: "@", note: tabular.NoteAsText},
		{name: "decimal zero with many digits", field: decimal, value: "0." + strings.Repeat("0", 400), kind: "n", want: "0." + strings.Repeat("0", 400), python: "0", office: "0"},
		{name: "float zero", field: float, value: "0e0", kind: "n", want: "0e0", python: "0", office: "0"},
		{name: "money, case 29", field: numeric(tabular.Money, -1, ""), value: "1234567.5", kind: "n", want: "1234567.5", format: "#,##0.00", office: "1,234,567.50"},
		{name: "money of a currency", field: numeric(tabular.Money, -1, "EUR"), value: "-1234.5", kind: "n", want: "-1234.5", format: `#,##0.00\ [$EUR]`, office: "-1,234.50 EUR"},
		{name: "yen, case 39", field: numeric(tabular.Money, -1, "JPY"), value: "8", kind: "n", want: "8", format: `#,##0\ [$JPY]`, office: "8 JPY"},
		{name: "dinars, case 39", field: numeric(tabular.Money, -1, "KWD"), value: "8", kind: "n", want: "8", format: `#,##0.000\ [$KWD]`, office: "8.000 KWD"},
		{name: "forints have cents", field: numeric(tabular.Money, -1, "HUF"), value: "8", kind: "n", want: "8", format: `#,##0.00\ [$HUF]`, office: "8.00 HUF"},
		{name: "money with decimals", field: numeric(tabular.Money, 4, "USD"), value: "0.1234", kind: "n", want: "0.1234", format: `#,##0.0000\ [$USD]`, office: "0.1234 USD"},
		{name: "money over 15 digits", field: numeric(tabular.Money, 2, ""), value: "12345678901234.56", kind: "inlineStr", want: "12345678901234.56", format: "@", note: tabular.NoteAsText},
		{name: "percent", field: numeric(tabular.Percent, -1, ""), value: "0.12345", kind: "n", want: "0.12345", format: "0.0#############%", office: "12.345%"},
		{name: "percent with decimals", field: numeric(tabular.Percent, 1, ""), value: "0.5", kind: "n", want: "0.5", format: "0.0%", office: "50.0%"},

		{name: "ZIP code, case 3", field: code, value: "02138", kind: "inlineStr", want: "02138", format: "@"},
		{name: "long code", field: code, value: "352776136104522888", kind: "inlineStr", want: "352776136104522888", format: "@"},
		{name: "code of an integer column", field: field(tabular.Code, tabular.OIDInt8), value: "7", kind: "inlineStr", want: "7", format: "@"},
		{name: "text of digits", field: text, value: "007", kind: "inlineStr", want: "007"},

		{name: "date", field: date, value: "2026-01-31", kind: "n", want: "46053", format: `yyyy\-mm\-dd`, python: "2026-01-31T00:00:00", office: "2026-01-31"},
		{name: "first date", field: date, value: "1900-03-01", kind: "n", want: "61", format: `yyyy\-mm\-dd`, python: "1900-03-01T00:00:00", office: "1900-03-01"},
		{name: "last date", field: date, value: "9999-12-31", kind: "n", want: "2958465", format: `yyyy\-mm\-dd`, python: "9999-12-31T00:00:00", office: "9999-12-31"},
		{name: "leap day that Excel invented", field: date, value: "1900-02-28", kind: "inlineStr", want: "1900-02-28", format: "@", note: tabular.NoteTimeAsText},
		{name: "date of five digits", field: date, value: "10000-01-01", kind: "inlineStr", want: "10000-01-01", format: "@", note: tabular.NoteTimeAsText},
		{name: "date BC", field: date, value: "0044-03-15 BC", kind: "inlineStr", want: "0044-03-15 BC", format: "@", note: tabular.NoteTimeAsText},
		{name: "infinite date", field: date, value: "infinity", kind: "inlineStr", want: "infinity", format: "@", note: tabular.NoteTimeAsText},
		{name: "timestamp", field: local, value: "2026-01-31 09:30:00", kind: "n", want: "46053.395833333338", format: seconds, python: "2026-01-31T09:30:00", office: "2026-01-31 09:30:00"},
		{name: "timestamp with a fraction", field: local, value: "2026-01-31 09:30:00.125", kind: "n", want: "46053.395834780097", format: fractions, python: "2026-01-31T09:30:00.125000", office: "2026-01-31 09:30:00.125"},
		{name: "last second", field: local, value: "9999-12-31 23:59:59", kind: "n", want: "2958465.999988426159", format: seconds, python: "9999-12-31T23:59:59", office: "9999-12-31 23:59:59"},
		{name: "old timestamp", field: local, value: "1899-12-31 10:00:00", kind: "inlineStr", want: "1899-12-31T10:00:00", format: "@", note: tabular.NoteTimeAsText},
		{name: "timestamptz, case 13", field: zoned, value: "2026-01-31 00:00:00+07", kind: "n", want: "46053", format: seconds, python: "2026-01-31T00:00:00", office: "2026-01-31 00:00:00"},
		{name: "old timestamptz", field: zoned, value: "1850-01-01 12:00:00.5+07", kind: "inlineStr", want: "1850-01-01T12:00:00.5+07:00", format: "@", note: tabular.NoteTimeAsText},
		{name: "timestamptz of a mean time", field: zoned, value: "1850-01-01 12:00:00+06:42:04", kind: "inlineStr", want: "1850-01-01 12:00:00+06:42:04", format: "@", note: tabular.NoteTimeAsText},
		{name: "infinite timestamptz", field: zoned, value: "-infinity", kind: "inlineStr", want: "-infinity", format: "@", note: tabular.NoteTimeAsText},

		{name: "formula, case 9", field: text, value: "=cmd|' /C calc'!A0", kind: "inlineStr", want: "=cmd|' /C calc'!A0"},
		{name: "plus", field: text, value: "+1+1", kind: "inlineStr", want: "+1+1"},
		{name: "at", field: text, value: "@SUM(1)", kind: "inlineStr", want: "@SUM(1)"},
		{name: "JSON, case 16", field: js, value: `{"a": [1, 2.50], "b": "x  y"}`, kind: "inlineStr", want: `{"a":[1,2.50],"b":"x  y"}`},
		{name: "array, case 18", field: array(tabular.OIDText), value: `{a,NULL,"b \"c\""}`, kind: "inlineStr", want: `["a",null,"b \"c\""]`},
		{name: "array with bounds", field: array(tabular.OIDInt4), value: "[2:3]={5,6}", kind: "inlineStr", want: "[5,6]", note: tabular.NoteBounds},
		{name: "bytea, case 17", field: plain, value: `\x00ff10`, kind: "inlineStr", want: `\x00ff10`},
		{name: "label, case 19", field: enum(status), value: "S", kind: "inlineStr", want: "Shipped"},
		{name: "label of digits", field: enum(status), value: "7", kind: "inlineStr", want: "007"},
		{name: "empty label", field: enum(status), value: "E"},
		{name: "no label", field: enum(status), value: "Q", kind: "inlineStr", want: "Q", note: tabular.NoteNoLabel},
		{name: "code of an enum", field: enum(nil), value: "S", kind: "inlineStr", want: "S"},

		{name: "control character, case 26", field: text, value: "\u56fe\x14\u56fe", kind: "inlineStr", want: "\u56fe\uFFFD\u56fe", note: tabular.NoteReplaced},
		{name: "non-characters", field: text, value: "a\uFFFEb\uFFFFc\uFFFDd\uFEFF", kind: "inlineStr", want: "a\uFFFDb\uFFFDc\uFFFDd\uFEFF", note: tabular.NoteReplaced},
		{name: "replacement character of the source", field: text, value: "a\uFFFDb", kind: "inlineStr", want: "a\uFFFDb"},
		{name: "markup", field: text, value: `<b>"Tom" & 'Jerry'</b> ]]>`, kind: "inlineStr", want: `<b>"Tom" & 'Jerry'</b> ]]>`},
		{name: "escape", field: text, value: "_x0041_ _x0041_x0042_ _x00zz_ _x", kind: "inlineStr", want: "_x005F_x0041_ _x005F_x0041_x005F_x0042_ _x00zz_ _x", office: "_x0041_ _x0041_x0042_ _x00zz_ _x"},
		{name: "line ends", field: text, value: "a\r\nb\rc\nd", kind: "inlineStr", want: "a\r\nb\rc\nd", office: "a\nb\nc\nd"},
		{name: "white space", field: text, value: "  a  b\t", kind: "inlineStr", want: "  a  b\t"},
		{name: "only white space", field: text, value: " ", kind: "inlineStr", want: " "},
		{name: "line break at the end", field: text, value: "a\n", kind: "inlineStr", want: "a\n"},
		{name: "scripts", field: text, value: "মেসার্স 株式会社 😀 شركة", kind: "inlineStr", want: "মেসার্স 株式会社 😀 شركة"},
	}
}

// sampleFile has a column for each sample, in one row.
func sampleFile(tb testing.TB) ([]byte, []tabular.Warning) {
	all := samples()
	fields, row := make([]tabular.Field, len(all)), make([]string, len(all))
	for i, s := range all {
		fields[i], row[i] = s.field, s.value
		fields[i].Label = s.name
	}
	l := layoutOf(fields...)
	zone, err := time.LoadLocation("Asia/Bangkok")
	if err != nil {
		tb.Fatal(err)
	}
	l.Zone = zone
	return mustEncode(tb, l, 0, row)
}

func TestCells(t *testing.T) {
	t.Parallel()
	file, warnings := sampleFile(t)
	sheet := sheetOf(t, file, 1)
	codes, _ := formatsOf(t, file)
	notes := map[string]string{}
	for _, w := range warnings {
		notes[w.Column] += fmt.Sprint(w.Kind, w.Rows, w.Count)
	}
	for i, s := range samples() {
		c := sheet.find(letters(i) + "2")
		kind := c.T
		if kind == "" && c.R != "" {
			kind = "n"
		}
		format := cmp.Or(s.format, formatGeneral)
		if kind != s.kind || c.value() != s.want || codes[c.S] != format {
			t.Errorf("%s: %q became %+v of type %q with format %s, want %q of %q with %s", s.name, s.value, c, kind, codes[c.S], s.want, s.kind, format)
		}
		if spaced := strings.TrimSpace(s.want) != s.want; spaced != (c.Text.Space == "preserve") {
			t.Errorf("%s: xml:space is %q", s.name, c.Text.Space)
		}
		want := ""
		if s.note != "" {
			want = fmt.Sprint(string(s.note), []int64{1}, 1)
		}
		if got := notes[fmt.Sprintf("c%d", i+1)]; got != want {
			t.Errorf("%s: noted %q, want %q", s.name, got, want)
		}
	}
}

// A value that would change fails a strict file, and the same value alone.
func TestStrict(t *testing.T) {
	t.Parallel()
	for _, s := range samples() {
		l := layoutOf(s.field)
		l.Strict = true
		_, err := encode(new(strings.Builder), l, 0, []string{s.value})
		if loses := s.note != "" && s.note.Loses(); loses != (err != nil) {
			t.Errorf("%s: %v", s.name, err)
		}
		if err != nil && !strings.Contains(err.Error(), `row 1, column "c1"`) {
			t.Errorf("%s: the error does not say where: %v", s.name, err)
		}
	}
}

func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field       tabular.Field
		value, want string
	}{
		{field(tabular.Text, tabular.OIDText), "a\xffb", "is not UTF-8"},
		{field(tabular.Code, tabular.OIDText), "\xc3", "is not UTF-8"},
		{field(tabular.Integer, tabular.OIDInt4), "x", "is not a number"},
		{field(tabular.Integer, tabular.OIDInt4), "", "is not a number"},
		{field(tabular.Integer, tabular.OIDInt8), "1234567890123456x", "is not a number"},
		{field(tabular.Decimal, tabular.OIDFloat8), "1e999x", "is not a number"},
		{field(tabular.Decimal, tabular.OIDNumeric), "1,5", "is not a number"},
		{field(tabular.Boolean, tabular.OIDBool), "yes", "is not a boolean"},
		{field(tabular.Date, tabular.OIDDate), "2026-02-30", "writes for a date"},
		{field(tabular.Date, tabular.OIDDate), "2026-01-31 10:00:00", "writes for a date"},
		{field(tabular.Timestamp, tabular.OIDTimestamp), "2026-01-31 24:00:00", "writes for a timestamp"},
		{field(tabular.Timestamp, tabular.OIDTimestamp), "2026-01-31", "writes for a timestamp"},
		{field(tabular.Timestamp, tabular.OIDTimestampTZ), "2026-01-31 10:00:00", "writes for a timestamptz"},
		{field(tabular.JSON, tabular.OIDJSONB), "{", "is not what PostgreSQL writes"},
		{array(tabular.OIDInt4), "{1", "is not what PostgreSQL writes"},
	} {
		_, err := encode(new(strings.Builder), layoutOf(c.field), 0, []string{c.value})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `row 1, column "c1"`) {
			t.Errorf("%s %q: %v", c.field.Kind, c.value, err)
		}
	}
}

func TestAmbiguousTimes(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	l := layoutOf(field(tabular.Timestamp, tabular.OIDTimestampTZ), field(tabular.Timestamp, tabular.OIDTimestamp))
	l.Zone = zone
	var rows [][]string // case 15
	for _, v := range []string{"2024-10-27 01:59:59+02", "2024-10-27 02:00:00+02", "2024-10-27 02:30:00+02", "2024-10-27 02:00:00+01", "2024-10-27 02:30:00+01", "2024-10-27 03:00:00+01"} {
		rows = append(rows, []string{v, v[:19]})
	}
	file, warnings := mustEncode(t, l, 0, rows...)
	if got := noted(warnings); got != "c1:ambiguous_time×4@[2 3 4 5]" {
		t.Error(got)
	}
	if sheet := sheetOf(t, file, 1); sheet.find("A1").value() != "c1 (Europe/Berlin)" || sheet.find("B1").value() != "c2" || sheet.find("A3").V != "45592.083333333338" {
		t.Error(sheet.find("A1"), sheet.find("B1"), sheet.find("A3"))
	}
	l.Strict = true
	if _, err := encode(new(strings.Builder), l, 0, rows...); err == nil || !strings.Contains(err.Error(), "row 2") {
		t.Error(err)
	}
}

// The minor units that ISO 4217 gives, other than two.
func TestMinorUnits(t *testing.T) {
	t.Parallel()
	for digits, codes := range map[int]string{
		0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
		2: "EUR USD HUF IDR PKR COP INR BDT SAR CHF",
		3: "BHD IQD JOD KWD LYD OMR TND",
		4: "CLF UYW",
	} {
		for code := range strings.FieldsSeq(codes) {
			want := "#,##0"
			if digits > 0 {
				want += "." + strings.Repeat("0", digits)
			}
			f := numeric(tabular.Money, -1, code)
			if got := numberFormat(&f); got != want+`\ [$`+code+"]" {
				t.Errorf("%s: %s", code, got)
			}
		}
	}
}
