package invoice

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"unicode/utf16"
)

// docFont is a typeface as one document uses it. Every character that is used
// gets a number of its own (its CID) in the order of first use, even when two
// characters share a glyph: that way each comes back as itself when text is
// copied or searched. The embedded subset has its glyphs in the same order.
type docFont struct {
	face    *typeface
	res     string // its name in a page's resources
	cids    map[rune]uint16
	chars   []rune // by CID; 0 is unused
	missing rune   // the first character without a glyph, else 0
}

func newDocFont(face *typeface, res string) *docFont {
	return &docFont{face: face, res: res, cids: make(map[rune]uint16), chars: []rune{0}}
}

func (f *docFont) used() bool { return len(f.chars) > 1 }

// width is how wide s is at the font size 1.
func (f *docFont) width(s string) float64 {
	sum := 0
	for _, c := range s {
		sum += f.face.advances[f.face.glyph(c)]
	}
	return float64(sum) / 1000
}

// encode appends s as the hexadecimal string that shows it.
func (f *docFont) encode(dst []byte, s string) []byte {
	dst = append(dst, '<')
	for _, c := range s {
		dst = appendHex(dst, f.cid(c))
	}
	return append(dst, '>')
}

func (f *docFont) cid(c rune) uint16 {
	if id, ok := f.cids[c]; ok {
		return id
	}
	if f.face.glyph(c) == 0 && f.missing == 0 {
		f.missing = c
	}
	id := uint16(len(f.chars))
	f.cids[c] = id
	f.chars = append(f.chars, c)
	return id
}

// embed writes the font as a Type 0 font over a TrueType subset and returns its
// object (ISO 32000-1, 9.7).
func (f *docFont) embed(p *pdfFile) (ref, error) {
	glyphs := make([]uint16, len(f.chars))
	for id, c := range f.chars[1:] {
		glyphs[id+1] = f.face.glyph(c)
	}
	data, err := f.face.subset(glyphs)
	if err != nil {
		return 0, err
	}
	name := f.subsetName()
	top, cidFont, descriptor, file, unicode := p.reserve(), p.reserve(), p.reserve(), p.reserve(), p.reserve()
	p.object(top, fmt.Sprintf("<</Type/Font/Subtype/Type0/BaseFont/%s/Encoding/Identity-H/DescendantFonts[%v]/ToUnicode %v>>",
		name, cidFont, unicode))
	p.object(cidFont, fmt.Sprintf("<</Type/Font/Subtype/CIDFontType2/BaseFont/%s"+
		"/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"+
		"/FontDescriptor %v/CIDToGIDMap/Identity/DW 0/W[0[%s]]>>", name, descriptor, f.widths(glyphs)))
	p.object(descriptor, f.descriptor(name, file))
	p.stream(file, fmt.Sprintf("/Length1 %d", len(data)), data)
	p.stream(unicode, "", f.toUnicode())
	return top, nil
}

func (f *docFont) descriptor(name string, file ref) string {
	const symbolic = 4 // its characters are numbered its own way
	t := f.face
	return fmt.Sprintf("<</Type/FontDescriptor/FontName/%s/Flags %d/FontBBox[%d %d %d %d]/ItalicAngle 0"+
		"/Ascent %d/Descent %d/CapHeight %d/StemV 80/FontFile2 %v>>",
		name, symbolic, t.box[0], t.box[1], t.box[2], t.box[3], t.ascent, t.descent, t.capHeight, file)
}

// subsetName is the font's name after six letters that tell subsets apart (ISO
// 32000-1, 9.6.4).
func (f *docFont) subsetName() string {
	digest := sha256.Sum256([]byte(string(f.chars)))
	tag := make([]byte, 6)
	for i := range tag {
		tag[i] = 'A' + digest[i]%26
	}
	return string(tag) + "+" + f.face.name
}

func (f *docFont) widths(glyphs []uint16) []byte {
	var out []byte
	for i, g := range glyphs {
		if i > 0 {
			out = append(out, ' ')
		}
		out = strconv.AppendInt(out, int64(f.face.advances[g]), 10)
	}
	return out
}

// toUnicode maps every CID back to its character.
func (f *docFont) toUnicode() []byte {
	const perBlock = 100 // the most that a block may hold
	out := []byte("/CIDInit/ProcSet findresource begin\n12 dict begin\nbegincmap\n" +
		"/CIDSystemInfo<</Registry(Adobe)/Ordering(UCS)/Supplement 0>>def\n" +
		"/CMapName/Adobe-Identity-UCS def\n/CMapType 2 def\n" +
		"1 begincodespacerange\n<0000><FFFF>\nendcodespacerange\n")
	for first := 1; first < len(f.chars); first += perBlock {
		last := min(first+perBlock, len(f.chars))
		out = fmt.Appendf(out, "%d beginbfchar\n", last-first)
		for id := first; id < last; id++ {
			out = append(out, '<')
			out = appendHex(out, uint16(id))
			out = append(out, "><"...)
			for _, unit := range utf16.Encode(f.chars[id : id+1]) {
				out = appendHex(out, unit)
			}
			out = append(out, ">\n"...)
		}
		out = append(out, "endbfchar\n"...)
	}
	return append(out, "endcmap\nCMapName currentdict/CMap defineresource pop\nend\nend"...)
}
