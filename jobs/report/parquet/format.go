package parquet

import (
	"fmt"
	"io"
	"math"

	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/parquet-go/parquet-go/format"
)

// How much one file may keep in memory. All compressed bytes of a row group wait
// here, because a column can only be written in one piece. The limits make row
// groups of 100 thousand usual rows: as large as those of DuckDB, enough for a
// reader to skip or to give to a thread, and reached early, so that longer files
// need no more memory.
const (
	groupBytes    = 4 << 20  // compressed bytes in a row group
	groupRawBytes = 64 << 20 // uncompressed: what a reader needs for it
	groupRows     = 1 << 20
	openBytes     = 8 << 20   // in the open pages of all columns together
	maxPage       = 256 << 10 // uncompressed bytes in a page; fewer when there are many columns
	minPage       = 4 << 10
)

// createdBy is the program in the metadata of every file.
const createdBy = "Fenceline"

// Format is Parquet under the name parquet. It is not compressible, as its pages are.
func Format() tabular.Format {
	return tabular.Format{Name: "parquet", MediaType: "application/vnd.apache.parquet", New: newEncoder}
}

// encoder writes one file, row group by row group.
type encoder struct {
	out     *output
	layout  *tabular.Layout
	notes   *tabular.Notes
	columns []*column
	rows    int64 // in the open row group
	groups  []format.RowGroup
}

func newEncoder(w io.Writer, l *tabular.Layout, notes *tabular.Notes) (tabular.Encoder, error) {
	out, err := newOutput(w, len(l.Fields))
	if err != nil {
		return nil, err
	}
	e := &encoder{out: out, layout: l, notes: notes}
	for i := range l.Fields {
		e.columns = append(e.columns, newColumn(&l.Fields[i], out))
	}
	return e, out.write([]byte(magic))
}

// Row implements [tabular.Encoder].
func (e *encoder) Row(row int64, values [][]byte) error {
	for i, c := range e.columns {
		v := values[e.layout.Fields[i].Index]
		if v == nil {
			c.addNull()
		} else if err := e.add(i, row, v); err != nil {
			return err
		}
		if c.pageFull() {
			if err := c.flushPage(); err != nil {
				return err
			}
		}
	}
	e.rows++
	if e.rows >= groupRows || e.out.held >= groupBytes || e.out.heldRaw >= groupRawBytes {
		return e.flushGroup()
	}
	return nil
}

// add writes a value that is not NULL.
func (e *encoder) add(field int, row int64, v []byte) error {
	note, err := e.columns[field].add(v)
	if err != nil {
		return e.notes.Refuse(field, row, v, err.Error())
	}
	if note != "" {
		return e.notes.Add(field, note, row)
	}
	return nil
}

// flushGroup writes the open row group, one column after the other.
func (e *encoder) flushGroup() error {
	if len(e.groups) > math.MaxInt16 {
		return fmt.Errorf("the file would have more than %d row groups, which Parquet cannot number: split the report", math.MaxInt16+1)
	}
	group := format.RowGroup{NumRows: e.rows, FileOffset: e.out.offset, Ordinal: int16(len(e.groups))}
	for _, c := range e.columns {
		chunk, err := c.flushChunk()
		if err != nil {
			return err
		}
		group.Columns = append(group.Columns, format.ColumnChunk{MetaData: chunk})
		group.TotalByteSize += chunk.TotalUncompressedSize
		group.TotalCompressedSize += chunk.TotalCompressedSize
	}
	e.groups = append(e.groups, group)
	e.rows, e.out.held, e.out.heldRaw = 0, 0, 0
	return nil
}

// Close implements [tabular.Encoder].
func (e *encoder) Close() error {
	if e.rows > 0 {
		if err := e.flushGroup(); err != nil {
			return err
		}
	}
	return e.out.writeFooter(e.footer())
}

// Abort implements [tabular.Encoder].
func (e *encoder) Abort() {}

func (e *encoder) footer() *format.FileMetaData {
	count := int32(len(e.columns))
	root := format.SchemaElement{Name: "schema"}
	root.NumChildren.Set(count)
	meta := &format.FileMetaData{
		Version:          2,
		Schema:           append(make([]format.SchemaElement, 0, count+1), root),
		RowGroups:        e.groups,
		KeyValueMetadata: []format.KeyValue{{Key: "fenceline.title", Value: e.layout.Title}, {Key: "fenceline.zone", Value: e.layout.Zone.String()}},
		CreatedBy:        createdBy,
	}
	for _, c := range e.columns {
		meta.Schema = append(meta.Schema, c.schema)
		meta.ColumnOrders = append(meta.ColumnOrders, format.ColumnOrder{Value: &format.TypeDefinedOrder{}})
	}
	for _, group := range e.groups {
		meta.NumRows += group.NumRows
	}
	return meta
}
