package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// PostgresLeaser keeps leases as advisory locks of PostgreSQL, each on a
// connection of its own: the end of the connection is the end of the lease. It is
// the same database that refuses the stale writer, so there is no service more to
// run; it costs a connection for each job at work. It is safe for concurrent use.
type PostgresLeaser struct {
	locks *storage.SessionLocks
	opt   LeaseOptions
}

// OpenPostgresLeaser keeps leases in the PostgreSQL at a URL, which must not lead to
// a pooler. end does nothing: each lease ends its own connection.
func OpenPostgresLeaser(ctx context.Context, address string, o LeaseOptions) (l Leaser, end func(), err error) {
	locks, err := storage.OpenSessionLocks(ctx, address, o.Owner, o.TTL, o.Dial)
	if err != nil {
		return nil, nil, err
	}
	return &PostgresLeaser{locks, o}, func() {}, nil
}

// Acquire takes the lease on a resource.
func (p *PostgresLeaser) Acquire(ctx context.Context, resource string) (*Lease, error) {
	begun := time.Now()
	asked, cancel := context.WithTimeout(ctx, time.Duration(askFactor*float64(p.opt.TTL)))
	defer cancel()
	lock, err := p.locks.TryLock(asked, p.opt.Prefix+resource)
	if errors.Is(err, storage.ErrBusy) {
		return nil, ErrLeaseBusy
	}
	if err != nil {
		return nil, fmt.Errorf("take the lease on %s: %w", resource, err)
	}
	return Grant{
		Resource: resource, TTL: p.opt.TTL, Until: begun.Add(p.opt.TTL),
		Renew: func(ctx context.Context) (time.Time, error) {
			asked := time.Now()
			err := lock.Renew(ctx)
			if errors.Is(err, storage.ErrSessionEnded) {
				err = fmt.Errorf("%w: %w", ErrLeaseLost, err)
			}
			return asked.Add(p.opt.TTL), err
		},
		Release: lock.Unlock,
	}.Hold(ctx), nil
}

// Holder answers who holds a lease.
func (p *PostgresLeaser) Holder(ctx context.Context, resource string) (LeaseHolder, error) {
	owner, since, err := p.locks.Holder(ctx, p.opt.Prefix+resource)
	if errors.Is(err, storage.ErrNotFound) {
		return LeaseHolder{}, ErrLeaseFree
	}
	return LeaseHolder{Owner: owner, Since: since}, err
}
