package web

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

func formBody(pairs ...string) *strings.Reader {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return strings.NewReader(form.Encode())
}

// Secrets of links cannot be tried out; whose links open is not kept out by those who try.
func TestLinksAreNotGuessed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.TrustedProxies = proxies("127.0.0.0/8") })
	j, _ := w.published("acme", "k", "K", "a.csv", "id\n1\n")
	_, path := w.share(w.token("acme"), j, `{"file":"a.csv"}`)
	from := func(n int) []string { return []string{"X-Forwarded-For", fmt.Sprintf("198.51.%d.%d", n/250, n%250)} }
	for i := range maxLinkMisses {
		w.get(fmt.Sprintf("/l/nothing%d", i), nobody, from(0)...).want(t, 404)
	}
	for _, p := range []string{"/l/nothing", "/l/nothing/file", path} {
		got := w.get(p, nobody, from(0)...).want(t, 429, "Too many links")
		if after := got.Header.Get("Retry-After"); after == "" || after == "0" {
			t.Errorf("Retry-After is %q", after)
		}
	}
	w.get(path, nobody, from(1)...).want(t, 200)
	for i := maxLinkMisses; i < maxMissesOfAll; i++ { // each from an address of its own
		w.get("/l/nothing", nobody, from(i)...).want(t, 404)
	}
	w.get("/l/nothing", nobody, from(maxMissesOfAll-1)...).want(t, 429)
	w.get(path, nobody, from(maxMissesOfAll+5)...).want(t, 200, "a.csv")
}

// However good a link is, one address cannot hammer it.
func TestOneAddressAsksForLinksSlowly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Unix(1_000_000, 0)
	w.server.links.now = func() time.Time { return now }
	j, _ := w.published("acme", "k", "K", "a.csv", "id\n1\n")
	_, path := w.share(w.token("acme"), j, `{"file":"a.csv"}`)
	for range linksPerMinute / 6 {
		w.get(path, nobody).want(t, 200)
	}
	w.get(path, nobody).want(t, 429)
	now = now.Add(time.Second)
	w.get(path, nobody).want(t, 200)
}

// Two processes together allow as many tries as one; without Redis each counts for itself.
func TestSigninsAreCountedTogether(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	with := func(c *Config) {
		r := must(jobs.OpenRedis(t.Context(), server.URL(), "together"))(t)
		t.Cleanup(func() { _ = r.Client.Close() })
		c.Tally = jobs.NewTally(r)
	}
	w := newWorld(t, with)
	other := newWorldAt(t, w.address, with)
	w.user("Nadia", "", storage.RoleAdmin, goodPassword)
	tries := []*world{w, other}
	for i := range maxFailedSignins {
		tries[i%2].signIn("Nadia", "wrong", nobody).want(t, 403)
	}
	for _, at := range tries {
		at.signIn("Nadia", goodPassword, nobody).want(t, 429)
	}
	server.Kill()
	other.signIn("Nadia", "wrong", nobody).want(t, 403) // of which this process has counted half
	other.server.names.clear(t.Context(), nameKey("Nadia"))
	for range maxFailedSignins/2 - 1 {
		other.signIn("Nadia", "wrong", nobody).want(t, 403)
	}
	other.signIn("Nadia", goodPassword, nobody).want(t, 429)
}
