package jobs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// OpenLeaser opens the leases at an address of Redis (see [OpenRedisLeaser]) or of
// PostgreSQL (see [OpenPostgresLeaser]). The caller calls end when no lease is held any more.
func OpenLeaser(ctx context.Context, address string, o LeaseOptions) (l Leaser, end func(), err error) {
	scheme, _, _ := strings.Cut(address, "://")
	if scheme == "postgres" || scheme == "postgresql" {
		return OpenPostgresLeaser(ctx, address, o)
	}
	return OpenRedisLeaser(ctx, address, o)
}

// OpenRedisLeaser keeps leases at an address that [OpenRedis] takes, or at several
// servers that know nothing of each other:
//
//	redlock://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT],HOST[:PORT][,HOST[:PORT]…][/DB]
//
// redlocks is the same over TLS, with the parameters of rediss. At least three are
// needed, and an odd number of them; more than half must answer, or it is
// [storage.ErrUnreachable]. The caller calls end when no lease is held any more.
func OpenRedisLeaser(ctx context.Context, address string, o LeaseOptions) (l Leaser, end func(), err error) {
	defer func() { err = ofLease(err) }()
	var clients []redis.UniversalClient
	end = func() {
		for _, c := range clients {
			_ = c.Close() // nothing is lost: leases live at the servers
		}
	}
	nodes, several, err := redlockNodes(address)
	if err != nil {
		return nil, nil, err
	}
	if !several {
		r, err := OpenRedis(ctx, address, o.Prefix, o.dial)
		if err != nil {
			return nil, nil, err
		}
		clients = append(clients, r.Client)
		return NewRedisLeaser(o, clients...), end, nil
	}
	var failures []error
	for _, node := range nodes {
		a, err := parseRedisAddress(node)
		if err != nil {
			end()
			return nil, nil, err
		}
		o.dial(&a.options)
		c := redis.NewUniversalClient(&a.options)
		clients = append(clients, c)
		if err := c.Ping(ctx).Err(); err != nil {
			failures = append(failures, err)
		}
	}
	if len(nodes)-len(failures) <= len(nodes)/2 {
		end()
		return nil, nil, fmt.Errorf("connect to more than half of %d Redis servers, of which %d answer: %w: %w", len(nodes), len(nodes)-len(failures), storage.ErrUnreachable, errors.Join(failures...))
	}
	return NewRedisLeaser(o, clients...), end, nil
}

// ofLease names the setting that a refused address came from: the reader of addresses blames the usual one.
func ofLease(err error) error {
	if bad, ok := errors.AsType[*invalid.Error](err); ok {
		for i := range bad.Problems {
			bad.Problems[i].Field = "LEASE_URL"
		}
	}
	return err
}

// dial lets a client of Redis use Dial. A client that is given a dialer leaves to
// it what its own does: to give up in time, and TLS.
func (o LeaseOptions) dial(u *redis.UniversalOptions) {
	if o.Dial == nil {
		return
	}
	secret, limit := u.TLSConfig, u.DialTimeout
	u.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		conn, err := o.Dial(ctx, network, address)
		if err != nil || secret == nil {
			return conn, err
		}
		conf := secret.Clone()
		if conf.ServerName == "" {
			conf.ServerName, _, _ = net.SplitHostPort(address) // the client makes it of a host and a port
		}
		encrypted := tls.Client(conn, conf)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // what it says would tell less
			return nil, fmt.Errorf("encrypt the connection: %w", err)
		}
		return encrypted, nil
	}
}

// redlockNodes are the addresses of the servers of a redlock address; false when it is none.
func redlockNodes(address string) (nodes []string, several bool, err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	single, ok := map[string]string{"redlock": "redis://", "redlocks": "rediss://"}[scheme]
	if !ok {
		return nil, false, nil
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	user, hosts := "", rest[:end]
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		user, hosts = hosts[:i+1], hosts[i+1:]
	}
	seen := map[string]bool{}
	for _, host := range strings.Split(hosts, ",") {
		if seen[host] {
			return nil, true, invalid.New("LEASE_URL", "", "names the server %s twice: it would vote twice; name each once", host)
		}
		seen[host] = true
		nodes = append(nodes, single+user+host+rest[end:])
	}
	if len(nodes) < 3 || len(nodes)%2 == 0 {
		return nil, true, invalid.New("LEASE_URL", "", "redlock needs an odd number of independent servers, three or more, and %d are named: add one, or use redis://", len(nodes))
	}
	return nodes, true, nil
}
