package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs"
)

// What LEASE_URL may be besides an address.
const (
	leaseRedis    = "redis"
	leasePostgres = "postgres"
	leaseNone     = "none"
)

// leases reads LEASE_URL. The address itself is read when it is opened; nothing of
// it is repeated here, because it may hold a password.
func (r *configReader) leases(env string) string {
	v := r.text(env)
	scheme, _, address := strings.Cut(v, "://")
	backend, known := leaseBackendOf(scheme)
	switch {
	case !address && slices.Contains([]string{leaseRedis, leasePostgres, leaseNone}, v):
	case !address || !known:
		r.refuse(env, "", "must be redis, postgres, none, or an address that begins with one of %s", leaseSchemes())
	case backend.open == nil:
		r.refuse(env, "", "%s:// is not part of this program, which was built without its client: build one with go build -tags %s ./cmd/fenceline", scheme, backend.tag)
	}
	return v
}

// openLeases connects to who should say which worker works.
func (a *app) openLeases(ctx context.Context) (err error) {
	var end func()
	if a.leases, end, err = a.conf.openLeaser(ctx, a.name, a.redis); err == nil {
		a.closers = append(a.closers, end)
	}
	return err
}

// openLeaser opens what LEASE_URL names, for an owner; r is the Redis of REDIS_URL.
// The caller calls end when it holds no lease any more.
func (c Config) openLeaser(ctx context.Context, owner string, r jobs.Redis) (l jobs.Leaser, end func(), err error) {
	o := jobs.LeaseOptions{Owner: owner, Prefix: c.Namespace + ":lease:", TTL: c.Lease}
	address := c.LeaseURL
	scheme, _, _ := strings.Cut(address, "://")
	backend, _ := leaseBackendOf(scheme) // the configuration lets no other address through
	switch address {
	case leaseNone:
		return jobs.AlwaysLeaser{}, func() {}, nil
	case leaseRedis:
		return r.Leaser(owner, c.Lease), func() {}, nil
	case leasePostgres:
		address, backend.open = cmp.Or(c.DirectURL, c.DatabaseURL), jobs.OpenPostgresLeaser
	}
	return backend.open(ctx, address, o)
}
