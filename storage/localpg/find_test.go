package localpg

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// programs makes a folder that looks like one of PostgreSQL's.
func programs(t *testing.T, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, program(name)), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInstalledOrder(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	nine, ten, brew := programs(t, root, "9.6", "bin"), programs(t, root, "10", "bin"), programs(t, root, "postgresql@16", "bin")
	linked := filepath.Join(root, "linked")
	if err := os.MkdirAll(linked, 0o755); err != nil {
		t.Fatal(err)
	}
	// As on a machine where only initdb was linked into PATH.
	if err := os.Symlink(filepath.Join(nine, program("initdb")), filepath.Join(linked, program("initdb"))); err != nil {
		t.Fatal(err)
	}
	usual := []string{filepath.Join(root, "*", "bin"), filepath.Join(root, "nowhere", "*")}
	for _, c := range []struct {
		name       string
		path, want []string
	}{
		{"highest version first", nil, []string{brew, ten, nine}},
		{"PATH before all", []string{root, ten}, []string{ten, brew, nine}},
		{"a link in PATH is followed", []string{linked}, []string{nine, brew, ten}},
		{"the current folder is never meant", []string{"", "."}, []string{brew, ten, nine}},
	} {
		if got := installed(c.path, usual); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestFindHere(t *testing.T) {
	t.Parallel()
	dir, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if !hasPrograms(dir) {
		t.Errorf("nothing in %s", dir)
	}
}

func TestNotInstalled(t *testing.T) {
	t.Parallel()
	if found := installed([]string{t.TempDir()}, []string{filepath.Join(t.TempDir(), "*", "bin")}); len(found) != 0 {
		t.Errorf("found %v", found)
	}
	for _, word := range []string{"apt-get install postgresql", "brew install postgresql@16", "DATABASE_URL"} {
		if !strings.Contains(ErrNotInstalled.Error(), word) {
			t.Errorf("%q does not say %q", ErrNotInstalled, word)
		}
	}
	if strings.Contains(ErrNotInstalled.Error(), "\n") {
		t.Error("more than one line")
	}
}

func TestUsualPlaces(t *testing.T) {
	t.Parallel()
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, pattern := range usualPlaces(goos) {
			if _, err := filepath.Glob(pattern); err != nil || !strings.HasSuffix(pattern, "bin") {
				t.Errorf("%s: %s: %v", goos, pattern, err)
			}
		}
	}
	if runtime.GOOS == "linux" && !slices.Contains(usualPlaces("linux"), "/usr/lib/postgresql/*/bin") {
		t.Error("Debian's place is missing")
	}
}

func TestProgramsMustFitTheData(t *testing.T) {
	t.Parallel()
	bin, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	version, err := major(bin)
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	for made, ok := range map[string]bool{version: true, "8": false} {
		if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(made+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := pickBin(bin, data)
		if (err == nil) != ok || ok && got != bin {
			t.Errorf("data of %s: %q, %v", made, got, err)
		}
		if !ok && !strings.Contains(err.Error(), "install PostgreSQL 8") {
			t.Errorf("data of %s: %v", made, err)
		}
	}
	if _, err := pickBin(t.TempDir(), data); err == nil || errors.Is(err, ErrNotInstalled) {
		t.Errorf("an empty folder of programs: %v", err)
	}
}
