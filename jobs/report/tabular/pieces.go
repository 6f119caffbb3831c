package tabular

import "io"

const (
	pieceSize = 64 << 10 // what is gathered before it is written
	keepPiece = 1 << 20  // the largest buffer that is kept after a long row
)

// Pieces gathers the rows of a text format and hands them on in pieces of 64 KiB
// or more. An encoder appends a row to [Pieces.Buffer] and gives the result to
// [Pieces.Keep]; a row that fails halfway is simply not kept. It is not safe for
// concurrent use.
type Pieces struct {
	w   io.Writer
	buf []byte
	err error
}

// NewPieces begins with a buffer that holds head.
func NewPieces(w io.Writer, head []byte) *Pieces {
	return &Pieces{w: w, buf: append(make([]byte, 0, pieceSize+pieceSize/4), head...)}
}

// Buffer is what to append to.
func (p *Pieces) Buffer() []byte { return p.buf }

// Keep takes the buffer back, with something whole behind it. An error is that of
// the writer, and final.
func (p *Pieces) Keep(buf []byte) error {
	p.buf = buf
	if len(buf) < pieceSize {
		return p.err
	}
	return p.Flush()
}

// Fail remembers why the file cannot be finished, and answers it: from now on
// nothing is written.
func (p *Pieces) Fail(err error) error {
	if p.err == nil {
		p.err = err
	}
	return p.err
}

// Flush writes what is gathered.
func (p *Pieces) Flush() error {
	if p.err != nil || len(p.buf) == 0 {
		return p.err
	}
	n, err := p.w.Write(p.buf)
	if err == nil && n < len(p.buf) {
		err = io.ErrShortWrite
	}
	p.err = err
	p.buf = p.buf[:0]
	if cap(p.buf) > keepPiece {
		p.buf = make([]byte, 0, pieceSize+pieceSize/4)
	}
	return err
}
