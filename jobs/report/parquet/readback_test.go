package parquet_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"testing"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// open reads the metadata of a file with parquet-go.
func open(t testing.TB, file []byte) *pq.File {
	t.Helper()
	f, err := pq.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// readBack gives every row of a file to each, as parquet-go reads it: numbers in
// units of their last digit, times in units of their integer, nil for NULL. The
// slice is used again.
func readBack(t testing.TB, file []byte, each func(row int, values []*string)) {
	t.Helper()
	f := open(t, file)
	leaves := f.Schema().Fields()
	values := make([]*string, len(leaves))
	buffer := make([]pq.Row, 512)
	count := 0
	for _, group := range f.RowGroups() {
		rows := group.Rows()
		for {
			n, err := rows.ReadRows(buffer)
			for _, r := range buffer[:n] {
				for i, v := range r {
					values[i] = textOf(leaves[i].Type(), v)
				}
				each(count, values)
				count++
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if int64(count) != f.NumRows() {
		t.Fatalf("%d rows in a file of %d", count, f.NumRows())
	}
}

func textOf(of pq.Type, v pq.Value) *string {
	if v.IsNull() {
		return nil
	}
	var s string
	switch v.Kind() {
	case pq.Boolean:
		s = strconv.FormatBool(v.Boolean())
	case pq.Int32:
		s = strconv.Itoa(int(v.Int32()))
	case pq.Int64:
		s = strconv.FormatInt(v.Int64(), 10)
	case pq.Float:
		s = strconv.FormatFloat(float64(v.Float()), 'g', -1, 32)
	case pq.Double:
		s = strconv.FormatFloat(v.Double(), 'g', -1, 64)
	case pq.FixedLenByteArray:
		s = fixedText(of, v.ByteArray())
	default:
		s = string(v.ByteArray())
	}
	return &s
}

func fixedText(of pq.Type, b []byte) string {
	if l := of.LogicalType(); l != nil {
		if _, ok := l.Value.(*format.UUIDType); ok {
			return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		}
	}
	n := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n.String()
}
