package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// Written is what the store promises about an object after [Writer.Commit].
type Written struct {
	Size   int64
	SHA256 [sha256.Size]byte
}

// localWriter writes under a temporary name beside the object's.
type localWriter struct {
	local *Local
	file  *os.File
	hash  hash.Hash
	temp  string
	name  string
	size  int64
	begun int64 // what the kernel was asked to write to the disk already
	ended bool
	err   error
}

// writebackEvery is how much is gathered in memory before the disk begins to work
// on it: without this all of a large file is written by the fsync at its end, while
// nothing else goes on.
const writebackEvery = 8 << 20

// partialSuffix ends the names of objects that are being written.
const partialSuffix = ".partial"

// Create is [Store.Create].
func (l *Local) Create(_ context.Context, p Place, object string) (Writer, error) {
	if err := checkObject(object); err != nil {
		return nil, err
	}
	if err := l.makePlace(p); err != nil {
		return nil, err
	}
	w, err := l.create(path.Join(p.String(), "."+object+partialSuffix), path.Join(p.String(), object))
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (l *Local) create(temp, name string) (*localWriter, error) {
	f, err := l.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %s is being written", ErrExists, name)
	}
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", temp, err)
	}
	return &localWriter{local: l, file: f, hash: sha256.New(), temp: temp, name: name}, nil
}

// makePlace makes the attempt's folder, durable up to the root.
func (l *Local) makePlace(p Place) error {
	if _, err := l.root.Stat(p.String()); err == nil {
		return nil
	}
	if err := l.root.MkdirAll(p.String(), 0o750); err != nil {
		return fmt.Errorf("create folder %s: %w", p, err)
	}
	if err := l.syncDir(p.Export.String()); err != nil {
		return err
	}
	return l.syncDir(".")
}

func (w *localWriter) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.file.Write(b)
	w.hash.Write(b[:n])
	w.size += int64(n)
	if err != nil {
		w.err = fmt.Errorf("write %s: %w", w.name, err)
	}
	if w.size-w.begun >= writebackEvery {
		startWriteback(w.file, w.begun, w.size-w.begun)
		w.begun = w.size
	}
	return n, w.err
}

// Commit is hash, fsync, close, link(2) (which unlike rename(2) refuses to
// replace), unlink of the temporary name, fsync of the folder. An error ends the
// attempt: what an fsync has refused once may be lost even if a second one
// succeeds.
func (w *localWriter) Commit() (Written, error) {
	if w.err != nil {
		return Written{}, w.err
	}
	if err := w.file.Sync(); err != nil {
		return Written{}, fmt.Errorf("fsync %s: %w", w.name, err)
	}
	if err := w.file.Close(); err != nil {
		return Written{}, fmt.Errorf("close %s: %w", w.name, err)
	}
	w.ended = true
	err := w.local.root.Link(w.temp, w.name)
	_ = w.local.root.Remove(w.temp) // left behind, it is an orphan of this attempt and swept with it
	if errors.Is(err, fs.ErrExist) {
		return Written{}, fmt.Errorf("%w: %s", ErrExists, w.name)
	}
	if err != nil {
		return Written{}, fmt.Errorf("link %s: %w", w.name, err)
	}
	if err := w.local.syncDir(path.Dir(w.name)); err != nil {
		return Written{}, err
	}
	return Written{Size: w.size, SHA256: [sha256.Size]byte(w.hash.Sum(nil))}, nil
}

// Abort closes the file; what was written stays under its temporary name until
// the sweep (a worker never deletes what its attempt wrote).
func (w *localWriter) Abort() {
	if !w.ended {
		w.ended = true
		_ = w.file.Close()
	}
}

// ObjectName is the name under which the ordinal-th file of an attempt is kept:
// the ordinal and what plain letters its display name has, such as
// "1-orders-2026.csv". It is never empty, hidden or longer than 100 bytes.
func ObjectName(ordinal int, name string) string {
	const most = 90
	var b strings.Builder
	for _, r := range name {
		switch {
		case r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_'):
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	s := b.String()
	if len(s) > most { // the end holds the extension
		s = s[len(s)-most:]
	}
	if s == "" {
		s = "file"
	}
	return strconv.Itoa(ordinal) + "-" + s
}

// ManifestName is the object beside the files of an attempt that tells what they
// are. It is written last, and no file of an export: those begin with 1.
const ManifestName = "0-manifest.json"

func checkObject(object string) error {
	if object == ManifestName {
		return nil
	}
	ordinal, rest, found := strings.Cut(object, "-")
	if n, err := strconv.Atoi(ordinal); !found || err != nil || n < 1 || rest == "" {
		return fmt.Errorf("object name %q is not one that Fenceline makes", object)
	}
	if strings.ContainsFunc(object, func(r rune) bool {
		return r >= 128 || !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	}) {
		return fmt.Errorf("object name %q is not one that Fenceline makes", object)
	}
	return nil
}
