package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// The rules of the house, read off the source. Each is a function from the files to
// complaints and comes with code that it must complain about, so that a rule that
// has stopped to see anything fails too.

const (
	module       = "github.com/fenceline/fenceline"
	longestFile  = 500
	longestFunc  = 80
	ordinaryFunc = 35 // longer ones are counted, not refused
)

// source is a Go file of the repository.
type source struct {
	path string // from the root, with slashes
	fset *token.FileSet
	file *ast.File
}

// house is all of them, by path.
type house []source

func (s source) dir() string  { return path.Dir(s.path) }
func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// helpsTests is true for packages such as storagetest, which only tests import.
func helpsTests(dir string) bool { return strings.HasSuffix(dir, "test") }

func (s source) line(n ast.Node) int { return s.fset.Position(n.Pos()).Line }

// lines is the number of lines from the first to the last of a node.
func (s source) lines(n ast.Node) int { return s.fset.Position(n.End()).Line - s.line(n) + 1 }

func (s source) at(n ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: ", s.path, s.line(n)) + fmt.Sprintf(format, args...)
}

// code leaves out the tests.
func (h house) code() house {
	return slices.DeleteFunc(slices.Clone(h), source.isTest)
}

// rule is something that holds everywhere. files break it, each alone.
type rule struct {
	name  string
	check func(house) []string
	files map[string]string
}

func rules() []rule {
	return []rule{
		{"imports go one way", checkDirections, map[string]string{
			"storage/a.go":                `import "` + module + `/jobs"`,
			"jobs/a_test.go":              `import "` + module + `/web"`,
			"migrations/a.go":             `import "` + module + `/storage"`,
			"jobs/report/a.go":            `import "` + module + `/storage/files"`,
			"jobs/invoice/pdf/a.go":       `import "` + module + `/jobs"`,
			"web/a.go":                    `import "` + module + `/storage/storagetest"`,
			"jobs/report/reporttest/a.go": `import "` + module + `/storage"`,
			"jobs/secret/a.go":            `import "` + module + `/storage"`,
		}},
		{"one door for each library", checkDoors, map[string]string{
			"jobs/a.go":         `import "gorm.io/gorm"`,
			"web/a.go":          `import "github.com/jackc/pgx/v5"`,
			"storage/a_test.go": `import "github.com/redis/go-redis/v9"`,
			"jobs/report/a.go":  `import "github.com/hibiken/asynq"`,
			"jobs/b.go":         `import "github.com/alicebob/miniredis/v2"`,
			"storage/b.go":      `import "net/http"`,
			"jobs/c.go":         `import "net/http/httptest"`,
			"storage/c.go":      `import "github.com/aws/aws-sdk-go-v2/service/s3"`,
			"web/b.go":          `import "github.com/spf13/cobra"`,
			"web/c.go":          `import "testing"`,
			"jobs/d.go":         `import "golang.org/x/crypto/chacha20poly1305"`,
			"web/d.go":          `import "go.yaml.in/yaml/v3"`,
		}},
		{"only web serves HTTP", checkServers, map[string]string{
			"cmd/fenceline/a.go": "func f() { _ = http.Server{} }",
			"cmd/fenceline/b.go": "func f() { go http.ListenAndServe(a, b) }",
			"cmd/fenceline/c.go": "func f(w http.ResponseWriter) {}",
		}},
		{"packages and exported names are documented", checkComments, map[string]string{
			"web/a.go": "func f() {}",
			"web/b.go": "// Package web is.\npackage web\nfunc F() {}",
			"web/c.go": "// Package web is.\npackage web\n// T is.\ntype T struct{}\nfunc (T) M() {}",
			"web/d.go": "// Package web is.\npackage web\nconst A, B = 1, 2",
			"web/e.go": "// Package web is.\npackage web\ntype T int",
			"web/f.go": "// Some words.\npackage web",
		}},
		{"no init functions", checkInits, map[string]string{
			"web/a.go":      "func init() {}",
			"web/a_test.go": "func init() {}",
		}},
		{"no sleeping", checkSleeps, map[string]string{
			"web/a.go":      "func f() { time.Sleep(1) }",
			"web/a_test.go": "func f(t *testing.T) { time.Sleep(1); synctest.Test(t, func(*testing.T) { time.Sleep(1) }) }",
			"web/b_test.go": "func f() { <-time.After(1) }",
		}},
		{"short files and functions", checkLengths, map[string]string{
			"web/a.go": strings.Repeat("\n", longestFile) + "var x = 1",
			"web/b.go": "func f() {" + strings.Repeat("\n", longestFunc) + "}",
		}},
		{"no globals that change", checkGlobals, map[string]string{
			"web/a.go": "var n = 1\nfunc f() { n++ }",
			"web/b.go": "var m = map[int]int{}\nfunc f() { m[1] = 2 }",
			"web/c.go": "var m = map[int]int{}\nfunc f() { delete(m, 1) }",
			"web/d.go": "var s []int\nfunc f() { s = append(s, 1) }",
			"web/e.go": "var p = new(int)",
			"web/f.go": "var a [3]struct{ x int }\nfunc f() { a[1].x += 2 }",
			"web/g.go": "var n int\nfunc f(g func(*int)) { g(&n) }",
			"web/h.go": "import \"sync\"\nvar mu sync.Mutex",
			"web/i.go": "var c = make(chan int)",
			"web/j.go": "var n int\nfunc f() { for n = range 3 {} }",
		}},
		{"names that say what is inside", checkNames, map[string]string{
			"jobs/types.go":         "",
			"storage/internal/a.go": "",
			"web/utils/a.go":        "",
		}},
	}
}

func TestHouse(t *testing.T) {
	t.Parallel()
	h := readHouse(t)
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for _, complaint := range r.check(h) {
				t.Error(complaint)
			}
		})
	}
	total, long := 0, 0
	for s, f := range h.code().functions {
		total++
		if s.lines(f) > ordinaryFunc {
			long++
		}
	}
	t.Logf("%d of %d functions have more than %d lines", long, total, ordinaryFunc)
}

func TestEveryRuleOfTheHouseCanFail(t *testing.T) {
	t.Parallel()
	for _, r := range rules() {
		for name, text := range r.files {
			if got := r.check(house{parse(t, token.NewFileSet(), name, []byte(text))}); len(got) != 1 {
				t.Errorf("%s: %s should give one complaint, got %q:\n%s", r.name, name, got, text)
			}
		}
	}
}

// readHouse parses every Go file.
func readHouse(t *testing.T) (h house) {
	t.Helper()
	fset := token.NewFileSet() // one for all: types of a package are checked across its files
	for name, text := range repositoryTexts(t) {
		if strings.HasSuffix(name, ".go") {
			h = append(h, parse(t, fset, name, text))
		}
	}
	if len(h) < 50 {
		t.Fatalf("found only %d Go files: the rules would hold for want of code", len(h))
	}
	slices.SortFunc(h, func(a, b source) int { return strings.Compare(a.path, b.path) })
	return h
}

// parse reads a file; one without a package clause gets that of its folder.
func parse(t *testing.T, fset *token.FileSet, name string, text []byte) source {
	t.Helper()
	if !regexp.MustCompile(`(?m)^package `).Match(text) {
		text = append([]byte("package "+path.Base(path.Dir(name))+"\n"), text...)
	}
	s := source{path: name, fset: fset}
	var err error
	if s.file, err = parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		t.Fatal(err)
	}
	return s
}

// repositoryTexts are the text files that belong to the repository, by path: not
// what is hidden, and not what using it makes (see .gitignore).
// foreign reports whether a folder is a module of its own: a peer of a benchmark.
func foreign(root fs.FS, name string) bool {
	_, err := fs.Stat(root, path.Join(name, "go.mod"))
	return err == nil
}

func repositoryTexts(t *testing.T) map[string][]byte {
	t.Helper()
	texts, root := map[string][]byte{}, os.DirFS(repository)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case d.IsDir() && (name[0] == '.' && name != ".ci" || slices.Contains(madeByUse(), name) || foreign(root, name)):
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed since it was listed
		}
		if utf8.Valid(text) {
			texts[name] = text
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func madeByUse() []string { return []string{"bin", "files", "reports"} }

// within is true when dir is one of the rooms or below it.
func within(dir string, rooms ...string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool { return dir == room || strings.HasPrefix(dir, room+"/") })
}

// imported is a line of an import declaration.
type imported struct {
	*ast.ImportSpec
	name string // the path
}

// imports yields every import of every file.
func (h house) imports(yield func(source, imported) bool) {
	for _, s := range h {
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err == nil && !yield(s, imported{spec, name}) {
				return
			}
		}
	}
}

// renders is true for packages that know rows and documents, and nothing of jobs or tables.
func renders(dir string) bool {
	return within(dir, "jobs/report", "jobs/invoice", "jobs/invalid", "jobs/count")
}

func checkDirections(h house) (complaints []string) {
	floors := []string{"migrations", "storage", "jobs", "web", "cmd"}
	for s, i := range h.imports {
		to, ok := strings.CutPrefix(i.name, module+"/")
		if !ok {
			continue
		}
		fromRoom, _, _ := strings.Cut(s.dir(), "/")
		toRoom, _, _ := strings.Cut(to, "/")
		switch {
		case slices.Index(floors, fromRoom) < slices.Index(floors, toRoom):
			complaints = append(complaints, s.at(i, "%s imports %s: the way is cmd → web → jobs → storage → migrations", fromRoom, toRoom))
		case renders(s.dir()) && !renders(to) && !s.isTest():
			complaints = append(complaints, s.at(i, "%s imports %s: it is to know rows and documents only", s.dir(), to))
		case s.dir() == "jobs/secret" && to != "jobs/invalid" && to != s.dir():
			complaints = append(complaints, s.at(i, "jobs/secret imports %s: it is a leaf", to))
		case helpsTests(to) && !helpsTests(s.dir()) && !s.isTest():
			complaints = append(complaints, s.at(i, "%s is for tests only", to))
		}
	}
	return complaints
}

// door is where a library may be used: by the code, and by tests besides.
type door struct {
	library     string
	code, tests []string
}

func doors() []door {
	all := []string{"cmd", "web", "jobs", "storage"}
	return []door{
		{"gorm.io", []string{"storage"}, nil},
		{"github.com/jackc/pgx", []string{"storage"}, all}, // tests look for themselves
		{"github.com/pressly/goose", []string{"storage"}, nil},
		{"github.com/hibiken/asynq", []string{"jobs"}, nil},
		{"github.com/redis/go-redis", []string{"jobs"}, []string{"cmd"}}, // who hurts Redis speaks to it
		{"github.com/go-redsync/redsync", []string{"jobs"}, nil},
		{"go.etcd.io", []string{"jobs/lease/etcd", "jobs/lease/etcdtest"}, nil},
		{"github.com/go-zookeeper", []string{"jobs/lease/zookeeper", "jobs/lease/zookeepertest"}, nil},
		{"k8s.io", []string{"jobs/lease/kubernetes"}, nil},
		{"github.com/alicebob/miniredis", []string{"jobs/localredis"}, nil},
		{"net/http", []string{"web", "cmd", "jobs/notify", "storage/files", "jobs/lease/kubernetestest"}, []string{"jobs", "storage"}}, // as a client of webhooks and buckets; tests hurt those
		{"github.com/aws", []string{"storage/files"}, nil},
		{"github.com/coreos/go-oidc", []string{"web/oidc"}, nil},
		{"golang.org/x/oauth2", []string{"web/oidc"}, nil},
		{"github.com/wneessen/go-mail", []string{"jobs/notify"}, nil},
		{"github.com/emersion", nil, []string{"jobs/notify"}}, // a mail server
		{"github.com/robfig/cron", []string{"jobs/calendar"}, nil},
		{"html/template", []string{"web"}, nil},
		{"github.com/spf13", []string{"cmd"}, nil},
		{"golang.org/x/crypto", []string{"jobs/secret", "web/password"}, nil},
		{"go.yaml.in/yaml", []string{"cmd", "jobs", "web/openapi"}, nil},
		{"github.com/chromedp", nil, []string{"cmd", "web"}},
		{"github.com/compose-spec", nil, []string{"cmd"}},
		{"testing", []string{"storage/storagetest", "storage/files/s3test", "jobs/redistest", "jobs/processtest", "jobs/lease/etcdtest", "jobs/lease/zookeepertest", "jobs/lease/kubernetestest", "jobs/jobstest", "jobs/lease/leasetest"}, all},
	}
}

func checkDoors(h house) (complaints []string) {
	for s, i := range h.imports {
		for _, d := range doors() {
			open := within(s.dir(), d.code...) && (!renders(s.dir()) || s.isTest()) || s.isTest() && within(s.dir(), d.tests...)
			if within(i.name, d.library) && !open {
				complaints = append(complaints, s.at(i, "%s is used in %s; its door is %v, and %v for tests", i.name, s.dir(), d.code, d.tests))
			}
		}
	}
	return complaints
}

// checkServers lets others than web be clients only.
func checkServers(h house) (complaints []string) {
	serving := regexp.MustCompile(`^(Server|ServeMux|NewServeMux|Handle|Handler|HandleFunc|HandlerFunc|Serve|ServeTLS|ListenAndServe|ListenAndServeTLS|ResponseWriter)$`)
	for _, s := range h.code() {
		if within(s.dir(), "web") || helpsTests(s.dir()) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && isSelector(sel, "http", sel.Sel.Name) && serving.MatchString(sel.Sel.Name) {
				complaints = append(complaints, s.at(n, "http.%s: the door to HTTP servers is web", sel.Sel.Name))
			}
			return true
		})
	}
	return complaints
}

func checkComments(h house) (complaints []string) {
	packages := map[string]bool{} // by folder: has a comment
	for _, s := range h.code() {
		want := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			want = ""
		}
		said := s.file.Doc.Text()
		packages[s.dir()] = packages[s.dir()] || said != "" && strings.HasPrefix(said, want)
		for _, d := range s.file.Decls {
			complaints = append(complaints, undocumented(s, d)...)
		}
	}
	for dir, ok := range packages {
		if !ok {
			complaints = append(complaints, dir+": the package has no comment that begins with its name")
		}
	}
	return complaints
}

// undocumented complains about the exported names of a declaration.
func undocumented(s source, d ast.Decl) (complaints []string) {
	complain := func(n *ast.Ident) {
		complaints = append(complaints, s.at(n, "%s has no comment", n.Name))
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || ast.IsExported(receiver(d))) {
			complain(d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil {
					complain(spec.Name)
				}
			case *ast.ValueSpec:
				if i := slices.IndexFunc(spec.Names, (*ast.Ident).IsExported); i >= 0 && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					complain(spec.Names[i])
				}
			}
		}
	}
	return complaints
}

// receiver is the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) (name string) {
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// functions yields every function and method that is declared.
func (h house) functions(yield func(source, *ast.FuncDecl) bool) {
	for _, s := range h {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && !yield(s, f) {
				return
			}
		}
	}
}

func checkInits(h house) (complaints []string) {
	for s, f := range h.functions {
		if f.Recv == nil && f.Name.Name == "init" {
			complaints = append(complaints, s.at(f, "init runs whether anybody wants it or not"))
		}
	}
	return complaints
}

// isCall is true for a call such as time.Sleep(…).
func isCall(n ast.Node, pkg, name string) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && isSelector(call.Fun, pkg, name)
}

func isSelector(n ast.Expr, pkg, name string) bool {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}

// checkSleeps lets only those sleep for whom the clock is not real.
func checkSleeps(h house) (complaints []string) {
	for _, s := range h {
		ast.Inspect(s.file, func(n ast.Node) bool {
			wait, isWait := n.(*ast.UnaryExpr)
			switch {
			case isCall(n, "synctest", "Test"):
				return false
			case isCall(n, "time", "Sleep"):
				complaints = append(complaints, s.at(n, "sleeps: wait for what is to happen, with a deadline"))
			case isWait && wait.Op == token.ARROW && isCall(wait.X, "time", "After") && s.isTest() && !inSelect(s.file, wait):
				complaints = append(complaints, s.at(n, "waits for the time alone: wait for what is to happen, with a deadline"))
			}
			return true
		})
	}
	return complaints
}

// inSelect is true when a receive is one case of several.
func inSelect(f *ast.File, receive ast.Expr) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CommClause); ok && c.Comm != nil && c.Comm.Pos() <= receive.Pos() && receive.End() <= c.Comm.End() {
			found = true
		}
		return !found
	})
	return found
}

func checkLengths(h house) (complaints []string) {
	for _, s := range h.code() {
		if n := s.fset.Position(s.file.FileEnd).Line; n > longestFile {
			complaints = append(complaints, s.at(s.file, "the file has %d lines, more than %d", n, longestFile))
		}
	}
	for s, f := range h.code().functions {
		if n := s.lines(f); n > longestFunc {
			complaints = append(complaints, s.at(f, "%s has %d lines, more than %d", f.Name.Name, n, longestFunc))
		}
	}
	return complaints
}

func checkNames(h house) (complaints []string) {
	for _, s := range h {
		for part := range strings.SplitSeq(s.path, "/") {
			if slices.Contains([]string{"pkg", "internal", "util", "utils", "common", "helpers", "model", "models", "types.go", "utils.go"}, part) {
				complaints = append(complaints, s.path+": a name that says nothing about what is inside")
			}
		}
	}
	return complaints
}

// checkGlobals lets package variables be sentinels and tables: nothing assigns to
// them after their declaration, and they hold nothing that is made to change.
func checkGlobals(h house) (complaints []string) {
	// The server that the tests of a process share; said there why.
	exempt := []string{"storage/storagetest.process"}
	folders := map[string]house{}
	for _, s := range h.code() {
		folders[s.dir()] = append(folders[s.dir()], s)
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		info := folders[dir].resolve()
		global := func(n *ast.Ident) bool {
			v, ok := info.ObjectOf(n).(*types.Var)
			return ok && v.Parent() != nil && v.Parent() == v.Pkg().Scope() && !slices.Contains(exempt, dir+"."+n.Name)
		}
		for _, s := range folders[dir] {
			complaints = append(complaints, changed(s, global)...)
			complaints = append(complaints, changeable(s, info, global)...)
		}
	}
	return complaints
}

// noPackages is an importer that finds nothing: names of this package are enough.
type noPackages struct{}

func (noPackages) Import(string) (*types.Package, error) { return nil, errors.New("not looked at") }

// resolve says what each name in the files of one package means. Types of other
// packages stay unknown, and files for several systems may declare a name twice.
func (h house) resolve() *types.Info {
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: noPackages{}, Error: func(error) {}}
	files := make([]*ast.File, len(h))
	for i, s := range h {
		files[i] = s.file
	}
	_, _ = conf.Check(h[0].dir(), h[0].fset, files, info) // it cannot be without errors, see above
	return info
}

// changed complains about what is done to package variables in functions.
func changed(s source, global func(*ast.Ident) bool) (complaints []string) {
	check := func(targets ...ast.Expr) {
		for _, e := range targets {
			if id := root(e); id != nil && global(id) {
				complaints = append(complaints, s.at(e, "the package variable %s is changed", id.Name))
			}
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			check(n.Lhs...)
		case *ast.IncDecStmt:
			check(n.X)
		case *ast.RangeStmt:
			check(n.Key, n.Value)
		case *ast.UnaryExpr:
			// The address of one entry of a table is how it is read without a copy.
			if id, ok := n.X.(*ast.Ident); ok && n.Op == token.AND {
				check(id)
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && slices.Contains([]string{"delete", "clear", "copy"}, id.Name) && len(n.Args) > 0 {
				check(n.Args[0])
			}
		}
		return true
	})
	return complaints
}

// root is the variable in which an expression such as a[1].x or *p lies.
func root(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.IndexExpr:
		return root(e.X)
	case *ast.SliceExpr:
		return root(e.X)
	case *ast.SelectorExpr:
		return root(e.X)
	case *ast.StarExpr:
		return root(e.X)
	case *ast.ParenExpr:
		return root(e.X)
	}
	return nil
}

// changeable complains about package variables that only make sense when they change.
func changeable(s source, info *types.Info, global func(*ast.Ident) bool) (complaints []string) {
	for _, d := range s.file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for _, name := range v.Names {
				if global(name) && (holdsState(info.ObjectOf(name).Type()) || isLock(v)) {
					complaints = append(complaints, s.at(name, "the package variable %s holds what changes", name.Name))
				}
			}
		}
	}
	return complaints
}

// holdsState is true for what is shared by its kind, except for errors, which are compared.
func holdsState(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Pointer:
		return !types.Implements(t, types.Universe.Lookup("error").Type().Underlying().(*types.Interface))
	case *types.Chan:
		return true
	}
	return false
}

// isLock is true for the types of sync and atomic.
func isLock(v *ast.ValueSpec) bool {
	t := v.Type
	if t == nil && len(v.Values) > 0 {
		if literal, ok := v.Values[0].(*ast.CompositeLit); ok {
			t = literal.Type
		}
	}
	sel, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && (id.Name == "sync" || id.Name == "atomic")
}

func TestTopLevelIsWhatTheDesignSays(t *testing.T) {
	t.Parallel()
	want := []string{
		"BENCHMARKS.md", "CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile", "LICENSE", "Makefile", "README.md",
		"cmd", "docker-compose.yml", "go.mod", "go.sum", "jobs", "migrations", "storage", "web",
	}
	entries, err := os.ReadDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		made := slices.Contains(madeByUse(), e.Name()) || slices.Contains([]string{".test", ".out"}, filepath.Ext(e.Name()))
		if e.Name()[0] != '.' && !made {
			got = append(got, e.Name())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the top level is\n%q, want\n%q", got, want)
	}
}

// strangePlaces finds what is only true on one machine: folders of people, and hosts
// that packages come from.
var strangePlaces = regexp.MustCompile(`(?:^|[\s"'\x60(=:,])/(?:work|home|root|Users)/[\w.-]|` +
	`\b(?:proxy|registry|deb|archive|mirrors?|sum)\.[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:org|com|io|net)\b`)

func TestNothingKnowsOneMachine(t *testing.T) {
	t.Parallel()
	for _, strange := range []string{"/" + "work/main", `"/` + `home/ann/x"`, "see proxy." + "golang.org", "deb." + "debian.org"} {
		if !strangePlaces.MatchString(strange) {
			t.Errorf("%q is not found", strange)
		}
	}
	for name, text := range repositoryTexts(t) {
		for _, found := range strangePlaces.FindAllString(string(text), -1) {
			t.Errorf("%s: %q is true on one machine only", name, found)
		}
	}
}
