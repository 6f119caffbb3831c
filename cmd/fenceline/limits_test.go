package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

func TestLimitCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	store, err := storage.Open(t.Context(), s.env["DATABASE_URL"], storage.Options{MaxConns: 1})
	s.must(err)
	defer store.Close()
	job := uuid.New()
	for _, key := range []storage.LimitKey{{Tenant: "default", Key: "kind:mail 1/1h"}, {Key: "everything 1/1h"}} {
		_, err = store.TakeRate(t.Context(), key, storage.Rate{Every: time.Hour, Burst: 1}, job)
		s.must(err)
	}
	_, err = store.LeaveCircuit(t.Context(), storage.LimitKey{Tenant: "default", Key: "kind:mail"}, storage.Holder{Job: job}, storage.CircuitFailed,
		storage.Breaker{Failures: 1, Within: time.Hour, CoolDown: time.Hour})
	s.must(err)

	lines := strings.Split(strings.TrimSpace(s.ok("limit", "list")), "\n")
	for i, want := range []string{"TYPE", "circuit default kind:mail open", "rate * everything 1/1h busy", "rate default kind:mail 1/1h busy"} {
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(got, want) {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
	page := asJSON[storage.Page[storage.Limit]](s, "limit", "list", "--limit", "1")
	rest := asJSON[storage.Page[storage.Limit]](s, "limit", "list", "--type", "rate", "--tenant", "default", "--after", page.Next)
	if len(page.Items) != 1 || page.Items[0].State != "open" || len(rest.Items) != 1 || rest.Items[0].Key != "kind:mail 1/1h" || rest.Next != "" {
		t.Errorf("pages are %+v and %+v", page, rest)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "circuit, hold, rate", []string{"list", "--type", "x"}},
		{exitUsage, "cursor", []string{"list", "--after", "x"}},
		{exitUsage, "KEY", []string{"reset"}},
		{exitUsage, "KEY", []string{"reset", "", "--yes"}},
		{exitUsage, "--yes", []string{"reset", "kind:mail"}},
		{exitNotFound, "not found", []string{"reset", "kind:mail", "--tenant", "acme", "--yes"}},
		{exitNotFound, "not found", []string{"reset", "everything 1/1h", "--yes"}},
		{exitDone, "", []string{"reset", "everything 1/1h", "--tenant", "*", "--yes"}},
		{exitDone, "", []string{"reset", "kind:mail", "--yes", "--json"}},
		{exitNotFound, "not found", []string{"reset", "kind:mail", "--yes"}},
	} {
		if got := s.run(append([]string{"limit"}, c.args...)...); got.code != c.code || !strings.Contains(got.err, c.says) {
			t.Errorf("%v: exit %d, %s", c.args, got.code, got.err)
		}
	}
	if left := asJSON[storage.Page[storage.Limit]](s, "limit", "list"); len(left.Items) != 1 || left.Items[0].Key != "kind:mail 1/1h" {
		t.Errorf("left are %+v", left.Items)
	}
}
