package zookeeper_test

import (
	"context"
	"errors"
	"flag"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/lease/address"
	"github.com/fenceline/fenceline/jobs/lease/leasetest"
	"github.com/fenceline/fenceline/jobs/lease/zookeeper"
	"github.com/fenceline/fenceline/jobs/lease/zookeepertest"
	"github.com/fenceline/fenceline/storage"
)

const ttl = 6 * time.Second

func TestMain(m *testing.M) {
	if leasetest.Main(zookeeper.Open) {
		return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // they wait for leases to end, and do nothing else
	os.Exit(m.Run())
}

func TestLeases(t *testing.T) {
	leasetest.Run(t, leasetest.Backend{
		Open:  zookeeper.Open,
		Start: func(t *testing.T) leasetest.Server { return zookeepertest.Start(t) },
		Take: func(t *testing.T, s leasetest.Server, o jobs.LeaseOptions, resource string) {
			folder := "/fenceline/" + url.PathEscape(o.Prefix+resource)
			look(t, s.URL(), func(c *zk.Conn) error { return takeFirst(c, folder) })
		},
		Left: func(t *testing.T, s leasetest.Server, prefix string) (n int) {
			look(t, s.URL(), func(c *zk.Conn) error {
				names, _, err := c.Children("/fenceline")
				for _, name := range names {
					if strings.HasPrefix(name, url.PathEscape(prefix)) {
						n++
					}
				}
				return err
			})
			return n
		},
		TTL: ttl, Order: "czxid", Owners: true, Since: true,
	})
}

// takeFirst deletes the only node in a folder.
func takeFirst(c *zk.Conn, folder string) error {
	names, _, err := c.Children(folder)
	if err == nil && len(names) != 1 {
		err = errors.New("the node is not where it was expected")
	}
	if err != nil {
		return err
	}
	return c.Delete(folder+"/"+names[0], -1)
}

// look calls a function with a session of its own, which is gone when it answers.
func look(t *testing.T, text string, call func(*zk.Conn) error) {
	t.Helper()
	a, err := address.Parse(text, "2181")
	if err != nil {
		t.Fatal(err)
	}
	c, events, err := zk.Connect(a.Hosts, zookeepertest.MaxSession, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	if a.User != "" {
		err = c.AddAuth("digest", []byte(a.User+":"+a.Password))
	}
	if err == nil {
		err = call(c)
	}
	c.Close()
	for range events { // closed when the client has ended
	}
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, text string, ttl time.Duration) jobs.Leaser {
	t.Helper()
	l, end, err := zookeeper.Open(t.Context(), text, jobs.LeaseOptions{Owner: "w", Prefix: "p:", TTL: ttl})
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
		if time.Now().After(end) || errors.Is(err, zk.ErrNoAuth) {
			t.Fatal(err)
		}
	}
}

// Those who look find nobody, and go on at once: only one may get it, and who does not must leave nothing behind.
func TestOneOfManyGetsIt(t *testing.T) {
	t.Parallel()
	l := open(t, zookeepertest.Start(t).URL(), ttl)
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

func TestSessions(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Start(t)
	t.Run("times that the server does not allow are refused", func(t *testing.T) {
		for _, ttl := range []time.Duration{zookeepertest.MinSession / 3, zookeepertest.MaxSession * 3} {
			_, _, err := zookeeper.Open(t.Context(), s.URL(), jobs.LeaseOptions{TTL: ttl})
			if err == nil || !strings.Contains(err.Error(), "change FENCELINE_LEASE") && !errors.Is(err, storage.ErrUnreachable) {
				t.Errorf("%s: %v", ttl, err)
			}
		}
	})
	t.Run("the time that the server gives is used", func(t *testing.T) {
		acquire(t, open(t, s.URL(), zookeepertest.MaxSession*3/2), "x")
	})
	t.Run("nobody else may touch what a user holds", func(t *testing.T) {
		own := strings.Replace(s.URL(), "://", "://w%40x:p%2Fw@", 1) + "/team/one"
		lease := acquire(t, open(t, own, ttl), "y")
		look(t, s.URL(), func(c *zk.Conn) error {
			if err := takeFirst(c, "/team/one/"+url.PathEscape("p:y")); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("a stranger: %v", err)
			}
			return nil
		})
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		look(t, own, func(c *zk.Conn) error { // at once, not only when the server looks for empty containers
			names, _, err := c.Children("/team/one")
			if len(names) != 0 {
				t.Errorf("a released lease leaves %q", names)
			}
			return err
		})
	})
	t.Run("a deleted node ends the lease before the next renewal", func(t *testing.T) {
		lease := acquire(t, open(t, s.URL(), zookeepertest.MaxSession), "gone")
		look(t, s.URL(), func(c *zk.Conn) error { return takeFirst(c, "/fenceline/"+url.PathEscape("p:gone")) })
		<-lease.Context().Done()
		if cause := context.Cause(lease.Context()); !errors.Is(cause, jobs.ErrLeaseLost) || !strings.Contains(cause.Error(), "gone from ZooKeeper") {
			t.Errorf("it ended because of %v", cause)
		}
	})
	t.Run("another session of the client holds nothing", func(t *testing.T) {
		l := open(t, s.URL(), ttl)
		lease := acquire(t, l, "z")
		s.Pause(t) // the client is cut off for longer than its session lives ...
		<-lease.Context().Done()
		s.Resume(t)
		if cause := context.Cause(lease.Context()); !errors.Is(cause, jobs.ErrLeaseLost) {
			t.Errorf("it ended because of %v", cause)
		}
		acquire(t, l, "z") // ... and what it does then keeps nobody from the lease
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := l.Acquire(t.Context(), "z"); err == nil {
			t.Error("the release of a lost lease took the next one away")
		}
	})
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"zookeepers://a":                "the scheme must be zookeeper",
		"zookeeper://u:hunter2@a/?ca=x": "parameter ca is not known to zookeeper://",
		"zookeeper://u:hunter2@a,b:pp/": "host 2",
	} {
		_, _, err := zookeeper.Open(t.Context(), text, jobs.LeaseOptions{TTL: ttl})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want %q", text, err, says)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	_, _, err := zookeeper.Open(t.Context(), "zookeeper://u:hunter2@127.0.0.1:1", jobs.LeaseOptions{TTL: 2 * time.Second})
	if !errors.Is(err, storage.ErrUnreachable) || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
