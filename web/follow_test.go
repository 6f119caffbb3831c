package web

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceline/fenceline/storage"
)

func TestPreferWait(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"": 0, "wait=10": 10 * time.Second, "respond-async, wait=5": 5 * time.Second, `Wait="3"; x=y`: 3 * time.Second,
		"wait=9999": longestWait, "wait=-1": 0, "wait=soon": 0, "wait": 0, "waiting=4": 0,
	} {
		if got := preferWait(http.Header{"Prefer": {value}}); got != want {
			t.Errorf("%q waits %s, want %s", value, got, want)
		}
	}
}

// The answer comes when the job ends, and when the wait is over.
func TestWaitForTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("acme")
	w.stream("/events", who).next(t, ": welcome") // the hub listens
	j := w.job("acme", "k", "K")
	short := w.get("/api/v1/jobs/"+j.ID.String(), who, "Prefer", "wait=1").want(t, 200, `"state":"queued"`)
	if short.Header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("the headers are %v", short.Header)
	}
	answers := make(chan answer, 1)
	go func() { answers <- w.get("/api/v1/jobs/"+j.ID.String(), who, "Prefer", "wait=15") }()
	eventually(t, "the request waits", func() bool {
		w.server.events.mu.Lock()
		defer w.server.events.mu.Unlock()
		return len(w.server.events.clients) == 2
	})
	b := w.begin(j, "w-1")
	w.seal(j, b, "a.csv", "id\n1\n")
	w.publish(b)
	select {
	case got := <-answers:
		got.want(t, 200, `"state":"done"`)
	case <-time.After(20 * time.Second):
		t.Fatal("the answer did not come with the end of the job")
	}
	if got := w.get("/api/v1/jobs/"+j.ID.String(), who).want(t, 200); got.Header.Get("Preference-Applied") != "" {
		t.Error("a preference was applied that nobody had")
	}
	late := w.call("/api/v1/jobs", who, `{"kind":"note","payload":{"text":"x"}}`, "Prefer", "wait=1").want(t, 202, `"state":"queued"`)
	if late.Header.Get("Preference-Applied") != "wait=1" || late.Header.Get("Location") == "" {
		t.Errorf("the headers are %v", late.Header)
	}
}

func TestStreamOfAJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.job("acme", "k", "K")
	w.get("/api/v1/jobs/"+j.ID.String()+"/events", w.token("globex")).want(t, 404)
	s := w.stream("/api/v1/jobs/"+j.ID.String()+"/events", w.token("acme"))
	s.holds(t, `"state":"queued"`)
	b := w.begin(j, "w-1")
	s.holds(t, `"state":"running"`)
	w.seal(j, b, "a.csv", "id\n1\n")
	w.publish(b)
	s.holds(t, `"state":"done"`)
	for {
		select {
		case _, more := <-s.lines:
			if !more {
				return
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the stream goes on after the end of its job")
		}
	}
}

// holds waits for a line with a text in it.
func (s *stream) holds(t *testing.T, text string) (line string) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				t.Fatalf("the stream ended before %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout:
			t.Fatalf("no %q came", text)
		}
	}
}

// Who comes back is told what it missed, of its own tenant only, or that it must look.
func TestEventsAreReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all, acme := w.token(""), w.token("acme")
	keep := w.stream("/api/v1/events", all)
	last := strings.TrimPrefix(keep.holds(t, "id: "), "id: ")
	mine, other := w.job("acme", "a", "A"), w.job("globex", "g", "G")
	keep.holds(t, mine.ExportID.String())
	keep.holds(t, other.ExportID.String())

	back := w.stream("/api/v1/events", acme, "Last-Event-ID", last)
	back.next(t, "data: "+mine.ExportID.String())
	w.job("acme", "a", "A")
	back.next(t, "data: "+mine.ExportID.String())
	if seen := back.seen(); strings.Contains(seen, other.ExportID.String()) || strings.Contains(seen, "resync") {
		t.Errorf("acme was told\n%s", seen)
	}
	w.stream("/api/v1/events", acme, "Last-Event-ID", "another-1").next(t, "event: resync")
	for range maxKept + 1 {
		w.server.events.heard(t.Context(), mine.ExportID)
	}
	w.stream("/api/v1/events", acme, "Last-Event-ID", last).next(t, "event: resync")
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := newThrottle(60) // one a second, ten at once
		for i := range 10 {
			if wait := limit.take("a"); wait != 0 {
				t.Fatalf("request %d waits %s", i, wait)
			}
		}
		if wait := limit.take("a"); wait <= 0 || wait > time.Second {
			t.Errorf("the eleventh waits %s", wait)
		}
		if wait := limit.take("b"); wait != 0 {
			t.Errorf("another caller waits %s", wait)
		}
		time.Sleep(time.Second)
		if limit.take("a") != 0 || limit.take("a") == 0 {
			t.Error("after a second it is not one more")
		}
		time.Sleep(time.Hour)
		for range maxTracked + 10 {
			limit.take(time.Now().String())
			time.Sleep(time.Millisecond)
		}
		if len(limit.buckets) > maxTracked {
			t.Errorf("%d callers are tracked", len(limit.buckets))
		}
		if free := newThrottle(0); free.take("a") != 0 {
			t.Error("no limit limits")
		}
	})
}

func TestAPIRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.APIRate = 12 })
	one, other := w.tokenThatMay("acme", storage.VerbView), w.tokenThatMay("globex", storage.VerbView)
	for range 2 {
		w.get("/api/v1/jobs", one).want(t, 200)
	}
	got := w.get("/api/v1/jobs", one).want(t, 429, "urn:fenceline:problem:rate-limited")
	if after := got.Header.Get("Retry-After"); after == "" || after == "0" {
		t.Errorf("Retry-After is %q", after)
	}
	w.get("/api/v1/jobs", other).want(t, 200)
}
