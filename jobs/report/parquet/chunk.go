package parquet

import (
	"encoding/binary"
	"math/bits"

	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// chunk is what is known of the pages of a row group's column.
type chunk struct {
	pages        [][]byte // compressed, with their headers
	rows, nulls  int
	packed, raw  int // bytes of the pages, compressed and not
	plainPages   int32
	indexedPages int32
}

// flushPage compresses the open page and begins another.
func (c *column) flushPage() error {
	if c.rows == 0 {
		return nil
	}
	if len(c.indexes) > 0 && c.chunk.indexedPages == 0 && c.dict.wasteful() {
		c.dropDictionary()
	}
	encoding, err := c.encodePage()
	if err != nil {
		return err
	}
	if err := c.out.page(&format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{
		NumValues: int32(c.rows), Encoding: encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
	})}); err != nil {
		return err
	}
	c.keepPage(encoding)
	c.values, c.indexes, c.levels = trimmed(c.values, c.out.pageBytes), c.indexes[:0], c.levels[:0]
	c.rows, c.nulls = 0, 0
	c.out.trim()
	return nil
}

// encodePage makes out.raw the body of the page: its levels, then its values.
func (c *column) encodePage() (format.Encoding, error) {
	o := c.out
	var err error
	if c.nulls == 0 {
		o.coded = append(binary.AppendUvarint(o.coded[:0], uint64(c.rows)<<1), 1) // one run of ones
	} else if o.coded, err = (&rle.Encoding{BitWidth: 1}).EncodeLevels(o.coded, c.levels); err != nil {
		return 0, err
	}
	o.raw = binary.LittleEndian.AppendUint32(o.raw[:0], uint32(len(o.coded)))
	o.raw = append(o.raw, o.coded...)
	if len(c.indexes) == 0 {
		c.bounds.see(c.values)
		o.raw = c.appendValues(o.raw)
		return format.Plain, nil
	}
	width := max(1, bits.Len(uint(len(c.dict.ends)-1)))
	if o.coded, err = (&rle.Encoding{BitWidth: width}).EncodeInt32(o.coded, c.indexes); err != nil {
		return 0, err
	}
	o.raw = append(o.raw, byte(width))
	o.raw = append(o.raw, o.coded...)
	return format.RLEDictionary, nil
}

// appendValues appends the plain values: booleans as bits, the lowest first, and
// all others as they were collected.
func (c *column) appendValues(dst []byte) []byte {
	if c.bounds.order != orderBool {
		return append(dst, c.values...)
	}
	for i, v := range c.values {
		if i%8 == 0 {
			dst = append(dst, 0)
		}
		dst[len(dst)-1] |= v << (i % 8)
	}
	return dst
}

// keepPage adds the page that out holds to the chunk.
func (c *column) keepPage(encoding format.Encoding) {
	k := &c.chunk
	k.pages = c.out.hold(k.pages, c.out.header.Bytes())
	k.pages = c.out.hold(k.pages, c.out.packed)
	packed, raw := c.out.pageSizes()
	k.packed += packed
	k.raw += raw
	c.out.heldRaw += raw
	k.rows += c.rows
	k.nulls += c.nulls
	if encoding == format.Plain {
		k.plainPages++
	} else {
		k.indexedPages++
	}
}

// flushChunk writes the chunk to the file and begins another.
func (c *column) flushChunk() (format.ColumnMetaData, error) {
	if err := c.flushPage(); err != nil {
		return format.ColumnMetaData{}, err
	}
	k := &c.chunk
	meta := format.ColumnMetaData{
		Type: c.schema.Type.V, Encoding: []format.Encoding{format.Plain, format.RLE}, PathInSchema: []string{c.schema.Name},
		Codec: format.Zstd, NumValues: int64(k.rows),
	}
	if k.indexedPages > 0 {
		if err := c.writeDictionary(&meta); err != nil {
			return meta, err
		}
	}
	if k.plainPages > 0 {
		meta.EncodingStats = append(meta.EncodingStats, format.PageEncodingStats{PageType: format.DataPage, Encoding: format.Plain, Count: k.plainPages})
	}
	meta.Statistics = c.bounds.statistics(k.nulls)
	meta.DataPageOffset = c.out.offset
	meta.TotalCompressedSize += int64(k.packed)
	meta.TotalUncompressedSize += int64(k.raw)
	if err := c.out.release(k.pages); err != nil {
		return meta, err
	}
	*k = chunk{pages: k.pages[:0]}
	c.bounds.reset()
	if c.dict != nil {
		c.dict.reset()
		c.indexed = true
	}
	return meta, nil
}

// writeDictionary writes the page to which the chunk's pages refer before them.
func (c *column) writeDictionary(meta *format.ColumnMetaData) error {
	o := c.out
	c.bounds.see(c.dict.values)
	o.raw = append(o.raw[:0], c.dict.values...)
	if err := o.page(&format.PageHeader{Type: format.DictionaryPage, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{
		NumValues: int32(len(c.dict.ends)), Encoding: format.Plain,
	})}); err != nil {
		return err
	}
	packed, raw := o.pageSizes()
	meta.DictionaryPageOffset = o.offset
	meta.TotalCompressedSize, meta.TotalUncompressedSize = int64(packed), int64(raw)
	meta.Encoding = append(meta.Encoding, format.RLEDictionary)
	meta.EncodingStats = append(meta.EncodingStats,
		format.PageEncodingStats{PageType: format.DictionaryPage, Encoding: format.Plain, Count: 1},
		format.PageEncodingStats{PageType: format.DataPage, Encoding: format.RLEDictionary, Count: c.chunk.indexedPages})
	if err := o.write(o.header.Bytes()); err != nil {
		return err
	}
	return o.write(o.packed)
}
