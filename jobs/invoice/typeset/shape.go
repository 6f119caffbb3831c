package typeset

import (
	"unicode"
	"unicode/utf8"

	"github.com/go-text/typesetting/harfbuzz"
	"github.com/go-text/typesetting/language"
)

// Glyph is a glyph at its place; measures are in units of its font.
type Glyph struct {
	ID      uint16
	Cluster int32 // index of the first character that it stands for, within its run
	Advance int32
	XOffset int32
	YOffset int32
}

// word is a shaped token. It is shared between lines and never changes.
type word struct {
	text    []rune
	glyphs  []Glyph // from left to right
	width   float64 // at font size 1
	missing []rune  // characters without a glyph
}

// wordKind is what a word's look depends on beside its text.
type wordKind struct {
	font     *Font
	script   language.Script
	language language.Language
	rtl      bool
}

// maxWords bounds what a setter remembers: some megabytes.
const maxWords = 8192

// word shapes text[start:end], or remembers it.
func (s *Setter) word(text []rune, t token) *word {
	s.key = s.key[:0]
	for _, c := range text[t.start:t.end] {
		s.key = utf8.AppendRune(s.key, c)
	}
	kind := wordKind{t.font, t.script, s.language(t.script), t.level%2 == 1}
	if w, ok := s.words[kind][string(s.key)]; ok {
		return w
	}
	if s.count >= maxWords {
		clear(s.words)
		s.count = 0
	}
	if s.words[kind] == nil {
		s.words[kind] = make(map[string]*word)
	}
	w := s.shape(text[t.start:t.end], t)
	s.words[kind][string(s.key)] = w
	s.count++
	return w
}

func (s *Setter) shape(text []rune, t token) *word {
	hb := s.faces[t.font]
	if hb == nil {
		hb = t.font.newFace()
		s.faces[t.font] = hb
	}
	b := s.buffer
	b.Clear()
	b.Props = harfbuzz.SegmentProperties{Language: s.language(t.script), Script: t.script, Direction: harfbuzz.LeftToRight}
	if t.level%2 == 1 {
		b.Props.Direction = harfbuzz.RightToLeft
	}
	b.AddRunes(text, 0, len(text))
	b.Shape(hb, nil)
	w := &word{text: append([]rune(nil), text...), glyphs: make([]Glyph, len(b.Info))}
	sum := int32(0)
	for i, info := range b.Info {
		w.glyphs[i] = Glyph{ID: uint16(info.Glyph), Cluster: int32(info.Cluster),
			Advance: b.Pos[i].XAdvance, XOffset: b.Pos[i].XOffset, YOffset: b.Pos[i].YOffset}
		sum += b.Pos[i].XAdvance
	}
	w.width = float64(sum) / float64(t.font.UnitsPerEm)
	w.missing = lacking(w, t.level%2 == 1)
	return w
}

// language is what a run's words are taken to be: the setter's language where
// that is written in this script. It decides between forms of letters that one
// script has for several languages (OpenType, feature locl).
func (s *Setter) language(script language.Script) language.Language {
	if script == s.script {
		return s.lang
	}
	return "und"
}

// lacking are the characters of the clusters that hold glyph 0.
func lacking(w *word, rtl bool) []rune {
	var out []rune
	for i := 0; i < len(w.glyphs); {
		end, bad := i, false
		for ; end < len(w.glyphs) && w.glyphs[end].Cluster == w.glyphs[i].Cluster; end++ {
			bad = bad || w.glyphs[end].ID == 0
		}
		if bad {
			from, to := clusterBounds(w.glyphs, i, end, len(w.text), rtl)
			for _, c := range w.text[from:to] {
				if !unicode.Is(unicode.Cf, c) {
					out = append(out, c)
				}
			}
		}
		i = end
	}
	return out
}

// clusterBounds are the characters of the cluster that glyphs[i:end] show.
func clusterBounds(glyphs []Glyph, i, end, characters int, rtl bool) (from, to int) {
	from, to = int(glyphs[i].Cluster), characters
	switch {
	case rtl && i > 0:
		to = int(glyphs[i-1].Cluster)
	case !rtl && end < len(glyphs):
		to = int(glyphs[end].Cluster)
	}
	return from, to
}
