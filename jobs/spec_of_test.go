package jobs

import (
	"reflect"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// asked is a job as its options make it.
func askedFor(t *testing.T, s Spec) storage.Job {
	t.Helper()
	item, err := s.Item()
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	n := storage.NewJob{Queue: "default", MaxAttempts: usualAttempts, Timeout: usualTimeout}
	for _, o := range item.Options {
		o(&n)
	}
	j := storage.Job{Kind: s.Kind, Tenant: s.Tenant, Queue: n.Queue, Priority: n.Priority, Tags: n.Tags, MaxAttempts: n.MaxAttempts,
		TimeoutSeconds: int(n.Timeout / time.Second), Backoff: n.Backoff, CreatedAt: time.Unix(1e9, 0)}
	if n.RetryFor > 0 {
		j.RetryUntil = new(j.CreatedAt.Add(n.RetryFor))
	}
	return j
}

// What would ask for a job again asks for the same.
func TestSpecOfAJob(t *testing.T) {
	t.Parallel()
	nine := 9
	for _, s := range []Spec{
		{Kind: "a", Tenant: "t"},
		{Kind: "a", Tenant: "t", Queue: "mail", Priority: -3, Tags: []string{"x", "y z"}, MaxAttempts: &nine, Timeout: "1m30s"},
		{Kind: "a", Tenant: "t", Backoff: "1s,10s,1m0s"},
		{Kind: "a", Tenant: "t", Backoff: "500ms"},
		{Kind: "a", Tenant: "t", Backoff: "exp:2s:10m0s", RetryFor: "2h0m0s"},
		{Kind: "a", Tenant: "t", RetryFor: "24h0m0s", MaxAttempts: &nine},
	} {
		if got := SpecOf(askedFor(t, s)); !reflect.DeepEqual(got, s) {
			t.Errorf("asked for %+v, again it is %+v", s, got)
		}
	}
}
