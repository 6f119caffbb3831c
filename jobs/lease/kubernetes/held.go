package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/fenceline/fenceline/jobs"
)

// held is a lease that we hold. Only one goroutine uses it at a time: [jobs.Grant]
// renews, and when that has ended it releases.
type held struct {
	leases client.LeaseInterface
	ttl    time.Duration
	record *coordination.Lease // as we saw it last
}

func (h *held) renew(ctx context.Context) (time.Time, error) {
	asked := time.Now()
	now := meta.NowMicro()
	err := h.write(ctx, func(s *coordination.LeaseSpec) { s.RenewTime = &now })
	return asked.Add(h.ttl), err
}

// release leaves the object without a holder; how often it changed hands stays.
func (h *held) release(ctx context.Context) error {
	return h.write(ctx, func(s *coordination.LeaseSpec) { s.HolderIdentity = new("") })
}

// write changes the object as long as it is ours. A version that is not the one we
// know may be an annotation of somebody's, or an earlier write of ours whose answer was
// lost: only the object tells, and if it is ours still the change is made once more.
func (h *held) write(ctx context.Context, change func(*coordination.LeaseSpec)) error {
	var failed error
	for range 2 {
		next := h.record.DeepCopy()
		change(&next.Spec)
		written, err := h.leases.Update(ctx, next, meta.UpdateOptions{})
		if err == nil {
			h.record = written
			return nil
		}
		if refused(err) && !api.IsNotFound(err) {
			return explain(err)
		}
		failed = err
		record, err := h.leases.Get(ctx, next.Name, meta.GetOptions{})
		switch {
		case api.IsNotFound(err):
			return fmt.Errorf("%w: its object was deleted", jobs.ErrLeaseLost)
		case err != nil:
			return errors.Join(failed, err)
		case !h.ours(record):
			return fmt.Errorf("%w: its object names another holder or another transition", jobs.ErrLeaseLost)
		}
		h.record = record
	}
	return failed
}

func (h *held) ours(record *coordination.Lease) bool {
	return record.UID == h.record.UID && holderOf(record) == holderOf(h.record) && transitionsOf(record) == transitionsOf(h.record)
}

// outrun reports whether the API server refused a write because somebody's was first.
func outrun(err error) bool { return api.IsConflict(err) || api.IsAlreadyExists(err) }

// refused reports whether the API server is known to have written nothing, for a
// reason other than somebody else's write. Its own faults (5xx) leave that open, as no answer does.
func refused(err error) bool {
	var status api.APIStatus
	if !errors.As(err, &status) || outrun(err) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500
}

// explain adds what to do about an answer that an administrator can change.
func explain(err error) error {
	switch {
	case api.IsForbidden(err):
		return fmt.Errorf("%w; the Role in cmd/fenceline/deploy/kubernetes-leases.yaml is what workers need", err)
	case api.IsUnauthorized(err):
		return fmt.Errorf("%w; the API server does not know the credentials of the kubeconfig or of the service account", err)
	}
	return err
}
