package pdf

import (
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/fenceline/fenceline/jobs/invoice/typeset"
)

// fontUse is a font as one document uses it. Every glyph gets a number of its
// own (its CID) for each text that it stands for, in the order of first use:
// that way each comes back as that text when it is copied or searched.
type fontUse struct {
	font   *typeset.Font
	res    string            // its name in a page's resources
	single map[uint64]uint16 // by glyph and character
	longer map[string]uint16 // by glyph and characters
	cids   []use             // by CID; 0 is unused
	glyphs []uint16          // of the embedded subset; 0 is the font's own sign for what it lacks
	at     map[uint16]uint16 // place in glyphs, by glyph
	key    []byte
}

type use struct {
	glyph   uint16 // in the subset
	advance int    // in thousandths of the font size
	text    []rune
}

func newFontUse(font *typeset.Font, number int) *fontUse {
	return &fontUse{
		font: font, res: "F" + strconv.Itoa(number), single: make(map[uint64]uint16), longer: make(map[string]uint16),
		cids: make([]use, 1, 64), glyphs: make([]uint16, 1, 64), at: map[uint16]uint16{0: 0},
	}
}

// cid numbers a glyph that stands for text, which must not change afterwards.
func (f *fontUse) cid(glyph uint16, text []rune) uint16 {
	if len(text) == 1 {
		key := uint64(glyph)<<32 | uint64(uint32(text[0]))
		id, ok := f.single[key]
		if !ok {
			id = f.add(glyph, text)
			f.single[key] = id
		}
		return id
	}
	f.key = appendText(appendHex(f.key[:0], glyph), text)
	id, ok := f.longer[string(f.key)]
	if !ok {
		id = f.add(glyph, text)
		f.longer[string(f.key)] = id
	}
	return id
}

func (f *fontUse) add(glyph uint16, text []rune) uint16 {
	at, ok := f.at[glyph]
	if !ok {
		at = uint16(len(f.glyphs))
		f.at[glyph] = at
		f.glyphs = append(f.glyphs, glyph)
	}
	f.cids = append(f.cids, use{at, f.font.Advance(glyph), text})
	return uint16(len(f.cids) - 1)
}

// embed writes the font as a Type 0 font over a TrueType subset (ISO 32000-1,
// 9.7) as the object top.
func (f *fontUse) embed(p *file, top ref) error {
	data, err := f.font.Subset(f.glyphs)
	if err != nil {
		return err
	}
	name := f.subsetName()
	cidFont, descriptor, program, unicode, places := p.reserve(), p.reserve(), p.reserve(), p.reserve(), p.reserve()
	p.object(top, fmt.Sprintf("<</Type/Font/Subtype/Type0/BaseFont/%s/Encoding/Identity-H/DescendantFonts[%v]/ToUnicode %v>>",
		name, cidFont, unicode))
	p.object(cidFont, fmt.Sprintf("<</Type/Font/Subtype/CIDFontType2/BaseFont/%s"+
		"/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"+
		"/FontDescriptor %v/CIDToGIDMap %v/DW 0/W[1[%s]]>>", name, descriptor, places, f.widths()))
	p.object(descriptor, f.descriptor(name, program))
	p.stream(program, fmt.Sprintf("/Length1 %d", len(data)), data)
	p.stream(unicode, "", f.toUnicode())
	p.stream(places, "", f.places())
	return nil
}

func (f *fontUse) descriptor(name string, program ref) string {
	const symbolic = 4 // its characters are numbered its own way
	t := f.font
	return fmt.Sprintf("<</Type/FontDescriptor/FontName/%s/Flags %d/FontBBox[%d %d %d %d]/ItalicAngle 0"+
		"/Ascent %d/Descent %d/CapHeight %d/StemV 80/FontFile2 %v>>",
		name, symbolic, t.Box[0], t.Box[1], t.Box[2], t.Box[3], t.Ascent, t.Descent, t.CapHeight, program)
}

// subsetName is the font's name after six letters that tell subsets apart (ISO
// 32000-1, 9.6.4).
func (f *fontUse) subsetName() string {
	f.key = f.key[:0]
	for _, g := range f.glyphs {
		f.key = append(f.key, byte(g>>8), byte(g))
	}
	digest := sha256.Sum256(f.key)
	tag := make([]byte, 6)
	for i := range tag {
		tag[i] = 'A' + digest[i]%26
	}
	return string(tag) + "+" + f.font.Name
}

func (f *fontUse) widths() []byte {
	out := make([]byte, 0, 5*len(f.cids))
	for i, u := range f.cids[1:] {
		if i > 0 {
			out = append(out, ' ')
		}
		out = strconv.AppendInt(out, int64(u.advance), 10)
	}
	return out
}

// places maps every CID to its glyph in the subset.
func (f *fontUse) places() []byte {
	out := make([]byte, 0, 2*len(f.cids))
	for _, u := range f.cids {
		out = append(out, byte(u.glyph>>8), byte(u.glyph))
	}
	return out
}

// toUnicode maps every CID back to its text (ISO 32000-1, 9.10.3).
func (f *fontUse) toUnicode() []byte {
	const perBlock = 100 // the most that a block may hold
	out := make([]byte, 0, 400+16*len(f.cids))
	out = append(out, "/CIDInit/ProcSet findresource begin\n12 dict begin\nbegincmap\n"+
		"/CIDSystemInfo<</Registry(Adobe)/Ordering(UCS)/Supplement 0>>def\n"+
		"/CMapName/Adobe-Identity-UCS def\n/CMapType 2 def\n"+
		"1 begincodespacerange\n<0000><FFFF>\nendcodespacerange\n"...)
	for first := 1; first < len(f.cids); first += perBlock {
		last := min(first+perBlock, len(f.cids))
		out = strconv.AppendInt(out, int64(last-first), 10)
		out = append(out, " beginbfchar\n"...)
		for id := first; id < last; id++ {
			out = append(out, '<')
			out = appendHex(out, uint16(id))
			out = append(out, "><"...)
			out = appendText(out, f.cids[id].text)
			out = append(out, ">\n"...)
		}
		out = append(out, "endbfchar\n"...)
	}
	return append(out, "endcmap\nCMapName currentdict/CMap defineresource pop\nend\nend"...)
}
