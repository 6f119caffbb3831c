package jobs_test

import (
	"errors"
	"testing"

	"github.com/fenceline/fenceline/jobs"
)

// The contract that real services keep is in package leasetest; this one keeps nobody out.
func TestAlwaysLeaserSaysYes(t *testing.T) {
	t.Parallel()
	take := func() *jobs.Lease {
		t.Helper()
		lease, err := jobs.AlwaysLeaser{}.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	a, b := take(), take()
	if err := a.Release(t.Context()); err != nil || a.Context().Err() == nil || b.Context().Err() != nil {
		t.Error("releasing one touches the other, or not itself")
	}
	if _, err := (jobs.AlwaysLeaser{}).Holder(t.Context(), "x"); !errors.Is(err, jobs.ErrLeaseFree) {
		t.Errorf("a lease that keeps nobody out has a holder: %v", err)
	}
}
