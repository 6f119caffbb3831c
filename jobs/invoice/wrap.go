package invoice

import "strings"

// wrap breaks text into lines no wider than width: at its line breaks, at
// spaces, and inside a word only when the word alone is too wide. Every
// character comes out, save the spaces at which a line was broken. A column
// narrower than one character still gets one per line.
func wrap(st style, text string, width float64) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		lines = wrapParagraph(lines, st, paragraph, width)
	}
	return lines
}

func wrapParagraph(lines []string, st style, text string, width float64) []string {
	space := st.width(" ")
	line, used, started := "", 0.0, false
	for word := range strings.SplitSeq(text, " ") {
		w := st.width(word)
		if started && used+space+w <= width {
			line, used = line+" "+word, used+space+w
			continue
		}
		if started {
			lines = append(lines, line)
		}
		for w > width {
			head, tail := splitWord(st, word, width)
			if tail == "" {
				break
			}
			lines = append(lines, head)
			word, w = tail, st.width(tail)
		}
		line, used, started = word, w, true
	}
	return append(lines, line)
}

// splitWord cuts a word after the last character that still fits.
func splitWord(st style, word string, width float64) (head, tail string) {
	used := 0.0
	for i, c := range word {
		used += st.width(string(c))
		if i > 0 && used > width {
			return word[:i], word[i:]
		}
	}
	return word, ""
}
