package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxList bounds the value of a list, in bytes.
const maxList = 100_000

// elem is one member of a list as a parameter of its own.
func (p *Param) elem() *Param { return &Param{Type: p.Elem, Values: p.Values} }

// canonicalList is the list with each member in its one spelling: separated by
// commas where that reads back as the same, else as JSON.
func (p *Param) canonicalList(value string) (canonical, problem string) {
	if len(value) > maxList {
		return "", fmt.Sprintf("is longer than %d bytes", maxList)
	}
	members, problem := splitList(value)
	if problem != "" {
		return "", problem
	}
	elem := p.elem()
	for i, member := range members {
		spelled, problem := elem.canonical(member)
		if problem != "" {
			return "", fmt.Sprintf("holds %q, which %s", member[:min(len(member), 80)], problem)
		}
		members[i] = spelled
	}
	return joinList(members), ""
}

// splitList reads members separated by commas, with or without spaces around
// them, or a JSON array of strings, numbers and booleans.
func splitList(value string) (members []string, problem string) {
	value = strings.TrimSpace(value)
	switch {
	case !utf8.ValidString(value):
		return nil, "is not UTF-8 text"
	case value == "":
		return nil, ""
	case value[0] == '[':
		return splitJSON(value)
	}
	for member := range strings.SplitSeq(value, ",") {
		members = append(members, strings.TrimSpace(member))
	}
	return members, ""
}

func splitJSON(value string) (members []string, problem string) {
	const want = `is no JSON array of texts, numbers or booleans, as in ["a","b"]`
	var raw []json.RawMessage
	if json.Unmarshal([]byte(value), &raw) != nil {
		return nil, want
	}
	for _, r := range raw {
		member := string(r)
		switch r[0] {
		case '"':
			text, ok := JSONText(r)
			if !ok {
				return nil, want
			}
			member = text
		case '[', '{', 'n':
			return nil, want
		}
		members = append(members, member)
	}
	return members, ""
}

// JSONText is the text of a JSON string. It is false for what encoding/json would
// replace with U+FFFD without a word: half a surrogate pair, and bytes that are
// no UTF-8.
func JSONText(raw []byte) (string, bool) {
	var text string
	if !utf8.Valid(raw) || json.Unmarshal(raw, &text) != nil {
		return "", false
	}
	return text, strings.Count(text, "\ufffd") == Replacements(raw)
}

// Replacements is how often a JSON text has the character U+FFFD, as itself or
// escaped. A decoded text that has more of them is not what was sent.
func Replacements(raw []byte) int {
	n := bytes.Count(raw, []byte("\ufffd"))
	for rest := raw; ; {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 || at+1 == len(rest) {
			return n
		}
		rest = rest[at+1:]
		if len(rest) >= 5 && bytes.EqualFold(rest[:5], []byte("ufffd")) {
			n++
		}
		rest = rest[1:] // what stands behind a backslash may be one itself
	}
}

func joinList(members []string) string {
	plain := len(members) > 0 && !strings.HasPrefix(members[0], "[")
	for _, m := range members {
		plain = plain && m != "" && m == strings.TrimSpace(m) && !strings.Contains(m, ",")
	}
	if plain {
		return strings.Join(members, ",")
	}
	var out bytes.Buffer
	out.WriteByte('[')
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for i, m := range members {
		if i > 0 {
			out.WriteByte(',')
		}
		_ = enc.Encode(m) // a string in a buffer
		out.Truncate(out.Len() - 1)
	}
	out.WriteByte(']')
	return out.String()
}

// arrayText is a canonical list in the text format of PostgreSQL's arrays
// ("Array Input and Output Syntax"), every member in quotes.
func arrayText(canonical string) string {
	members, _ := splitList(canonical)
	var out strings.Builder
	out.WriteByte('{')
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for i, m := range members {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(`"` + escape.Replace(m) + `"`)
	}
	out.WriteByte('}')
	return out.String()
}
