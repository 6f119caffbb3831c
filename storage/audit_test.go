package storage_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func deed(actor, tenant, action, id string) storage.AuditEntry {
	e := storage.AuditEntry{Actor: actor, ActorKind: storage.ActorUser, Action: action, ObjectKind: "job", ObjectID: id}
	if tenant != "" {
		e.Tenant = &tenant
	}
	return e
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		w.must(w.store.Audit(w.ctx, deed("Nadia", "acme", "job.cancelled", fmt.Sprint("j", i))))
	}
	e := deed("ci", "globex", "export.downloaded", "x1")
	e.ActorKind, e.Details, e.RequestID, e.Address = storage.ActorToken, json.RawMessage(`{"file":"a.csv"}`), "r1", "192.0.2.7"
	w.must(w.store.Audit(w.ctx, e))
	w.must(w.store.Audit(w.ctx, deed("Nadia", "", "queue.paused", "default")))

	all := storage.Scope{All: true}
	for _, c := range []struct {
		name  string
		scope storage.Scope
		f     storage.AuditFilter
		want  int
	}{
		{"all", all, storage.AuditFilter{}, 7},
		{"a tenant's own", storage.Scope{Tenant: "acme"}, storage.AuditFilter{}, 5},
		{"another tenant's", storage.Scope{Tenant: "globex"}, storage.AuditFilter{}, 1},
		{"nobody's", storage.Scope{}, storage.AuditFilter{}, 0},
		{"by actor", all, storage.AuditFilter{Actor: "Nadia"}, 6},
		{"by action", all, storage.AuditFilter{Action: "job.cancelled"}, 5},
		{"by object", all, storage.AuditFilter{ObjectKind: "job", ObjectID: "j3"}, 1},
		{"since a while", all, storage.AuditFilter{From: time.Now().Add(-time.Hour)}, 7},
		{"before that", all, storage.AuditFilter{To: time.Now().Add(-time.Hour)}, 0},
	} {
		page, err := w.store.AuditLog(w.ctx, c.scope, c.f)
		w.must(err)
		if len(page.Items) != c.want {
			t.Errorf("%s: %d entries, want %d", c.name, len(page.Items), c.want)
		}
	}
	page, err := w.store.AuditLog(w.ctx, storage.Scope{Tenant: "globex"}, storage.AuditFilter{})
	w.must(err)
	got := page.Items[0]
	if got.Actor != "ci" || got.ActorKind != storage.ActorToken || string(got.Details) != `{"file": "a.csv"}` || got.Address != "192.0.2.7" || got.RequestID != "r1" || got.At.IsZero() {
		t.Errorf("the entry reads back as %+v", got)
	}
}

func TestAuditLogPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		w.must(w.store.Audit(w.ctx, deed("Nadia", "acme", "job.cancelled", fmt.Sprint(i))))
	}
	var seen []string
	for after := ""; ; {
		page, err := w.store.AuditLog(w.ctx, storage.Scope{Tenant: "acme"}, storage.AuditFilter{After: after, Limit: 2})
		w.must(err)
		for _, e := range page.Items {
			seen = append(seen, e.ObjectID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if got := strings.Join(seen, " "); got != "4 3 2 1 0" {
		t.Errorf("the pages hold %s, want each once, the newest first", got)
	}
	if _, err := w.store.AuditLog(w.ctx, storage.Scope{All: true}, storage.AuditFilter{After: "x"}); !errors.Is(err, storage.ErrCursor) {
		t.Errorf("a foreign cursor gives %v", err)
	}
}

// What somebody typed cannot keep itself out of the log.
func TestAuditTakesAnyText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.store.Audit(w.ctx, deed("Na\x00dia\xff"+strings.Repeat("ä", 300), "acme", "job.cancelled", strings.Repeat("x", 900))))
	page, err := w.store.AuditLog(w.ctx, storage.Scope{All: true}, storage.AuditFilter{})
	w.must(err)
	if len(page.Items) != 1 || !strings.HasPrefix(page.Items[0].Actor, "Na\ufffddia\ufffdä") || len(page.Items[0].ObjectID) != 400 {
		t.Errorf("the entry is %+v", page.Items)
	}
	e := deed("Nadia", "acme", "job.cancelled", "1")
	e.Details = json.RawMessage(`{"a":"` + strings.Repeat("x", 20_000) + `"}`)
	if err := w.store.Audit(w.ctx, e); err == nil {
		t.Error("details without bound were taken")
	}
}

// An entry goes by age only, and with the transaction of its deed.
func TestAuditStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.store.Audit(w.ctx, deed("Nadia", "acme", "job.cancelled", "new")))
	undone := errors.New("undone")
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		w.must(w.store.AuditIn(w.ctx, tx, deed("Nadia", "acme", "job.cancelled", "undone")))
		return undone
	})
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	for i := range 3 {
		w.exec(`INSERT INTO fenceline.audit (id, at, actor, actor_kind, action, object_id) VALUES ($1, now() - interval '40 days', 'Gus', 'user', 'job.cancelled', $2)`,
			uuid.New(), fmt.Sprint("old", i))
	}
	if err := w.tryExec("DELETE FROM fenceline.audit WHERE actor = 'Gus'"); err == nil {
		t.Error("plain SQL deleted old entries")
	}
	if n, err := w.store.PruneAudit(w.ctx, 50*24*time.Hour, "scheduler"); n != 0 || err != nil {
		t.Errorf("%d entries went that were to be kept, %v", n, err)
	}
	if n, err := w.store.PruneAudit(w.ctx, 0, "scheduler"); n != 0 || err != nil {
		t.Errorf("%d entries went although all are kept, %v", n, err)
	}
	if n, err := w.store.PruneAudit(w.ctx, time.Second, "scheduler"); n != 3 || err != nil {
		t.Errorf("%d entries went, want the 3 that are older than a month, %v", n, err)
	}
	page, err := w.store.AuditLog(w.ctx, storage.Scope{All: true}, storage.AuditFilter{})
	w.must(err)
	if len(page.Items) != 2 || page.Items[1].ObjectID != "new" || page.Items[0].Action != "audit.pruned" || !strings.Contains(string(page.Items[0].Details), `"entries": 3`) {
		t.Errorf("what stays is %+v", page.Items)
	}
}
