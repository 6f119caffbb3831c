package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// statement is the one SELECT of a report's source.
type statement struct {
	src    string
	tokens []token // from its first token to its last; no semicolon
	words  []token // the significant ones of them
}

// readStatement finds the statement that begins at or after start and checks
// its shape.
func readStatement(src string, start int, fail func(pos int, message string)) *statement {
	tokens := scan(src, fail)
	nest(src, tokens, fail)
	tokens = slices.DeleteFunc(tokens, func(t token) bool { return t.start < start })
	if end := slices.IndexFunc(tokens, func(t token) bool { return t.isSymbol(src, ";") }); end >= 0 {
		if more := slices.IndexFunc(tokens[end+1:], token.significant); more >= 0 {
			fail(tokens[end+1+more].start, "a second statement begins here: a report is one SELECT")
		}
		tokens = tokens[:end]
	}
	s := &statement{src: src}
	for i, t := range tokens {
		if t.significant() {
			s.words = append(s.words, t)
			s.tokens = tokens[:i+1]
		}
	}
	if len(s.words) == 0 {
		fail(start, "there is no SELECT after the front matter")
		return s
	}
	s.check(fail)
	return s
}

// check refuses what is no single reading statement.
func (s *statement) check(fail func(int, string)) {
	if verb := mainVerb(s.src, s.words); !verb.is(s.src, "select") {
		fail(verb.start, fmt.Sprintf("found %q: a report is one SELECT, or WITH … SELECT", verb.text(s.src)))
	}
	for i, t := range s.words {
		switch {
		case t.is(s.src, "into") && s.makesTable(i):
			fail(t.start, "found INTO: a report makes no table, it reads and changes nothing")
		case t.is(s.src, "for") && s.locks(i):
			fail(t.start, fmt.Sprintf("found FOR %s: a report locks no rows, it is read in a snapshot that cannot write", strings.ToUpper(s.words[i+1].text(s.src))))
		case t.kind == tokenPosition:
			fail(t.start, t.text(s.src)+" is numbered: declare a param and write its :name")
		case i > 1 && isChange(s.src, t) && s.words[i-1].isSymbol(s.src, "(") && s.opensQuery(s.words[i-2]):
			fail(t.start, fmt.Sprintf("found %q: a report reads and changes nothing", t.text(s.src)))
		}
	}
}

// makesTable reports whether the INTO at i is that of SELECT: not a column's name
// and not that of a change, which is refused as such.
func (s *statement) makesTable(i int) bool {
	return i > 0 && !slices.ContainsFunc([]string{"as", "insert", "merge"}, func(word string) bool { return s.words[i-1].is(s.src, word) })
}

// locks reports whether the FOR at i begins a locking clause, which stands behind
// a query; that of substring(x FOR n) stands in the brackets of a call.
func (s *statement) locks(i int) bool {
	if i+1 == len(s.words) {
		return false
	}
	next := s.words[i+1]
	if !next.is(s.src, "update") && !next.is(s.src, "share") && !next.is(s.src, "no") && !next.is(s.src, "key") {
		return false
	}
	for j := i - 1; j >= 0 && s.words[j].depth >= s.words[i].depth; j-- {
		if s.words[j].depth == s.words[i].depth && s.words[j].is(s.src, "select") {
			return true
		}
	}
	return false
}

// opensQuery reports whether a ( after this word holds a named query of WITH.
func (s *statement) opensQuery(before token) bool {
	return before.is(s.src, "as") || before.is(s.src, "materialized")
}

// mainVerb is the word that says what the statement does: its first, or for
// WITH the one after the named queries.
func mainVerb(src string, words []token) token {
	first := words[0]
	for first.isSymbol(src, "(") && len(words) > 1 {
		words = words[1:]
		first = words[0]
	}
	if !first.is(src, "with") {
		return first
	}
	for i, t := range words[1:] {
		before := words[i]
		switch {
		case t.depth != first.depth:
		case t.isSymbol(src, "(") && before.isSymbol(src, ")"):
			return mainVerb(src, words[i+1:])
		case isVerb(src, t) && !before.isSymbol(src, ",") && !before.is(src, "with") && !before.is(src, "recursive"):
			return t
		}
	}
	return first
}

func isVerb(src string, t token) bool {
	return t.is(src, "select") || t.is(src, "values") || t.is(src, "table") || isChange(src, t)
}

func isChange(src string, t token) bool {
	return t.is(src, "insert") || t.is(src, "update") || t.is(src, "delete") || t.is(src, "merge")
}

// hasOrderBy looks at the statement itself, not into its subqueries and windows.
func (s *statement) hasOrderBy() bool {
	words := unwrap(s.src, s.words)
	for i := 1; i < len(words); i++ {
		order := words[i-1]
		if order.depth == words[0].depth && order.is(s.src, "order") && words[i].is(s.src, "by") {
			return true
		}
	}
	return false
}

// unwrap drops brackets around the whole.
func unwrap(src string, words []token) []token {
	for len(words) > 1 && words[0].isSymbol(src, "(") {
		end := slices.IndexFunc(words[1:], func(t token) bool { return t.depth == words[0].depth })
		if end+1 != len(words)-1 {
			return words
		}
		words = words[1 : len(words)-1]
	}
	return words
}

// rewrite is the statement with every placeholder as $n and a cast, and the
// names of $1, $2 …. All other bytes stay as they are.
func (s *statement) rewrite(params []Param) (sql string, names []string) {
	var out strings.Builder
	for i, t := range s.tokens {
		if t.kind != tokenPlaceholder {
			out.WriteString(t.text(s.src))
			continue
		}
		name := t.text(s.src)[1:]
		n := slices.Index(names, name)
		if n < 0 {
			n = len(names)
			names = append(names, name)
		}
		at := slices.IndexFunc(params, func(p Param) bool { return p.Name == name })
		bound := "$" + strconv.Itoa(n+1) + "::" + params[at].cast()
		if s.extendsType(s.tokens[i+1:]) {
			bound = "(" + bound + ")"
		}
		out.WriteString(bound)
	}
	return out.String(), names
}

// extendsType reports whether the next token would be read as a part of the
// cast's type: $1::text[2] is a cast to an array.
func (s *statement) extendsType(rest []token) bool {
	i := slices.IndexFunc(rest, token.significant)
	return i >= 0 && strings.Contains("[(.", rest[i].text(s.src))
}

// checkParams compares the placeholders with the declared parameters.
func (s *statement) checkParams(params []Param, fail func(int, string), failLine func(int, string)) {
	if len(s.words) == 0 {
		return // already said, and every parameter would be unused
	}
	used := map[string]bool{}
	for _, t := range s.words {
		name := strings.TrimPrefix(t.text(s.src), ":")
		if t.kind != tokenPlaceholder || used[name] {
			continue
		}
		used[name] = true
		if !slices.ContainsFunc(params, func(p Param) bool { return p.Name == name }) {
			fail(t.start, undeclared(name, params))
		}
	}
	for _, p := range params {
		if !used[p.Name] {
			failLine(p.line, fmt.Sprintf("param %s is never used: write :%s in the query, outside quotes and comments", p.Name, p.Name))
		}
	}
}

func undeclared(name string, params []Param) string {
	hint := "add a line -- param: " + name + " TYPE, or put a space after the colon when it is none"
	if near := nearest(name, paramNames(params)); near != "" {
		hint = "did you mean :" + near + "?"
	}
	return fmt.Sprintf("parameter :%s is not declared: %s", name, hint)
}
