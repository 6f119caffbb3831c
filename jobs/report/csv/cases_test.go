package csv_test

import (
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// TestCases: the numbers are those of the cases that users reported elsewhere, as
// this project collected them. (23, rows lost between pages, is no matter of a
// format.)
func TestCases(t *testing.T) {
	t.Parallel()
	instant := field("at", tabular.OIDTimestampTZ, tabular.Timestamp)
	autumn := [][]string{{"2024-10-27 02:00:00+02"}, {"2024-10-27 02:30:00+02"}, {"2024-10-27 02:00:00+01"}, {"2024-10-27 02:30:00+01"}, {"2024-10-27 03:00:00+01"}}
	choice := map[string]string{"7f3a": "Oak, old"}
	for _, x := range []example{
		{name: "1 quotes in headers and values are doubled", layout: layout(data, texts(`header_""_"`)...), rows: [][]string{{`value_"_`}}, want: "\"header_\"\"\"\"_\"\"\"\n\"value_\"\"_\"\n"},
		{name: "1 for a spreadsheet", layout: layout(sheet, texts(`header_""_"`)...), rows: [][]string{{`value_"_`}}, want: bom + "\"header_\"\"\"\"_\"\"\"\r\n\"value_\"\"_\"\r\n"},
		{name: "3 codes keep their zeros", layout: layout(data, field("zip", tabular.OIDText, tabular.Code), field("n", tabular.OIDText, tabular.Text)), rows: [][]string{{"02138", "007"}}, want: "\"zip\",\"n\"\n02138,007\n"},
		{name: "3 for a spreadsheet", layout: layout(sheet, field("zip", tabular.OIDText, tabular.Code)), rows: [][]string{{"02138"}}, want: bom + "\"zip\"\r\n02138\r\n"},
		{name: "4 long integers keep their digits", layout: layout(data, field("id", tabular.OIDInt8, tabular.Integer)), rows: [][]string{{"352776136104522888"}}, want: "\"id\"\n352776136104522888\n"},
		{name: "4 for a spreadsheet, with a warning", layout: layout(sheet, field("id", tabular.OIDInt8, tabular.Integer)), rows: [][]string{{"352776136104522888"}}, want: bom + "\"id\"\r\n352776136104522888\r\n", warnings: warning("id", tabular.NoteLongDigits, 1)},
		{name: "5 accents behind a byte order mark", layout: layout(sheet, texts("title")...), rows: [][]string{{"ç ã é ô"}}, want: "\xef\xbb\xbf\"title\"\r\nç ã é ô\r\n"},
		{name: "6 no byte order mark for programs", layout: layout(data, texts("id")...), rows: [][]string{{"ü"}}, want: "\"id\"\nü\n"},
		{name: "7 a German Excel splits at semicolons", layout: layout(sheet, texts("a", "b")...), locale: "de-DE", rows: [][]string{{"x,y", "x;y"}}, want: bom + "\"a\";\"b\"\r\nx,y;\"x;y\"\r\n"},
		{name: "8 a German Excel reads commas in numbers", layout: layout(sheet, field("name", tabular.OIDText, tabular.Text), field("score", tabular.OIDNumeric, tabular.Decimal)), locale: "de-DE", rows: [][]string{{"Doe, Ann", "1.33"}}, want: bom + "\"name\";\"score\"\r\nDoe, Ann;1,33\r\n"},
		{name: "8 names with commas stay in their column", layout: layout(data, field("name", tabular.OIDText, tabular.Text), field("score", tabular.OIDNumeric, tabular.Decimal)), rows: [][]string{{"Doe, Ann", "1.33"}}, want: "\"name\",\"score\"\n\"Doe, Ann\",1.33\n"},
		{name: "9 formulas are guarded", layout: layout(sheet, texts("a")...), rows: [][]string{{"=cmd|' /C calc'!A0"}, {"+1+1"}, {"-1+1"}, {"@SUM(1)"}, {"\t=1"}}, want: bom + "\"a\"\r\n'=cmd|' /C calc'!A0\r\n'+1+1\r\n'-1+1\r\n'@SUM(1)\r\n'\t=1\r\n", warnings: warning("a", tabular.NoteGuarded, 1, 2, 3, 4, 5)},
		{name: "9 behind a CR", layout: layout(sheet, texts("a")...), rows: [][]string{{"\r=1"}}, want: bom + "\"a\"\r\n\"'\r=1\"\r\n", warnings: warning("a", tabular.NoteGuarded, 1)},
		{name: "11 NULL, empty text and the word NULL differ", layout: layout(data, texts("n", "e", "s")...), rows: [][]string{{null, "", "NULL"}}, want: "\"n\",\"e\",\"s\"\n,\"\",NULL\n"},
		{name: "12 zero and false are not empty", layout: layout(data, field("used", tabular.OIDInt4, tabular.Integer), field("ok", tabular.OIDBool, tabular.Boolean), field("price", tabular.OIDNumeric, tabular.Money)), rows: [][]string{{"0", "f", "0.00"}, {"1", "t", "NaN"}}, want: "\"used\",\"ok\",\"price\"\n0,false,0.00\n1,true,NaN\n"},
		{name: "12 for a spreadsheet", layout: layout(sheet, field("used", tabular.OIDInt4, tabular.Integer), field("ok", tabular.OIDBool, tabular.Boolean)), locale: "fr-FR", rows: [][]string{{"0", "f"}}, want: bom + "\"used\";\"ok\"\r\n0;FAUX\r\n"},
		{name: "13 midnight is midnight in the zone of the report", layout: layout(sheet, instant), zone: "Asia/Bangkok", rows: [][]string{{"2026-01-31 00:00:00+07"}}, want: bom + "\"at (Asia/Bangkok)\"\r\n2026-01-31 00:00:00\r\n"},
		{name: "13 for programs", layout: layout(data, instant), zone: "Asia/Bangkok", rows: [][]string{{"2026-01-31 00:00:00+07"}}, want: "\"at\"\n2026-01-31T00:00:00+07:00\n"},
		{name: "15 the repeated hour of autumn has offsets", layout: layout(data, instant), zone: "Europe/Berlin", rows: autumn, want: "\"at\"\n2024-10-27T02:00:00+02:00\n2024-10-27T02:30:00+02:00\n2024-10-27T02:00:00+01:00\n2024-10-27T02:30:00+01:00\n2024-10-27T03:00:00+01:00\n"},
		{name: "15 for a spreadsheet, with a warning", layout: layout(sheet, instant), zone: "Europe/Berlin", rows: autumn, want: bom + "\"at (Europe/Berlin)\"\r\n2024-10-27 02:00:00\r\n2024-10-27 02:30:00\r\n2024-10-27 02:00:00\r\n2024-10-27 02:30:00\r\n2024-10-27 03:00:00\r\n", warnings: warning("at", tabular.NoteAmbiguousTime, 1, 2, 3, 4)},
		{name: "16 jsonb is compact JSON", layout: layout(data, field("doc", tabular.OIDJSONB, tabular.JSON), field("n", tabular.OIDJSON, tabular.JSON)), rows: [][]string{{`{"a": [1, null], "b": "x"}`, "-5"}}, want: "\"doc\",\"n\"\n\"{\"\"a\"\":[1,null],\"\"b\"\":\"\"x\"\"}\",-5\n"},
		{name: "17 bytea is hex", layout: layout(data, field("data", tabular.OIDBytea, tabular.Plain)), rows: [][]string{{`\x` + strings.Repeat("5c", 32)}}, want: "\"data\"\n\\x" + strings.Repeat("5c", 32) + "\n"},
		{name: "18 arrays are JSON", layout: layout(data, arrayField("list", tabular.OIDInt4), arrayField("texts", tabular.OIDText)), rows: [][]string{{"{1,2}", `{"a b",NULL}`}}, want: "\"list\",\"texts\"\n\"[1,2]\",\"[\"\"a b\"\",null]\"\n"},
		{name: "19 codes or labels", layout: func() *tabular.Layout {
			l := layout(data, field("tree", 16999, tabular.Enum), enumField("tree_label", choice))
			l.Fields[1].Index = 0
			return l
		}(), rows: [][]string{{"7f3a"}}, want: "\"tree\",\"tree_label\"\n7f3a,\"Oak, old\"\n"},
		{name: "21 zero rows have a header", layout: layout(data, texts("a", "b")...), want: "\"a\",\"b\"\n"},
		{name: "trap: CRLF rows keep a lone CR", layout: layout(sheet, texts("a", "b")...), rows: [][]string{{"x\ry", "\r"}}, want: bom + "\"a\",\"b\"\r\n\"x\ry\",\"\r\"\r\n"},
		{name: "trap: an empty value alone is a row", layout: layout(sheet, texts("a")...), rows: [][]string{{""}}, want: bom + "\"a\"\r\n\"\"\r\n"},
	} {
		t.Run(x.name, x.run)
	}
}
