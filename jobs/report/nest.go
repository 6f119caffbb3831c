package report

import "slices"

// bracket is an open ( or [.
type bracket struct {
	at        int
	square    bool
	subscript bool // a [ that follows a value: x[1], but not ARRAY[1]
}

// nesting walks over the significant tokens of a source.
type nesting struct {
	src    string
	fail   func(pos int, message string)
	open   []bracket
	before token // the significant token before the current one
}

// nest sets the depth of every token and tells the colon of an array slice,
// x[lo:hi], from a placeholder. It reports brackets without a partner.
func nest(src string, tokens []token, fail func(pos int, message string)) {
	n := nesting{src: src, fail: fail, before: token{kind: tokenSymbol}}
	for i := range tokens {
		t := &tokens[i]
		t.depth = len(n.open)
		if !t.significant() {
			continue
		}
		n.visit(t)
		n.before = *t
	}
	for _, b := range n.open {
		fail(b.at, "the bracket "+src[b.at:b.at+1]+" is never closed")
	}
}

func (n *nesting) visit(t *token) {
	switch text := t.text(n.src); {
	case t.kind == tokenPlaceholder:
		n.slice(t)
	case t.kind != tokenSymbol:
	case text == "(":
		n.open = append(n.open, bracket{at: t.start})
	case text == "[":
		n.open = append(n.open, bracket{at: t.start, square: true, subscript: n.value()})
	case text == ")" || text == "]":
		n.shut(t, text == "]")
	}
}

func (n *nesting) shut(t *token, square bool) {
	last := len(n.open) - 1
	if last < 0 || n.open[last].square != square {
		n.fail(t.start, "the bracket "+t.text(n.src)+" closes none")
		return
	}
	n.open = n.open[:last]
	t.depth = last
}

// slice decides about :name directly inside a subscript.
func (n *nesting) slice(t *token) {
	if len(n.open) == 0 || !n.open[len(n.open)-1].subscript {
		return
	}
	switch {
	case n.value():
		t.kind = tokenWord
	case n.before.isSymbol(n.src, "["):
		name := t.text(n.src)
		n.fail(t.start, "["+name+" can be a slice or a parameter: write [1"+name+"] or [("+name+")]")
		t.kind = tokenWord
	}
}

// value reports whether the token before can end a value.
func (n *nesting) value() bool {
	switch b := n.before; b.kind {
	case tokenWord:
		return !slices.ContainsFunc([]string{"array", "and", "or", "not", "in", "like", "ilike", "between", "case", "when", "then", "else"},
			func(keyword string) bool { return b.is(n.src, keyword) })
	case tokenSymbol:
		return b.isSymbol(n.src, ")") || b.isSymbol(n.src, "]")
	}
	return true
}
