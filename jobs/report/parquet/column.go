package parquet

import (
	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/parquet-go/parquet-go/format"
)

// column collects the values of one column: into a page, and pages into a chunk,
// which is the column's part of a row group. A value is kept as its PLAIN encoding.
type column struct {
	schema  format.SchemaElement
	convert converter
	bounds  bounds
	out     *output

	// The open page. Its values are either in values or indexes of the dictionary.
	values  []byte
	indexes []int32
	levels  []byte // 1 for a value and 0 for NULL; empty as long as there is no NULL
	rows    int
	nulls   int

	dict    *dictionary // nil when it does not pay for this column
	indexed bool        // the open page refers to it
	chunk   chunk
}

func newColumn(f *tabular.Field, out *output) *column {
	t := typeOf(f)
	c := &column{schema: t.schema, convert: t.convert, bounds: bounds{order: t.order}, out: out}
	c.schema.Name = f.Key
	c.schema.RepetitionType.Set(format.Optional)
	// Room for a page from the start: a buffer that grows leaves its former selves
	// to the garbage collector.
	c.values = make([]byte, 0, out.pageBytes+out.pageBytes/8)
	if t.order != orderBool { // a bit is smaller than any index
		c.dict, c.indexed = newDictionary(2*out.pageBytes), true
	}
	return c
}

// add appends the text of a value. A note is about a value that was written
// nevertheless, except that [tabular.NoteNoValue] was written as NULL.
func (c *column) add(v []byte) (tabular.Note, error) {
	to := &c.values
	if c.indexed {
		to = &c.dict.values
	}
	start := len(*to)
	grown, note, err := c.convert(*to, v)
	if err != nil {
		return "", err
	}
	if note == tabular.NoteNoValue {
		c.addNull()
		return note, nil
	}
	*to = grown
	c.addLevel(1)
	if !c.indexed {
		return note, nil
	}
	return note, c.addIndex(start)
}

// addIndex adds the value whose bytes are the last of the dictionary.
func (c *column) addIndex(start int) error {
	c.indexes = append(c.indexes, c.dict.intern(start))
	if !c.dict.exhausted() {
		return nil
	}
	return c.leaveDictionary()
}

// leaveDictionary goes on with plain values until the end of the chunk.
func (c *column) leaveDictionary() error {
	if c.chunk.indexedPages == 0 {
		c.dropDictionary()
		return nil
	}
	err := c.flushPage()
	c.indexed = false
	return err
}

// dropDictionary turns the first page into plain values. It has not paid at all,
// so that later chunks do without, too.
func (c *column) dropDictionary() {
	for _, index := range c.indexes {
		c.values = append(c.values, c.dict.value(index)...)
	}
	c.dict, c.indexed, c.indexes = nil, false, nil
}

func (c *column) addNull() {
	if c.nulls == 0 {
		for range c.rows {
			c.levels = append(c.levels, 1)
		}
	}
	c.nulls++
	c.addLevel(0)
}

func (c *column) addLevel(level byte) {
	if c.nulls > 0 {
		c.levels = append(c.levels, level)
	}
	c.rows++
}

// pageFull bounds the bytes of a page, also of one that holds NULLs and indexes only.
func (c *column) pageFull() bool {
	return len(c.values) >= c.out.pageBytes || c.rows >= c.out.pageBytes/8
}
