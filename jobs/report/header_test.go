package report_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

const settings = `-- param: shop text
-- format: xlsx , csv.gz
-- preset: spreadsheet
-- locale: de-de
-- zone: Europe/Berlin
-- strict: yes
-- tenant: shop
-- max_rows: 1000
-- timeout: 1m30s
select :shop`

func TestSettings(t *testing.T) {
	t.Parallel()
	d := parse(t, "a", settings)
	if !reflect.DeepEqual(d.Formats, []string{"csv.gz", "xlsx"}) || d.Preset != "spreadsheet" || d.Locale != "de-DE" || d.Zone != "Europe/Berlin" || !d.Strict ||
		d.Tenant != "shop" || d.Shared || d.Source != "" || d.MaxRows != 1000 || d.Timeout != 90*time.Second || d.File != "a.sql" || d.Body != "select :shop" {
		t.Errorf("got %+v", d)
	}
	d = parse(t, "a", "select 1")
	if !reflect.DeepEqual(d.Formats, []string{"csv"}) || d.Preset != "data" || d.Locale != "en-US" || d.Zone != "UTC" || d.Strict || d.Tenant != "" || d.Shared || d.MaxRows != 0 || d.Timeout != 0 {
		t.Errorf("without settings: got %+v", d)
	}
	if d = parse(t, "a", "-- tenant: shared\n-- strict: no\nselect 1"); !d.Shared || d.Tenant != "" || d.Strict {
		t.Errorf("got %+v", d)
	}
}

func TestSettingsNameTheirMistakes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"format: CSV":             `1: format "CSV": give names with commas between them, such as csv, xlsx, csv.gz`,
		"format: csv,,xlsx":       `1: format "": give names with commas between them, such as csv, xlsx, csv.gz`,
		"format: csv, csv":        `1: format csv is given twice`,
		"preset: spreadshet":      `1: preset "spreadshet" is no preset: there are data, spreadsheet; did you mean spreadsheet?`,
		"zone: Europe/Berln":      `1: zone "Europe/Berln" is no IANA time zone such as Europe/Berlin or UTC; did you mean Europe/Berlin?`,
		"zone: europe/berlin":     `1: zone "europe/berlin" is no IANA time zone such as Europe/Berlin or UTC; did you mean Europe/Berlin?`,
		"zone: Local":             `1: zone "Local" is no IANA time zone such as Europe/Berlin or UTC`,
		"zone: posix/Etc/UTC":     `1: zone "posix/Etc/UTC" is no IANA time zone such as Europe/Berlin or UTC`,
		"strict: true":            `1: strict "true": say yes or no`,
		"tenant: shop":            `1: tenant "shop" is no param: declare it with a line param: shop text, or say tenant: shared`,
		"tenant: Shared":          `1: tenant "Shared" is no param: declare it with a line param: Shared text, or say tenant: shared; did you mean shared?`,
		"source: My Shop":         `1: source "My Shop": begin with a letter, go on with a-z, 0-9, - and _, at most 63`,
		"max_rows: 0":             `1: max_rows "0": give a whole number from 1`,
		"max_rows: 1e6":           `1: max_rows "1e6": give a whole number from 1`,
		"timeout: 0s":             `1: timeout "0s": give a duration from 1ms to 24h, such as 90s or 10m`,
		"timeout: 10":             `1: timeout "10": give a duration from 1ms to 24h, such as 90s or 10m`,
		"timeout: 25h":            `1: timeout "25h": give a duration from 1ms to 24h, such as 90s or 10m`,
		"preset:":                 `1: preset has no value`,
		"zone: UTC\n-- zone: UTC": `2: zone is already given in line 1`,
	} {
		_, err := report.Parse("a.sql", []byte("-- "+line+"\nselect 1"))
		if err == nil || err.Error() != "a.sql:"+want {
			t.Errorf("%s\ngot  %v\nwant a.sql:%s", line, err, want)
		}
	}
	_, err := report.Parse("a.sql", []byte("-- locale: de_DE\nselect 1"))
	if err == nil || !strings.Contains(err.Error(), `a.sql:1: locale "de_DE" is no locale: there are `) || !strings.HasSuffix(err.Error(), "; did you mean de-DE?") {
		t.Errorf("got %v", err)
	}
}

func TestTenantParameters(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"-- tenant: t\n-- param: t text default x\nselect :t": "a.sql:2: param t comes from the tenant of the job: take its default away",
		"-- tenant: t\n-- param: t list(text)\nselect :t":     "a.sql:2: param t comes from the tenant of the job, which is one value: make it no list",
		"-- tenant: t\n-- param: t text\nselect 1":            "a.sql:2: param t is never used: write :t in the query, outside quotes and comments",
		"-- tenant: tt\n-- param: t text\nselect :t":          `a.sql:1: tenant "tt" is no param: declare it with a line param: tt text, or say tenant: shared; did you mean t?`,
	} {
		if _, err := report.Parse("a.sql", []byte(src)); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", src, err, want)
		}
	}
	if d := parse(t, "a", "-- tenant: t\n-- param: t text\nselect :t"); !d.Params[0].Required {
		t.Error("without its tenant the query would read the rows of all")
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	d := parse(t, "a", `-- column: id code width 12 "Order no."
-- column: total money(EUR)
-- column: yen money(JPY) decimals 1
-- column: any money
-- column: rate decimal(3) "Rate ""x"""
-- column: share percent decimals 1
-- column: "Größe (cm)" integer
-- column: note hidden
-- column: at "When"
-- column: state enum(new "New, and (fresh)", paid, "in transit" "On its way") show both "State"
-- column: plain enum(a,b) show code
select 1`)
	want := []report.ColumnSpec{
		{Name: "id", Kind: tabular.Code, Decimals: -1, Width: 12, Label: "Order no."},
		{Name: "total", Kind: tabular.Money, Currency: "EUR", Decimals: 2},
		{Name: "yen", Kind: tabular.Money, Currency: "JPY", Decimals: 1},
		{Name: "any", Kind: tabular.Money, Decimals: -1},
		{Name: "rate", Kind: tabular.Decimal, Decimals: 3, Label: `Rate "x"`},
		{Name: "share", Kind: tabular.Percent, Decimals: 1},
		{Name: "Größe (cm)", Kind: tabular.Integer, Decimals: -1},
		{Name: "note", Decimals: -1, Hidden: true},
		{Name: "at", Decimals: -1, Label: "When"},
		{Name: "state", Kind: tabular.Enum, Decimals: -1, Members: []report.Member{{Code: "new", Label: "New, and (fresh)"}, {Code: "paid"}, {Code: "in transit", Label: "On its way"}},
			Show: report.ShowBoth, Label: "State"},
		{Name: "plain", Kind: tabular.Enum, Decimals: -1, Members: []report.Member{{Code: "a"}, {Code: "b"}}, Show: report.ShowCode},
	}
	for i := range want {
		// The line is the package's own.
		if got, want := strip(d.Columns[i]), strip(want[i]); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	if len(d.Columns) != len(want) {
		t.Errorf("there are %d columns", len(d.Columns))
	}
}

// strip keeps the exported fields.
func strip(c report.ColumnSpec) (fields []any) {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			fields = append(fields, v.Field(i).Interface())
		}
	}
	return fields
}

func TestColumnsNameTheirMistakes(t *testing.T) {
	t.Parallel()
	const kinds = "text, code, integer, decimal, money, percent, date, timestamp, boolean, json, enum"
	const options = "there are width N, hidden, show code|label|both, decimals N and a label in double quotes"
	for line, want := range map[string]string{
		"a":                        "give it a kind, an option or a label; the kinds are " + kinds,
		"a tex":                    `unknown kind "tex": the kinds are ` + kinds + "; did you mean text?",
		"a plain":                  `unknown kind "plain": the kinds are ` + kinds,
		"a text(5)":                "kind text takes nothing in brackets: money(EUR), decimal(2) and enum(new,paid) do",
		"a money(EUX)":             `"EUX" is no currency of ISO 4217 such as EUR`,
		"a money(eur)":             `"eur" is no currency of ISO 4217 such as EUR`,
		"a money(XXX)":             `"XXX" is no currency of ISO 4217 such as EUR`,
		"a money()":                `"" is no currency of ISO 4217 such as EUR`,
		"a decimal(x)":             `decimals "x": give a number from 0 to 30`,
		"a decimal(31)":            `decimals "31": give a number from 0 to 30`,
		"a decimal(2) decimals 3":  "decimals are given twice",
		"a text decimals 3":        "decimals are for the kinds decimal, money and percent",
		"a money decimals":         "decimals has no value",
		"a enum":                   `an enum lists its codes, as in enum(new,paid) or enum(new "New", paid "Paid")`,
		"a enum()":                 `an enum lists its codes, as in enum(new,paid) or enum(new "New", paid "Paid")`,
		"a enum(x,)":               `an enum lists its codes, as in enum(new,paid) or enum(new "New", paid "Paid")`,
		"a enum(x,x)":              `enum: code "x" is given twice`,
		"a enum(in transit)":       `enum: "in transit" is not a code with a label in quotes, as in new "New": put a code with spaces in quotes, too`,
		`a enum(in transit "T")`:   `enum: "in transit \"T\"" is not a code with a label in quotes, as in new "New": put a code with spaces in quotes, too`,
		"a enum(x) show label":     `show label needs labels, as in enum(new "New", paid "Paid")`,
		`a enum(x "X") show lable`: `show "lable": there are code, label, both; did you mean label?`,
		"a text show code":         "show is for the kind enum",
		"a text width 0":           `width "0": give a number of characters from 1 to 255`,
		"a text width 256":         `width "256": give a number of characters from 1 to 255`,
		`a text width "A"`:         "width has no value",
		"a text hiden":             `unknown option "hiden": ` + options + "; did you mean hidden?",
		"a text date":              `unknown option "date": ` + options,
		"a hidden hidden":          "hidden is given twice",
		`a "A" "B"`:                "label is given twice",
		`a text ""`:                "the label is empty",
	} {
		_, err := report.Parse("a.sql", []byte("\n-- column: "+line+"\nselect 1"))
		if err == nil || err.Error() != "a.sql:2: column a: "+want {
			t.Errorf("%s\ngot  %v\nwant a.sql:2: column a: %s", line, err, want)
		}
	}
	for src, want := range map[string]string{
		"-- column: a text\n-- column: a date\nselect 1": "a.sql:2: column a is already declared in line 1",
		"-- column: a enum(x \"y)\nselect 1":             `a.sql:1: column: the quote " is never closed`,
		"-- column: \"\" text\nselect 1":                 "a.sql:1: column: the name is empty",
		"-- column: a enum(x\nselect 1":                  `a.sql:1: column: the bracket ( is never closed`,
	} {
		if _, err := report.Parse("a.sql", []byte(src)); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", src, err, want)
		}
	}
}

func TestListTypesNameTheirMistakes(t *testing.T) {
	t.Parallel()
	const types = "text, integer, decimal, boolean, date, timestamp, uuid, enum, list(TYPE)"
	for typ, want := range map[string]string{
		"list":                 "a list names the type of its members, as in list(integer)",
		"list()":               "a list names the type of its members, as in list(integer)",
		"list(list(text))":     "a list holds no lists",
		"list(int)":            `unknown type "int": the types are ` + types,
		"list(enum)":           "an enum lists its members, as in enum(new,paid), and no other type does",
		"list(text(3))":        "an enum lists its members, as in enum(new,paid), and no other type does",
		"lst(text)":            `unknown type "lst(text)": the types are ` + types + "; did you mean list?",
		"list(date) default x": `default "x" holds "x", which is not a date such as 2026-01-31`,
	} {
		_, err := report.Parse("a.sql", []byte("-- param: p "+typ+"\nselect :p"))
		if err == nil || err.Error() != "a.sql:1: param p: "+want {
			t.Errorf("%s\ngot  %v\nwant %s", typ, err, want)
		}
	}
}

func TestOtherSourcesHaveTheirOwnText(t *testing.T) {
	t.Parallel()
	const body = "\nGET /orders?since={from}\nDROP 'nothing here is SQL ; :x\n"
	d := parse(t, "a", "-- source: shop-api\n-- param: from date\n"+body)
	if d.Source != "shop-api" || d.IsSQL() || d.Body != body || d.Warnings() != nil {
		t.Errorf("got %+v", d)
	}
	q, err := d.Bind(map[string]string{"from": "2026-01-31"})
	if err != nil || q.SQL != "" || len(q.Args) != 0 {
		t.Errorf("got %+v, %v", q, err)
	}
	if _, err := d.Bind(map[string]string{"from": "x"}); err == nil {
		t.Error("values of another source are not checked")
	}
	if d = parse(t, "a", "-- source: fixed"); d.Body != "" {
		t.Errorf("got %q", d.Body)
	}
	if m := parse(t, "a", "-- source: s\n\nGET /a\nGET /b").Mistake(9, "no such path"); m.String() != "a.sql:4: no such path" {
		t.Errorf("got %v", m)
	}
}

func TestMistakesAtPositionsOfTheQuery(t *testing.T) {
	t.Parallel()
	d := parse(t, "folder/a", "-- param: p date\nselect :p,\nwrong")
	if m := d.Mistake(19, "column \"wrong\" does not exist"); m.String() != `folder/a.sql:3: column "wrong" does not exist` {
		t.Errorf("got %v", m)
	}
}

func TestUnorderedReportsWarn(t *testing.T) {
	t.Parallel()
	if w := parse(t, "a", "select 1").Warnings(); !reflect.DeepEqual(w, []tabular.Warning{{Kind: report.WarnUnordered, Count: 1}}) {
		t.Errorf("got %+v", w)
	}
	if w := parse(t, "a", "select 1 order by 1").Warnings(); w != nil {
		t.Errorf("got %+v", w)
	}
}

// FuzzParse: whatever a file holds, it is a report or has mistakes with lines of
// the file, and what was read is within its bounds.
func FuzzParse(f *testing.F) {
	f.Add(settings)
	f.Add(orders)
	f.Add("-- column: a enum(x \"X\", y) show both\n-- source: s\n")
	f.Add("-- column: \"\" money(EUR) width 1 \"\"\nselect 1")
	f.Fuzz(func(t *testing.T, src string) {
		d, err := report.Parse("a.sql", []byte(src))
		if err != nil {
			for _, m := range err.(report.Mistakes) {
				if m.Line < 1 || m.Line > 1+strings.Count(src, "\n") || m.Message == "" {
					t.Errorf("%q: mistake %+v", src, m)
				}
			}
			return
		}
		for _, c := range d.Columns {
			if c.Decimals < -1 || c.Width < 0 || (c.Kind == tabular.Enum) != (len(c.Members) > 0) {
				t.Errorf("%q: column %+v", src, c)
			}
		}
		if len(d.Formats) == 0 || !strings.HasSuffix(src, d.Body) || d.Shared && d.Tenant != "" {
			t.Errorf("%q: %+v", src, d)
		}
	})
}
