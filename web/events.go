package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	jitter "math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

const (
	// maxPending is how many changed exports wait for a slow client before it is told to look at all.
	maxPending = 64
	// maxTenants bounds the memory for which tenant an export belongs to.
	maxTenants = 8192
	// maxKept is how many events are kept for those who come back.
	maxKept = 1024
	// keepAlive is how often a silent stream gets a comment, so that proxies keep it open.
	keepAlive = 15 * time.Second
	// recheck is after how many comments the session is looked at again: signing out ends streams.
	recheck = 4
)

// hub hears what changed in the database, once per process, and tells the open
// event streams, each only about exports that it may see.
type hub struct {
	store *storage.Store
	log   *slog.Logger

	boot string // of this process: ids of another one's events say nothing here

	mu      sync.Mutex
	clients map[*client]struct{}
	last    uint64 // id of the newest event
	tenants map[uuid.UUID]string
	ring    []change // the newest events without a gap, the oldest first
}

// change is an event that is kept for those who come back.
type change struct {
	id     uint64
	export uuid.UUID
	tenant string
}

// client is an open event stream.
type client struct {
	scope storage.Scope
	only  uuid.UUID     // nil for all exports
	wake  chan struct{} // holds one when there is something to take

	// Guarded by the hub's mutex:
	pending []uuid.UUID
	resync  bool
	id      uint64 // of the newest event that waits
}

func newHub(store *storage.Store, log *slog.Logger) *hub {
	return &hub{store: store, log: log, boot: rand.Text()[:8], clients: map[*client]struct{}{}, tenants: map[uuid.UUID]string{}}
}

// run listens until ctx ends. When the connection breaks it connects again, and
// tells everybody to look at all: something may have happened meanwhile.
func (h *hub) run(ctx context.Context) {
	const shortest, longest = 250 * time.Millisecond, 10 * time.Second
	wait := shortest
	for ctx.Err() == nil {
		err := h.follow(ctx, func() { wait = shortest })
		if ctx.Err() != nil {
			return
		}
		h.log.Warn("live events have stopped; connecting again", "in", wait, "error", err)
		timer := time.NewTimer(wait - wait/4 + jitter.N(wait/2))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		wait = min(2*wait, longest)
	}
}

// follow looks for news until the connection breaks; it calls ready when it has begun.
func (h *hub) follow(ctx context.Context, ready func()) error {
	news, err := h.store.News(ctx)
	if err != nil {
		return err
	}
	defer news.Close(ctx)
	ready()
	h.resyncAll()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		exports, all, err := news.Next(ctx)
		if err != nil {
			return err
		}
		if all {
			h.resyncAll()
		}
		for _, id := range exports {
			h.heard(ctx, id)
		}
		timer.Reset(h.pace())
	}
}

// pace is how long to wait between two looks: little when somebody watches.
func (h *hub) pace() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.clients) > 0 {
		return 200 * time.Millisecond
	}
	return time.Second
}

// heard passes a change on to the streams that may know of it.
func (h *hub) heard(ctx context.Context, id uuid.UUID) {
	if h.skipped() {
		return
	}
	tenant, err := h.tenantOf(ctx, id)
	if err != nil {
		h.log.Debug("a change could not be placed", "export", id, "error", err)
		h.resyncAll()
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	if len(h.ring) == maxKept {
		h.ring = append(h.ring[:0], h.ring[maxKept/2:]...)
	}
	h.ring = append(h.ring, change{h.last, id, tenant})
	for c := range h.clients {
		if c.sees(h.ring[len(h.ring)-1]) {
			c.add(id, h.last)
		}
	}
}

// skipped notes an event that is not looked at because no stream is open: who comes back must look.
func (h *hub) skipped() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.clients) > 0 {
		return false
	}
	h.last++
	h.ring = nil
	return true
}

// tenantOf is the tenant of an export. It never changes, so it is kept; when too
// many are kept all are forgotten.
func (h *hub) tenantOf(ctx context.Context, id uuid.UUID) (string, error) {
	h.mu.Lock()
	tenant, known := h.tenants[id]
	h.mu.Unlock()
	if known {
		return tenant, nil
	}
	e, err := h.store.Export(ctx, storage.Scope{All: true}, id)
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.tenants) >= maxTenants {
		clear(h.tenants)
	}
	h.tenants[id] = e.Tenant
	return e.Tenant, nil
}

func (h *hub) resyncAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.ring = nil
	for c := range h.clients {
		c.overflow(h.last)
	}
}

// join lets a client hear of what comes, and answers the id of what was before.
func (h *hub) join(c *client) (id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients[c] = struct{}{}
	return fmt.Sprintf("%s-%d", h.boot, h.last)
}

// position is the id of the newest event. Who renders a page asks for it first: what
// happens from then on is told to the stream that the page opens.
func (h *hub) position() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprintf("%s-%d", h.boot, h.last)
}

// rejoin is join for a client that comes back and has seen the event of an id:
// what it missed waits for it, or, when that is not kept any more, that it must look.
func (h *hub) rejoin(c *client, seen string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients[c] = struct{}{}
	boot, text, _ := strings.Cut(seen, "-")
	id, err := strconv.ParseUint(text, 10, 64)
	gap := len(h.ring) == 0 && id < h.last || len(h.ring) > 0 && id+1 < h.ring[0].id
	if boot != h.boot || err != nil || id > h.last || gap {
		c.overflow(h.last)
		return
	}
	for _, e := range h.ring {
		if e.id > id && c.sees(e) {
			c.add(e.export, e.id)
		}
	}
}

// sees reports whether a client is to be told of an event.
func (c *client) sees(e change) bool {
	return c.scope.Sees(e.tenant) && (c.only == uuid.Nil || c.only == e.export)
}

func (h *hub) leave(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clients, c)
}

// take empties what waits for a client.
func (h *hub) take(c *client) (changed []uuid.UUID, resync bool, id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed, resync = c.pending, c.resync
	c.pending, c.resync = nil, false
	return changed, resync, c.id
}

// add notes a change, once however often it happens before the client takes it.
func (c *client) add(export uuid.UUID, id uint64) {
	if c.resync {
		return
	}
	for _, p := range c.pending {
		if p == export {
			return
		}
	}
	if len(c.pending) == maxPending {
		c.overflow(id)
		return
	}
	c.pending, c.id = append(c.pending, export), id
	c.ring()
}

func (c *client) overflow(id uint64) {
	c.pending, c.resync, c.id = nil, true, id
	c.ring()
}

func (c *client) ring() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// eventStream sends server-sent events: "change" with the id of an export, or
// "resync" when the client should look at everything it shows.
func (s *Server) eventStream(w http.ResponseWriter, r *http.Request) error {
	c := &client{scope: of(r).principal.scope, wake: make(chan struct{}, 1)}
	if text := r.URL.Query().Get("export"); text != "" {
		id, err := uuid.Parse(text)
		if err != nil {
			return errMissing
		}
		if _, err := s.store.Export(r.Context(), c.scope, id); err != nil {
			return err
		}
		c.only = id
	}
	streamHeaders(w.Header())
	if r.Method == http.MethodHead {
		return nil
	}
	greeting := "retry: 2000\n: welcome\n"
	if seen := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("seen")); seen != "" {
		s.events.rejoin(c, seen)
	} else {
		greeting += "id: " + s.events.join(c) + "\n" // so that nothing is missed by who loses the connection before the first event
	}
	defer s.events.leave(c)
	if send(w, greeting+"\n") {
		s.stream(w, r, c)
	}
	return nil
}

// stream sends until the client goes, its session ends or the server stops.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c *client) {
	tick := time.NewTicker(s.beat)
	defer tick.Stop()
	for ticks := 1; ; {
		text := ": still here\n\n"
		select {
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		case <-c.wake:
			changed, resync, id := s.events.take(c)
			text = events(s.events.boot, changed, resync, id)
		case <-tick.C:
			if ticks++; ticks%recheck == 0 && !s.stillWelcome(r) {
				return
			}
		}
		if !send(w, text) {
			return
		}
	}
}

// stillWelcome looks at the credentials of a long request again.
func (s *Server) stillWelcome(r *http.Request) bool {
	who, err := s.identify(r, api)
	return err == nil && who.scope == of(r).principal.scope
}

// send writes to a stream at once; false when nobody is there any more.
func send(w http.ResponseWriter, text string) bool {
	if _, err := w.Write([]byte(text)); err != nil {
		return false
	}
	return http.NewResponseController(w).Flush() == nil
}

// events writes what happened in the form of an event stream. Only the last event
// has an id: who loses the connection before it is told of all of them again.
func events(boot string, changed []uuid.UUID, resync bool, id uint64) string {
	if resync {
		return fmt.Sprintf("id: %s-%d\nevent: resync\ndata: all\n\n", boot, id)
	}
	var b strings.Builder
	for i, export := range changed {
		if i == len(changed)-1 {
			fmt.Fprintf(&b, "id: %s-%d\n", boot, id)
		}
		fmt.Fprintf(&b, "event: change\ndata: %s\n\n", export)
	}
	return b.String()
}
