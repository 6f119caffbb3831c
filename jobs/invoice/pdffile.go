package invoice

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"unicode/utf16"
)

// ref is the number of an object in a PDF file.

type ref int

func (r ref) String() string { return strconv.Itoa(int(r)) + " 0 R" }

// pdfFile writes the objects of a PDF 1.7 file (ISO 32000-1) into memory: an
// invoice is small, and the table at its end needs every object's place. The
// bytes depend on nothing but what is written. It has one owner.
type pdfFile struct {
	out bytes.Buffer
	at  []int // place of every object, by number less one
	zip *zlib.Writer
	err error // the first failure
}

// compression is the zlib level. Measured on an invoice of 40 lines, it takes two
// thirds of the time of the default level for a file that is 2 % larger.
const compression = 4

func newPDFFile() *pdfFile {
	f := new(pdfFile)
	f.zip, f.err = zlib.NewWriterLevel(nil, compression)
	// Four bytes above 127 in a comment tell transfer programs that this is binary.
	f.out.WriteString("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
	return f
}

// reserve gives out a number, so that objects can name each other before they
// are written. Every reserved number must be written once.
func (f *pdfFile) reserve() ref {
	f.at = append(f.at, 0)
	return ref(len(f.at))
}

func (f *pdfFile) object(r ref, body string) {
	f.begin(r)
	f.out.WriteString(body)
	f.out.WriteString("\nendobj\n")
}

func (f *pdfFile) begin(r ref) {
	f.at[r-1] = f.out.Len()
	fmt.Fprintf(&f.out, "%d 0 obj\n", r)
}

// stream writes data compressed; dict are the entries of its dictionary beside
// the length and the filter.
func (f *pdfFile) stream(r ref, dict string, data []byte) {
	var packed bytes.Buffer
	f.zip.Reset(&packed)
	if _, err := f.zip.Write(data); err != nil {
		f.fail(err)
	}
	if err := f.zip.Close(); err != nil {
		f.fail(err)
	}
	f.plainStream(r, dict+"/Filter/FlateDecode", packed.Bytes())
}

// plainStream writes data as it is. Metadata is written so: other programs
// look for it without reading the file as a PDF.
func (f *pdfFile) plainStream(r ref, dict string, data []byte) {
	f.begin(r)
	fmt.Fprintf(&f.out, "<<%s/Length %d>>\nstream\n", dict, len(data))
	f.out.Write(data)
	f.out.WriteString("\nendstream\nendobj\n")
}

func (f *pdfFile) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// finish writes the cross-reference table and gives the file. Its identifier is
// a digest of its content.
func (f *pdfFile) finish(root, info ref) ([]byte, error) {
	digest := sha256.Sum256(f.out.Bytes())
	id := hex.EncodeToString(digest[:16])
	table := f.out.Len()
	fmt.Fprintf(&f.out, "xref\n0 %d\n0000000000 65535 f \n", len(f.at)+1)
	for i, at := range f.at {
		if at == 0 {
			f.fail(fmt.Errorf("object %d was never written", i+1))
		}
		fmt.Fprintf(&f.out, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&f.out, "trailer\n<</Size %d/Root %v/Info %v/ID[<%s><%s>]>>\nstartxref\n%d\n%%%%EOF\n",
		len(f.at)+1, root, info, id, id, table)
	return f.out.Bytes(), f.err
}

// textString writes s as a PDF text string: UTF-16 with a byte order mark, in
// hexadecimal, so that nothing needs escaping.
func textString(s string) string {
	out := []byte("<FEFF")
	for _, unit := range utf16.Encode([]rune(s)) {
		out = appendHex(out, unit)
	}
	return string(append(out, '>'))
}

func appendHex(dst []byte, v uint16) []byte {
	const digits = "0123456789ABCDEF"
	return append(dst, digits[v>>12], digits[v>>8&15], digits[v>>4&15], digits[v&15])
}

// appendNumber writes v with at most two decimals: a hundredth of a point is
// below what any printer can show.
func appendNumber(dst []byte, v float64) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, v, 'f', 2, 64)
	dst = bytes.TrimSuffix(dst, []byte("0"))
	dst = bytes.TrimSuffix(dst, []byte("0"))
	dst = bytes.TrimSuffix(dst, []byte("."))
	if string(dst[start:]) == "-0" {
		return append(dst[:start], '0')
	}
	return dst
}
