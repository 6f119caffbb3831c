package invoice

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxNamed bounds how many refused characters a message names.
const maxNamed = 8

// text reads one line of text of at most limit characters.
func (r *reader) text(path string, tok json.Token, limit int) string {
	return r.prose(path, tok, limit, 1)
}

// prose reads text that may go on over several lines. It comes out in Unicode
// normal form C with "\n" as the only line break; otherwise it is as given. The
// empty string is refused, and so is what no one would see on paper.
func (r *reader) prose(path string, tok json.Token, limit, maxLines int) string {
	given, ok := tok.(string)
	if !ok {
		r.refuse(path, tok, "text in quotes")
		return ""
	}
	text := norm.NFC.String(strings.ReplaceAll(given, "\r\n", "\n"))
	if n := utf8.RuneCountInString(text); n > limit {
		r.add(path, text, "has %d characters; at most %d are taken", n, limit)
		return ""
	}
	if strings.TrimSpace(text) == "" {
		r.add(path, given, "is empty; write some text or leave the field out")
		return ""
	}
	if n := strings.Count(text, "\n") + 1; n > maxLines {
		if maxLines == 1 {
			r.add(path, given, "must be a single line, without a line break")
		} else {
			r.add(path, given, "has %d lines; at most %d are taken", n, maxLines)
		}
		return ""
	}
	if complaint := unprintable(text); complaint != "" {
		r.add(path, given, "%s", complaint)
		return ""
	}
	return text
}

// unprintable says which characters of NFC text can never be put on a page as
// what they mean; "" when there are none. What no font has is another matter:
// it depends on the fonts and is found when the document is written.
func unprintable(text string) string {
	var bad, controls []rune
	for _, c := range text {
		switch {
		case c == '\n':
		case c == utf8.RuneError:
			return "holds U+FFFD, which stands for characters that were lost before; send the text again from its source"
		case unicode.IsControl(c) || c == 0x2028 || c == 0x2029:
			controls = appendNew(controls, c)
		case unicode.Is(unicode.Co, c) || unicode.Is(unicode.Noncharacter_Code_Point, c) || unicode.Is(unicode.Cf, c) && !steers(c):
			bad = appendNew(bad, c)
		}
	}
	if len(controls) > 0 {
		return "holds control characters, which cannot be printed: " + describe(controls)
	}
	if len(bad) > 0 {
		return "holds characters that have no look or may have any: " + describe(bad) + "; leave them out"
	}
	return ""
}

// steers is true of the invisible characters that text needs to look right:
// joiners, marks of direction and isolates. Overrides of direction are not among
// them: they can make an amount read backwards.
func steers(c rune) bool {
	return c >= 0x200B && c <= 0x200F || c == 0x061C || c == 0x2060 || c >= 0x2066 && c <= 0x2069
}

func appendNew(list []rune, c rune) []rune {
	for _, have := range list {
		if have == c {
			return list
		}
	}
	return append(list, c)
}

// describe names characters by code point, by themselves where they can be
// seen, and by their script.
func describe(list []rune) string {
	var b strings.Builder
	for i, c := range list {
		if i == maxNamed {
			fmt.Fprintf(&b, " and %d more", len(list)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "U+%04X", c)
		switch {
		case unicode.Is(unicode.M, c):
			b.WriteString(" (combining mark)")
		case unicode.Is(unicode.Cf, c):
			b.WriteString(" (invisible)")
		case unicode.IsGraphic(c) && !unicode.IsSpace(c):
			fmt.Fprintf(&b, " %c", c)
		}
		if s := script(c); s != "" {
			fmt.Fprintf(&b, " (%s)", s)
		}
	}
	return b.String()
}

// script is the Unicode script of c; "" for characters that many scripts share.
func script(c rune) string {
	for name, table := range unicode.Scripts {
		if name != "Common" && name != "Inherited" && unicode.Is(table, c) {
			return strings.ReplaceAll(name, "_", " ")
		}
	}
	return ""
}
