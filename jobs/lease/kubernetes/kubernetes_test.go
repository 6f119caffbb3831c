package kubernetes_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/lease/kubernetes"
	"github.com/fenceline/fenceline/jobs/lease/kubernetestest"
	"github.com/fenceline/fenceline/jobs/lease/leasetest"
	"github.com/fenceline/fenceline/storage"
)

func TestMain(m *testing.M) {
	if leasetest.Main(kubernetes.Open) {
		return
	}
	_ = os.Unsetenv("KUBERNETES_SERVICE_HOST") // the tests may run in a pod, which is none of theirs
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // they wait for leases to end, and do nothing else
	os.Exit(m.Run())
}

// server is either API server, as somebody with kubectl sees it.
type server interface {
	leasetest.Server
	Leases() []kubernetestest.Lease
	Edit(annotated string, change func(*kubernetestest.Lease)) bool
}

// contract is what both must keep.
func contract(begin func(*testing.T) leasetest.Server) leasetest.Backend {
	return leasetest.Backend{
		Open: kubernetes.Open, Start: begin,
		Take: func(t *testing.T, s leasetest.Server, o jobs.LeaseOptions, resource string) {
			if !s.(server).Edit(o.Prefix+resource, func(l *kubernetestest.Lease) { l.Spec.HolderIdentity = nil }) {
				t.Fatal("there is no such object")
			}
		},
		Left: func(_ *testing.T, s leasetest.Server, prefix string) (n int) {
			for _, l := range s.(server).Leases() {
				if strings.HasPrefix(l.Metadata.Annotations["fenceline/resource"], prefix) && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" {
					n++
				}
			}
			return n
		},
		TTL: 5 * time.Second, Order: kubernetes.Order, Owners: true, Since: true,
	}
}

func TestLeases(t *testing.T) {
	leasetest.Run(t, contract(func(t *testing.T) leasetest.Server { return kubernetestest.Start(t) }))
}

var (
	apiserver = flag.String("kube-apiserver", "", "the kube-apiserver to play the contract against; see make kubernetes")
	etcd      = flag.String("etcd", "etcd", "the etcd that it keeps its objects in")
)

// The real one, with the rights that the manifest gives to workers.
func TestRealLeases(t *testing.T) {
	if *apiserver == "" {
		t.Skip("needs a kube-apiserver: make kubernetes KUBE_APISERVER=PATH")
	}
	leasetest.Run(t, contract(func(t *testing.T) leasetest.Server {
		return kubernetestest.Real(t, *apiserver, *etcd, "../../../cmd/fenceline/deploy/kubernetes-leases.yaml")
	}))
}

// short is for leases that a test waits out: whole seconds, as objects have them.
const short = 2 * time.Second

// cluster is a server with leasers of it.
type cluster struct {
	*kubernetestest.Server
	t *testing.T
}

func start(t *testing.T) cluster {
	t.Parallel()
	return cluster{kubernetestest.Start(t), t}
}

// leaser is that of a process of its own.
func (c cluster) leaser(owner string, ttl time.Duration) jobs.Leaser {
	c.t.Helper()
	l, end, err := kubernetes.Open(c.t.Context(), c.URL(), jobs.LeaseOptions{Owner: owner, Prefix: "p:", TTL: ttl})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(end)
	return l
}

func (c cluster) take(l jobs.Leaser) *jobs.Lease {
	c.t.Helper()
	lease, err := l.Acquire(c.t.Context(), "x")
	if err != nil {
		c.t.Fatal(err)
	}
	return lease
}

func (c cluster) busy(l jobs.Leaser) {
	c.t.Helper()
	if _, err := l.Acquire(c.t.Context(), "x"); !errors.Is(err, jobs.ErrLeaseBusy) {
		c.t.Errorf("acquire answers %v, want busy", err)
	}
}

// only is the one object there is.
func (c cluster) only() kubernetestest.Lease {
	c.t.Helper()
	list := c.Leases()
	if len(list) != 1 {
		c.t.Fatalf("there are %d objects, want one", len(list))
	}
	return list[0]
}

// ends waits until a lease is held no more.
func (c cluster) ends(lease *jobs.Lease) {
	c.t.Helper()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case <-lease.Context().Done():
	case <-timer.C:
		c.t.Fatal("the lease goes on")
	}
}

// until polls for what another goroutine or process brings about.
func (c cluster) until(what string, holds func() bool) {
	c.t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(30 * time.Second); !holds(); <-look.C {
		if time.Now().After(end) {
			c.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// A renewal time tells nothing, however old or new it is: what counts is for how long we have seen nothing change.
func TestTheClockOfAHolderIsNotTrusted(t *testing.T) {
	for name, renewed := range map[string]string{"long ago": "1999-01-01T00:00:00.000000Z", "in a while": "2999-01-01T00:00:00.000000Z"} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			if err := c.take(c.leaser("a", short)).Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.Edit("p:x", func(l *kubernetestest.Lease) {
				l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = new("foreign"), new(renewed), new(int32(2))
			})
			b := c.leaser("b", time.Minute) // what the holder asked for counts, not what we would
			looked := time.Now()
			c.busy(b)
			if who, err := b.Holder(t.Context(), "x"); err != nil || who.Owner != "foreign" {
				t.Errorf("held by %q, %v", who.Owner, err)
			}
			var lease *jobs.Lease
			c.until("the lease is had", func() (ok bool) {
				var err error
				lease, err = b.Acquire(t.Context(), "x")
				return err == nil
			})
			if waited := time.Since(looked); waited < 2*time.Second {
				t.Errorf("it was taken %s after the first look", waited)
			}
			if lease.Order() != (jobs.LeaseOrder{Name: "transition", Number: 1}) {
				t.Errorf("the order is %q", lease.Order())
			}
		})
	}
}

// Who sees each version anew, because the holder renews, never takes it; each first look begins to count anew.
func TestAnObjectThatChangesIsHeld(t *testing.T) {
	c := start(t)
	c.take(c.leaser("a", 10*time.Minute))
	b := c.leaser("b", short)
	tick := time.NewTicker(short / 4)
	defer tick.Stop()
	c.Edit("p:x", func(l *kubernetestest.Lease) { l.Spec.LeaseDurationSeconds = new(int32(2)) })
	for touched := range 8 {
		c.busy(b)
		c.Edit("p:x", func(l *kubernetestest.Lease) {
			l.Metadata.Labels = map[string]string{"touched": string(rune('a' + touched))}
		})
		<-tick.C
	}
}

// Many see that a holder is gone, at the same time: one of them is first, and the others are told that it is busy.
func TestOneOfManyFollows(t *testing.T) {
	c := start(t)
	var leasers []jobs.Leaser
	for range 8 {
		leasers = append(leasers, c.leaser("w", short))
	}
	for round := range 5 {
		var won, lost atomic.Int32
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for _, l := range leasers {
			wg.Go(func() {
				<-begin
				switch lease, err := l.Acquire(t.Context(), "x"); {
				case err == nil:
					won.Add(1)
					t.Cleanup(func() { _ = lease.Release(context.WithoutCancel(t.Context())) })
				case errors.Is(err, jobs.ErrLeaseBusy):
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		close(begin)
		wg.Wait()
		if won.Load() != 1 || lost.Load() != 7 {
			t.Fatalf("round %d: %d have it, %d were told that it is busy", round, won.Load(), lost.Load())
		}
		c.Edit("p:x", func(l *kubernetestest.Lease) { l.Spec.HolderIdentity = nil })
	}
}

// A write whose answer is lost was carried out: the object tells, and nothing is written twice.
func TestLostAnswers(t *testing.T) {
	c := start(t)
	a := c.leaser("a", 6*time.Second)
	c.LoseReplies("POST", 1)
	lease := c.take(a)
	if o := c.only(); *o.Spec.LeaseTransitions != 0 || lease.Order().Number != 0 {
		t.Errorf("after a lost answer to a create: transition %d", *o.Spec.LeaseTransitions)
	}
	renewed := *c.only().Spec.RenewTime
	c.LoseReplies("PUT", 1)
	c.until("it is renewed", func() bool { return *c.only().Spec.RenewTime != renewed })
	renewed = *c.only().Spec.RenewTime
	c.until("it is renewed again", func() bool { return *c.only().Spec.RenewTime != renewed })
	if lease.Context().Err() != nil {
		t.Fatalf("a lost answer ended the lease: %v", context.Cause(lease.Context()))
	}
	c.LoseReplies("PUT", 1)
	if err := lease.Release(t.Context()); err != nil || *c.only().Spec.HolderIdentity != "" {
		t.Errorf("released with %v, held by %q", err, *c.only().Spec.HolderIdentity)
	}
	c.LoseReplies("PUT", 1)
	if next := c.take(a); next.Order().Number != 1 || *c.only().Spec.LeaseTransitions != 1 {
		t.Errorf("after a lost answer to an update: %s", next.Order())
	}
	c.busy(a)
}

// Nobody tells what became of a write: it is no success, and what it left behind ends by itself.
func TestNoAnswerIsNoLease(t *testing.T) {
	c := start(t)
	a := c.leaser("a", short)
	c.LoseReplies("POST", 1)
	c.Refuse("GET", 1, 404, "NotFound") // the first look
	c.Refuse("GET", 100, 500, "InternalError")
	if _, err := a.Acquire(t.Context(), "x"); err == nil || errors.Is(err, jobs.ErrLeaseBusy) {
		t.Fatalf("got %v, want an error that is not busy", err)
	}
	if *c.only().Spec.HolderIdentity == "" {
		t.Error("the write was not carried out: the test shows nothing")
	}
}

// What the API server refuses is not asked for again; its own faults are looked into.
func TestRefusals(t *testing.T) {
	c := start(t)
	a := c.leaser("a", 6*time.Second)
	c.Refuse("POST", 1, 403, "Forbidden")
	if _, err := a.Acquire(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "kubernetes-leases.yaml") || strings.Contains(err.Error(), c.Token()) {
		t.Errorf("forbidden: %v", err)
	}
	c.Refuse("POST", 1, 500, "InternalError")
	if _, err := a.Acquire(t.Context(), "x"); err == nil || errors.Is(err, jobs.ErrLeaseBusy) {
		t.Errorf("a fault of the server: %v", err)
	}
	lease := c.take(a)
	c.Refuse("PUT", 3, 503, "ServiceUnavailable")
	before := *c.only().Spec.RenewTime
	c.until("it is renewed in spite of faults", func() bool { return *c.only().Spec.RenewTime != before })
	if lease.Context().Err() != nil {
		t.Error("faults of the server ended a lease that had time left")
	}
	_, err := (c.leaser("b", 6*time.Second)).Acquire(t.Context(), "x")
	if !errors.Is(err, jobs.ErrLeaseBusy) {
		t.Error(err)
	}
}

// An object that was deleted, changed hands or was made anew is not ours, and a renewal leaves it alone.
func TestLost(t *testing.T) {
	for name, hurt := range map[string]func(cluster){
		"deleted":        func(c cluster) { c.Delete("p:x") },
		"another holder": func(c cluster) { c.Edit("p:x", func(l *kubernetestest.Lease) { l.Spec.HolderIdentity = new("other") }) },
		"another transition": func(c cluster) {
			c.Edit("p:x", func(l *kubernetestest.Lease) { l.Spec.LeaseTransitions = new(int32(7)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			lease := c.take(c.leaser("a", short))
			hurt(c)
			left := c.Leases()
			c.ends(lease)
			if cause := context.Cause(lease.Context()); !errors.Is(cause, jobs.ErrLeaseLost) || strings.Contains(cause.Error(), "deadline") {
				t.Errorf("the cause is %v", cause)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
			after := c.Leases()
			if len(after) != len(left) || len(left) == 1 && after[0].Metadata.ResourceVersion != left[0].Metadata.ResourceVersion {
				t.Errorf("it was %+v and is %+v", left, after)
			}
		})
	}
}

// Somebody's annotation changes the version and nothing else: the lease goes on and the annotation stays.
func TestAnnotationsOfOthersStay(t *testing.T) {
	c := start(t)
	lease := c.take(c.leaser("a", short))
	before := *c.only().Spec.RenewTime
	c.Edit("p:x", func(l *kubernetestest.Lease) {
		l.Metadata.Annotations = map[string]string{"note": "hands off", "fenceline/resource": "p:x"}
	})
	c.until("it is renewed", func() bool { return *c.only().Spec.RenewTime != before })
	if lease.Context().Err() != nil || c.only().Metadata.Annotations["note"] == "" {
		t.Error("it was lost, or the annotation was")
	}
	c.Edit("p:x", func(l *kubernetestest.Lease) { l.Metadata.Labels = nil })
	if err := lease.Release(t.Context()); err != nil || *c.only().Spec.HolderIdentity != "" {
		t.Error("it was not released:", err)
	}
}

// Connections that end are made anew.
func TestCutConnections(t *testing.T) {
	c := start(t)
	lease := c.take(c.leaser("a", short))
	for range 3 {
		before := *c.only().Spec.RenewTime
		c.Cut()
		c.until("it is renewed", func() bool { return *c.only().Spec.RenewTime != before })
	}
	if lease.Context().Err() != nil {
		t.Errorf("cuts ended the lease: %v", context.Cause(lease.Context()))
	}
}

// A server that stood still does later what it was asked before: the write names its version and comes too late.
func TestLateWrites(t *testing.T) {
	c := start(t)
	a, b := c.leaser("a", short), c.leaser("b", short)
	lease := c.take(a)
	c.Pause(t)
	c.ends(lease) // and a renewal is on its way
	c.Resume(t)
	var next *jobs.Lease
	c.until("b follows", func() bool {
		var err error
		next, err = b.Acquire(t.Context(), "x")
		return err == nil
	})
	if who, err := a.Holder(t.Context(), "x"); err != nil || who.Owner != "b" || next.Context().Err() != nil {
		t.Errorf("held by %q, %v", who.Owner, err)
	}
}

func TestObjectsCanBeReadByPeople(t *testing.T) {
	c := start(t)
	l := c.leaser("work_er-7", time.Minute)
	resource := "Übergröße/../" + strings.Repeat("x", 300)
	lease, err := l.Acquire(t.Context(), resource)
	if err != nil {
		t.Fatal(err)
	}
	o := c.only()
	if got := o.Metadata.Annotations["fenceline/resource"]; got != "p:"+resource || o.Metadata.Labels["app.kubernetes.io/managed-by"] != "fenceline" {
		t.Errorf("annotated %q, labelled %v", got, o.Metadata.Labels)
	}
	if !strings.HasPrefix(*o.Spec.HolderIdentity, "work_er-7_") || *o.Spec.LeaseDurationSeconds != 60 {
		t.Errorf("held by %q for %d s", *o.Spec.HolderIdentity, *o.Spec.LeaseDurationSeconds)
	}
	who, err := l.Holder(t.Context(), resource)
	if err != nil || who.Owner != "work_er-7" || time.Since(who.Since).Abs() > time.Minute || who.Order != lease.Order() {
		t.Errorf("%+v, %v", who, err)
	}
}

func TestAddresses(t *testing.T) {
	c := start(t)
	open := func(address string) error {
		_, end, err := kubernetes.Open(t.Context(), address, jobs.LeaseOptions{Owner: "w", TTL: time.Second})
		if err == nil {
			end()
		}
		return err
	}
	for address, says := range map[string]string{
		"kubernetes://":                               `the namespace ""`,
		"kubernetes://Work":                           `the namespace "Work"`,
		"kubernetes://work:80":                        "the namespace",
		"kubernetes://u:hunter2@work":                 "must be such as kubernetes://NAMESPACE",
		"kubernetes://team/x":                         "must be such as kubernetes://NAMESPACE",
		"kubernetes://work?token=hunter2":             `the parameter "token"`,
		"kubernetes://work?kubeconfig=":               `the parameter "kubeconfig"`,
		"kubernetes://work?context=here":              "add kubeconfig=PATH",
		"kubernetes://work?kubeconfig=a%zz":           "cannot be read",
		"kubernetes://work":                           "this is no pod of Kubernetes",
		"etcd://work":                                 "must be such as kubernetes://NAMESPACE",
		"kubernetes://work?kubeconfig=a&kubeconfig=b": `the parameter "kubeconfig"`,
	} {
		var bad *invalid.Error
		if err := open(address); !errors.As(err, &bad) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want %q", address, err, says)
		}
	}
	if err := open("kubernetes://work?kubeconfig=" + t.TempDir() + "/none"); err == nil || !strings.Contains(err.Error(), "kubeconfig that LEASE_URL names") {
		t.Error("without the file:", err)
	}
	if err := open(c.URL() + "&context=nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Error("another context:", err)
	}
	if err := open(c.URL() + "&context=gone"); !errors.Is(err, storage.ErrUnreachable) {
		t.Error("a server that is not there:", err)
	}
	if err := open(c.URL() + "&context=here"); err != nil {
		t.Error("the context by name:", err)
	}
	c.Refuse("GET", 1, 403, "Forbidden")
	if err := open(c.URL()); err == nil || errors.Is(err, storage.ErrUnreachable) || !strings.Contains(err.Error(), "kubernetes-leases.yaml") {
		t.Error("without the right to look:", err)
	}
}
