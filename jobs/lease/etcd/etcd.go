// Package etcd keeps leases at a cluster of etcd: each is a key that hangs on a
// lease of etcd's own, which ends it when nobody keeps it alive.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/lease/address"
	"github.com/fenceline/fenceline/storage"
)

const (
	// askPart is the part of a lease's time that asking for it may take, and renewPart that of one try to
	// renew it: there is time for a second and a third.
	askPart, renewPart = 4, 4
	// morePart is the part of a lease's time after which another member is asked as well, and atMost how many are.
	morePart, atMost = 20, 4
	// tidyTime bounds the attempts to end what nobody waits for; what is left then ends with its time to live.
	tidyTime = 5 * time.Second
	// aliveEvery and aliveWait are how soon a connection is known to be dead. Servers refuse to be asked more
	// often than every five seconds.
	aliveEvery, aliveWait = 10 * time.Second, 5 * time.Second
	// orderName is how etcd calls the number that rises with every change.
	orderName = "revision"
)

// Leaser keeps leases at etcd. It is safe for concurrent use.
type Leaser struct {
	client *clientv3.Client
	prefix string
	owner  string
	ttl    time.Duration
}

// Open connects to a cluster at
//
//	etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PREFIX]
//
// PREFIX goes before the names of all keys. etcds is the same over TLS, with the
// parameters ca, cert and key (files in PEM), server_name and skip_verify. A
// cluster that does not answer is [storage.ErrUnreachable].
//
// etcd counts in whole seconds: a part of one is rounded up, and a cluster that
// needs longer than that to elect a leader gives more. The caller calls end when no
// lease is held any more.
func Open(ctx context.Context, text string, o jobs.LeaseOptions) (l jobs.Leaser, end func(), err error) {
	conf, prefix, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	ttl := o.TTL.Truncate(time.Second)
	if ttl < o.TTL {
		ttl += time.Second
	}
	conf.DialTimeout = ttl
	if o.Dial != nil {
		conf.DialOptions = append(conf.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return o.Dial(ctx, "tcp", address) }))
	}
	client, err := clientv3.New(conf)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to etcd: %w", reached(err))
	}
	e := &Leaser{client: client, prefix: prefix + o.Prefix, owner: o.Owner, ttl: ttl}
	asked, cancel := context.WithTimeout(ctx, ttl)
	defer cancel()
	if _, err := client.Get(asked, e.prefix, clientv3.WithCountOnly()); err != nil {
		_ = client.Close() // nothing was asked for
		return nil, nil, fmt.Errorf("connect to etcd: %w", reached(err))
	}
	return e, func() { _ = client.Close() }, nil // nothing is lost: leases live at the servers
}

// parse reads an address of etcd.
func parse(text string) (conf clientv3.Config, prefix string, err error) {
	a, err := address.Parse(text, "2379")
	if err != nil {
		return conf, "", err
	}
	conf = clientv3.Config{
		Username: a.User, Password: a.Password, Logger: zap.NewNop(), // what matters comes back as an error
		DialKeepAliveTime: aliveEvery, DialKeepAliveTimeout: aliveWait,
	}
	scheme := "http://"
	switch a.Scheme {
	case "etcd":
	case "etcds":
		scheme = "https://"
		if conf.TLS, err = a.TLS(); err != nil {
			return conf, "", err
		}
	default:
		return conf, "", address.Refuse("the scheme must be etcd, or etcds for TLS")
	}
	for _, h := range a.Hosts {
		conf.Endpoints = append(conf.Endpoints, scheme+h)
	}
	if a.Path != "" {
		prefix = a.Path + "/"
	}
	return conf, prefix, a.Done()
}

// reached marks an error that is no answer of a cluster with [storage.ErrUnreachable].
func reached(err error) error {
	known := rpctypes.Error(err)
	var answer rpctypes.EtcdError
	if errors.As(known, &answer) && !slices.Contains([]error{rpctypes.ErrNoLeader, rpctypes.ErrTimeout,
		rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrTimeoutDueToConnectionLost, rpctypes.ErrLeaderChanged}, known) {
		return err
	}
	return fmt.Errorf("%w: %w", storage.ErrUnreachable, err)
}

// Acquire takes the lease on a resource.
func (e *Leaser) Acquire(ctx context.Context, resource string) (*jobs.Lease, error) {
	asked, cancel := context.WithTimeout(ctx, e.ttl/askPart)
	defer cancel()
	h, err := e.take(asked, resource)
	if errors.Is(err, jobs.ErrLeaseBusy) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("take the lease on %s at etcd: %w", resource, err)
	}
	watching, stop := context.WithCancel(ctx)
	lost := make(chan error, 1)
	go h.watch(watching, lost)
	lease := jobs.Grant{
		Resource: resource, TTL: h.ttl, Until: h.until, Renew: h.renew, Release: h.release,
		Lost: lost, Order: jobs.LeaseOrder{Name: orderName, Number: h.revision},
	}.Hold(ctx)
	context.AfterFunc(lease.Context(), stop)
	return lease, nil
}

// Holder answers who holds a lease.
func (e *Leaser) Holder(ctx context.Context, resource string) (jobs.LeaseHolder, error) {
	found, err := e.client.Get(ctx, e.prefix+resource)
	if err != nil {
		return jobs.LeaseHolder{}, fmt.Errorf("look up the lease on %s at etcd: %w", resource, err)
	}
	if len(found.Kvs) == 0 {
		return jobs.LeaseHolder{}, jobs.ErrLeaseFree
	}
	kv := found.Kvs[0]
	h := jobs.LeaseHolder{Owner: string(kv.Value), Order: jobs.LeaseOrder{Name: orderName, Number: kv.CreateRevision}}
	if at, owner, ok := strings.Cut(h.Owner, " "); ok {
		if ms, err := strconv.ParseInt(at, 10, 64); err == nil {
			h.Owner, h.Since = owner, time.UnixMilli(ms).UTC()
		}
	}
	return h, nil
}

// take makes the key unless it is there.
func (e *Leaser) take(ctx context.Context, resource string) (*held, error) {
	key := e.prefix + resource
	// A look costs the cluster less than a lease that is made in vain.
	if found, err := e.client.Get(ctx, key, clientv3.WithCountOnly()); err != nil {
		return nil, err
	} else if found.Count > 0 {
		return nil, jobs.ErrLeaseBusy
	}
	begun := time.Now()
	granted, err := e.client.Grant(ctx, int64(e.ttl/time.Second))
	if err != nil {
		return nil, err
	}
	h := &held{client: e.client, key: key, id: granted.ID, ttl: time.Duration(granted.TTL) * time.Second}
	h.until = begun.Add(h.ttl)
	value := strconv.FormatInt(time.Now().UnixMilli(), 10) + " " + e.owner
	made, err := e.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, value, clientv3.WithLease(h.id))).
		Commit()
	if err == nil && made.Succeeded {
		h.revision = made.Header.Revision
		return h, nil
	}
	// Where no answer came the key may be there: it ends with its lease, at the latest when its time is over.
	tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(tidyTime, e.ttl/askPart))
	defer cancel()
	_, _ = e.client.Revoke(tidy, h.id)
	if err == nil {
		err = jobs.ErrLeaseBusy
	}
	return nil, err
}

// held is a key that is ours for as long as its create revision is the one that we were told.
type held struct {
	client   *clientv3.Client
	key      string
	id       clientv3.LeaseID
	revision int64
	ttl      time.Duration // as etcd gave it
	until    time.Time
}

// renew asks for more time, of a majority of the cluster: a member that is cut off
// from the others answers no such read. The read goes first also because the
// client tries to renew at a cluster that is gone again and again without a pause.
func (h *held) renew(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, h.ttl/renewPart)
	defer cancel()
	asked := time.Now()
	found, err := first(ctx, h.ttl/morePart, func(ctx context.Context) (*clientv3.GetResponse, error) { return h.client.Get(ctx, h.key) })
	if err != nil {
		return time.Time{}, err
	}
	if len(found.Kvs) == 0 {
		return time.Time{}, fmt.Errorf("%w: its key is gone from etcd", jobs.ErrLeaseLost)
	}
	if found.Kvs[0].CreateRevision != h.revision {
		return time.Time{}, fmt.Errorf("%w: its key was made anew at revision %d", jobs.ErrLeaseLost, found.Kvs[0].CreateRevision)
	}
	alive, err := first(ctx, h.ttl/morePart, func(ctx context.Context) (*clientv3.LeaseKeepAliveResponse, error) {
		return h.client.KeepAliveOnce(ctx, h.id)
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return time.Time{}, fmt.Errorf("%w: %w", jobs.ErrLeaseLost, err)
	}
	if err != nil {
		return time.Time{}, err
	}
	return asked.Add(time.Duration(alive.TTL) * time.Second), nil
}

// first asks, and when no answer comes for a while asks once more: the client goes
// to its members in turn, and one that is frozen looks to it like one that thinks.
// The first answer counts.
func first[T any](ctx context.Context, wait time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, atMost)
	ask := func() {
		v, err := call(ctx)
		answers <- answer{v, err}
	}
	go ask()
	more := time.NewTicker(wait)
	defer more.Stop()
	for asked := 1; ; {
		select {
		case a := <-answers:
			return a.value, a.err
		case <-more.C:
			if asked < atMost {
				asked++
				go ask()
			}
		}
	}
}

// release deletes the key if it is ours, and ends the lease that it hung on.
func (h *held) release(ctx context.Context) error {
	done, err := h.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(h.key), "=", h.revision)).
		Then(clientv3.OpDelete(h.key)).
		Commit()
	if err != nil {
		return err
	}
	if _, err := h.client.Revoke(ctx, h.id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return err
	}
	if !done.Succeeded {
		return jobs.ErrLeaseLost
	}
	return nil
}

// watch tells at once when the key goes. It may miss that, for example when the
// cluster has forgotten old revisions after a cut: then the next renewal tells.
func (h *held) watch(ctx context.Context, lost chan<- error) {
	for change := range h.client.Watch(ctx, h.key, clientv3.WithRev(h.revision+1)) {
		for _, event := range change.Events {
			if event.Type == clientv3.EventTypeDelete || event.Kv.CreateRevision != h.revision {
				lost <- fmt.Errorf("its key left etcd at revision %d", event.Kv.ModRevision)
				return
			}
		}
	}
}
