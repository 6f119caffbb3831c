package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceline/fenceline/jobs/lease/address"
	"github.com/fenceline/fenceline/storage"
)

// ensemble is where sessions are opened, and how.
type ensemble struct {
	hosts  []string
	ttl    time.Duration
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	digest []byte // USER:PASSWORD, or nil
	acl    []zk.ACL
}

// session is one session at ZooKeeper. The client opens another one by itself when
// this one has expired; over tells, and nothing is done in the other.
type session struct {
	conn    *zk.Conn
	id      int64
	timeout time.Duration // as the ensemble gave it
	ended   atomic.Bool   // it has expired, or was closed
	// lost gets one error when the session has expired, or the node is gone.
	lost chan error

	line   line
	opened chan struct{} // closed when the session is there
	once   sync.Once     // of opened
	events <-chan zk.Event
	ending sync.Once
}

// quiet drops what the client says: what matters comes back as an error.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// session opens one, or fails when ctx ends.
func (e *ensemble) session(ctx context.Context) (*session, error) {
	s := &session{lost: make(chan error, 1), opened: make(chan struct{})}
	s.line.limit, s.line.system = e.ttl, e.dial
	var err error
	s.conn, s.events, err = zk.Connect(e.hosts, e.ttl, zk.WithLogger(quiet{}), zk.WithLogInfo(false),
		zk.WithDialer(s.line.dial), zk.WithEventCallback(s.happened))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrUnreachable, err)
	}
	if err := s.open(ctx, e); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *session) open(ctx context.Context, e *ensemble) error {
	select {
	case <-s.opened:
	case <-ctx.Done():
		return fmt.Errorf("%w: no session was had in time: %w", storage.ErrUnreachable, context.Cause(ctx))
	}
	s.id = s.conn.SessionID()
	if s.timeout = s.line.timeout(); s.timeout == 0 {
		return zk.ErrConnectionClosed // again, since the session was opened
	}
	if s.timeout > furthest*e.ttl || furthest*s.timeout < e.ttl {
		return address.Refuse("the ensemble makes sessions of %s out of leases of %s: change FENCELINE_LEASE, or minSessionTimeout and maxSessionTimeout of the servers", s.timeout, e.ttl)
	}
	if e.digest == nil {
		return nil
	}
	_, err := ask(ctx, func() (any, error) { return nil, s.conn.AddAuth("digest", e.digest) })
	return err
}

// happened is called by the client and must not wait.
func (s *session) happened(e zk.Event) {
	switch {
	case e.Type == zk.EventNodeDeleted: // there is a watch on one node only
		s.lose(errGone)
	case e.Type == zk.EventSession && e.State == zk.StateHasSession:
		s.once.Do(func() { close(s.opened) })
	case e.Type == zk.EventSession && e.State == zk.StateExpired:
		s.ended.Store(true)
		s.lose(zk.ErrSessionExpired)
	}
}

var errGone = errors.New("its node is gone from ZooKeeper")

// over is whether nothing can belong to the session any more.
func (s *session) over() bool { return s.ended.Load() }

func (s *session) lose(err error) {
	select {
	case s.lost <- err:
	default: // it was told already
	}
}

// close ends the session, and with it its nodes, and returns when nothing of it is
// left here. When the ensemble does not answer the session expires by itself.
func (s *session) close() {
	s.ending.Do(func() {
		s.ended.Store(true)
		s.conn.Close() // asks the ensemble, for a second at most
		s.line.cut()
	})
	for range s.events { // closed when the client has ended
	}
}

// ask does what the client cannot be told to give up. What is asked in vain ends
// with the session.
func ask[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		v, err := call()
		answers <- answer{v, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// line makes the client's connections. The client waits for the first answer of a
// frozen server for ten times as long as a session lives, and does not tell how
// long that is; here it waits no longer than a lease, and the answer is read.
type line struct {
	limit  time.Duration
	system func(ctx context.Context, network, address string) (net.Conn, error) // makes connections

	mu    sync.Mutex
	conn  net.Conn
	over  bool
	heard []byte // the first bytes of the first answer
}

// greeting is how much of the first answer tells the time of the session: its
// length, the version of the protocol, and the time in milliseconds, four bytes each.
const greeting = 12

var errOver = errors.New("the session has been ended")

func (l *line) dial(network, addr string, wait time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait) // the client gives none
	defer cancel()
	conn, err := l.system(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		_ = conn.Close() // nothing was said
		return nil, errOver
	}
	l.conn, l.heard = conn, nil
	return &wire{conn, l}, nil
}

// cut ends the connection and every later one.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.conn != nil {
		_ = l.conn.Close() // it may be closed
	}
}

func (l *line) hear(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, p[:min(len(p), greeting-len(l.heard))]...)
}

// timeout is what the server said when the session was opened.
func (l *line) timeout() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.heard) < greeting {
		return 0
	}
	return time.Duration(binary.BigEndian.Uint32(l.heard[greeting-4:])) * time.Millisecond
}

// wire is a connection that its line listens at.
type wire struct {
	net.Conn
	line *line
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.line.hear(p[:n])
	return n, err
}

func (w *wire) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(w.line.limit); t.After(latest) {
		t = latest
	}
	return w.Conn.SetReadDeadline(t)
}
