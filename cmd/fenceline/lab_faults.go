package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// labFault is a fault that the lab plays on every backend.
type labFault struct {
	name, title string
	freezes     bool // it needs SIGSTOP
	story       func(*labStory, context.Context) error
	// prepare is nil, or what has to stand before the holders start.
	prepare func(*labStory, context.Context) error
	// skip is nil, or says why the fault is not played on a backend, empty when it is.
	skip func(labSource) string
}

// labFaults are all of them, in the order in which they are shown.
func labFaults() []labFault {
	return []labFault{
		{name: "pause", title: "A is frozen for longer than its lease, and goes on", freezes: true, story: (*labStory).pause},
		{name: "kill", title: "A is killed while it holds the lease", story: (*labStory).kill},
		{name: "cut", title: "A is cut off from the lock service while its write is on the way", story: (*labStory).cut, prepare: (*labStory).prepareCut, skip: func(b labSource) string {
			if b.name == leaseNone {
				return "there is no service to be cut off from"
			}
			return ""
		}},
		{name: "failover", title: "The lock service fails over to a replica that never saw A's lease", story: (*labStory).fails, prepare: (*labStory).prepareFailover, skip: func(b labSource) string {
			switch {
			case b.failover != "":
				return b.failover
			case !b.private:
				return "the lab ends no server of others; without an address it ends one of its own"
			case redisServer() == "":
				return "redis-server is not installed here, and the Redis in this process has no replicas"
			}
			return ""
		}},
		{name: "release", title: "A wakes and releases what is B's lease by now", freezes: true, story: (*labStory).releases, skip: func(b labSource) string {
			if b.name == leaseNone {
				return "there is no lease that could be released"
			}
			return ""
		}},
	}
}

func labFaultNames() string {
	var names []string
	for _, f := range labFaults() {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// freezesA stops A between its last look at its lease and its write.
func (s *labStory) freezesA() error {
	s.hurts(labA, storage.LabFroze, "is frozen (SIGSTOP), between its look and its write")
	if err := freeze(s.a.cmd.Process); err != nil {
		return fmt.Errorf("freeze A: %w", err)
	}
	return nil
}

// wakesA lets it go on, after it has slept through a part of B's time.
func (s *labStory) wakesA(ctx context.Context) error {
	if err := rests(ctx, s.lease/2); err != nil {
		return err
	}
	s.note(labA, storage.LabWoke, "wakes up (SIGCONT), and goes on where it was")
	if err := thaw(s.a.cmd.Process); err != nil {
		return fmt.Errorf("let A go on: %w", err)
	}
	return nil
}

// learns waits until A knows that its lease is lost; without a service it never does.
func (s *labStory) learns(ctx context.Context) error {
	if s.source.name == leaseNone {
		return nil
	}
	return s.hears(ctx, s.a, heldLost)
}

func (s *labStory) pause(ctx context.Context) error {
	if err := s.begins(ctx); err != nil {
		return err
	}
	if err := s.freezesA(); err != nil {
		return err
	}
	if err := s.follows(ctx); err != nil {
		return err
	}
	if err := s.wakesA(ctx); err != nil {
		return err
	}
	if err := s.writes(ctx, s.a); err != nil {
		return err
	}
	return s.learns(ctx)
}

func (s *labStory) kill(ctx context.Context) error {
	if err := s.begins(ctx); err != nil {
		return err
	}
	s.hurts(labA, storage.LabKilled, "is killed (SIGKILL)")
	s.a.stopped = true
	if err := s.a.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill A: %w", err)
	}
	return s.follows(ctx)
}

// prepareCut lets A reach the service through a proxy only.
func (s *labStory) prepareCut(context.Context) (err error) {
	s.proxy, err = startForwarder()
	return err
}

// cut is about a write that A sent in good faith, and that comes late.
func (s *labStory) cut(ctx context.Context) error {
	if err := s.begins(ctx); err != nil {
		return err
	}
	s.hurts(labA, storage.LabCut, "is cut off from the lock service; its connections stay open, and nothing arrives")
	s.proxy.cut()
	if err := s.follows(ctx); err != nil {
		return err
	}
	if err := s.learns(ctx); err != nil {
		return err
	}
	if err := rests(ctx, s.lease/4); err != nil {
		return err
	}
	s.note(labOwn, storage.LabNote, "A's write, sent before it knew, arrives at the database")
	return s.writes(ctx, s.a)
}

// releases lets A do what every program does at its end.
func (s *labStory) releases(ctx context.Context) error {
	if err := s.begins(ctx); err != nil {
		return err
	}
	if err := s.freezesA(); err != nil {
		return err
	}
	if err := s.lets(ctx, s.b, doTake, heldRead); err != nil {
		return err
	}
	if err := s.wakesA(ctx); err != nil {
		return err
	}
	if err := s.lets(ctx, s.a, doRelease, heldReleased); err != nil {
		return err
	}
	if err := s.lets(ctx, s.a, doAsk, heldAgain); err != nil {
		return err
	}
	return s.writes(ctx, s.b)
}

// labReplica is a primary and its replica, with a proxy between them and one that clients use.
type labReplica struct {
	primary, replica labRedis
	link, front      *labProxy
}

func (r *labReplica) close() {
	for _, p := range []*labProxy{r.link, r.front} {
		if p != nil {
			p.close()
		}
	}
	for _, server := range []labRedis{r.primary, r.replica} {
		if server.kill != nil {
			server.kill()
		}
	}
}

// prepareFailover stands for what Sentinel or a cloud does: clients keep their address, and it leads elsewhere.
func (s *labStory) prepareFailover(ctx context.Context) (err error) {
	r := &labReplica{}
	s.failover = r
	if r.primary, err = s.servers.redis(ctx); err != nil {
		return err
	}
	if r.link, err = startProxy(r.primary.addr); err != nil {
		return err
	}
	if r.front, err = startProxy(r.primary.addr); err != nil {
		return err
	}
	host, port, _ := strings.Cut(r.link.addr(), ":")
	if r.replica, err = s.servers.redis(ctx, "replicaof "+host+" "+port, "masterauth "+r.primary.password); err != nil {
		return err
	}
	led := r.primary
	led.addr = r.front.addr()
	s.addressA, s.addressB = led.url(), led.url()
	return poll(ctx, 20*time.Millisecond, s.patience(), "the replica has caught up with its primary", func() (bool, error) {
		info, err := redisSays(ctx, r.replica, "INFO", "replication")
		return strings.Contains(info, "master_link_status:up"), err
	})
}

// fails ends the primary before it has sent A's lease to its replica, and promotes that.
func (s *labStory) fails(ctx context.Context) error {
	s.failover.link.cut() // replication is asynchronous: this is a replica that lags
	if err := s.begins(ctx); err != nil {
		return err
	}
	s.hurts(labOwn, storage.LabFailed, "ends the primary, whose last writes have not reached its replica")
	s.failover.primary.kill()
	if err := s.b.do(doTake); err != nil {
		return err
	}
	if err := tellRedis(ctx, s.failover.replica, "REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	s.failover.front.lead(s.failover.replica.addr)
	s.note(labOwn, storage.LabPromoted, "makes the replica the primary; the address leads to it now")
	if err := s.hears(ctx, s.b, heldRead); err != nil {
		return err
	}
	if err := s.writes(ctx, s.b); err != nil {
		return err
	}
	if err := s.writes(ctx, s.a); err != nil {
		return err
	}
	return s.learns(ctx)
}
