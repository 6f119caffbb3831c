package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// What the command line writes into the audit log, in the words of the dashboard.

// actor is who does things from here, as far as the machine knows: whoever can
// reach the database itself may do them, so that a name proves nothing.
func actor() string { return "cli:" + caller() }

// caller is who runs this command, as far as the machine knows.
func caller() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}

// deed is what was done, and to what.
type deed struct {
	action, kind, id string
	tenant           string // empty concerns all
	details          map[string]any
}

func (d deed) entry() (storage.AuditEntry, error) {
	e := storage.AuditEntry{Actor: actor(), ActorKind: storage.ActorSystem, Action: d.action, ObjectKind: d.kind, ObjectID: d.id}
	if d.tenant != "" {
		e.Tenant = &d.tenant
	}
	if len(d.details) == 0 {
		return e, nil
	}
	var err error
	if e.Details, err = json.Marshal(d.details); err != nil {
		return e, fmt.Errorf("encode the details of %s: %w", d.action, err)
	}
	return e, nil
}

// did writes down a deed that is done. It fails loudly: the deed stands, and the log lacks it.
func did(ctx context.Context, store *storage.Store, d deed) error {
	e, err := d.entry()
	if err == nil {
		err = store.Audit(context.WithoutCancel(ctx), e)
	}
	if err != nil {
		return fmt.Errorf("it is done, but not in the audit log: %w", err)
	}
	return nil
}

// didIn writes down a deed in the transaction that does it.
func didIn(ctx context.Context, store *storage.Store, tx storage.Tx, d deed) error {
	e, err := d.entry()
	if err != nil {
		return err
	}
	return store.AuditIn(ctx, tx, e)
}

func (a *app) asked(ctx context.Context, tx storage.Tx, receipt jobs.Receipt) error {
	j := receipt.Job
	details := map[string]any{"kind": j.Kind, "title": j.Title}
	if receipt.Reused {
		details["reused"] = true
	}
	return didIn(ctx, a.store, tx, deed{"job.asked", "job", j.ID.String(), j.Tenant, details})
}

// askedMany writes down many jobs with the first of each tenant.
func (a *app) askedMany(ctx context.Context, tx storage.Tx, action string, receipts []jobs.Receipt) error {
	number := map[string]int{}
	var firsts []storage.Job
	for _, r := range receipts {
		if number[r.Job.Tenant]++; number[r.Job.Tenant] == 1 {
			firsts = append(firsts, r.Job)
		}
	}
	for _, j := range firsts {
		d := deed{action, "job", j.ID.String(), j.Tenant, map[string]any{"jobs": number[j.Tenant], "kind": j.Kind, "title": j.Title}}
		if err := didIn(ctx, a.store, tx, d); err != nil {
			return err
		}
	}
	return nil
}

// didToJob writes down what was done to one job.
func didToJob(ctx context.Context, store *storage.Store, action string, id uuid.UUID) error {
	j, err := store.Job(ctx, everything, id)
	if err != nil {
		return err
	}
	return did(ctx, store, deed{action: action, kind: "job", id: id.String(), tenant: j.Tenant})
}

// didToBatch writes down what was done to the jobs of a batch.
func didToBatch(ctx context.Context, store *storage.Store, action string, id uuid.UUID, n int64) error {
	b, err := store.Batch(ctx, everything, id)
	if err != nil {
		return err
	}
	return did(ctx, store, deed{action, "batch", id.String(), b.Tenant, map[string]any{"jobs": n}})
}

// tenantOf is a tenant that may be none in particular.
func tenantOf(tenant *string) string {
	if tenant == nil {
		return ""
	}
	return *tenant
}

func didToUser(ctx context.Context, store *storage.Store, action string, u storage.User) error {
	return did(ctx, store, deed{action, "user", u.ID.String(), tenantOf(u.Tenant), map[string]any{"name": u.Name, "role": u.Role}})
}

// didToTarget is the entry of what is done to a target, or to a delivery of one, which is filled in with the deed.
func didToTarget(action string) storage.AuditEntry {
	return storage.AuditEntry{Actor: actor(), ActorKind: storage.ActorSystem, Action: action}
}

// didToFailed writes down what was done to n failed jobs, unless none of it was.
func didToFailed(ctx context.Context, store *storage.Store, action string, scope storage.Scope, n int64, err error) error {
	if n == 0 {
		return err
	}
	return errors.Join(err, did(ctx, store, deed{action: action, kind: "job", tenant: scope.Tenant, details: map[string]any{"jobs": n}}))
}
