package leasetest_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/lease/leasetest"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage/storagetest"
)

func TestMain(m *testing.M) {
	jobs.QuietRedis() // servers go away on purpose here
	if leasetest.Main(jobs.OpenLeaser) {
		return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // they wait for leases to end, and do nothing else
	os.Exit(storagetest.Main(m))
}

// calm is how long a silent primary is not called dead: here nobody is.
const calm = 5 * time.Minute

// The contract of leases holds on every kind of Redis, with the clients that workers have.
func TestRedisLeases(t *testing.T) {
	secret := []redistest.Option{redistest.TLS(), redistest.Password("p/w d")}
	for kind, start := range map[string]func(*testing.T) leasetest.Server{
		"single":           func(t *testing.T) leasetest.Server { return redistest.Server(t) },
		"TLS":              func(t *testing.T) leasetest.Server { return redistest.Server(t, redistest.TLS()) },
		"sentinel":         func(t *testing.T) leasetest.Server { return redistest.Sentinel(t, calm) },
		"cluster":          func(t *testing.T) leasetest.Server { return redistest.Cluster(t, calm) },
		"sentinel and TLS": func(t *testing.T) leasetest.Server { return redistest.Sentinel(t, calm, secret...) },
		"cluster and TLS":  func(t *testing.T) leasetest.Server { return redistest.Cluster(t, calm, secret...) },
		"redlock":          func(t *testing.T) leasetest.Server { return redistest.Independent(t, 5, redistest.Password("p/w d")) },
	} {
		t.Run(kind, func(t *testing.T) {
			leasetest.Run(t, leasetest.Backend{
				Open: jobs.OpenLeaser, Start: start, Take: deleteKeys, Left: countKeys, TTL: 5 * time.Second, Owners: true, Since: true,
			})
		})
	}
}

// each is called with a client of each server that keeps leases.
func each(t *testing.T, s leasetest.Server, call func(redis.UniversalClient) error) {
	t.Helper()
	addresses := []string{s.URL()}
	if g, ok := s.(*redistest.Group); ok && strings.HasPrefix(s.URL(), "redlock") {
		addresses = nil
		for _, n := range g.Nodes {
			addresses = append(addresses, n.URL())
		}
	}
	for _, a := range addresses {
		r, err := jobs.OpenRedis(t.Context(), a, "test")
		if err != nil {
			t.Fatal(err)
		}
		err = call(r.Client)
		_ = r.Client.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func deleteKeys(t *testing.T, s leasetest.Server, o jobs.LeaseOptions, resource string) {
	t.Helper()
	each(t, s, func(c redis.UniversalClient) error {
		n, err := c.Del(t.Context(), o.Prefix+resource).Result()
		if err == nil && n != 1 {
			err = errors.New("the key is not where it was expected")
		}
		return err
	})
}

func countKeys(t *testing.T, s leasetest.Server, prefix string) int {
	t.Helper()
	var n atomic.Int64 // a cluster is asked at all its nodes at once
	count := func(ctx context.Context, c *redis.Client) error {
		keys, err := c.Keys(ctx, prefix+"*").Result()
		n.Add(int64(len(keys)))
		return err
	}
	each(t, s, func(c redis.UniversalClient) error {
		if cluster, ok := c.(*redis.ClusterClient); ok {
			return cluster.ForEachMaster(t.Context(), count)
		}
		return count(t.Context(), c.(*redis.Client))
	})
	return int(n.Load())
}
