package report

import (
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// output is a target on its way: encoder → async → squeeze → W. Formats that
// compress by themselves write to W directly.
type output struct {
	name    string
	enc     tabular.Encoder
	notes   *tabular.Notes
	async   *tabular.AsyncWriter // nil for formats that compress by themselves
	squeeze io.WriteCloser       // nil without compression
	written int64
	over    bool
}

func newOutput(t Target, width int) (*output, error) {
	if err := checkTarget(t, width); err != nil {
		return nil, err
	}
	o := &output{name: t.File.Name, notes: tabular.NewNotes(t.File.Name, t.Layout)}
	var w io.Writer = whole{t.W}
	if t.File.Compression != "" {
		squeeze, err := compress(w, t.File.Compression)
		if err != nil {
			return nil, err
		}
		o.squeeze, w = squeeze, squeeze
	}
	if t.File.Format.Compressible || o.squeeze != nil {
		o.async = tabular.NewAsyncWriter(w)
		w = o.async
	}
	enc, err := t.File.Format.New(w, t.Layout, o.notes)
	if err != nil {
		if o.async != nil {
			o.async.Abort()
		}
		return nil, err
	}
	o.enc = enc
	return o, nil
}

// checkTarget keeps encoders from fields that no row has.
func checkTarget(t Target, width int) error {
	if t.File.Format.New == nil || t.W == nil || t.Layout == nil || len(t.Layout.Fields) == 0 {
		return fmt.Errorf("the target needs a format, a writer and a layout with fields")
	}
	for _, f := range t.Layout.Fields {
		if f.Index < 0 || f.Index >= width {
			return fmt.Errorf("field %q is value %d of rows that have %d", f.Key, f.Index, width)
		}
	}
	return nil
}

// compress is made for speed: it runs beside the reading of rows, and a slower
// level would be what a report waits for. Neither starts goroutines.
func compress(w io.Writer, compression string) (io.WriteCloser, error) {
	switch compression {
	case "gzip":
		return gzip.NewWriterLevel(w, gzip.BestSpeed)
	case "zstd":
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	}
	return nil, fmt.Errorf("unknown compression %q: there are gzip and zstd", compression)
}

// whole makes a write that took too little an error: who writes to it may not
// look.
type whole struct{ w io.Writer }

func (t whole) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

func (o *output) row(row int64, values [][]byte) error {
	if err := o.enc.Row(row, values); err != nil {
		return fmt.Errorf("write %s: %w", o.name, err)
	}
	o.written++
	return nil
}

// close ends the file, which must hold so many rows.
func (o *output) close(rows int64) error {
	if o.written != rows {
		return fmt.Errorf("write %s: %d rows were read but %d written", o.name, rows, o.written)
	}
	if err := o.end(); err != nil {
		return fmt.Errorf("finish %s: %w", o.name, err)
	}
	return nil
}

func (o *output) end() error {
	o.over = true
	if err := o.enc.Close(); err != nil {
		if o.async != nil {
			o.async.Abort()
		}
		return err
	}
	if o.async != nil {
		if err := o.async.Close(); err != nil {
			return err
		}
	}
	if o.squeeze != nil {
		return o.squeeze.Close()
	}
	return nil
}

// abort gives up what is not ended yet. What is left in squeeze needs no end: it
// holds memory only.
func (o *output) abort() {
	if o.over {
		return
	}
	o.over = true
	o.enc.Abort()
	if o.async != nil {
		o.async.Abort()
	}
}
