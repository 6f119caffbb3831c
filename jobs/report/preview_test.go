package report_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func preview(t *testing.T, source *table, l *tabular.Layout, n int) string {
	t.Helper()
	page, err := report.Preview(t.Context(), source, l, n)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPreview(t *testing.T) {
	t.Parallel()
	cols := []tabular.Column{{Name: "a,\n\"b", OID: tabular.OIDText, Type: "text"}, {Name: "ok", OID: tabular.OIDBool}, {Name: "at", OID: tabular.OIDTimestampTZ}}
	rows := [][]string{{"x,\r\n\"y\"", "t", "2026-01-31 09:30:00+01"}, {null, null, null}, {"", "f", "infinity"}, {`\N`, "t", null}}
	l := layout(cols)
	l.Preset, l.Strict, l.Fields[0].Label = tabular.Spreadsheet, true, "First"
	const head = `{"columns":[{"key":"a,\n\"b","label":"First","kind":"text","type":"text"},{"key":"ok","label":"ok","kind":"boolean"},{"key":"at","label":"at","kind":"timestamp"}],"rows":[`
	const three = `["x,\r\n\"y\"","true","2026-01-31T09:30:00+01:00"],[null,null,null],["","false","infinity"]`
	const fourth = `,["\\N","true",null]`
	for n, want := range map[int]string{0: `],"more":true}`, 3: three + `],"more":true}`, 4: three + fourth + `],"more":false}`, 9: three + fourth + `],"more":false}`} {
		source := newTable(cols, rows...)
		if got := preview(t, source, l, n); got != head+want {
			t.Errorf("%d rows: got  %s\nwant %s", n, got, head+want)
		}
		if source.at > min(n, len(rows))+1 {
			t.Errorf("Next was called %d times for %d rows", source.at, n)
		}
	}
}

func TestPreviewOfOneColumn(t *testing.T) {
	t.Parallel()
	cols := columns(tabular.OIDText, "x")
	const want = `{"columns":[{"key":"x","label":"x","kind":"text"}],"rows":[[null],[""],["\\N"],["\\."],["a"]],"more":false}`
	if got := preview(t, newTable(cols, []string{null}, []string{""}, []string{`\N`}, []string{`\.`}, []string{"a"}), layout(cols), 5); got != want {
		t.Errorf("got %s", got)
	}
	if got := preview(t, newTable(cols), layout(cols), 5); got != `{"columns":[{"key":"x","label":"x","kind":"text"}],"rows":[],"more":false}` {
		t.Errorf("got %s", got)
	}
}

func TestPreviewFails(t *testing.T) {
	t.Parallel()
	cols := columns(tabular.OIDBool, "x")
	broken := newTable(cols)
	broken.err = errors.New("connection reset")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("asked to stop"))
	for want, try := range map[string]struct {
		ctx    context.Context
		source *table
	}{
		"preview: read rows: connection reset":                  {t.Context(), broken},
		"preview: asked to stop":                                {ended, newTable(cols, []string{"t"})},
		`preview: row 1, column "x": value "yes" is not t or f`: {t.Context(), newTable(cols, []string{"yes"})},
	} {
		if page, err := report.Preview(try.ctx, try.source, layout(cols), 3); err == nil || err.Error() != want {
			t.Errorf("got %+v, %v, want %s", page, err, want)
		}
	}
}

// FuzzPreview: a page shows every text and NULL as it is.
func FuzzPreview(f *testing.F) {
	f.Add("a", "\x00", `\N`, 2)
	f.Add("", ",\"\r\n", " ", 1)
	f.Fuzz(func(t *testing.T, a, b, c string, width int) {
		names := []string{"a", "b", "c"}
		if width < 1 || width > len(names) {
			return
		}
		row := []string{a, b, c}[:width]
		for i, v := range row {
			if v == "\x00" {
				row[i] = null
			}
		}
		cols := columns(tabular.OIDText, names[:width]...)
		page, err := report.Preview(t.Context(), newTable(cols, row, row), layout(cols), 2)
		if err != nil {
			return // no text
		}
		if len(page.Rows) != 2 || page.More {
			t.Fatalf("%q: got %d rows, %v", row, len(page.Rows), page.More)
		}
		for i, want := range row {
			got := null
			if page.Rows[1][i] != nil {
				got = *page.Rows[1][i]
			}
			if got != want {
				t.Errorf("%q became %q", want, got)
			}
		}
	})
}
