package typeset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf16"

	"github.com/go-text/typesetting/font"
)

// Font is a parsed TrueType font with everything that shaping, measuring and
// subsetting need. It is read only and safe for concurrent use.
type Font struct {
	// Name is the PostScript name.
	Name string
	// Bold says that the font's weight is 600 or more.
	Bold bool
	// UnitsPerEm is how many font units make the font size.
	UnitsPerEm int
	// Ascent, Descent (negative), CapHeight and Box (left, bottom, right, top of
	// all glyphs) are in thousandths of the font size, as in a PDF.
	Ascent, Descent, CapHeight int
	Box                        [4]int

	shape    *font.Font
	tables   map[string][]byte
	glyphs   int
	longLoca bool
	hMetrics int // how many glyphs have an advance of their own
}

// ErrNoOutlines: the font cannot be embedded as TrueType.
var ErrNoOutlines = errors.New("it has no sound TrueType outlines")

// ParseFont reads a TrueType font with glyf outlines (OpenType 1.9); of a
// collection, its first font; of a variable font, the default instance. Fonts
// with CFF outlines are refused. data must not change afterwards.
func ParseFont(data []byte) (*Font, error) {
	tables, err := tableDirectory(data)
	if err != nil {
		return nil, err
	}
	f := &Font{tables: tables}
	if err := f.readHeaders(); err != nil {
		return nil, err
	}
	if f.shape, err = shapingTables(data); err != nil {
		return nil, fmt.Errorf("read its shaping tables: %w", err)
	}
	f.Name = postScriptName(tables["name"])
	if f.Name == "" {
		return nil, errors.New("it has no PostScript name")
	}
	return f, nil
}

// shapingTables has the library read a font. It trusts some offsets and panics
// when they are wrong: for a damaged file, that is an error like any other.
func shapingTables(data []byte) (f *font.Font, err error) {
	defer func() {
		if p := recover(); p != nil {
			f, err = nil, fmt.Errorf("they are damaged: %v", p)
		}
	}()
	faces, err := font.ParseTTC(bytes.NewReader(data)) // reads single fonts too
	if err != nil {
		return nil, err
	}
	return faces[0].Font, nil
}

// tableDirectory finds the tables of a font file.
func tableDirectory(data []byte) (map[string][]byte, error) {
	if len(data) < 12 {
		return nil, errors.New("it is no font: it is too short")
	}
	at := 0
	if string(data[:4]) == "ttcf" && len(data) >= 16 {
		at = int(binary.BigEndian.Uint32(data[12:])) // of the first font
	}
	if at+12 > len(data) {
		return nil, errors.New("its first font is cut off")
	}
	switch string(data[at : at+4]) {
	case "\x00\x01\x00\x00", "true":
	case "OTTO":
		return nil, fmt.Errorf("%w: its outlines are CFF; use the TrueType edition of the font", ErrNoOutlines)
	default:
		return nil, errors.New("it is no TrueType font")
	}
	n := int(binary.BigEndian.Uint16(data[at+4:]))
	if len(data) < at+12+16*n {
		return nil, errors.New("its table directory is cut off")
	}
	tables := make(map[string][]byte, n)
	for i := range n {
		entry := data[at+12+16*i:]
		start, size := uint64(binary.BigEndian.Uint32(entry[8:])), uint64(binary.BigEndian.Uint32(entry[12:]))
		if start+size > uint64(len(data)) {
			return nil, fmt.Errorf("its table %q is cut off", entry[:4])
		}
		tables[string(entry[:4])] = data[start : start+size]
	}
	return tables, nil
}

func (f *Font) readHeaders() error {
	for _, need := range []struct {
		table string
		size  int
	}{{"head", 54}, {"hhea", 36}, {"maxp", 6}, {"OS/2", 78}, {"hmtx", 4}, {"loca", 4}, {"glyf", 1}} {
		if len(f.tables[need.table]) < need.size {
			return fmt.Errorf("%w: table %s is missing or short", ErrNoOutlines, need.table)
		}
	}
	head, hhea, os2 := f.tables["head"], f.tables["hhea"], f.tables["OS/2"]
	if f.UnitsPerEm = int(binary.BigEndian.Uint16(head[18:])); f.UnitsPerEm == 0 {
		return fmt.Errorf("%w: it has no units per em", ErrNoOutlines)
	}
	for i := range f.Box {
		f.Box[i] = f.scale(signed(head[36+2*i:]))
	}
	f.longLoca = binary.BigEndian.Uint16(head[50:]) == 1
	f.glyphs = int(binary.BigEndian.Uint16(f.tables["maxp"][4:]))
	f.Ascent, f.Descent = f.scale(signed(hhea[4:])), f.scale(signed(hhea[6:]))
	f.Bold = binary.BigEndian.Uint16(os2[4:]) >= 600
	f.CapHeight = f.Ascent * 7 / 10
	if len(os2) >= 90 { // version 2 and later
		f.CapHeight = f.scale(signed(os2[88:]))
	}
	f.hMetrics = int(binary.BigEndian.Uint16(hhea[34:]))
	if f.hMetrics == 0 || 4*f.hMetrics > len(f.tables["hmtx"]) {
		return fmt.Errorf("%w: table hmtx is short", ErrNoOutlines)
	}
	return nil
}

// postScriptName is name 6 of table name; "" when there is none.
func postScriptName(table []byte) string {
	if len(table) < 6 {
		return ""
	}
	n, strings := int(binary.BigEndian.Uint16(table[2:])), int(binary.BigEndian.Uint16(table[4:]))
	for i := range n {
		if len(table) < 6+12*i+12 {
			return ""
		}
		r := table[6+12*i:]
		size, start := int(binary.BigEndian.Uint16(r[8:])), strings+int(binary.BigEndian.Uint16(r[10:]))
		if binary.BigEndian.Uint16(r[6:]) != 6 || start+size > len(table) {
			continue
		}
		if name := plainName(table[start:start+size], binary.BigEndian.Uint16(r) == 1); name != "" {
			return name
		}
	}
	return ""
}

// plainName decodes a name and leaves out what a PDF name object cannot hold
// as it is (ISO 32000-1, 7.3.5).
func plainName(raw []byte, macintosh bool) string {
	var units []uint16
	for i := 0; i < len(raw); i++ {
		if macintosh {
			units = append(units, uint16(raw[i]))
		} else if i%2 == 1 {
			units = append(units, binary.BigEndian.Uint16(raw[i-1:]))
		}
	}
	var out []rune
	for _, c := range utf16.Decode(units) {
		if c > ' ' && c < 0x7F && !bytes.ContainsRune([]byte("[](){}<>/%#"), c) {
			out = append(out, c)
		}
	}
	return string(out)
}

// Has reports whether the font has a glyph of its own for c.
func (f *Font) Has(c rune) bool {
	_, ok := f.shape.NominalGlyph(c)
	return ok
}

// Advance is how far a glyph moves the pen, in thousandths of the font size,
// rounded: what a PDF says of it.
func (f *Font) Advance(glyph uint16) int {
	advance, _ := f.metrics(int(glyph))
	return f.scale(advance)
}

// Blank stands, in a subset, for a glyph that no font has (none may have so many):
// without a look and without width.
const Blank = 0xFFFF

// metrics are the advance and the left side bearing of a glyph in font units.
func (f *Font) metrics(glyph int) (advance, bearing int) {
	hmtx := f.tables["hmtx"]
	if glyph == Blank {
		return 0, 0
	}
	if glyph < f.hMetrics {
		return int(binary.BigEndian.Uint16(hmtx[4*glyph:])), signed(hmtx[4*glyph+2:])
	}
	advance = int(binary.BigEndian.Uint16(hmtx[4*(f.hMetrics-1):]))
	if at := 4*f.hMetrics + 2*(glyph-f.hMetrics); at+2 <= len(hmtx) {
		bearing = signed(hmtx[at:])
	}
	return advance, bearing
}

// scale turns font units into thousandths of the font size, rounded.
func (f *Font) scale(units int) int {
	if f.UnitsPerEm == 1000 {
		return units
	}
	return int(math.Round(float64(units) * 1000 / float64(f.UnitsPerEm)))
}

func signed(b []byte) int { return int(int16(binary.BigEndian.Uint16(b))) }
