package report_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceline/fenceline/jobs/report"
)

// fed is a source whose rows come from a channel, one text column.
type fed struct {
	rows <-chan string
	row  []byte
	err  error
}

func (s *fed) Columns() []report.Column { return columns(oidText, "x") }
func (s *fed) Values() [][]byte         { return [][]byte{s.row} }
func (s *fed) Err() error               { return s.err }
func (s *fed) Next() bool {
	row, ok := <-s.rows
	s.row = []byte(row)
	return ok
}

// sink keeps what was written, readable at any time.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func TestSlowRowsAreWrittenWhileTheSourceWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows, out, told := make(chan string), new(sink), []int64(nil)
		done := make(chan error, 1)
		go func() {
			_, err := report.WriteCSV(t.Context(), out, &fed{rows: rows}, func(n int64) { told = append(told, n) })
			done <- err
		}()
		expect := func(want string) {
			t.Helper()
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			if got := out.String(); got != want {
				t.Errorf("after half a second: got %q, want %q", got, want)
			}
		}
		expect("\"x\"\n")
		rows <- "a"
		expect("\"x\"\na\n")
		rows <- "b"
		rows <- "c"
		expect("\"x\"\na\nb\nc\n")
		expect("\"x\"\na\nb\nc\n")
		close(rows)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := []int64{1, 3, 3}; !reflect.DeepEqual(told, want) {
			t.Errorf("progress was %v, want %v", told, want)
		}
	})
}

func TestProgressIsToldAFewTimesASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := make(chan string)
		go func() {
			for range 10_000 {
				time.Sleep(time.Millisecond)
				rows <- "x"
			}
			close(rows)
		}()
		var told []int64
		if _, err := report.WriteCSV(t.Context(), io.Discard, &fed{rows: rows}, func(n int64) { told = append(told, n) }); err != nil {
			t.Fatal(err)
		}
		if n := len(told); n < 10 || n > 50 || told[n-1] != 10_000 {
			t.Errorf("told %d times in 10 s, at last %v", len(told), told[len(told)-1:])
		}
	})
}

func TestCancelStopsReading(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("lease lost")
	rows := make(chan string, 3)
	rows <- "a"
	rows <- "b"
	rows <- "c"
	source := &cancelling{fed: fed{rows: rows}, cancel: func() { cancel(lost) }}
	summary, err := report.WriteCSV(ctx, io.Discard, source, nil)
	if !errors.Is(err, lost) || err.Error() != "stopped after row 1: lease lost" {
		t.Errorf("got %+v, %v", summary, err)
	}
	if len(rows) != 1 {
		t.Errorf("%d rows were left unread, want 1", len(rows))
	}
}

// cancelling ends the context with its second row.
type cancelling struct {
	fed
	n      int
	cancel func()
}

func (s *cancelling) Next() bool {
	if s.n++; s.n == 2 {
		s.cancel()
	}
	return s.fed.Next()
}

func TestQuietEndOfACancelledSourceIsAnError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := report.WriteCSV(ctx, io.Discard, newTable(columns(oidText, "x")), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestSourceErrorsAreReturned(t *testing.T) {
	t.Parallel()
	source := newTable(columns(oidText, "x"), []string{"a"})
	source.err = errors.New("connection reset")
	_, err := report.WriteCSV(t.Context(), io.Discard, source, func(int64) { t.Error("progress was told after a failure") })
	if !errors.Is(err, source.err) || err.Error() != "read row 2: connection reset" {
		t.Errorf("got %v", err)
	}
}

// full takes some bytes, then fails or, without an error, takes less than given.
type full struct {
	left int
	err  error
}

func (w *full) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	if n < len(p) {
		return n, w.err
	}
	return n, nil
}

func TestWriterErrorsAreReturned(t *testing.T) {
	t.Parallel()
	disk := errors.New("disk full")
	for _, tt := range []struct{ err, want error }{{disk, disk}, {nil, io.ErrShortWrite}} {
		for _, left := range []int{0, 100_000} {
			var rows [][]string
			for range 40_000 {
				rows = append(rows, []string{"0123456789"})
			}
			source := newTable(columns(oidText, "x"), rows...)
			summary, err := report.WriteCSV(t.Context(), &full{left: left, err: tt.err}, source, nil)
			if !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), "write rows: ") {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if source.at > 30_000 {
				t.Errorf("%d rows were read after the writer had failed", source.at)
			}
			if summary.Rows > int64(left/11) {
				t.Errorf("%d rows are said to be written of %d bytes", summary.Rows, left)
			}
		}
	}
}
