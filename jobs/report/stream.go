package report

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// flushSize is how many bytes are gathered before they are written.
	flushSize = 64 << 10
	// keepSize is the largest buffer that is kept after a long row.
	keepSize = 1 << 20
	// flushEvery bounds how long a byte waits for others, and how often progress
	// is told.
	flushEvery = 250 * time.Millisecond
)

// encoder turns one row into bytes, for formats that write a row after the
// other. Rows count from 1.
type encoder interface {
	header(dst []byte) []byte
	row(dst []byte, row int64, values [][]byte) ([]byte, error)
}

// stream gathers encoded rows and writes them when there are enough, or when
// they have waited long enough: a second goroutine sees to that, because a slow
// query keeps the first one inside Next.
type stream struct {
	w        io.Writer
	progress func(rows int64)

	mu      sync.Mutex // guards all below
	buf     []byte
	read    int64 // rows that the source gave
	pending int64 // rows in buf
	written int64 // rows that w took
	err     error // of w; final
}

// copy writes the header and all rows. w and progress are not used after it has
// returned.
func (s *stream) copy(ctx context.Context, rows Rows, enc encoder) error {
	s.buf = enc.header(make([]byte, 0, flushSize+flushSize/4))
	stop := s.inBackground()
	err := s.readAll(ctx, rows, enc)
	stop()
	if err != nil {
		return err
	}
	s.flush()
	switch {
	case s.err != nil:
		return fmt.Errorf("write rows: %w", s.err)
	case s.written != s.read:
		return fmt.Errorf("%d rows were read but %d written", s.read, s.written)
	case s.progress != nil:
		s.progress(s.written)
	}
	return nil
}

func (s *stream) readAll(ctx context.Context, rows Rows, enc encoder) error {
	for rows.Next() {
		if ctx.Err() != nil {
			break
		}
		if err := s.add(enc, rows.Values()); err != nil {
			return err
		}
	}
	// Before Err: a source may end its rows quietly when the context ends.
	if ctx.Err() != nil {
		return fmt.Errorf("stopped after row %d: %w", s.read, context.Cause(ctx))
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read row %d: %w", s.read+1, err)
	}
	return nil
}

func (s *stream) add(enc encoder, values [][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return fmt.Errorf("write rows: %w", s.err)
	}
	s.read++
	buf, err := enc.row(s.buf, s.read, values)
	if err != nil {
		return err
	}
	s.buf = buf
	s.pending++
	if len(s.buf) >= flushSize {
		s.flush()
	}
	return nil
}

// flush writes what is gathered. The caller holds mu, or is the only one left.
func (s *stream) flush() {
	if s.err != nil || len(s.buf) == 0 {
		return
	}
	n, err := s.w.Write(s.buf)
	if err == nil && n < len(s.buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		s.err = err
		return
	}
	s.written += s.pending
	s.pending = 0
	s.buf = s.buf[:0]
	if cap(s.buf) > keepSize {
		s.buf = make([]byte, 0, flushSize+flushSize/4)
	}
}

// inBackground flushes and tells progress from time to time, until the returned
// function is called, which waits for the end.
func (s *stream) inBackground() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(flushEvery)
		defer ticker.Stop()
		var told int64
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				told = s.tick(told)
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

func (s *stream) tick(told int64) int64 {
	s.mu.Lock()
	s.flush()
	rows := s.written
	s.mu.Unlock()
	// Outside the lock: a slow listener must not hold up the rows.
	if rows != told && s.progress != nil {
		s.progress(rows)
	}
	return rows
}
