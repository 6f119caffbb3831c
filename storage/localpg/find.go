package localpg

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// ErrNotInstalled is returned when the machine has no PostgreSQL server.
var ErrNotInstalled = errors.New("PostgreSQL is not installed here (no initdb and postgres found): install it " +
	"(Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql@16) or set DATABASE_URL to a server that runs")

// Find looks for the programs initdb and postgres: in the folders of PATH, then
// where packages of the operating system put them, the highest version first. It
// returns their folder, or [ErrNotInstalled].
func Find() (binDir string, err error) {
	found := installed(filepath.SplitList(os.Getenv("PATH")), usualPlaces(runtime.GOOS))
	if len(found) == 0 {
		return "", ErrNotInstalled
	}
	return found[0], nil
}

// usualPlaces are patterns of folders, for [filepath.Glob].
func usualPlaces(goos string) []string {
	switch goos {
	case "windows":
		return []string{filepath.Join(os.Getenv("ProgramFiles"), "PostgreSQL", "*", "bin")}
	case "darwin":
		return []string{
			"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
			"/Applications/Postgres.app/Contents/Versions/*/bin",
		}
	default:
		return []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"}
	}
}

// installed lists the folders that hold both programs, best first.
func installed(path, patterns []string) []string {
	var found []string
	add := func(dir string) {
		if filepath.IsAbs(dir) && hasPrograms(dir) && !slices.Contains(found, dir) {
			found = append(found, dir)
		}
	}
	for _, dir := range path {
		// A link in PATH may name only initdb, and initdb looks for postgres beside itself.
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, program("initdb"))); err == nil {
			add(filepath.Dir(real))
		}
		add(dir)
	}
	var usual []string
	for _, pattern := range patterns {
		dirs, _ := filepath.Glob(pattern) // the only error is a bad pattern
		usual = append(usual, dirs...)
	}
	slices.SortStableFunc(usual, func(a, b string) int { return cmp.Compare(folderVersion(b), folderVersion(a)) })
	for _, dir := range usual {
		add(dir)
	}
	return found
}

// number finds the version in the name of a folder, such as 15, 9.6, postgresql@16.
var number = regexp.MustCompile(`\d+(\.\d+)?`)

// folderVersion is the version in the last part of a bin folder's path that has
// one; -1 when there is none.
func folderVersion(bin string) float64 {
	v, err := strconv.ParseFloat(number.FindString(filepath.Base(filepath.Dir(bin))), 64)
	if err != nil {
		return -1
	}
	return v
}

func hasPrograms(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, program(name))); err != nil {
			return false
		}
	}
	return true
}

func program(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// pickBin is the folder of programs for the cluster in data, which may not exist
// yet: a cluster is readable only by the major version that made it.
func pickBin(given, data string) (string, error) {
	dirs := []string{given}
	if given == "" {
		dirs = installed(filepath.SplitList(os.Getenv("PATH")), usualPlaces(runtime.GOOS))
	}
	if len(dirs) == 0 {
		return "", ErrNotInstalled
	}
	made, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return dirs[0], nil
	}
	if err != nil {
		return "", fmt.Errorf("read the version of the PostgreSQL data: %w", err)
	}
	want := strings.TrimSpace(string(made))
	var have []string
	for _, dir := range dirs {
		v, err := major(dir)
		if err != nil {
			return "", err
		}
		if v == want {
			return dir, nil
		}
		have = append(have, v)
	}
	return "", fmt.Errorf("the data in %s was made by PostgreSQL %s, and here is only %s: install PostgreSQL %s, or move the folder away to begin with an empty one",
		data, want, strings.Join(have, ", "), want)
}

// banner is what "postgres --version" prints: postgres (PostgreSQL) 15.18 (Debian …).
var banner = regexp.MustCompile(`\(PostgreSQL\) (9\.\d+|\d+)`)

// major is the version of the programs in dir as PG_VERSION writes it.
func major(dir string) (string, error) {
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", filepath.Join(dir, "postgres"), err)
	}
	m := banner.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("ask %s for its version: %q is no answer of PostgreSQL", filepath.Join(dir, "postgres"), out)
	}
	return string(m[1]), nil
}
