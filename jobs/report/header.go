package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// headerKey is a key of a front matter.
type headerKey struct {
	name string
	many bool // may be given again
	set  func(h *header, line int, value string)
}

// headerKeys are the keys in the order in which messages name them.
func headerKeys() []headerKey {
	return []headerKey{
		{"title", false, func(h *header, _ int, v string) { h.def.Title = v }},
		{"description", false, func(h *header, _ int, v string) { h.def.Description = v }},
		{"filename", false, (*header).filename},
		{"param", true, (*header).param},
		{"column", true, (*header).column},
		{"format", false, (*header).format},
		{"preset", false, (*header).preset},
		{"locale", false, (*header).locale},
		{"zone", false, (*header).zone},
		{"strict", false, (*header).strict},
		{"tenant", false, (*header).tenant},
		{"source", false, (*header).source},
		{"series", false, (*header).series},
		{"max_rows", false, (*header).maxRows},
		{"timeout", false, (*header).timeout},
	}
}

func headerKeyNames() []string {
	var names []string
	for _, k := range headerKeys() {
		names = append(names, k.name)
	}
	return names
}

func findHeaderKey(name string) (headerKey, bool) {
	keys := headerKeys()
	i := slices.IndexFunc(keys, func(k headerKey) bool { return k.name == name })
	if i < 0 {
		return headerKey{}, false
	}
	return keys[i], true
}

var (
	headerLine = regexp.MustCompile(`^([A-Za-z][A-Za-z_-]*)\s*:\s*(.*)$`)
	paramName  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
)

// header reads a front matter into a definition, whose lines it fills.
type header struct {
	def  *Definition
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
	h.checkTenant()
	return pos
}

func (h *header) line(line int, text string) {
	m := headerLine.FindStringSubmatch(text)
	if m == nil {
		h.fail(line, fmt.Sprintf("%q is not \"key: value\": prose goes below the front matter, after a blank line", text))
		return
	}
	name, value := m[1], m[2]
	key, known := findHeaderKey(name)
	if !known {
		names := headerKeyNames()
		h.fail(line, fmt.Sprintf("unknown key %q: the keys are %s%s", name, strings.Join(names, ", "), DidYouMean(name, names)))
		return
	}
	if first := h.def.lines[name]; first != 0 && !key.many {
		h.fail(line, fmt.Sprintf("%s is already given in line %d", name, first))
		return
	}
	h.def.lines[name] = line
	switch {
	case value == "":
		h.fail(line, name+" has no value")
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		h.fail(line, fmt.Sprintf("%s: %q holds a control character", name, value))
	default:
		key.set(h, line, value)
	}
}

func (h *header) filename(line int, value string) {
	// What not every file system holds would be refused by the job, too late.
	if strings.ContainsAny(value, "\t/\\:*?\"<>|") || strings.HasPrefix(value, ".") || len(value) > 100 {
		h.fail(line, fmt.Sprintf(`filename %q: give at most 100 bytes without any of / \ : * ? " < > | and a dot in front; the ending is added`, value))
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

func (h *header) column(line int, value string) {
	c, err := parseColumn(value)
	if err != nil {
		h.fail(line, err.Error())
		if c.Name == "" {
			return
		}
	}
	c.line = line
	if i := slices.IndexFunc(h.def.Columns, func(o ColumnSpec) bool { return o.Name == c.Name }); i >= 0 {
		h.fail(line, fmt.Sprintf("column %s is already declared in line %d", c.Name, h.def.Columns[i].line))
		return
	}
	h.def.Columns = append(h.def.Columns, c)
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
		if m != nil && slices.Contains(headerKeyNames(), m[1]) {
			h.fail(line, m[1]+" stands behind the front matter, which ends at the first blank line: move it up")
		}
		line++
	}
}
