package report

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Definition is a report as its file describes it. It is read only after
// [Parse], and then safe for concurrent use.
type Definition struct {
	Name        string  // the file's name without .sql
	Title       string  // for people; the name when the file gives none
	Description string  // may be empty
	Filename    string  // of a download, without an ending; the name when the file gives none
	Params      []Param // in the order of the file

	sql       string   // with $n for the placeholders
	bound     []string // names of $1, $2 …
	firstLine int      // of sql in the file
	orderBy   bool
}

// Mistake is one thing that is wrong in a report's file.
type Mistake struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // from 1
	Message string `json:"message"`
}

// String is the mistake as compilers print it: file:line: message.
func (m Mistake) String() string { return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Message) }

// Mistakes is the error of [Parse]: everything that is wrong in one file, by
// line.
type Mistakes []Mistake

// Error is one mistake per line.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, mistake := range m {
		lines[i] = mistake.String()
	}
	return strings.Join(lines, "\n")
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Parse reads a report from the bytes of its file. The path of the file gives
// the report's name and stands in the messages; nothing is opened. The error is
// [Mistakes].
func Parse(file string, src []byte) (*Definition, error) {
	p := &parser{file: file, src: strings.TrimPrefix(string(src), "\ufeff")}
	d := p.parse()
	if len(p.mistakes) > 0 {
		slices.SortStableFunc(p.mistakes, func(a, b Mistake) int { return cmp.Compare(a.Line, b.Line) })
		return nil, p.mistakes
	}
	return d, nil
}

type parser struct {
	file     string
	src      string
	mistakes Mistakes
}

func (p *parser) parse() *Definition {
	base, isSQL := strings.CutSuffix(path.Base(p.file), ".sql")
	d := &Definition{Name: base, Title: base, Filename: base}
	if !isSQL || !namePattern.MatchString(base) {
		p.failLine(1, "a report's file is named NAME.sql: begin the name with a-z or 0-9, go on with these, - and _, at most 63")
	}
	if bad := p.unreadable(); bad >= 0 {
		p.fail(bad, "this is not UTF-8 text")
		return d
	}
	h := header{def: d, seen: map[string]int{}, fail: p.failLine}
	s := readStatement(p.src, h.read(p.src), p.fail)
	s.checkParams(d.Params, p.fail, p.failLine)
	if len(p.mistakes) == 0 {
		d.sql, d.bound = s.rewrite(d.Params)
		d.firstLine = p.line(s.tokens[0].start)
		d.orderBy = s.hasOrderBy()
	}
	return d
}

// unreadable is the first byte that no UTF-8 text for PostgreSQL holds, or -1.
func (p *parser) unreadable() int {
	for i, r := range p.src {
		if r == 0 || r == utf8.RuneError && !strings.HasPrefix(p.src[i:], string(utf8.RuneError)) {
			return i
		}
	}
	return -1
}

func (p *parser) fail(pos int, message string) { p.failLine(p.line(pos), message) }

func (p *parser) failLine(line int, message string) {
	p.mistakes = append(p.mistakes, Mistake{File: p.file, Line: line, Message: message})
}

func (p *parser) line(pos int) int { return 1 + strings.Count(p.src[:pos], "\n") }

// HasOrderBy reports whether the query sorts its rows itself (an ORDER BY of a
// subquery or window does not count). Without it two runs may give two files.
func (d *Definition) HasOrderBy() bool { return d.orderBy }

// Line is the line of the report's file that a position in [Query] SQL belongs
// to. Positions count characters from 1, as PostgreSQL's errors do.
func (d *Definition) Line(position int) int {
	line := d.firstLine
	for _, r := range d.sql {
		if position--; position <= 0 {
			break
		}
		if r == '\n' {
			line++
		}
	}
	return line
}

func paramNames(params []Param) []string {
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	return names
}
