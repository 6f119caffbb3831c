package main

import (
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// Whoever hands out leases, a frozen holder is followed, and the fence decides.
func TestDrillWithOtherLeases(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(*testing.T) string{
		"PostgreSQL": func(*testing.T) string { return leasePostgres },
		"Redlock":    func(t *testing.T) string { return redistest.Independent(t, 3, redistest.Password("p/w")).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, redistest.Shared(t))
			s.env["LEASE_URL"] = address(t)
			r := s.drill("pause", "--json").report(exitDone)
			if !r.Held || len(r.Attempts) != 2 || *r.Attempts[0].Verdict != storage.AttemptFenced || !told(r, byLeases, "the lease of worker A has ended", "") {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestLeaseURLIsRefused(t *testing.T) {
	t.Parallel()
	for value, says := range map[string]string{
		"zookeper":                     "LEASE_URL: must be redis, postgres, none, or an address",
		"http://u:hunter2@h":           "LEASE_URL: must be redis, postgres, none, or an address",
		"etcdx://u:hunter2@h":          "LEASE_URL: must be redis, postgres, none, or an address",
		"redlock://:hunter2@a,b":       "redlock needs an odd number of independent servers, three or more, and 2 are named",
		"redlock://:hunter2@a,b,a":     "names the server a twice",
		"postgres://u:hunter2@[::1/db": "LEASE_URL: must be such as postgres://",
		"postgres://u:hunter2@[bad":    "LEASE_URL: must be such as postgres://",
		"redis://:hunter2@h:99999":     "LEASE_URL: host 1 is not HOST or HOST:PORT",
		"consul://u:hunter2@h":         "zookeeper://",
	} {
		s := newSite(t, redistest.Shared(t))
		s.env["LEASE_URL"] = value
		r := s.run("work")
		if r.code != exitUsage || !strings.Contains(r.err, says) || strings.Contains(r.err, "REDIS_URL") || strings.Contains(r.err, "hunter2") {
			t.Errorf("%s: exit %d: %s", value, r.code, r.err)
		}
	}
}

// A build without a service's client says how to get one with it, before it connects to anything.
func TestLeaseURLOfAnotherBuild(t *testing.T) {
	t.Parallel()
	for _, b := range leaseBackends() {
		if b.tag == "" || b.open != nil {
			continue
		}
		for _, scheme := range b.schemes {
			s := newSite(t, redistest.Shared(t))
			s.env["LEASE_URL"] = scheme + "://u:hunter2@127.0.0.1:1/x"
			r := s.run("work")
			if says := "go build -tags " + b.tag + " ./cmd/fenceline"; r.code != exitUsage || !strings.Contains(r.err, says) || strings.Contains(r.err, "hunter2") {
				t.Errorf("%s: exit %d: %s; want %q", scheme, r.code, r.err, says)
			}
		}
	}
}

// A pooler would hand the session that holds the lock to whoever comes next.
func TestLeasesInPostgresRefuseAPooler(t *testing.T) {
	t.Parallel()
	p, _ := pooledSite(t)
	p.ok("migrate")
	p.env["LEASE_URL"] = leasePostgres
	if r := p.run("work"); r.code == exitDone || !strings.Contains(r.err, "LEASE_URL leads to a pooler") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}
