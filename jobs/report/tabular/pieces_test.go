package tabular_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestPieces(t *testing.T) {
	t.Parallel()
	var sizes []int
	var all strings.Builder
	p := tabular.NewPieces(writerFunc(func(b []byte) (int, error) {
		sizes = append(sizes, len(b))
		return all.Write(b)
	}), []byte("head\n"))
	line := strings.Repeat("x", 999) + "\n"
	for range 100 {
		_ = append(p.Buffer(), "a row that fails"...)
		if err := p.Keep(append(p.Buffer(), line...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Keep(append(p.Buffer(), strings.Repeat(line, 3000)...)); err != nil || cap(p.Buffer()) > 1<<20 {
		t.Errorf("a buffer of %d bytes is kept, %v", cap(p.Buffer()), err)
	}
	if err := p.Keep(append(p.Buffer(), "end"...)); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(); err != nil || all.String() != "head\n"+strings.Repeat(line, 3100)+"end" {
		t.Errorf("%d bytes, %v", all.Len(), err)
	}
	for _, n := range sizes[:len(sizes)-1] {
		if n < 64<<10 {
			t.Errorf("pieces of %v", sizes)
		}
	}
	if err := p.Flush(); err != nil || len(sizes) != 3 {
		t.Errorf("nothing was written as a piece: %v, %v", sizes, err)
	}
}

func TestPiecesEndAtAnError(t *testing.T) {
	t.Parallel()
	calls := 0
	short := tabular.NewPieces(writerFunc(func(b []byte) (int, error) { calls++; return len(b) - 1, nil }), []byte("x"))
	if err := short.Flush(); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
	if err := short.Keep([]byte("y")); !errors.Is(err, io.ErrShortWrite) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	failed, first := tabular.NewPieces(io.Discard, nil), errors.New("first")
	if err := failed.Fail(first); !errors.Is(err, first) {
		t.Error(err)
	}
	if err := failed.Fail(errors.New("second")); !errors.Is(err, first) {
		t.Error(err)
	}
	if err := failed.Flush(); !errors.Is(err, first) {
		t.Error(err)
	}
}
