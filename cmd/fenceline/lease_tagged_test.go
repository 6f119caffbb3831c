//go:build etcd && zookeeper

package main

import (
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/lease/etcdtest"
	"github.com/fenceline/fenceline/jobs/lease/zookeepertest"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// A build with the clients plays the drill with them as any build does with Redis.
func TestDrillWithTaggedLeases(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(*testing.T) string{
		"etcd":      func(t *testing.T) string { return etcdtest.Start(t).URL() },
		"ZooKeeper": func(t *testing.T) string { return zookeepertest.Start(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, redistest.Shared(t))
			s.env["LEASE_URL"] = address(t)
			r := s.drill("pause", "--json").report(exitDone)
			if !r.Held || len(r.Attempts) != 2 || *r.Attempts[0].Verdict != storage.AttemptFenced || !told(r, byLeases, "the lease of worker A has ended", "") {
				t.Errorf("%+v", r)
			}
			s.env["LEASE_URL"] += "/?ca=hunter2"
			if r := s.run("work"); r.code != exitUsage || !strings.Contains(r.err, "LEASE_URL: parameter ca is not known") || strings.Contains(r.err, "hunter2") {
				t.Errorf("exit %d: %s", r.code, r.err)
			}
		})
	}
}
