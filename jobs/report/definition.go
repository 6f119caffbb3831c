package report

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// Definition is a report as its file describes it. It is read only after
// [Parse], and then safe for concurrent use.
type Definition struct {
	Name        string  // the file's name without .sql
	Title       string  // for people; the name when the file gives none
	Description string  // may be empty
	Filename    string  // of a download, without an ending; the name when the file gives none
	Params      []Param // in the order of the file

	Columns []ColumnSpec // in the order of the file; columns that need none are not among them
	Formats []string     // that a request without one gets, sorted; csv when the file gives none
	Preset  string       // data or spreadsheet; data when the file gives none
	Locale  string       // of the preset spreadsheet; [DefaultLocale] when the file gives none
	Zone    string       // IANA name; UTC when the file gives none
	Strict  bool         // fail where a value would be cut, replaced or turned into text
	Tenant  string       // the parameter that takes the job's tenant; may be empty
	Shared  bool         // the same rows for every tenant
	Source  string       // the name of a registered source; empty for PostgreSQL
	// Series is the series that gives numbers to the invoices of this source: then
	// each row is one, with the columns customer and document. Empty for a report.
	Series  string
	MaxRows int64         // the run fails beyond; 0 is no limit
	Timeout time.Duration // of the query; 0 when the file gives none

	File string // as it was given to [Parse]
	// Body is what stands below the front matter, byte for byte: the SELECT, or
	// whatever another source wants to be told.
	Body string

	sql       string   // with $n for the placeholders; empty for other sources
	bound     []string // names of $1, $2 …
	firstLine int      // of sql, or of Body, in the file
	orderBy   bool
	lines     map[string]int // the last line of each key of the front matter
}

// IsSQL reports whether the report asks PostgreSQL: then its body was checked and
// [Definition.Bind] gives a statement.
func (d *Definition) IsSQL() bool { return d.Source == "" }

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
	d := &Definition{Name: base, Title: base, Filename: base, File: p.file, lines: map[string]int{},
		Formats: []string{"csv"}, Preset: string(tabular.Data), Locale: DefaultLocale, Zone: "UTC"}
	if !isSQL || !namePattern.MatchString(base) {
		p.failLine(1, "a report's file is named NAME.sql: begin the name with a-z or 0-9, go on with these, - and _, at most 63")
	}
	if bad := p.unreadable(); bad >= 0 {
		p.fail(bad, "this is not UTF-8 text")
		return d
	}
	h := header{def: d, fail: p.failLine}
	start := h.read(p.src)
	d.Body, d.firstLine = p.src[start:], p.line(start)
	if d.IsSQL() {
		p.statement(d, start)
	}
	return d
}

func (p *parser) statement(d *Definition, start int) {
	s := readStatement(p.src, start, p.fail)
	s.checkParams(d.Params, p.fail, p.failLine)
	if len(p.mistakes) == 0 {
		d.sql, d.bound = s.rewrite(d.Params)
		d.firstLine = p.line(s.tokens[0].start)
		d.orderBy = s.hasOrderBy()
	}
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

// Warnings are those about the report as a whole, for the list of a run:
// [WarnUnordered]. See [Write] for those about values.
func (d *Definition) Warnings() []tabular.Warning {
	if d.IsSQL() && !d.orderBy {
		return []tabular.Warning{{Kind: WarnUnordered, Count: 1}}
	}
	return nil
}

// WarnUnordered is the kind of warning of a query without an ORDER BY of its own:
// the same rows may come in another order next time.
const WarnUnordered = "unordered"

// Mistake is a mistake in the body, at a position as [Definition.Line] counts it.
func (d *Definition) Mistake(position int, message string) Mistake {
	return Mistake{File: d.File, Line: d.Line(position), Message: message}
}

// Line is the line of the report's file that a position in [Query] SQL belongs
// to, or in Body for another source than PostgreSQL. Positions count characters
// from 1, as PostgreSQL's errors do.
func (d *Definition) Line(position int) int {
	line, text := d.firstLine, d.sql
	if !d.IsSQL() {
		text = d.Body
	}
	for _, r := range text {
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
