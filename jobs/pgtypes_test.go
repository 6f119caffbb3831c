package jobs_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/jobs/report"
)

// typeSamples are values of every type of PostgreSQL, as its input functions read
// them. A type that nobody can write as a literal has none and is tested as NULL.
var typeSamples = map[string][]string{
	"bool": {"true", "false"}, "bytea": {`\x00ff10`, ""}, "char": {"a", ""}, "name": {"pg_class"},
	"int8": {"-9223372036854775808", "9223372036854775807", "0"}, "int2": {"-32768", "32767"}, "int4": {"-2147483648", "42"},
	"oid": {"4294967295"}, "xid": {"7"}, "cid": {"0"}, "xid8": {"18446744073709551615"}, "tid": {"(0,1)"}, "int2vector": {"1 2 3", ""}, "oidvector": {"1 4294967295"},
	"float4": {"1.5", "-0", "NaN", "Infinity", "3.4e38", "1e-45"}, "float8": {"0.1", "-Infinity", "NaN", "1.7976931348623157e308", "5e-324"},
	"numeric": {"0.00", "-12345678901234567890.123456789", "NaN", "Infinity", "-Infinity", "1e-20"}, "money": {"12.34", "-1000"},
	"text": {"", "NULL", "a,b", "say \"hi\"\r\nand go", "=1+1", "日本 🎉", `\N`, " padded ", "\ttab"}, "varchar": {"x"}, "bpchar": {"x"}, "refcursor": {"c"},
	"json": {"{ \"a\" : 1.10, \"a\": [ null , \"x y\" ] }", "null"}, "jsonb": {`{"b": 1.10, "a": "ü \"q\""}`, "[]"}, "jsonpath": {`$."a"[*] ? (@ > 1)`}, "xml": {"<a b=\"1\">x &amp; y</a>"},
	"date": {"2026-01-31", "infinity", "-infinity", "0044-03-15 BC", "5874897-12-31", "1900-01-01"},
	"time": {"24:00:00", "09:30:00.123456"}, "timetz": {"09:30:00+05:30"},
	"timestamp":   {"2026-01-31 09:30:00.123456", "infinity", "0044-03-15 01:02:03 BC", "294276-12-31 23:59:59.999999"},
	"timestamptz": {"2026-01-31 09:30:00.123456+05:30", "-infinity", "0044-03-15 01:02:03+00 BC", "12000-01-01 00:00:00+00", "2026-01-31 09:30:00+00"},
	"interval":    {"1 year 2 mons -3 days 04:05:06.7", "0", "-1 day"},
	"uuid":        {"123e4567-e89b-12d3-a456-426614174000"}, "bit": {"1"}, "varbit": {"1010", ""},
	"inet": {"192.168.1.5/24", "::1"}, "cidr": {"10.0.0.0/8"}, "macaddr": {"08:00:2b:01:02:03"}, "macaddr8": {"08:00:2b:01:02:03:04:05"},
	"point": {"(1,2)"}, "lseg": {"[(1,2),(3,4)]"}, "path": {"((1,2),(3,4))"}, "box": {"(3,4),(1,2)"}, "polygon": {"((1,2),(3,4))"}, "line": {"{1,2,3}"}, "circle": {"<(1,2),3>"},
	"tsvector": {"'a':1 'b''c'"}, "tsquery": {"'a' & !'b'"}, "pg_lsn": {"16/B374D848"}, "txid_snapshot": {"10:20:10,14"}, "pg_snapshot": {"10:20:10,14"},
	"aclitem": {"=r/pg_monitor"}, "regproc": {"now"}, "regprocedure": {"abs(integer)"}, "regoper": {"pg_catalog.||/"}, "regoperator": {"+(integer,integer)"}, "regclass": {"pg_class"},
	"regcollation": {"\"C\""}, "regtype": {"integer"}, "regrole": {"pg_monitor"}, "regnamespace": {"pg_catalog"}, "regconfig": {"english"}, "regdictionary": {"simple"},
	"int4range": {"[1,5)", "empty"}, "int8range": {"(,5)"}, "numrange": {"[1.5,)"}, "tsrange": {`["2026-01-01 00:00:00",infinity)`}, "tstzrange": {`["2026-01-01 00:00:00+00",)`}, "daterange": {"[2026-01-01,2026-02-01)"},
	"int4multirange": {"{[1,2),[5,7)}"}, "int8multirange": {"{}"}, "nummultirange": {"{[1.1,2)}"}, "tsmultirange": {"{}"}, "tstzmultirange": {"{}"}, "datemultirange": {"{[2026-01-01,2026-02-01)}"},
	"gtsvector": nil, "pg_node_tree": nil, "pg_ndistinct": nil, "pg_dependencies": nil, "pg_mcv_list": nil, "pg_brin_bloom_summary": nil, "pg_brin_minmax_multi_summary": nil,
}

// sample is a value of the test: its type, the SQL for it, and the text that
// PostgreSQL's own output function gives.
type sample struct {
	typ, sql string
	array    bool
}

// samples are those of every type that the server has, and arrays of them.
func samples(w *world) (all []sample) {
	w.t.Helper()
	conn, err := pgx.Connect(w.ctx, w.url)
	w.must(err)
	defer conn.Close(w.ctx)
	rows, err := conn.Query(w.ctx, `SELECT typname, typarray <> 0 FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace
		AND typtype IN ('b', 'r', 'm') AND NOT (typelem <> 0 AND typarray = 0 AND typcategory = 'A') ORDER BY 1`)
	w.must(err)
	defer rows.Close()
	for rows.Next() {
		var name string
		var hasArray bool
		w.must(rows.Scan(&name, &hasArray))
		values, known := typeSamples[name]
		if !known {
			w.t.Errorf("PostgreSQL has a type %s, and nothing says what becomes of it", name)
		}
		quoted := `pg_catalog."` + name + `"`
		all = append(all, sample{name, "NULL::" + quoted, false})
		elements := []string{"NULL"}
		for _, v := range values {
			literal := "'" + strings.ReplaceAll(v, "'", "''") + "'::" + quoted
			all = append(all, sample{name, literal, false})
			elements = append(elements, literal)
		}
		if hasArray && values != nil {
			all = append(all, sample{name, "ARRAY[" + strings.Join(elements, ",") + "]::" + quoted + "[]", true})
		}
	}
	w.must(rows.Err())
	return all
}

// Every type of PostgreSQL comes out of every format; CSV and JSON Lines hold
// exactly what PostgreSQL's own output function says, but for what the presets
// write otherwise.
func TestEveryTypeOfPostgreSQL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	all := samples(w)
	var query strings.Builder
	query.WriteString("SELECT ")
	for i, s := range all {
		fmt.Fprintf(&query, "%s AS v%d, format('%%s', %s) AS t%d,\n", s.sql, i, s.sql, i)
	}
	query.WriteString("1 AS last ORDER BY last")
	reports := w.reports(fstest.MapFS{"types.sql": {Data: []byte(query.String())}})
	write := func(format string) []byte {
		var out bytes.Buffer
		sum, err := reports.WriteTo(w.ctx, &out, "types", nil, report.Choice{Formats: []string{format}})
		if err != nil || sum.Rows != 1 || out.Len() == 0 {
			t.Fatalf("%s: %d rows, %v", format, sum.Rows, err)
		}
		return out.Bytes()
	}
	records, err := csv.NewReader(bytes.NewReader(write("csv"))).ReadAll()
	w.must(err)
	dec := json.NewDecoder(bytes.NewReader(write("jsonl")))
	dec.UseNumber()
	var object map[string]any
	w.must(dec.Decode(&object))
	for i, s := range all {
		text, _ := object[fmt.Sprintf("t%d", i)].(string)
		if s.array {
			checkArray(t, s, object[fmt.Sprintf("v%d", i)], text)
			continue
		}
		null := strings.HasPrefix(s.sql, "NULL")
		// Go's reader of CSV makes CRLF in a field LF; Python's in jobs/report/csv does not.
		if got, want := records[1][2*i], strings.ReplaceAll(inCSV(s.typ, text), "\r\n", "\n"); got != want {
			t.Errorf("CSV: %s is %q, want %q", s.sql, got, want)
		}
		if got, want := object[fmt.Sprintf("v%d", i)], inJSON(t, s.typ, text, null); fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", want, want) {
			t.Errorf("JSON Lines: %s is %T %v, want %T %v", s.sql, got, got, want, want)
		}
	}
	write("xlsx")
	write("parquet")
}

// inCSV is the field of the data preset for what PostgreSQL prints.
func inCSV(typ, text string) string {
	switch typ {
	case "bool":
		return map[string]string{"t": "true", "f": "false"}[text]
	case "json", "jsonb":
		var out bytes.Buffer
		if json.Compact(&out, []byte(text)) == nil {
			return out.String()
		}
	case "timestamptz":
		if !strings.HasSuffix(text, "BC") && len(text) > 10 && text[4] == '-' {
			return strings.Replace(text, " ", "T", 1) + ":00"
		}
	}
	return text
}

func inJSON(t *testing.T, typ, text string, null bool) any {
	t.Helper()
	if null {
		return nil
	}
	switch typ {
	case "bool":
		return text == "t"
	case "json", "jsonb":
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		return v
	case "int2", "int4", "int8", "oid", "float4", "float8", "numeric":
		if !slices.Contains([]string{"NaN", "Infinity", "-Infinity"}, text) {
			return json.Number(text)
		}
	case "timestamp":
		if !strings.HasSuffix(text, "BC") && len(text) > 10 && text[4] == '-' {
			return strings.Replace(text, " ", "T", 1)
		}
	}
	return inCSV(typ, text)
}

// checkArray compares an array with its elements, which are samples of their own.
func checkArray(t *testing.T, s sample, got any, text string) {
	t.Helper()
	list, ok := got.([]any)
	if want := len(typeSamples[s.typ]) + 1; !ok || len(list) != want || list[0] != nil {
		t.Errorf("JSON Lines: %s (%s) is %v, want %d elements that begin with null", s.sql, text, got, want)
	}
}

// Types of an installation: enums, composites, domains and those of extensions.
func TestTypesOfAnInstallation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	for _, statement := range []string{"CREATE TYPE public.mood AS ENUM ('sad', 'so so')", "CREATE TYPE public.pair AS (a int, b text)",
		"CREATE DOMAIN public.zip AS text", "CREATE DOMAIN public.price AS numeric(12,2)", "CREATE EXTENSION hstore SCHEMA public", "CREATE EXTENSION citext SCHEMA public"} {
		w.exec(statement)
	}
	reports := w.reports(fstest.MapFS{"t.sql": {Data: []byte(`SELECT 'so so'::public.mood AS mood, ARRAY['sad']::public.mood[] AS moods, ROW(1, 'a "b", c')::public.pair AS pair,
		'02138'::public.zip AS zip, 12.50::public.price AS price, public.hstore('k', 'v "x"') AS hstore, 'Text'::public.citext AS citext,
		ARRAY[[1,2],[3,NULL]] AS grid, '[2:3]={7,8}'::int[] AS bounds, ARRAY['{"a": 1}'::jsonb] AS docs ORDER BY 1`)}})
	for format, want := range map[string]string{
		"csv": `so so,"[""sad""]","(1,""a """"b"""", c"")",02138,12.50,"""k""=>""v \""x\""""",Text,"[[1,2],[3,null]]","[7,8]","[{""a"":1}]"`,
		"jsonl": `{"mood":"so so","moods":["sad"],"pair":"(1,\"a \"\"b\"\", c\")","zip":"02138","price":12.50,"hstore":"\"k\"=>\"v \\\"x\\\"\"","citext":"Text",` +
			`"grid":[[1,2],[3,null]],"bounds":[7,8],"docs":[{"a":1}]}`,
	} {
		var out bytes.Buffer
		sum, err := reports.WriteTo(w.ctx, &out, "t", nil, report.Choice{Formats: []string{format}})
		w.must(err)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if got := lines[len(lines)-1]; got != want {
			t.Errorf("%s:\n%s\nwant\n%s", format, got, want)
		}
		if len(sum.Warnings) != 1 || sum.Warnings[0].Kind != "array_bounds" || sum.Warnings[0].Column != "bounds" {
			t.Errorf("%s: warnings %+v", format, sum.Warnings)
		}
	}
}
