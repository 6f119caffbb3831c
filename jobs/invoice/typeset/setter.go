package typeset

import (
	"strings"

	textbidi "github.com/go-text/typesetting/bidi"
	"github.com/go-text/typesetting/font"
	"github.com/go-text/typesetting/harfbuzz"
	"github.com/go-text/typesetting/language"
	"github.com/go-text/typesetting/segmenter"
)

// Setter sets text in one choice of fonts. It has one owner at a time. Its
// memory is bounded: it may be kept for any number of documents.
type Setter struct {
	fonts       *Fonts
	lang        language.Language
	script      language.Script // of lang
	rightToLeft bool            // of text without a direction of its own

	bidi   textbidi.Paragraph
	breaks segmenter.Segmenter
	buffer *harfbuzz.Buffer
	faces  map[*Font]*harfbuzz.Font
	words  map[wordKind]map[string]*word
	count  int // of words
	tokens []token
	key    []byte
}

// NewSetter makes a setter, for English text at first.
func NewSetter(fonts *Fonts) *Setter {
	s := &Setter{
		fonts: fonts, buffer: harfbuzz.NewBuffer(), faces: make(map[*Font]*harfbuzz.Font), words: make(map[wordKind]map[string]*word),
	}
	s.SetLanguage("en")
	return s
}

// SetLanguage says, by BCP 47 tag, which language text is mostly in. It decides
// the form of letters that several languages share, and the direction of text
// that has none of its own.
func (s *Setter) SetLanguage(tag string) {
	s.lang = language.NewLanguage(tag)
	s.script = scriptOf(string(s.lang.Primary()))
	s.rightToLeft = s.script == language.Arabic || s.script == language.Hebrew
}

// scriptOf is the script that a language is usually written in (CLDR, likely
// subtags), as far as it is not Latin and letters depend on the language.
func scriptOf(lang string) language.Script {
	switch lang {
	case "ar", "fa", "ur", "ps", "sd", "ug", "ckb":
		return language.Arabic
	case "he", "yi":
		return language.Hebrew
	case "bn", "as", "mni":
		return language.Bengali
	case "hi", "mr", "ne", "sa", "kok", "mai":
		return language.Devanagari
	case "ru", "uk", "bg", "sr", "mk", "be":
		return language.Cyrillic
	case "el":
		return language.Greek
	case "ja", "zh", "ko":
		return language.Han
	}
	return language.Latin
}

func (f *Font) newFace() *harfbuzz.Font { return harfbuzz.NewFont(font.NewFace(f.shape)) }

// Run is a stretch of a line in one font and direction.
type Run struct {
	Font   *Font
	RTL    bool
	Text   []rune  // as it is read
	Glyphs []Glyph // from left to right
}

// Cluster is the end of the glyphs that stand for the same characters as glyph i
// does, and these characters, Text[from:to].
func (r *Run) Cluster(i int) (end, from, to int) {
	end = i + 1
	for end < len(r.Glyphs) && r.Glyphs[end].Cluster == r.Glyphs[i].Cluster {
		end++
	}
	from, to = clusterBounds(r.Glyphs, i, end, len(r.Text), r.RTL)
	return end, from, to
}

// Line is text on one line. It is read only; its runs may be shared with other
// lines. The zero Line is empty.
type Line struct {
	Width   float64 // at font size 1
	Runs    []Run   // from left to right
	Missing []rune  // characters that no font has, in the order of the text
}

// Line sets text on one line, however wide it becomes.
func (s *Setter) Line(text string, bold bool) Line {
	runes := []rune(text)
	s.segment(runes, bold)
	return s.line(runes, 0, len(runes))
}

// Wrap breaks text into lines no wider than width at font size 1: at its line
// breaks, where UAX 14 allows it, and within a word only when the word alone is
// too wide; then between two characters as a reader sees them (UAX 29). Every
// character comes out, save the spaces at which a line was broken. A width
// below one character still gets one per line.
func (s *Setter) Wrap(text string, bold bool, width float64) []Line {
	var lines []Line
	for paragraph := range strings.SplitSeq(text, "\n") {
		lines = s.wrap(lines, []rune(paragraph), bold, width)
	}
	return lines
}

// line sets text[start:end] of the segmented paragraph.
func (s *Setter) line(text []rune, start, end int) Line {
	var l Line
	first := s.tokenAt(start)
	last := first
	for last < len(s.tokens) && s.tokens[last].start < end {
		last++
	}
	l.Runs = make([]Run, 0, last-first)
	levels := make([]int8, 0, last-first)
	for i := first; i < last; i++ {
		t := &s.tokens[i]
		w := s.wordOf(text, t, start, end)
		l.Width += w.width
		l.Missing = append(l.Missing, w.missing...)
		l.Runs = append(l.Runs, Run{Font: t.font, RTL: t.level%2 == 1, Text: w.text, Glyphs: w.glyphs})
		levels = append(levels, t.level)
	}
	reorder(l.Runs, levels)
	return l
}

// wordOf is the shaped part of a token between two places.
func (s *Setter) wordOf(text []rune, t *token, start, end int) *word {
	if t.start >= start && t.end <= end {
		if t.word == nil {
			t.word = s.word(text, *t)
		}
		return t.word
	}
	part := *t
	part.start, part.end = max(t.start, start), min(t.end, end)
	return s.word(text, part)
}

// reorder puts runs in the order of the eye (UAX 9, L2).
func reorder(runs []Run, levels []int8) {
	highest := int8(0)
	for _, l := range levels {
		highest = max(highest, l)
	}
	for level := highest; level > 0; level-- {
		for i := 0; i < len(runs); i++ {
			if levels[i] < level {
				continue
			}
			end := i
			for end < len(runs) && levels[end] >= level {
				end++
			}
			for a, b := i, end-1; a < b; a, b = a+1, b-1 {
				runs[a], runs[b] = runs[b], runs[a]
				levels[a], levels[b] = levels[b], levels[a]
			}
			i = end
		}
	}
}
