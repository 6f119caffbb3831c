package xlsx

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// maxSheetName is in UTF-16 units.
const maxSheetName = 31

// sheetTitle is a report's title as the name of a sheet, by Excel's rules: at most
// 31 UTF-16 units, none of []:*?/\ and no control characters, no apostrophe at
// either end, not empty, and not History, which Excel keeps for itself.
func sheetTitle(title string) string {
	name := strings.Map(func(r rune) rune {
		switch r {
		case '[':
			return '('
		case ']':
			return ')'
		case ':', '*', '?', '/', '\\':
			return '-'
		case 0xFFFE, 0xFFFF: // XML has no place for them
			return unicode.ReplacementChar
		}
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, title)
	name = trimName(shorten(trimName(name), maxSheetName))
	switch {
	case name == "":
		return "Data"
	case strings.EqualFold(name, "History"):
		return name + " -"
	}
	return name
}

func trimName(name string) string {
	return strings.TrimFunc(name, func(r rune) bool { return r == '\'' || unicode.IsSpace(r) })
}

// shorten keeps whole characters that have at most so many UTF-16 units.
func shorten(s string, units int) string {
	for i, r := range s {
		if units -= utf16.RuneLen(r); units < 0 {
			return s[:i]
		}
	}
	return s
}

// sheetName is the name of the n-th sheet, from 1: Data, Data (2), Data (3) …
// Names must differ by more than case. Only the title can be like another, when
// it is nearly as long as can be and ends in a number itself.
func sheetName(title string, n int) string {
	if n == 1 {
		return title
	}
	suffix := fmt.Sprintf(" (%d)", n)
	room := maxSheetName - len(suffix)
	name := trimName(shorten(title, room)) + suffix
	if strings.EqualFold(name, title) {
		name = trimName(shorten(title, room-2)) + suffix
	}
	return name
}
