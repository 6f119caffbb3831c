package report_test

import (
	"io"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/report"
)

func TestBuiltInFormats(t *testing.T) {
	t.Parallel()
	const want = "csv csv.gz csv.zst xlsx jsonl jsonl.gz jsonl.zst parquet"
	if got := strings.Join(formats(t).Names(), " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestOneReadingMakesAllFiles writes all formats at once, from columns of every
// kind.
func TestOneReadingMakesAllFiles(t *testing.T) {
	t.Parallel()
	d := parse(t, "a", `-- column: status enum(n "New", p "Paid") show both "Status"
-- column: total money(EUR) "Total"
-- column: odd hidden
-- zone: Europe/Berlin
select 1`)
	f := formats(t)
	choice, err := d.Choose(f, report.Choice{Formats: f.Names(), Preset: "spreadsheet", Locale: "de-DE"})
	if err != nil {
		t.Fatal(err)
	}
	rows := newTable(result(), []string{"1", "n", "12.500", "0.1", "2026-01-31 09:30:00+01", `{a,"b c"}`, "x"}, []string{null, null, null, null, null, null, null},
		[]string{"352776136104522888", "p", "-1.000", "NaN", "infinity", "{}", "=1"})
	layouts, err := d.Layouts(rows.Columns(), choice)
	if err != nil {
		t.Fatal(err)
	}
	var targets []report.Target
	sinks := map[string]*sink{}
	for i, name := range choice.Formats {
		file, err := f.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		sinks[name] = new(sink)
		targets = append(targets, report.Target{File: file, W: sinks[name], Layout: layouts[i]})
	}
	sum, err := report.Write(t.Context(), rows, targets, 0, nil)
	if err != nil || sum.Rows != 3 {
		t.Fatalf("got %+v, %v", sum, err)
	}
	for name, magic := range map[string]string{"xlsx": "PK", "parquet": "PAR1", "csv.gz": "\x1f\x8b", "csv.zst": "\x28\xb5\x2f\xfd", "jsonl.gz": "\x1f\x8b", "jsonl.zst": "\x28\xb5\x2f\xfd",
		"jsonl": `{"id":1,"status":"n","status_label":"New","total":12.5`, "csv": "\ufeff\"id\";\"Status\";\"Status (label)\";\"Total\";\"rate\";"} {
		if got := sinks[name].String(); !strings.HasPrefix(got, magic) {
			t.Errorf("%s begins with %.60q", name, got)
		}
	}
	if unzip(t, sinks["csv.gz"]) != sinks["csv"].String() || unzstd(t, sinks["jsonl.zst"]) != sinks["jsonl"].String() {
		t.Error("compressed files hold something else")
	}
}

// again gives the same rows as often as it is told.
type again struct {
	table
	left int
}

func (s *again) Next() bool       { s.left--; return s.left >= 0 }
func (s *again) Values() [][]byte { return s.rows[s.left%len(s.rows)] }

// TestRowsDoNotAllocate is not parallel: it counts what the process allocates.
func TestRowsDoNotAllocate(t *testing.T) {
	f := formats(t)
	source := &again{table: *newTable(result(), []string{"1", "n", "12.500", "0.1", "2026-01-31 09:30:00+01", `{a,"b c"}`, "x"})}
	l := layout(source.columns)
	var targets []report.Target
	for _, name := range []string{"csv", "csv.gz", "jsonl.zst"} {
		file, err := f.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, report.Target{File: file, W: io.Discard, Layout: l})
	}
	count := func(rows int) float64 {
		return testing.AllocsPerRun(2, func() {
			source.left = rows
			if _, err := report.Write(t.Context(), source, targets, 0, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	few, many := count(5_000), count(20_000)
	if many > few+200 {
		t.Errorf("%v allocations for 5,000 rows, %v for 20,000", few, many)
	}
}
