package demo_test

import (
	"encoding/json"
	"testing"

	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// Every row of the source of invoices is a document, but for its number.
func TestTheMonthIsBilled(t *testing.T) {
	t.Parallel()
	c := reader(t, storagetest.Database(t, fill))
	sql, args := query(t, "monthly-invoices", map[string]string{"month": "2025-03"})
	rows := &result{ResultReader: c.ExecParams(t.Context(), sql, args, nil, nil, nil)}
	n, seen := 0, map[string]bool{}
	for rows.Next() {
		n++
		customer, document := string(rows.Values()[0]), rows.Values()[1]
		var fields map[string]any
		if err := json.Unmarshal(document, &fields); err != nil {
			t.Fatal(err)
		}
		fields["number"] = "1"
		raw, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := invoice.Parse(raw); err != nil || seen[customer] {
			t.Errorf("customer %s (twice: %t): %v", customer, seen[customer], err)
		}
		seen[customer] = true
	}
	if rows.Err() != nil || n < 500 || n > 900 {
		t.Errorf("%d customers, %v", n, rows.Err())
	}
}
