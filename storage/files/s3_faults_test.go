package files_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/files/s3test"
)

// hurtStore is a bucket behind a proxy that does harm.
func hurtStore(t *testing.T) (*files.S3, *s3test.Proxy) {
	t.Helper()
	b := s3test.New(t)
	p := s3test.NewProxy(t, b, nil)
	s, err := files.Open(t.Context(), b.Via(p.URL, "hurt", "timeout=2s"), uuid.New(), files.Ledger{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	bucket := s.(*files.S3)
	if err := bucket.CheckConditions(t.Context()); err != nil {
		t.Fatal(err)
	}
	return bucket, p
}

// first harms the first so many requests of an operation.
func first(many int32, operation string, fault s3test.Fault) func(*http.Request) s3test.Fault {
	var n atomic.Int32
	return func(r *http.Request) s3test.Fault {
		if s3test.Operation(r) == operation && n.Add(1) <= many {
			return fault
		}
		return s3test.None
	}
}

// attempt writes an object of a size as an attempt does, and gives it up after an error.
func attempt(ctx context.Context, s files.Store, p files.Place, size int) error {
	w, err := s.Create(ctx, p, "1-a.bin")
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(make([]byte, size)); err != nil {
		return err
	}
	_, err = w.Commit()
	return err
}

// Whatever becomes of a request, the object is there in full or the attempt has
// failed with the reason; and after the clean-up nothing is left.
func TestFaultsOfAStore(t *testing.T) {
	t.Parallel()
	const always, small, large = 1 << 30, 100, 20 << 20
	for _, c := range []struct {
		name      string
		size      int
		operation string
		many      int32
		fault     s3test.Fault
		says      string // empty: it succeeds
	}{
		{"a put fails once", small, "PutObject", 1, s3test.Fail, ""},
		{"a put fails for ever", small, "PutObject", always, s3test.Fail, "InternalError"},
		{"a put is slowed down", small, "PutObject", 2, s3test.SlowDown, ""},
		{"a put is slowed down for ever", small, "PutObject", always, s3test.SlowDown, "SlowDown"},
		{"a put stalls once", small, "PutObject", 1, s3test.Stall, ""},
		{"a put stalls for ever", small, "PutObject", always, s3test.Stall, "no progress for 2s"},
		{"the reply of a put is lost", small, "PutObject", 1, s3test.LoseReply, ""},
		{"every reply of a put is lost", small, "PutObject", always, s3test.LoseReply, ""},
		{"a put conflicts", small, "PutObject", 1, s3test.Conflict, ""},
		{"a put is denied", small, "PutObject", always, s3test.Deny, "refuses these credentials"},
		{"the bucket is gone", small, "PutObject", always, s3test.NoBucket, "does not exist"},
		{"an upload cannot begin", large, "CreateMultipartUpload", always, s3test.Fail, "InternalError"},
		{"the reply of a beginning is lost", large, "CreateMultipartUpload", 1, s3test.LoseReply, ""},
		{"a part fails once", large, "UploadPart", 1, s3test.Fail, ""},
		{"a part fails for ever", large, "UploadPart", always, s3test.Fail, "InternalError"},
		{"a part is cut", large, "UploadPart", 2, s3test.Cut, ""},
		{"a part stalls for ever", large, "UploadPart", always, s3test.Stall, "no progress for 2s"},
		{"the reply of a part is lost", large, "UploadPart", 1, s3test.LoseReply, ""},
		{"a completion fails for ever", large, "CompleteMultipartUpload", always, s3test.SlowDown, "SlowDown"},
		{"the reply of a completion is lost", large, "CompleteMultipartUpload", 1, s3test.LoseReply, ""},
		{"every reply of a completion is lost", large, "CompleteMultipartUpload", always, s3test.LoseReply, ""},
		{"a completion conflicts", large, "CompleteMultipartUpload", 1, s3test.Conflict, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, proxy := hurtStore(t)
			before, p := place(), place()
			write(t, s, before, "1-a.bin", "published before")
			proxy.Judge(first(c.many, c.operation, c.fault))
			err := attempt(t.Context(), s, p, c.size)
			proxy.Judge(nil)
			if c.says == "" {
				if err != nil {
					t.Errorf("it failed: %v", err)
				} else if got := read(t, s, p, "1-a.bin"); len(got) != c.size {
					t.Errorf("%d bytes are there", len(got))
				}
			} else if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the reason is %v, want: %s", err, c.says)
			}
			if list, err := s.Uploads(t.Context(), p); err != nil || len(list) != 0 {
				t.Errorf("uploads are left: %v, %v", list, err)
			}
			if _, err := s.Remove(t.Context(), p); err != nil {
				t.Error(err)
			}
			nothingLeft(t, s, p)
			if text := read(t, s, before, "1-a.bin"); text != "published before" {
				t.Errorf("an earlier object: %q", text)
			}
		})
	}
}

// A download goes on where it was when the connection breaks.
func TestABrokenDownload(t *testing.T) {
	t.Parallel()
	s, proxy := hurtStore(t)
	p, content := place(), strings.Repeat("0123456789", 400_000)
	write(t, s, p, "1-a.txt", content)
	proxy.Judge(first(3, "GetObject", s3test.Cut))
	if got := read(t, s, p, "1-a.txt"); got != content {
		t.Errorf("%d bytes come back", len(got))
	}
	proxy.Judge(first(1<<30, "GetObject", s3test.Stall))
	r, err := s.Open(t.Context(), p, "1-a.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Read(make([]byte, 10)); err == nil || !strings.Contains(err.Error(), "no progress") {
		t.Errorf("a store that says nothing: %v", err)
	}
}

// A bucket that is gone is not an object that is missing.
func TestABucketThatIsGone(t *testing.T) {
	t.Parallel()
	b := s3test.New(t)
	s := openAt(t, b.URL("x"), uuid.New())
	if err := b.Remove(""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), place(), "1-a"); err == nil || errors.Is(err, files.ErrNotFound) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("open: %v", err)
	}
	if err := attempt(t.Context(), s, place(), 10); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("create: %v", err)
	}
}

func TestAServerThatIgnoresConditions(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"PutObject", "CompleteMultipartUpload"} {
		b := s3test.New(t)
		proxy := s3test.NewProxy(t, b, func(r *http.Request) s3test.Fault {
			if s3test.Operation(r) == operation {
				return s3test.Replace
			}
			return s3test.None
		})
		s := openAt(t, b.Via(proxy.URL, "x"), uuid.New())
		if err := attempt(t.Context(), s, place(), 10); !errors.Is(err, files.ErrNoConditions) {
			t.Errorf("%s: %v", operation, err)
		}
		if empty, err := s.Empty(t.Context()); err != nil || !empty {
			t.Errorf("the probe has left something: %v", err)
		}
	}
}

// A cancelled attempt does not wait for a store that stalls.
func TestCancelWhileTheStoreStalls(t *testing.T) {
	t.Parallel()
	s, proxy := hurtStore(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the lease is lost")
	proxy.Judge(func(r *http.Request) s3test.Fault {
		if s3test.Operation(r) == "UploadPart" {
			cancel(why)
			return s3test.Stall
		}
		return s3test.None
	})
	p, start := place(), time.Now()
	if err := attempt(ctx, s, p, 40<<20); !errors.Is(err, why) {
		t.Errorf("the reason is %v", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	nothingLeft(t, s, p)
}
