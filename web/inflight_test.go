package web

import (
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs"
)

// held is a kind whose requests are looked at only when release is closed; entered gets each that is there.
func held(entered, release chan struct{}) jobs.Kind {
	return jobs.Kind{Name: "held", Version: 1, Decode: func(jobs.Payload) (jobs.Task, error) {
		entered <- struct{}{}
		<-release
		return jobs.Task{Key: "k", Title: "Held"}, nil
	}}
}

// While the first request with a key is at work, another one is told so; afterwards it gets the same job.
func TestAKeyThatIsInUse(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}, 10), make(chan struct{})
	w := newWorld(t, func(c *Config) {
		c.Dispatcher = jobs.NewDispatcher(c.Store, must(jobs.NewRegistry(held(entered, release)))(t))
	})
	who, body := w.token("acme"), `{"kind":"held","payload":{}}`
	first := make(chan answer, 1)
	go func() { first <- w.call("/api/v1/jobs", who, body, "Idempotency-Key", "k1") }()
	select {
	case <-entered:
	case got := <-first:
		t.Fatalf("the first request was answered %d %s", got.StatusCode, got.body)
	}
	w.call("/api/v1/jobs", who, body, "Idempotency-Key", `"k1"`).want(t, 409, "urn:fenceline:problem:idempotency-key-in-use")
	w.call("/api/v1/jobs", who, strings.Replace(body, "{", `{"idempotency_key":"k1",`, 1)).want(t, 409, "idempotency-key-in-use")
	elsewhere := make(chan answer, 1)
	go func() { elsewhere <- w.call("/api/v1/jobs", w.token("globex"), body, "Idempotency-Key", "k1") }()
	<-entered // the key of another tenant is another key
	close(release)
	made := decode[jobJSON](t, (<-first).want(t, 202))
	(<-elsewhere).want(t, 202).without(t, made.ID)
	again := decode[jobJSON](t, w.call("/api/v1/jobs", who, body, "Idempotency-Key", "k1").want(t, 202))
	if again.ID != made.ID || !again.Reused {
		t.Errorf("the same key gave %+v, after %+v", again, made)
	}
}

// A request that was refused leaves its key free.
func TestARefusedRequestFreesItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.token("acme")
	w.call("/api/v1/jobs", who, `{"kind":"note"}`, "Idempotency-Key", "k1").want(t, 422)
	w.call("/api/v1/jobs", who, noteBody, "Idempotency-Key", "k1").want(t, 202)
}
