package storage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// A plan says how long something has been garbage only where that counts.
func TestReasonsWithoutAnAge(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.attempt("silent")
	_, lost := s.attempt("lost")
	_, err := s.store.EndAttempt(s.ctx, lost.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "x", Counts: true, Final: true})
	s.must(err)
	s.exec("SET session_replication_role = replica; UPDATE fenceline.attempts SET heartbeat_at = heartbeat_at - interval '3 hours', finished_at = finished_at - interval '3 hours'; RESET session_replication_role")
	for _, c := range []struct {
		age  time.Duration
		want string
	}{{time.Hour, "gave no heartbeat for more than 1h0m0s; was failed more than 1h0m0s ago and can never be published; "},
		{0, "gave no heartbeat; was failed and can never be published; will have been condemned and can never be published; "}} {
		said := ""
		for _, it := range s.plan(storage.SweepOptions{Grace: c.age, Quarantine: c.age, Superseded: c.age, Worker: "test"}) {
			said += it.Why + "; "
		}
		if said != c.want || strings.Contains(said, "0s ago") && c.age == 0 {
			t.Errorf("with %s the plan says %q, want %q", c.age, said, c.want)
		}
	}
}
