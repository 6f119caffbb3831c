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

// leaseSchemes begin the addresses of services that hand out leases.
func leaseSchemes() []string {
	return []string{"redis", "rediss", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster", "unix", "redlock", "redlocks", "postgres", "postgresql"}
}

// leases reads LEASE_URL. The address itself is read when it is opened; nothing of
// it is repeated here, because it may hold a password.
func (r *configReader) leases(env string) string {
	v := r.text(env)
	scheme, _, address := strings.Cut(v, "://")
	if !address && !slices.Contains([]string{leaseRedis, leasePostgres, leaseNone}, v) || address && !slices.Contains(leaseSchemes(), scheme) {
		r.refuse(env, "", "must be redis, postgres, none, or an address that begins with one of %s://", strings.Join(leaseSchemes(), "://, "))
	}
	return v
}

// openLeases connects to who should say which worker works.
func (a *app) openLeases(ctx context.Context) (err error) {
	o := jobs.LeaseOptions{Owner: a.name, Prefix: a.conf.Namespace + ":lease:", TTL: a.conf.Lease}
	address := a.conf.LeaseURL
	switch address {
	case leaseNone:
		a.leases = jobs.AlwaysLeaser{}
		return nil
	case leaseRedis:
		a.leases = a.redis.Leaser(a.name, a.conf.Lease)
		return nil
	case leasePostgres:
		address = cmp.Or(a.conf.DirectURL, a.conf.DatabaseURL)
	}
	var end func()
	if a.leases, end, err = jobs.OpenLeaser(ctx, address, o); err == nil {
		a.closers = append(a.closers, end)
	}
	return err
}
