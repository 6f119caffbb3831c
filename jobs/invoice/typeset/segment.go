package typeset

import (
	"unicode"

	textbidi "github.com/go-text/typesetting/bidi"
	"github.com/go-text/typesetting/language"
	"golang.org/x/text/unicode/bidi"
)

// token is a word, or the spaces between two words: a stretch of a paragraph
// in one direction, script and font. It is what is shaped at once: no script
// joins across a space.
type token struct {
	start, end int // runes of the paragraph
	level      int8
	space      bool
	script     language.Script
	font       *Font
	word       *word // nil until it is measured
}

// firstStrong is the direction of the first character that has one (UAX 9, P2
// and P3, without isolates); fallback when there is none.
func firstStrong(text []rune, rightToLeft bool) bool {
	for _, c := range text {
		if c < 0x0590 {
			if unicode.IsLetter(c) {
				return false
			}
			continue
		}
		p, _ := bidi.LookupRune(c)
		switch p.Class() {
		case bidi.L:
			return false
		case bidi.R, bidi.AL:
			return true
		}
	}
	return rightToLeft
}

// plain reports whether text is of European letters, digits and signs alone,
// for which there is nothing to find out about directions.
func plain(text []rune) bool {
	for _, c := range text {
		if c >= 0x0590 && (c < 0x1E00 || c >= 0x2200 || unicode.Is(unicode.Cf, c)) {
			return false
		}
	}
	return true
}

// segment cuts a paragraph into tokens in the order of the text.
func (s *Setter) segment(text []rune, bold bool) []token {
	s.tokens = s.tokens[:0]
	rtl := firstStrong(text, s.rightToLeft)
	if !rtl && plain(text) {
		s.cut(text, 0, len(text), 0, bold)
		return s.tokens
	}
	direction := textbidi.LeftToRight
	if rtl {
		direction = textbidi.RightToLeft
	}
	runs, end := s.bidi.Segment(text, direction), 0
	for i := range runs.NumRuns() {
		r := runs.Run(i)
		s.cut(text, r.Start, r.End, int8(r.Level), bold)
		end = r.End
	}
	s.cut(text, end, len(text), 0, bold) // nothing, save after a paragraph separator
	return s.tokens
}

// cut makes tokens of a stretch in one direction.
func (s *Setter) cut(text []rune, start, end int, level int8, bold bool) {
	fonts := s.fonts.of(bold)
	script := firstScript(text[start:end])
	var open *token
	for i := start; i < end; i++ {
		c := text[i]
		space := c == ' '
		if own := scriptOfRune(c); own != language.Common {
			script = own
		}
		f := choose(fonts, c, open)
		if open != nil && open.space == space && (space || open.script == script && open.font == f) {
			open.end = i + 1
			continue
		}
		s.tokens = append(s.tokens, token{start: i, end: i + 1, level: level, space: space, script: script, font: f})
		open = &s.tokens[len(s.tokens)-1]
	}
}

// scriptOfRune is the script of c; Common when many scripts share it.
func scriptOfRune(c rune) language.Script {
	if c < 0x80 {
		if c|0x20 >= 'a' && c|0x20 <= 'z' {
			return language.Latin
		}
		return language.Common
	}
	if own := language.LookupScript(c); own.Strong() && own != language.Unknown {
		return own
	}
	return language.Common
}

// firstScript is what characters at the beginning belong to that have no script
// of their own.
func firstScript(text []rune) language.Script {
	for _, c := range text {
		if own := scriptOfRune(c); own != language.Common {
			return own
		}
	}
	return language.Latin
}

// choose finds the font of c. A mark, and what has no look of its own, stays
// with the character before it; so does a sign that the first font lacks when
// the font before has it.
func choose(fonts []*Font, c rune, open *token) *Font {
	if c < 0x80 && fonts[0].Has(c) {
		return fonts[0]
	}
	if open != nil && !open.space {
		if unicode.In(c, unicode.Cf, unicode.Variation_Selector) {
			return open.font
		}
		if unicode.Is(unicode.M, c) && open.font.Has(c) {
			return open.font
		}
		if !fonts[0].Has(c) && open.font.Has(c) {
			return open.font
		}
	}
	for _, f := range fonts {
		if f.Has(c) {
			return f
		}
	}
	if open != nil && !open.space {
		return open.font
	}
	return fonts[0]
}
