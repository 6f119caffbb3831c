package web

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
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

	mu      sync.Mutex
	clients map[*client]struct{}
	last    uint64 // id of the newest event
	tenants map[uuid.UUID]string
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
	return &hub{store: store, log: log, clients: map[*client]struct{}{}, tenants: map[uuid.UUID]string{}}
}

// run listens until ctx ends. When the connection breaks it connects again, and
// tells everybody to look at all: something may have happened meanwhile.
func (h *hub) run(ctx context.Context) {
	const shortest, longest = 250 * time.Millisecond, 10 * time.Second
	wait := shortest
	for ctx.Err() == nil {
		err := h.store.Listen(ctx, storage.ChannelChanges,
			func() {
				wait = shortest
				h.resyncAll()
			},
			func(message string) { h.heard(ctx, message) })
		if ctx.Err() != nil {
			return
		}
		h.log.Warn("live events have stopped; connecting again", "in", wait, "error", err)
		timer := time.NewTimer(wait - wait/4 + rand.N(wait/2))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		wait = min(2*wait, longest)
	}
}

// heard passes a change on to the streams that may know of it.
func (h *hub) heard(ctx context.Context, message string) {
	id, err := uuid.Parse(message)
	if err != nil || !h.any() {
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
	for c := range h.clients {
		if c.scope.Sees(tenant) && (c.only == uuid.Nil || c.only == id) {
			c.add(id, h.last)
		}
	}
}

func (h *hub) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.clients) > 0
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
	for c := range h.clients {
		c.overflow(h.last)
	}
}

func (h *hub) join(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients[c] = struct{}{}
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
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	if r.Method == http.MethodHead {
		return nil
	}
	s.events.join(c)
	defer s.events.leave(c)
	greeting := "retry: 2000\n: welcome\n\n"
	if r.Header.Get("Last-Event-ID") != "" { // what it missed is not kept: it must look
		greeting += "event: resync\ndata: all\n\n"
	}
	if send(w, greeting) {
		s.stream(w, r, c)
	}
	return nil
}

// stream sends until the client goes, its session ends or the server stops.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c *client) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for ticks := 1; ; {
		text := ": still here\n\n"
		select {
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		case <-c.wake:
			text = events(s.events.take(c))
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

// events writes what happened in the form of an event stream.
func events(changed []uuid.UUID, resync bool, id uint64) string {
	if resync {
		return fmt.Sprintf("id: %d\nevent: resync\ndata: all\n\n", id)
	}
	var b strings.Builder
	for _, export := range changed {
		fmt.Fprintf(&b, "id: %d\nevent: change\ndata: %s\n\n", id, export)
	}
	return b.String()
}
