package parquet_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/report/parquet"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestNoRowsKeepTheSchema(t *testing.T) {
	t.Parallel()
	file, _ := mustWrite(t, orderLayout())
	from := quote(save(t, file))
	answers := duckdb(t, "DESCRIBE FROM "+from, "SELECT count(*)::VARCHAR FROM "+from)
	var names []string
	for _, r := range answers[0].Rows {
		names = append(names, *r[0])
	}
	if got := strings.Join(names, " "); got != "id key customer email amount currency created_at attributes note" {
		t.Errorf("columns %s", got)
	}
	if got := *answers[1].Rows[0][0]; got != "0" {
		t.Errorf("%s rows", got)
	}
	if f := open(t, file); f.NumRows() != 0 {
		t.Errorf("parquet-go reads %d rows", f.NumRows())
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	file, _ := mustWrite(t, orderLayout(), newOrders(0).next())
	f := open(t, file)
	if got := f.Metadata().CreatedBy; got != "Fenceline" {
		t.Errorf("created by %q", got)
	}
	for key, want := range map[string]string{"fenceline.title": "Orders", "fenceline.zone": "UTC"} {
		if got, _ := f.Lookup(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	rows := duckdb(t, "SELECT DISTINCT compression FROM parquet_metadata("+quote(save(t, file))+")")[0].Rows
	if len(rows) != 1 || *rows[0][0] != "ZSTD" {
		t.Errorf("compressions %v", rows)
	}
}

// TestOrdersInDuckDB compares sums over several row groups, which no lost,
// doubled or shifted value would leave the same.
func TestOrdersInDuckDB(t *testing.T) {
	t.Parallel()
	const rows, noise = 10_000, 1000
	var file strings.Builder
	if err := writeOrders(&file, newOrders(noise), rows); err != nil {
		t.Fatal(err)
	}
	var cents, notes, nulls, euros int64
	o := newOrders(noise)
	for range rows {
		v := o.next()
		n, err := strconv.ParseInt(strings.Replace(string(v[4]), ".", "", 1), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		cents += n
		notes += int64(len(v[8]))
		if v[8] == nil {
			nulls++
		}
		if string(v[5]) == "EUR" {
			euros++
		}
	}
	from := quote(save(t, []byte(file.String())))
	answers := duckdb(t, "SELECT sum(amount*100)::BIGINT::VARCHAR, sum(octet_length(encode(note)))::VARCHAR, count_if(note IS NULL)::VARCHAR, "+
		"count_if(currency='EUR')::VARCHAR, count(DISTINCT key)::VARCHAR, max(id)::VARCHAR, count_if(json_extract_string(attributes, '$.gift') = 'true')::VARCHAR FROM "+from,
		"SELECT count(DISTINCT row_group_id)::VARCHAR FROM parquet_metadata("+from+")")
	want := fmt.Sprint(cents, " ", notes, " ", nulls, " ", euros, " ", rows, " ", rows, " ", rows)
	var got []string
	for _, v := range answers[0].Rows[0] {
		got = append(got, *v)
	}
	if strings.Join(got, " ") != want {
		t.Errorf("DuckDB reads %s, want %s", got, want)
	}
	if groups := *answers[1].Rows[0][0]; groups == "1" {
		t.Error("one row group: the limit on its bytes does not work")
	}
}

// TestDictionaries writes columns that repeat from the start, until later, and never.
func TestDictionaries(t *testing.T) {
	t.Parallel()
	const rows = 100_000
	l := layoutOf(tabular.Column{Name: "few", OID: tabular.OIDText}, tabular.Column{Name: "later", OID: tabular.OIDInt8},
		tabular.Column{Name: "never", OID: tabular.OIDInt4}, tabular.Column{Name: "one", OID: tabular.OIDText}, tabular.Column{Name: "none", OID: tabular.OIDText})
	value := func(row int) [][]byte {
		later := row % 100
		if row > 50_000 {
			later = row
		}
		return [][]byte{fmt.Appendf(nil, "value %d", row%7), strconv.AppendInt(nil, int64(later), 10), strconv.AppendInt(nil, int64(row), 10), []byte("x"), nil}
	}
	var in [][][]byte
	for i := range rows {
		in = append(in, value(i))
	}
	file, _ := mustWrite(t, l, in...)
	readBack(t, file, func(row int, values []*string) {
		for i, v := range values {
			if v == nil && in[row][i] == nil {
				continue
			}
			if v == nil || *v != string(in[row][i]) {
				t.Fatalf("row %d, column %d: %s, want %q", row, i, show(v), in[row][i])
			}
		}
	})
	answers := duckdb(t, "SELECT path_in_schema, encodings, stats_min_value, stats_max_value FROM parquet_metadata("+quote(save(t, file))+") ORDER BY column_id",
		"SELECT sum(later)::VARCHAR FROM "+quote(save(t, file)))
	for i, want := range []bool{true, true, false, true, false} {
		if r := answers[0].Rows[i]; strings.Contains(*r[1], "RLE_DICTIONARY") != want {
			t.Errorf("%s has the encodings %s", *r[0], *r[1])
		}
	}
	if r := answers[0].Rows[0]; show(r[2]) != show("value 0") || show(r[3]) != show("value 6") {
		t.Errorf("bounds %s and %s of a dictionary", show(r[2]), show(r[3]))
	}
	sum := 0
	for i := range rows {
		n, _ := strconv.Atoi(string(in[i][1]))
		sum += n
	}
	if got := *answers[1].Rows[0][0]; got != strconv.Itoa(sum) {
		t.Errorf("sum %s, want %d", got, sum)
	}
}

// TestBounds looks for the values at the edges by comparing, which reads the
// bounds of the row group first: with wrong ones, nothing is found.
func TestBounds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("z", 200)
	for _, c := range []struct {
		name     string
		field    tabular.Field
		values   []any
		min, max any // as DuckDB shows them; nil when there must be none
		find     string
	}{
		{"int8", field(tabular.OIDInt8, ""), []any{"5", "-7", nil, "3"}, "-7", "5", "v < -6"},
		{"numeric(38,2)", numeric(38, 2), []any{"1.00", "-2.50", "0.00"}, "-2.50", "1.00", "v < -2"},
		{"numeric(9,2)", numeric(9, 2), []any{"1.00", "-2.50", "0.00"}, "-2.50", "1.00", "v = -2.5"},
		{"date", field(tabular.OIDDate, ""), []any{"1969-12-31", "2026-01-31"}, "1969-12-31", "2026-01-31", "v < '1970-01-01'"},
		{"text", field(tabular.OIDText, ""), []any{"b", "", "é"}, "", "é", "v = ''"},
		{"long text", field(tabular.OIDText, ""), []any{"b", long, "a"}, nil, nil, "v > 'y'"},
		{"float8", field(tabular.OIDFloat8, ""), []any{"1.5", "-2"}, "-2.0", "1.5", "v = -2"},
		{"zero", field(tabular.OIDFloat8, ""), []any{"0"}, "-0.0", "0.0", "v = 0"},
		{"NaN", field(tabular.OIDFloat8, ""), []any{"1.5", "NaN"}, nil, nil, "v > 1000"},
		{"NaN first", field(tabular.OIDFloat4, ""), []any{"NaN", "1.5"}, nil, nil, "v > 1000"},
		{"nulls", field(tabular.OIDInt4, ""), []any{nil, nil}, nil, nil, "v IS NULL AND rowid = 0"},
		{"bool", field(tabular.OIDBool, ""), []any{"f", "t"}, "false", "true", "v"},
		{"uuid", field(tabular.OIDUUID, ""), []any{"ffffffff-ffff-ffff-ffff-ffffffffffff", "00000000-0000-0000-0000-000000000001"}, "00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff", "v < '00000000-0000-0000-0000-000000000002'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := layoutOf(c.field.Column)
			l.Fields[0] = c.field
			l.Fields[0].Key = "v"
			var rows [][][]byte
			for _, v := range c.values {
				rows = append(rows, row(v))
			}
			file, _ := mustWrite(t, l, rows...)
			from := quote(save(t, file))
			answers := duckdb(t, "SELECT stats_min_value, stats_max_value FROM parquet_metadata("+from+")",
				"SELECT count(*)::VARCHAR FROM (SELECT v, file_row_number AS rowid FROM read_parquet("+from+", file_row_number=true)) WHERE "+c.find)
			if r := answers[0].Rows[0]; show(r[0]) != show(c.min) || show(r[1]) != show(c.max) {
				t.Errorf("bounds %s and %s, want %v and %v", show(r[0]), show(r[1]), c.min, c.max)
			}
			if got := *answers[1].Rows[0][0]; got != "1" {
				t.Errorf("%s rows where %s, want 1", got, c.find)
			}
		})
	}
}

// TestBoundsOfSeveralPages has its extremes in different pages.
func TestBoundsOfSeveralPages(t *testing.T) {
	t.Parallel()
	const rows = 40_000
	l := layoutOf(tabular.Column{Name: "v", OID: tabular.OIDNumeric, Precision: 38}, tabular.Column{Name: "t", OID: tabular.OIDText})
	var in [][][]byte
	for i := range rows {
		in = append(in, row(strconv.Itoa(rows/2-i), fmt.Sprintf("%05d", rows-i)))
	}
	file, _ := mustWrite(t, l, in...)
	bounds := duckdb(t, "SELECT stats_min_value, stats_max_value FROM parquet_metadata("+quote(save(t, file))+") ORDER BY column_id")[0].Rows
	if *bounds[0][0] != "-19999" || *bounds[0][1] != "20000" || *bounds[1][0] != "00001" || *bounds[1][1] != "40000" {
		t.Errorf("bounds %s to %s and %s to %s", *bounds[0][0], *bounds[0][1], *bounds[1][0], *bounds[1][1])
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field tabular.Field
		value string
		says  string
	}{
		{field(tabular.OIDBool, ""), "yes", "is no boolean"},
		{field(tabular.OIDInt2, ""), "32768", "is no whole number"},
		{field(tabular.OIDInt2, ""), "-32769", "is no whole number"},
		{field(tabular.OIDInt4, ""), "2147483648", "is no whole number"},
		{field(tabular.OIDInt8, ""), "9223372036854775808", "is no whole number"},
		{field(tabular.OIDInt8, ""), "18446744073709551617", "is no whole number"},
		{field(tabular.OIDInt8, ""), "", "is no whole number"},
		{field(tabular.OIDInt8, ""), "1.0", "is no whole number"},
		{field(tabular.OIDFloat8, ""), "x", "is no floating-point number"},
		{field(tabular.OIDFloat4, ""), "1e39", "is no floating-point number"},
		{numeric(5, 2), "1.005", "does not fit DECIMAL(5,2)"},
		{numeric(5, 2), "1000.00", "does not fit DECIMAL(5,2)"},
		{numeric(5, 2), "1e2", "is no decimal number"},
		{numeric(5, 2), "", "is no decimal number"},
		{numeric(5, 2), "-", "is no decimal number"},
		{numeric(5, 2), "1.2.3", "is no decimal number"},
		{declared(tabular.Money, 2), "0.001", "declare as many decimals"},
		{declared(tabular.Money, 2), strings.Repeat("9", 37), "does not fit DECIMAL(38,2)"},
		{field(tabular.OIDNumeric, ""), "one", "is no decimal number"},
		{field(tabular.OIDDate, ""), "2026-02-29", "is no date"},
		{field(tabular.OIDDate, ""), "2026-01-31 00:00:00", "is no date"},
		{field(tabular.OIDTimestampTZ, ""), "2026-01-31 09:30:00", "with an offset"},
		{field(tabular.OIDTimestamp, ""), "2026-01-31 09:30:00+01", "is no local time"},
		{field(tabular.OIDTimestamp, ""), "2026-01-31 25:00:00", "is no local time"},
		{field(tabular.OIDTimestamp, ""), "2026-01-31", "is no local time"},
		{field(tabular.OIDTime, ""), "9:30", "is no time of a day"},
		{field(tabular.OIDTime, ""), "24:00:01", "is no time of a day"},
		{field(tabular.OIDTime, ""), "12:00:00.", "is no time of a day"},
		{field(tabular.OIDUUID, ""), "a0eebc999c0b4ef8bb6d6bb9bd380a11", "is no UUID"},
		{field(tabular.OIDUUID, ""), "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "is no UUID"},
		{field(tabular.OIDBytea, ""), `\x0`, "is no bytea"},
		{field(tabular.OIDBytea, ""), "abc", "is no bytea"},
		{field(tabular.OIDText, ""), "a\xff", "is not valid UTF-8"},
		{field(90001, tabular.Enum), "a\xff", "is not valid UTF-8"},
		{labelled(map[string]string{}), "a\xff", "is not valid UTF-8"},
		{field(tabular.OIDJSON, ""), "{", "is no JSON"},
		{array(tabular.OIDInt4), "{1", "is no array"},
	} {
		l := layoutOf(c.field.Column)
		l.Fields[0] = c.field
		l.Fields[0].Key = "v"
		_, _, err := write(l, row(nil), row(c.value))
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `row 2, column "v": value `+strconv.Quote(c.value)[:1]) {
			t.Errorf("%q: %v, want %s", c.value, err, c.says)
		}
	}
}

func TestStrictRefusesWhatHasNoValue(t *testing.T) {
	t.Parallel()
	for value, f := range map[string]tabular.Field{"NaN": numeric(5, 2), "infinity": field(tabular.OIDDate, ""), "24:00:00": field(tabular.OIDTime, "")} {
		l := layoutOf(f.Column)
		l.Strict = true
		if _, _, err := write(l, row(value)); err == nil {
			t.Errorf("%s was written", value)
		}
	}
}

// TestFormat is what the engine goes by.
func TestFormat(t *testing.T) {
	t.Parallel()
	f := parquet.Format()
	if f.Name != "parquet" || f.MediaType != "application/vnd.apache.parquet" || f.Compressible {
		t.Errorf("%+v", f)
	}
}

// full is a disk that has so many bytes left.
type full struct{ left int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriteErrorsArePassedOn(t *testing.T) {
	t.Parallel()
	for _, left := range []int{0, 4, 1000, 100_000} {
		if err := writeOrders(&full{left: left}, newOrders(0), 3000); !errors.Is(err, errFull) {
			t.Errorf("with %d bytes left: %v", left, err)
		}
	}
}

// TestManyColumns: as many as a SELECT can have in PostgreSQL.
func TestManyColumns(t *testing.T) {
	t.Parallel()
	const columns, rows = 1664, 50
	var of []tabular.Column
	for i := range columns {
		of = append(of, tabular.Column{Name: "c" + strconv.Itoa(i), OID: tabular.OIDInt4})
	}
	var in [][][]byte
	for i := range rows {
		values := make([][]byte, columns)
		for c := range values {
			values[c] = strconv.AppendInt(nil, int64(i*c), 10)
		}
		in = append(in, values)
	}
	file, _ := mustWrite(t, layoutOf(of...), in...)
	readBack(t, file, func(row int, values []*string) {
		for c, v := range values {
			if v == nil || *v != string(in[row][c]) {
				t.Fatalf("row %d, column %d: %s, want %s", row, c, show(v), in[row][c])
			}
		}
	})
}

// TestMemoryStaysFlat compares processes that write files of different lengths, of
// two row groups and of several.
func TestMemoryStaysFlat(t *testing.T) {
	t.Parallel()
	const short, long, noise = 7_000, 22_000, 1000
	less, more := writeInChild(t, os.DevNull, short, noise), writeInChild(t, os.DevNull, long, noise)
	const step = 4 << 20 // in which Go's runtime takes memory
	if more.Sys > less.Sys*1.1+step {
		t.Errorf("%.1f MB for %d rows, %.1f MB for %d", less.Sys/1e6, short, more.Sys/1e6, long)
	}
	if more.Sys > 64e6 {
		t.Errorf("%.1f MB for %d rows", more.Sys/1e6, long)
	}
	if perRow := (more.Mallocs - less.Mallocs) / (long - short); perRow > 0.2 {
		t.Errorf("%.3f allocations per row", perRow)
	}
}
