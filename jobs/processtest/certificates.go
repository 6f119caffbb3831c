package processtest

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
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are the files of an authority and of one certificate by it, which
// servers and clients show to each other.
type Certificates struct {
	CA, Cert, Key string
	pool          *x509.CertPool
	pair          tls.Certificate
}

// NewCertificates makes them for a test, for 127.0.0.1 and localhost.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	dir := t.TempDir()
	c := &Certificates{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), pool: x509.NewCertPool()}
	authority, authorityKey := newKey(t, "test authority")
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	c.write(t, c.CA, "CERTIFICATE", sign(t, authority, authority, authorityKey, authorityKey))
	leaf, key := newKey(t, "test server and client")
	leaf.IPAddresses, leaf.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	c.write(t, c.Cert, "CERTIFICATE", sign(t, leaf, authority, key, authorityKey))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, c.Key, "PRIVATE KEY", der)
	text, err := os.ReadFile(c.CA)
	if err != nil {
		t.Fatal(err)
	}
	c.pool.AppendCertsFromPEM(text)
	if c.pair, err = tls.LoadX509KeyPair(c.Cert, c.Key); err != nil {
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

func (c *Certificates) write(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Client is how a client speaks to such a server.
func (c *Certificates) Client() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.pool, Certificates: []tls.Certificate{c.pair}}
}
