package web

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

func TestDownload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const content = "id,name\n1,\"মেসার্স\"\n2,x\n"
	j, b := w.published("acme", "k", "K", "বিক্রয় “2026”.csv", content)
	sum := sha256.Sum256([]byte(content))
	for path, who := range map[string]creds{exportPath(j.ExportID): w.person("Nadia", ""), "/api/v1" + exportPath(j.ExportID): w.token("acme")} {
		path += "/files/" + url.PathEscape("বিক্রয় “2026”.csv")
		got := w.get(path, who).want(t, 200)
		if got.body != content {
			t.Errorf("%s gave %q", path, got.body)
		}
		h := got.Header
		if h.Get("ETag") != `"`+hex.EncodeToString(sum[:])+`"` || h.Get("Cache-Control") != "private, no-cache" || h.Get("Content-Type") != "text/csv; charset=utf-8" {
			t.Errorf("%s has the headers %v", path, h)
		}
		if at, err := http.ParseTime(h.Get("Last-Modified")); err != nil || time.Since(at) > time.Minute {
			t.Errorf("Last-Modified is %q", h.Get("Last-Modified"))
		}
		head := w.send("HEAD", path, who, nil).want(t, 200)
		if head.body != "" || head.ContentLength != int64(len(content)) {
			t.Errorf("HEAD answered %d bytes of %d", len(head.body), head.ContentLength)
		}
		w.get(path, who, "If-None-Match", h.Get("ETag")).want(t, 304)
		part := w.get(path, who, "Range", "bytes=3-6", "If-Range", h.Get("ETag")).want(t, 206)
		if part.body != content[3:7] || part.Header.Get("Content-Range") == "" {
			t.Errorf("a range gave %q", part.body)
		}
		if whole := w.get(path, who, "Range", "bytes=3-6", "If-Range", `"other"`).want(t, 200); whole.body != content {
			t.Errorf("a range of another version gave %q", whole.body)
		}
		w.get(path, who, "Range", "bytes=999-").want(t, 416)
		w.get(path+"?attempt="+b.ID.String(), who).want(t, 200, "মেসার্স")
		w.get(path+"x", who).want(t, 404)
	}
}

// What was never published cannot be had, whoever knows its id.
func TestDownloadByPointerOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	j, stale, current := w.fenced("acme", "k", "K")
	base := "/api/v1" + exportPath(j.ExportID) + "/files/"
	w.get(base+"second.csv", who).want(t, 200)
	w.get(base+"first.csv", who).want(t, 404)
	w.get(base+"first.csv?attempt="+stale.ID.String(), who).want(t, 404)
	w.get(base+"second.csv?attempt="+uuid.NewString(), who).want(t, 404)
	w.get(base+"second.csv?attempt=x", who).want(t, 404)
	w.get(base+"second.csv?attempt="+current.ID.String(), who).want(t, 200)
	waiting := w.job("acme", "w", "W")
	w.get("/api/v1"+exportPath(waiting.ExportID)+"/files/second.csv", who).want(t, 404)
}

// A pinned publication stays as long as its files do; then it is gone, not another one.
func TestDownloadPinned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("")
	j, old := w.published("acme", "k", "K", "k.csv", "id\nold\n")
	w.published("acme", "k", "K", "k.csv", "id\nnew\n")
	path := "/api/v1" + exportPath(j.ExportID) + "/files/k.csv"
	w.get(path, who).want(t, 200, "new")
	w.get(path+"?attempt="+old.ID.String(), who).want(t, 200, "old")

	removed := must(w.files.Remove(t.Context(), files.Place{Export: j.ExportID, Token: old.Token, Attempt: old.ID}))(t) // the clean-up deletes first and records then
	if removed == 0 {
		t.Fatal("nothing was removed")
	}
	w.get(path+"?attempt="+old.ID.String(), who).want(t, 410, "files-gone")
	sweep := storage.NewSweep(w.store, w.files, storage.SweepOptions{Worker: "sweeper"})
	must(sweep.Run(w.ctx))(t)
	w.get(path+"?attempt="+old.ID.String(), who).want(t, 410, "files-gone")
	w.get(exportPath(j.ExportID)+"/files/k.csv?attempt="+old.ID.String(), w.person("Nadia", "")).want(t, 410, "These files are gone")
	w.get(path, who).want(t, 200, "new")
}

// A current file that is missing or of another size is our fault, and said so loudly.
func TestDownloadOfALostFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j, b := w.published("acme", "k", "K", "k.csv", "id\n1\n")
	must(w.files.Remove(t.Context(), files.Place{Export: j.ExportID, Token: b.Token, Attempt: b.ID}))(t)
	got := w.get("/api/v1"+exportPath(j.ExportID)+"/files/k.csv", w.token("")).want(t, 500, "internal")
	if got.Header.Get("ETag") != "" || got.Header.Get("Content-Disposition") != "" {
		t.Errorf("a failed download has the headers %v", got.Header)
	}
	eventually(t, "the log says that L1 is broken", func() bool { return strings.Contains(w.log.String(), "law L1 is broken") })
}

// What is replaced and swept in the moment between look and open is looked for again, once.
func TestLookTwice(t *testing.T) {
	t.Parallel()
	gone := fmt.Errorf("%w: x", files.ErrNotFound)
	for _, tt := range []struct {
		answers []error
		want    error
		looks   int
	}{
		{[]error{nil}, nil, 1}, {[]error{gone, nil}, nil, 2}, {[]error{gone, gone}, gone, 2}, {[]error{errMissing}, errMissing, 1}, {[]error{gone, errMissing}, errMissing, 2},
	} {
		looks := 0
		_, err := lookTwice(func() (opened, error) {
			looks++
			return opened{}, tt.answers[looks-1]
		})
		if !errors.Is(err, tt.want) || looks != tt.looks {
			t.Errorf("%v: %d looks and %v, want %d and %v", tt.answers, looks, err, tt.looks, tt.want)
		}
	}
}

// A file of another size than was published is not sent.
func TestDownloadOfAChangedFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j, b := w.published("acme", "k", "K", "k.csv", "id\n1\n")
	place := files.Place{Export: j.ExportID, Token: b.Token, Attempt: b.ID}
	if err := os.Truncate(filepath.Join(w.files.Dir(), place.String(), files.ObjectName(1, "k.csv")), 2); err != nil {
		t.Fatal(err)
	}
	w.get("/api/v1"+exportPath(j.ExportID)+"/files/k.csv", w.token("")).want(t, 500, "internal")
}

func TestAttachment(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"orders.csv":          `attachment; filename="orders.csv"`,
		"a b;c=d.csv":         `attachment; filename="a b;c=d.csv"`,
		`say "hi" \ 50%.csv`:  `attachment; filename="say _hi_ _ 50_.csv"; filename*=UTF-8''say%20%22hi%22%20%5C%2050%25.csv`,
		"a\r\nSet-Cookie: x":  `attachment; filename="a__Set-Cookie: x"; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20x`,
		"ÄÖ’s (1).pdf":        `attachment; filename="___s (1).pdf"; filename*=UTF-8''%C3%84%C3%96%E2%80%99s%20%281%29.pdf`,
		"emoji 😀 and 'x'.csv": `attachment; filename="emoji _ and 'x'.csv"; filename*=UTF-8''emoji%20%F0%9F%98%80%20and%20%27x%27.csv`,
	} {
		got := attachment(name)
		if got != want {
			t.Errorf("%q is sent as\n%s, want\n%s", name, got, want)
		}
		kind, params, err := mime.ParseMediaType(got)
		if err != nil || kind != "attachment" || params["filename"] != name {
			t.Errorf("%q is read back as %q %q %v", name, kind, params["filename"], err)
		}
	}
}
