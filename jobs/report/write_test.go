package report_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestWriteGivesEveryRowToEveryTarget(t *testing.T) {
	t.Parallel()
	source := newTable(columns(tabular.OIDText, "a", "b"), []string{"x", null}, []string{"=1", ""})
	direct, through := new(lines), &lines{compressible: true}
	var one, two, gz, zst sink
	all := formats(t, through.format("txt"))
	named := func(name string, w io.Writer) report.Target {
		file, err := all.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		return report.Target{File: file, W: w, Layout: layout(source.columns[:1])}
	}
	sum, err := report.Write(t.Context(), source, []report.Target{target(direct, &one, source.columns), named("txt", &two), named("txt.gz", &gz), named("txt.zst", &zst)}, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	const short = "1:[x]\n2:[=1]\n"
	if one.String() != "1:[x][NULL]\n2:[=1][]\n" || two.String() != short || unzip(t, &gz) != short || unzstd(t, &zst) != short {
		t.Errorf("got %q, %q, %q, %q", one.String(), two.String(), unzip(t, &gz), unzstd(t, &zst))
	}
	var want []tabular.Warning
	for _, name := range []string{"lines", "txt", "txt.gz", "txt.zst"} {
		want = append(want, tabular.Warning{Format: name, Column: "a", Kind: "formula", Count: 1, Rows: []int64{2}})
	}
	if sum.Rows != 2 || !reflect.DeepEqual(sum.Warnings, want) {
		t.Errorf("got %+v", sum)
	}
	if direct.String() != "new close" || through.String() != "new new new close close close" {
		t.Errorf("the encoders saw %s and %s", direct, through)
	}
}

func unzip(t *testing.T, s *sink) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(s.String()))
	if err != nil {
		t.Fatal(err)
	}
	return readAll(t, r)
}

func unzstd(t *testing.T, s *sink) string {
	t.Helper()
	r, err := zstd.NewReader(strings.NewReader(s.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return readAll(t, r)
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWriteWithoutRowsMakesFiles(t *testing.T) {
	t.Parallel()
	source := newTable(columns(tabular.OIDText, "x"))
	f, told := new(lines), []int64(nil)
	sum, err := report.Write(t.Context(), source, []report.Target{target(f, io.Discard, source.columns)}, 0, func(n int64) { told = append(told, n) })
	if err != nil || sum.Rows != 0 || f.String() != "new close" || !reflect.DeepEqual(told, []int64{0}) {
		t.Errorf("got %+v, %v, %s, progress %v", sum, err, f, told)
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]string{0: "", 3: "", 2: "the report has more rows than its limit of 2 (max_rows)"} {
		source := newTable(columns(tabular.OIDText, "x"), []string{"a"}, []string{"b"}, []string{"c"})
		f := new(lines)
		_, err := report.Write(t.Context(), source, []report.Target{target(f, io.Discard, source.columns)}, limit, nil)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want || f.String() != "new abort") {
			t.Errorf("limit %d: got %v, %s", limit, err, f)
		}
	}
}

// counted is a source that says how many rows it sent.
type counted struct {
	table
	sent  int64
	known bool
}

func (c *counted) Count() (int64, bool) { return c.sent, c.known }

func TestRowsThatDoNotAddUpAreAnError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		sent  int64
		known bool
		want  string
	}{{2, true, ""}, {3, false, ""}, {3, true, "2 rows arrived, but the source sent 3"}, {0, true, "2 rows arrived, but the source sent 0"}} {
		source := &counted{*newTable(columns(tabular.OIDText, "x"), []string{"a"}, []string{"b"}), tt.sent, tt.known}
		f := new(lines)
		_, err := report.Write(t.Context(), source, []report.Target{target(f, io.Discard, source.columns)}, 0, nil)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want || f.String() != "new abort") {
			t.Errorf("%+v: got %v, %s", tt, err, f)
		}
	}
}

func TestFailuresAbortEveryTarget(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		bad  *lines
		want string
		good string // what the other encoder saw, which comes first
	}{
		{&lines{failNew: broken}, "begin lines: broken", "new abort"},
		{&lines{failRow: 2}, "write lines: row 2 is odd", "new abort"},
		{&lines{failRow: -2}, "panic at row 1: an exporter of others", "new abort"},
		{&lines{failClose: broken}, "finish lines: broken", "new close"},
		{&lines{failClose: broken, compressible: true}, "finish lines: broken", "new close"},
	} {
		source := newTable(columns(tabular.OIDText, "x"), []string{"a"}, []string{"b"}, []string{"c"})
		good := &lines{compressible: true}
		sum, err := report.Write(t.Context(), source, []report.Target{target(good, io.Discard, source.columns), target(tt.bad, io.Discard, source.columns)}, 0,
			func(int64) { t.Error("progress was told after a failure") })
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || good.String() != tt.good {
			t.Errorf("%s: got %+v, %v, %s", tt.want, sum, err, good)
		}
		if tt.bad.failNew == nil && tt.bad.failClose == nil && tt.bad.String() != "new abort" {
			t.Errorf("%s: the encoder saw %s", tt.want, tt.bad)
		}
	}
}

func TestTargetsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	source := newTable(columns(tabular.OIDText, "x"))
	good := target(new(lines), io.Discard, source.columns)
	wide, bare, deaf, odd := good, good, good, good
	wide.Layout = layout(columns(tabular.OIDText, "x", "y"))
	bare.Layout = layout(nil)
	deaf.W = nil
	odd.File.Compression = "bzip2"
	for want, targets := range map[string][]report.Target{
		"write a report: there is no target":                                            nil,
		`begin lines: field "y" is value 1 of rows that have 1`:                         {good, wide},
		"begin lines: the target needs a format, a writer and a layout with fields":     {bare},
		"begin lines: the target needs a format, a writer and a layout with fields\x00": {deaf},
		`begin lines: unknown compression "bzip2": there are gzip and zstd`:             {odd},
	} {
		if _, err := report.Write(t.Context(), source, targets, 0, nil); err == nil || err.Error() != strings.Trim(want, "\x00") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, row := range [][]string{{}, {"a", "b"}} {
		source := newTable(columns(tabular.OIDText, "x"), []string{"a"}, row)
		_, err := report.Write(t.Context(), source, []report.Target{good}, 0, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "row 2 has ") || !strings.HasSuffix(err.Error(), " values for 1 columns") {
			t.Errorf("got %v", err)
		}
	}
}

func TestSourceErrorsAreReturned(t *testing.T) {
	t.Parallel()
	source := newTable(columns(tabular.OIDText, "x"), []string{"a"})
	source.err = errors.New("connection reset")
	_, err := report.Write(t.Context(), source, []report.Target{target(new(lines), io.Discard, source.columns)}, 0, nil)
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

// endless gives rows that no compressor makes shorter, and gives up in the end.
type endless struct {
	table
	random rand.ChaCha8
	read   int
}

const endlessRows = 20_000

func (e *endless) Next() bool { e.read++; return e.read < endlessRows }
func (e *endless) Values() [][]byte {
	e.rows[0][0] = e.rows[0][0][:1000]
	_, _ = e.random.Read(e.rows[0][0])
	return e.rows[0]
}

func newEndless() *endless {
	return &endless{table: *newTable(columns(tabular.OIDText, "x"), []string{strings.Repeat("x", 1000)})}
}

func TestWriterErrorsAreReturned(t *testing.T) {
	t.Parallel()
	disk := errors.New("disk full")
	for _, tt := range []struct{ err, want error }{{disk, disk}, {nil, io.ErrShortWrite}} {
		for _, name := range []string{"txt", "txt.gz", "txt.zst"} {
			for _, left := range []int{0, 20_000} {
				source := newEndless()
				f := &lines{compressible: true}
				file, err := formats(t, f.format("txt")).Get(name)
				if err != nil {
					t.Fatal(err)
				}
				_, err = report.Write(t.Context(), source, []report.Target{{File: file, W: &full{left: left, err: tt.err}, Layout: layout(source.columns)}}, 0, nil)
				if !errors.Is(err, tt.want) || f.String() != "new abort" {
					t.Errorf("%s: got %v, want %v; %s", name, err, tt.want, f)
				}
				if source.read == endlessRows {
					t.Errorf("%s: all rows were read after the writer had failed", name)
				}
			}
		}
	}
}

func TestWriterErrorsAtTheEndAreReturned(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"txt", "txt.gz", "txt.zst"} {
		source := newTable(columns(tabular.OIDText, "x"), []string{"a"})
		file, err := formats(t, (&lines{compressible: true}).format("txt")).Get(name)
		if err != nil {
			t.Fatal(err)
		}
		disk := errors.New("disk full")
		_, err = report.Write(t.Context(), source, []report.Target{{File: file, W: &full{err: disk}, Layout: layout(source.columns)}}, 0, nil)
		if !errors.Is(err, disk) || err.Error() != "finish "+name+": disk full" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestProgressIsToldWhileTheSourceWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := make(chan string)
		source := &fed{rows: rows}
		go func() {
			for range 1000 {
				time.Sleep(10 * time.Millisecond)
				rows <- "x"
			}
			time.Sleep(10 * time.Second) // a query that takes its time
			close(rows)
		}()
		var told []int64
		if _, err := report.Write(t.Context(), source, []report.Target{target(new(lines), io.Discard, source.Columns())}, 0, func(n int64) { told = append(told, n) }); err != nil {
			t.Fatal(err)
		}
		n := len(told)
		if n < 40 || n > 60 || told[n-2] != 1000 || told[n-1] != 1000 {
			t.Errorf("told %d times of 10 seconds with rows, at last %v", n, told[max(0, n-3):])
		}
		for i := 1; i < n-1; i++ {
			if told[i] <= told[i-1] || told[i]-told[i-1] > 25 {
				t.Errorf("after %d it told %d", told[i-1], told[i])
			}
		}
	})
}

func TestCancelStopsReading(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("lease lost")
	source := &cancelling{endless: *newEndless(), cancel: func() { cancel(lost) }}
	f := new(lines)
	sum, err := report.Write(ctx, source, []report.Target{target(f, io.Discard, source.columns)}, 0, nil)
	if !errors.Is(err, lost) || err.Error() != fmt.Sprintf("stopped after row %d: lease lost", sum.Rows) || f.String() != "new abort" {
		t.Errorf("got %+v, %v, %s", sum, err, f)
	}
	if sum.Rows < 999 || source.read == endlessRows {
		t.Errorf("stopped after %d rows, %d were read", sum.Rows, source.read)
	}
}

// cancelling ends the context with its thousandth row and has more rows.
type cancelling struct {
	endless
	cancel func()
}

func (s *cancelling) Next() bool {
	if s.read == 1000 {
		s.cancel()
	}
	return s.endless.Next()
}

func TestCancelEndsAWaitingSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("too long"))
		defer cancel()
		source := &obedient{ctx: ctx}
		f, began := new(lines), time.Now()
		_, err := report.Write(ctx, source, []report.Target{target(f, io.Discard, source.Columns())}, 0, nil)
		if err == nil || err.Error() != "stopped after row 0: too long" || time.Since(began) != time.Minute || f.String() != "new abort" {
			t.Errorf("after %s: got %v, %s", time.Since(began), err, f)
		}
	})
}

// obedient waits for its context.
type obedient struct {
	fed
	ctx context.Context
}

func (s *obedient) Next() bool { <-s.ctx.Done(); return false }

func TestASourceThatHearsNothingIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		rows := make(chan string, 1)
		rows <- "a"
		source := &fed{rows: rows}
		f, began := &lines{compressible: true}, time.Now()
		sum, err := report.Write(ctx, source, []report.Target{target(f, io.Discard, source.Columns())}, 0, nil)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 62*time.Second || sum.Rows != 1 || f.String() != "new abort" {
			t.Errorf("after %s: got %+v, %v, %s", time.Since(began), sum, err, f)
		}
		rows <- "late"
		synctest.Wait() // and the bubble fails when a goroutine is left
		if f.String() != "new abort" {
			t.Errorf("the late row reached an encoder: %s", f)
		}
	})
}

func TestQuietEndOfACancelledSourceIsAnError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	source := newTable(columns(tabular.OIDText, "x"))
	f := new(lines)
	if _, err := report.Write(ctx, source, []report.Target{target(f, io.Discard, source.columns)}, 0, nil); !errors.Is(err, context.Canceled) || f.String() != "new abort" {
		t.Errorf("got %v, %s", err, f)
	}
}

func TestWriteCSV(t *testing.T) {
	t.Parallel()
	file, err := formats(t).Get("csv")
	if err != nil {
		t.Fatal(err)
	}
	source := newTable(columns(tabular.OIDText, "a", "b"), []string{"x,y", null}, []string{"", "z"})
	var out bytes.Buffer
	sum, err := report.Write(t.Context(), source, []report.Target{{File: file, W: &out, Layout: layout(source.columns)}}, 0, nil)
	if err != nil || sum.Rows != 2 || out.String() != "\"a\",\"b\"\n\"x,y\",\n\"\",z\n" {
		t.Errorf("got %q, %+v, %v", out.String(), sum, err)
	}
}
