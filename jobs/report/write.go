package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

const (
	// progressEvery is how often progress is told while rows come.
	progressEvery = 200 * time.Millisecond
	// patience is how long a source may stay in Next when the context has ended.
	patience = time.Second
)

// Target is a file to write.
type Target struct {
	File File
	// W gets the bytes, from one goroutine at a time. Whoever gave it closes it.
	W      io.Writer
	Layout *tabular.Layout
}

// Summary is what was written.
type Summary struct {
	Rows int64 // without headers
	// Warnings are what happened to values, by target, column and kind.
	Warnings []tabular.Warning
}

// Write reads all rows once and gives each to every target. Compressing and
// writing of text formats go on in goroutines of their own while rows are read.
//
// progress, which may be nil, is told the rows read so far, five times a second
// while they grow and once at the end of a success. It is called by the goroutine
// that called Write.
//
// Write fails when rows holds more than limit rows (0 is no limit), when a value
// is not what its column promises, when the source or a W fails, when the number
// of rows is not the one that the source counted itself, and when ctx ends, with
// its cause. Then every encoder was aborted, no goroutine is left, W is not used
// any more, and what it holds is no file; the Summary says how far it came.
//
// When ctx ends, no further row is read. Write returns as soon as Next does, which
// should end with the same ctx. A source that stays in Next for another second is
// left there: Write returns, and the goroutine that waits for it ends when Next
// returns, without touching anything else. A W that blocks is waited for.
func Write(ctx context.Context, rows tabular.Rows, targets []Target, limit int64, progress func(rows int64)) (Summary, error) {
	outs, err := begin(len(rows.Columns()), targets)
	if err != nil {
		return Summary{}, err
	}
	r := &run{ctx: ctx, rows: rows, width: len(rows.Columns()), outs: outs, limit: limit, ended: make(chan error, 1)}
	stop := context.AfterFunc(ctx, func() { r.stopped.Store(true) })
	defer stop()
	go r.copy()
	err = r.wait(progress)
	if err == nil {
		err = r.finish()
	}
	if err != nil {
		for _, o := range outs {
			o.abort()
		}
	} else if progress != nil {
		progress(r.read.Load())
	}
	sum := Summary{Rows: r.read.Load()}
	for _, o := range outs {
		sum.Warnings = append(sum.Warnings, o.notes.Warnings()...)
	}
	return sum, err
}

// begin makes an output of every target, or none.
func begin(width int, targets []Target) (outs []*output, err error) {
	if len(targets) == 0 {
		return nil, errors.New("write a report: there is no target")
	}
	for _, t := range targets {
		o, err := newOutput(t, width)
		if err != nil {
			for _, earlier := range outs {
				earlier.abort()
			}
			return nil, fmt.Errorf("begin %s: %w", t.File.Name, err)
		}
		outs = append(outs, o)
	}
	return outs, nil
}

// Who may touch the encoders: the goroutine that copies, unless it was left
// waiting for its source.
const (
	encoding int32 = iota // the copying goroutine has them
	waiting               // it is in Next
	left                  // it was given up; they belong to Write
)

// run is a call of [Write].
type run struct {
	ctx   context.Context
	rows  tabular.Rows
	width int
	outs  []*output
	limit int64

	read    atomic.Int64
	stopped atomic.Bool // the context has ended; cheaper to ask than the context
	state   atomic.Int32
	ended   chan error // what copy came to
}

// copy is the goroutine that reads. A panic of an exporter that others wrote must
// fail its job, not the process.
func (r *run) copy() {
	defer func() {
		if p := recover(); p != nil {
			r.ended <- fmt.Errorf("panic at row %d: %v\n%s", r.read.Load(), p, debug.Stack())
		}
	}()
	r.ended <- r.readAll()
}

func (r *run) readAll() error {
	row := int64(0)
	for {
		r.state.Store(waiting)
		more := r.rows.Next()
		if !r.state.CompareAndSwap(waiting, encoding) {
			return nil // left behind: nobody listens
		}
		// Before Err: a source may end its rows quietly when the context ends.
		if r.stopped.Load() || !more {
			return r.end(row)
		}
		row++
		if r.limit > 0 && row > r.limit {
			return tabular.Refusef("the report has more rows than its limit of %d (max_rows)", r.limit)
		}
		values := r.rows.Values()
		if len(values) != r.width {
			return fmt.Errorf("row %d has %d values for %d columns", row, len(values), r.width)
		}
		for _, o := range r.outs {
			if err := o.row(row, values); err != nil {
				return err
			}
		}
		r.read.Store(row)
	}
}

// end is called behind the last row that was written.
func (r *run) end(rows int64) error {
	if r.ctx.Err() != nil {
		return r.cancelled()
	}
	if err := r.rows.Err(); err != nil {
		return fmt.Errorf("read row %d: %w", rows+1, err)
	}
	if counter, ok := r.rows.(interface{ Count() (int64, bool) }); ok {
		if sent, known := counter.Count(); known && sent != rows {
			return fmt.Errorf("%d rows arrived, but the source sent %d", rows, sent)
		}
	}
	return nil
}

func (r *run) cancelled() error {
	return fmt.Errorf("stopped after row %d: %w", r.read.Load(), context.Cause(r.ctx))
}

// wait tells progress until the rows have ended or the source was left.
func (r *run) wait(progress func(int64)) error {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	gone, patient, told := r.ctx.Done(), (<-chan time.Time)(nil), int64(0)
	for {
		select {
		case err := <-r.ended:
			return err
		case <-gone:
			gone, patient = nil, time.After(patience)
		case <-patient:
			if r.state.CompareAndSwap(waiting, left) {
				return r.cancelled()
			}
			patient = time.After(patience) // in an encoder, which a W may hold up
		case <-ticker.C:
			if n := r.read.Load(); n != told && progress != nil {
				progress(n)
				told = n
			}
		}
	}
}

// finish ends the files.
func (r *run) finish() error {
	for _, o := range r.outs {
		if err := o.close(r.read.Load()); err != nil {
			return err
		}
		if r.ctx.Err() != nil {
			return r.cancelled()
		}
	}
	return nil
}
