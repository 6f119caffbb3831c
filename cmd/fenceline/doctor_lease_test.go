package main

import (
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/redistest"
)

// The doctor takes a lease where the workers do, and says when none can be had.
func TestDoctorTakesALease(t *testing.T) {
	t.Parallel()
	const check = "lease.service"
	t.Run("healthy", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t, redistest.Shared(t))
		for address, says := range map[string]string{
			leaseRedis: "redis: a lease was taken and released in", leasePostgres: "postgres: a lease was taken and released in",
			p.env["REDIS_URL"]: "redis: a lease was taken", p.env["DATABASE_URL"]: "postgres",
		} {
			p.env["LEASE_URL"] = address
			f := p.examine(nil, check)[check]
			wellFormed(t, f)
			if f.Grade != gradeOK || !strings.HasPrefix(f.Found, says) || strings.Contains(f.Found, "//") {
				t.Errorf("%s: %+v", address, f)
			}
		}
	})
	t.Run("redlock", func(t *testing.T) {
		t.Parallel()
		g := redistest.Independent(t, 5, redistest.Password("p/secret"))
		p := newPatient(t, redistest.Shared(t))
		p.env["LEASE_URL"] = g.URL()
		for _, stage := range []struct{ grade, says string }{
			{gradeOK, "redlock, 5 of 5 servers answer: a lease was taken"}, {gradeWarning, "redlock, 4 of 5 servers answer"}, {gradeWarning, "redlock, 3 of 5 servers answer"},
			{gradeWarning, "redlock: no lease can be had: connect to more than half of 5 Redis servers, of which 2 answer"},
		} {
			f := p.examine(nil, check)[check]
			wellFormed(t, f)
			if f.Grade != stage.grade || !strings.HasPrefix(f.Found, stage.says) || strings.Contains(f.Found, "redlock://") {
				t.Errorf("want %+v, got %+v", stage, f)
			}
			if stage.grade == gradeOK || strings.Contains(stage.says, "4 of") || strings.Contains(stage.says, "3 of") {
				g.Nodes[0].Kill()
				g.Nodes = g.Nodes[1:]
			}
		}
	})
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t, redistest.Shared(t))
		p.env["LEASE_URL"] = "redis://:secret@" + silent(t)
		f := p.examine(func(d *doctor) { d.limits.check = time.Second }, check)[check]
		wellFormed(t, f)
		if f.Grade != gradeWarning || !strings.Contains(f.Found, "redis: no lease can be had: no answer within 800ms") || !strings.Contains(f.Do, "LEASE_URL") {
			t.Errorf("%+v", f)
		}
	})
}

func TestDoctorKeepsSecretsOfLeases(t *testing.T) {
	t.Parallel()
	for address, secret := range map[string][2]string{
		"redlock://:p%2Fw@a,b,c/1": {"p%2Fw", "p/w"}, "postgres://u:pw@h/d?x=a@b": {"pw", "pw"}, "etcd://h": {}, leaseRedis: {},
	} {
		if raw, plain := leaseSecret(address); [2]string{raw, plain} != secret {
			t.Errorf("%s: %q and %q", address, raw, plain)
		}
	}
}
