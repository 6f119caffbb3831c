package main

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func TestLinkCommands(t *testing.T) {
	t.Parallel()
	s := newTaskSite(t)
	s.publishFile("k", "id\n1\n")
	page := asJSON[storage.Page[storage.ExportSummary]](s, "export", "list")
	id := page.Items[0].ID.String()
	made := asJSON[struct {
		storage.Link
		URL string
	}](s, "link", "create", id, "--lifetime", "1h", "--max-uses", "3")
	if !strings.Contains(made.URL, "/l/") || made.MadeBy != commandLine || *made.MaxUses != 3 {
		t.Errorf("%+v", made)
	}
	if out := s.ok("link", "list", id); !strings.Contains(out, made.ID.String()) || !strings.Contains(out, "0 of 3") || strings.Contains(out, made.URL) {
		t.Error(out)
	}
	s.ok("link", "revoke", id, made.ID.String())
	if out := s.ok("link", "list", id); !strings.Contains(out, "revoked") {
		t.Error(out)
	}
	if log := asJSON[storage.Page[storage.AuditEntry]](s, "audit", "--object", id); len(log.Items) != 2 || log.Items[0].Action != "link.revoked" || log.Items[1].ActorKind != storage.ActorSystem {
		t.Errorf("%+v", log)
	}
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitUsage, []string{"create", "x"}}, {exitUsage, []string{"create", id, "--lifetime", "9999h"}}, {exitUsage, []string{"create", id, "--max-uses", "-1"}},
		{exitNotFound, []string{"create", uuid.NewString()}}, {exitNotFound, []string{"create", id, "--file", "x"}}, {exitNotFound, []string{"revoke", id, uuid.NewString()}},
	} {
		if r := s.run(append([]string{"link"}, c.args...)...); r.code != c.code {
			t.Errorf("%v: exit %d, want %d: %s", c.args, r.code, c.code, r.err)
		}
	}
}
