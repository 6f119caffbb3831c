package storage_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/files/s3test"
)

// What a recovery asks of a bucket.
const (
	callList         = "list"
	callMarkRead     = "read the mark"
	callMarkWrite    = "write the mark"
	callManifestLook = "look at a manifest"
	callManifestRead = "read a manifest"
	callFileLook     = "look at a file"
	callFileRead     = "read a file"
	callBucketLook   = "look at the bucket"
	callAny          = "anything"
)

// callOf is which of them a request is.
func callOf(r *http.Request) string {
	operation, name := s3test.Operation(r), path.Base(r.URL.Path)
	look, marked := operation == "HeadObject", name == "FENCELINE.json"
	switch {
	case operation == "ListObjectsV2":
		return callList
	case operation == "PutObject":
		return callMarkWrite
	case marked:
		return callMarkRead
	case name == files.ManifestName && look:
		return callManifestLook
	case name == files.ManifestName:
		return callManifestRead
	case look && strings.Count(r.URL.Path, "/") < 2:
		return callBucketLook
	case look:
		return callFileLook
	}
	return callFileRead
}

// from harms every request of a kind from the nth on.
func from(nth int32, call string, fault s3test.Fault, met func()) func(*http.Request) s3test.Fault {
	var n atomic.Int32
	return func(r *http.Request) s3test.Fault {
		if call != callAny && callOf(r) != call || n.Add(1) < nth {
			return s3test.None
		}
		met()
		return fault
	}
}

// recoveryFaults are the places at which a recovery meets its bucket, with the words that name what failed there.
func recoveryFaults() (list []recoveryFault) {
	places := []struct {
		call string
		nth  int32
		says string
		some []s3test.Fault
	}{
		{callList, 1, "look at the files: list s3://", []s3test.Fault{s3test.SlowDown, s3test.Deny, s3test.NoBucket}},
		{callList, 2, "look at the files: list s3://", nil},
		{callMarkRead, 1, "read FENCELINE.json", []s3test.Fault{s3test.Cut}},
		{callMarkRead, 2, "read FENCELINE.json", nil},
		{callMarkRead, 3, "is missing, and perhaps all of the files: read FENCELINE.json", []s3test.Fault{s3test.Deny}},
		{callMarkRead, 4, "read FENCELINE.json", nil},
		{callManifestLook, 1, "read the manifest of", []s3test.Fault{s3test.SlowDown, s3test.Deny}},
		{callManifestRead, 1, "read the manifest of", []s3test.Fault{s3test.SlowDown, s3test.Deny, s3test.NoBucket}},
		{callFileLook, 1, `file "orders.csv"`, []s3test.Fault{s3test.SlowDown, s3test.Deny}},
		{callFileLook, 2, `file "orders.csv"`, []s3test.Fault{s3test.SlowDown, s3test.Deny}},
		{callFileRead, 1, `file "orders.csv"`, []s3test.Fault{s3test.SlowDown, s3test.NoBucket}},
		{callMarkWrite, 1, "write FENCELINE.json", []s3test.Fault{s3test.SlowDown, s3test.Deny}},
		{callAny, 4, "", []s3test.Fault{s3test.NoBucket}},
		{callAny, 7, "", []s3test.Fault{s3test.NoBucket, s3test.Deny}},
	}
	for _, p := range places {
		for _, fault := range append([]s3test.Fault{s3test.Fail, s3test.Stall, s3test.LoseReply}, p.some...) {
			list = append(list, recoveryFault{call: p.call, nth: p.nth, says: p.says, fault: fault})
		}
	}
	return list
}

type recoveryFault struct {
	call  string
	nth   int32
	says  string
	fault s3test.Fault
}

// reason is what an operator is told of a fault. The answer to a HEAD has no body that could name it.
func (c recoveryFault) reason() string {
	return map[s3test.Fault]string{
		s3test.Fail: "status 500", s3test.SlowDown: "status 503", s3test.Deny: "refuses these credentials", s3test.NoBucket: "does not exist",
		s3test.Stall: "made no progress for 1s", s3test.LoseReply: "cannot be reached", s3test.Cut: "cannot be reached",
	}[c.fault]
}

// A bucket that fails is not a bucket in which something is missing: the recovery ends with what failed and why, the
// database stays closed, nothing is given up, and the next recovery comes to what an undisturbed one comes to.
func TestRecoverOnABucketThatFails(t *testing.T) {
	t.Parallel()
	for _, c := range recoveryFaults() {
		t.Run(fmt.Sprintf("%s %d fault %d", c.call, c.nth, c.fault), func(t *testing.T) {
			t.Parallel()
			h, proxy, hurt := newHurt(t)
			before := h.objects()
			var met atomic.Bool
			proxy.Judge(from(c.nth, c.call, c.fault, func() { met.Store(true) }))
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			sum, err := storage.Recover(ctx, h.w.store, hurt, storage.RecoverOptions{Adopt: true, FilesLost: true})
			proxy.Judge(nil)
			if !met.Load() {
				t.Fatalf("the fault was not met: %+v, %v", sum, err)
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.reason()) || sum.Done {
				t.Errorf("the recovery says %v\nwant %q and %q; %+v", err, c.says, c.reason(), sum)
			}
			h.staysClosed()
			if after := h.objects(); !maps.Equal(before, after) {
				t.Errorf("the bucket held %v, and holds %v", before, after)
			}
			h.finishes()
		})
	}
}

// newHurt is a [harmed] world whose recovery goes through a proxy.
func newHurt(t *testing.T) (*harmed, *s3test.Proxy, files.Store) {
	t.Helper()
	b := s3test.New(t)
	h := newHarmed(t, shelf{b.URL("site")})
	proxy := s3test.NewProxy(t, b, nil)
	return h, proxy, shelf{b.Via(proxy.URL, "site", "timeout=1s")}.open(h.w)
}

// objects are the sizes of all objects, the mark aside.
func (h *harmed) objects() map[string]int64 {
	h.w.t.Helper()
	all := map[string]int64{}
	h.w.must(h.f.List(h.w.ctx, func(o files.Object) error {
		all[o.Path] = o.Size
		return nil
	}))
	return all
}

// staysClosed checks that nothing is published, cleaned up or given up after a recovery that broke off.
func (h *harmed) staysClosed() {
	w := h.w
	w.t.Helper()
	w.store.Close()
	w.store = openStore(w.t, w.url)
	if err := w.store.Pair(w.ctx, h.f); !errors.Is(err, storage.ErrRecoveryNeeded) {
		w.t.Errorf("all seems well: %v", err)
	}
	if err := w.store.Publish(w.ctx, h.at["sealed"].ID); !errors.Is(err, storage.ErrRecoveryNeeded) {
		w.t.Errorf("it publishes: %v", err)
	}
	if _, err := storage.NewSweep(w.store, h.f, everyAge).Run(w.ctx); !errors.Is(err, storage.ErrRecoveryNeeded) {
		w.t.Errorf("it cleans up: %v", err)
	}
	var wrong int
	w.must(w.query("SELECT count(*) FROM fenceline.exports WHERE files_lost_at IS NOT NULL AND key <> 'gone'").Scan(&wrong))
	if wrong != 0 {
		w.t.Errorf("files of %d exports were given up that are there", wrong)
	}
}

// Whoever has enough of waiting for a bucket that says nothing ends it at once.
func TestRecoverIsInterruptedWhileTheBucketStalls(t *testing.T) {
	t.Parallel()
	for _, call := range []string{callList, callMarkRead, callManifestLook, callManifestRead, callFileLook, callFileRead, callMarkWrite} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			b := s3test.New(t)
			h := newHarmed(t, shelf{b.URL("site")})
			proxy := s3test.NewProxy(t, b, nil)
			patient := shelf{b.Via(proxy.URL, "site", "timeout=10m")}.open(h.w)
			ctx, cancel := context.WithCancel(t.Context())
			var since time.Time
			proxy.Judge(from(1, call, s3test.Stall, func() {
				since = time.Now()
				cancel()
			}))
			_, err := storage.Recover(ctx, h.w.store, patient, storage.RecoverOptions{Adopt: true, FilesLost: true})
			took := time.Since(since)
			proxy.Judge(nil)
			if !errors.Is(err, context.Canceled) || took > 30*time.Second {
				t.Errorf("after %s: %v", took, err)
			}
			h.staysClosed()
			h.finishes()
		})
	}
}
