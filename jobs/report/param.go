package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Param is a value that a report asks for.
type Param struct {
	Name     string   `json:"name"`
	Type     Type     `json:"type"`
	Elem     Type     `json:"elem,omitempty"` // of a List: the type of its members; empty otherwise
	Label    string   `json:"label"`          // for people; the name when the file gives none
	Required bool     `json:"required"`
	Default  *string  `json:"default,omitempty"` // canonical; nil when there is none
	Values   []string `json:"values,omitempty"`  // of an Enum, or a List of them: its members, in the order of the file

	line int
}

// parseParam reads what follows "param:". The name is set whenever it was
// readable, so that one mistake does not cause others.
func parseParam(value string) (Param, error) {
	fields, err := splitFields(value)
	if err != nil {
		return Param{}, fmt.Errorf("param: %w", err)
	}
	p := Param{Name: fields[0].text, Type: Text, Label: fields[0].text}
	if !paramName.MatchString(p.Name) || fields[0].quoted {
		name := p.Name
		p.Name = ""
		return p, fmt.Errorf("param name %q: begin with a letter, go on with a-z, 0-9 and _, at most 63", name)
	}
	if len(fields) < 2 {
		return p, fmt.Errorf("param %s has no type: the types are %s", p.Name, typeNames())
	}
	if err := p.setType(fields[1]); err != nil {
		return p, fmt.Errorf("param %s: %w", p.Name, err)
	}
	if err := p.setOptions(fields[2:]); err != nil {
		return p, fmt.Errorf("param %s: %w", p.Name, err)
	}
	return p, nil
}

func (p *Param) setType(f field) error {
	name, inner, bracket := strings.Cut(f.text, "(")
	inner = strings.TrimSpace(strings.TrimSuffix(inner, ")"))
	typ := Type(name)
	switch {
	case typ == List && !f.quoted:
		return p.setElem(inner)
	case f.quoted || typ.rule() == nil:
		return fmt.Errorf("unknown type %q: the types are %s%s", f.text, typeNames(), DidYouMean(name, typeWords()))
	case bracket != (typ == Enum):
		return errors.New("an enum lists its members, as in enum(new,paid), and no other type does")
	}
	p.Type = typ
	if !bracket {
		return nil
	}
	return p.setMembers(inner)
}

// setElem is what list(…) holds.
func (p *Param) setElem(inner string) error {
	var elem Param
	switch word, _, _ := strings.Cut(inner, "("); {
	case inner == "":
		return errors.New("a list names the type of its members, as in list(integer)")
	case Type(word) == List:
		return errors.New("a list holds no lists")
	}
	if err := elem.setType(field{text: inner}); err != nil {
		return err
	}
	p.Type, p.Elem, p.Values = List, elem.Type, elem.Values
	return nil
}

func (p *Param) setMembers(members string) error {
	for member := range strings.SplitSeq(members, ",") {
		member = unquote(strings.TrimSpace(member))
		switch {
		case strings.ContainsAny(member, `"'()`):
			return errors.New("the members of an enum hold no quotes, commas and brackets")
		case member == "" || slices.Contains(p.Values, member):
			return fmt.Errorf("enum member %q is empty or given twice", member)
		}
		p.Values = append(p.Values, member)
	}
	return nil
}

func (p *Param) setOptions(fields []field) error {
	seen := map[string]bool{}
	for len(fields) > 0 {
		f, rest := fields[0], fields[1:]
		option := f.text
		switch {
		case f.quoted:
			option = "label"
			p.Label = f.text
		case option == "required":
			p.Required = true
		case option == "default" && len(rest) == 0:
			return errors.New("default has no value")
		case option == "default":
			if err := p.setDefault(rest[0].text); err != nil {
				return err
			}
			rest = rest[1:]
		default:
			return fmt.Errorf("unknown option %q: there are required, default VALUE and a label in double quotes%s",
				option, DidYouMean(option, []string{"required", "default"}))
		}
		if seen[option] {
			return fmt.Errorf("%s is given twice", option)
		}
		seen[option] = true
		fields = rest
	}
	if p.Required && p.Default != nil {
		return errors.New("required and default exclude each other: a default fills what was not given")
	}
	return nil
}

func (p *Param) setDefault(value string) error {
	canonical, problem := p.canonical(value)
	if problem != "" {
		return fmt.Errorf("default %q %s", value, problem)
	}
	p.Default = &canonical
	return nil
}

// field is a word, or a text in single or double quotes, of a param or column line.
type field struct {
	text   string
	quoted bool
}

// splitFields cuts a line at spaces outside quotes and outside brackets, as in
// enum(…). There is at least one field in a line that is not blank.
func splitFields(s string) ([]field, error) {
	var fields []field
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		end, err := fieldEnd(s)
		if err != nil {
			return nil, err
		}
		f := field{text: s[:end]}
		if s[0] == '"' || s[0] == '\'' {
			f = field{text: unquote(f.text), quoted: true}
		}
		fields = append(fields, f)
		s = s[end:]
	}
	return fields, nil
}

func fieldEnd(s string) (int, error) {
	if s[0] == '"' || s[0] == '\'' {
		end := quoteEnd(s, 0, false)
		if end < 0 {
			return 0, fmt.Errorf("the quote %s is never closed", s[:1])
		}
		return end, nil
	}
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			if depth--; depth == 0 {
				return i + 1, nil
			}
		case c == '"' && depth > 0:
			end := quoteEnd(s, i, false)
			if end < 0 {
				return 0, errors.New(`the quote " is never closed`)
			}
			i = end - 1
		case isSpace(c) && depth == 0:
			return i, nil
		}
	}
	if depth > 0 {
		return 0, errors.New("the bracket ( is never closed")
	}
	return len(s), nil
}

// unquote takes the quotes from a quoted text and halves those in it.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' && s[0] != '\'' || s[0] != s[len(s)-1] {
		return s
	}
	quote := s[:1]
	return strings.ReplaceAll(s[1:len(s)-1], quote+quote, quote)
}
