package jsonl_test

import (
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/fenceline/fenceline/jobs/report/jsonl"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// orders are a layout and rows of the kind that a shop exports.
func orders() (*tabular.Layout, [][][]byte) {
	l := layout(field("id", tabular.OIDInt8, tabular.Integer), field("uid", tabular.OIDUUID, tabular.Plain), field("customer", tabular.OIDText, tabular.Text),
		field("email", tabular.OIDText, tabular.Text), field("amount", tabular.OIDNumeric, tabular.Money), field("currency", tabular.OIDText, tabular.Text),
		field("created_at", tabular.OIDTimestampTZ, tabular.Timestamp), field("meta", tabular.OIDJSONB, tabular.JSON), field("note", tabular.OIDText, tabular.Text))
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

// order is what a program writes with encoding/json.
type order struct {
	ID        json.Number     `json:"id"`
	UID       string          `json:"uid"`
	Customer  string          `json:"customer"`
	Email     string          `json:"email"`
	Amount    json.Number     `json:"amount"`
	Currency  string          `json:"currency"`
	CreatedAt string          `json:"created_at"`
	Meta      json.RawMessage `json:"meta"`
	Note      *string         `json:"note"`
}

func BenchmarkJSONL(b *testing.B) {
	l, rows := orders()
	b.Run("jsonl", func(b *testing.B) {
		bytesOf(b, func(w io.Writer) error {
			e, err := jsonl.Format().New(w, l, tabular.NewNotes("jsonl", l))
			for i := 0; i < benchRows && err == nil; i++ {
				err = e.Row(int64(i+1), rows[i%len(rows)])
			}
			if err != nil {
				return err
			}
			return e.Close()
		})
	})
	b.Run("encoding-json", func(b *testing.B) {
		bytesOf(b, func(w io.Writer) error {
			enc := json.NewEncoder(w)
			for i := range benchRows {
				v := rows[i%len(rows)]
				o := order{ID: json.Number(v[0]), UID: string(v[1]), Customer: string(v[2]), Email: string(v[3]), Amount: json.Number(v[4]), Currency: string(v[5]), CreatedAt: string(v[6]), Meta: v[7]}
				if v[8] != nil {
					note := string(v[8])
					o.Note = &note
				}
				if err := enc.Encode(o); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func bytesOf(b *testing.B, write func(io.Writer) error) {
	var n counter
	for b.Loop() {
		n = 0
		if err := write(&n); err != nil {
			b.Fatal(err)
		}
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
