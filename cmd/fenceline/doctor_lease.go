package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs"
)

// leaseTrial is what became of a lease that the doctor took for itself.
type leaseTrial struct {
	took    time.Duration // to open the service, take, look and release
	busy    bool          // another doctor was at it: the service answers all the same
	up, all int           // servers that know nothing of each other; 0 for other services
	err     error
}

// askLeaseService takes a lease as a worker does. One that cannot be had is no
// danger: jobs wait, and no law leans on leases (L9).
func askLeaseService(ctx context.Context, d *doctor) (finding, error) {
	name := leaseService(d.conf.LeaseURL)
	if d.conf.LeaseURL == leaseNone {
		return fine("no lease: every worker may work"), nil
	}
	if d.conf.LeaseURL == leaseRedis && d.redisErr != nil {
		return judgeLeaseService(name, leaseTrial{err: errors.New("the Redis of REDIS_URL cannot be used: see redis.connection")}, d), nil
	}
	patience := d.limits.check * 4 / 5 // before the check is given up, so that it says what does not answer
	ctx, cancel := context.WithTimeout(ctx, patience)
	tried := make(chan leaseTrial, 1)
	go func() { // a client that hangs in a connection does not look at ctx
		defer cancel()
		tried <- d.tryLease(ctx)
	}()
	select {
	case t := <-tried:
		return judgeLeaseService(name, t, d), nil
	case <-ctx.Done():
	}
	select {
	case t := <-tried: // both at once
		return judgeLeaseService(name, t, d), nil
	default:
		return judgeLeaseService(name, leaseTrial{err: fmt.Errorf("no answer within %s", patience)}, d), nil
	}
}

// tryLease takes a lease that no job wants, looks who holds it, and releases it.
func (d *doctor) tryLease(ctx context.Context) (t leaseTrial) {
	begun := time.Now()
	leaser, end, err := d.conf.openLeaser(ctx, "doctor", d.redis)
	if err != nil {
		t.err = err
		return t
	}
	defer end()
	if r, ok := leaser.(*jobs.RedisLeaser); ok {
		t.up, t.all = r.Servers(ctx)
	}
	resource := "doctor:" + rand.Text()
	if strings.HasPrefix(d.conf.LeaseURL, "kubernetes://") {
		resource = "doctor" // objects stay there: one for all
	}
	lease, err := leaser.Acquire(ctx, resource)
	if errors.Is(err, jobs.ErrLeaseBusy) {
		t.busy = true
		return t
	}
	if err != nil {
		t.err = err
		return t
	}
	holder, err := leaser.Holder(ctx, resource)
	if err == nil && holder.Owner != "doctor" {
		err = fmt.Errorf("the lease was given, and its holder is said to be %q", holder.Owner)
	}
	t.err = errors.Join(err, lease.Release(ctx))
	t.took = time.Since(begun)
	return t
}

func judgeLeaseService(name string, t leaseTrial, d *doctor) finding {
	servers := ""
	if t.all > 1 {
		servers = fmt.Sprintf(", %d of %d servers answer", t.up, t.all)
	}
	switch {
	case t.err != nil:
		return warning(fmt.Sprintf("%s%s: no lease can be had: %s", name, servers, d.withoutSecrets(t.err)),
			"speed: no job begins; all wait in PostgreSQL until leases are given again", "start what LEASE_URL names, or let LEASE_URL of all workers name a service that answers (postgres needs no further one)")
	case t.all > 1 && t.up < t.all:
		return warning(name+servers, "nothing yet: more than half of them give leases", "start the missing servers: when half of them are away no job begins")
	case t.busy:
		return fine("%s%s: answers; another doctor held the lease for trials", name, servers)
	}
	return fine("%s%s: a lease was taken and released in %s", name, servers, approximately(t.took))
}

// leaseService is what LEASE_URL leads to, without its address.
func leaseService(address string) string {
	scheme, _, _ := strings.Cut(address, "://")
	return scheme
}

// leaseSecret is what stands before the @ of LEASE_URL as a client may repeat it; empty when nothing does.
func leaseSecret(address string) (raw, plain string) {
	_, rest, _ := strings.Cut(address, "://")
	authority, _, _ := strings.Cut(rest, "?")
	i := strings.LastIndexByte(authority, '@')
	if i < 0 {
		return "", ""
	}
	_, raw, _ = strings.Cut(authority[:i], ":")
	plain, err := url.PathUnescape(raw)
	if err != nil {
		plain = raw
	}
	return raw, plain
}
