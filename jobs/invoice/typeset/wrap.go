package typeset

import "sort"

// wrap appends the lines of one paragraph.
func (s *Setter) wrap(lines []Line, text []rune, bold bool, width float64) []Line {
	s.segment(text, bold)
	if len(text) == 0 || !s.exceeds(text, 0, len(text), width) {
		return append(lines, s.line(text, 0, len(text)))
	}
	ends := s.opportunities(text)
	for start, at := 0, 0; start < len(text); {
		for at < len(ends) && ends[at] <= start {
			at++
		}
		end := s.fill(text, start, ends[at:], width)
		lines = append(lines, s.line(text, start, trimmed(text, start, end)))
		for start = end; start < len(text) && text[start] == ' '; start++ {
		}
	}
	return lines
}

// opportunities are the places at which a line may end.
func (s *Setter) opportunities(text []rune) []int {
	s.breaks.Init(text)
	var ends []int
	for it := s.breaks.LineIterator(); it.Next(); {
		l := it.Line()
		ends = append(ends, l.Offset+len(l.Text))
	}
	return ends
}

// fill is where the line from start ends: the last opportunity that fits, else
// within the word.
func (s *Setter) fill(text []rune, start int, ends []int, width float64) int {
	best := 0
	for _, end := range ends {
		if s.exceeds(text, start, trimmed(text, start, end), width) {
			break
		}
		best = end
	}
	if best > start {
		return best
	}
	limit := len(text)
	if len(ends) > 0 {
		limit = ends[0]
	}
	return s.cutWord(text, start, limit, width)
}

// exceeds reports whether text[start:end] is wider than width. Of a very long
// word it looks at the beginning first, and mostly needs no more.
func (s *Setter) exceeds(text []rune, start, end int, width float64) bool {
	const long = 256
	return end-start > long && s.width(text, start, start+long) > width || s.width(text, start, end) > width
}

// cutWord is the last end of a character as a reader sees it that still fits;
// the first one when none does. It looks no further into the word than a line
// reaches: words may be very long.
func (s *Setter) cutWord(text []rune, start, limit int, width float64) int {
	for reach := 128; ; reach *= 2 {
		stop := min(start+reach, limit)
		ends := s.characters(text, start, stop)
		if stop < limit && len(ends) > 1 {
			ends = ends[:len(ends)-1] // it may go on
		}
		fits := sort.Search(len(ends), func(i int) bool { return s.exceeds(text, start, ends[i], width) })
		if fits < len(ends) || stop == limit {
			return ends[max(fits-1, 0)]
		}
	}
}

// characters are the ends of the characters as a reader sees them.
func (s *Setter) characters(text []rune, start, stop int) []int {
	s.breaks.Init(text[start:stop])
	var ends []int
	for it := s.breaks.GraphemeIterator(); it.Next(); {
		g := it.Grapheme()
		ends = append(ends, start+g.Offset+len(g.Text))
	}
	return ends
}

// trimmed is the end of text[start:end] without the spaces at its end.
func trimmed(text []rune, start, end int) int {
	for end > start && text[end-1] == ' ' {
		end--
	}
	return end
}

// width is how wide text[start:end] is at font size 1.
func (s *Setter) width(text []rune, start, end int) float64 {
	sum := 0.0
	for i := s.tokenAt(start); i < len(s.tokens) && s.tokens[i].start < end; i++ {
		t := &s.tokens[i]
		sum += s.wordOf(text, t, start, end).width
	}
	return sum
}

// tokenAt is the first token that ends after a place.
func (s *Setter) tokenAt(place int) int {
	return sort.Search(len(s.tokens), func(i int) bool { return s.tokens[i].end > place })
}
