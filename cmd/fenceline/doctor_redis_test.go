package main

import (
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/redistest"
)

// redisChecks are all that the doctor asks of Redis.
func redisChecks() (names []string) {
	for _, c := range checks() {
		if c.part() == "redis" {
			names = append(names, c.name)
		}
	}
	return names
}

// The doctor names the servers that it found, looks at each of them, and says
// when some are missing.
func TestDoctorOfManyRedisServers(t *testing.T) {
	t.Parallel()
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		g := redistest.Sentinel(t, 10*time.Second, redistest.Password("s3cret"))
		p := newPatient(t, redistest.Shared(t))
		p.env["REDIS_URL"] = g.URL()
		for name, f := range p.examine(nil, redisChecks()...) {
			if f.Grade != gradeOK {
				t.Errorf("%s: %+v", name, f)
			}
		}
		g.Sentinels[0].Kill()
		f := p.examine(nil, "redis.nodes")["redis.nodes"]
		wellFormed(t, f)
		for _, want := range []string{g.Nodes[0].Addr(), "1 replica", "2 of 3 sentinels answer"} {
			if f.Grade != gradeWarning || !strings.Contains(f.Found, want) {
				t.Errorf("no %q: %+v", want, f)
			}
		}
		g.Sentinels[1].Kill()
		if f := p.examine(nil, "redis.nodes")["redis.nodes"]; f.Grade != gradeWarning || !strings.Contains(f.Endangers, "nobody takes its place") || strings.Contains(f.Found, "s3cret") {
			t.Errorf("without a quorum: %+v", f)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		g := redistest.Cluster(t, time.Second)
		p := newPatient(t, redistest.Shared(t))
		p.env["REDIS_URL"] = g.URL()
		found := p.examine(nil, redisChecks()...)
		for name, f := range found {
			if f.Grade != gradeOK {
				t.Errorf("%s: %+v", name, f)
			}
		}
		for _, n := range g.Nodes {
			if !strings.Contains(found["redis.nodes"].Found, n.Addr()) || !strings.Contains(found["redis.memory"].Found, n.Addr()) {
				t.Errorf("%s is not named: %+v", n.Addr(), found)
			}
		}
		g.Nodes[1].Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		if f := p.examine(nil, "redis.memory")["redis.memory"]; f.Grade != gradeWarning || !strings.Contains(f.Found, g.Nodes[1].Addr()+": maxmemory-policy is allkeys-lru") {
			t.Errorf("one of three evicts: %+v", f)
		}
		g.Nodes[2].Kill()
		until(t, "the doctor misses a node", func() bool {
			f := p.examine(nil, "redis.nodes")["redis.nodes"]
			return f.Grade == gradeWarning && strings.Contains(f.Found, "missing: "+g.Nodes[2].Addr()) && strings.Contains(f.Found, "hash slots of 16384 have no node")
		})
	})
}
