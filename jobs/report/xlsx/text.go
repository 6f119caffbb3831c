package xlsx

import (
	"encoding/binary"
	"unicode"
	"unicode/utf8"
)

// special marks the bytes that text in a cell cannot have as they are, or that
// must be looked at: control characters, & < >, the underscore of an escape, and
// the first byte of U+FFFE and U+FFFF.
var special = func() (table [256]bool) {
	for c := range ' ' {
		table[c] = c != '\t' && c != '\n'
	}
	for _, c := range []byte{'&', '<', '>', '_', 0xEF} {
		table[c] = true
	}
	return table
}()

// isPlain reports whether v is ASCII without special bytes, as most text is. It
// looks at eight bytes at a time, and may say no about text that is plain.
func isPlain(v []byte) bool {
	for len(v) >= 8 {
		if !arePlain(binary.LittleEndian.Uint64(v)) {
			return false
		}
		v = v[8:]
	}
	for _, c := range v {
		if c >= utf8.RuneSelf || special[c] {
			return false
		}
	}
	return true
}

// arePlain looks for what is no plain text: a subtraction sets the highest bit of
// a byte that is smaller, which ASCII does not have.
func arePlain(eight uint64) bool {
	const each = 0x0101010101010101
	control := eight - ' '*each
	ampersand := eight ^ '&'*each
	angle := (eight | 2*each) ^ '>'*each // < and > differ in one bit
	underscore := eight ^ '_'*each
	return (eight|control|(ampersand-each)|(angle-each)|(underscore-each))&(0x80*each) == 0
}

// appendText adds UTF-8 as the content of an element, and reports whether there
// were characters that XML 1.0 (2.2, Char) cannot hold.
func appendText(dst, v []byte) (out []byte, replaced bool) {
	start := 0
	for i := 0; i < len(v); i++ {
		if !special[v[i]] {
			continue
		}
		as, size := substitute(v[i:])
		if size == 0 {
			continue
		}
		dst = append(dst, v[start:i]...)
		dst = append(dst, as...)
		replaced = replaced || as == "\uFFFD"
		i += size - 1
		start = i + 1
	}
	return append(dst, v[start:]...), replaced
}

// substitute is what stands for the first size bytes of v; a size of 0 leaves
// them as they are.
func substitute(v []byte) (as string, size int) {
	switch v[0] {
	case '&':
		return "&amp;", 1
	case '<':
		return "&lt;", 1
	case '>':
		return "&gt;", 1
	case '\r':
		return "&#13;", 1
	case '_':
		if isEscape(v) {
			return "_x005F_", 1
		}
		return "", 0
	case 0xEF:
		if len(v) >= 3 && v[1] == 0xBF && v[2] >= 0xBE {
			return "\uFFFD", 3
		}
		return "", 0
	}
	return "\uFFFD", 1
}

// isEscape reports whether v begins with what Excel would read as one character
// (ECMA-376 part 1, 22.9.2.19): _x, four hexadecimal digits, and _.
func isEscape(v []byte) bool {
	if len(v) < 7 || v[1] != 'x' || v[6] != '_' {
		return false
	}
	for _, c := range v[2:6] {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return true
}

// isSpaced reports whether XML readers may take white space off the ends of v.
func isSpaced(v []byte) bool { return v[0] <= ' ' || v[len(v)-1] <= ' ' }

// cut is the part of some UTF-8 that a cell can hold: at most maxUnits UTF-16
// units, whole characters only.
func cut(v []byte) []byte {
	if len(v) <= maxUnits {
		return v // no character has more units than bytes
	}
	units := 0
	for i := 0; i < len(v); {
		r, n := utf8.DecodeRune(v[i:])
		units++
		if r > 0xFFFF {
			units++
		}
		if units > maxUnits {
			return v[:wholeEnd(v, i)]
		}
		i += n
	}
	return v
}

// longestCluster bounds how far wholeEnd goes back, in runes.
const longestCluster = 32

// wholeEnd goes back from at to where what a reader takes for one character
// begins, so that no accent, vowel sign or joined emoji loses its base. It stays
// where it is when that is further away than characters are long.
func wholeEnd(v []byte, at int) int {
	end := at
	for range longestCluster {
		next, _ := utf8.DecodeRune(v[end:])
		before, n := utf8.DecodeLastRune(v[:end])
		if end == 0 || !extends(next) && before != zeroWidthJoiner && (next != '\n' || before != '\r') {
			return end
		}
		end -= n
	}
	return at
}

const zeroWidthJoiner = '\u200D'

// extends reports whether a rune belongs to what is in front of it: marks,
// joiners, variation selectors (they are marks), skin tones.
func extends(r rune) bool {
	return unicode.Is(unicode.M, r) || r == zeroWidthJoiner || r == '\u200C' || r >= 0x1F3FB && r <= 0x1F3FF
}
