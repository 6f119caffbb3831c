package files_test

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage/files"
)

func open(t *testing.T) *files.Local {
	t.Helper()
	l, err := files.OpenLocal(filepath.Join(t.TempDir(), "files"), uuid.New())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	l, p := open(t), place()
	got := write(t, l, p, "1-a.csv", "hello")
	if got.Size != 5 || got.SHA256 != sha256.Sum256([]byte("hello")) {
		t.Errorf("written: %+v", got)
	}
	f, err := l.Open(t.Context(), p, "1-a.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "hello" {
		t.Errorf("read %q, %v", text, err)
	}
	names, err := os.ReadDir(filepath.Join(l.Dir(), p.String()))
	if err != nil || len(names) != 1 {
		t.Errorf("the folder holds %v, %v: want the object alone", names, err)
	}
}

func TestNoPathLeadsOutside(t *testing.T) {
	t.Parallel()
	l := open(t)
	secret := filepath.Join(filepath.Dir(l.Dir()), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := place()
	for _, object := range []string{"../../secret", "..", ".", "", "a", "1-", "1-/etc/passwd", "1-a/../../b", "1-ä", "1-a\x00", `1-a\b`, "-a", "0-a", "1-a:b"} {
		if _, err := l.Create(t.Context(), p, object); err == nil {
			t.Errorf("Create accepts %q", object)
		}
		if _, err := l.Open(t.Context(), p, object); err == nil {
			t.Errorf("Open accepts %q", object)
		}
	}
	// Not even a planted link leads out.
	dir := filepath.Join(l.Dir(), p.String())
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "1-a.csv")); err != nil {
		t.Fatal(err)
	}
	if f, err := l.Open(t.Context(), p, "1-a.csv"); err == nil {
		f.Close()
		t.Error("a link out of the root was followed")
	}
	if _, err := l.Remove(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(secret); err != nil {
		t.Error("Remove followed a link:", err)
	}
}

// A folder that goes away under the writer is an error, and nothing becomes visible.
func TestTheFolderIsLost(t *testing.T) {
	t.Parallel()
	l, p := open(t), place()
	dir := filepath.Join(l.Dir(), p.String())
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	w, err := l.Create(t.Context(), p, "1-a.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	// The folder goes away under the writer, as with a volume that was lost.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, "x")
	if _, err := w.Commit(); err == nil {
		t.Error("a file was committed into a folder that is gone")
	}
	if _, err := l.Open(t.Context(), p, "1-a.csv"); !errors.Is(err, files.ErrNotFound) {
		t.Errorf("open: %v", err)
	}
}
