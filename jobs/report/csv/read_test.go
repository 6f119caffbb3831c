package csv_test

import (
	"errors"
	"fmt"
	"strings"
)

// dialect reads what a preset writes and nothing else.
type dialect struct {
	delimiter byte
	lineEnd   string
}

// read takes a file apart. A nil field is NULL.
func (d dialect) read(file string) (header []string, rows [][]*string, err error) {
	for len(file) > 0 {
		before := file
		var record []*string
		for more := true; more; {
			var field *string
			if field, more, file, err = d.field(file); err != nil {
				return nil, nil, err
			}
			record = append(record, field)
		}
		line := record[0]
		switch {
		case len(record) > 1:
		case line == nil:
			return nil, nil, errors.New("blank line")
		case d.lineEnd == "\n" && *line == `\N` && !strings.HasSuffix(before[:len(before)-len(file)], "\"\n"):
			record[0] = nil
		}
		rows = append(rows, record)
	}
	if len(rows) == 0 {
		return nil, nil, errors.New("no header")
	}
	for _, name := range rows[0] {
		header = append(header, *name)
	}
	return header, rows[1:], nil
}

func (d dialect) field(s string) (field *string, more bool, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, "\"\r\n"+string(d.delimiter))
		if end < 0 || s[end] == '"' {
			return nil, false, "", fmt.Errorf("unquoted field in %q", s)
		}
		if v := s[:end]; v != "" {
			field = &v
		}
		more, rest, err = d.behind(s[end:])
		return field, more, rest, err
	}
	var v strings.Builder
	for s = s[1:]; ; s = s[1:] {
		before, after, found := strings.Cut(s, `"`)
		if !found || after == "" {
			return nil, false, "", fmt.Errorf("open quote before %q", s)
		}
		v.WriteString(before)
		s = after
		if s[0] != '"' {
			break
		}
		v.WriteByte('"')
	}
	text := v.String()
	more, rest, err = d.behind(s)
	return &text, more, rest, err
}

// behind a field is a delimiter or the end of the line.
func (d dialect) behind(s string) (more bool, rest string, err error) {
	if s[0] == d.delimiter {
		return true, s[1:], nil
	}
	if rest, ok := strings.CutPrefix(s, d.lineEnd); ok {
		return false, rest, nil
	}
	return false, "", fmt.Errorf("neither delimiter nor line end: %q", s)
}
