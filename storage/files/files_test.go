package files_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

func place() files.Place { return files.Place{Export: uuid.New(), Token: 42, Attempt: uuid.New()} }

func write(t *testing.T, l *files.Local, p files.Place, object, text string) files.Written {
	t.Helper()
	w, err := l.Create(t.Context(), p, object)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	done, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return done
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

// A large file goes to the disk while it is written; nothing of it is different.
func TestALargeFile(t *testing.T) {
	t.Parallel()
	l, p := open(t), place()
	w, err := l.Create(t.Context(), p, "1-large")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	h, piece := sha256.New(), make([]byte, 1<<20+7)
	for i := range 20 {
		piece[0] = byte(i)
		h.Write(piece)
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	done, err := w.Commit()
	if err != nil || done.Size != 20*int64(len(piece)) || !bytes.Equal(done.SHA256[:], h.Sum(nil)) {
		t.Fatalf("%+v, %v", done, err)
	}
	f, err := l.Open(t.Context(), p, "1-large")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := sha256.New()
	if _, err := io.Copy(read, f); err != nil || !bytes.Equal(read.Sum(nil), h.Sum(nil)) {
		t.Errorf("the file holds something else, %v", err)
	}
}

func TestNothingShowsBeforeCommit(t *testing.T) {
	t.Parallel()
	l, p := open(t), place()
	w, err := l.Create(t.Context(), p, "1-a.csv")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, "half")
	if _, err := l.Open(t.Context(), p, "1-a.csv"); !errors.Is(err, files.ErrNotFound) {
		t.Errorf("a file that is being written: %v", err)
	}
	w.Abort()
	if _, err := l.Open(t.Context(), p, "1-a.csv"); !errors.Is(err, files.ErrNotFound) {
		t.Errorf("a file that was given up: %v", err)
	}
}

func TestANameIsUsedOnce(t *testing.T) {
	t.Parallel()
	l, p := open(t), place()
	write(t, l, p, "1-a.csv", "first")
	w, err := l.Create(t.Context(), p, "1-a.csv")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, "second")
	if _, err := w.Commit(); !errors.Is(err, files.ErrExists) {
		t.Errorf("a second file of the same name: %v", err)
	}
	f, err := l.Open(t.Context(), p, "1-a.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, _ := io.ReadAll(f); string(text) != "first" {
		t.Errorf("the first file was replaced: %q", text)
	}
}

func TestOneOfManyWritersWins(t *testing.T) {
	t.Parallel()
	l, p := open(t), place()
	var mu sync.Mutex
	won := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			w, err := l.Create(t.Context(), p, "1-a.csv")
			if err == nil {
				_, err = w.Commit()
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, files.ErrExists) && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d writers won", won)
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

func TestObjectName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"orders.csv": "1-orders.csv", "INV/2026-0007, মেসার্স.pdf": "1-INV_2026-0007_.pdf", "../../etc/passwd": "1-.._.._etc_passwd",
		"": "1-file", "..": "1-..", "日本語": "1-_", strings.Repeat("x", 300) + ".csv": "1-" + strings.Repeat("x", 86) + ".csv",
	} {
		got := files.ObjectName(1, name)
		if got != want {
			t.Errorf("ObjectName(%q) = %q, want %q", name, got, want)
		}
		l, p := open(t), place()
		write(t, l, p, got, "x") // every name that is made is one that is accepted
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	l, p := open(t), place()
	other := files.Place{Export: p.Export, Token: 43, Attempt: uuid.New()}
	write(t, l, p, "1-a.csv", "12345")
	write(t, l, p, "2-b.csv", "123")
	write(t, l, other, "1-a.csv", "keep")
	if n, err := l.Remove(t.Context(), p); err != nil || n != 8 {
		t.Errorf("removed %d bytes, %v", n, err)
	}
	if n, err := l.Remove(t.Context(), p); err != nil || n != 0 {
		t.Errorf("removing what is gone: %d, %v", n, err)
	}
	if there, err := l.Present(t.Context(), p); err != nil || there {
		t.Error("still there", err)
	}
	if there, err := l.Present(t.Context(), other); err != nil || !there {
		t.Error("a neighbour was removed", err)
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	l, p := open(t), place()
	write(t, l, p, "1-a.csv", "x")
	for _, stranger := range []string{"notes", "x-" + uuid.NewString(), "0-" + uuid.NewString(), "07-" + uuid.NewString()} {
		if err := os.Mkdir(filepath.Join(l.Dir(), p.Export.String(), stranger), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	places, unknown, err := l.Places(t.Context(), p.Export)
	if err != nil || len(places) != 1 || places[0] != p || len(unknown) != 4 {
		t.Errorf("places %v, unknown %v, %v", places, unknown, err)
	}
	if places, unknown, err := l.Places(t.Context(), uuid.New()); err != nil || len(places)+len(unknown) != 0 {
		t.Errorf("an export without files: %v %v %v", places, unknown, err)
	}
}

func TestTheRootBelongsToOneInstallation(t *testing.T) {
	t.Parallel()
	dir, ours := t.TempDir(), uuid.New()
	var wg sync.WaitGroup
	for range 4 { // many processes may start at once
		wg.Go(func() {
			l, err := files.OpenLocal(dir, ours)
			if err != nil {
				t.Error(err)
				return
			}
			_ = l.Close()
		})
	}
	wg.Wait()
	if _, err := files.OpenLocal(dir, uuid.New()); !errors.Is(err, files.ErrOtherInstallation) {
		t.Errorf("another installation: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "FENCELINE.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := files.OpenLocal(dir, ours); err == nil {
		t.Error("a damaged mark was accepted")
	}
	strange := t.TempDir()
	if err := os.WriteFile(filepath.Join(strange, "thesis.doc"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := files.OpenLocal(strange, ours); !errors.Is(err, files.ErrOtherInstallation) {
		t.Errorf("a folder with other files: %v", err)
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
