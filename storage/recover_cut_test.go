package storage_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceline/fenceline/storage"
)

// wire stands between a program and PostgreSQL and cuts connections.
type wire struct {
	url string

	network, address string
	mu               sync.Mutex
	open             map[net.Conn]bool
	armed            atomic.Bool // the next outcome of a statement does not arrive
	lost             atomic.Int32
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	conf, err := pgx.ParseConfig(target)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{open: map[net.Conn]bool{}}
	w.network, w.address = pgconn.NetworkAddress(conf.Host, conf.Port)
	u := url.URL{Scheme: "postgres", User: url.UserPassword(conf.User, conf.Password), Host: l.Addr().String(), Path: "/" + conf.Database, RawQuery: "sslmode=disable"}
	w.url = u.String()
	t.Cleanup(func() {
		_ = l.Close()
		w.cut()
	})
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go w.serve(client)
		}
	}()
	return w
}

func (w *wire) serve(client net.Conn) {
	server, err := net.Dial(w.network, w.address)
	if err != nil {
		_ = client.Close()
		return
	}
	w.mu.Lock()
	w.open[client], w.open[server] = true, true
	w.mu.Unlock()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	w.replies(client, server)
	_ = client.Close()
	_ = server.Close()
}

// replies hands on what the server says, message by message.
func (w *wire) replies(client, server net.Conn) {
	for {
		kind, message, err := readMessage(server)
		if err != nil {
			return
		}
		if kind == 'C' && w.armed.CompareAndSwap(true, false) { // CommandComplete
			for kind != 'Z' && err == nil { // ReadyForQuery, which the server says when it has committed
				kind, _, err = readMessage(server)
			}
			w.lost.Add(1)
			return
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}

func readMessage(r io.Reader) (kind byte, whole []byte, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	whole = append(head, make([]byte, binary.BigEndian.Uint32(head[1:])-4)...)
	_, err = io.ReadFull(r, whole[5:])
	return head[0], whole, err
}

// cut ends every connection.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		_ = c.Close()
	}
	clear(w.open)
}

func TestAWireHandsOnMessages(t *testing.T) {
	t.Parallel()
	kind, whole, err := readMessage(bytes.NewReader([]byte("C\x00\x00\x00\x06ab and more")))
	if kind != 'C' || string(whole) != "C\x00\x00\x00\x06ab" || err != nil {
		t.Errorf("%c %q %v", kind, whole, err)
	}
}

// The connection to the database ends before a step has reached it, or when the step is done and nobody hears of it.
// The recovery that comes next finishes as if nothing had been.
func TestRecoverLosesItsDatabaseAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"close", "condemn", "raise", "adopt", "lost", "count", "mark", "open"} {
		for name, harm := range map[string]func(*wire){
			"before it": (*wire).cut,
			"after it":  func(w *wire) { w.armed.Store(true) },
		} {
			t.Run(step+" "+name, func(t *testing.T) {
				t.Parallel()
				at := shelf{filepath.Join(t.TempDir(), "files")}
				h := newHarmed(t, at)
				before := h.objects()
				wire := newWire(t, h.w.url)
				store := openStore(t, wire.url)
				var once sync.Once
				sum, err := storage.Recover(t.Context(), store, h.f, storage.RecoverOptions{Adopt: true, FilesLost: true, Step: func(at string) {
					if at == step {
						once.Do(func() { harm(wire) })
					}
				}})
				lastStep := step == "mark" || step == "open" // after either, the outcome of opening is lost, and looked up
				if name == "after it" && (wire.lost.Load() == 0 || sum.Done != lastStep) || err != nil == sum.Done {
					t.Errorf("%v %+v", err, sum)
				}
				if !sum.Done {
					h.staysClosed()
				} else if err := openStore(t, h.w.url).Pair(h.w.ctx, h.f); err != nil {
					t.Errorf("it says that it is done, and then %v", err)
				}
				if after := h.objects(); len(after) != len(before) {
					t.Errorf("the folder held %v, and holds %v", before, after)
				}
				h.finishes()
			})
		}
	}
}

// Whoever reads the error knows where it broke off and what to do.
func TestRecoverNamesTheStepThatLostItsDatabase(t *testing.T) {
	t.Parallel()
	h := newHarmed(t, shelf{filepath.Join(t.TempDir(), "files")})
	wire := newWire(t, h.w.url)
	_, err := storage.Recover(t.Context(), openStore(t, wire.url), h.f, storage.RecoverOptions{Adopt: true, FilesLost: true, Step: func(at string) {
		if at == "condemn" {
			wire.armed.Store(true)
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "condemn unfinished attempts") || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("it says %v", err)
	}
	if errors.Is(err, storage.ErrFilesLost) {
		t.Errorf("files count as lost: %v", err)
	}
}
