package web

import (
	"cmp"
	"sync"

	"github.com/fenceline/fenceline/jobs"
)

// inFlight are the idempotency keys of requests that are being answered. It is this
// process's only: the same key at two processes at once is settled by the index of
// the database, where the second waits for the first. The zero one is ready for use;
// it is safe for concurrent use.
type inFlight struct{ keys sync.Map }

// keyOf is what a key is unique among: the tenant.
type keyOf struct{ tenant, key string }

// begin notes that a request with a key is at work, and answers how to say that it is
// not any more. While another one is, it answers [errKeyInUse]. Without a key nothing is noted.
func (f *inFlight) begin(tenant, key string) (end func(), err error) {
	if key == "" {
		return func() {}, nil
	}
	k := keyOf{cmp.Or(tenant, jobs.DefaultTenant), key}
	if _, taken := f.keys.LoadOrStore(k, nil); taken {
		return nil, errKeyInUse
	}
	return func() { f.keys.Delete(k) }, nil
}
