package demo_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/demo"
	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/fenceline/fenceline/storage/storagetest"
)

func TestMain(m *testing.M) { os.Exit(storagetest.Main(m)) }

// runs are the reports with the values that the tests give.
var runs = []struct {
	report   string
	values   map[string]string
	min, max int64 // rows
}{
	{"customers", nil, 2000, 2000},
	{"order-lines", nil, 45_000, 55_000},
	{"orders", map[string]string{"from": "2026-01-01", "to": "2026-02-01"}, 300, 999},
	{"orders", map[string]string{"from": "2025-01-01", "to": "2026-12-01"}, 20_000, 20_000},
	{"orders", map[string]string{"from": "2026-11-01", "to": "2026-12-01", "status": "new"}, 100, 300},
	{"sales-by-month", nil, 11, 11},
	{"sales-by-month", map[string]string{"year": "2025"}, 12, 12},
	{"stock", nil, 300, 300},
	{"stock", map[string]string{"low": "true", "category": "Garden"}, 1, 50},
}

// fill makes the shop, in a connection with settings that must not matter.
func fill(ctx context.Context, url string) error {
	c, err := connect(ctx, url, map[string]string{"timezone": "Asia/Tokyo", "datestyle": "German", "search_path": ""})
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return c.Exec(ctx, demo.ShopSQL()).Close()
}

func connect(ctx context.Context, url string, settings map[string]string) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams = settings
	return pgconn.ConnectConfig(ctx, config)
}

// reader connects the way that tabular.Rows asks for.
func reader(t *testing.T, url string) *pgconn.PgConn {
	t.Helper()
	c, err := connect(t.Context(), url, map[string]string{"timezone": "UTC", "datestyle": "ISO", "intervalstyle": "postgres", "bytea_output": "hex"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.WithoutCancel(t.Context())) })
	return c
}

// result is a tabular.Rows over a result of PostgreSQL.
type result struct {
	*pgconn.ResultReader
	tag pgconn.CommandTag
	err error
}

func (r *result) Columns() []tabular.Column {
	var columns []tabular.Column
	for _, f := range r.FieldDescriptions() {
		c := tabular.Column{Name: f.Name, OID: f.DataTypeOID}
		if c.OID == pgtype.TextArrayOID {
			c.Elem = tabular.OIDText
		}
		columns = append(columns, c)
	}
	return columns
}

// Count is what PostgreSQL says that it sent.
func (r *result) Count() (int64, bool) { return r.tag.RowsAffected(), true }

func (r *result) Next() bool {
	if r.NextRow() {
		return true
	}
	r.tag, r.err = r.Close()
	return false
}

func (r *result) Err() error { return r.err }

func definition(t *testing.T, name string) *report.Definition {
	t.Helper()
	d, err := report.NewCatalog(demo.Reports()).Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func query(t *testing.T, name string, values map[string]string) (sql string, args [][]byte) {
	t.Helper()
	d := definition(t, name)
	values, err := d.Given(values, "any")
	if err != nil {
		t.Fatal(err)
	}
	q, err := d.Bind(values)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range q.Args {
		var arg []byte
		if a != nil {
			arg = []byte(*a)
		}
		args = append(args, arg)
	}
	return q.SQL, args
}

// export writes the files that the report itself wants, by format, and the
// layout of the last.
func export(t *testing.T, c *pgconn.PgConn, name string, values map[string]string) (map[string]*bytes.Buffer, report.Summary, *tabular.Layout) {
	t.Helper()
	formats, err := report.NewFormats()
	if err != nil {
		t.Fatal(err)
	}
	d := definition(t, name)
	choice, err := d.Choose(formats, report.Choice{})
	if err != nil {
		t.Fatal(err)
	}
	sql, args := query(t, name, values)
	rows := &result{ResultReader: c.ExecParams(t.Context(), sql, args, nil, nil, nil)}
	layouts, err := d.Layouts(rows.Columns(), choice)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	files, targets := map[string]*bytes.Buffer{}, []report.Target{}
	for i, format := range choice.Formats {
		file, err := formats.Get(format)
		if err != nil {
			t.Fatal(err)
		}
		files[format] = new(bytes.Buffer)
		targets = append(targets, report.Target{File: file, W: files[format], Layout: layouts[i]})
	}
	summary, err := report.Write(t.Context(), rows, targets, d.MaxRows, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return files, summary, layouts[len(layouts)-1]
}

func execute(t *testing.T, c *pgconn.PgConn, sql string) string {
	t.Helper()
	results, err := c.Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var values []string
	for _, row := range results[len(results)-1].Rows {
		values = append(values, string(bytes.Join(row, []byte("|"))))
	}
	return strings.Join(values, "\n")
}

func TestEveryReportIsInOrder(t *testing.T) {
	t.Parallel()
	defs, err := report.NewCatalog(demo.Reports()).List()
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, run := range runs {
		tested[run.report] = true
	}
	for _, d := range defs {
		if d.Series != "" { // a source of invoices, see TestTheMonthIsBilled
			continue
		}
		if !d.HasOrderBy() || d.Title == d.Name || d.Description == "" || !d.Shared || len(d.Columns) == 0 || !tested[d.Name] {
			t.Errorf("%s has no ORDER BY, title, description, tenant or columns, or is not run by the tests", d.Name)
		}
	}
	if len(defs) != 6 {
		t.Errorf("there are %d reports", len(defs))
	}
}

// TestPostgresReadsTheReportsBack gives each file to a reader that nobody here
// wrote, COPY FROM, and compares every value.
func TestPostgresReadsTheReportsBack(t *testing.T) {
	t.Parallel()
	c := reader(t, storagetest.Database(t, fill))
	for i, run := range runs {
		files, summary, l := export(t, c, run.report, run.values)
		for _, f := range l.Fields {
			if f.Label == f.Name {
				t.Errorf("%s: column %s has no label", run.report, f.Name)
			}
		}
		if summary.Rows < run.min || summary.Rows > run.max {
			t.Errorf("%s %v: %d rows, want %d to %d", run.report, run.values, summary.Rows, run.min, run.max)
		}
		sent, back := fmt.Sprintf("sent%d", i), fmt.Sprintf("back%d", i)
		sql, args := query(t, run.report, run.values)
		if _, err := c.ExecParams(t.Context(), "CREATE TEMP TABLE "+sent+" AS "+sql, args, nil, nil, nil).Close(); err != nil {
			t.Fatal(err)
		}
		// Arrays are JSON in the file.
		for array := range strings.FieldsSeq(execute(t, c, "SELECT attname FROM pg_attribute WHERE attrelid = '"+sent+"'::regclass AND attnum > 0 AND atttypid = 'text[]'::regtype")) {
			execute(t, c, "ALTER TABLE "+sent+" ALTER "+array+" TYPE jsonb USING to_jsonb("+array+")")
		}
		execute(t, c, "CREATE TEMP TABLE "+back+" (LIKE "+sent+")")
		tag, err := c.CopyFrom(t.Context(), files["csv"], "COPY "+back+" FROM STDIN (FORMAT csv, HEADER true)")
		if err != nil || tag.RowsAffected() != summary.Rows {
			t.Errorf("%s: PostgreSQL read %d rows of %d: %v", run.report, tag.RowsAffected(), summary.Rows, err)
		}
		if lost := execute(t, c, "SELECT * FROM "+sent+" EXCEPT ALL SELECT * FROM "+back); lost != "" {
			t.Errorf("%s: rows changed on their way:\n%s", run.report, lost)
		}
	}
}

func TestTheShopHoldsWhatBreaksExports(t *testing.T) {
	t.Parallel()
	c := reader(t, storagetest.Database(t, fill))
	for sql, want := range map[string]string{
		"SELECT count(*) FROM shop.customers":                           "2000",
		"SELECT count(*) FROM shop.products":                            "300",
		"SELECT count(*) FROM shop.orders":                              "20000",
		"SELECT count(*) FROM shop.invoices":                            "5000",
		"SELECT count(*) BETWEEN 45000 AND 55000 FROM shop.order_lines": "t",
		"SELECT min(ordered_at) >= '2025-01-01Z' AND max(ordered_at) >= '2026-11-30Z' AND max(ordered_at) < '2026-12-01Z' FROM shop.orders":                                                                                                                                           "t",
		"SELECT bool_or(email IS NULL) AND bool_or(note = '') AND bool_or(note LIKE E'%\\n%') AND bool_or(name LIKE '%''%') FROM shop.customers":                                                                                                                                      "t",
		"SELECT bool_or(company LIKE '%\"%') AND bool_or(company LIKE '%,%') AND bool_or(note LIKE '=%') FROM shop.customers":                                                                                                                                                         "t",
		"SELECT count(DISTINCT country) FROM shop.customers WHERE name ~ '[^\\u0001-\\u036f]'":                                                                                                                                                                                        "6",
		"SELECT count(*) FROM shop.orders AS o WHERE total <> (SELECT sum(amount) FROM shop.order_lines WHERE order_id = o.id)":                                                                                                                                                       "0",
		"SELECT count(*) FROM shop.invoices WHERE gross <> net + vat OR vat <> round(net * vat_percent / 100, 2)":                                                                                                                                                                     "0",
		"SELECT count(*) FROM shop.invoices AS i WHERE number <> 'INV-' || extract(year FROM issued_on) || '-' || lpad((SELECT count(*) FROM shop.invoices AS b WHERE b.id <= i.id AND extract(year FROM b.issued_on) = extract(year FROM i.issued_on))::text, 4, '0') AND id > 4900": "0",
		"SELECT to_regproc('shop.pick') IS NULL": "t",
	} {
		if got := execute(t, c, sql); got != want {
			t.Errorf("%s: got %s, want %s", sql, got, want)
		}
	}
}

func TestASecondRunChangesNothing(t *testing.T) {
	t.Parallel()
	url := storagetest.Database(t, fill)
	c := reader(t, url)
	// Row versions and files of tables change when rows are written again.
	const fingerprint = `SELECT relname, oid, relfilenode FROM pg_class WHERE relnamespace = 'shop'::regnamespace ORDER BY oid`
	const versions = `SELECT count(*), min(xmin::text), max(xmin::text) FROM shop.orders`
	execute(t, c, "DELETE FROM shop.invoices; UPDATE shop.customers SET name = 'changed by its user' WHERE id = 1")
	before := execute(t, c, fingerprint) + execute(t, c, versions)
	for range 2 {
		if err := fill(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
	if after := execute(t, c, fingerprint) + execute(t, c, versions); after != before {
		t.Errorf("got %s, want %s", after, before)
	}
	if got := execute(t, c, "SELECT name, (SELECT count(*) FROM shop.invoices) FROM shop.customers WHERE id = 1"); got != "changed by its user|0" {
		t.Errorf("what the user changed became %s", got)
	}
}

func TestTwoShopsAreEqual(t *testing.T) {
	t.Parallel()
	copied, fresh := storagetest.Database(t, fill), storagetest.Database(t, nil)
	// Three connections start with the demo at once.
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if err := fill(t.Context(), fresh); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	one, two := reader(t, copied), reader(t, fresh)
	for _, run := range runs {
		a, _, _ := export(t, one, run.report, run.values)
		b, _, _ := export(t, two, run.report, run.values)
		for format, file := range a {
			if !bytes.Equal(file.Bytes(), b[format].Bytes()) {
				t.Errorf("%s %v: %d bytes of %s in one, %d in the other, or others", run.report, run.values, file.Len(), format, b[format].Len())
			}
		}
	}
	const invoices = "SELECT md5(string_agg(i::text, ',' ORDER BY id)) FROM shop.invoices AS i"
	if a, b := execute(t, one, invoices), execute(t, two, invoices); a != b {
		t.Error("the invoices differ")
	}
}

func TestAnotherShopIsLeftAlone(t *testing.T) {
	t.Parallel()
	url := storagetest.Database(t, nil)
	c := reader(t, url)
	execute(t, c, "CREATE SCHEMA shop; CREATE TABLE shop.orders (mine integer)")
	if err := fill(t.Context(), url); err == nil || !strings.Contains(err.Error(), "schema shop exists and is not the demo's") {
		t.Errorf("got %v", err)
	}
	if got := execute(t, c, "SELECT count(*) FROM pg_class WHERE relnamespace = 'shop'::regnamespace"); got != "1" {
		t.Errorf("the schema holds %s relations", got)
	}
}

// TestPostgresReadsLists binds lists of all types, which a report would use as
// = ANY(:name).
func TestPostgresReadsLists(t *testing.T) {
	t.Parallel()
	c := reader(t, storagetest.Database(t, nil))
	for typ, tt := range map[string]struct{ value, want string }{
		"text":            {`["a,b","","NULL"," {\"x\\y\"} "]`, `["a,b", "", "NULL", " {\"x\\y\"} "]`},
		"integer":         {"3, 1,-2", "[3, 1, -2]"},
		"decimal":         {"1.50,-0.001", "[1.50, -0.001]"},
		"boolean":         {"true,FALSE", "[true, false]"},
		"date":            {"2026-01-31", `["2026-01-31"]`},
		"timestamp":       {"2026-01-31T09:30:00+01:00", `["2026-01-31T08:30:00+00:00"]`},
		"uuid":            {"123E4567-e89b-12d3-a456-426614174000", `["123e4567-e89b-12d3-a456-426614174000"]`},
		"enum(a,in time)": {"in time,a", `["in time", "a"]`},
		"list":            {"", "[]"},
	} {
		if typ == "list" {
			typ = "integer"
		}
		d, err := report.Parse("a.sql", []byte("-- param: p list("+typ+")\nselect to_jsonb(:p), (:p)[1] = ANY(:p)"))
		if err != nil {
			t.Fatal(err)
		}
		q, err := d.Bind(map[string]string{"p": tt.value})
		if err != nil {
			t.Fatal(err)
		}
		got := c.ExecParams(t.Context(), q.SQL, [][]byte{[]byte(*q.Args[0])}, nil, nil, nil).Read()
		if got.Err != nil || string(got.Rows[0][0]) != tt.want || tt.want != "[]" && string(got.Rows[0][1]) != "t" {
			t.Errorf("%s %q: PostgreSQL read %s, %v, want %s", typ, tt.value, got.Rows, got.Err, tt.want)
		}
	}
}
