package storagetest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// recorder is a [T] that keeps failures instead of failing.
type recorder struct {
	ctx context.Context

	mu       sync.Mutex
	failures []string
}

// record plays a law and answers how it failed. Like a test, the law runs on a
// goroutine of its own, which Fatalf ends.
func record(ctx context.Context, l law, d Deployment) []string {
	r := &recorder{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.on(r, d)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Logf(string, ...any)      {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func TestRecorderKeepsFailures(t *testing.T) {
	t.Parallel()
	d := Deployment{URL: "postgres://nobody@127.0.0.1:1/none"} // pools connect when they are used
	after, cleaned := false, false
	got := record(t.Context(), law{"scene", func(s *scene) {
		defer func() { cleaned = true }()
		s.Errorf("one %d", 1)
		s.Fatalf("two")
		after = true
	}}, d)
	if strings.Join(got, ",") != "one 1,two" || after || !cleaned {
		t.Errorf("kept %q; went on: %t, cleaned up: %t", got, after, cleaned)
	}
	if got := record(t.Context(), law{"scene", func(*scene) {}}, d); len(got) != 0 {
		t.Errorf("kept %q of a law that holds", got)
	}
}
