package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage/localpg"
)

// labBackend is a kind of lease that the lab knows.
type labBackend struct {
	name    string
	schemes []string // that its addresses may begin with
	example string   // of an address
	// start starts servers for it; nil when an address is needed. here is nil, or says why it cannot.
	start func(context.Context, *labServers) (address, server string, err error)
	here  func() error
	// failover says why a replica that never saw the lease is not played; empty when it is.
	failover string
}

const electedReplica = "a lease is granted when more than half of the servers have it, and only one of those can be elected after a failure"

// labBackends are all of them, in the order of the table.
func labBackends() []labBackend {
	return []labBackend{
		{name: leaseRedis, schemes: []string{"redis", "rediss", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster", "unix"}, example: "redis://HOST:6379", start: startLabRedis},
		{name: "redlock", schemes: []string{"redlock", "redlocks"}, example: "redlock://HOST,HOST,HOST", start: startLabRedlock, here: hasProgram("redis-server"),
			failover: "its servers have no replicas; one that comes back empty is one vote of five"},
		{name: leasePostgres, schemes: []string{"postgres", "postgresql"}, example: "postgres://HOST/NAME", start: startLabPostgres, here: hasPostgres,
			failover: "it is always so: no advisory lock is ever sent to a replica; what fails over with it is the row that is written, and its fence"},
		{name: "etcd", schemes: []string{"etcd", "etcds"}, example: "etcd://HOST:2379", start: startLabEtcd, here: hasProgram("etcd"), failover: electedReplica},
		{name: "zookeeper", schemes: []string{"zookeeper"}, example: "zookeeper://HOST:2181", start: startLabZooKeeper, here: hasZooKeeper, failover: electedReplica},
		{name: "kubernetes", schemes: []string{"kubernetes"}, example: "kubernetes://NAMESPACE",
			failover: "its Lease objects are kept in etcd: " + electedReplica},
		{name: leaseNone, start: func(context.Context, *labServers) (string, string, error) { return leaseNone, "nothing", nil },
			failover: "there is no server"},
	}
}

// labSource is a backend with the address that was given for it, empty for servers of the lab's own.
type labSource struct {
	labBackend
	address string
	server  string // what it is, in words
	private bool
}

// missing says why a backend cannot be played here; nil when it can.
func (b labSource) missing() error {
	if b.name == leaseNone {
		return nil
	}
	service, _ := leaseBackendOf(b.schemes[0])
	switch {
	case service.open == nil:
		return fmt.Errorf("%s is not part of this program, which was built without its client: build one with go build -tags %s ./cmd/fenceline", b.name, cmp.Or(service.tag, b.name))
	case b.address == "" && b.start == nil:
		return fmt.Errorf("%s needs an address: fenceline lab %s=%s", b.name, b.name, b.example)
	case b.address == "" && b.here != nil && b.here() != nil:
		return fmt.Errorf("%w: install it, or give an address: fenceline lab %s=%s", b.here(), b.name, b.example)
	}
	return nil
}

// parseLabSources reads what the command is given: names, or names with addresses,
// which are never repeated in an error. Nothing is every backend that can be played here; the others come back in words.
func parseLabSources(args []string) (list []labSource, not []string, err error) {
	all := labBackends()
	if len(args) == 0 {
		for _, b := range all {
			if err := (labSource{labBackend: b}).missing(); err != nil {
				not = append(not, err.Error())
				continue
			}
			list = append(list, labSource{labBackend: b})
		}
		return list, not, nil
	}
	for _, arg := range args {
		name, address, given := strings.Cut(arg, "=")
		i := slices.IndexFunc(all, func(b labBackend) bool { return b.name == name })
		if i < 0 {
			return nil, nil, usageError("backend: %q is none of %s", name, labNames())
		}
		src := labSource{labBackend: all[i], address: address}
		scheme, _, whole := strings.Cut(address, "://")
		if given && len(src.schemes) == 0 {
			return nil, nil, usageError("backend: %s takes no address: write %s", name, name)
		}
		if given && (!whole || !slices.Contains(src.schemes, scheme)) {
			return nil, nil, usageError("backend: the address of %s must be such as %s=%s", name, name, src.example)
		}
		if slices.ContainsFunc(list, func(o labSource) bool { return o.name == name }) {
			return nil, nil, usageError("backend: %s is given twice", name)
		}
		if err := src.missing(); err != nil {
			return nil, nil, &coded{exitUsage, err}
		}
		list = append(list, src)
	}
	return list, nil, nil
}

func labNames() string {
	var names []string
	for _, b := range labBackends() {
		names = append(names, b.name)
	}
	return strings.Join(names, ", ")
}

// openLabLeaser opens leases at an address.
func openLabLeaser(ctx context.Context, address string, o jobs.LeaseOptions) (jobs.Leaser, func(), error) {
	if address == leaseNone {
		return jobs.AlwaysLeaser{}, func() {}, nil
	}
	scheme, _, _ := strings.Cut(address, "://")
	service, _ := leaseBackendOf(scheme)
	if service.open == nil {
		return nil, nil, fmt.Errorf("no service of this program has addresses that begin with %s://", scheme)
	}
	return service.open(ctx, address, o)
}

// prepare starts servers where no address was given.
func (b *labSource) prepare(ctx context.Context, s *labServers) (err error) {
	if b.address != "" {
		b.server = "an address that was given"
		return nil
	}
	b.private = true
	if b.address, b.server, err = b.start(ctx, s); err != nil {
		return fmt.Errorf("start servers for %s: %w", b.name, err)
	}
	return nil
}

// inWords is what a Redis of the lab is.
func inWords() string {
	if redisServer() == "" {
		return "the Redis in this process"
	}
	return "redis-server"
}

func startLabRedis(ctx context.Context, s *labServers) (address, server string, err error) {
	r, err := s.redis(ctx)
	return r.url(), "one " + inWords(), err
}

// redlockServers is how many servers a redlock of the lab has.
const redlockServers = 5

func startLabRedlock(ctx context.Context, s *labServers) (address, server string, err error) {
	var hosts []string
	for range redlockServers {
		r, err := s.redis(ctx)
		if err != nil {
			return "", "", err
		}
		hosts = append(hosts, r.addr)
	}
	return "redlock://:" + s.password + "@" + strings.Join(hosts, ",") + "/0", fmt.Sprintf("%d × redis-server", redlockServers), nil
}

func startLabPostgres(ctx context.Context, s *labServers) (address, server string, err error) {
	return s.postgres.URL("leases"), "one PostgreSQL", s.postgres.EnsureDatabase(ctx, "leases")
}

func startLabEtcd(ctx context.Context, s *labServers) (address, server string, err error) {
	program, err := exec.LookPath("etcd")
	if err != nil {
		return "", "", fmt.Errorf("find etcd: %w", err)
	}
	addr, err := s.etcd(ctx, program)
	return "etcd://" + addr, "one etcd", err
}

// hasProgram is nil where a program is installed.
func hasProgram(name string) func() error {
	return func() error {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not installed here", name)
		}
		return nil
	}
}

func startLabZooKeeper(ctx context.Context, s *labServers) (address, server string, err error) {
	addr, err := s.zooKeeper(ctx)
	return "zookeeper://" + addr, "one ZooKeeper", err
}

func hasZooKeeper() error {
	if _, err := os.Stat(zooKeeperClasses); err != nil {
		return errors.New("ZooKeeper is not installed here (its Debian package is libzookeeper-java)")
	}
	return hasProgram("java")()
}

func hasPostgres() error {
	if _, err := localpg.Find(); err != nil {
		return errors.New("PostgreSQL is not installed here")
	}
	return nil
}
