package storage_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/files/s3test"
)

// Clean-ups run again and again beside an attempt that is at work: it keeps all its parts and publishes them. On a
// bucket each file is an upload of several parts, which is in no listing of objects.
func TestSweepLeavesAnAttemptAtWorkAlone(t *testing.T) {
	t.Parallel()
	for _, bucket := range []bool{false, true} {
		t.Run(fmt.Sprintf("bucket %t", bucket), func(t *testing.T) {
			t.Parallel()
			s := newSwept(t)
			var store files.Store = s.local
			if bucket {
				id, err := s.store.Installation(s.ctx)
				s.must(err)
				store, err = files.Open(s.ctx, s3test.New(t).URL(""), id, s.store.Uploads())
				s.must(err)
				t.Cleanup(func() { _ = store.Close() })
			}
			job := s.insert(newJob("sales"))
			begun := s.begin(job)
			s.exec("UPDATE fenceline.attempts SET started_at = started_at - interval '1 day' WHERE id = $1", begun.ID)
			p := s.place(job, begun)
			// Nothing has to be old, but for an attempt to be silent.
			o := storage.SweepOptions{Grace: time.Minute, Quarantine: -time.Hour, Superseded: -time.Hour, Worker: "test"}
			sweeps := func() {
				s.t.Helper()
				s.must(s.store.Heartbeat(s.ctx, begun.ID, storage.Progress{Step: "write"}))
				_, b := s.attempt(fmt.Sprint("garbage ", rand.Uint64())) //nolint:gosec // a name
				_, err := s.store.EndAttempt(s.ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "disk full", Counts: true, Final: true})
				s.must(err)
				res, err := storage.NewSweep(s.store, store, o).Run(s.ctx)
				if s.must(err); res.Planned != 1 || res.Deleted != 1 || res.Failed+res.UnknownCount != 0 {
					t.Errorf("a run beside it: %+v", res)
				}
			}
			sealed := storage.Sealed{Rows: 3}
			for n := range 2 {
				sealed.Files = append(sealed.Files, s.writesBeside(s.ctx, store, p, n+1, sweeps))
			}
			s.must(s.store.Seal(s.ctx, begun.ID, sealed))
			res, err := storage.NewSweep(s.store, store, o).Run(s.ctx)
			if s.must(err); res.Deleted != 0 {
				t.Errorf("a run beside what is sealed: %+v", res)
			}
			s.must(s.store.Publish(s.ctx, begun.ID))
			_, err = storage.NewSweep(s.store, store, o).Run(s.ctx)
			s.must(err)
			s.pointer(job.ExportID, begun.Token)
			for _, f := range sealed.Files {
				s.holds(store, p, f)
			}
		})
	}
}

// part is more than what a bucket takes in one request.
const part = 6 << 20

// writesBeside writes a file of several parts, and lets others do something between them.
func (s *swept) writesBeside(ctx context.Context, store files.Store, p files.Place, n int, between func()) storage.File {
	s.t.Helper()
	name := fmt.Sprintf("orders%d.csv", n)
	w, err := store.Create(ctx, p, files.ObjectName(n, name))
	s.must(err)
	defer w.Abort()
	sum := sha256.New()
	for i := range 5 {
		_, err := io.MultiWriter(w, sum).Write(bytes.Repeat([]byte{byte(10*n + i)}, part))
		s.must(err)
		between()
	}
	_, err = w.Commit()
	s.must(err)
	between()
	return storage.File{Name: name, Object: files.ObjectName(n, name), Format: "csv", MediaType: "text/csv", Size: 5 * part, SHA256: sum.Sum(nil), Rows: 1}
}

// holds reports whether a published file is there with all its bytes.
func (s *swept) holds(store files.Store, p files.Place, f storage.File) {
	s.t.Helper()
	r, err := store.Open(s.ctx, p, f.Object)
	s.must(err)
	defer func() { _ = r.Close() }()
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	s.must(err)
	if n != f.Size || !bytes.Equal(sum.Sum(nil), f.SHA256) {
		s.t.Errorf("%s has %d bytes and the hash %x, want %d and %x", f.Name, n, sum.Sum(nil), f.Size, f.SHA256)
	}
}
