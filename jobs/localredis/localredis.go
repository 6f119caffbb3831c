// Package localredis runs a Redis inside this process, for "fenceline up" on a
// machine that has none, and for trying out.
//
// It is a good Redis for one process and one machine: everything is in memory,
// nothing outlives the process, and by law nothing of Fenceline depends on that
// Redis remembers. It is the wrong one for a second host (it listens on loopback
// only), for more than about a thousand jobs a second (a redis-server does eight
// times as much), and for months of uptime (asynq leaves about 130 bytes for each
// task that ever ran, until the process ends). Set REDIS_URL there. To test
// against the real thing, use package redistest.
//
// Keys expire up to one tick (25 ms) early or late, so a lock may end that much
// before its time; a lease promises nothing that this could break.
package localredis

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/fenceline/fenceline/jobs/invalid"
)

// tick is how often time passes for the keys. Letting miniredis look at the clock
// itself makes every command twelve times slower.
const tick = 25 * time.Millisecond

// Server is a running server. The one who started it must call [Server.Stop]. All
// methods are safe for concurrent use.
type Server struct {
	redis    *miniredis.Miniredis
	password string
	addr     string
	stop     func()
}

// Start listens on a loopback address such as "127.0.0.1:6379", or
// "127.0.0.1:0" for a free port. Other addresses are refused with an
// [invalid.Error]. Clients need the random password that [Server.URL] holds, so
// that other users of the machine stay out.
func Start(addr string) (*Server, error) {
	if err := checkLoopback(addr); err != nil {
		return nil, err
	}
	s := &Server{redis: miniredis.NewMiniRedis(), password: rand.Text()}
	s.redis.RequireAuth(s.password)
	s.redis.SetTime(time.Now())
	s.redis.ClockTTL(true)
	if err := s.redis.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("start the Redis of this process on %s: %w", addr, err)
	}
	s.addr = s.redis.Addr()
	quit := make(chan struct{})
	go s.passTime(quit)
	s.stop = sync.OnceFunc(func() {
		close(quit)
		s.redis.Close()
	})
	return s, nil
}

// Addr is the address as host:port, with the port that was taken.
func (s *Server) Addr() string { return s.addr }

// URL is the address with the password: redis://:…@127.0.0.1:port/0. It is a
// secret.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("", s.password), Host: s.addr, Path: "/0"}
	return u.String()
}

// Stop closes all connections, ends all goroutines of the server and forgets
// everything. It may be called again.
func (s *Server) Stop() { s.stop() }

// passTime tells the server what time it is until quit is closed.
func (s *Server) passTime(quit <-chan struct{}) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-quit:
			return
		case <-ticker.C:
			s.redis.SetTime(time.Now())
		}
	}
}

func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return invalid.New("addr", addr, "is not host:port; 127.0.0.1:0 takes a free port")
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return invalid.New("addr", addr, "is not on this machine alone: the built-in Redis serves one host, "+
			"so use 127.0.0.1, or set REDIS_URL to a Redis server that several hosts can share")
	}
	return nil
}
