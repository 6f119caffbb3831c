package storage_test

import (
	"path/filepath"
	"testing"

	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/files/s3test"
)

// shelf is where files lie, whichever database and process opens it.
type shelf struct{ location string }

// onEachShelf tells a story with files in a folder and with files in a bucket.
func onEachShelf(t *testing.T, story func(t *testing.T, s shelf)) {
	t.Helper()
	for name, location := range map[string]func(t *testing.T) string{
		"folder": func(t *testing.T) string { return filepath.Join(t.TempDir(), "files") },
		"bucket": func(t *testing.T) string { return s3test.New(t).URL("site") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, shelf{location(t)})
		})
	}
}

// open opens the files as a process of the world's database does, new ones for the first time.
func (s shelf) open(w *world) files.Store {
	w.t.Helper()
	id, err := w.store.Installation(w.ctx)
	w.must(err)
	f, err := files.Open(w.ctx, s.location, id, w.store.Uploads())
	w.must(err)
	w.t.Cleanup(func() { _ = f.Close() })
	return f
}
