package web

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/files/s3test"
)

// Downloads stream from a bucket: ranges, ETags and HEAD are as of a folder, and memory does not grow with the
// file. Alone, as it measures what the process allocates.
func TestDownloadsStreamFromABucket(t *testing.T) {
	var bucket files.Store
	w := newWorld(t, func(c *Config) {
		id := must(c.Store.Installation(t.Context()))(t)
		bucket = must(files.Open(t.Context(), s3test.New(t).URL("web"), id, c.Store.Uploads()))(t)
		t.Cleanup(func() { _ = bucket.Close() })
		c.Files = bucket
	})
	const size = 64 << 20
	j := w.job("acme", "large", "Large")
	b := w.begin(j, "w-1")
	object := files.ObjectName(1, "large.csv")
	out := must(bucket.Create(w.ctx, files.Place{Export: j.ExportID, Token: b.Token, Attempt: b.ID}, object))(t)
	line := strings.Repeat("0123456789abcdef", 4096)
	for range size / len(line) {
		must(out.Write([]byte(line)))(t)
	}
	done := must(out.Commit())(t)
	must(0, w.store.Seal(w.ctx, b.ID, storage.Sealed{Rows: 1, DataAsOf: time.Now(), Files: []storage.File{{
		Name: "large.csv", Object: object, Format: "csv", MediaType: "text/csv", Size: done.Size, SHA256: done.SHA256[:], Rows: 1}}}))(t)
	w.publish(b)
	who, path := w.person("Ada", "acme"), exportPath(j.ExportID)+"/files/large.csv"

	head := w.send("HEAD", path, who, nil)
	tag := head.Header.Get("Etag")
	if head.StatusCode != 200 || head.ContentLength != size || tag == "" || head.Header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("HEAD: %d, %v", head.StatusCode, head.Header)
	}
	part := w.get(path, who, "Range", fmt.Sprintf("bytes=%d-%d", size-20, size-5), "If-Range", tag).want(t, 206)
	if part.body != "cdef0123456789ab" || part.Header.Get("Content-Range") != fmt.Sprintf("bytes %d-%d/%d", size-20, size-5, size) {
		t.Errorf("a part: %q %s", part.body, part.Header.Get("Content-Range"))
	}
	w.get(path, who, "Range", fmt.Sprintf("bytes=%d-", size)).want(t, 416)
	w.get(path, who, "If-None-Match", tag).want(t, 304)

	r := must(http.NewRequestWithContext(w.ctx, "GET", w.base+path, nil))(t)
	r.Header.Set(who.name, who.value)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res := must(http.DefaultClient.Do(r))(t)
	defer res.Body.Close()
	n := must(io.Copy(io.Discard, res.Body))(t)
	runtime.ReadMemStats(&after)
	if grew := after.TotalAlloc - before.TotalAlloc; n != size || grew > size/8 {
		t.Errorf("%d bytes came, and %d were allocated for them", n, grew)
	}
}
