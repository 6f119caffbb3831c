package report_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"testing"

	"github.com/fenceline/fenceline/jobs/report"
)

// loop gives the rows of a table again and again.
type loop struct {
	table
	left int
}

func (s *loop) Next() bool       { s.left--; return s.left >= 0 }
func (s *loop) Values() [][]byte { return s.rows[s.left%len(s.rows)] }

// orderRows are rows of the kind that a shop exports.
func orderRows() *loop {
	cols := []report.Column{{Name: "id", OID: oidInt8}, {Name: "uid", OID: 2950}, {Name: "customer", OID: oidText},
		{Name: "email", OID: oidText}, {Name: "amount", OID: oidNumeric}, {Name: "currency", OID: oidText},
		{Name: "created_at", OID: oidTimestamptz}, {Name: "meta", OID: oidJSONB}, {Name: "note", OID: oidText}}
	names := []string{"Ana Perez", `Ana "Ani" Pérez`, "Müller, Söhne & Co", "মেঘনা ট্রেডার্স", "O'Brien Ltd"}
	notes := []string{null, "", "Leave at the door,\nplease ring twice", "Call before delivery. The gate code changes every week, so ask the porter for it.", "ok"}
	var rows [][]string
	for i := range 1000 {
		meta := null
		if i%3 > 0 {
			meta = fmt.Sprintf(`{"ip": "10.0.%d.%d", "source": "web", "items": %d}`, i%256, i%251, i%7)
		}
		rows = append(rows, []string{fmt.Sprint(1_000_000 + i), fmt.Sprintf("123e4567-e89b-12d3-a456-%012d", i), names[i%5], fmt.Sprintf("user%d@example.org", i),
			fmt.Sprintf("%d.%02d", i*7, i%100), "EUR", fmt.Sprintf("2026-01-%02d 10:%02d:%02d.123456+00", 1+i%28, i%60, i%60), meta, notes[i/5%5]})
	}
	return &loop{table: *newTable(cols, rows...)}
}

func BenchmarkWriteCSV(b *testing.B) {
	const rows = 100_000
	bytesOf := func(b *testing.B, write func(io.Writer)) {
		var n counter
		for b.Loop() {
			n = 0
			write(&n)
		}
		b.SetBytes(int64(n))
		b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
	}
	source := orderRows()
	b.Run("report", func(b *testing.B) {
		bytesOf(b, func(w io.Writer) {
			source.left = rows
			if _, err := report.WriteCSV(b.Context(), w, source, nil); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("encoding-csv", func(b *testing.B) {
		bytesOf(b, func(w io.Writer) {
			source.left = rows
			out, record := csv.NewWriter(w), make([]string, len(source.columns))
			for source.Next() {
				for i, v := range source.Values() {
					record[i] = string(v)
				}
				if err := out.Write(record); err != nil {
					b.Fatal(err)
				}
			}
			out.Flush()
		})
	})
}

// counter counts bytes.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
