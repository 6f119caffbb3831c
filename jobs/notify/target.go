package notify

import (
	"context"
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
)

// BothValid is for how long after a rotation the secret before it signs too.
const BothValid = 24 * time.Hour

const (
	maxAddresses = 20
	maxTopics    = 20
	maxTargets   = 100 // of a tenant: every notice is compared with all of them
)

// Targets adds targets and gives them secrets. It is safe for concurrent use.
type Targets struct {
	store *storage.Store
	guard *Guard
	keys  *secret.Keyring
}

// NewTargets is for targets whose addresses the guard lets in. Their secrets are
// sealed with the first of keys; without keys (nil) they are kept as they are.
func NewTargets(store *storage.Store, guard *Guard, keys *secret.Keyring) *Targets {
	return &Targets{store: store, guard: guard, keys: keys}
}

// Request asks for a target. A webhook has a URL, mail has addresses.
type Request struct {
	Tenant    string
	Name      string
	Kind      string // webhook or mail
	URL       string
	Addresses []string
	Topics    []string // empty: export.published and job.failed
	JobKinds  []string // empty: all
}

var (
	targetName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	topicName  = regexp.MustCompile(`^(\*|export\.(published|\*)|job\.(failed|\*)|custom(\.[a-z0-9_-]+)+(\.\*)?|custom\.\*)$`)
	tenantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	kindName   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
)

// Add checks a request and adds the target. The secret of a webhook is answered
// here and never again. Bad input is an invalid.Error, a name that is taken
// [storage.ErrTargetExists].
func (t *Targets) Add(ctx context.Context, r Request, log ...storage.AuditEntry) (target storage.Target, plain string, err error) {
	if len(r.Topics) == 0 {
		r.Topics = []string{storage.TopicPublished, storage.TopicFailed}
	}
	if err := t.check(r); err != nil {
		return storage.Target{}, "", err
	}
	there, err := t.store.Targets(ctx, storage.Scope{Tenant: r.Tenant})
	if err != nil {
		return storage.Target{}, "", err
	}
	if len(there) >= maxTargets {
		return storage.Target{}, "", invalid.New("tenant", r.Tenant, "has %d targets already; remove one first", len(there))
	}
	sealed := ""
	if r.Kind == storage.TargetWebhook {
		plain = NewSecret()
		sealed = sealSecret(t.keys, r.URL, plain)
	}
	target, err = t.store.AddTarget(ctx, storage.Target{
		Tenant: r.Tenant, Name: r.Name, Kind: r.Kind, URL: r.URL, Addresses: r.Addresses, Topics: r.Topics, JobKinds: r.JobKinds,
	}, sealed, log...)
	return target, plain, err
}

func (t *Targets) check(r Request) error {
	bad := new(invalid.Error)
	if _, err := uuid.Parse(r.Name); err == nil || !targetName.MatchString(r.Name) {
		bad.Add("name", r.Name, "must be 1 to 63 of a-z, 0-9, dot, - and _, begin with a letter or digit, and not look like an id")
	}
	if !tenantName.MatchString(r.Tenant) {
		bad.Add("tenant", r.Tenant, "must be 1 to 63 letters, digits, dots, hyphens or underscores")
	}
	if len(r.Topics) > maxTopics {
		bad.Add("topics", "", "must be at most %d", maxTopics)
	}
	for _, topic := range r.Topics {
		if !topicName.MatchString(topic) || len(topic) > 100 {
			bad.Add("topics", topic, "is no topic; use export.published, job.failed, custom.NAME, custom.* or *")
		}
	}
	for _, kind := range r.JobKinds {
		if !kindName.MatchString(kind) {
			bad.Add("job_kinds", kind, "cannot be a kind of job")
		}
	}
	var address error
	switch r.Kind {
	case storage.TargetWebhook:
		if len(r.Addresses) > 0 {
			bad.Add("addresses", "", "are for mail; a webhook has a url")
		}
		address = t.guard.CheckURL(r.URL)
	case storage.TargetMail:
		if r.URL != "" {
			bad.Add("url", "", "is for webhooks; mail has addresses")
		}
		address = checkAddresses(r.Addresses)
	default:
		bad.Add("kind", r.Kind, "must be webhook or mail")
	}
	return invalid.Join(bad.OrNil(), address)
}

func checkAddresses(list []string) error {
	bad := new(invalid.Error)
	if len(list) == 0 || len(list) > maxAddresses {
		bad.Add("addresses", "", "must be 1 to %d mail addresses", maxAddresses)
	}
	for i, text := range list {
		if err := checkAddress(text); err != nil {
			bad.Add("addresses", text, "is no mail address such as ann@example.com")
		} else if slices.Contains(list[:i], text) {
			bad.Add("addresses", text, "is given twice")
		}
	}
	return bad.OrNil()
}

// checkAddress lets in a bare address only: no name, no comment, nothing that
// could end a header.
func checkAddress(text string) error {
	a, err := mail.ParseAddress(text)
	if err != nil {
		return err
	}
	if a.Name != "" || a.Address != text || strings.ContainsAny(text, "\r\n\x00 <>\"") || len(text) > 254 {
		return fmt.Errorf("%q is more than an address", text)
	}
	return nil
}

// Rotate gives a webhook another secret, which is answered here and never
// again. Until [BothValid] has passed, the one before signs too.
func (t *Targets) Rotate(ctx context.Context, scope storage.Scope, id uuid.UUID, log ...storage.AuditEntry) (target storage.Target, plain string, err error) {
	target, err = t.store.Target(ctx, scope, id)
	if err != nil {
		return storage.Target{}, "", err
	}
	if target.Kind != storage.TargetWebhook {
		return storage.Target{}, "", invalid.New("target", target.Name, "is for mail and has no secret to rotate")
	}
	plain = NewSecret()
	target, err = t.store.RotateTarget(ctx, scope, id, sealSecret(t.keys, target.URL, plain), BothValid, log...)
	return target, plain, err
}

// Test sends a target a delivery of the topic test. One that is disabled is refused: nothing would be sent.
func (t *Targets) Test(ctx context.Context, scope storage.Scope, id uuid.UUID, log ...storage.AuditEntry) (storage.Delivery, error) {
	target, err := t.store.Target(ctx, scope, id)
	if err != nil {
		return storage.Delivery{}, err
	}
	if target.DisabledAt != nil {
		return storage.Delivery{}, invalid.New("target", target.Name, "is disabled; enable it first")
	}
	now, err := t.store.Now(ctx)
	if err != nil {
		return storage.Delivery{}, err
	}
	body, err := testEvent(target, now)
	if err != nil {
		return storage.Delivery{}, err
	}
	return t.store.AddTest(ctx, target, body, log...)
}

// Find reads a target by what a person calls it: a name is one of
// the tenant, an id must be in the scope.
func (t *Targets) Find(ctx context.Context, scope storage.Scope, tenant, called string) (storage.Target, error) {
	if id, err := uuid.Parse(called); err == nil {
		return t.store.Target(ctx, scope, id)
	}
	if !scope.Sees(tenant) {
		return storage.Target{}, fmt.Errorf("target %s: %w", called, storage.ErrNotFound)
	}
	return t.store.TargetNamed(ctx, tenant, called)
}
