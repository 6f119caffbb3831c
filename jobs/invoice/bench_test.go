package invoice

import (
	"fmt"
	"io"
	"testing"
)

// manyLines is a document with n lines of different descriptions.
func manyLines(tb testing.TB, n int) []byte {
	tb.Helper()
	lines := make([]any, n)
	for i := range lines {
		lines[i] = with(line(description(i), fmt.Sprint(i%7+1), fmt.Sprintf("%d.%02d", i%90+1, i%100),
			[]string{"19", "7"}[i%2]), "unit", "pcs")
	}
	return simple(tb, object{"lines": lines})
}

func description(i int) string { return fmt.Sprintf("Item %04d, oak, planed and oiled", i+1) }

// BenchmarkWritePDF writes an invoice of 40 lines.
func BenchmarkWritePDF(b *testing.B) {
	doc := parse(b, manyLines(b, 40))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := doc.WritePDF(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
