package web

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

func proxies(list ...string) []netip.Prefix {
	var nets []netip.Prefix
	for _, text := range list {
		nets = append(nets, netip.MustParsePrefix(text))
	}
	return nets
}

// Whom a proxy speaks for is believed from the right, as far as proxies are trusted.
func TestForwardedAddress(t *testing.T) {
	t.Parallel()
	s := &Server{proxies: proxies("10.0.0.0/8", "2001:db8:5::/48")}
	for _, c := range []struct {
		peer, forwarded, scheme string
		want                    string
		tls                     bool
	}{
		{"198.51.100.1:5", "192.0.2.7", "https", "198.51.100.1", false}, // nobody that we know
		{"10.0.0.1:5", "", "", "10.0.0.1", false},
		{"10.0.0.1:5", "192.0.2.7", "https", "192.0.2.7", true},
		{"10.0.0.1:5", "1.1.1.1, 192.0.2.7", "http", "192.0.2.7", false}, // the left one is made up
		{"10.0.0.1:5", "1.1.1.1,192.0.2.7 , 10.2.3.4", "HTTPS", "192.0.2.7", true},
		{"10.0.0.1:5", "192.0.2.7:4711", "", "192.0.2.7", false},
		{"[2001:db8:5::1]:5", "[2001:db8:9::2]", "https", "2001:db8:9::2", true},
		{"[::ffff:10.0.0.1]:5", "192.0.2.7", "", "192.0.2.7", false},
		{"10.0.0.1:5", "192.0.2.7, unknown", "", "10.0.0.1", false}, // further left nothing is known
		{"10.0.0.1:5", "10.9.9.9", "", "10.9.9.9", false},           // all are ours
		{"10.0.0.1:5", "192.0.2.7", "https, http", "192.0.2.7", false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = c.peer
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		r.Header.Set("X-Forwarded-Proto", c.scheme)
		if tls := s.fromProxy(r); clientAddress(r) != c.want && clientAddress(r) != "::ffff:"+c.want || tls != c.tls {
			t.Errorf("%s for %q over %q is taken for %s, TLS %v; want %s, %v", c.peer, c.forwarded, c.scheme, clientAddress(r), tls, c.want, c.tls)
		}
	}
}

// Behind a trusted proxy the audit log has the client, cookies are for TLS only, and links too.
func TestBehindAProxy(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{true, false} {
		w := newWorld(t, func(c *Config) {
			if trusted {
				c.TrustedProxies = proxies("127.0.0.0/8")
			}
		})
		w.user("Nadia", "", storage.RoleAdmin, goodPassword)
		header := []string{"X-Forwarded-For", "203.0.113.9", "X-Forwarded-Proto", "https", "Content-Type", "application/x-www-form-urlencoded"}
		got := w.send(http.MethodPost, "/signin", nobody, formBody("name", "Nadia", "password", goodPassword), header...).want(t, 303)
		cookie := got.Cookies()[0]
		if cookie.Secure != trusted || (cookie.Name == "__Host-fenceline") != trusted || (got.Header.Get("Strict-Transport-Security") != "") != trusted {
			t.Errorf("trusted %v: the cookie is %s, with %q", trusted, cookie, got.Header.Get("Strict-Transport-Security"))
		}
		entries := must(w.store.AuditLog(w.ctx, storage.Scope{All: true}, storage.AuditFilter{Action: auditSignedIn}))(t)
		if len(entries.Items) != 1 || (entries.Items[0].Address == "203.0.113.9") != trusted {
			t.Errorf("trusted %v: the audit log has %+v", trusted, entries.Items)
		}
		j, _ := w.published("acme", "k", "K", "a.csv", "id\n1\n")
		l := decode[linkJSON](t, w.call("/api/v1/exports/"+j.ExportID.String()+"/links", w.token("acme"), `{"file":"a.csv"}`, header[:4]...).want(t, 201))
		if (l.URL[:8] == "https://") != trusted {
			t.Errorf("trusted %v: the link is %s", trusted, l.URL)
		}
	}
}
