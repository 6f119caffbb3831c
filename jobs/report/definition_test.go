package report_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/report"
)

const orders = `-- title: Orders
-- description: Every order with its customer, by date.
-- param: from date required "First day"
-- param: to date required "Day after the last"
-- param: status enum(new,paid, "in transit") "Only this status"
-- param: min_total decimal default 0 "At ""least"""
-- param: note text default 'it''s new'
-- filename: all orders

/* one line per order */
SELECT o.id, ':from'
FROM orders o -- :to
WHERE o.ordered_at >= :from AND o.ordered_at < :to
  AND (:status IS NULL OR o.status = :status) AND total >= :min_total AND note <> :note
ORDER BY o.id;

-- the end
`

func parse(t *testing.T, name, src string) *report.Definition {
	t.Helper()
	d, err := report.Parse(name+".sql", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, src := range []string{orders, "\ufeff" + orders, strings.ReplaceAll(orders, "\n", "\r\n")} {
		d := parse(t, "some/folder/orders", src)
		if d.Name != "orders" || d.Title != "Orders" || d.Filename != "all orders" || d.Description != "Every order with its customer, by date." {
			t.Errorf("got %+v", d)
		}
		var params []string
		for _, p := range d.Params {
			params = append(params, p.Name+"|"+string(p.Type)+"|"+strings.Join(p.Values, ";")+"|"+deref(p.Default)+"|"+p.Label)
			if p.Required != (p.Name == "from" || p.Name == "to") {
				t.Errorf("%s: required is %v", p.Name, p.Required)
			}
		}
		want := []string{
			"from|date||NULL|First day", "to|date||NULL|Day after the last", "status|enum|new;paid;in transit|NULL|Only this status",
			`min_total|decimal||0|At "least"`, "note|text||it's new|note",
		}
		if !reflect.DeepEqual(params, want) {
			t.Errorf("got %q, want %q", params, want)
		}
		if !d.HasOrderBy() {
			t.Error("the ORDER BY was not seen")
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return "NULL"
	}
	return *s
}

func TestParseGivesNamesWithoutFrontMatter(t *testing.T) {
	t.Parallel()
	d := parse(t, "stock", "select 1")
	if d.Title != "stock" || d.Filename != "stock" || len(d.Params) != 0 {
		t.Errorf("got %+v", d)
	}
}

func TestParseNamesEveryMistake(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, src, want string }{
		{"nothing", "", "1: there is no SELECT after the front matter"},
		{"only front matter", "-- title: A\n-- param: x text\n", "3: there is no SELECT after the front matter"},
		{"only a semicolon", "\n;", "2: there is no SELECT after the front matter"},
		{"other statement", "-- title: A\nDELETE FROM a", `2: found "DELETE": a report is one SELECT, or WITH … SELECT`},
		{"with delete", "with a as (select 1)\ndelete from b", `2: found "delete": a report is one SELECT, or WITH … SELECT`},
		{"with insert select", "with recursive a(b) as (select 1), c as (select 2) insert into d select 1", `1: found "insert": a report is one SELECT, or WITH … SELECT`},
		{"hidden change", "with a as materialized (\ndelete from b returning *) select * from a", `2: found "delete": a report reads and changes nothing`},
		{"with nothing", "with a as (select 1)", `1: found "with": a report is one SELECT, or WITH … SELECT`},
		{"new table", "select 1 as a\ninto b", "2: found INTO: a report makes no table, it reads and changes nothing"},
		{"locks", "select a from b\nfor no key update", "2: found FOR NO: a report locks no rows, it is read in a snapshot that cannot write"},
		{"locks below", "select * from (\nselect a from b for share) c", "2: found FOR SHARE: a report locks no rows, it is read in a snapshot that cannot write"},
		{"two statements", "select 1;\n-- and\nselect 2", "3: a second statement begins here: a report is one SELECT"},
		{"numbered", "select\n$1", "2: $1 is numbered: declare a param and write its :name"},
		{"undeclared", "-- param: from date\nselect :from,\n :form, :form", "3: parameter :form is not declared: did you mean :from?"},
		{"undeclared, none near", "select :x", "1: parameter :x is not declared: add a line -- param: x TYPE, or put a space after the colon when it is none"},
		{"unused", "-- param: from date\nselect ':from' -- :from", "1: param from is never used: write :from in the query, outside quotes and comments"},
		{"twice", "-- param: a text\n-- param: a date\nselect :a", "2: param a is already declared in line 1"},
		{"title twice", "-- title: A\n-- title: B\nselect 1", "2: title is already given in line 1"},
		{"unknown key", "\n-- titel: A\nselect 1", `2: unknown key "titel": the keys are title, description, filename, param, column, format, preset, locale, zone, strict, tenant, source, series, max_rows, timeout; did you mean title?`},
		{"key in capitals", "-- Title: A\nselect 1", `1: unknown key "Title": the keys are title, description, filename, param, column, format, preset, locale, zone, strict, tenant, source, series, max_rows, timeout; did you mean title?`},
		{"no key", "-- title A\nselect 1", `1: "title A" is not "key: value": prose goes below the front matter, after a blank line`},
		{"no value", "-- title:\nselect 1", "1: title has no value"},
		{"behind a blank line", "-- title: A\n\n-- description: B\nselect 1", "3: description stands behind the front matter, which ends at the first blank line: move it up"},
		{"control character", "-- title: A\x01B\nselect 1", `1: title: "A\x01B" holds a control character`},
		{"filename", "-- filename: ../a\nselect 1", `1: filename "../a": give at most 100 bytes without any of / \ : * ? " < > | and a dot in front; the ending is added`},
		{"filename for Windows", "-- filename: 12:00?\nselect 1", `1: filename "12:00?": give at most 100 bytes without any of / \ : * ? " < > | and a dot in front; the ending is added`},
		{"not UTF-8", "select 1,\n'\xff'", "2: this is not UTF-8 text"},
		{"NUL", "select 1,\n'\x00'", "2: this is not UTF-8 text"},
		{"open string", "select 1,\n'a", "2: the string that begins here is never closed"},
		{"param name", "-- param: From date\nselect 1", `1: param name "From": begin with a letter, go on with a-z, 0-9 and _, at most 63`},
		{"param without type", "-- param: a\nselect :a", "1: param a has no type: the types are text, integer, decimal, boolean, date, timestamp, uuid, enum, list(TYPE)"},
		{"param type", "-- param: a int\nselect :a", `1: param a: unknown type "int": the types are text, integer, decimal, boolean, date, timestamp, uuid, enum, list(TYPE)`},
		{"type with members", "-- param: a text(10)\nselect :a", "1: param a: an enum lists its members, as in enum(new,paid), and no other type does"},
		{"enum without members", "-- param: a enum\nselect :a", "1: param a: an enum lists its members, as in enum(new,paid), and no other type does"},
		{"enum with nothing", "-- param: a enum()\nselect :a", `1: param a: enum member "" is empty or given twice`},
		{"enum member twice", "-- param: a enum(b, b)\nselect :a", `1: param a: enum member "b" is empty or given twice`},
		{"enum member with a comma", "-- param: a enum(\"b,c\")\nselect :a", "1: param a: the members of an enum hold no quotes, commas and brackets"},
		{"open enum", "-- param: a enum(b\nselect 1", "1: param: the bracket ( is never closed"},
		{"open label", "-- param: a text \"b\nselect 1", "1: param: the quote \" is never closed"},
		{"option", "-- param: a text requird\nselect :a", `1: param a: unknown option "requird": there are required, default VALUE and a label in double quotes; did you mean required?`},
		{"option twice", "-- param: a text required required\nselect :a", "1: param a: required is given twice"},
		{"label twice", "-- param: a text 'x' 'y'\nselect :a", "1: param a: label is given twice"},
		{"required with default", "-- param: a text required default x\nselect :a", "1: param a: required and default exclude each other: a default fills what was not given"},
		{"default without value", "-- param: a text default\nselect :a", "1: param a: default has no value"},
		{"wrong default", "-- param: a date default 2026-02-30\nselect :a", `1: param a: default "2026-02-30" is not a date such as 2026-01-31`},
		{"default no member", "-- param: a enum(new,paid) default payd\nselect :a", `1: param a: default "payd" is not one of new, paid; did you mean paid?`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := report.Parse("reports/orders.sql", []byte(tt.src))
			if want := "reports/orders.sql:" + tt.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if d != nil {
				t.Error("a definition was returned beside the error")
			}
		})
	}
}

func TestParseAcceptsEveryKindOfSelect(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		"select 1;", "((select 1))", "(select 1) union (select 2);\n-- end", "with a as (select 1) select * from a",
		"(with a as (select 1) select * from a)", "with a as (select 1) (select 2)",
		// Names that are keywords elsewhere.
		"with update as (select 1), delete as not materialized (select 2) select * from delete",
		"with recursive insert(values) as (select 1 union all select 2) select count(values) as table from insert",
		"with a as (select (update), (delete) from b) select 1", "select 1 as insert",
		"select 1 as into, substring(a for no) as for from (select 'a', 1) b(a, no)", "select 'into', 'for update' -- into, for update",
	} {
		if _, err := report.Parse("a.sql", []byte(src)); err != nil {
			t.Errorf("%s\n%v", src, err)
		}
	}
}

func TestParseReportsAllMistakesAtOnceByLine(t *testing.T) {
	t.Parallel()
	_, err := report.Parse("Orders.sql", []byte("-- tilte: A\n-- param: a int\n-- param: b text\n\nselect :a,\n:c; select 2"))
	var mistakes report.Mistakes
	if !errors.As(err, &mistakes) {
		t.Fatalf("got %v", err)
	}
	var lines []int
	for _, m := range mistakes {
		lines = append(lines, m.Line)
	}
	if want := []int{1, 1, 2, 3, 6, 6}; !reflect.DeepEqual(lines, want) {
		t.Errorf("got lines %v, want %v:\n%v", lines, want, err)
	}
}

func TestHasOrderBy(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]bool{
		"select 1 ORDER\n/* x */ By 1":                    true,
		"with a as (select 1) select * from a order by 1": true,
		"(select 1 order by 1)":                           true,
		"((select 1) union (select 2) order by 1);":       true,
		"select 1 union select 2 order by 1 limit 3":      true,
		"select 1":                                                    false,
		"select * from (select 1 order by 1) a":                       false,
		"select row_number() over (order by x) from a":                false,
		"with a as (select 1 order by 1) select * from a":             false,
		"(select 1 order by 1) union (select 2)":                      false,
		"select 'order by', \"order\" by -- order by":                 false,
		"with a as (select 1) (select 2) union (select 3) order by 1": true,
	} {
		if got := parse(t, "a", src).HasOrderBy(); got != want {
			t.Errorf("%s: got %v", src, got)
		}
	}
}

func TestLineFindsTheFilesLine(t *testing.T) {
	t.Parallel()
	d := parse(t, "a", "-- title: Ü\n-- param: p date\n\n/* größe */\nSELECT\n:p, wrong")
	q, err := d.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]int{"/*": 4, "SELECT": 5, "\n$1": 5, "$1": 6, "wrong": 6} {
		before, _, found := strings.Cut(q.SQL, part)
		position := len([]rune(before)) + 1
		if got := d.Line(position); !found || got != want {
			t.Errorf("%s: got line %d, want %d", part, got, want)
		}
	}
	if got := d.Line(100000); got != 6 {
		t.Errorf("behind the end: got line %d", got)
	}
}
