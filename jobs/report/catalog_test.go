package report_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fenceline/fenceline/jobs/report"
)

func file(src string, modified time.Time) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(src), ModTime: modified}
}

var longAgo = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func titles(defs []*report.Definition) string {
	var all []string
	for _, d := range defs {
		all = append(all, d.Name+"="+d.Title)
	}
	return strings.Join(all, " ")
}

func TestCatalogLaterSourcesWin(t *testing.T) {
	t.Parallel()
	c := report.NewCatalog(
		fstest.MapFS{"orders.sql": file("-- title: Built in\nselect 1", longAgo), "stock.sql": file("select 1", longAgo)},
		os.DirFS(filepath.Join(t.TempDir(), "absent")),
		fstest.MapFS{"orders.sql": file("-- title: Mine\nselect 1", longAgo), "sub/deep.sql": file("select 1", longAgo),
			".hidden.sql": file("x", longAgo), "notes.txt": file("x", longAgo), "folder.sql/x": file("x", longAgo)},
	)
	defs, err := c.List()
	if got := titles(defs); err != nil || got != "orders=Mine stock=stock" {
		t.Errorf("got %s, %v", got, err)
	}
	if d, err := c.Get("orders"); err != nil || d.Title != "Mine" {
		t.Errorf("got %+v, %v", d, err)
	}
	if d, err := c.Get("stock"); err != nil || d.Name != "stock" {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestCatalogFindsOnlyExactNames(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, filepath.Join(root, "secret.sql"), "select 1")
	write(t, filepath.Join(root, "reports", "orders.sql"), "select 1")
	write(t, filepath.Join(root, "reports", "Odd.sql"), "select 1")
	write(t, filepath.Join(root, "reports", "folder.sql", "deep.sql"), "select 1")
	c := report.NewCatalog(os.DirFS(filepath.Join(root, "reports")))
	for _, name := range []string{"", ".", "..", "../secret", "/orders", "./orders", "orders.sql", "Orders", "ORDERS", "orders/", "orders\x00",
		"Odd", "folder", "or*", "orders ", strings.Repeat("a", 64), filepath.Join(root, "secret")} {
		_, err := c.Get(name)
		if !errors.Is(err, report.ErrNotFound) || !strings.Contains(err.Error(), "there are orders") {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if _, err := c.Get("ordesr"); err == nil || err.Error() != `report "ordesr": no such report: there are orders; did you mean orders?` {
		t.Errorf("got %v", err)
	}
	if _, err := report.NewCatalog().Get("a"); err == nil || err.Error() != `report "a": no such report: there are none` {
		t.Errorf("got %v", err)
	}
}

func write(t *testing.T, file, src string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(src), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestCatalogShowsGoodReportsBesideBrokenOnes(t *testing.T) {
	t.Parallel()
	c := report.NewCatalog(
		fstest.MapFS{"broken.sql": file("-- title: Replaced\nselect 1", longAgo)},
		fstest.MapFS{"a.sql": file("select 1", longAgo), "broken.sql": file("selec 1", longAgo), "Wrong.sql": file("select 1", longAgo),
			"huge.sql": file(strings.Repeat(" ", 1<<20)+"select 1", longAgo)},
	)
	defs, err := c.List()
	if got := titles(defs); got != "a=a" || err == nil {
		t.Fatalf("got %s, %v", got, err)
	}
	for _, want := range []string{`broken.sql:1: found "selec"`, "Wrong.sql:1: a report's file is named", "huge.sql:1: the file has 1048584 bytes"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	var mistakes report.Mistakes
	if _, err := c.Get("broken"); !errors.As(err, &mistakes) {
		t.Errorf("a broken report was hidden by the one it replaces: %v", err)
	}
}

func TestCatalogReadsChangedFilesAgain(t *testing.T) {
	t.Parallel()
	files := &countingFS{MapFS: fstest.MapFS{"a.sql": file("-- title: One\nselect 1", longAgo)}}
	c := report.NewCatalog(files)
	expect := func(title string, reads int) {
		t.Helper()
		d, err := c.Get("a")
		if err != nil || d.Title != title || files.reads != reads {
			t.Errorf("got %+v, %v after %d reads, want %s after %d", d, err, files.reads, title, reads)
		}
	}
	expect("One", 1)
	expect("One", 1)
	files.MapFS["a.sql"] = file("-- title: Two\nselect 1", longAgo.Add(time.Nanosecond))
	expect("Two", 2)
	files.MapFS["a.sql"] = file("-- title: Three\nselect 1", longAgo.Add(time.Nanosecond))
	expect("Three", 3)
	// Too young for its time to tell the next edit from this one.
	now := time.Now()
	files.MapFS["a.sql"] = file("-- title: Fore \nselect 1", now)
	expect("Fore", 4)
	files.MapFS["a.sql"] = file("-- title: Fours\nselect 1", now)
	expect("Fours", 5)
	delete(files.MapFS, "a.sql")
	if _, err := c.Get("a"); !errors.Is(err, report.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

type countingFS struct {
	fstest.MapFS
	reads int
}

func (c *countingFS) ReadFile(name string) ([]byte, error) {
	c.reads++
	return c.MapFS.ReadFile(name)
}

func TestCatalogReportsUnreadableFolders(t *testing.T) {
	t.Parallel()
	c := report.NewCatalog(fstest.MapFS{"a.sql": file("select 1", longAgo)}, failingFS{})
	defs, err := c.List()
	if titles(defs) != "a=a" || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %s, %v", titles(defs), err)
	}
	if _, err := c.Get("a"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("the folder that may replace the report was passed over: %v", err)
	}
}

type failingFS struct{}

func (failingFS) Open(string) (fs.File, error) { return nil, fs.ErrPermission }

func TestCatalogIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := report.NewCatalog(fstest.MapFS{"a.sql": file("select 1", time.Now()), "b.sql": file("select 1", longAgo)})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				if _, err := c.Get("b"); err != nil {
					t.Error(err)
				}
				if defs, err := c.List(); err != nil || len(defs) != 2 {
					t.Errorf("got %s, %v", titles(defs), err)
				}
			}
		})
	}
	group.Wait()
}
