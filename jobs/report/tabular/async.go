package tabular

import (
	"errors"
	"io"
	"sync"
)

const (
	asyncSize    = 256 << 10 // of a buffer
	asyncBuffers = 4         // one that is filled, one that is written, and two between
)

// errAsyncOver answers whoever writes behind the end.
var errAsyncOver = errors.New("the writer was closed or given up")

// AsyncWriter passes what it gets on to another writer from a goroutine of its
// own, in order, in pieces of 256 KiB: so that compressing, hashing and writing
// run beside the reading of rows. It keeps at most one megabyte; who writes faster
// waits. Its methods must be called from one goroutine at a time. After
// [NewAsyncWriter] it must be ended by Close or Abort.
type AsyncWriter struct {
	buf  []byte
	full chan []byte
	free chan []byte
	done chan struct{}
	over bool

	mu    sync.Mutex
	err   error // the first of w
	quiet bool  // given up: what waits is not written
}

// NewAsyncWriter starts the goroutine. w is used by it alone until Close or Abort
// has returned, and belongs to the caller.
func NewAsyncWriter(w io.Writer) *AsyncWriter {
	a := &AsyncWriter{
		full: make(chan []byte, asyncBuffers),
		free: make(chan []byte, asyncBuffers),
		done: make(chan struct{}),
	}
	for range asyncBuffers - 1 {
		a.free <- nil // made when it is needed: most files are small
	}
	go a.run(w)
	return a
}

func (a *AsyncWriter) run(w io.Writer) {
	defer close(a.done)
	for piece := range a.full {
		if a.writing() {
			n, err := w.Write(piece)
			if err == nil && n < len(piece) {
				err = io.ErrShortWrite
			}
			a.fail(err)
		}
		a.free <- piece[:0]
	}
}

func (a *AsyncWriter) writing() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err == nil && !a.quiet
}

func (a *AsyncWriter) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
	}
}

func (a *AsyncWriter) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Write takes a copy of p. An error is that of an earlier piece and final.
func (a *AsyncWriter) Write(p []byte) (int, error) {
	if a.over {
		return 0, errAsyncOver
	}
	taken := 0
	for {
		if err := a.failure(); err != nil {
			return taken, err
		}
		if cap(a.buf) == 0 {
			a.buf = make([]byte, 0, asyncSize)
		}
		n := min(len(p)-taken, cap(a.buf)-len(a.buf))
		a.buf = append(a.buf, p[taken:taken+n]...)
		taken += n
		if len(a.buf) < cap(a.buf) {
			return taken, nil
		}
		a.full <- a.buf
		a.buf = <-a.free
	}
}

// Close writes what is left, waits for it, and answers the first error of the
// writer behind. It does not close that one.
func (a *AsyncWriter) Close() error {
	if a.over {
		return errAsyncOver
	}
	if len(a.buf) > 0 {
		a.full <- a.buf
	}
	a.end()
	return a.failure()
}

// Abort ends without writing what waits; a call of the writer behind that is
// under way is waited for. After Close it does nothing.
func (a *AsyncWriter) Abort() {
	if a.over {
		return
	}
	a.mu.Lock()
	a.quiet = true
	a.mu.Unlock()
	a.end()
}

func (a *AsyncWriter) end() {
	a.over, a.buf = true, nil
	close(a.full)
	<-a.done
}
