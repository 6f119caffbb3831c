package typeset

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"testing"

	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// A subset is read back by a font library and must draw the same outlines with
// the same advances, composites and their parts included.
func TestSubsetDrawsTheSame(t *testing.T) {
	t.Parallel()
	face, err := ParseFont(goregular.TTF)
	if err != nil {
		t.Fatal(err)
	}
	chars := []rune("Aé Ǻ-ΐЀ€A") // the space has no outline, A comes twice
	glyphs := []uint16{0}
	for _, c := range chars {
		glyphs = append(glyphs, glyph(face, c))
	}
	data, err := face.Subset(glyphs)
	if err != nil {
		t.Fatal(err)
	}
	if checksum(data) != 0xB1B0AFBA {
		t.Errorf("the checksum of the file is %#x", checksum(data))
	}
	if len(data) > len(goregular.TTF)/10 {
		t.Errorf("the subset has %d bytes of %d", len(data), len(goregular.TTF))
	}
	if blank, err := face.Subset([]uint16{0, Blank}); err != nil || tables(t, blank)["hmtx"][4] != 0 {
		t.Errorf("a blank has a width, or failed: %v", err)
	}
	original, subset := library(t, goregular.TTF), library(t, complete(t, data, face))
	for i, g := range glyphs {
		want, got := outline(t, original, sfnt.GlyphIndex(g)), outline(t, subset, sfnt.GlyphIndex(i))
		if !slices.Equal(got, want) {
			t.Errorf("glyph %d of the subset differs from glyph %d of the font", i, g)
		}
	}
}

// complete adds the tables that a PDF does not need and the library does.
func complete(t *testing.T, subset []byte, face *Font) []byte {
	all := maps.Clone(tables(t, subset))
	for _, name := range []string{"cmap", "name", "OS/2"} {
		all[name] = face.tables[name]
	}
	post := slices.Clone(face.tables["post"][:32])
	binary.BigEndian.PutUint32(post, 0x00030000) // no glyph names
	all["post"] = post
	all["head"] = slices.Clone(all["head"])
	return assemble(all)
}

func tables(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	all, err := tableDirectory(data)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func glyph(f *Font, c rune) uint16 {
	g, _ := f.shape.NominalGlyph(c)
	return uint16(g)
}

func library(t *testing.T, data []byte) *sfnt.Font {
	t.Helper()
	f, err := sfnt.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

type segment struct {
	op   sfnt.SegmentOp
	args [3]fixed.Point26_6
}

func outline(t *testing.T, f *sfnt.Font, g sfnt.GlyphIndex) []segment {
	t.Helper()
	var buf sfnt.Buffer
	segments, err := f.LoadGlyph(&buf, g, fixed.I(2048), nil)
	if err != nil {
		t.Fatalf("glyph %d: %v", g, err)
	}
	out := []segment{}
	for _, s := range segments {
		out = append(out, segment{s.Op, s.Args})
	}
	advance, err := f.GlyphAdvance(&buf, g, fixed.I(2048), 0)
	if err != nil {
		t.Fatalf("glyph %d: %v", g, err)
	}
	return append(out, segment{args: [3]fixed.Point26_6{{X: advance}}})
}

// The built-in fonts have no composite glyphs; other fonts do. Here é is one,
// of e and an acute that is moved, scaled and followed by instructions.
func TestSubsetTakesCompositesApart(t *testing.T) {
	t.Parallel()
	face := withComposite(t)
	full := assemble(maps.Clone(face.tables))
	glyphs := []uint16{0, glyph(face, 'é'), glyph(face, 'e'), glyph(face, 'é')}
	data, err := face.Subset(glyphs)
	if err != nil {
		t.Fatal(err)
	}
	if n := binary.BigEndian.Uint16(tables(t, data)["maxp"][4:]); n != 6 { // the four, and the two parts once
		t.Errorf("the subset has %d glyphs", n)
	}
	tables := tables(t, data)
	second := tables["glyf"][binary.BigEndian.Uint32(tables["loca"][4:])+10+4+6:] // after the header and the first part
	if flags := binary.BigEndian.Uint16(second); flags&haveInstruction != 0 {
		t.Errorf("the flags %#x promise instructions, which are left out", flags)
	}
	original, subset := library(t, full), library(t, complete(t, data, face))
	for i, g := range glyphs {
		want, got := outline(t, original, sfnt.GlyphIndex(g)), outline(t, subset, sfnt.GlyphIndex(i))
		if !slices.Equal(got, want) || i == 1 && len(want) < 20 {
			t.Errorf("glyph %d of the subset: %d segments, want %d equal ones", i, len(got), len(want))
		}
	}
}

func withComposite(t *testing.T) *Font {
	t.Helper()
	face, err := ParseFont(goregular.TTF)
	if err != nil {
		t.Fatal(err)
	}
	part := func(flags, glyph uint16, arguments ...byte) []byte {
		return append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, flags), glyph), arguments...)
	}
	const argumentsAreOffsets = 2
	composite := slices.Concat([]byte{0xFF, 0xFF, 0, 0, 0, 0, 4, 0, 4, 0},
		part(moreComponents|argsAreWords|haveScale|argumentsAreOffsets, glyph(face, '´'), 0x00, 0x40, 0xFF, 0xC0, 0x20, 0x00),
		part(haveInstruction|argumentsAreOffsets, glyph(face, 'e'), 0, 0),
		[]byte{0, 2, 0xB0, 0x00}) // two bytes of instructions
	var glyf, loca []byte
	for g := range face.glyphs {
		loca = binary.BigEndian.AppendUint32(loca, uint32(len(glyf)))
		data, err := face.outline(uint16(g))
		if err != nil {
			t.Fatal(err)
		}
		if g == int(glyph(face, 'é')) {
			data = composite
		}
		glyf = append(glyf, data...)
		for len(glyf)%4 != 0 {
			glyf = append(glyf, 0)
		}
	}
	head := slices.Clone(face.tables["head"])
	binary.BigEndian.PutUint16(head[50:], 1)
	face.tables["head"], face.tables["glyf"] = head, glyf
	face.tables["loca"] = binary.BigEndian.AppendUint32(loca, uint32(len(glyf)))
	face.longLoca = true
	return face
}

func TestDamagedFontsAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := ParseFont([]byte("no font")); err == nil {
		t.Error("text was taken for a font")
	}
	face, err := ParseFont(goregular.TTF)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := face.Subset([]uint16{0, 65534}); !errors.Is(err, ErrNoOutlines) {
		t.Errorf("a glyph that is not there gave %v", err)
	}
	for _, size := range []int{11, 100, 5000} { // cuts glyphs at every kind of place
		cut := *face
		cut.tables = maps.Clone(face.tables)
		cut.tables["glyf"] = cut.tables["glyf"][:size]
		glyphs := make([]uint16, 712)
		for i := range glyphs {
			glyphs[i] = uint16(i)
		}
		if _, err := cut.Subset(glyphs); !errors.Is(err, ErrNoOutlines) {
			t.Errorf("a font cut at %d gave %v", size, err)
		}
	}
	delete(face.tables, "glyf")
	if err := face.readHeaders(); !errors.Is(err, ErrNoOutlines) {
		t.Errorf("a font without outlines gave %v", err)
	}
}
