package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// marked is a folder of an installation of its own.
func marked(t *testing.T) (string, uuid.UUID) {
	t.Helper()
	dir, id := filepath.Join(t.TempDir(), "files"), uuid.New()
	l, err := OpenLocal(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, id
}

// tree lists every name below a folder.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestLookAtAFolder(t *testing.T) {
	t.Parallel()
	put := func(names ...string) func(dir string) {
		return func(dir string) {
			for _, name := range names {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, c := range []struct {
		name  string
		make  func(dir string)
		holds string
		fails string
	}{
		{"new", put(), "", ""},
		{"left by a start that was killed", put(markerTemp + "x"), "", ""},
		{"a stranger's", put("photo.jpg"), "photo.jpg", ""},
		{"a broken mark", put(markerName), "", "read " + markerName},
	} {
		dir := t.TempDir()
		c.make(dir)
		before := tree(t, dir)
		f, err := LookAt(dir)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || !f.Exists || f.Holds != c.holds || f.Marked != uuid.Nil || f.Mode.Perm() == 0 || f.Owner != os.Getuid() {
			t.Errorf("%s: %+v, %v", c.name, f, err)
		}
		if after := tree(t, dir); !slices.Equal(before, after) {
			t.Errorf("%s: looking has changed %q to %q", c.name, before, after)
		}
	}
	dir, id := marked(t)
	if f, err := LookAt(dir); err != nil || f.Marked != id {
		t.Errorf("%+v, %v", f, err)
	}
	missing := filepath.Join(dir, "missing")
	if f, err := LookAt(missing); err != nil || f.Exists {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking has made the folder: %v", err)
	}
	if _, err := LookAt(filepath.Join(dir, markerName)); err == nil || !strings.Contains(err.Error(), "is not a folder") {
		t.Errorf("a file: %v", err)
	}
}

func TestProbeLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir, id := marked(t)
	before := tree(t, dir)
	p, err := Probe(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	if !p.CreateRefuses || !p.Links || !p.LinkRefuses || !p.Renames || p.Synced <= 0 || p.Problem != "" {
		t.Errorf("%+v", p)
	}
	if after := tree(t, dir); !slices.Equal(before, after) {
		t.Errorf("%q, before %q", after, before)
	}
}

func TestProbeTouchesOnlyWhatIsOurs(t *testing.T) {
	t.Parallel()
	dir, id := marked(t)
	empty := t.TempDir()
	for _, c := range []struct {
		dir string
		id  uuid.UUID
	}{{dir, uuid.New()}, {dir, uuid.Nil}, {empty, id}, {empty, uuid.Nil}, {filepath.Join(empty, "missing"), id}} {
		if _, err := Probe(c.dir, c.id); !errors.Is(err, ErrNotOurs) {
			t.Errorf("%s for %s: %v", c.dir, c.id, err)
		}
	}
	if names := tree(t, empty); len(names) != 1 {
		t.Errorf("%q", names)
	}
}

// File systems that go wrong, by what link(2) does on them.
func TestProbeSeesThroughTheFileSystem(t *testing.T) {
	t.Parallel()
	copies := func(r *os.Root, from, to string) error {
		raw, err := r.ReadFile(from)
		return errors.Join(err, r.WriteFile(to, raw, 0o600))
	}
	for _, c := range []struct {
		name string
		link func(r *os.Root, old, new string) error
		want ProbeFacts
		says string
	}{
		{"replaces", copies, ProbeFacts{CreateRefuses: true, Links: true}, "a link was made under a name that was taken"},
		{"has none", func(*os.Root, string, string) error { return errors.ErrUnsupported }, ProbeFacts{CreateRefuses: true}, "link: unsupported"},
		{"lies", func(*os.Root, string, string) error { return nil }, ProbeFacts{CreateRefuses: true}, "link: it reported success"},
		{"refuses, and replaces all the same", func(r *os.Root, from, to string) error {
			_, err := r.Stat(to)
			if copied := copies(r, from, to); copied != nil {
				return copied
			}
			if err == nil {
				return fs.ErrExist
			}
			return nil
		}, ProbeFacts{CreateRefuses: true, Links: true}, "a link was made under a name that was taken"},
	} {
		dir, id := marked(t)
		got, err := probe(dir, id, c.link)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got.Problem, c.says) || got.Synced <= 0 {
			t.Errorf("%s: %+v", c.name, got)
		}
		got.Problem, got.Synced = "", 0
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A probe that was killed leaves a folder; the next one removes it, and nothing else.
func TestProbeClearsUpAfterOthers(t *testing.T) {
	t.Parallel()
	dir, id := marked(t)
	for name, age := range map[string]time.Duration{"old": 2 * probeLeftOver, "young": 0} {
		in := filepath.Join(dir, probePrefix+name)
		if err := os.MkdirAll(filepath.Join(in, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(in, time.Now().Add(-age), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Probe(dir, id); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"old": false, "young": true} {
		if _, err := os.Stat(filepath.Join(dir, probePrefix+name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Meanwhile the folder counts as empty and as ours.
	l, err := OpenLocal(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if empty, err := l.Empty(t.Context()); err != nil || !empty {
		t.Errorf("%t, %v", empty, err)
	}
}

func TestLookAtAVolume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here, err := LookAtVolume(dir)
	if err != nil || here.System == "" || here.Size == 0 || here.Free > here.Size || here.FreeFiles > here.MaxFiles {
		t.Errorf("%+v, %v", here, err)
	}
	above, err := LookAtVolume(filepath.Join(dir, "not", "there"))
	if err != nil || above.Size != here.Size || above.System != here.System {
		t.Errorf("%+v, %v", above, err)
	}
	for system, want := range map[string]Keeping{
		"ext4": KeepsLocally, "apfs": KeepsLocally, "NTFS": KeepsLocally, "file system 0x1": KeepsLocally, "": KeepsLocally, "nfs": KeepsRemotely, "cifs": KeepsRemotely,
		"fuse": KeepsRemotely, "macfuse": KeepsRemotely, "smbfs": KeepsRemotely, "remote": KeepsRemotely, "tmpfs": KeepsInMemory, "overlay": KeepsInLayer,
	} {
		if got := keeping(system); got != want {
			t.Errorf("%q: %d, want %d", system, got, want)
		}
	}
}
