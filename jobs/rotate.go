package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
)

// rotatePart is how many payloads one statement writes.
const rotatePart = 100

// rotatePasses bounds how often a rotation looks for what it passed over.
const rotatePasses = 20

// Rotation is what a rotation did.
type Rotation struct {
	Key    string `json:"key"`    // that seals now
	Jobs   int64  `json:"jobs"`   // whose payloads were sealed again, with those that open batches will ask for
	Values int64  `json:"values"` // in them
	// Left are jobs that still have values sealed with another key: their rows were
	// held, or new ones came from a machine whose first key is another.
	Left int64 `json:"left"`
	// Unopened are jobs among those left whose values no key here opens, by the reason.
	Unopened map[string]int64 `json:"unopened,omitempty"`
}

// RotateKeys seals every value again, with the first key, that another key has
// sealed: in all jobs that can still run, failed ones included, or with all in
// finished ones too. It changes a hundred payloads in a statement and keeps no place:
// broken off and begun again it goes on with what is left. Workers may run meanwhile.
func RotateKeys(ctx context.Context, store *storage.Store, keys *secret.Keyring, all bool) (Rotation, error) {
	if err := keys.Ready(); err != nil {
		return Rotation{}, err
	}
	r := rotation{store: store, keys: keys, Rotation: Rotation{Key: keys.First(), Unopened: map[string]int64{}}}
	for range rotatePasses {
		ids, err := store.SealedOtherwise(ctx, r.Key, all)
		if err != nil {
			return r.Rotation, err
		}
		before := r.Jobs
		r.Left, r.Unopened = int64(len(ids)), map[string]int64{}
		for len(ids) > 0 {
			part := ids[:min(rotatePart, len(ids))]
			if err := r.reseal(ctx, part); err != nil {
				return r.Rotation, err
			}
			ids = ids[len(part):]
		}
		r.Left -= r.Jobs - before
		if r.Left <= 0 || r.Jobs == before {
			break
		}
	}
	return r.Rotation, r.resealCalls(ctx)
}

// resealCalls does the same for the jobs that open batches will ask for.
func (r *rotation) resealCalls(ctx context.Context) error {
	calls, err := r.store.SealedCalls(ctx, r.Key)
	if err != nil {
		return err
	}
	for _, c := range calls {
		fresh, n, err := r.keys.ResealJSON(whereOf(c.Tenant, c.Kind), c.Payload)
		if err != nil {
			r.Left++
			r.Unopened[reasonOf(err)]++
			continue
		}
		if err := r.store.ResealCall(ctx, c, fresh); err != nil {
			return err
		}
		r.Jobs++
		r.Values += int64(n)
	}
	return nil
}

type rotation struct {
	Rotation
	store *storage.Store
	keys  *secret.Keyring
}

func (r *rotation) reseal(ctx context.Context, ids []uuid.UUID) error {
	list, err := r.store.SealedJobs(ctx, ids)
	if err != nil {
		return err
	}
	var was []storage.SealedJob
	var now []json.RawMessage
	values := map[uuid.UUID]int{}
	for _, j := range list {
		fresh, n, err := r.keys.ResealJSON(whereOf(j.Tenant, j.Kind), j.Payload)
		if err != nil {
			r.Unopened[reasonOf(err)]++
			continue
		}
		if n > 0 {
			was, now, values[j.ID] = append(was, j), append(now, fresh), n
		}
	}
	if len(was) == 0 {
		return nil
	}
	done, err := r.store.Reseal(ctx, was, now)
	for _, id := range done {
		r.Jobs++
		r.Values += int64(values[id])
	}
	return err
}

// reasonOf is why a value does not open, in a few words that many jobs share.
func reasonOf(err error) string {
	var k *secret.KeyError
	switch {
	case errors.As(err, &k) && k.Known:
		return fmt.Sprintf("key %s does not open it", k.Name)
	case errors.As(err, &k):
		return fmt.Sprintf("key %s is missing", k.Name)
	}
	return "it is no sealed value that this program knows"
}
