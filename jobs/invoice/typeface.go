package invoice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
)

// typeface is a parsed TrueType font with everything that measuring, drawing
// and subsetting need. It is read only and safe for concurrent use. All
// measures are in thousandths of the font size, as in a PDF.
type typeface struct {
	name       string // PostScript name
	glyphs     []uint16
	advances   []int
	box        [4]int
	ascent     int
	descent    int // negative
	capHeight  int
	unitsPerEm int
	tables     map[string][]byte
	longLoca   bool
	hMetrics   int // how many glyphs have an advance of their own
}

// typefaces are the fonts of one document design.
type typefaces struct {
	regular, bold *typeface
}

// builtinTypefaces parses the embedded fonts once per process, when first
// needed.
var builtinTypefaces = sync.OnceValues(func() (*typefaces, error) {
	regular, err := parseTypeface(goregular.TTF)
	if err != nil {
		return nil, fmt.Errorf("parse Go Regular: %w", err)
	}
	bold, err := parseTypeface(gobold.TTF)
	if err != nil {
		return nil, fmt.Errorf("parse Go Bold: %w", err)
	}
	return &typefaces{regular: regular, bold: bold}, nil
})

// parseTypeface reads a TrueType font with glyf outlines. data must not change
// afterwards.
func parseTypeface(data []byte) (*typeface, error) {
	f, err := sfnt.Parse(data) // checks that every table lies within data
	if err != nil {
		return nil, err
	}
	t := &typeface{unitsPerEm: int(f.UnitsPerEm()), tables: tableDirectory(data)}
	if t.name, err = f.Name(nil, sfnt.NameIDPostScript); err != nil {
		return nil, fmt.Errorf("read its name: %w", err)
	}
	if err := t.readHeaders(); err != nil {
		return nil, err
	}
	t.advances = make([]int, f.NumGlyphs())
	for g := range t.advances {
		advance, _ := t.metrics(g)
		t.advances[g] = t.scale(advance)
	}
	t.glyphs, err = characterMap(f)
	return t, err
}

// characterMap lists the glyph of every character of the basic plane, 0 where
// there is none.
func characterMap(f *sfnt.Font) ([]uint16, error) {
	var buf sfnt.Buffer
	glyphs := make([]uint16, 1<<16)
	for c := range glyphs {
		g, err := f.GlyphIndex(&buf, rune(c))
		if err != nil {
			return nil, fmt.Errorf("read its character map: %w", err)
		}
		glyphs[c] = uint16(g)
	}
	for _, pair := range lookalikes() {
		if c := pair[0]; glyphs[c] == 0 {
			glyphs[c] = glyphs[pair[1]]
		}
	}
	return glyphs, nil
}

// lookalikes are characters that print as another one does, and differ from it
// only in where a line may break or, for spaces, by a hair's width. Each still
// comes back as itself when text is copied.
func lookalikes() [][2]rune {
	return [][2]rune{
		{0x2010, '-'}, // hyphen
		{0x2011, '-'}, // non-breaking hyphen
		{0x2007, ' '}, // figure space
		{0x2009, ' '}, // thin space
		{0x202F, ' '}, // narrow no-break space, which French numbers hold
	}
}

func tableDirectory(data []byte) map[string][]byte {
	tables := make(map[string][]byte)
	for i := range int(binary.BigEndian.Uint16(data[4:])) {
		entry := data[12+16*i:]
		start, size := binary.BigEndian.Uint32(entry[8:]), binary.BigEndian.Uint32(entry[12:])
		tables[string(entry[:4])] = data[start : start+size]
	}
	return tables
}

// errNoOutlines: the font cannot be embedded as TrueType.
var errNoOutlines = errors.New("it has no TrueType outlines")

func (t *typeface) readHeaders() error {
	for _, need := range []struct {
		table string
		size  int
	}{{"head", 54}, {"hhea", 36}, {"maxp", 6}, {"OS/2", 90}, {"hmtx", 4}, {"loca", 4}, {"glyf", 1}} {
		if len(t.tables[need.table]) < need.size {
			return fmt.Errorf("%w: table %s is missing or short", errNoOutlines, need.table)
		}
	}
	head, hhea, os2 := t.tables["head"], t.tables["hhea"], t.tables["OS/2"]
	for i := range t.box {
		t.box[i] = t.scale(signed(head[36+2*i:]))
	}
	t.longLoca = binary.BigEndian.Uint16(head[50:]) == 1
	t.ascent, t.descent = t.scale(signed(hhea[4:])), t.scale(signed(hhea[6:]))
	t.capHeight = t.scale(signed(os2[88:]))
	t.hMetrics = int(binary.BigEndian.Uint16(hhea[34:]))
	if t.hMetrics == 0 || 4*t.hMetrics > len(t.tables["hmtx"]) {
		return fmt.Errorf("%w: table hmtx is short", errNoOutlines)
	}
	return nil
}

// metrics are the advance and the left side bearing of a glyph in font units.
func (t *typeface) metrics(glyph int) (advance, bearing int) {
	hmtx := t.tables["hmtx"]
	if glyph < t.hMetrics {
		return int(binary.BigEndian.Uint16(hmtx[4*glyph:])), signed(hmtx[4*glyph+2:])
	}
	advance = int(binary.BigEndian.Uint16(hmtx[4*(t.hMetrics-1):]))
	if at := 4*t.hMetrics + 2*(glyph-t.hMetrics); at+2 <= len(hmtx) {
		bearing = signed(hmtx[at:])
	}
	return advance, bearing
}

// glyph is the glyph of a character; 0 when the font has none.
func (t *typeface) glyph(c rune) uint16 {
	if c < 0 || int(c) >= len(t.glyphs) {
		return 0
	}
	return t.glyphs[c]
}

// scale turns font units into thousandths of the font size, rounded.
func (t *typeface) scale(units int) int {
	return int(math.Round(float64(units) * 1000 / float64(t.unitsPerEm)))
}

func signed(b []byte) int { return int(int16(binary.BigEndian.Uint16(b))) }
