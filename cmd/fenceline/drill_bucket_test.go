package main

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage/files/s3test"
)

// The drills hold on a bucket that fails, is slow, and loses replies now and then.
func TestDrillsHoldOnABucketThatDoesHarm(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	b := s3test.New(t)
	var n atomic.Int64
	proxy := s3test.NewProxy(t, b, func(r *http.Request) s3test.Fault {
		switch n.Add(1) % 11 {
		case 3:
			return s3test.SlowDown
		case 6:
			return s3test.Fail
		case 9:
			return s3test.LoseReply
		}
		return s3test.None
	})
	delete(s.env, "FILES_DIR")
	s.env["FILES_URL"] = b.Via(proxy.URL, "drills", "timeout=2s")
	s.env["AWS_ACCESS_KEY_ID"], s.env["AWS_SECRET_ACCESS_KEY"] = s3test.AccessKey, s3test.SecretKey
	drills := map[string]*drillProcess{}
	for _, name := range []string{"pause", "kill", "flush", "double"} {
		drills[name] = s.drill(name, "--json")
	}
	for name, p := range drills {
		if r := p.report(exitDone); !r.Held || len(r.Broken) > 0 || r.File == nil || r.File.Before != r.File.After {
			t.Errorf("%s: %s", name, p.out.String())
		}
	}
	if n.Load() < 30 {
		t.Errorf("only %d requests came to the bucket", n.Load())
	}
	s.ok("verify")
}
