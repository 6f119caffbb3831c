package typeset

import (
	"strconv"

	"github.com/go-text/typesetting/font"
	"github.com/go-text/typesetting/font/opentype"
)

// AppendPath appends the outline of a glyph as the data of an SVG path (SVG 1.1,
// 8.3), in font units with y downwards. A glyph without a look appends nothing.
func (f *Font) AppendPath(dst []byte, glyph uint16) []byte {
	outline, ok := font.NewFace(f.shape).GlyphDataOutline(font.GID(glyph))
	if !ok {
		return dst
	}
	letters := map[opentype.SegmentOp]byte{
		opentype.SegmentOpMoveTo: 'M', opentype.SegmentOpLineTo: 'L', opentype.SegmentOpQuadTo: 'Q', opentype.SegmentOpCubeTo: 'C',
	}
	for i := range outline.Segments {
		s := &outline.Segments[i]
		if s.Op == opentype.SegmentOpMoveTo && i > 0 {
			dst = append(dst, 'Z')
		}
		dst = append(dst, letters[s.Op])
		for n, p := range s.ArgsSlice() {
			if n > 0 {
				dst = append(dst, ' ')
			}
			dst = strconv.AppendFloat(dst, float64(p.X), 'f', -1, 32)
			dst = append(dst, ' ')
			dst = strconv.AppendFloat(dst, float64(-p.Y), 'f', -1, 32)
		}
	}
	if len(outline.Segments) > 0 {
		dst = append(dst, 'Z')
	}
	return dst
}
