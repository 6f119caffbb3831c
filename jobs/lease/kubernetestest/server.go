// Package kubernetestest brings tests an API server of Kubernetes: [Start] one that
// speaks the part of coordination.k8s.io/v1 that leases need and can be hurt in every
// way, and [Real] the real one.
//
// The first compares versions as the real one does: a write that names an old version,
// or the UID of an object that was deleted, is answered 409. The fake clientset of
// client-go accepts it, so that a lease would seem to be safe which is not.
package kubernetestest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Namespace is the one that leases may be kept in.
const Namespace = "fenceline"

// Server is an API server that keeps leases in memory. It is safe for concurrent use.
type Server struct {
	http       *httptest.Server
	kubeconfig string
	token      string
	dead       chan struct{}
	kill       sync.Once

	mu      sync.Mutex
	going   chan struct{} // closed while it goes on
	faults  []fault
	leases  map[string]*Lease
	version int64 // of what was written last
}

// fault is what becomes of requests with a method.
type fault struct {
	method string
	times  int
	code   int // answered at once; 0 is carried out and not answered
	reason string
}

// Start starts a server that ends with the test. It asks for a token, and speaks TLS and HTTP/2, as the real one does.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{token: rand.Text(), dead: make(chan struct{}), going: make(chan struct{}), leases: map[string]*Lease{}}
	close(s.going)
	s.http = httptest.NewUnstartedServer(s.gate(s.routes()))
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	s.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	if err := os.WriteFile(s.kubeconfig, Kubeconfig(s.http.URL, authority, s.token), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// Kubeconfig is one with a context for a server, and another one for a server that is not there.
func Kubeconfig(server string, authority []byte, token string) []byte {
	type object = map[string]any
	cluster := func(server string) object { return object{"server": server, "certificate-authority-data": authority} }
	raw, _ := json.Marshal(object{ // JSON is YAML; maps of texts always marshal
		"apiVersion": "v1", "kind": "Config", "current-context": "here",
		"clusters": []object{{"name": "here", "cluster": cluster(server)}, {"name": "gone", "cluster": cluster("https://127.0.0.1:1")}},
		"users":    []object{{"name": "worker", "user": object{"token": token}}},
		"contexts": []object{
			{"name": "here", "context": object{"cluster": "here", "user": "worker"}}, {"name": "gone", "context": object{"cluster": "gone", "user": "worker"}},
		},
	})
	return raw
}

// URL is the address of leases in its namespace.
func (s *Server) URL() string {
	return "kubernetes://" + Namespace + "?kubeconfig=" + url.QueryEscape(s.kubeconfig)
}

// Token is what it lets in.
func (s *Server) Token() string { return s.token }

// Kill ends it, as a crash does.
func (s *Server) Kill() {
	s.kill.Do(func() {
		close(s.dead)
		_ = s.http.Listener.Close()
		s.http.CloseClientConnections()
		s.http.Close()
	})
}

// Pause freezes it. What it is asked meanwhile is carried out when it goes on, whether somebody waits for the answer or not.
func (s *Server) Pause(testing.TB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.going = make(chan struct{})
}

// Resume lets it go on.
func (s *Server) Resume(testing.TB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.going:
	default:
		close(s.going)
	}
}

// Cut ends all connections that it has.
func (s *Server) Cut() { s.http.CloseClientConnections() }

// LoseReplies carries the next requests with a method out and answers none of them.
func (s *Server) LoseReplies(method string, times int) { s.add(fault{method: method, times: times}) }

// Refuse answers the next requests with a method and carries none of them out.
func (s *Server) Refuse(method string, times, code int, reason string) {
	s.add(fault{method, times, code, reason})
}

func (s *Server) add(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
}

// fault takes one that is meant for a method.
func (s *Server) fault(method string) (fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.faults {
		if f := &s.faults[i]; f.method == method && f.times > 0 {
			f.times--
			return *f, true
		}
	}
	return fault{}, false
}

// gate lets requests through as they are to be treated.
func (s *Server) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		going := s.going
		s.mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body)) // there also when whoever sent it has gone
		select {
		case <-going:
		case <-s.dead:
			panic(http.ErrAbortHandler)
		}
		f, hurt := s.fault(r.Method)
		switch {
		case r.Header.Get("Authorization") != "Bearer "+s.token:
			refuse(w, refusal{http.StatusUnauthorized, "Unauthorized", "Unauthorized"})
		case hurt && f.code == 0:
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case hurt:
			refuse(w, refusal{f.code, f.reason, "as the test asked for"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}
