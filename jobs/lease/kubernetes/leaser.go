// Package kubernetes keeps leases as Lease objects of Kubernetes
// (coordination.k8s.io/v1), which kubectl shows like any other.
//
// Every write names the version of the object that it changes. The API server
// takes one of two writers of a version and answers 409 to the other, who then
// knows that somebody was first and never sends the same write again. A write
// whose answer was lost is looked up by its holder: each acquisition has one of its own.
//
// # Clocks
//
// An object tells when it was renewed by its holder's clock. That time is for
// people and compared with nothing. Whether a holder is gone is told by what this
// process has seen: the same version for as long as the holder asked for, by the
// monotonic clock here. A holder that nobody here has looked at yet is at work.
// So a lease of a holder that crashed is had by who looks at it, and looks again when its
// time is over: at the earliest a lease's time after the first look. A worker that waits for an
// export looks several times in a second.
//
// # What stays
//
// A lease that was given back leaves its object, without a holder: the count of its
// transitions goes on, which is the order shown beside our tokens. There is one object for each
// export that ever had an attempt, of less than a kilobyte. They carry the label
// app.kubernetes.io/managed-by=fenceline and may be deleted at any time; who holds one
// then loses it, which costs work, and the count begins anew (law L9: nothing depends on it).
package kubernetes

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/fenceline/fenceline/jobs"
)

// Order is the name of the number that an object gives to those who hold its lease.
const Order = "transition"

// What marks our objects for people.
const (
	resourceKey  = "fenceline/resource" // annotation: what the lease is on, whose hash is the name
	managedByKey = "app.kubernetes.io/managed-by"
	managedBy    = "fenceline"
)

// askParts is how many times asking fits into a lease's time: what is left of it must be worth having.
const askParts = 4

// Leaser keeps leases in one namespace. It is safe for concurrent use.
type Leaser struct {
	leases client.LeaseInterface
	opt    jobs.LeaseOptions
	seen   sights
}

// Acquire takes the lease on a resource.
func (l *Leaser) Acquire(ctx context.Context, resource string) (*jobs.Lease, error) {
	begun := time.Now()
	asked, cancel := context.WithTimeout(ctx, l.ask())
	defer cancel()
	record, err := l.take(asked, resource)
	if errors.Is(err, jobs.ErrLeaseBusy) {
		return nil, jobs.ErrLeaseBusy
	}
	if err != nil {
		return nil, fmt.Errorf("take the lease on %s: %w", resource, explain(err))
	}
	h := &held{leases: l.leases, ttl: l.opt.TTL, record: record}
	return jobs.Grant{
		Resource: resource, TTL: l.opt.TTL, Until: begun.Add(l.opt.TTL), Renew: h.renew, Release: h.release, Order: orderOf(record),
	}.Hold(ctx), nil
}

func (l *Leaser) ask() time.Duration { return l.opt.TTL / askParts }

// take writes us into the object if it is there for the taking.
func (l *Leaser) take(ctx context.Context, resource string) (*coordination.Lease, error) {
	record, err := l.leases.Get(ctx, l.name(resource), meta.GetOptions{})
	if api.IsNotFound(err) {
		return l.put(ctx, l.claim(l.blank(resource)), func(ctx context.Context, r *coordination.Lease) (*coordination.Lease, error) {
			return l.leases.Create(ctx, r, meta.CreateOptions{})
		})
	}
	if err != nil {
		return nil, err
	}
	if !l.free(record) {
		return nil, jobs.ErrLeaseBusy
	}
	record.Spec.LeaseTransitions = new(transitionsOf(record) + 1)
	return l.put(ctx, l.claim(record), func(ctx context.Context, r *coordination.Lease) (*coordination.Lease, error) {
		return l.leases.Update(ctx, r, meta.UpdateOptions{})
	})
}

// put sends a claim once. When the answer does not tell what became of it, the object does.
func (l *Leaser) put(ctx context.Context, claim *coordination.Lease, send func(context.Context, *coordination.Lease) (*coordination.Lease, error)) (*coordination.Lease, error) {
	written, err := send(ctx, claim)
	if err == nil || refused(err) {
		return written, err
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.ask()) // the time for asking may be over
	defer cancel()
	record, lookErr := l.leases.Get(look, claim.Name, meta.GetOptions{})
	switch {
	case lookErr != nil:
		return nil, errors.Join(err, lookErr)
	case holderOf(record) == holderOf(claim):
		return record, nil
	case outrun(err):
		l.free(record) // so that the time of whoever was first begins to count
		return nil, jobs.ErrLeaseBusy
	}
	return nil, err
}

// free reports whether nobody holds the lease: it was given back, or its holder was not seen to renew it for its time.
func (l *Leaser) free(record *coordination.Lease) bool {
	if holderOf(record) == "" {
		l.seen.forget(record.Name)
		return true
	}
	lasts := l.opt.TTL
	if s := record.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		lasts = time.Duration(*s) * time.Second
	}
	return l.seen.unchanged(record.Name, string(record.UID)+" "+record.ResourceVersion, time.Now()) >= lasts
}

// Holder answers who holds a lease.
func (l *Leaser) Holder(ctx context.Context, resource string) (jobs.LeaseHolder, error) {
	asked, cancel := context.WithTimeout(ctx, l.ask())
	defer cancel()
	record, err := l.leases.Get(asked, l.name(resource), meta.GetOptions{})
	if err != nil && !api.IsNotFound(err) {
		return jobs.LeaseHolder{}, fmt.Errorf("look up the lease on %s: %w", resource, explain(err))
	}
	if err != nil || l.free(record) {
		return jobs.LeaseHolder{}, jobs.ErrLeaseFree
	}
	who := jobs.LeaseHolder{Owner: holderOf(record), Order: orderOf(record)}
	if i := strings.LastIndexByte(who.Owner, '_'); i >= 0 {
		who.Owner = who.Owner[:i]
	}
	if at := record.Spec.AcquireTime; at != nil {
		who.Since = at.UTC()
	}
	return who, nil
}

// name is that of a resource's object: names of objects are short and plain, those of resources are not.
func (l *Leaser) name(resource string) string {
	sum := sha256.Sum256([]byte(l.opt.Prefix + resource))
	return "fenceline-" + hex.EncodeToString(sum[:16])
}

// blank is an object that is not there yet.
func (l *Leaser) blank(resource string) *coordination.Lease {
	return &coordination.Lease{
		ObjectMeta: meta.ObjectMeta{
			Name: l.name(resource), Labels: map[string]string{managedByKey: managedBy}, Annotations: map[string]string{resourceKey: l.opt.Prefix + resource},
		},
		Spec: coordination.LeaseSpec{LeaseTransitions: new(int32(0))},
	}
}

// claim names us as the holder, as nobody was named before.
func (l *Leaser) claim(record *coordination.Lease) *coordination.Lease {
	now := meta.NowMicro()
	record.Spec.HolderIdentity = new(l.opt.Owner + "_" + rand.Text())
	record.Spec.LeaseDurationSeconds = new(int32((l.opt.TTL + time.Second - 1) / time.Second))
	record.Spec.AcquireTime, record.Spec.RenewTime = &now, &now
	return record
}

func holderOf(record *coordination.Lease) string {
	if record.Spec.HolderIdentity == nil {
		return ""
	}
	return *record.Spec.HolderIdentity
}

func transitionsOf(record *coordination.Lease) int32 {
	if record.Spec.LeaseTransitions == nil {
		return 0
	}
	return *record.Spec.LeaseTransitions
}

func orderOf(record *coordination.Lease) jobs.LeaseOrder {
	return jobs.LeaseOrder{Name: Order, Number: int64(transitionsOf(record))}
}
