package csv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

var errAborted = errors.New("the file was given up")

// Classes of bytes in a field.
const (
	classQuote byte = 1 << iota // makes quotes necessary
	classHigh                   // part of a character outside ASCII
	classNUL
)

// style is how fields are told apart.
type style struct {
	delimiter byte
	eight     uint64 // the delimiter, eight times
	classes   [256]byte
}

// A byte that holds 1, or its highest bit, eight times.
const (
	ones  uint64 = 0x0101010101010101
	highs uint64 = 0x8080808080808080
)

func newStyle(delimiter byte) *style {
	s := &style{delimiter: delimiter, eight: ones * uint64(delimiter)}
	for c := 0x80; c < 256; c++ {
		s.classes[c] = classHigh
	}
	for _, c := range []byte{delimiter, '"', '\r', '\n'} {
		s.classes[c] = classQuote
	}
	s.classes[0] = classNUL
	return s
}

// appendField adds a value and tells which classes of bytes it holds.
func (s *style) appendField(dst, v []byte) ([]byte, byte) {
	if len(v) == 0 {
		return append(dst, '"', '"'), 0
	}
	seen := s.scan(v)
	if seen&classQuote == 0 && v[0] > ' ' && v[len(v)-1] > ' ' {
		return append(dst, v...), seen
	}
	return appendQuoted(dst, v), seen
}

// scan tells which classes of bytes are in v. Most fields have none, so it looks at
// eight bytes at once whether there is anything to look at.
func (s *style) scan(v []byte) (seen byte) {
	for len(v) >= 8 {
		if s.anyClass(binary.LittleEndian.Uint64(v)) {
			seen |= s.scanBytes(v[:8])
		}
		v = v[8:]
	}
	return seen | s.scanBytes(v)
}

func (s *style) scanBytes(v []byte) (seen byte) {
	for _, c := range v {
		seen |= s.classes[c]
	}
	return seen
}

// anyClass reports whether one of eight bytes has a class, or is another control
// character. See "Determine if a word has a byte less than n" and "equal to n" in
// Sean Eron Anderson's Bit Twiddling Hacks.
func (s *style) anyClass(w uint64) bool {
	control := (w - ones*' ') &^ w
	quote := w ^ ones*'"'
	quote = (quote - ones) &^ quote
	delimiter := w ^ s.eight
	delimiter = (delimiter - ones) &^ delimiter
	return (w|control|quote|delimiter)&highs != 0
}

func appendQuoted(dst, v []byte) []byte {
	dst = append(dst, '"')
	for {
		i := bytes.IndexByte(v, '"')
		if i < 0 {
			dst = append(dst, v...)
			return append(dst, '"')
		}
		dst = append(dst, v[:i+1]...)
		dst = append(dst, '"')
		v = v[i+1:]
	}
}

// appendJSON is appendField for compact JSON, which is full of quotes: it looks at
// every byte once.
func (s *style) appendJSON(dst, v []byte) []byte {
	start := len(dst)
	dst = slices.Grow(dst, 2*len(v)+2)
	room := dst[start : start+2*len(v)+2]
	room[0] = '"'
	n, seen := 1, byte(0)
	for _, c := range v {
		room[n], room[n+1] = c, '"'
		if n++; c == '"' {
			n++
		}
		seen |= s.classes[c]
	}
	if seen&classQuote == 0 {
		return append(dst, v...)
	}
	room[n] = '"'
	return dst[:start+n+1]
}
