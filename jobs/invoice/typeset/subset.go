package typeset

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// Flags of a composite glyph's parts (OpenType, table glyf).
const (
	argsAreWords    = 0x0001
	haveScale       = 0x0008
	moreComponents  = 0x0020
	haveTwoScales   = 0x0040
	haveTwoByTwo    = 0x0080
	haveInstruction = 0x0100
)

// Subset makes a TrueType font that holds exactly the given glyphs in the given
// order, then the parts that composite glyphs among them are made of. A glyph
// may be listed twice, and [Blank] is none of the font's. Hinting is left out: PDF readers do without. The result
// depends on nothing but the font and the list.
func (f *Font) Subset(glyphs []uint16) ([]byte, error) {
	s := subsetter{face: f, glyphs: slices.Clone(glyphs), parts: make(map[uint16]uint16)}
	for i := 0; i < len(s.glyphs); i++ { // grows while composites bring in parts
		s.loca = binary.BigEndian.AppendUint32(s.loca, uint32(len(s.glyf)))
		if err := s.copyGlyph(s.glyphs[i]); err != nil {
			return nil, fmt.Errorf("subset %s, glyph %d: %w", f.Name, s.glyphs[i], err)
		}
		for len(s.glyf)%4 != 0 {
			s.glyf = append(s.glyf, 0)
		}
		advance, bearing := f.metrics(int(s.glyphs[i]))
		s.hmtx = binary.BigEndian.AppendUint16(s.hmtx, uint16(advance))
		s.hmtx = binary.BigEndian.AppendUint16(s.hmtx, uint16(bearing))
	}
	s.loca = binary.BigEndian.AppendUint32(s.loca, uint32(len(s.glyf)))
	return s.file(), nil
}

type subsetter struct {
	face             *Font
	glyphs           []uint16          // old number by new number
	parts            map[uint16]uint16 // new number of a part by its old one
	glyf, loca, hmtx []byte
}

// outline is the data of one glyph; empty for a space.
func (f *Font) outline(glyph uint16) ([]byte, error) {
	loca, g := f.tables["loca"], int(glyph)
	var start, end int
	switch {
	case f.longLoca && 4*g+8 <= len(loca):
		start, end = int(binary.BigEndian.Uint32(loca[4*g:])), int(binary.BigEndian.Uint32(loca[4*g+4:]))
	case !f.longLoca && 2*g+4 <= len(loca):
		start, end = 2*int(binary.BigEndian.Uint16(loca[2*g:])), 2*int(binary.BigEndian.Uint16(loca[2*g+2:]))
	default:
		return nil, fmt.Errorf("%w: it is not in table loca", ErrNoOutlines)
	}
	if start > end || end > len(f.tables["glyf"]) {
		return nil, fmt.Errorf("%w: it lies outside table glyf", ErrNoOutlines)
	}
	return f.tables["glyf"][start:end], nil
}

func (s *subsetter) copyGlyph(glyph uint16) error {
	if glyph == Blank {
		return nil
	}
	src, err := s.face.outline(glyph)
	if err != nil || len(src) == 0 {
		return err
	}
	if len(src) < 12 {
		return fmt.Errorf("%w: it is short", ErrNoOutlines)
	}
	if contours := signed(src); contours >= 0 {
		return s.copySimple(src, contours)
	}
	return s.copyComposite(src)
}

// copySimple drops the instructions, which stand between the contours' ends and
// the flags.
func (s *subsetter) copySimple(src []byte, contours int) error {
	at := 10 + 2*contours
	if at+2 > len(src) || at+2+int(binary.BigEndian.Uint16(src[at:])) > len(src) {
		return fmt.Errorf("%w: it is short", ErrNoOutlines)
	}
	s.glyf = append(s.glyf, src[:at]...)
	s.glyf = append(s.glyf, 0, 0)
	s.glyf = append(s.glyf, src[at+2+int(binary.BigEndian.Uint16(src[at:])):]...)
	return nil
}

// copyComposite gives the parts their new numbers.
func (s *subsetter) copyComposite(src []byte) error {
	s.glyf = append(s.glyf, src[:10]...)
	for at, more := 10, true; more; {
		if at+4 > len(src) {
			return fmt.Errorf("%w: a part is short", ErrNoOutlines)
		}
		flags := binary.BigEndian.Uint16(src[at:])
		end := at + 4 + argumentSize(flags)
		if end > len(src) {
			return fmt.Errorf("%w: a part is short", ErrNoOutlines)
		}
		s.glyf = binary.BigEndian.AppendUint16(s.glyf, flags&^haveInstruction)
		s.glyf = binary.BigEndian.AppendUint16(s.glyf, s.part(binary.BigEndian.Uint16(src[at+2:])))
		s.glyf = append(s.glyf, src[at+4:end]...)
		at, more = end, flags&moreComponents != 0
	}
	return nil
}

func argumentSize(flags uint16) int {
	size := 2
	if flags&argsAreWords != 0 {
		size = 4
	}
	switch {
	case flags&haveScale != 0:
		size += 2
	case flags&haveTwoScales != 0:
		size += 4
	case flags&haveTwoByTwo != 0:
		size += 8
	}
	return size
}

func (s *subsetter) part(old uint16) uint16 {
	n, ok := s.parts[old]
	if !ok {
		n = uint16(len(s.glyphs))
		s.parts[old] = n
		s.glyphs = append(s.glyphs, old)
	}
	return n
}

// file puts the tables together that PDF asks of an embedded font (ISO 32000-1,
// 9.9); the character map is the PDF's own.
func (s *subsetter) file() []byte {
	head, hhea, maxp := slices.Clone(s.face.tables["head"]), slices.Clone(s.face.tables["hhea"]), slices.Clone(s.face.tables["maxp"])
	binary.BigEndian.PutUint32(head[8:], 0)  // the checksum adjustment, set below
	binary.BigEndian.PutUint16(head[50:], 1) // long offsets in loca
	binary.BigEndian.PutUint16(hhea[34:], uint16(len(s.glyphs)))
	binary.BigEndian.PutUint16(maxp[4:], uint16(len(s.glyphs)))
	return assemble(map[string][]byte{
		"head": head, "hhea": hhea, "maxp": maxp, "hmtx": s.hmtx, "loca": s.loca, "glyf": s.glyf,
	})
}

// assemble writes an OpenType file: the directory, the tables by name, and the
// checksum over all of it.
func assemble(tables map[string][]byte) []byte {
	names := slices.Sorted(maps.Keys(tables))
	n, power, log := len(names), 1, 0
	for power*2 <= n {
		power, log = power*2, log+1
	}
	out := []byte{0, 1, 0, 0}
	for _, v := range []int{n, 16 * power, log, 16 * (n - power)} {
		out = binary.BigEndian.AppendUint16(out, uint16(v))
	}
	at, head := 12+16*n, 0
	for _, name := range names {
		if name == "head" {
			head = at
		}
		out = append(out, name...)
		for _, v := range []uint32{checksum(tables[name]), uint32(at), uint32(len(tables[name]))} {
			out = binary.BigEndian.AppendUint32(out, v)
		}
		at += (len(tables[name]) + 3) &^ 3
	}
	for _, name := range names {
		out = append(out, tables[name]...)
		for len(out)%4 != 0 {
			out = append(out, 0)
		}
	}
	binary.BigEndian.PutUint32(out[head+8:], 0xB1B0AFBA-checksum(out))
	return out
}

// checksum adds up big-endian words, the last one filled up with zeros.
func checksum(b []byte) uint32 {
	var sum uint32
	for ; len(b) >= 4; b = b[4:] {
		sum += binary.BigEndian.Uint32(b)
	}
	var last [4]byte
	copy(last[:], b)
	return sum + binary.BigEndian.Uint32(last[:])
}
