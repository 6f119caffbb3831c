package storage_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/files/s3test"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// The laws do not ask where the files lie.
func TestLawsWithABucket(t *testing.T) {
	t.Parallel()
	storagetest.Laws(t, func(t *testing.T) storagetest.Deployment {
		b := s3test.New(t)
		return storagetest.DeployAt(t, storagetest.Database(t, migrate), b.URL("laws"), func(path, text string) error { return b.Plant("laws/"+path, text) })
	})
}

// A worker that was killed leaves an upload, which is in no listing of objects.
func TestSweepAbortsUploads(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	b := s3test.New(t)
	id, err := s.store.Installation(s.ctx)
	s.must(err)
	store, err := files.Open(s.ctx, b.URL(""), id, s.store.Uploads())
	s.must(err)
	t.Cleanup(func() { _ = store.Close() })
	bucket := store.(*files.S3)
	job := s.insert(newJob("sales"))
	begun := s.begin(job)
	p := s.place(job, begun)
	w, err := store.Create(s.ctx, p, "1-large.csv")
	s.must(err)
	t.Cleanup(w.Abort)
	_, err = w.Write(make([]byte, 30<<20))
	s.must(err)
	left := func() (listed, recorded int) {
		list, err := bucket.Uploads(s.ctx, p)
		s.must(err)
		again, err := s.store.Uploads().Open(s.ctx, p.Attempt)
		s.must(err)
		return len(list), len(again)
	}
	if listed, recorded := left(); listed != 1 || recorded != 1 {
		t.Errorf("%d uploads are listed, %d recorded", listed, recorded)
	}
	sweep := storage.NewSweep(s.store, store, storage.SweepOptions{Grace: -time.Hour, Quarantine: -time.Hour, Worker: "test"})
	res, err := sweep.Run(s.ctx)
	s.must(err)
	if listed, recorded := left(); listed != 0 || recorded != 0 || res.Deleted != 1 || res.Bytes == 0 {
		t.Errorf("%d uploads are listed, %d recorded after %+v", listed, recorded, res)
	}
	if _, err := w.Commit(); err == nil { // the worker was only frozen
		t.Error("an upload was completed that the clean-up has ended")
	}
	late, err := store.Create(s.ctx, p, "2-large.csv")
	s.must(err)
	_, err = late.Write(make([]byte, 30<<20))
	if !errors.Is(err, storage.ErrCondemned) {
		t.Errorf("an upload after the verdict: %v", err)
	}
	late.Abort()
	if listed, recorded := left(); listed != 0 || recorded != 0 {
		t.Errorf("%d uploads are listed, %d recorded at last", listed, recorded)
	}
}
