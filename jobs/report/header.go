package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// headerKeys are the keys of a front matter.
var headerKeys = []string{"title", "description", "param", "filename"}

var (
	headerLine = regexp.MustCompile(`^([A-Za-z][A-Za-z_-]*)\s*:\s*(.*)$`)
	paramName  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
)

// header reads a front matter into a definition.
type header struct {
	def  *Definition
	seen map[string]int // key to its line
	fail func(line int, message string)
}

// read takes the first block of -- lines and returns the offset behind it.
func (h *header) read(src string) int {
	start := skip(src, 0, isSpace)
	pos, line := start, 1+strings.Count(src[:start], "\n")
	for strings.HasPrefix(src[pos:], "--") {
		text, _, more := strings.Cut(src[pos:], "\n")
		pos += len(text)
		if more {
			pos++
		}
		if text = strings.TrimSpace(text); strings.Trim(text, "-=* ") != "" {
			h.line(line, strings.TrimSpace(text[2:]))
		}
		line++
	}
	h.strays(src[pos:], line)
	return pos
}

func (h *header) line(line int, text string) {
	m := headerLine.FindStringSubmatch(text)
	if m == nil {
		h.fail(line, fmt.Sprintf("%q is not \"key: value\": prose goes below the front matter, after a blank line", text))
		return
	}
	key, value := m[1], m[2]
	if !slices.Contains(headerKeys, key) {
		h.fail(line, fmt.Sprintf("unknown key %q: the keys are %s%s", key, strings.Join(headerKeys, ", "), didYouMean(key, headerKeys)))
		return
	}
	if first := h.seen[key]; first != 0 && key != "param" {
		h.fail(line, fmt.Sprintf("%s is already given in line %d", key, first))
		return
	}
	h.seen[key] = line
	h.set(line, key, value)
}

func (h *header) set(line int, key, value string) {
	switch {
	case value == "":
		h.fail(line, key+" has no value")
		return
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		h.fail(line, fmt.Sprintf("%s: %q holds a control character", key, value))
		return
	}
	switch key {
	case "title":
		h.def.Title = value
	case "description":
		h.def.Description = value
	case "filename":
		h.filename(line, value)
	case "param":
		h.param(line, value)
	}
}

func (h *header) filename(line int, value string) {
	if strings.ContainsAny(value, "/\\\t") || strings.HasPrefix(value, ".") || len(value) > 100 {
		h.fail(line, fmt.Sprintf("filename %q: give at most 100 bytes without /, \\ and a dot in front; the ending is added", value))
		return
	}
	h.def.Filename = value
}

func (h *header) param(line int, value string) {
	p, err := parseParam(value)
	if err != nil {
		h.fail(line, err.Error())
		if p.Name == "" {
			return
		}
	}
	p.line = line
	if i := slices.IndexFunc(h.def.Params, func(q Param) bool { return q.Name == p.Name }); i >= 0 {
		h.fail(line, fmt.Sprintf("param %s is already declared in line %d", p.Name, h.def.Params[i].line))
		return
	}
	h.def.Params = append(h.def.Params, p)
}

// strays finds keys that a blank line cut off: as comments they would be lost
// without a word.
func (h *header) strays(rest string, line int) {
	for text := range strings.Lines(rest) {
		text = strings.TrimSpace(text)
		if text != "" && !strings.HasPrefix(text, "--") {
			return
		}
		m := headerLine.FindStringSubmatch(strings.TrimSpace(strings.TrimPrefix(text, "--")))
		if m != nil && slices.Contains(headerKeys, m[1]) {
			h.fail(line, m[1]+" stands behind the front matter, which ends at the first blank line: move it up")
		}
		line++
	}
}
