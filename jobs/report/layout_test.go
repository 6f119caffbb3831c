package report_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// result has a column of most kinds.
func result() []tabular.Column {
	return []tabular.Column{
		{Name: "id", OID: tabular.OIDInt8, Type: "bigint"},
		{Name: "status", OID: tabular.OIDText, Type: "text"},
		{Name: "total", OID: tabular.OIDNumeric, Type: "numeric(12,3)", Precision: 12, Scale: 3},
		{Name: "rate", OID: tabular.OIDNumeric, Type: "numeric"},
		{Name: "at", OID: tabular.OIDTimestampTZ, Type: "timestamp with time zone"},
		{Name: "tags", OID: 1009, Elem: tabular.OIDText, Type: "text[]"},
		{Name: "odd", OID: 99999},
	}
}

// layouts are those of a choice, each field in one line.
func layouts(t *testing.T, front string, c report.Choice) ([]*tabular.Layout, []string) {
	t.Helper()
	all, err := parse(t, "a", front+"select 1").Layouts(result(), c)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, l := range all {
		var fields []string
		for _, f := range l.Fields {
			fields = append(fields, fmt.Sprintf("%d:%s|%s|%s|%s|%d|%d|%v", f.Index, f.Key, f.Label, f.Kind, f.Currency, f.Decimals, f.Width, f.Labels))
		}
		texts = append(texts, strings.Join(fields, "\n"))
	}
	return all, texts
}

func TestLayoutWithoutColumnLines(t *testing.T) {
	t.Parallel()
	all, texts := layouts(t, "-- title: All of it\n-- strict: yes\n", report.Choice{})
	const want = `0:id|id|integer||-1|0|map[]
1:status|status|text||-1|0|map[]
2:total|total|decimal||3|0|map[]
3:rate|rate|decimal||-1|0|map[]
4:at|at|timestamp||-1|0|map[]
5:tags|tags|json||-1|0|map[]
6:odd|odd|text||-1|0|map[]`
	if len(texts) != 1 || texts[0] != want {
		t.Errorf("got %q", texts)
	}
	l := all[0]
	if l.Title != "All of it" || l.Preset != tabular.Data || l.Zone.String() != "UTC" || !l.Strict || l.Locale != (tabular.Locale{Name: "en-US", Delimiter: ',', DecimalMark: '.', True: "true", False: "false"}) {
		t.Errorf("got %+v", l)
	}
}

func TestLayoutOfAChoice(t *testing.T) {
	t.Parallel()
	no := false
	all, _ := layouts(t, "-- strict: yes\n", report.Choice{Preset: "spreadsheet", Locale: "de-DE", Zone: "Asia/Dhaka", Delimiter: "|", Strict: &no})
	if l := all[0]; l.Preset != tabular.Spreadsheet || l.Zone.String() != "Asia/Dhaka" || l.Strict || l.Locale != (tabular.Locale{Name: "de-DE", Delimiter: '|', DecimalMark: ',', True: "WAHR", False: "FALSCH"}) {
		t.Errorf("got %+v", l)
	}
	all, _ = layouts(t, "-- locale: de-DE\n", report.Choice{Delimiter: "tab"})
	if l := all[0]; l.Locale != (tabular.Locale{Name: "en-US", Delimiter: '\t', DecimalMark: '.', True: "true", False: "false"}) {
		t.Errorf("the preset data has the locale %+v", l.Locale)
	}
}

func TestLayoutOfColumnLines(t *testing.T) {
	t.Parallel()
	const front = `-- column: id code width 9 "No."
-- column: status enum(new "New", paid) "No."
-- column: total money(JPY)
-- column: rate percent decimals 1
-- column: at hidden
-- column: odd code "No."
`
	const both = `0:id|No.|code||-1|9|map[]
1:status|No. (2)|enum||-1|0|%s
2:total|total|money|JPY|0|0|map[]
3:rate|rate|percent||1|0|map[]
5:tags|tags|json||-1|0|map[]
6:odd|No. (3)|code||-1|0|map[]`
	codes, labels := fmt.Sprintf(both, "map[]"), fmt.Sprintf(both, "map[new:New paid:paid]")
	_, texts := layouts(t, front, report.Choice{Formats: []string{"csv", "csv.gz", "jsonl", "jsonl.zst", "markdown", "parquet", "xlsx"}})
	for i, want := range []string{codes, codes, codes, codes, codes, codes, labels} {
		if texts[i] != want {
			t.Errorf("data, file %d: got %s", i, texts[i])
		}
	}
	_, texts = layouts(t, front, report.Choice{Preset: "spreadsheet", Formats: []string{"csv", "csv.gz", "jsonl", "jsonl.zst", "markdown", "parquet", "xlsx"}})
	for i, want := range []string{labels, labels, codes, codes, labels, codes, labels} {
		if texts[i] != want {
			t.Errorf("spreadsheet, file %d: got %s", i, texts[i])
		}
	}
}

func TestLayoutShowsAnEnumAsAsked(t *testing.T) {
	t.Parallel()
	for show, want := range map[string]string{
		"show code":          "1:status|status|enum||-1|0|map[]",
		"show label":         "1:status|status|enum||-1|0|map[n:New]",
		"show both":          "1:status|status|enum||-1|0|map[]\n1:status_label|status_label|enum||-1|0|map[n:New]",
		`show both "Status"`: "1:status|Status|enum||-1|0|map[]\n1:status_label|Status (label)|enum||-1|0|map[n:New]",
	} {
		_, texts := layouts(t, "-- column: status enum(n \"New\") "+show+"\n", report.Choice{Formats: []string{"csv", "xlsx"}})
		for _, text := range texts {
			if !strings.Contains(text, "\n"+want+"\n2:") {
				t.Errorf("%s: got %s", show, text)
			}
		}
	}
	// Codes without labels are only the list of what there may be.
	_, texts := layouts(t, "-- column: status enum(n,p)\n", report.Choice{Formats: []string{"xlsx"}})
	if !strings.Contains(texts[0], "1:status|status|enum||-1|0|map[]") {
		t.Errorf("got %s", texts[0])
	}
}

// A boolean has the codes true and false, which no file spells as PostgreSQL does.
func TestLayoutOfABooleanWithLabels(t *testing.T) {
	t.Parallel()
	columns := []tabular.Column{{Name: "paid", OID: tabular.OIDBool, Type: "boolean"}}
	for show, want := range map[string]string{
		"show both":  "paid boolean map[], paid_label enum map[f:false t:Yes]",
		"show label": "paid enum map[f:false t:Yes]",
		"show code":  "paid boolean map[]",
	} {
		d := parse(t, "a", "-- column: paid enum(true \"Yes\", false) "+show+"\nselect 1")
		all, err := d.Layouts(columns, report.Choice{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range all[0].Fields {
			got = append(got, fmt.Sprintf("%s %s %v", f.Key, f.Kind, f.Labels))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got %v, want %s", show, got, want)
		}
	}
}

func TestDecimals(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"total decimal": 3, "total decimal(1)": 1, "total money": 3, "total money(EUR)": 2, "total money(KWD)": 3, "total money(JPY) decimals 4": 4,
		"total percent": 1, "total text": -1, "total code": -1, "rate decimal": -1, "rate money(UYW)": 4, "rate percent": -1, "id money(AFN)": 2, "id decimal": -1,
		"id money(XCG)": 2, "id money(IQD)": 3,
	} {
		all, _ := layouts(t, "-- column: "+line+"\n", report.Choice{})
		name, _, _ := strings.Cut(line, " ")
		for _, f := range all[0].Fields {
			if f.Key == name && f.Decimals != want {
				t.Errorf("%s: %d decimals, want %d", line, f.Decimals, want)
			}
		}
	}
}

func TestColumnLinesThatDoNotFitTheResult(t *testing.T) {
	t.Parallel()
	const front = `-- column: stats enum(a)
-- column: status integer
-- column: total date
-- column: tags text
-- column: odd timestamp
-- column: rate integer
`
	_, err := parse(t, "folder/a", front+"select 1").Layouts(result(), report.Choice{})
	const want = `folder/a.sql:1: column stats: the result has id, status, total, rate, at, tags, odd; did you mean status?
folder/a.sql:2: column status: kind integer does not fit the type text, which can be text, code, enum
folder/a.sql:3: column total: kind date does not fit the type numeric(12,3), which can be text, code, decimal, money, percent, enum
folder/a.sql:4: column tags: kind text does not fit the type text[], which can be json
folder/a.sql:5: column odd: kind timestamp does not fit the type with OID 99999, which can be text, code, enum
folder/a.sql:6: column rate: kind integer does not fit the type numeric, which can be text, code, decimal, money, percent, enum`
	var mistakes report.Mistakes
	if !errors.As(err, &mistakes) || err.Error() != want {
		t.Errorf("got %v", err)
	}
	columns := columns(tabular.OIDText, "a", "a_label")
	for front, want := range map[string]string{
		"-- column: a enum(x \"X\") show both\n":           "a.sql:1: column a: show both makes a column a_label, which the result has already: name that one otherwise",
		"-- column: a hidden\n-- column: a_label hidden\n": "a.sql:2: column a_label: every column is hidden: a file needs at least one",
	} {
		if _, err := parse(t, "a", front+"select 1").Layouts(columns, report.Choice{}); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// A message about a result of many columns stays one that people read.
func TestColumnLinesThatDoNotFitAWideResult(t *testing.T) {
	t.Parallel()
	columns := make([]tabular.Column, 1600)
	for i := range columns {
		columns[i] = tabular.Column{Name: fmt.Sprintf("column%d", i), OID: tabular.OIDInt8}
	}
	_, err := parse(t, "a", "-- column: kolumn1599 \"A\"\nselect 1").Layouts(columns, report.Choice{})
	if err == nil || len(err.Error()) > 400 || !strings.HasSuffix(err.Error(), "column19 and 1580 more; did you mean column1599?") {
		t.Errorf("got %v", err)
	}
}

func TestColumnsMustBeToldApart(t *testing.T) {
	t.Parallel()
	for want, cols := range map[string][]tabular.Column{
		`columns[2]: "id" is also the name of columns[0]: give each its own with AS`: columns(tabular.OIDText, "id", "ID", "id"),
		`columns: the report has none: select at least one`:                          nil,
		`columns[1]: is no name: give the column one with AS`:                        columns(tabular.OIDText, "a", ""),
		"columns[0]: \"\\xff\" is no name: give the column one with AS":              columns(tabular.OIDText, "\xff"),
	} {
		_, err := parse(t, "a", "-- column: x text\nselect 1").Layouts(cols, report.Choice{})
		if _, ok := errors.AsType[*invalid.Error](err); !ok || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// FuzzLayouts: whatever a front matter says, the fields of a layout can be told
// apart and are values of the rows.
func FuzzLayouts(f *testing.F) {
	f.Add("-- column: id code \"status\"\n-- column: status enum(a \"A\") show both \"id\"\n", "id", "status", "status (2)")
	f.Add("-- column: b \"a (2)\"\n-- column: c \"a\"", "a", "b", "c")
	f.Fuzz(func(t *testing.T, front, a, b, c string) {
		d, err := report.Parse("a.sql", []byte(front+"\nselect 1"))
		if err != nil {
			return
		}
		all, err := d.Layouts(columns(tabular.OIDText, a, b, c), report.Choice{Formats: []string{"csv", "xlsx"}})
		if err != nil {
			return
		}
		for _, l := range all {
			keys, labels := map[string]bool{}, map[string]bool{}
			for _, f := range l.Fields {
				if keys[f.Key] || labels[f.Label] || f.Label == "" || f.Index < 0 || f.Index > 2 {
					t.Errorf("%q: field %+v of %+v", front, f, l.Fields)
				}
				keys[f.Key], labels[f.Label] = true, true
			}
			if len(l.Fields) == 0 {
				t.Errorf("%q: no fields", front)
			}
		}
	})
}
