package jobs

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
)

// WithKeys is the registry with keys for the secret fields of its kinds. Without
// keys (nil) a kind that has secret fields cannot be dispatched, and a worker
// leaves jobs with sealed values to others. The keyring may be shared.
func (r *Registry) WithKeys(keys *secret.Keyring) *Registry {
	return &Registry{kinds: r.kinds, keys: keys}
}

// found are the secrets of a request before they are sealed.
type found struct {
	secret.Redactor
	plain  json.RawMessage
	masked json.RawMessage
	any    bool
}

// findSecrets finds what must be sealed, before anything can go wrong that would
// tell it. It refuses the reserved name in the payloads of all kinds: a kind may
// get secret fields later.
func (r *Registry) findSecrets(kind Kind, payload json.RawMessage) (found, error) {
	if len(kind.Secret) == 0 && !secret.HasSealed(payload) {
		return found{plain: payload, masked: payload}, nil
	}
	if len(kind.Secret) > 0 && r.keys.Ready() != nil {
		return found{}, invalid.New("kind", kind.Name, "has secret fields (%s), and %s", strings.Join(kind.Secret, ", "), r.keys.Ready())
	}
	s, err := secret.Find(payload, kind.Secret)
	if err != nil {
		return found{}, err
	}
	return found{Redactor: secret.NewRedactor(s.Fields), plain: payload, masked: s.Masked, any: len(s.Fields) > 0}, nil
}

// sealSecrets seals the secrets in the job. Its hash and its unique key were made
// without them, so that nothing stored lets them be guessed, and keys may come and
// go; whether a repeated request has the same ones is compared by [Registry.sameSecrets].
func (r *Registry) sealSecrets(kind Kind, job *storage.NewJob, f found) error {
	if !f.any {
		return nil
	}
	if f.Holds(job.Key) || f.Holds(job.Title) {
		return fmt.Errorf("the kind %s puts a secret field into the key or title of its task, which everybody sees", kind.Name)
	}
	sealed, err := r.keys.SealJSON(whereOf(job.Tenant, job.Kind), f.plain, kind.Secret)
	job.Payload = sealed.JSON
	return err
}

// whereOf is what a payload's values are bound to, beside their places in it. It is
// not the job: a debounced request moves its payload into the job that waits.
func whereOf(tenant, kind string) string { return secret.Context("payload", tenant, kind) }

// sameSecrets refuses a request for which another job answers although its secrets
// differ: by the idempotency key, or because both have the same payload otherwise.
// Both are opened, as the old job may have been sealed with another key. The time
// that it takes does not tell where they differ.
func (r *Registry) sameSecrets(asked storage.NewJob, have storage.Job) error {
	byKey := asked.IdempotencyKey != "" && have.IdempotencyKey != nil && *have.IdempotencyKey == asked.IdempotencyKey
	byPayload := asked.UniqueWhile != "" && asked.Debounce == 0 && !strings.HasPrefix(asked.UniqueKey, "key ")
	if !byKey && !byPayload || !secret.HasSealed(asked.Payload) && !secret.HasSealed(have.Payload) {
		return nil
	}
	_, a, err := r.keys.OpenJSON(whereOf(asked.Tenant, asked.Kind), asked.Payload)
	if err != nil {
		return fmt.Errorf("compare with job %s: %w", have.ID, err)
	}
	_, b, err := r.keys.OpenJSON(whereOf(have.Tenant, have.Kind), have.Payload)
	if err != nil {
		return fmt.Errorf("job %s answers for this request, but its secrets cannot be compared: %w", have.ID, err)
	}
	if x, y := sumOf(a), sumOf(b); subtle.ConstantTimeCompare(x[:], y[:]) != 1 {
		return fmt.Errorf("%w: job %s answers for it, whose secret fields differ; use a new key, or send the same request", storage.ErrKeyReused, have.ID)
	}
	return nil
}

func sumOf(fields []secret.Field) [sha256.Size]byte {
	parts := make([]string, 0, 2*len(fields))
	for _, f := range fields {
		parts = append(parts, f.Path, f.JSON)
	}
	return sha256.Sum256([]byte(secret.Context(parts...)))
}

// masked is a job as others may see it.
func masked(job storage.Job) storage.Job {
	job.Payload = secret.Mask(job.Payload)
	return job
}

// open is a stored payload as it was sent, and what takes its secrets out of errors.
func (r *Registry) open(kind string, p Payload) (Payload, secret.Redactor, error) {
	plain, fields, err := r.keys.OpenJSON(whereOf(p.Tenant, kind), p.Body)
	if err != nil {
		return p, secret.Redactor{}, err
	}
	p.Body = plain
	return p, secret.NewRedactor(fields), nil
}

// discreet is a task whose errors and panics hold no secrets.
func discreet(t Task, hidden secret.Redactor) Task {
	if do := t.Do; do != nil {
		t.Do = func(ctx context.Context, w *Work) error {
			return hush(hidden, func() error { return do(ctx, w) })
		}
	}
	if render := t.Render; render != nil {
		t.Render = func(ctx context.Context, r *Run) error {
			return hush(hidden, func() error { return render(ctx, r) })
		}
	}
	return t
}

func hush(hidden secret.Redactor, call func() error) (err error) {
	if hidden.Empty() {
		return call()
	}
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: hidden.Text(fmt.Sprint(p)), stack: debug.Stack()}
		}
	}()
	return hidden.Error(call())
}
