package redistest

import (
	"net/url"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/processtest"
)

// Option changes how servers are started.
type Option func(testing.TB, *config)

type config struct {
	password string
	socket   string
	tls      *processtest.Certificates
}

// Password makes the servers (and sentinels) ask for one.
func Password(text string) Option { return func(_ testing.TB, c *config) { c.password = text } }

// Socket makes a server listen at this path as well.
func Socket(path string) Option { return func(_ testing.TB, c *config) { c.socket = path } }

// TLS makes the servers speak nothing else, with certificates of an authority that
// is made for this call, and ask for one of its certificates in turn.
func TLS() Option {
	return func(t testing.TB, c *config) { t.Helper(); c.tls = processtest.NewCertificates(t) }
}

func configure(t testing.TB, options []Option) (c config) {
	t.Helper()
	for _, o := range options {
		o(t, &c)
	}
	return c
}

// url is an address as jobs.OpenRedis takes it.
func (c config) url(scheme, hosts, path string, query url.Values) string {
	if query == nil {
		query = url.Values{}
	}
	if c.tls != nil {
		if rest, ok := strings.CutPrefix(scheme, "redis"); ok {
			scheme = "rediss" + rest
		} else {
			scheme += "s" // of redlock
		}
		query.Set("ca", c.tls.CA)
		query.Set("cert", c.tls.Cert)
		query.Set("key", c.tls.Key)
	}
	user := ""
	if c.password != "" {
		user = ":" + url.PathEscape(c.password) + "@"
	}
	address := scheme + "://" + user + hosts + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return address
}

// secure are the arguments of a server that also speaks to others of its kind.
func (c config) secure() []string {
	return []string{"--tls-cert-file", c.tls.Cert, "--tls-key-file", c.tls.Key, "--tls-ca-cert-file", c.tls.CA, "--tls-auth-clients", "yes",
		"--tls-replication", "yes", "--tls-cluster", "yes"}
}
