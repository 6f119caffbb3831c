package report_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
)

func TestBindRewritesAndFills(t *testing.T) {
	t.Parallel()
	d := parse(t, "orders", orders)
	q, err := d.Bind(map[string]string{"from": "2026-01-01", "to": "2026-02-01"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `/* one line per order */
SELECT o.id, ':from'
FROM orders o -- :to
WHERE o.ordered_at >= $1::date AND o.ordered_at < $2::date
  AND ($3::text IS NULL OR o.status = $3::text) AND total >= $4::numeric AND note <> $5::text
ORDER BY o.id`
	if q.SQL != want {
		t.Errorf("got %s", q.SQL)
	}
	var args []string
	for _, a := range q.Args {
		args = append(args, deref(a))
	}
	if got := strings.Join(args, "|"); got != "2026-01-01|2026-02-01|NULL|0|it's new" {
		t.Errorf("got %s", got)
	}
}

func TestEveryTypeHasItsCast(t *testing.T) {
	t.Parallel()
	for typ, want := range map[string]string{
		"text": "$1::text", "integer": "$1::int8", "decimal": "$1::numeric", "boolean": "$1::bool", "date": "$1::date",
		"timestamp": "$1::timestamptz", "uuid": "$1::uuid", "enum(a)": "$1::text",
	} {
		d := parse(t, "x", "-- param: p "+typ+"\nselect :p")
		if q, err := d.Bind(nil); err != nil || q.SQL != "select "+want || len(q.Args) != 1 || q.Args[0] != nil {
			t.Errorf("%s: got %+v, %v", typ, q, err)
		}
	}
}

func TestCastIsKeptFromWhatFollows(t *testing.T) {
	t.Parallel()
	d := parse(t, "x", "-- param: p text\nselect :p, :p [1], (:p).a, :p/**/(2)")
	if q, err := d.Bind(nil); err != nil || q.SQL != "select $1::text, ($1::text) [1], ($1::text).a, ($1::text)/**/(2)" {
		t.Errorf("got %+v, %v", q, err)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("1", 10_001)
	tests := []struct {
		typ      string
		good     map[string]string // value to its canonical form
		bad      []string
		complain string
	}{
		{"text", map[string]string{"": "", " a ": " a ", "ü\n": "ü\n"}, []string{"\xff", "a\x00"}, "is not UTF-8 text"},
		{"integer", map[string]string{"7": "7", "-007": "-7", "+5": "5", "9223372036854775807": "9223372036854775807", "-0": "0"},
			[]string{"", " 7", "7.0", "1e3", "9223372036854775808", "0x10", "1_000", "٣"}, "is not a whole number from -9223372036854775808 to 9223372036854775807"},
		{"decimal", map[string]string{"1.50": "1.50", "-0.001": "-0.001", "12345678901234567890.1": "12345678901234567890.1", "007": "007"},
			[]string{"", "NaN", "Infinity", "1,5", ".5", "1.", "1e3", "+1", "1.5\n", "--1"}, "is not a number such as 12.50 (a dot, no exponent)"},
		{"boolean", map[string]string{"true": "true", "FALSE": "false", "True": "true"}, []string{"", "1", "yes", "t"}, "is not true or false"},
		{"date", map[string]string{"2026-01-31": "2026-01-31", "2024-02-29": "2024-02-29", "0001-01-01": "0001-01-01"},
			[]string{"", "2026-02-29", "2026-1-1", "01.02.2026", "0000-01-01", "2026-01-01T00:00:00Z", "today", "20260101"}, "is not a date such as 2026-01-31"},
		{"timestamp", map[string]string{
			"2026-01-31": "2026-01-31T00:00:00Z", "2026-01-31T09:30:00+01:00": "2026-01-31T08:30:00Z",
			"2026-01-31T08:30:00.120000Z": "2026-01-31T08:30:00.12Z", "2026-01-31T08:30:00.123456-05:30": "2026-01-31T14:00:00.123456Z"},
			[]string{"", "2026-01-31T09:30:00", "2026-01-31 09:30:00Z", "2026-01-31T08:30:00.1234567Z", "2026-01-31T08:30:00.0000000000001Z",
				"2026-02-30T00:00:00Z", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", "2026-01-31T24:00:00Z", "now"},
			"is not a time such as 2026-01-31T09:30:00+01:00, or a date (midnight UTC)"},
		{"uuid", map[string]string{"123E4567-e89b-12d3-a456-426614174000": "123e4567-e89b-12d3-a456-426614174000"},
			[]string{"", "123e4567e89b12d3a456426614174000", "{123e4567-e89b-12d3-a456-426614174000}", "123e4567-e89b-12d3-a456-42661417400g"},
			"is not a UUID such as 123e4567-e89b-12d3-a456-426614174000"},
		{"enum(new,paid)", map[string]string{"new": "new"}, []string{"", "shipped", "unknown"}, "is not one of new, paid"},
		{"enum(new,paid)", nil, []string{"NEW", "nw"}, "is not one of new, paid; did you mean new?"},
		{"decimal", nil, []string{long}, "is longer than 10000 bytes"},
	}
	for _, tt := range tests {
		d := parse(t, "x", "-- param: p "+tt.typ+"\nselect :p")
		for value, want := range tt.good {
			got, err := d.Canonical(map[string]string{"p": value})
			if err != nil || got["p"] != want {
				t.Errorf("%s %q: got %q, %v", tt.typ, value, got["p"], err)
			}
			if again, err := d.Canonical(got); err != nil || !maps.Equal(again, got) {
				t.Errorf("%s %q: canonical values became %v, %v", tt.typ, value, again, err)
			}
		}
		for _, value := range tt.bad {
			_, err := d.Bind(map[string]string{"p": value})
			refused, ok := errors.AsType[*invalid.Error](err)
			if !ok || len(refused.Problems) != 1 || refused.Problems[0].Field != "params.p" || refused.Problems[0].Message != tt.complain {
				t.Errorf("%s %q: got %v", tt.typ, value, err)
			}
		}
	}
}

func TestBindListsEveryRefusal(t *testing.T) {
	t.Parallel()
	_, err := parse(t, "orders", orders).Bind(map[string]string{"form": "x", "min_total": "a lot", "zzzzzz": "1"})
	const want = `params.from: is required: a date such as 2026-01-31 (First day)
params.to: is required: a date such as 2026-01-31 (Day after the last)
params.min_total: "a lot" is not a number such as 12.50 (a dot, no exponent)
params.form: is no parameter: report orders has from, to, status, min_total, note; did you mean from?
params.zzzzzz: is no parameter: report orders has from, to, status, min_total, note`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	_, err = parse(t, "stock", "select 1").Bind(map[string]string{"x": "1"})
	if err == nil || err.Error() != "params.x: is no parameter: report stock takes no parameters" {
		t.Errorf("got %v", err)
	}
	_, err = parse(t, "x", "-- param: s enum(a,b) required\nselect :s").Bind(nil)
	if err == nil || err.Error() != "params.s: is required: one of a, b (s)" {
		t.Errorf("got %v", err)
	}
}

func TestKeyIsTheSameForTheSameParameters(t *testing.T) {
	t.Parallel()
	d := parse(t, "orders", "-- param: to timestamp\n-- param: from date\n-- param: n integer default 3\n-- param: q text\nselect :from, :to, :n, :q")
	tests := []struct {
		values map[string]string
		want   string
	}{
		{nil, "orders?n=3"},
		{map[string]string{"n": "03"}, "orders?n=3"},
		{map[string]string{"to": "2026-02-01", "from": "2026-01-01"}, "orders?from=2026-01-01&n=3&to=2026-02-01T00%3A00%3A00Z"},
		{map[string]string{"to": "2026-02-01T01:00:00+01:00", "from": "2026-01-01", "n": "3"}, "orders?from=2026-01-01&n=3&to=2026-02-01T00%3A00%3A00Z"},
		{map[string]string{"q": "a&n=4 ü"}, "orders?n=3&q=a%26n%3D4+%C3%BC"},
		{map[string]string{"q": ""}, "orders?n=3&q="},
	}
	for _, tt := range tests {
		if got, err := d.Key(tt.values, report.Choice{}); err != nil || got != tt.want {
			t.Errorf("%v: got %q, %v, want %q", tt.values, got, err, tt.want)
		}
	}
	if got, err := parse(t, "stock", "select 1").Key(nil, report.Choice{}); got != "stock" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := d.Key(map[string]string{"n": "x"}, report.Choice{}); err == nil {
		t.Error("a wrong value has a key")
	}
}

func TestKeyIsBounded(t *testing.T) {
	t.Parallel()
	d := parse(t, "orders", "-- param: q text\nselect :q")
	a, errA := d.Key(map[string]string{"q": strings.Repeat("ü", 1000)}, report.Choice{})
	b, errB := d.Key(map[string]string{"q": strings.Repeat("ü", 1001)}, report.Choice{})
	if errA != nil || errB != nil || a == b || len(a) > report.MaxKey || !strings.HasPrefix(a, "orders?~") {
		t.Errorf("got %q, %q, %v, %v", a, b, errA, errB)
	}
}

// FuzzKey: what differs in values or choice has another key.
func FuzzKey(f *testing.F) {
	f.Add("a", "b", "UTC", "tab")
	f.Add("a#zone=Europe/Berlin", "a", "Europe/Berlin", ",")
	f.Add("x&q=", "x", "UTC", "|")
	f.Fuzz(func(t *testing.T, one, two, zone, delimiter string) {
		d := parse(t, "a", "-- param: q text\nselect :q")
		c, err := d.Choose(formats(t), report.Choice{Zone: zone, Delimiter: delimiter})
		if err != nil {
			return
		}
		plain, _ := d.Choose(formats(t), report.Choice{})
		keys := map[string]string{}
		for i, value := range []string{one, two} {
			for j, choice := range []report.Choice{c, plain} {
				key, err := d.Key(map[string]string{"q": value}, choice)
				if err != nil {
					return
				}
				what := fmt.Sprintf("%q %q %q", value, choice.Zone, choice.Delimiter)
				if before, taken := keys[key]; taken && before != what {
					t.Errorf("%d %d: %s and %s have the key %s", i, j, before, what, key)
				}
				keys[key] = what
			}
		}
	})
}
