package xlsx

import (
	"archive/zip"
	"bufio"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/klauspost/compress/flate"
)

// outputSize is how much of the file is collected before it is written.
const outputSize = 64 << 10

// book is the package around the sheets (ECMA-376 part 2): a ZIP archive.
type book struct {
	zip     *zip.Writer
	deflate *flate.Writer // of one part after the other
	title   string        // of the first sheet
	sheets  int           // begun so far
	rows    []int         // of the sheets that are ended
	part    *part         // the sheet at hand
	small   bytes.Buffer
}

// newBook writes the parts that do not depend on the rows.
func newBook(w io.Writer, title string, s *styles, level int) (*book, error) {
	deflate, err := flate.NewWriter(nil, level)
	if err != nil {
		return nil, wrap(err)
	}
	b := &book{zip: zip.NewWriter(bufio.NewWriterSize(w, outputSize)), deflate: deflate, title: sheetTitle(title)}
	return b, b.add(
		document{"_rels/.rels", packageRelations},
		document{"docProps/app.xml", appProperties},
		document{"docProps/core.xml", coreProperties(title)},
		document{"xl/styles.xml", s.document()},
	)
}

// close writes the parts that name the sheets, and the archive's end.
func (b *book) close(lastColumn string) error {
	err := b.add(
		document{"xl/workbook.xml", b.workbook(lastColumn)},
		document{"xl/_rels/workbook.xml.rels", b.relations()},
		document{"[Content_Types].xml", b.contentTypes()},
	)
	if err != nil {
		return err
	}
	return wrap(b.zip.Close())
}

// document is a part whose text is at hand.
type document struct{ name, text string }

func (b *book) add(documents ...document) error {
	for _, d := range documents {
		if err := b.addOne(d); err != nil {
			return wrap(err)
		}
	}
	return nil
}

func (b *book) addOne(d document) error {
	b.small.Reset()
	b.deflate.Reset(&b.small)
	if _, err := io.WriteString(b.deflate, d.text); err != nil {
		return err
	}
	if err := b.deflate.Close(); err != nil {
		return err
	}
	header := fileHeader(d.name)
	header.CRC32 = crc32.ChecksumIEEE([]byte(d.text))
	header.UncompressedSize64 = uint64(len(d.text))
	header.CompressedSize64 = uint64(b.small.Len())
	w, err := b.zip.CreateRaw(header)
	if err != nil {
		return err
	}
	_, err = w.Write(b.small.Bytes())
	return err
}

const (
	zip64Version   = 45  // 4.5 of the ZIP format, the first that knows of lengths over 4 GiB
	dataDescriptor = 0x8 // lengths and checksum follow the data
)

// fileHeader is that of a part. Every one asks for [zip64Version], because a
// sheet may pass 4 GiB: Excel wants to repair a file whose header in front of the
// data did not say so (golang/go#77060, apache/poi#154), where nobody knows yet,
// and the directory must ask for the same. The date is the first that the format
// has, so that the same rows give the same bytes.
func fileHeader(name string) *zip.FileHeader {
	return &zip.FileHeader{
		Name: name, Method: zip.Deflate, CreatorVersion: zip64Version, ReaderVersion: zip64Version,
		ModifiedDate: 1<<5 | 1, //nolint:staticcheck // what CreateRaw writes; Modified is for CreateHeader
	}
}

// part is a sheet's way into the archive: what is written to it gets compressed.
// Its lengths are known at its end.
type part struct {
	header  *zip.FileHeader
	archive io.Writer
	deflate *flate.Writer
	size    uint64
	sum     uint32
}

func (b *book) beginSheet() (*part, error) {
	b.sheets++
	header := fileHeader(fmt.Sprintf("xl/worksheets/sheet%d.xml", b.sheets))
	header.Flags |= dataDescriptor
	archive, err := b.zip.CreateRaw(header)
	if err != nil {
		return nil, err
	}
	b.part = &part{header: header, archive: archive, deflate: b.deflate}
	b.deflate.Reset(compressed{b.part})
	return b.part, nil
}

// Write takes XML.
func (p *part) Write(xml []byte) (int, error) {
	p.sum = crc32.Update(p.sum, crc32.IEEETable, xml)
	p.size += uint64(len(xml))
	return p.deflate.Write(xml)
}

// compressed counts what comes out of a part's compressor.
type compressed struct{ part *part }

// Write takes bytes of the archive.
func (c compressed) Write(b []byte) (int, error) {
	c.part.header.CompressedSize64 += uint64(len(b))
	return c.part.archive.Write(b)
}

// endSheet fills in what archive/zip writes behind the data and in the directory.
func (b *book) endSheet(rows int) error {
	b.rows = append(b.rows, rows)
	if err := b.deflate.Close(); err != nil {
		return err
	}
	h := b.part.header
	h.CRC32, h.UncompressedSize64 = b.part.sum, b.part.size
	//nolint:staticcheck // the short lengths are what archive/zip writes below 4 GiB
	h.CompressedSize, h.UncompressedSize = short(h.CompressedSize64), short(h.UncompressedSize64)
	return nil
}

// short is a length as the format knew it before version 4.5.
func short(size uint64) uint32 { return uint32(min(size, math.MaxUint32)) }
