package main

import (
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

func TestAuditCommand(t *testing.T) {
	t.Parallel()
	s := newTaskSite(t)
	store, err := storage.Open(t.Context(), s.env["DATABASE_URL"], storage.Options{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	acme := "acme"
	for _, e := range []storage.AuditEntry{
		{Actor: "Nadia", ActorKind: storage.ActorUser, Tenant: &acme, Action: "export.downloaded", ObjectKind: "export", ObjectID: "x"},
		{Actor: "ci", ActorKind: storage.ActorToken, Action: "queue.paused", ObjectKind: "queue", ObjectID: "mail"},
	} {
		if err := store.Audit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if out := s.ok("audit"); !strings.Contains(out, "export.downloaded") || !strings.Contains(out, "queue mail") {
		t.Error(out)
	}
	for _, args := range [][]string{{"--actor", "Nadia"}, {"--action", "export.downloaded"}, {"--object", "x"}, {"--tenant", "acme"}, {"--limit", "1", "--actor", "Nadia", "--since", "1h"}} {
		page := asJSON[storage.Page[storage.AuditEntry]](s, append([]string{"audit"}, args...)...)
		if len(page.Items) != 1 || page.Items[0].Actor != "Nadia" {
			t.Errorf("%v: %+v", args, page.Items)
		}
	}
	if r := s.run("audit", "--since", "soon"); r.code != exitUsage || !strings.Contains(r.err, "--since") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
}

func TestSinceWhen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "24h": now.Add(-24 * time.Hour), "2026-11-01": time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), "2026-11-01T10:00:00+01:00": time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC),
	} {
		if got, err := sinceWhen(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"-1h", "x", "2026-13-01"} {
		if _, err := sinceWhen(text, now); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
