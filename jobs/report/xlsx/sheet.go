package xlsx

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

const (
	// sampledRows and maxSample (bytes of XML) bound what is kept to see how wide
	// the columns are, before the head of the first sheet is written.
	sampledRows = 200
	maxSample   = 256 << 10
)

// header begins a sheet with the labels. Its notes say row 0.
func (e *encoder) header() error {
	e.rows, e.number = 0, e.number[:0]
	e.beginRow()
	for i := range e.columns {
		if err := e.addText(i, 0, e.columns[i].label, bold); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, "</row>"...)
	return nil
}

// nextSheet goes on in a further sheet, of the same widths.
func (e *encoder) nextSheet(row int64) error {
	if e.strict {
		return tabular.Refusef("row %d: a sheet of Excel holds %d rows below its header, and the strict mode refuses a further sheet: narrow the report, or choose CSV", row, e.most-1)
	}
	if err := e.notes.Add(0, tabular.NoteMoreSheets, row); err != nil {
		return err
	}
	if e.sheet == nil {
		if err := e.openSheet(); err != nil {
			return err
		}
	}
	if err := e.closeSheet(); err != nil {
		return err
	}
	if err := e.header(); err != nil {
		return err
	}
	return e.openSheet()
}

// openSheet writes a sheet's head and then what was kept for it.
func (e *encoder) openSheet() error {
	part, err := e.book.beginSheet()
	if err != nil {
		return wrap(err)
	}
	e.sheet = tabular.NewAsyncWriter(part)
	if _, err := e.sheet.Write(sheetHead(e.columns, e.book.sheets == 1)); err != nil {
		return wrap(err)
	}
	return e.flush()
}

func sheetHead(columns []column, first bool) []byte {
	b := []byte(xmlHead + `<worksheet xmlns="` + mainNS + `"><sheetViews><sheetView `)
	if first {
		b = append(b, `tabSelected="1" `...)
	}
	b = append(b, `workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/>`+
		`<selection pane="bottomLeft" activeCell="A2" sqref="A2"/></sheetView></sheetViews><sheetFormatPr defaultRowHeight="15"/><cols>`...)
	for i := range columns {
		b = fmt.Appendf(b, `<col min="%d" max="%[1]d" width="%d.7109375" customWidth="1"/>`, i+1, columns[i].shownWidth())
	}
	return append(b, `</cols><sheetData>`...)
}

// closeSheet ends the rows, puts the filter over them, and waits until all of it
// is compressed and written.
func (e *encoder) closeSheet() error {
	e.buf = append(e.buf, `</sheetData><autoFilter ref="A1:`...)
	e.buf = append(e.buf, e.columns[len(e.columns)-1].letters...)
	e.buf = strconv.AppendInt(e.buf, int64(e.rows), 10)
	e.buf = append(e.buf, `"/>`...)
	e.buf = appendIgnored(e.buf, e.columns, e.rows)
	e.buf = append(e.buf, `</worksheet>`...)
	if err := e.flush(); err != nil {
		return err
	}
	if err := e.sheet.Close(); err != nil {
		return wrap(err)
	}
	return wrap(e.book.endSheet(e.rows))
}

// appendIgnored keeps Excel from marking text that looks like a number, in columns
// that are text by what the report says. Neighbours share a range.
func appendIgnored(b []byte, columns []column, rows int) []byte {
	var ranges []string
	for i := 0; i < len(columns) && rows > 1; i++ {
		first := i
		for i < len(columns) && columns[i].codes {
			i++
		}
		if i > first {
			ranges = append(ranges, fmt.Sprintf("%s2:%s%d", columns[first].letters, columns[i-1].letters, rows))
		}
	}
	if ranges == nil {
		return b
	}
	return fmt.Appendf(b, `<ignoredErrors><ignoredError sqref="%s" numberStoredAsText="1"/></ignoredErrors>`, strings.Join(ranges, " "))
}
