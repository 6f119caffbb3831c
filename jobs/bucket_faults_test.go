package jobs_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/files/s3test"
)

// bucketWorld is a world whose files lie in a bucket behind a proxy that does harm.
type bucketWorld struct {
	*world
	proxy  *s3test.Proxy
	bucket files.Store // through the proxy, as the worker has it
	calm   files.Store // past the proxy
}

func newBucketWorld(t *testing.T) *bucketWorld {
	w := newWorld(t, redistest.Shared(t))
	b := s3test.New(t)
	proxy := s3test.NewProxy(t, b, nil)
	id, err := w.store.Installation(w.ctx)
	w.must(err)
	open := func(endpoint string) files.Store {
		s, err := files.Open(w.ctx, b.Via(endpoint, "jobs", "timeout=1s"), id, w.store.Uploads())
		w.must(err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	return &bucketWorld{w, proxy, open(proxy.URL), open(b.Endpoint)}
}

// harms gives the first so many requests of an operation a fault.
func harms(many int32, operation string, fault s3test.Fault) func(*http.Request) s3test.Fault {
	var n atomic.Int32
	return func(r *http.Request) s3test.Fault {
		if s3test.Operation(r) == operation && n.Add(1) <= many {
			return fault
		}
		return s3test.None
	}
}

// sized writes a file of so many bytes that begins with a word.
func sized(word string, size int) func(context.Context, *jobs.Run) error {
	return func(_ context.Context, r *jobs.Run) error {
		return writeFile(r, word+strings.Repeat(".", size-len(word)))
	}
}

// Whole jobs, from dispatch to publication, while the store does harm: a job is published with all of its
// file or not at all, what was published before stays, and what lost is gone after a clean-up.
func TestJobsOnABucketThatDoesHarm(t *testing.T) {
	t.Parallel()
	const always, small, large = 1 << 30, 1000, 20 << 20
	for _, c := range []struct {
		operation string
		size      int
		many      int32
		fault     s3test.Fault
		name      string
	}{
		{"PutObject", small, 1, s3test.Fail, "fails once"},
		{"PutObject", small, 3, s3test.SlowDown, "is slow"},
		{"PutObject", small, 1, s3test.Stall, "stalls once"},
		{"PutObject", small, 2, s3test.LoseReply, "loses two replies"},
		{"PutObject", small, always, s3test.Fail, "fails"},
		{"PutObject", small, always, s3test.Stall, "stalls"},
		{"PutObject", small, always, s3test.LoseReply, "loses every reply"},
		{"PutObject", small, always, s3test.NoBucket, "is gone"},
		{"CreateMultipartUpload", large, always, s3test.SlowDown, "is slow"},
		{"CreateMultipartUpload", large, 1, s3test.LoseReply, "loses a reply"},
		{"UploadPart", large, 2, s3test.Cut, "is cut"},
		{"UploadPart", large, always, s3test.Fail, "fails"},
		{"UploadPart", large, always, s3test.LoseReply, "loses every reply"},
		{"CompleteMultipartUpload", large, 1, s3test.LoseReply, "loses a reply"},
		{"CompleteMultipartUpload", large, always, s3test.LoseReply, "loses every reply"},
		{"CompleteMultipartUpload", large, always, s3test.SlowDown, "is slow"},
	} {
		t.Run(c.operation+" "+c.name, func(t *testing.T) {
			t.Parallel()
			w := newBucketWorld(t)
			w.handle("before", sized("before", 100))
			w.handle("after", sized("after", c.size))
			w.worker(func(conf *jobs.WorkerConfig) { conf.Files = w.bucket })
			before := w.ends(w.dispatch("before", "sales"), storage.JobDone)
			w.proxy.Judge(harms(c.many, c.operation, c.fault))
			job := w.dispatch("after", "sales", jobs.MaxAttempts(2), jobs.BackoffFixed(time.Hour))
			w.until("it waits for its second try, or has ended", func() bool {
				j := w.job(job.ID)
				return j.State.Ended() || j.State == storage.JobQueued && j.Failures > 0
			})
			w.onlyWhole(before, job, c.size)
			w.proxy.Judge(nil)
			if j := w.job(job.ID); !j.State.Ended() {
				t.Logf("tried again after: %s", deref(j.Error))
				w.due(job)
			}
			w.ends(job, storage.JobDone)
			w.onlyWhole(before, job, c.size)
			w.nothingLost()
		})
	}
}

// onlyWhole says what is wrong unless the pointer names the file of the job in full, or else that of the one before.
func (w *bucketWorld) onlyWhole(before, job storage.Job, size int) {
	w.t.Helper()
	e, err := w.store.Export(w.ctx, everything, before.ExportID)
	w.must(err)
	a, err := w.store.Attempt(w.ctx, *e.AttemptID)
	w.must(err)
	want := 100
	if done := w.job(job.ID).State == storage.JobDone; done != (a.JobID == job.ID) {
		w.t.Errorf("the job is done: %t, and the pointer names the attempt of job %s", done, a.JobID)
	} else if done {
		want = size
	}
	if a.Bytes != int64(want) {
		w.t.Errorf("the pointer names %d bytes, want %d", a.Bytes, want)
	}
	sum, err := storage.Verify(w.ctx, w.store, w.calm, storage.VerifyOptions{}, func(v storage.Violation) {
		if !v.Warning {
			w.t.Error(v)
		}
	})
	if err != nil || sum.Unknown != 0 {
		w.t.Errorf("%d names that nobody accounts for, %v", sum.Unknown, err)
	}
}

// nothingLost cleans up at once, also while the store does harm, and looks what is left: the current file alone.
func (w *bucketWorld) nothingLost() {
	w.t.Helper()
	at := func(f files.Store) (storage.SweepResult, error) {
		return storage.NewSweep(w.store, f, storage.SweepOptions{Grace: -time.Hour, Quarantine: -time.Hour, Superseded: -time.Hour, Worker: "test"}).Run(w.ctx)
	}
	w.proxy.Judge(harms(1, "DeleteObject", s3test.LoseReply))
	if _, err := at(w.bucket); err != nil {
		w.t.Errorf("a clean-up that lost a reply: %v", err)
	}
	w.proxy.Judge(nil)
	if res, err := at(w.calm); err != nil || res.Failed > 0 {
		w.t.Errorf("the last clean-up: %+v, %v", res, err)
	}
	owners := map[string]int{}
	w.must(w.calm.List(w.ctx, func(o files.Object) error {
		owners[o.Place.Attempt.String()]++
		return nil
	}))
	var current string
	w.ask(&current, "SELECT attempt_id::text FROM fenceline.exports")
	if len(owners) != 1 || owners[current] != 2 {
		w.t.Errorf("objects are left of %v, want two of %s: its file and its manifest", owners, current)
	}
	for _, a := range w.all() {
		list, err := w.calm.(*files.S3).Uploads(w.ctx, files.Place{Export: a.ExportID, Token: a.Token, Attempt: a.ID})
		if err != nil || len(list) > 0 {
			w.t.Errorf("uploads are left of attempt %s: %v, %v", fmt.Sprint(a.Token), list, err)
		}
	}
}

// all are the attempts of every job.
func (w *bucketWorld) all() (list []storage.Attempt) {
	w.t.Helper()
	page, err := w.store.Jobs(w.ctx, everything, storage.JobFilter{})
	w.must(err)
	for _, j := range page.Items {
		list = append(list, w.attempts(j)...)
	}
	return list
}
