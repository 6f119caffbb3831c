package main

import (
	"net/http"
	"sync"
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
	var hurt sync.Map // what was hurt and not asked for again: an address that is hurt three times in a row is one that cannot be reached
	proxy := s3test.NewProxy(t, b, func(r *http.Request) s3test.Fault {
		turn, what := n.Add(1)%11, r.Method+" "+r.URL.String()
		if _, again := hurt.LoadAndDelete(what); again {
			return s3test.None
		}
		switch turn {
		case 3, 6, 9:
			hurt.Store(what, true)
		}
		switch turn {
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
