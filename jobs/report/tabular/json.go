package tabular

import (
	"bytes"
	"unicode/utf8"
)

// deepestJSON is how many arrays and objects AppendJSON follows into each other:
// as many as encoding/json, and more than PostgreSQL reads with its usual stack.
const deepestJSON = 10_000

// AppendJSON adds v without the white space between its tokens. All else stays
// byte for byte: digits, escapes, the order of keys, keys that come twice. It
// reports false, and adds nothing, when v is not JSON (RFC 8259, in UTF-8). Down to
// 64 levels it allocates nothing but room in dst.
func AppendJSON(dst, v []byte) ([]byte, bool) {
	c := compactor{v: v, dst: dst}
	if !c.value() || !utf8.Valid(v) {
		return dst, false
	}
	return append(c.dst, v[c.kept:]...), true
}

// compactor reads tokens of v and adds what lies between white space to dst, a
// run at a time.
type compactor struct {
	v, dst []byte
	at     int
	kept   int // v[kept:at] is still to be added
	depth  int
	levels uint64   // a bit for each of the innermost levels, the last one lowest: it is an object
	outer  []uint64 // levels as they were at each multiple of 64
}

// value reads one value and the end of v, without recursion.
func (c *compactor) value() bool {
	for {
		c.space()
		if c.at == len(c.v) {
			return false
		}
		switch c.v[c.at] {
		case '{', '[':
			opened, ok := c.open()
			if !ok {
				return false
			}
			if opened {
				continue
			}
		default:
			if !c.scalar() {
				return false
			}
		}
		if done, ok := c.closeOrNext(); done || !ok {
			return ok && c.at == len(c.v)
		}
	}
}

// open begins an array or object. It reports false when that is empty and so
// over already.
func (c *compactor) open() (opened, ok bool) {
	if c.depth == deepestJSON {
		return false, false
	}
	object := c.v[c.at] == '{'
	c.at++
	c.space()
	if c.at == len(c.v) {
		return false, false
	}
	if c.v[c.at] == ']' && !object || c.v[c.at] == '}' && object {
		c.at++
		return false, true
	}
	c.push(object)
	return true, !object || c.key()
}

func (c *compactor) push(object bool) {
	if c.depth > 0 && c.depth%64 == 0 {
		c.outer = append(c.outer, c.levels)
	}
	c.depth++
	c.levels <<= 1
	if object {
		c.levels |= 1
	}
}

func (c *compactor) pop() {
	c.depth--
	c.levels >>= 1
	if c.depth > 0 && c.depth%64 == 0 {
		last := len(c.outer) - 1
		c.levels, c.outer = c.outer[last], c.outer[:last]
	}
}

func (c *compactor) inObject() bool { return c.levels&1 != 0 }

// key reads a member's name and colon.
func (c *compactor) key() bool {
	c.space()
	if !c.string() {
		return false
	}
	c.space()
	if c.at == len(c.v) || c.v[c.at] != ':' {
		return false
	}
	c.at++
	return true
}

// closeOrNext goes on behind a value: through all brackets that end there to a
// comma, or to the end of the text.
func (c *compactor) closeOrNext() (done, ok bool) {
	for {
		c.space()
		if c.depth == 0 {
			return true, true
		}
		if c.at == len(c.v) {
			return false, false
		}
		object := c.inObject()
		switch b := c.v[c.at]; {
		case b == ',':
			c.at++
			return false, !object || c.key()
		case b == '}' && object, b == ']' && !object:
			c.at++
			c.pop()
		default:
			return false, false
		}
	}
}

// space leaves white space out.
func (c *compactor) space() {
	if c.at < len(c.v) && c.v[c.at] <= ' ' {
		c.skip()
	}
}

func (c *compactor) skip() {
	c.dst = append(c.dst, c.v[c.kept:c.at]...)
	for c.at < len(c.v) && (c.v[c.at] == ' ' || c.v[c.at] == '\n' || c.v[c.at] == '\t' || c.v[c.at] == '\r') {
		c.at++
	}
	c.kept = c.at
}

func (c *compactor) scalar() bool {
	switch c.v[c.at] {
	case '"':
		return c.string()
	case 't':
		return c.word("true")
	case 'f':
		return c.word("false")
	case 'n':
		return c.word("null")
	}
	n := jsonNumber(c.v[c.at:])
	c.at += n
	return n > 0
}

func (c *compactor) word(w string) bool {
	if len(c.v)-c.at < len(w) || string(c.v[c.at:c.at+len(w)]) != w {
		return false
	}
	c.at += len(w)
	return true
}

func (c *compactor) string() bool {
	n := jsonString(c.v[c.at:])
	c.at += n
	return n > 0
}

// jsonString is the length of the string at the start of v, quotes included, or
// 0 when there is none.
func jsonString(v []byte) int {
	if len(v) == 0 || v[0] != '"' {
		return 0
	}
	for i := 1; i < len(v); i++ {
		b := v[i]
		if !escapes[b] {
			continue
		}
		switch {
		case b == '"':
			return i + 1
		case b < ' ':
			return 0
		}
		i++ // a backslash
		if i == len(v) || !jsonEscape(v[i:]) {
			return 0
		}
	}
	return 0
}

// jsonEscape looks at what follows a backslash.
func jsonEscape(v []byte) bool {
	switch v[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		if len(v) < 5 {
			return false
		}
		for _, b := range v[1:5] {
			if !isDigit(b) && (b|0x20 < 'a' || b|0x20 > 'f') {
				return false
			}
		}
		return true
	}
	return false
}

// jsonNumber is the length of the number at the start of v, or 0.
func jsonNumber(v []byte) int {
	n := 0
	if n < len(v) && v[n] == '-' {
		n++
	}
	whole := digits(v[n:])
	if whole == 0 || whole > 1 && v[n] == '0' {
		return 0
	}
	n += whole
	if n < len(v) && v[n] == '.' {
		fraction := digits(v[n+1:])
		if fraction == 0 {
			return 0
		}
		n += 1 + fraction
	}
	if n < len(v) && v[n]|0x20 == 'e' {
		n++
		if n < len(v) && (v[n] == '+' || v[n] == '-') {
			n++
		}
		exponent := digits(v[n:])
		if exponent == 0 {
			return 0
		}
		n += exponent
	}
	return n
}

// digits is how many v begins with.
func digits(v []byte) int {
	for i, c := range v {
		if !isDigit(c) {
			return i
		}
	}
	return len(v)
}

// AppendJSONNumber adds a number of PostgreSQL (integer, numeric, float) with
// exactly its digits; NaN, Infinity and -Infinity become strings, because JSON
// has no such numbers. It reports false, and adds nothing, for all else.
func AppendJSONNumber(dst, v []byte) ([]byte, bool) {
	if len(v) > 0 && jsonNumber(v) == len(v) {
		return append(dst, v...), true
	}
	if IsNoNumber(v) {
		dst = append(dst, '"')
		dst = append(dst, v...)
		return append(dst, '"'), true
	}
	return dst, false
}

// IsNoNumber reports whether v is one of the values of numeric and float columns
// that have no digits: NaN, Infinity, -Infinity.
func IsNoNumber(v []byte) bool {
	switch string(v) {
	case "NaN", "Infinity", "-Infinity":
		return true
	}
	return false
}

// AppendJSONString adds v as a JSON string: in quotes, with quotes, backslashes
// and control characters escaped. v must be UTF-8: other bytes are taken over as
// they are and would make the text no JSON.
func AppendJSONString(dst, v []byte) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, v)
	return append(dst, '"')
}

// escapes marks the bytes that a JSON string cannot hold.
var escapes = func() (table [256]bool) {
	for c := range ' ' {
		table[c] = true
	}
	table['"'], table['\\'] = true, true
	return table
}()

func appendEscaped(dst, v []byte) []byte {
	const hex = "0123456789abcdef"
	start := 0
	for i, c := range v {
		if !escapes[c] {
			continue
		}
		dst = append(dst, v[start:i]...)
		start = i + 1
		if short := bytes.IndexByte([]byte("\b\f\n\r\t"), c); short >= 0 {
			dst = append(dst, '\\', "bfnrt"[short])
		} else if c < ' ' {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			dst = append(dst, '\\', c)
		}
	}
	return append(dst, v[start:]...)
}
