// Package zookeeper keeps leases at an ensemble of ZooKeeper: each is an ephemeral
// sequential node, and of those on one resource the lowest holds.
//
// Each lease has a session of its own, as each lease in PostgreSQL has a
// connection: whatever ends the session ends this lease and no other, what an
// attempt may have left behind goes with its session, and the session that the
// client opens after one has expired has nothing to do with any lease. It costs a
// connection for each job at work; servers let 60 through from one address unless
// maxClientCnxns says more.
package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/lease/address"
	"github.com/fenceline/fenceline/storage"
)

const (
	// askPart is the part of a lease's time that asking for it may take, and renewPart that of one try to renew it.
	askPart, renewPart = 4, 5
	// furthest is how many times longer or shorter than what was asked for an ensemble may make a session.
	furthest = 2
	// orderName is how ZooKeeper calls the number of the transaction that made a node.
	orderName = "czxid"
	// usualRoot is where leases are when the address does not say.
	usualRoot = "fenceline"
	// makeTries is how often the folder of a resource may go, because another lease on it ended, while a node is made in it.
	makeTries = 10
	// releaseTries is how often a node is deleted when the connection ends before the answer comes.
	releaseTries = 3
)

// Leaser keeps leases at ZooKeeper. It is safe for concurrent use.
type Leaser struct {
	ensemble
	root   string
	prefix string
	owner  string
}

// Open keeps leases at an ensemble at
//
//	zookeeper://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PATH]
//
// in nodes below PATH (/fenceline when it is missing), which is made when it is not
// there. With USER and PASSWORD (scheme digest, sent in the clear) nobody else may
// read or touch them. An ensemble that does not answer is
// [storage.ErrUnreachable]; one whose least and longest time of a session do not
// let a lease live about as long as its options say is refused.
//
// end does nothing: each lease ends its own session.
func Open(ctx context.Context, text string, o jobs.LeaseOptions) (l jobs.Leaser, end func(), err error) {
	a, err := address.Parse(text, "2181")
	if err == nil && a.Scheme != "zookeeper" {
		err = address.Refuse("the scheme must be zookeeper")
	}
	if err == nil {
		err = a.Done()
	}
	if err != nil {
		return nil, nil, err
	}
	root := a.Path
	if root == "" {
		root = usualRoot
	}
	z := &Leaser{ensemble: ensemble{hosts: a.Hosts, ttl: o.TTL, dial: o.Dial, acl: zk.WorldACL(zk.PermAll)}, root: "/" + root, prefix: o.Prefix, owner: o.Owner}
	if z.dial == nil {
		z.dial = new(net.Dialer).DialContext
	}
	if a.User != "" {
		z.digest, z.acl = []byte(a.User+":"+a.Password), zk.DigestACL(zk.PermAll, a.User, a.Password)
	}
	asked, cancel := context.WithTimeout(ctx, o.TTL)
	defer cancel()
	s, err := z.session(asked)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to ZooKeeper: %w", err)
	}
	defer s.close()
	if err := z.makeRoot(asked, s); err != nil {
		return nil, nil, fmt.Errorf("make %s at ZooKeeper: %w", z.root, reached(err))
	}
	return z, func() {}, nil
}

// makeRoot makes the nodes on the way to the leases.
func (z *Leaser) makeRoot(ctx context.Context, s *session) error {
	path := ""
	for part := range strings.SplitSeq(strings.TrimPrefix(z.root, "/"), "/") {
		path += "/" + part
		// Where only some may make nodes, making one that is there is refused too.
		there, err := ask(ctx, func() (bool, error) { there, _, err := s.conn.Exists(path); return there, err })
		if err == nil && !there {
			_, err = ask(ctx, func() (string, error) { return s.conn.Create(path, nil, zk.FlagPersistent, z.acl) })
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// reached marks an error that is no answer of the ensemble with [storage.ErrUnreachable].
func reached(err error) error {
	for _, cut := range []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionExpired, context.DeadlineExceeded} {
		if errors.Is(err, cut) {
			return fmt.Errorf("%w: %w", storage.ErrUnreachable, err)
		}
	}
	return err
}

// folder is the node below which the leases on a resource are.
func (z *Leaser) folder(resource string) string {
	return z.root + "/" + url.PathEscape(z.prefix+resource)
}

// Acquire takes the lease on a resource.
func (z *Leaser) Acquire(ctx context.Context, resource string) (*jobs.Lease, error) {
	asked, cancel := context.WithTimeout(ctx, z.ttl/askPart)
	defer cancel()
	begun := time.Now()
	h, err := z.take(asked, z.folder(resource))
	if errors.Is(err, jobs.ErrLeaseBusy) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("take the lease on %s at ZooKeeper: %w", resource, reached(err))
	}
	lease := jobs.Grant{
		Resource: resource, TTL: h.timeout, Until: begun.Add(h.timeout), Renew: h.renew, Release: h.release,
		Lost: h.lost, Order: jobs.LeaseOrder{Name: orderName, Number: h.czxid},
	}.Hold(ctx)
	// The client keeps a session alive for as long as it can. That of a lease which ended and is not released ends here.
	context.AfterFunc(lease.Context(), func() { time.AfterFunc(h.timeout, h.close) })
	return lease, nil
}

// take makes a node, and keeps it only if no other is lower.
func (z *Leaser) take(ctx context.Context, folder string) (h *held, err error) {
	s, err := z.session(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close() // and with it ends the node, even one of which we do not know that it was made
		}
	}()
	// A look costs the ensemble less than a node that is made in vain.
	if first, err := lowest(ctx, s, folder); err != nil {
		return nil, err
	} else if first != "" {
		return nil, jobs.ErrLeaseBusy
	}
	h = &held{session: s, folder: folder, data: []byte(z.owner)}
	if h.path, err = z.makeNode(ctx, s, folder); err != nil {
		return nil, err
	}
	first, err := lowest(ctx, s, folder)
	if err != nil {
		return nil, err
	}
	if folder+"/"+first != h.path {
		return nil, jobs.ErrLeaseBusy
	}
	// The event of the watch comes to the session.
	stat, err := ask(ctx, func() (*zk.Stat, error) { _, stat, _, err := s.conn.ExistsW(h.path); return stat, err })
	if err != nil {
		return nil, err
	}
	if stat.EphemeralOwner != s.id { // the client had to begin a new session
		return nil, zk.ErrSessionExpired
	}
	h.czxid = stat.Czxid
	return h, nil
}

// makeNode makes our node and the folder that it is in. When the connection ends
// before the answer comes, the client finds the node by a random part of its name.
// The folder is a container: the last lease in it deletes it, and when its holder
// died the ensemble does.
func (z *Leaser) makeNode(ctx context.Context, s *session, folder string) (path string, err error) {
	for range makeTries {
		path, err = ask(ctx, func() (string, error) {
			return s.conn.CreateProtectedEphemeralSequential(folder+"/lease-", []byte(z.owner), z.acl)
		})
		if !errors.Is(err, zk.ErrNoNode) {
			return path, err
		}
		_, err = ask(ctx, func() (string, error) { return s.conn.CreateContainer(folder, nil, zk.FlagContainer, z.acl) })
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return "", err
		}
	}
	return "", err
}

// lowest is the name of the node that holds; empty when there is none.
func lowest(ctx context.Context, s *session, folder string) (first string, err error) {
	names, err := ask(ctx, func() ([]string, error) { names, _, err := s.conn.Children(folder); return names, err })
	if errors.Is(err, zk.ErrNoNode) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	least := int64(0)
	for _, name := range names {
		n, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
		if err == nil && (first == "" || n < least) {
			first, least = name, n
		}
	}
	return first, nil
}

// Holder answers who holds a lease.
func (z *Leaser) Holder(ctx context.Context, resource string) (h jobs.LeaseHolder, err error) {
	asked, cancel := context.WithTimeout(ctx, z.ttl)
	defer cancel()
	h, err = z.holder(asked, z.folder(resource))
	if err != nil && !errors.Is(err, jobs.ErrLeaseFree) {
		err = fmt.Errorf("look up the lease on %s at ZooKeeper: %w", resource, reached(err))
	}
	return h, err
}

func (z *Leaser) holder(ctx context.Context, folder string) (h jobs.LeaseHolder, err error) {
	s, err := z.session(ctx)
	if err != nil {
		return h, err
	}
	defer s.close()
	first, err := lowest(ctx, s, folder)
	if err != nil {
		return h, err
	}
	if first == "" {
		return h, jobs.ErrLeaseFree
	}
	type node struct {
		data []byte
		stat *zk.Stat
	}
	n, err := ask(ctx, func() (n node, err error) { n.data, n.stat, err = s.conn.Get(folder + "/" + first); return n, err })
	if errors.Is(err, zk.ErrNoNode) { // it has just ended
		return h, jobs.ErrLeaseFree
	}
	if err != nil {
		return h, err
	}
	return jobs.LeaseHolder{
		Owner: string(n.data), Since: time.UnixMilli(n.stat.Ctime).UTC(), Order: jobs.LeaseOrder{Name: orderName, Number: n.stat.Czxid},
	}, nil
}

// held is a node that is ours for as long as its session lives.
type held struct {
	*session
	folder, path string
	data         []byte
	czxid        int64
}

// renew writes the node again: a majority of the ensemble agrees that it is there,
// and the session that it belongs to has shown that it lives.
func (h *held) renew(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout/renewPart)
	defer cancel()
	if h.over() {
		return time.Time{}, fmt.Errorf("%w: %w", jobs.ErrLeaseLost, zk.ErrSessionExpired)
	}
	asked := time.Now()
	_, err := ask(ctx, func() (*zk.Stat, error) { return h.conn.Set(h.path, h.data, -1) })
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrSessionExpired) {
		return time.Time{}, fmt.Errorf("%w: %w", jobs.ErrLeaseLost, err)
	}
	return asked.Add(h.timeout), err
}

// release deletes the node and ends its session, which would do it alone but does not tell.
func (h *held) release(ctx context.Context) (err error) {
	defer h.close()
	for range releaseTries {
		if h.over() {
			return jobs.ErrLeaseLost
		}
		_, err = ask(ctx, func() (any, error) { return nil, h.conn.Delete(h.path, -1) })
		if !errors.Is(err, zk.ErrConnectionClosed) { // then it is asked again when the client has another connection
			break
		}
	}
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrSessionExpired) || h.over() {
		return jobs.ErrLeaseLost
	}
	if err != nil {
		return err
	}
	// Not empty: the next one holds already, or somebody looks whether he does.
	_, _ = ask(ctx, func() (any, error) { return nil, h.conn.Delete(h.folder, -1) })
	return nil
}
