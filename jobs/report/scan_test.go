package report

import (
	"slices"
	"strings"
	"testing"
)

// placeholders are the parameters that scan and nest see in a source.
func placeholders(src string) (names, problems []string) {
	fail := func(_ int, message string) { problems = append(problems, message) }
	tokens := scan(src, fail)
	nest(src, tokens, fail)
	for _, t := range tokens {
		if t.kind == tokenPlaceholder {
			names = append(names, t.text(src)[1:])
		}
	}
	return names, problems
}

func TestPlaceholdersAreToldFromText(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, src, want string }{
		{"plain", "select :a, :b_2", "a b_2"},
		{"no space around", "where x>:from and(:to)<y", "from to"},
		{"letters outside ASCII", "select :größe", "größe"},
		{"string", "select ':a', :b", "b"},
		{"doubled quote", "select 'it''s :a', :b", "b"},
		{"backslash is no escape", `select 'c:\', :b`, "b"},
		{"escape string", `select E'it\'s :a', :b`, "b"},
		{"escape string, small e", `select e'\\', :b`, "b"},
		{"escape string goes on after a line break", "select E'x'\n -- :z\n 'it\\'s :a', :b", "b"},
		{"escape string does not go on in one line", `select E'x' '\', :b`, "b"},
		{"a name that ends in e", `select 1 as type'\', :b`, "b"},
		{"bit and national strings", `select B'01', N':a', U&':a', :b`, "b"},
		{"quoted name", `select "a:b", ":c""d :e", :f`, "f"},
		{"dollar quotes", "select $$ :a ' $$, $x$ :b $$ :c $y$ $x$, :d", "d"},
		{"dollar in a name", "select a$b$ , :c , x$b$", "c"},
		{"price", "select '$5', $, :a", "a"},
		{"line comment", "select 1 -- :a '\n, :b", "b"},
		{"line comment ended by CR", "select 1 -- :a\r, :b", "b"},
		{"block comment, nested", "select /* :a /* ' */ :b */ :c", "c"},
		{"cast", "select x::date, :a::text, y ::int", "a"},
		{"cast then parameter", "select x:::a", "a"},
		{"named argument", "select f(a := 1, b:=:c)", "c"},
		{"slice with numbers", "select x[1:2], :a", "a"},
		{"slice with columns", "select x[lo:hi], x[f(1):n], x[y[1]:z], x[\"lo\":hi]", ""},
		{"slice with parameters", "select x[1: :n], x[(:lo):(:hi)]", "n lo hi"},
		{"subscript", "select x[(:i)], x[1 + :i]", "i i"},
		{"subscript after a keyword", "select x[case when y then :a else :b end]", "a b"},
		{"array", "select array[:a, :b], ARRAY[[:c], [:d]]", "a b c d"},
		{"array in a slice", "select (array[:a])[1:n]", "a"},
		{"colon and space", "select json_object('k': v)", ""},
		{"time of day", "select '10:30', 10:30", ""},
		{"end", "select 1:", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			names, problems := placeholders(tt.src)
			if got := strings.Join(names, " "); got != tt.want || len(problems) > 0 {
				t.Errorf("%s\ngot %q %q, want %q", tt.src, got, problems, tt.want)
			}
		})
	}
}

func TestOpenEndsAreMistakes(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"select 'a":           "the string that begins here is never closed",
		"select E'a\\'":       "the string that begins here is never closed",
		"select E'a'\n'b":     "the string that begins here is never closed",
		"select $x$ a $y$":    "the string that begins here is never closed",
		`select "a`:           "the quoted name that begins here is never closed",
		"select /* /* */":     "the comment that begins here is never closed",
		"select (1":           "the bracket ( is never closed",
		"select x[1":          "the bracket [ is never closed",
		"select 1)":           "the bracket ) closes none",
		"select (x[1)]":       "the bracket ) closes none",
		"select x[:lo]":       "[:lo can be a slice or a parameter: write [1:lo] or [(:lo)]",
		"select /*/":          "the comment that begins here is never closed",
		"select 'a' || '''":   "the string that begins here is never closed",
		"select E'ends in \\": "the string that begins here is never closed",
	} {
		if _, problems := placeholders(src); !slices.Contains(problems, want) {
			t.Errorf("%q: got %q, want %q", src, problems, want)
		}
	}
}

// FuzzRewrite checks that only placeholders change: the tokens put together are
// the source, and a report without parameters is its own text.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{
		"select 1", "SELECT 'a' -- x\n;", "with a as (select 1) select * from a order by 1;\n\n",
		"select E'a\\''\n'b', $t$:x$t$, \"y:z\", a[1:2], b::int /* /* */ */", "(select 1) union (select 2) ;", "select x[lo:hi]",
		"-- title: A\n-- param: n integer\nselect :n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		var joined strings.Builder
		for _, token := range scan(src, func(int, string) {}) {
			joined.WriteString(token.text(src))
		}
		if joined.String() != src {
			t.Fatalf("tokens of %q make %q", src, joined.String())
		}
		d, err := Parse("x.sql", []byte(src))
		if err != nil || len(d.Params) > 0 {
			return
		}
		q, err := d.Bind(nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(q.SQL) == 0 || !strings.Contains(src, q.SQL) {
			t.Errorf("%q became %q", src, q.SQL)
		}
		again, err := Parse("x.sql", []byte("-- title: X\n\n"+q.SQL))
		if err != nil || again.sql != q.SQL || again.orderBy != d.orderBy {
			t.Errorf("%q was read again as %+v, %v", q.SQL, again, err)
		}
	})
}
