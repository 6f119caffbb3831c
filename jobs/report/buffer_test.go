package report

import (
	"bytes"
	"context"
	"testing"
)

func TestALongRowDoesNotKeepItsMemory(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &stream{w: &out}
	enc := newCSVEncoder([]Column{{Name: "x"}})
	long := bytes.Repeat([]byte("x"), 3<<20)
	for _, v := range [][]byte{[]byte("a"), long, []byte("b")} {
		if err := s.add(enc, [][]byte{v}); err != nil {
			t.Fatal(err)
		}
	}
	if cap(s.buf) > keepSize {
		t.Errorf("a buffer of %d bytes is kept", cap(s.buf))
	}
	s.flush()
	if out.Len() != len(long)+5 || s.written != 3 {
		t.Errorf("%d bytes, %d rows", out.Len(), s.written)
	}
}

// noRows is an empty result with one column.
type noRows struct{}

func (noRows) Columns() []Column { return []Column{{Name: "x"}} }
func (noRows) Next() bool        { return false }
func (noRows) Values() [][]byte  { return nil }
func (noRows) Err() error        { return nil }

func TestRowsThatDoNotAddUpAreAnError(t *testing.T) {
	t.Parallel()
	s := &stream{w: new(bytes.Buffer), written: 1}
	err := s.copy(context.Background(), noRows{}, newCSVEncoder(noRows{}.Columns()))
	if err == nil || err.Error() != "0 rows were read but 1 written" {
		t.Errorf("got %v", err)
	}
}
