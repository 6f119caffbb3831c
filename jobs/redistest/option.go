package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Option changes how servers are started.
type Option func(testing.TB, *config)

type config struct {
	password string
	socket   string
	tls      *certificates
}

// Password makes the servers (and sentinels) ask for one.
func Password(text string) Option { return func(_ testing.TB, c *config) { c.password = text } }

// Socket makes a server listen at this path as well.
func Socket(path string) Option { return func(_ testing.TB, c *config) { c.socket = path } }

// TLS makes the servers speak nothing else, with certificates of an authority that
// is made for this call, and ask for one of its certificates in turn.
func TLS() Option {
	return func(t testing.TB, c *config) { t.Helper(); c.tls = newCertificates(t) }
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
		scheme = "rediss" + scheme[len("redis"):]
		query.Set("ca", c.tls.ca)
		query.Set("cert", c.tls.cert)
		query.Set("key", c.tls.key)
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

// certificates are the files of an authority and of one certificate by it, which
// servers and clients show to each other.
type certificates struct {
	ca, cert, key string
	pool          *x509.CertPool
	pair          tls.Certificate
}

func newCertificates(t testing.TB) *certificates {
	t.Helper()
	dir := t.TempDir()
	c := &certificates{ca: filepath.Join(dir, "ca.pem"), cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), pool: x509.NewCertPool()}
	authority, authorityKey := newKey(t, "redistest authority")
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	c.write(t, c.ca, "CERTIFICATE", sign(t, authority, authority, authorityKey, authorityKey))
	leaf, key := newKey(t, "redistest server and client")
	leaf.IPAddresses, leaf.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	c.write(t, c.cert, "CERTIFICATE", sign(t, leaf, authority, key, authorityKey))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, c.key, "PRIVATE KEY", der)
	text, err := os.ReadFile(c.ca)
	if err != nil {
		t.Fatal(err)
	}
	c.pool.AppendCertsFromPEM(text)
	if c.pair, err = tls.LoadX509KeyPair(c.cert, c.key); err != nil {
		t.Fatal(err)
	}
	return c
}

func newKey(t testing.TB, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}, key
}

func sign(t testing.TB, cert, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func (c *certificates) write(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// arguments are for a server that also speaks to others of its kind.
func (c *certificates) arguments() []string {
	return []string{"--tls-cert-file", c.cert, "--tls-key-file", c.key, "--tls-ca-cert-file", c.ca, "--tls-auth-clients", "yes",
		"--tls-replication", "yes", "--tls-cluster", "yes"}
}

func (c *certificates) client() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.pool, Certificates: []tls.Certificate{c.pair}}
}
