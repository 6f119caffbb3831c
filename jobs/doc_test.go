package jobs_test

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// section is a part of the text of package jobs.
func section(t *testing.T, title string) string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(f.Doc.Text(), "# "+title+"\n")
	if !found {
		t.Fatalf("there is no section %q", title)
	}
	text, _, _ = strings.Cut(text, "\n# ")
	return text
}

// The places that the text names are there, and do what it says.
func TestWhereALockIsNotTheTool(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), storagetest.Database(t, jobs.Migrated))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	// Of each part: what the definition of its places in the database must hold.
	parts := map[string]string{
		"A unique constraint": `UNIQUE`, "FOR UPDATE": `FOR (NO KEY )?UPDATE`, "An advisory lock": `pg_advisory_xact_lock`,
		"Optimistic concurrency": `last_token (<|>)|\.last_token`,
	}
	underscored := regexp.MustCompile(`\b[a-z]+(?:_[a-z]+)+\b`)
	text := section(t, "Where a lock is not the tool")
	for _, part := range strings.Split(text, "\n  - ")[1:] {
		title, _, _ := strings.Cut(part, ",")
		must, known := parts[title]
		if !known {
			t.Errorf("the part %q is tested for nothing", title)
		}
		delete(parts, title)
		for _, name := range underscored.FindAllString(part, -1) {
			if name == "last_token" {
				continue
			}
			var defined string
			err := conn.QueryRow(t.Context(), `SELECT coalesce((SELECT indexdef FROM pg_indexes WHERE schemaname = 'fenceline' AND indexname = $1),
				(SELECT string_agg(prosrc, '') FROM pg_proc WHERE pronamespace = 'fenceline'::regnamespace AND proname = $1), '')`, name).Scan(&defined)
			if err != nil {
				t.Fatal(err)
			}
			if !regexp.MustCompile(must).MatchString(defined) {
				t.Errorf("%s: %s has no %s: %q", title, name, must, defined)
			}
		}
	}
	if len(parts) > 0 {
		t.Errorf("the text lacks %v", parts)
	}
}

// All that the text names of Go is there, and so are the functions of the database that it names elsewhere.
func TestTheTextNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	const answers = "What to ask of a lock, and the answers"
	places := declared(t, ".", "")
	for name := range declared(t, filepath.Join("..", "storage"), "storage.") {
		places[name] = true
	}
	linked := 0
	for _, title := range []string{answers, "Where a lock is not the tool"} {
		for _, link := range regexp.MustCompile(`\[([A-Za-z.]+)\]`).FindAllStringSubmatch(section(t, title), -1) {
			if linked++; !places[link[1]] {
				t.Errorf("%s: there is no %s", title, link[1])
			}
		}
	}
	if linked < 8 {
		t.Errorf("only %d names were found: the test shows nothing", linked)
	}
	text := section(t, answers)
	for _, asked := range []string{"protected", "crashes", "lease ends", "stale writer", "makes the token", "checks", "partition", "failover", "pause", "retry", "idempotent", "database alone"} {
		if !strings.Contains(text, asked) {
			t.Errorf("the answers lack %q", asked)
		}
	}
	if doc := new(comment.Parser).Parse(text); len(doc.Content) != 1 {
		t.Errorf("the answers are %d blocks, want one list", len(doc.Content))
	}
	conn, err := pgx.Connect(t.Context(), storagetest.Database(t, jobs.Migrated))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	for _, name := range regexp.MustCompile(`\b[a-z]+_[a-z]+\b`).FindAllString(text, -1) {
		var there bool
		err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'fenceline'::regnamespace AND proname = $1)", name).Scan(&there)
		if err != nil || !there {
			t.Errorf("there is no function %s: %v", name, err)
		}
	}
}

// declared are the exported names of a package, methods as Type.Name.
func declared(t *testing.T, dir, prefix string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			for _, name := range namesOf(d) {
				names[prefix+name] = true
			}
		}
	}
	return names
}

func namesOf(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			kind := d.Recv.List[0].Type
			if star, ok := kind.(*ast.StarExpr); ok {
				kind = star.X
			}
			if id, ok := kind.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		return []string{name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}
