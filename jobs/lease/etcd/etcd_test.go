package etcd_test

import (
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/lease/etcd"
	"github.com/fenceline/fenceline/jobs/lease/etcdtest"
	"github.com/fenceline/fenceline/jobs/lease/leasetest"
	"github.com/fenceline/fenceline/storage"
)

// ttl leaves time for a disk that makes three members wait, and for a cluster that elects a new leader.
const ttl = 8 * time.Second

func TestMain(m *testing.M) {
	if leasetest.Main(etcd.Open) {
		return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // they wait for leases to end, and do nothing else
	os.Exit(m.Run())
}

func TestLeases(t *testing.T) {
	leasetest.Run(t, leasetest.Backend{
		Open:  etcd.Open,
		Start: func(t *testing.T) leasetest.Server { return etcdtest.Start(t) },
		Take: func(t *testing.T, s leasetest.Server, o jobs.LeaseOptions, resource string) {
			c := s.(*etcdtest.Cluster)
			id := find(t, c, o.Prefix+resource)
			c.Ask(t, func(ctx context.Context, client *clientv3.Client) error {
				_, err := client.Revoke(ctx, id)
				return err
			})
		},
		Left: func(t *testing.T, s leasetest.Server, prefix string) (n int) {
			s.(*etcdtest.Cluster).Ask(t, func(ctx context.Context, client *clientv3.Client) error {
				keys, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
				if err != nil {
					return err
				}
				leases, err := client.Leases(ctx)
				if err == nil {
					n = int(keys.Count) + len(leases.Leases) // it is asked when nobody else holds one
				}
				return err
			})
			return n
		},
		TTL: ttl, Order: "revision", Owners: true, Since: true,
	})
}

// find is the lease that a key hangs on.
func find(t *testing.T, c *etcdtest.Cluster, key string) (id clientv3.LeaseID) {
	t.Helper()
	c.Ask(t, func(ctx context.Context, client *clientv3.Client) error {
		found, err := client.Get(ctx, key)
		if err == nil && len(found.Kvs) != 1 {
			err = errors.New("the key is not where it was expected")
		}
		if err == nil {
			id = clientv3.LeaseID(found.Kvs[0].Lease)
		}
		return err
	})
	return id
}

func open(t *testing.T, url string, ttl time.Duration) jobs.Leaser {
	t.Helper()
	l, end, err := etcd.Open(t.Context(), url, jobs.LeaseOptions{Owner: "w", Prefix: "p:", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return l
}

// acquire asks until an answer comes, as a worker would.
func acquire(t *testing.T, l jobs.Leaser, resource string) *jobs.Lease {
	t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Minute); ; <-look.C {
		lease, err := l.Acquire(t.Context(), resource)
		if err == nil {
			return lease
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Those who look find nobody, and go on at once: only one may get it, and who does not must leave nothing behind.
func TestOneOfManyGetsIt(t *testing.T) {
	t.Parallel()
	l := open(t, etcdtest.Start(t).URL(), ttl)
	for round := range 5 {
		resource := strconv.Itoa(round)
		leases, begin := make([]*jobs.Lease, 8), make(chan struct{})
		var wg sync.WaitGroup
		for i := range leases {
			wg.Go(func() {
				<-begin
				leases[i], _ = l.Acquire(t.Context(), resource) // busy, or no answer in time
			})
		}
		close(begin)
		wg.Wait()
		leases = slices.DeleteFunc(leases, func(l *jobs.Lease) bool { return l == nil })
		if len(leases) > 1 {
			t.Fatalf("%d hold one lease", len(leases))
		}
		for _, lease := range leases {
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := acquire(t, l, resource).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHurtClusters(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t)
	t.Run("a deleted key ends the lease before the next renewal", func(t *testing.T) {
		const long = 10 * time.Minute
		lease := acquire(t, open(t, c.URL()+"/team/one", long), "x")
		c.Ask(t, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Delete(ctx, "team/one/p:x")
			return err
		})
		ended(t, lease)
	})
	t.Run("parts of a second are rounded up", func(t *testing.T) {
		acquire(t, open(t, c.URL(), 5500*time.Millisecond), "rounded")
		id := find(t, c, "p:rounded")
		c.Ask(t, func(ctx context.Context, client *clientv3.Client) error {
			left, err := client.TimeToLive(ctx, id)
			if err == nil && left.GrantedTTL != 6 {
				t.Errorf("it lives for %d s", left.GrantedTTL)
			}
			return err
		})
	})
	t.Run("a lost leader ends no lease", func(t *testing.T) {
		// The cluster elects in a fraction of that, and it is less than it takes to find out that a connection is dead.
		const ttl = 12 * time.Second
		l := open(t, c.URL(), ttl)
		var leases []*jobs.Lease
		for i := range 6 { // so that the client asks each member about some of them
			leases = append(leases, acquire(t, l, strconv.Itoa(i)))
		}
		leader := c.Leader(t)
		leader.Pause(t)
		t.Cleanup(func() { leader.Resume(t) })
		<-time.NewTimer(ttl + ttl/2).C
		for i, lease := range leases {
			if lease.Context().Err() != nil {
				t.Errorf("lease %d ended: %v", i, context.Cause(lease.Context()))
			}
		}
	})
}

func TestClustersThatAskWhoComes(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.TLS(), etcdtest.Password("p/w d"))
	var dialled atomic.Int32 // TLS is spoken over what somebody else has made as well
	l, end, err := etcd.Open(t.Context(), c.URL(), jobs.LeaseOptions{Owner: "w", Prefix: "p:", TTL: ttl, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	lease := acquire(t, l, "x")
	if _, err := l.Acquire(t.Context(), "x"); err == nil {
		t.Error("x has a second holder")
	}
	select { // beyond its time to live, because it is renewed
	case <-lease.Context().Done():
		t.Fatal("the lease ended: ", context.Cause(lease.Context()))
	case <-time.NewTimer(ttl + ttl/2).C:
	}
	if err := lease.Release(t.Context()); err != nil || dialled.Load() == 0 {
		t.Errorf("%v after %d connections", err, dialled.Load())
	}
	for name, wrong := range map[string]string{
		"the password": strings.Replace(c.URL(), "root:p%2Fw%20d", "root:hunter2", 1),
		"no user":      strings.Replace(c.URL(), "root:p%2Fw%20d@", "", 1),
	} {
		_, _, err := etcd.Open(t.Context(), wrong, jobs.LeaseOptions{TTL: ttl})
		if err == nil || errors.Is(err, storage.ErrUnreachable) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func ended(t *testing.T, lease *jobs.Lease) {
	t.Helper()
	select {
	case <-lease.Context().Done():
		if cause := context.Cause(lease.Context()); !errors.Is(cause, jobs.ErrLeaseLost) {
			t.Errorf("it ended because of %v", cause)
		}
	case <-time.NewTimer(time.Minute).C:
		t.Fatal("the lease goes on")
	}
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"etcdx://a":                "the scheme must be etcd, or etcds",
		"etcd://a/?ca=/x":          "parameter ca is not known to etcd://",
		"etcds://a/?cert=/x":       "cert and key belong together",
		"etcd://u:hunter2@a/?x=y":  "parameter x is not known",
		"etcd://u:hunter2@a,b:pp/": "host 2",
	} {
		_, _, err := etcd.Open(t.Context(), url, jobs.LeaseOptions{TTL: ttl})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want %q", url, err, says)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"etcd://127.0.0.1:1", "etcd://u:hunter2@127.0.0.1:1"} {
		_, _, err := etcd.Open(t.Context(), url, jobs.LeaseOptions{TTL: 2 * time.Second})
		if !errors.Is(err, storage.ErrUnreachable) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
