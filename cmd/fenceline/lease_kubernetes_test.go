//go:build kubernetes

package main

import (
	"testing"

	"github.com/fenceline/fenceline/jobs/lease/kubernetestest"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// A build with the client plays the drill with objects of Kubernetes, and tells their transitions beside the tokens.
func TestDrillWithTaggedLeasesOfKubernetes(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.env["LEASE_URL"] = kubernetestest.Start(t).URL()
	r := s.drill("pause", "--json").report(exitDone)
	if !r.Held || len(r.Attempts) != 2 || *r.Attempts[0].Verdict != storage.AttemptFenced || !told(r, byLeases, "the lease of worker A has ended", "") {
		t.Fatalf("%+v", r)
	}
	if first, second := r.Attempts[0].LeaseOrder, r.Attempts[1].LeaseOrder; first.String() != "transition 0" || second.String() != "transition 1" {
		t.Errorf("the orders are %q and %q", first, second)
	}
	if !told(r, "worker B", "took the lease (transition 1) and the job", "") {
		t.Errorf("the timeline does not tell the order: %+v", r.Events)
	}
}
