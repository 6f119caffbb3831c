package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

func TestSpec(t *testing.T) {
	t.Parallel()
	s, err := ParseSpec([]byte(`{"kind":"k","tenant":"t","payload":{"a":1},"queue":"q","priority":3,"tags":["x"],"delay":"90s","max_attempts":7,"retry_for":"1h",
		"backoff":"1s,10s","timeout":"5m","idempotency_key":"i"}`), "")
	if err != nil {
		t.Fatal(err)
	}
	item, err := s.Item()
	if err != nil {
		t.Fatal(err)
	}
	var n storage.NewJob
	for _, o := range item.Options {
		o(&n)
	}
	if item.Kind != "k" || item.Tenant != "t" || string(item.Payload) != `{"a":1}` || n.Queue != "q" || n.Priority != 3 || n.Tags[0] != "x" || n.Delay != 90*time.Second ||
		n.MaxAttempts != 7 || n.RetryFor != time.Hour || string(n.Backoff) != `{"seconds":[1,10]}` || n.Timeout != 5*time.Minute || n.IdempotencyKey != "i" {
		t.Errorf("%+v, %+v", item, n)
	}
	for _, tt := range []struct {
		spec Spec
		want func(storage.NewJob) bool
	}{
		{Spec{At: "2026-12-24T18:00:00+01:00"}, func(n storage.NewJob) bool {
			return n.At.Equal(time.Date(2026, 12, 24, 17, 0, 0, 0, time.UTC))
		}},
		{Spec{RetryUntil: "2026-12-24T18:00:00Z"}, func(n storage.NewJob) bool { return n.MaxAttempts == mostAttempts }},
		{Spec{Backoff: "exp:2s:10m"}, func(n storage.NewJob) bool { return strings.Contains(string(n.Backoff), `"max":600`) }},
		{Spec{Unique: "pending", UniqueKey: "k"}, func(n storage.NewJob) bool { return n.UniqueWhile == "pending" && n.UniqueKey == "k" }},
		{Spec{Unique: "30m"}, func(n storage.NewJob) bool { return n.UniqueWhile == "period" && n.UniqueFor == 30*time.Minute }},
		{Spec{Debounce: "30s:5m", DebounceKey: "k"}, func(n storage.NewJob) bool {
			return n.Delay == 30*time.Second && n.Debounce == 5*time.Minute && n.UniqueKey == "k"
		}},
	} {
		item, err := tt.spec.Item()
		var n storage.NewJob
		for _, o := range item.Options {
			o(&n)
		}
		if err != nil || !tt.want(n) {
			t.Errorf("%+v gave %+v, %v", tt.spec, n, err)
		}
	}
}

func TestSpecsAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ batch, want string }{
		{`{"jobs":[{"kind":"k"},{"delay":"x"}]}`, `jobs[1].delay: "x" must be a duration`},
		{`{"chains":[[{"kind":"k"}],[{"at":"noon"}]]}`, `chains[1][0].at: "noon" must be a time`},
		{`{"then":{"kind":1}}`, `then.kind: "1" must be text`},
		{`{"finally":[]}`, "finally: must be one JSON object"},
		{`{"allow_failures":"yes"}`, "must be true or false"},
		{`{"jobs":{}}`, "must be a list"},
		{`{"job":[]}`, "job: is not a known field"},
		{`{"jobs":[{"unique":"x"},{"backoff":"1s,,2s"},{"debounce":"5s"},{"retry_for":"1h","retry_until":"2026-12-24T18:00:00Z"}]}`, "jobs[3].retry_until"},
		{`{"jobs":[{"unique_key":"x"}]}`, "needs unique"},
	} {
		if _, err := ParseBatch([]byte(tt.batch)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.batch, err, tt.want)
		}
	}
}
