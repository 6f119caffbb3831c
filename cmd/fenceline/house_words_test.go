package main

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// countedNouns are things that messages and pages count. A limit ("at most 5 jobs")
// is a number of the program and may stand as it is.
const countedNouns = `(attempts|batches|bytes|days|deliveries|errors|exports|failures|fences|files|hours|items|jobs|keys|migrations|mistakes|pages|parameters|` +
	`pointers|publications|rows|schedules|secrets|sessions|slots|times|tokens|transactions|values|violations|warnings|workers)\b`

var (
	countedInFormat   = regexp.MustCompile(`%d ([a-z]+ )?` + countedNouns)
	countedInTemplate = regexp.MustCompile(`\{\{(number|len|count)? ?\.[A-Za-z.]+\}\}(</b>)? ([a-z]+ )?` + countedNouns + `|\{\{if eq [^}]* 1\}\}(attempt|file|job|page|row|time|worker)\b`)
	aLimit            = regexp.MustCompile(`(?i)(at most|at least|more than|must have|%d to) $`)
)

// uncounted are the plurals in a text that would be wrong for one.
func uncounted(in *regexp.Regexp, text string) (found []string) {
	for _, at := range in.FindAllStringIndex(text, -1) {
		if !aLimit.MatchString(text[:at[0]]) {
			found = append(found, text[at[0]:at[1]])
		}
	}
	return found
}

// TestCounts holds that what is shown counts with jobs/count, which knows that one is not many.
func TestCounts(t *testing.T) {
	t.Parallel()
	if len(uncounted(countedInFormat, "%d jobs are left, at most %d jobs")) != 1 || len(uncounted(countedInTemplate, "{{number .Stored.Attempts}} attempts")) != 1 {
		t.Fatal("the rule sees nothing any more")
	}
	for _, s := range readHouse(t).code() {
		if !within(s.dir(), "cmd", "web", "jobs/notify") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				for _, words := range uncounted(countedInFormat, lit.Value) {
					t.Error(s.at(n, "%q is wrong for one; use count.Of", words))
				}
			}
			return true
		})
	}
	pages, err := filepath.Glob("../../web/templates/*.html")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for number, line := range strings.Split(string(text), "\n") {
			for _, words := range uncounted(countedInTemplate, line) {
				t.Errorf("%s:%d: %q is wrong for one; use things", page, number+1, words)
			}
		}
	}
}
