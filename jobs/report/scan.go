package report

import "strings"

type tokenKind uint8

const (
	tokenSpace       tokenKind = iota
	tokenComment               // -- to the end of the line, /* nested */
	tokenWord                  // keyword or bare identifier
	tokenIdentifier            // "quoted"
	tokenString                // '…', E'…', $tag$…$tag$
	tokenNumber                // digits and what sticks to them
	tokenPlaceholder           // :name
	tokenPosition              // $1
	tokenSymbol                // everything else, :: as one
)

// String names the kinds that can be left open.
func (k tokenKind) String() string {
	switch k {
	case tokenComment:
		return "comment"
	case tokenIdentifier:
		return "quoted name"
	case tokenString:
		return "string"
	}
	return "text"
}

// token is a run of bytes of the source. The tokens of a source, put together,
// are the source.
type token struct {
	kind       tokenKind
	start, end int
	depth      int // brackets around it; a bracket itself counts as outside
}

func (t token) text(src string) string { return src[t.start:t.end] }

// is reports whether the token is this keyword, in any case.
func (t token) is(src, keyword string) bool {
	return t.kind == tokenWord && strings.EqualFold(t.text(src), keyword)
}

func (t token) isSymbol(src, symbol string) bool {
	return t.kind == tokenSymbol && t.text(src) == symbol
}

func (t token) significant() bool { return t.kind != tokenSpace && t.kind != tokenComment }

// scan splits SQL by the lexical rules of PostgreSQL ("SQL Syntax, Lexical
// Structure", with standard_conforming_strings on, its default).
func scan(src string, fail func(pos int, message string)) []token {
	var tokens []token
	for pos := 0; pos < len(src); {
		kind, end := next(src, pos)
		if end < 0 {
			fail(pos, "the "+kind.String()+" that begins here is never closed")
			end = len(src)
		}
		tokens = append(tokens, token{kind: kind, start: pos, end: end})
		pos = end
	}
	return tokens
}

// next is the token at i; its end is -1 when it is never closed.
func next(src string, i int) (tokenKind, int) {
	rest, c := src[i:], src[i]
	switch {
	case isSpace(c):
		return tokenSpace, skip(src, i, isSpace)
	case strings.HasPrefix(rest, "--"):
		return tokenComment, skip(src, i, func(c byte) bool { return c != '\n' && c != '\r' })
	case strings.HasPrefix(rest, "/*"):
		return tokenComment, blockEnd(src, i)
	case c == '\'':
		return tokenString, quoteEnd(src, i, false)
	case c == '"':
		return tokenIdentifier, quoteEnd(src, i, false)
	case c == '$':
		return dollar(src, i)
	case c == ':':
		return colon(src, i)
	case isDigit(c):
		return tokenNumber, skip(src, i, func(c byte) bool { return isWord(c) || c == '.' })
	case isWordStart(c):
		return word(src, i)
	}
	return tokenSymbol, i + 1
}

func word(src string, i int) (tokenKind, int) {
	end := skip(src, i, func(c byte) bool { return isWord(c) || c == '$' })
	escapes := end == i+1 && src[i]|0x20 == 'e'
	if escapes && end < len(src) && src[end] == '\'' {
		return tokenString, escapeEnd(src, end)
	}
	return tokenWord, end
}

func colon(src string, i int) (tokenKind, int) {
	switch {
	case i+1 == len(src):
		return tokenSymbol, i + 1
	case src[i+1] == ':':
		return tokenSymbol, i + 2
	case isWordStart(src[i+1]):
		return tokenPlaceholder, skip(src, i+1, isWord)
	}
	return tokenSymbol, i + 1
}

func dollar(src string, i int) (tokenKind, int) {
	end := skip(src, i+1, isWord)
	switch {
	case end > i+1 && isDigit(src[i+1]):
		return tokenPosition, skip(src, i+1, isDigit)
	case end == len(src) || src[end] != '$':
		return tokenSymbol, i + 1
	}
	tag := src[i : end+1]
	body := strings.Index(src[end+1:], tag)
	if body < 0 {
		return tokenString, -1
	}
	return tokenString, end + 1 + body + len(tag)
}

// quoteEnd is the place after the quote that closes the one at i.
func quoteEnd(src string, i int, escapes bool) int {
	quote := src[i]
	for i++; i < len(src); i++ {
		switch {
		case escapes && src[i] == '\\':
			i++
		case src[i] != quote:
		case i+1 < len(src) && src[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return -1
}

// escapeEnd follows an E'…' string. Strings that only white space with a line
// break separates are one string, so that the next part has escapes as well.
func escapeEnd(src string, i int) int {
	for {
		end := quoteEnd(src, i, true)
		if end < 0 {
			return -1
		}
		i = end
		for i < len(src) && (isSpace(src[i]) || strings.HasPrefix(src[i:], "--")) {
			_, i = next(src, i)
		}
		if i == len(src) || src[i] != '\'' || !strings.ContainsAny(src[end:i], "\r\n") {
			return end
		}
	}
}

func blockEnd(src string, i int) int {
	for depth := 0; i+1 < len(src); {
		switch src[i : i+2] {
		case "/*":
			depth++
			i += 2
		case "*/":
			depth--
			i += 2
		default:
			i++
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}

func skip(src string, i int, in func(byte) bool) int {
	for i < len(src) && in(src[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool {
	return c == ' ' || '\t' <= c && c <= '\r'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWordStart takes every byte of a character outside ASCII for a letter, as
// PostgreSQL does.
func isWordStart(c byte) bool {
	return c == '_' || c >= 0x80 || 'a' <= c|0x20 && c|0x20 <= 'z'
}

func isWord(c byte) bool { return isWordStart(c) || isDigit(c) }
