package report_test

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// TestTheExampleOfThePackageIsAReport reads the one in the package's comment.
func TestTheExampleOfThePackageIsAReport(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var src strings.Builder
	for line := range strings.Lines(file.Doc.Text()) {
		if code, ok := strings.CutPrefix(line, "\t"); ok {
			src.WriteString(code)
		}
	}
	d := parse(t, "orders", src.String())
	if len(d.Params) != 5 || len(d.Columns) != 5 || d.Tenant != "shop" || !d.HasOrderBy() {
		t.Errorf("got %+v", d)
	}
	choice, err := d.Choose(formats(t), report.Choice{})
	if err != nil {
		t.Fatal(err)
	}
	columns := []tabular.Column{{Name: "id", OID: tabular.OIDInt8}, {Name: "ordered_at", OID: tabular.OIDTimestampTZ}, {Name: "status", OID: tabular.OIDText},
		{Name: "total", OID: tabular.OIDNumeric}, {Name: "shop_id", OID: tabular.OIDInt4}}
	layouts, err := d.Layouts(columns, choice)
	if err != nil || len(layouts) != 2 || len(layouts[0].Fields) != 4 {
		t.Errorf("got %+v, %v", layouts, err)
	}
	values, err := d.Given(map[string]string{"from": "2026-01-01", "to": "2026-02-01", "status": "new, paid"}, "north")
	if err != nil {
		t.Fatal(err)
	}
	if q, err := d.Bind(values); err != nil || deref(q.Args[3]) != `{"new","paid"}` {
		t.Errorf("got %+v, %v", q, err)
	}
	// Every key has its place in the comment.
	for _, key := range []string{"title", "description", "filename", "param", "column", "format", "preset", "locale", "zone", "strict", "tenant", "source", "max_rows", "timeout"} {
		if !strings.Contains(file.Doc.Text(), "  - "+key) && key != "description" {
			t.Errorf("%s is not explained", key)
		}
	}
}
