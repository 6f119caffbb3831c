// Package address reads the addresses of services that hand out leases:
//
//	SCHEME://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PATH][?NAME=VALUE&…]
//
// It is strict: what it does not know it refuses. No refusal repeats more of an
// address than the names of parameters, because it may hold a password.
package address

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/fenceline/fenceline/jobs/invalid"
)

// Address is an address that was understood. It is not safe for concurrent use
// while parameters are taken from it.
type Address struct {
	Scheme string
	// User and Password are empty when none were given.
	User, Password string
	// Hosts are all HOST:PORT.
	Hosts []string
	// Path is without slashes at its ends.
	Path  string
	query url.Values
}

// Parse reads an address; port is the usual one of the service.
func Parse(text, port string) (*Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return nil, Refuse("must begin with a scheme, such as etcd://")
	}
	a := &Address{Scheme: scheme}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	if strings.Contains(tail, "@") && !strings.Contains(authority, "@") {
		return nil, Refuse("a / ? or # before the @: in a user or a password write %%2F, %%3F or %%23")
	}
	user, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, hosts = authority[:i], authority[i+1:]
	}
	if err := a.setUser(user); err != nil {
		return nil, err
	}
	if err := a.setHosts(hosts, port); err != nil {
		return nil, err
	}
	// The hosts are read apart: a list of them is no host of a URL.
	u, err := url.Parse("x://hosts" + tail)
	if err != nil || u.Fragment != "" {
		return nil, Refuse("the path or a parameter is not as in a URL: write %% as %%25, # as %%23")
	}
	a.Path = strings.Trim(u.Path, "/")
	if a.query, err = url.ParseQuery(u.RawQuery); err != nil {
		return nil, Refuse("the parameters are not as in a URL: NAME=VALUE, with & between them")
	}
	return a, nil
}

// Refuse is the error of an address that does not fit. The message must not repeat a secret.
func Refuse(format string, args ...any) error { return invalid.New("LEASE_URL", "", format, args...) }

func (a *Address) setUser(text string) error {
	user, password, _ := strings.Cut(text, ":")
	var err1, err2 error
	a.User, err1 = url.PathUnescape(user)
	a.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return Refuse("the user or the password holds a %% that is none of an escape: write it as %%25")
	}
	if (a.User == "") != (a.Password == "") {
		return Refuse("user and password belong together, as in etcd://USER:PASSWORD@HOST")
	}
	return nil
}

func (a *Address) setHosts(text, usual string) error {
	for i, part := range strings.Split(text, ",") {
		host, port, err := net.SplitHostPort(part)
		if err != nil { // without a port
			host, port, err = net.SplitHostPort(part + ":" + usual)
		}
		n, wrong := strconv.Atoi(port)
		if err != nil || wrong != nil || n < 1 || n > 65535 || host == "" || strings.ContainsAny(host, "@/ \t") {
			return Refuse("host %d is not HOST or HOST:PORT (of IPv6: [HOST]:PORT)", i+1)
		}
		a.Hosts = append(a.Hosts, net.JoinHostPort(host, port))
	}
	return nil
}

// take answers a parameter and strikes it out.
func (a *Address) take(name string) string {
	v := a.query.Get(name)
	a.query.Del(name)
	return v
}

// Done refuses the parameters that nobody took.
func (a *Address) Done() error {
	for name := range a.query {
		return Refuse("parameter %s is not known to %s://", name, a.Scheme)
	}
	return nil
}

// TLS takes the parameters ca, cert, key (files in PEM), server_name and
// skip_verify. Without ca the authorities of the system count.
func (a *Address) TLS() (*tls.Config, error) {
	ca, cert, key, skip := a.take("ca"), a.take("cert"), a.take("key"), a.take("skip_verify")
	switch {
	case skip != "" && skip != "true" && skip != "false":
		return nil, Refuse("skip_verify must be true or false")
	case skip == "true" && ca != "":
		return nil, Refuse("ca and skip_verify=true: either the certificate is looked at or not")
	case (cert == "") != (key == ""):
		return nil, Refuse("cert and key belong together")
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.take("server_name"), InsecureSkipVerify: skip == "true"} // the caller said so
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, Refuse("ca: %v", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, Refuse("ca: %s holds no certificate in PEM", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, Refuse("cert and key: %v", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}
