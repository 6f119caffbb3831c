package main

import (
	"context"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs"
)

// leaseBackend is a service that hands out leases at an address.
type leaseBackend struct {
	// schemes begin its addresses.
	schemes []string
	// tag is the build tag that brings its client into the program; empty for what every build has.
	tag string
	// open connects to the service; nil in a build without the tag. end is called when no lease is held any more.
	open func(ctx context.Context, address string, o jobs.LeaseOptions) (l jobs.Leaser, end func(), err error)
}

// leaseBackends are all services that Fenceline knows. Those with large clients are
// in files of their own, once for builds with their tag and once for those
// without, so that who does not use them does not compile, ship or scan them.
func leaseBackends() []leaseBackend {
	return []leaseBackend{
		{schemes: []string{"redis", "rediss", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster", "unix", "redlock", "redlocks"}, open: jobs.OpenLeaser},
		{schemes: []string{"postgres", "postgresql"}, open: jobs.OpenLeaser},
		etcdLeases(),
		zookeeperLeases(),
		kubernetesLeases(),
	}
}

// leaseBackendOf is who reads addresses with a scheme; false when nobody does.
func leaseBackendOf(scheme string) (leaseBackend, bool) {
	all := leaseBackends()
	i := slices.IndexFunc(all, func(b leaseBackend) bool { return slices.Contains(b.schemes, scheme) })
	if i < 0 {
		return leaseBackend{}, false
	}
	return all[i], true
}

// leaseSchemes begin the addresses that this very program can open, and those that need a build with their tag.
func leaseSchemes() string {
	var here, others []string
	for _, b := range leaseBackends() {
		if b.open != nil {
			here = append(here, b.schemes...)
		} else {
			others = append(others, b.schemes...)
		}
	}
	text := strings.Join(here, "://, ") + "://"
	if len(others) > 0 {
		text += " (in builds with their tags also " + strings.Join(others, "://, ") + "://)"
	}
	return text
}
