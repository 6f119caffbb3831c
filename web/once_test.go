package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// A request with a key is done once, however often it comes and whichever server
// process it comes to: each repetition gets the same status, address and bytes.
func TestAKeyedRequestIsDoneOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elsewhere := newWorldAt(t, w.address)
	who := w.token("acme")
	if err := w.store.CreateSeries(w.ctx, storage.Series{Tenant: "acme", Name: "s", Prefix: "A-", Digits: 3, First: 1}); err != nil {
		t.Fatal(err)
	}
	made := func() int {
		return len(must(w.store.Jobs(w.ctx, storage.Scope{All: true}, storage.JobFilter{Limit: 200}))(t).Items)
	}
	for path, body := range map[string]string{
		"/api/v1/jobs/bulk": `{"jobs":[` + noteBody + `,` + noteBody + `]}`,
		"/api/v1/chains":    `{"jobs":[` + noteBody + `,` + noteBody + `]}`,
		"/api/v1/batches":   `{"title":"Night","jobs":[` + noteBody + `]}`,
		"/api/v1/invoices":  fmt.Sprintf(`{"series":"s","customer":"c","period":"p","document":%s}`, numberless(t)),
	} {
		key := []string{"Idempotency-Key", "key of " + path}
		w.call(path, who, `{}`, key...).want(t, 422)
		first := w.call(path, who, body, key...)
		if first.StatusCode != 202 && first.StatusCode != 201 {
			t.Fatalf("%s is answered %d %s", path, first.StatusCode, first.body)
		}
		there := made()
		for _, at := range []*world{w, elsewhere} {
			again := at.call(path, who, body, key...)
			if again.StatusCode != first.StatusCode || again.body != first.body || again.Header.Get("Location") != first.Header.Get("Location") {
				t.Errorf("%s: the same request is answered %d %s %s, after %d %s %s", path, again.StatusCode, again.Header.Get("Location"), again.body,
					first.StatusCode, first.Header.Get("Location"), first.body)
			}
			at.call(path, who, strings.Replace(body, "{", `{ `, 1), key...).want(t, 422, "urn:fenceline:problem:idempotency-key-reused")
		}
		for _, bad := range []string{"", "  ", "söme", `"open`, strings.Repeat("x", 256)} {
			w.call(path, who, body, "Idempotency-Key", bad).want(t, 400, "urn:fenceline:problem:idempotency-key")
		}
		if n := made(); n != there {
			t.Errorf("%s: repetitions have made %d jobs", path, n-there)
		}
		if path != "/api/v1/invoices" {
			other := w.call(path, w.token("globex"), strings.ReplaceAll(body, "acme", "globex"), key...).want(t, 202)
			if other.body == first.body {
				t.Errorf("%s: the key of one tenant answers another", path)
			}
		}
	}
}

// While a request is at work its key is taken, at every server process.
func TestAKeyThatIsInUseElsewhere(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}, 10), make(chan struct{})
	with := func(c *Config) {
		c.Dispatcher = jobs.NewDispatcher(c.Store, must(jobs.NewRegistry(held(entered, release)))(t))
	}
	w := newWorld(t, with)
	elsewhere := newWorldAt(t, w.address, with)
	who, body := w.token("acme"), `{"jobs":[{"kind":"held","payload":{}}]}`
	first := make(chan answer, 1)
	go func() { first <- w.call("/api/v1/chains", who, body, "Idempotency-Key", "k1") }()
	select {
	case <-entered:
	case got := <-first:
		t.Fatalf("the first request was answered %d %s", got.StatusCode, got.body)
	}
	elsewhere.call("/api/v1/chains", who, body, "Idempotency-Key", `"k1"`).want(t, 409, "urn:fenceline:problem:idempotency-key-in-use")
	close(release)
	done := (<-first).want(t, 202)
	if again := elsewhere.call("/api/v1/chains", who, body, "Idempotency-Key", "k1").want(t, 202); again.body != done.body {
		t.Errorf("the repetition is answered %s, after %s", again.body, done.body)
	}
}
