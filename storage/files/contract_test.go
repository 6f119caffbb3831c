package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/files/s3test"
)

// place names are used once, so that each test has its own in a store that others use too.
func place() files.Place { return files.Place{Export: uuid.New(), Token: 42, Attempt: uuid.New()} }

// kind is a store that keeps the contract of [files.Store].
type kind struct {
	// open opens an empty store and answers its location, and a way to put something strange into it.
	open func(t *testing.T) (s files.Store, location string, plant func(path, text string) error)
}

func kinds() map[string]kind {
	return map[string]kind{
		"local": {func(t *testing.T) (files.Store, string, func(path, text string) error) {
			dir := filepath.Join(t.TempDir(), "files")
			return openAt(t, dir, uuid.New()), dir, func(path, text string) error {
				to := filepath.Join(dir, filepath.FromSlash(path))
				return errors.Join(os.MkdirAll(filepath.Dir(to), 0o750), os.WriteFile(to, []byte(text), 0o600))
			}
		}},
		"s3": {func(t *testing.T) (files.Store, string, func(path, text string) error) {
			b := s3test.New(t)
			location := b.URL("some/prefix")
			return openAt(t, location, uuid.New()), location, func(path, text string) error { return b.Plant("some/prefix/"+path, text) }
		}},
	}
}

func openAt(t *testing.T, location string, installation uuid.UUID) files.Store {
	t.Helper()
	s, err := files.Open(t.Context(), location, installation, files.Ledger{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// each runs a test of the contract on every kind of store.
func each(t *testing.T, test func(t *testing.T, s files.Store, location string, plant func(path, text string) error)) {
	t.Parallel()
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, location, plant := k.open(t)
			test(t, s, location, plant)
		})
	}
}

func write(t *testing.T, s files.Store, p files.Place, object, text string) files.Written {
	t.Helper()
	w, err := s.Create(t.Context(), p, object)
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

func read(t *testing.T, s files.Store, p files.Place, object string) string {
	t.Helper()
	r, err := s.Open(t.Context(), p, object)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil || int64(len(text)) != r.Size() {
		t.Fatalf("%d bytes of %d, %v", len(text), r.Size(), err)
	}
	return string(text)
}

// 8 MiB are one part of an upload; a small object has none.
func TestContractSizes(t *testing.T) {
	each(t, func(t *testing.T, s files.Store, _ string, _ func(path, text string) error) {
		for _, size := range []int{0, 1, 5000, 8<<20 - 1, 8 << 20, 8<<20 + 1, 16 << 20, 40<<20 + 7} {
			content := make([]byte, size)
			_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(content)
			p := place()
			w, err := s.Create(t.Context(), p, "1-a.bin")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{bytes.NewReader(content)}, make([]byte, 100_003)); err != nil {
				t.Fatal(err)
			}
			done, err := w.Commit()
			w.Abort() // after Commit it does nothing
			if err != nil || done.Size != int64(size) || done.SHA256 != sha256.Sum256(content) {
				t.Errorf("%d bytes: %+v, %v", size, done, err)
			}
			if got := read(t, s, p, "1-a.bin"); got != string(content) {
				t.Errorf("%d bytes come back as other %d", size, len(got))
			}
		}
	})
}

func TestContractReadsAnywhere(t *testing.T) {
	each(t, func(t *testing.T, s files.Store, _ string, _ func(path, text string) error) {
		p, content := place(), strings.Repeat("0123456789", 3000)
		write(t, s, p, "1-a.txt", content)
		r, err := s.Open(t.Context(), p, "1-a.txt")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if r.Size() != int64(len(content)) {
			t.Errorf("size %d", r.Size())
		}
		if err := iotest.TestReader(r, []byte(content)); err != nil {
			t.Error(err)
		}
		for _, span := range [][2]int{{29_990, 10}, {0, 5}, {7, 20_000}, {15, 1}} {
			if _, err := r.Seek(int64(span[0]), io.SeekStart); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, span[1])
			if _, err := io.ReadFull(r, got); err != nil || string(got) != content[span[0]:span[0]+span[1]] {
				t.Errorf("%d bytes from %d: %q, %v", span[1], span[0], got, err)
			}
		}
		if _, err := r.Seek(-1, io.SeekStart); err == nil {
			t.Error("one can read from before the beginning")
		}
	})
}

func TestContractNothingShowsBeforeCommit(t *testing.T) {
	each(t, func(t *testing.T, s files.Store, _ string, _ func(path, text string) error) {
		for _, size := range []int{4, 20 << 20} {
			p := place()
			w, err := s.Create(t.Context(), p, "1-a.csv")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Open(t.Context(), p, "1-a.csv"); !errors.Is(err, files.ErrNotFound) {
				t.Errorf("an object that is being written: %v", err)
			}
			w.Abort()
			if _, err := s.Open(t.Context(), p, "1-a.csv"); !errors.Is(err, files.ErrNotFound) {
				t.Errorf("an object that was given up: %v", err)
			}
			if _, err := s.Remove(t.Context(), p); err != nil {
				t.Error(err)
			}
			nothingLeft(t, s, p)
		}
	})
}

// nothingLeft looks for objects and uploads.
func nothingLeft(t *testing.T, s files.Store, p files.Place) {
	t.Helper()
	if there, err := s.Present(t.Context(), p); err != nil || there {
		t.Errorf("something is left: %t, %v", there, err)
	}
	if bucket, ok := s.(*files.S3); ok {
		if list, err := bucket.Uploads(t.Context(), p); err != nil || len(list) != 0 {
			t.Errorf("uploads are left: %v, %v", list, err)
		}
	}
}

func TestContractANameIsUsedOnce(t *testing.T) {
	each(t, func(t *testing.T, s files.Store, _ string, _ func(path, text string) error) {
		for _, size := range []int{3, 9 << 20} { // at once, and in parts
			p := place()
			write(t, s, p, "1-a.csv", "first")
			w, err := s.Create(t.Context(), p, "1-a.csv")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write(make([]byte, size))
			if _, err := w.Commit(); !errors.Is(err, files.ErrExists) {
				t.Errorf("a second object of the same name: %v", err)
			}
			w.Abort()
			if text := read(t, s, p, "1-a.csv"); text != "first" {
				t.Errorf("the first object was replaced: %q", text)
			}
			if _, err := s.Remove(t.Context(), p); err != nil {
				t.Error(err)
			}
			nothingLeft(t, s, p)
		}
	})
}

// Whatever the writers do at once, one of them has written the object that is there.
func TestContractOneOfManyWritersWins(t *testing.T) {
	each(t, func(t *testing.T, s files.Store, _ string, _ func(path, text string) error) {
		for round := range 12 {
			p, size := place(), 10
			if round%4 == 0 {
				size = 9 << 20
			}
			var won atomic.Int32
			var winner atomic.Value
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					content := bytes.Repeat([]byte{byte('a' + i)}, size)
					w, err := s.Create(t.Context(), p, "1-a.csv")
					if err == nil {
						defer w.Abort()
						if _, err = w.Write(content); err == nil {
							_, err = w.Commit()
						}
					}
					if err == nil {
						won.Add(1)
						winner.Store(string(content[:1]))
					} else if !errors.Is(err, files.ErrExists) && !errors.Is(err, os.ErrNotExist) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := won.Load(); n != 1 {
				t.Fatalf("%d writers won", n)
			}
			if got := read(t, s, p, "1-a.csv"); len(got) != size || got[:1] != winner.Load() || got[size-1:] != got[:1] {
				t.Errorf("the object is not the winner's")
			}
		}
	})
}

func TestContractACancelledWriter(t *testing.T) {
	each(t, func(t *testing.T, s files.Store, _ string, _ func(path, text string) error) {
		p := place()
		ctx, cancel := context.WithCancelCause(t.Context())
		w, err := s.Create(ctx, p, "1-a.bin")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, 20<<20)); err != nil {
			t.Fatal(err)
		}
		why := errors.New("the lease is lost")
		cancel(why)
		if _, isLocal := s.(*files.Local); !isLocal { // a folder needs no time
			if _, err := w.Write(make([]byte, 1)); !errors.Is(err, why) {
				t.Errorf("a write after the end: %v", err)
			}
			if _, err := w.Commit(); !errors.Is(err, why) {
				t.Errorf("a commit after the end: %v", err)
			}
		}
		w.Abort()
		if bucket, ok := s.(*files.S3); ok {
			if list, err := bucket.Uploads(t.Context(), p); err != nil || len(list) != 0 {
				t.Errorf("Abort leaves uploads: %v, %v", list, err)
			}
		}
	})
}

func TestContractRemove(t *testing.T) {
	each(t, func(t *testing.T, s files.Store, _ string, _ func(path, text string) error) {
		p := place()
		other := files.Place{Export: p.Export, Token: 43, Attempt: uuid.New()}
		write(t, s, p, "1-a.csv", "12345")
		write(t, s, p, "2-b.csv", "123")
		write(t, s, other, "1-a.csv", "keep")
		if n, err := s.Remove(t.Context(), p); err != nil || n != 8 {
			t.Errorf("removed %d bytes, %v", n, err)
		}
		if n, err := s.Remove(t.Context(), p); err != nil || n != 0 {
			t.Errorf("removing what is gone: %d, %v", n, err)
		}
		nothingLeft(t, s, p)
		if text := read(t, s, other, "1-a.csv"); text != "keep" {
			t.Errorf("a neighbour: %q", text)
		}
		if _, err := s.Remove(t.Context(), other); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := s.RemoveFolder(t.Context(), p.Export); err != nil {
				t.Error(err)
			}
		}
		if empty, err := s.Empty(t.Context()); err != nil || !empty {
			t.Errorf("empty: %t, %v", empty, err)
		}
	})
}

func TestContractNamesOfOthers(t *testing.T) {
	each(t, func(t *testing.T, s files.Store, _ string, plant func(path, text string) error) {
		p := place()
		e, q := p.Export.String(), files.Place{Export: uuid.New(), Token: 7, Attempt: uuid.New()}
		write(t, s, p, "1-a.csv", "x")
		write(t, s, q, "2-b.csv", "four")
		strange := []string{e + "/notes", e + "/x-" + uuid.NewString() + "/1-a.csv", e + "/07-" + uuid.NewString() + "/1-a.csv", p.String() + "/sub/1-b.csv", "thesis.doc"}
		for _, path := range strange {
			if err := plant(path, "strange"); err != nil {
				t.Fatal(err)
			}
		}
		places, unknown, err := s.Places(t.Context(), p.Export)
		if err != nil || len(places) != 1 || places[0] != p || len(unknown) != 3 {
			t.Errorf("places %v, unknown %v, %v", places, unknown, err)
		}
		if places, unknown, err := s.Places(t.Context(), uuid.New()); err != nil || len(places)+len(unknown) != 0 {
			t.Errorf("an export without files: %v %v %v", places, unknown, err)
		}
		want := append(slices.Clone(strange), p.String()+"/1-a.csv", q.String()+"/2-b.csv")
		slices.Sort(want)
		var got []string
		err = s.List(t.Context(), func(o files.Object) error {
			got = append(got, o.Path)
			ours := o.Path == p.String()+"/1-a.csv" || o.Path == q.String()+"/2-b.csv"
			if o.Known != ours || ours && o.Place.String()+"/"+o.Name != o.Path || o.Modified.IsZero() {
				t.Errorf("%+v", o)
			}
			if o.Place == q && o.Size != 4 {
				t.Errorf("size %d", o.Size)
			}
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("listed %v, %v", got, err)
		}
		if empty, err := s.Empty(t.Context()); err != nil || empty {
			t.Errorf("empty: %t, %v", empty, err)
		}
	})
}

// A listing comes in pages of 1,000 from a bucket.
func TestContractListsMany(t *testing.T) {
	each(t, func(t *testing.T, s files.Store, _ string, plant func(path, text string) error) {
		const many = 2300
		e := uuid.New()
		for i := range many {
			if err := plant(files.Place{Export: e, Token: int64(i + 1), Attempt: uuid.New()}.String()+"/1-a.csv", "x"); err != nil {
				t.Fatal(err)
			}
		}
		n, last := 0, ""
		err := s.List(t.Context(), func(o files.Object) error {
			if n++; o.Path <= last || !o.Known {
				t.Errorf("%q after %q", o.Path, last)
			}
			last = o.Path
			return nil
		})
		if err != nil || n != many {
			t.Errorf("%d objects, %v", n, err)
		}
		if places, _, err := s.Places(t.Context(), e); err != nil || len(places) != many {
			t.Errorf("%d places, %v", len(places), err)
		}
		stop := errors.New("stop")
		if err := s.List(t.Context(), func(files.Object) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("it goes on: %v", err)
		}
	})
}

func TestContractBadNames(t *testing.T) {
	each(t, func(t *testing.T, s files.Store, _ string, _ func(path, text string) error) {
		for _, object := range []string{"../../secret", "..", ".", "", "a", "1-", "1-/etc/passwd", "1-a/../../b", "1-ä", "1-a\x00", `1-a\b`, "-a", "0-a", "1-a:b"} {
			if _, err := s.Create(t.Context(), place(), object); err == nil {
				t.Errorf("Create accepts %q", object)
			}
			if _, err := s.Open(t.Context(), place(), object); err == nil {
				t.Errorf("Open accepts %q", object)
			}
		}
		for name, want := range map[string]string{
			"orders.csv": "1-orders.csv", "INV/2026-0007, মেসার্স.pdf": "1-INV_2026-0007_.pdf", "../../etc/passwd": "1-.._.._etc_passwd",
			"": "1-file", "..": "1-..", "日本語": "1-_", strings.Repeat("x", 300) + ".csv": "1-" + strings.Repeat("x", 86) + ".csv",
		} {
			got := files.ObjectName(1, name)
			if got != want {
				t.Errorf("ObjectName(%q) = %q, want %q", name, got, want)
			}
			write(t, s, place(), got, "x") // every name that is made is one that is accepted
		}
	})
}

func TestContractTheRootBelongsToOneInstallation(t *testing.T) {
	t.Parallel()
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, location, plant := k.open(t)
			other := strings.Replace(location, "some/prefix", "another", 1)
			if other == location {
				other += "2"
			}
			ours := uuid.New()
			var wg sync.WaitGroup
			for range 4 { // many processes may start at once
				wg.Go(func() {
					s, err := files.Open(t.Context(), other, ours, files.Ledger{})
					if err != nil {
						t.Error(err)
						return
					}
					if err := s.CheckMarker(t.Context(), ours); err != nil {
						t.Error(err)
					}
					_ = s.Close()
				})
			}
			wg.Wait()
			if _, err := files.Open(t.Context(), other, uuid.New(), files.Ledger{}); !errors.Is(err, files.ErrOtherInstallation) {
				t.Errorf("another installation: %v", err)
			}
			if err := plant("FENCELINE.json", "{"); err != nil {
				t.Fatal(err)
			}
			if _, err := files.Open(t.Context(), location, ours, files.Ledger{}); err == nil {
				t.Error("a damaged mark was accepted")
			}
		})
	}
}

func TestContractAStrangeRoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.doc"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := s3test.New(t)
	if err := b.Plant("p/thesis.doc", "x"); err != nil {
		t.Fatal(err)
	}
	for _, location := range []string{dir, b.URL("p")} {
		if _, err := files.Open(t.Context(), location, uuid.New(), files.Ledger{}); !errors.Is(err, files.ErrOtherInstallation) || !strings.Contains(err.Error(), "thesis.doc") {
			t.Errorf("a place with other files: %v", err)
		}
	}
}

// A mark is replaced as a whole, and only by its own installation.
func TestContractTheMark(t *testing.T) {
	each(t, func(t *testing.T, s files.Store, _ string, _ func(path, text string) error) {
		m, err := s.ReadMark(t.Context())
		if err != nil || m.Installation == uuid.Nil {
			t.Fatal(m, err)
		}
		m.Beat, m.Epoch = 7, uuid.New()
		if err := s.WriteMark(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if got, err := s.ReadMark(t.Context()); err != nil || got.Beat != 7 || got.Epoch != m.Epoch || got.Installation != m.Installation {
			t.Errorf("%+v, %v", got, err)
		}
		m.Installation = uuid.New()
		if err := s.WriteMark(t.Context(), m); !errors.Is(err, files.ErrOtherInstallation) {
			t.Errorf("another installation's: %v", err)
		}
	})
}
