package tabular

import "io"

// Format turns rows into one kind of file. The built-in ones and those of other
// programs are the same to the engine. A Format is read only and safe for
// concurrent use.
type Format struct {
	// Name is the word for it in requests and the ending of its files: csv.
	Name string
	// MediaType is that of its files, such as text/csv; charset=utf-8.
	MediaType string
	// Compressible formats may also be asked for as NAME.gz and NAME.zst.
	Compressible bool
	// New begins a file. The encoder writes to w from one goroutine at a time;
	// whoever gave w closes it.
	New func(w io.Writer, l *Layout, notes *Notes) (Encoder, error)
}

// Encoder writes the rows of one file. It is not safe for concurrent use.
type Encoder interface {
	// Row adds a row of the source; the values are not kept. Rows count from 1.
	// An error is final, and names row and column where a value is at fault.
	Row(row int64, values [][]byte) error
	// Close ends the file: afterwards w has got all of it. It is called once after
	// the last row, also when there was none.
	Close() error
	// Abort gives the file up instead and leaves nothing running. What w holds
	// then is no file.
	Abort()
}
