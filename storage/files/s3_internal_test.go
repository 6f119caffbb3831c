package files

import (
	"strings"
	"testing"
	"time"
)

// 10,000 parts are enough for the largest object that there may be, and none is larger than allowed.
func TestPartSizes(t *testing.T) {
	t.Parallel()
	var sum int64
	for number := int32(1); number <= 10_000; number++ {
		size := partSize(number)
		if size < firstPart || size > 5<<30 || number > 1 && size < partSize(number-1) {
			t.Fatalf("part %d has %d bytes", number, size)
		}
		sum += int64(size)
	}
	if sum < 5<<40 || partSize(evenParts) != firstPart {
		t.Errorf("all parts have %d bytes, the thousandth %d", sum, partSize(evenParts))
	}
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Location{
		"/srv/exports":                {Dir: "/srv/exports"},
		"file:///srv/exports":         {Dir: "/srv/exports"},
		"s3://exports":                {Bucket: "exports", Timeout: usualTimeout},
		"s3://exports/a/b/?region=x":  {Bucket: "exports", Prefix: "a/b", Region: "x", Timeout: usualTimeout},
		"s3://exp/?endpoint=http://h": {Bucket: "exp", Endpoint: "http://h", PathStyle: true, Timeout: usualTimeout},
		"s3://exp?endpoint=https://h:1/&path_style=false&timeout=5s": {Bucket: "exp", Endpoint: "https://h:1", Timeout: 5 * time.Second},
	} {
		if got, err := ParseURL(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"": "must be", "s3:/x": "must be", "file://host/x": "three slashes", "file:///x?y=1": "no parameters", "gs://bucket": `"gs"`,
		"s3://key:hunter2@bucket": "name or password", "s3://AB": "bucket of", "s3://bucket/a//b": "prefix", "s3://bucket/../a": "prefix",
		"s3://bucket?region=": "region", "s3://bucket?endpoint=h": "endpoint", "s3://bucket?path_style=maybe": "path_style",
		"s3://bucket?timeout=1ms": "timeout", "s3://bucket?secret=hunter2": "not known", "s3://bucket?region=a&region=b": "more than once", "s3://bucket#x": "#",
	} {
		if _, err := ParseURL(text); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want: %s", text, err, says)
		}
	}
}
