package web

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// stream is an open event stream.
type stream struct {
	header http.Header
	lines  chan string
}

func (w *world) stream(path string, who creds, header ...string) *stream {
	w.t.Helper()
	eventually(w.t, "the hub listens", func() bool {
		h := w.server.events
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.last > 0 // it tells everybody to look when it begins
	})
	ctx, cancel := context.WithCancel(w.ctx)
	w.t.Cleanup(cancel)
	r := must(http.NewRequestWithContext(ctx, "GET", w.base+path, nil))(w.t)
	r.Header.Set(who.name, who.value)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res := must(http.DefaultClient.Do(r))(w.t)
	if res.StatusCode != 200 {
		w.t.Fatalf("%s answered %d", path, res.StatusCode)
	}
	s := &stream{res.Header, make(chan string, 1000)}
	go func() {
		defer close(s.lines)
		defer res.Body.Close()
		for scan := bufio.NewScanner(res.Body); scan.Scan(); {
			s.lines <- scan.Text()
		}
	}()
	return s
}

// next waits for a line.
func (s *stream) next(t *testing.T, want string) {
	t.Helper()
	timeout := time.After(60 * time.Second)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				t.Fatalf("the stream ended before %q", want)
			}
			if line == want {
				return
			}
		case <-timeout:
			t.Fatalf("no %q came", want)
		}
	}
}

// seen is what has come so far.
func (s *stream) seen() string {
	var all []string
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return strings.Join(all, "\n")
			}
			all = append(all, line)
		default:
			return strings.Join(all, "\n")
		}
	}
}

func TestEventsByTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all, acme, globex := w.stream("/events", w.token("")), w.stream("/events", w.token("acme")), w.stream("/events", w.person("Gus", "globex"))
	for _, s := range []*stream{all, acme, globex} {
		s.next(t, ": welcome")
	}
	if h := all.header; h.Get("X-Accel-Buffering") != "no" || h.Get("Content-Type") != "text/event-stream" {
		t.Errorf("the stream has the headers %v", h)
	}
	mine, other := w.job("acme", "a", "A"), w.job("globex", "g", "G")
	all.next(t, "data: "+mine.ExportID.String())
	all.next(t, "data: "+other.ExportID.String())
	acme.next(t, "data: "+mine.ExportID.String())
	globex.next(t, "data: "+other.ExportID.String())
	last := w.job("acme", "a", "A") // comes after all others: when it is here, nothing else is on its way
	acme.next(t, "data: "+last.ExportID.String())
	w.job("globex", "g", "G")
	globex.next(t, "data: "+other.ExportID.String())
	if text := acme.seen(); strings.Contains(text, other.ExportID.String()) {
		t.Errorf("acme heard of an export of globex:\n%s", text)
	}
	if text := globex.seen(); strings.Contains(text, mine.ExportID.String()) {
		t.Errorf("globex heard of an export of acme:\n%s", text)
	}
}

func TestEventsOfOneExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.job("acme", "a", "A"), w.job("acme", "b", "B")
	s := w.stream("/events?export="+one.ExportID.String(), w.token("acme"), "Last-Event-ID", "7")
	s.next(t, "event: resync") // it missed something that nobody kept
	w.job("acme", "b", "B")
	w.begin(one, "w-1")
	s.next(t, "data: "+one.ExportID.String())
	if text := s.seen(); strings.Contains(text, other.ExportID.String()) {
		t.Errorf("the stream of one export tells about another:\n%s", text)
	}
	w.get("/events?export="+one.ExportID.String(), w.token("globex")).want(t, 404)
	w.get("/events?export=x", w.token("")).want(t, 404)
}

func TestHubBoundsSlowClients(t *testing.T) {
	t.Parallel()
	h := newHub(nil, slog.New(slog.NewTextHandler(io.Discard, nil)))
	id := uuid.New()
	h.tenants[id] = "acme"
	c := &client{scope: storage.Scope{All: true}, wake: make(chan struct{}, 1)}
	h.join(c)
	for range 1000 {
		h.heard(t.Context(), id)
	}
	if changed, resync, last := h.take(c); len(changed) != 1 || resync || last == 0 {
		t.Errorf("one export that changed often waits as %d changes, resync %v, id %d", len(changed), resync, last)
	}
	for range maxPending + 1 {
		id := uuid.New()
		h.tenants[id] = "acme"
		h.heard(t.Context(), id)
	}
	if changed, resync, _ := h.take(c); len(changed) != 0 || !resync {
		t.Errorf("a slow client has %d changes, resync %v; want only a resync", len(changed), resync)
	}
	h.leave(c)
	h.heard(t.Context(), id)
	if changed, _, _ := h.take(c); len(changed) != 0 {
		t.Error("a client that left still collects")
	}
}

func TestStreamEndsWithItsSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	r := must(http.NewRequestWithContext(w.ctx, "GET", w.base+"/events", nil))(t)
	r.Header.Set(who.name, who.value)
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, &request{principal: principal{name: "Nadia", scope: storage.Scope{All: true}}}))
	if !w.server.stillWelcome(r) {
		t.Error("somebody who is signed in is not welcome")
	}
	w.post("/signout", who, nil).want(t, 303)
	if w.server.stillWelcome(r) {
		t.Error("somebody who signed out is still welcome")
	}
}

// A stream of the API ends soon after its token was revoked or its session has ended.
func TestStreamsEndWithTheirCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.beat = 20 * time.Millisecond })
	j := w.job("acme", "k", "K")
	for _, path := range []string{"/api/v1/events", "/api/v1/jobs/" + j.ID.String() + "/events"} {
		made, secret, err := w.store.NewToken(w.ctx, "stream", "acme", storage.VerbView)
		if err != nil {
			t.Fatal(err)
		}
		token, person, stays := creds{"Authorization", "Bearer " + secret}, w.person("Nadia", "acme"), w.token("acme")
		byToken, bySession, other := w.stream(path, token), w.stream(path, person), w.stream(path, stays)
		for _, s := range []*stream{byToken, bySession, other} {
			s.next(t, ": still here")
		}
		if err := w.store.RevokeToken(w.ctx, principalAll.scope, made.ID); err != nil {
			t.Fatal(err)
		}
		byToken.ends(t)
		w.post("/signout", person, nil).want(t, 303)
		bySession.ends(t)
		for range 2 * recheck {
			other.next(t, ": still here") // whose token still holds
		}
	}
}

// ends waits until a stream has no more lines.
func (s *stream) ends(t *testing.T) {
	t.Helper()
	timeout := time.After(60 * time.Second)
	for {
		select {
		case _, more := <-s.lines:
			if !more {
				return
			}
		case <-timeout:
			t.Fatal("the stream goes on")
		}
	}
}

// What happens between the reading of a page and the opening of its stream is told.
func TestNothingIsMissedWhileAPageLoads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.person("Nadia", "")
	first := w.stream("/events", who) // somebody else looks, so events are kept
	first.next(t, ": welcome")
	j := w.job("acme", "k", "K")
	first.next(t, "event: change")
	page := w.get("/jobs/"+j.ID.String(), who).want(t, 200, "data-seen=")
	_, rest, _ := strings.Cut(page.body, `data-seen="`)
	seen, _, _ := strings.Cut(rest, `"`)
	w.begin(j, "w-1")
	first.next(t, "event: change")
	late := w.stream("/events?seen="+seen, who)
	late.next(t, "event: change")
}
