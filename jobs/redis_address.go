package jobs

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/jobs/invalid"
)

const (
	// redisTimeout bounds each step of a command: to connect, to write, to read.
	redisTimeout = 2 * time.Second
	// redisRetries is how often a command is tried again, on a cluster also at another node.
	redisRetries = 1
	// clusterRedirects leaves room for that and for one node that says who has the key now.
	clusterRedirects = redisRetries + 1
)

// The schemes, without the s of TLS.
const (
	schemeSingle   = "redis"
	schemeSentinel = "redis-sentinel"
	schemeCluster  = "redis-cluster"
	schemeUnix     = "unix"
)

// redisAddress is a REDIS_URL that was understood.
type redisAddress struct {
	scheme  string
	options redis.UniversalOptions
}

// parseRedisAddress is strict: what it does not know it refuses, and no refusal
// repeats more of the address than the names of schemes and parameters.
func parseRedisAddress(address string) (redisAddress, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return redisAddress{}, wrongAddress("must begin with a scheme, such as redis://")
	}
	a := redisAddress{scheme: strings.Replace(scheme, "rediss", "redis", 1)}
	secure := a.scheme != scheme
	if !slices.Contains([]string{schemeSingle, schemeSentinel, schemeCluster, schemeUnix}, a.scheme) {
		return redisAddress{}, wrongAddress("the scheme must be redis, redis-sentinel or redis-cluster, each also with rediss for TLS, or unix")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	if strings.Contains(tail, "@") && !strings.Contains(authority, "@") {
		return redisAddress{}, wrongAddress("a / ? or # before the @: in a user or a password write %%2F, %%3F or %%23")
	}
	user, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, hosts = authority[:i], authority[i+1:]
	}
	// The hosts are read apart: a list of them is no host of a URL.
	u, err := url.Parse("redis://hosts" + tail)
	if err != nil || u.Fragment != "" {
		return redisAddress{}, wrongAddress("the path or a parameter is not as in a URL: write %% as %%25, # as %%23")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return redisAddress{}, wrongAddress("the parameters are not as in a URL: NAME=VALUE, with & between them")
	}
	steps := []func() error{
		func() error { return a.setUser(user) },
		func() error { return a.setHosts(hosts, u.Path) },
		func() error { return a.setPath(u.Path, query) },
		func() error { return a.setTLS(secure, query) },
		func() error { return a.setSentinelUser(query) },
		func() error { return a.setRest(query) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return redisAddress{}, err
		}
	}
	return a, nil
}

func wrongAddress(format string, args ...any) error {
	return invalid.New("REDIS_URL", "", format, args...)
}

func (a *redisAddress) setUser(text string) error {
	user, password, _ := strings.Cut(text, ":")
	var err1, err2 error
	a.options.Username, err1 = url.PathUnescape(user)
	a.options.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return wrongAddress("the user or the password holds a %% that is none of an escape: write it as %%25")
	}
	return nil
}

func (a *redisAddress) setHosts(text, path string) error {
	if a.scheme == schemeUnix {
		if text != "" || path == "" {
			return wrongAddress("unix needs the path of a socket, as in unix:///run/redis.sock")
		}
		a.options.Addrs = []string{path}
		return nil
	}
	port := "6379"
	if a.scheme == schemeSentinel {
		port = "26379"
	}
	for i, host := range strings.Split(text, ",") {
		addr, ok := hostPort(host, port)
		if !ok {
			return wrongAddress("host %d is not HOST or HOST:PORT (of IPv6: [HOST]:PORT)", i+1)
		}
		a.options.Addrs = append(a.options.Addrs, addr)
	}
	if a.scheme == schemeSingle && len(a.options.Addrs) > 1 {
		return wrongAddress("several hosts need redis-sentinel:// or redis-cluster://")
	}
	a.options.IsClusterMode = a.scheme == schemeCluster
	return nil
}

func hostPort(text, usual string) (addr string, ok bool) {
	host, port, err := net.SplitHostPort(text)
	if err != nil { // without a port
		host, port, err = net.SplitHostPort(text + ":" + usual)
	}
	n, wrong := strconv.Atoi(port)
	if err != nil || wrong != nil || n < 1 || n > 65535 || host == "" || strings.ContainsAny(host, "@/ \t") {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}

// setPath reads the database and, for sentinels, the name of the primary.
func (a *redisAddress) setPath(path string, query url.Values) error {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if a.scheme == schemeUnix {
		parts = nil
	}
	if a.scheme == schemeSentinel {
		if a.options.MasterName = parts[0]; parts[0] == "" {
			return wrongAddress("redis-sentinel needs the name of the primary after the hosts, as in redis-sentinel://HOST:26379/PRIMARY")
		}
		parts = parts[1:]
	}
	db := slices.DeleteFunc(append(parts, query["db"]...), func(s string) bool { return s == "" })
	query.Del("db")
	if len(db) == 0 {
		return nil
	}
	n, err := strconv.Atoi(db[0])
	if len(db) > 1 || err != nil || n < 0 {
		return wrongAddress("the database must be one number, such as /0 at the end of the path")
	}
	if a.scheme == schemeCluster && n != 0 {
		return wrongAddress("a cluster has the database 0 only")
	}
	a.options.DB = n
	return nil
}

func (a *redisAddress) setTLS(secure bool, query url.Values) error {
	given := func(name string) string { v := query.Get(name); query.Del(name); return v }
	ca, cert, key := given("ca"), given("cert"), given("key")
	name, skip := given("server_name"), given("skip_verify")
	switch {
	case secure && a.scheme == schemeUnix:
		return wrongAddress("a Unix socket has no TLS")
	case !secure && ca+cert+key+name+skip != "":
		return wrongAddress("ca, cert, key, server_name and skip_verify need TLS: a scheme with rediss")
	case skip != "" && skip != "true" && skip != "false":
		return wrongAddress("skip_verify must be true or false")
	case skip == "true" && ca != "":
		return wrongAddress("ca and skip_verify=true: either the certificate is looked at or not")
	case (cert == "") != (key == ""):
		return wrongAddress("cert and key belong together")
	case !secure:
		return nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, InsecureSkipVerify: skip == "true"} // the caller said so
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return wrongAddress("ca: %v", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return wrongAddress("ca: %s holds no certificate in PEM", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return wrongAddress("cert and key: %v", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	a.options.TLSConfig = conf
	return nil
}

func (a *redisAddress) setSentinelUser(query url.Values) error {
	user, password := query.Get("sentinel_user"), query.Get("sentinel_password")
	query.Del("sentinel_user")
	query.Del("sentinel_password")
	if a.scheme != schemeSentinel && user+password != "" {
		return wrongAddress("sentinel_user and sentinel_password need redis-sentinel://")
	}
	a.options.SentinelUsername, a.options.SentinelPassword = user, password
	return nil
}

// setRest takes what the client's own URLs have besides, such as pool_size.
func (a *redisAddress) setRest(query url.Values) error {
	for name, values := range query {
		if _, err := redis.ParseURL("redis://host?" + (url.Values{name: values}).Encode()); err != nil || len(values) > 1 {
			return wrongAddress("parameter %s is not known, is given twice or has a value that does not fit", name)
		}
	}
	o, err := redis.ParseURL("redis://host?" + query.Encode())
	if err != nil {
		return wrongAddress("some parameters do not go together")
	}
	if max(o.DialTimeout, o.ReadTimeout, o.WriteTimeout) > redisTimeout || o.MaxRetries > redisRetries {
		return wrongAddress("dial_timeout, read_timeout and write_timeout may be %s at most, max_retries %d: longer ones outlast a lease", redisTimeout, redisRetries)
	}
	u := &a.options
	u.Protocol, u.ClientName = o.Protocol, o.ClientName
	u.DialTimeout, u.ReadTimeout, u.WriteTimeout = orTimeout(o.DialTimeout), orTimeout(o.ReadTimeout), orTimeout(o.WriteTimeout)
	u.MaxRetries, u.DialerRetries, u.MaxRedirects, u.ContextTimeoutEnabled = redisRetries, 1, clusterRedirects, true
	if a.scheme == schemeCluster {
		u.MaxRetries = -1 // its nodes' clients; the cluster's own goes on by redirects
	}
	u.MinRetryBackoff, u.MaxRetryBackoff = o.MinRetryBackoff, o.MaxRetryBackoff
	u.PoolFIFO, u.PoolSize, u.PoolTimeout, u.MaxConcurrentDials = o.PoolFIFO, o.PoolSize, o.PoolTimeout, o.MaxConcurrentDials
	u.MinIdleConns, u.MaxIdleConns, u.MaxActiveConns = o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns
	u.ConnMaxIdleTime, u.ConnMaxLifetime, u.ConnMaxLifetimeJitter = o.ConnMaxIdleTime, o.ConnMaxLifetime, o.ConnMaxLifetimeJitter
	u.PipelinePoolSize, u.PipelineReadBufferSize, u.PipelineWriteBufferSize = o.PipelinePoolSize, o.PipelineReadBufferSize, o.PipelineWriteBufferSize
	return nil
}

func orTimeout(d time.Duration) time.Duration { return cmp.Or(max(d, 0), redisTimeout) }

// unverified is true when the address says not to look at certificates.
func (a redisAddress) unverified() bool {
	return a.options.TLSConfig != nil && a.options.TLSConfig.InsecureSkipVerify
}

// sentinels are how to ask them; nil when the address names none.
func (a redisAddress) sentinels() *sentinels {
	if a.scheme != schemeSentinel {
		return nil
	}
	o := a.options
	return &sentinels{primary: o.MasterName, addrs: o.Addrs, options: redis.Options{
		Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLSConfig,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		MaxRetries: o.MaxRetries, DialerRetries: o.DialerRetries, ContextTimeoutEnabled: true,
	}}
}
