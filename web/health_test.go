package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

var principalAll = principal{scope: storage.Scope{All: true}}

// newPlainServer serves a handler by itself.
func newPlainServer(t *testing.T, h http.Handler) string {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestReady(t *testing.T) {
	t.Parallel()
	var answer func(context.Context) error
	w := newWorld(t, func(c *Config) { c.Ready = func(ctx context.Context) error { return answer(ctx) } })
	for _, tt := range []struct {
		ready  func(context.Context) error
		status int
		word   string
	}{
		{func(context.Context) error { return nil }, 200, "ready"},
		{func(context.Context) error { return fmt.Errorf("ask: %w", NotReady("database")) }, 503, "database"},
		{func(context.Context) error { return errors.New("dial tcp 10.0.0.7: secret") }, 503, "unavailable"},
		{func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 503, "timeout"},
	} {
		answer = tt.ready
		got := w.get("/readyz", nobody).want(t, tt.status)
		if strings.TrimSpace(got.body) != tt.word {
			t.Errorf("readyz says %q, want %q", got.body, tt.word)
		}
	}
	w.get("/healthz", nobody).want(t, 200, "ok")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("/metrics", w.token("")).want(t, 200, "fenceline_up 1")
	w.get("/metrics", w.token("acme")).want(t, 403, "all-tenants-only").without(t, "fenceline_up")
}

func TestStopEndsStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.stream("/events", w.token(""))
	s.next(t, ": welcome")
	start := time.Now()
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > shutdownGrace/2 {
		t.Errorf("stopping took %s with an open event stream", took)
	}
	if word := w.server.unready(w.ctx); word != "stopping" {
		t.Errorf("a stopped server is %q", word)
	}
}
