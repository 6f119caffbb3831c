package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// magic begins and ends a file.
const magic = "PAR1"

// output is what the columns of a file share: the file, the compressor, and the
// memory in which compressed pages wait for the end of their row group.
type output struct {
	w       io.Writer
	offset  int64 // bytes written
	held    int   // compressed bytes of the open row group
	heldRaw int   // the same, uncompressed

	pageBytes  int
	blockBytes int
	free       [][]byte // blocks to use again

	zstd   *zstd.Encoder
	header bytes.Buffer // of the page that is being made
	raw    []byte       // its uncompressed body
	packed []byte       // its compressed body
	coded  []byte       // its levels, then its dictionary indexes
}

func newOutput(w io.Writer, columns int) (*output, error) {
	o := &output{w: w, pageBytes: min(maxPage, max(minPage, openBytes/columns))}
	o.blockBytes = max(minPage, o.pageBytes/4)
	var err error
	// A page never refers to bytes before it, so a window of its size is all there
	// is. Pages without repetitions, such as those of times, still have bytes that
	// are more frequent than others.
	o.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true), zstd.WithWindowSize(maxPage), zstd.WithLowerEncoderMem(true), zstd.WithAllLitEntropyCompression(true))
	if err != nil {
		return nil, fmt.Errorf("begin a zstd stream: %w", err)
	}
	return o, nil
}

func (o *output) write(p []byte) error {
	n, err := o.w.Write(p)
	o.offset += int64(n)
	return err
}

// page compresses o.raw to o.packed, and makes o.header what goes before it.
func (o *output) page(header *format.PageHeader) error {
	if len(o.raw) > math.MaxInt32 {
		return fmt.Errorf("a value of %d bytes is longer than a page of Parquet can be", len(o.raw))
	}
	o.packed = o.zstd.EncodeAll(o.raw, o.packed[:0])
	header.UncompressedPageSize = int32(len(o.raw))
	header.CompressedPageSize = int32(len(o.packed))
	header.CRC = int32(crc32.ChecksumIEEE(o.packed))
	o.header.Reset()
	return encodeThrift(&o.header, header)
}

// pageSizes are the bytes of the last page and its header, compressed and not.
func (o *output) pageSizes() (packed, raw int) {
	return o.header.Len() + len(o.packed), o.header.Len() + len(o.raw)
}

// trim lets go of what a page with an exceptionally long value needed.
func (o *output) trim() {
	o.raw, o.packed = trimmed(o.raw, o.pageBytes), trimmed(o.packed, o.pageBytes)
}

func trimmed(b []byte, usual int) []byte {
	if cap(b) > 4*usual {
		return nil
	}
	return b[:0]
}

// hold appends bytes to blocks.
func (o *output) hold(blocks [][]byte, p []byte) [][]byte {
	o.held += len(p)
	for len(p) > 0 {
		last := len(blocks) - 1
		if last < 0 || len(blocks[last]) == cap(blocks[last]) {
			blocks = append(blocks, o.block())
			last++
		}
		n := min(len(p), cap(blocks[last])-len(blocks[last]))
		blocks[last] = append(blocks[last], p[:n]...)
		p = p[n:]
	}
	return blocks
}

func (o *output) block() []byte {
	last := len(o.free) - 1
	if last < 0 {
		return make([]byte, 0, o.blockBytes)
	}
	b := o.free[last]
	o.free = o.free[:last]
	return b[:0]
}

// release writes blocks and takes them back.
func (o *output) release(blocks [][]byte) error {
	for _, b := range blocks {
		if err := o.write(b); err != nil {
			return err
		}
		o.free = append(o.free, b)
	}
	return nil
}

func (o *output) writeFooter(meta *format.FileMetaData) error {
	o.header.Reset()
	if err := encodeThrift(&o.header, meta); err != nil {
		return err
	}
	size := binary.LittleEndian.AppendUint32(nil, uint32(o.header.Len()))
	o.header.Write(size)
	o.header.WriteString(magic)
	return o.write(o.header.Bytes())
}

func encodeThrift(w *bytes.Buffer, v any) error {
	if err := thrift.NewEncoder(new(thrift.CompactProtocol).NewWriter(w)).Encode(v); err != nil {
		return fmt.Errorf("encode the metadata of the file: %w", err)
	}
	return nil
}
