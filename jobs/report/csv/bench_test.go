package csv_test

import (
	stdcsv "encoding/csv"
	"fmt"
	"io"
	"testing"

	"github.com/fenceline/fenceline/jobs/report/csv"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// orders are a layout and rows of the kind that a shop exports.
func orders(preset tabular.Preset, locale string) (*tabular.Layout, [][][]byte) {
	l := layout(preset, field("id", tabular.OIDInt8, tabular.Integer), field("uid", tabular.OIDUUID, tabular.Plain),
		field("customer", tabular.OIDText, tabular.Text), field("email", tabular.OIDText, tabular.Text),
		field("amount", tabular.OIDNumeric, tabular.Money), field("currency", tabular.OIDText, tabular.Text),
		field("created_at", tabular.OIDTimestampTZ, tabular.Timestamp), field("meta", tabular.OIDJSONB, tabular.JSON),
		field("note", tabular.OIDText, tabular.Text))
	l.Locale, _ = tabular.LocaleByName(locale)
	names := []string{"Ana Perez", `Ana "Ani" Pérez`, "Müller, Söhne & Co", "মেঘনা ট্রেডার্স", "O'Brien Ltd"}
	notes := []string{null, "", "Leave at the door,\nplease ring twice", "Call before delivery. The gate code changes every week, so ask the porter for it.", "ok"}
	var rows [][][]byte
	for i := range 1000 {
		meta := null
		if i%3 > 0 {
			meta = fmt.Sprintf(`{"ip": "10.0.%d.%d", "source": "web", "items": %d}`, i%256, i%251, i%7)
		}
		rows = append(rows, values(fmt.Sprint(1_000_000+i), fmt.Sprintf("123e4567-e89b-12d3-a456-%012d", i), names[i%5], fmt.Sprintf("user%d@example.org", i),
			fmt.Sprintf("%d.%02d", i*7, i%100), "EUR", fmt.Sprintf("2026-01-%02d 10:%02d:%02d.123456+00", 1+i%28, i%60, i%60), meta, notes[i/5%5]))
	}
	return l, rows
}

const benchRows = 100_000

func BenchmarkCSV(b *testing.B) {
	for _, preset := range []tabular.Preset{tabular.Data, tabular.Spreadsheet} {
		b.Run(string(preset), func(b *testing.B) {
			l, rows := orders(preset, map[tabular.Preset]string{tabular.Spreadsheet: "de-DE"}[preset])
			bytesOf(b, func(w io.Writer) {
				e, err := csv.Format().New(w, l, tabular.NewNotes("csv", l))
				for i := 0; i < benchRows && err == nil; i++ {
					err = e.Row(int64(i+1), rows[i%len(rows)])
				}
				if err != nil {
					b.Fatal(err)
				}
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
	b.Run("encoding-csv", func(b *testing.B) {
		l, rows := orders(tabular.Data, "")
		bytesOf(b, func(w io.Writer) {
			out, record := stdcsv.NewWriter(w), make([]string, len(l.Fields))
			for i := range benchRows {
				for j, v := range rows[i%len(rows)] {
					record[j] = string(v)
				}
				if err := out.Write(record); err != nil {
					b.Fatal(err)
				}
			}
			out.Flush()
		})
	})
}

func bytesOf(b *testing.B, write func(io.Writer)) {
	var n counter
	for b.Loop() {
		n = 0
		write(&n)
	}
	b.SetBytes(int64(n))
	b.ReportMetric(float64(b.N)*benchRows/b.Elapsed().Seconds(), "rows/s")
}

// counter counts bytes.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
