package xlsx

import (
	"fmt"
	"io"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// Limits of Excel ("Excel specifications and limits").
const (
	maxRows    = 1_048_576 // of a sheet, its header counted
	maxColumns = 16_384
	maxUnits   = 32_767 // UTF-16 units of a cell
)

// level of DEFLATE: of a million orders it makes 112 MB in 2.4 s of CPU time; 3
// makes 107 MB in 3.0 s, and 6 makes 100 MB in 4.2 s (BenchmarkLevels).
const level = 1

// pieceSize is how much XML is handed on at a time.
const pieceSize = 64 << 10

// Format is the XLSX format. What its files do with values that Excel cannot hold
// is said at the package. Its encoders keep about three megabytes and one row, and
// run one goroutine from the first hundreds of rows on until Close or Abort.
func Format() tabular.Format {
	return tabular.Format{
		Name:      "xlsx",
		MediaType: mediaType,
		New: func(w io.Writer, l *tabular.Layout, notes *tabular.Notes) (tabular.Encoder, error) {
			e, err := begin(w, l, notes, settings{rows: maxRows, level: level})
			if err != nil {
				return nil, err
			}
			return e, nil
		},
	}
}

// settings differ in tests only.
type settings struct {
	rows  int // of a sheet, its header counted
	level int // of DEFLATE
}

// encoder writes one workbook.
type encoder struct {
	book    *book
	notes   *tabular.Notes
	strict  bool
	columns []column
	watch   *tabular.ClockWatch // nil without a timestamptz
	most    int                 // rows of a sheet, its header counted

	sheet   *tabular.AsyncWriter // nil until the first sheet's head is written
	buf     []byte               // XML that sheet has not got yet
	rows    int                  // of the sheet, its header counted
	number  []byte               // of the row at hand, in digits
	scratch []byte               // for a value on its way into a cell
}

func begin(w io.Writer, l *tabular.Layout, notes *tabular.Notes, set settings) (*encoder, error) {
	if len(l.Fields) > maxColumns {
		return nil, fmt.Errorf("the report has %d columns and an Excel sheet holds %d: hide some of them, or choose CSV", len(l.Fields), maxColumns)
	}
	columns, styles, err := newColumns(l)
	if err != nil {
		return nil, err
	}
	e := &encoder{notes: notes, strict: l.Strict, columns: columns, most: set.rows, buf: make([]byte, 0, 2*pieceSize)}
	for i := range columns {
		if columns[i].zoned {
			e.watch = tabular.NewClockWatch(l.Zone)
			break
		}
	}
	if e.book, err = newBook(w, l.Title, styles, set.level); err != nil {
		return nil, err
	}
	return e, e.header()
}

// Row adds a row; it begins a further sheet when the present one is full.
func (e *encoder) Row(row int64, values [][]byte) error {
	if e.rows == e.most {
		if err := e.nextSheet(row); err != nil {
			return err
		}
	}
	e.beginRow()
	for i := range e.columns {
		c := &e.columns[i]
		v := values[c.index]
		if v == nil {
			continue
		}
		if e.sheet == nil {
			c.measure(v)
		}
		if err := e.cell(i, row, v); err != nil {
			return err
		}
		if len(e.buf) >= pieceSize {
			if err := e.flush(); err != nil {
				return err
			}
		}
	}
	e.buf = append(e.buf, "</row>"...)
	if e.sheet == nil && e.rows > sampledRows {
		return e.openSheet()
	}
	return nil
}

// Close ends the sheet and writes what is known only then: how many there are.
// After an error it leaves nothing running.
func (e *encoder) Close() error {
	err := e.end()
	if err != nil {
		e.Abort()
	}
	return err
}

func (e *encoder) end() error {
	if e.sheet == nil {
		if err := e.openSheet(); err != nil {
			return err
		}
	}
	if err := e.closeSheet(); err != nil {
		return err
	}
	return e.book.close(e.columns[len(e.columns)-1].letters)
}

// Abort ends the goroutine that compresses.
func (e *encoder) Abort() {
	if e.sheet != nil {
		e.sheet.Abort()
	}
}

// beginRow also counts the row, in digits: it is part of the name of every cell.
func (e *encoder) beginRow() {
	e.rows++
	e.number = increment(e.number)
	e.buf = append(e.buf, `<row r="`...)
	e.buf = append(e.buf, e.number...)
	e.buf = append(e.buf, `">`...)
}

// increment adds one to a number in digits; none is 0.
func increment(digits []byte) []byte {
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] < '9' {
			digits[i]++
			return digits
		}
		digits[i] = '0'
	}
	digits = append(digits, '0')
	copy(digits[1:], digits)
	digits[0] = '1'
	return digits
}

// flush hands the XML on. The first time there is a sheet to be opened for it.
func (e *encoder) flush() error {
	if e.sheet == nil {
		if len(e.buf) < maxSample {
			return nil
		}
		return e.openSheet()
	}
	_, err := e.sheet.Write(e.buf)
	e.buf = e.buf[:0]
	return wrap(err)
}

func wrap(err error) error {
	if err != nil {
		return fmt.Errorf("write XLSX: %w", err)
	}
	return nil
}
