package main

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func TestRetentionCommands(t *testing.T) {
	t.Parallel()
	s := newTaskSite(t)
	if out := s.ok("retention", "list"); !strings.Contains(out, "no rules") {
		t.Error(out)
	}
	s.ok("retention", "defaults")
	s.ok("retention", "set", "--tenant", "acme", "--kind", "report", "--current", "90", "--superseded", "14", "--keep", "3")
	lines := strings.Split(strings.TrimSpace(s.ok("retention", "list")), "\n")
	for i, want := range []string{"TENANT", "* * for ever for ever", "* invoice for ever for ever", "* report 30 days 7 days, and the newest 5", "acme report 90 days 14 days, and the newest 3"} {
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(got, want) {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
	before := s.ok("retention", "list")
	if out := s.ok("retention", "set", "--kind", "report", "--current", "8", "--dry-run"); !strings.Contains(out, "nothing is set; the rule for report would decide for 0 exports") {
		t.Error(out)
	}
	if p := asJSON[storage.RetentionPreview](s, "retention", "remove", "--kind", "report", "--dry-run"); p != (storage.RetentionPreview{}) {
		t.Errorf("%+v", p)
	}
	if after := s.ok("retention", "list"); after != before {
		t.Errorf("what only asks changed something:\n%s\n%s", before, after)
	}
	s.ok("retention", "remove", "--tenant", "acme", "--kind", "report")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "--superseded", []string{"set", "--superseded", "6"}}, // LINK_MAX is seven days
		{exitUsage, "--current", []string{"set", "--current", "0"}},
		{exitUsage, "--keep", []string{"set", "--superseded", "7", "--keep", "-1"}},
		{exitUsage, "--keep", []string{"set", "--keep", "5"}},
		{exitNotFound, "the rule for report of acme", []string{"remove", "--tenant", "acme", "--kind", "report"}},
	} {
		if r := s.run(append([]string{"retention"}, c.args...)...); r.code != c.code || !strings.Contains(r.err, c.says) {
			t.Errorf("%v: exit %d, want %d: %s", c.args, r.code, c.code, r.err)
		}
	}
	if log := asJSON[storage.Page[storage.AuditEntry]](s, "audit", "--action", "retention.changed"); len(log.Items) != 5 || log.Items[0].ObjectID != "the rule for report of acme" {
		t.Errorf("%+v", log)
	}
}

func TestKeepingAnExport(t *testing.T) {
	t.Parallel()
	s := newTaskSite(t)
	s.publishFile("k", "id\n1\n")
	id, unknown := asJSON[storage.Page[storage.ExportSummary]](s, "export", "list").Items[0].ID.String(), uuid.NewString()
	for _, c := range []struct {
		code int
		says string // in what is printed, or in the error
		args []string
	}{
		{exitUsage, "--note", []string{"pin", id}},
		{exitDone, "kept until it is unpinned: " + actor() + " pinned it, “year end”", []string{"pin", id, "--note", "year end"}},
		{exitNotFound, "attempt " + unknown + " of export " + id, []string{"pin", id, "--attempt", unknown, "--note", "year end"}},
		{exitNotFound, "attempt " + unknown + " of export " + id, []string{"unpin", id, "--attempt", unknown}},
		{exitUsage, "1 file", []string{"delete", id}},
		{exitRefused, "pinned", []string{"delete", id, "--yes"}},
		{exitDone, "on hold", []string{"hold", id, "--note", "case 7"}},
		{exitRefused, "already", []string{"hold", id, "--note", "case 7"}},
		{exitRefused, "on hold", []string{"delete", id, "--yes", "--unpin"}},
		{exitDone, "case 7", []string{"holds"}},
		{exitDone, "kept until a newer publication replaces it", []string{"release", id}},
		{exitNotFound, "not found", []string{"release", id}},
		{exitDone, "can be restored until", []string{"delete", id, "--yes"}},
		{exitNotFound, "not found", []string{"delete", id, "--yes"}},
		{exitDone, "restored", []string{"restore", id}},
		{exitNotFound, "not found", []string{"restore", uuid.NewString()}},
		{exitUsage, "--tenant", []string{"hold", "--note", "case 7"}},
		{exitDone, "all of acme", []string{"hold", "--tenant", "acme", "--kind", "invoice", "--note", "tax audit"}},
		{exitDone, "all of acme", []string{"release", "--tenant", "acme", "--kind", "invoice"}},
	} {
		if r := s.run(append([]string{"export"}, c.args...)...); r.code != c.code || !strings.Contains(r.out+r.err, c.says) {
			t.Errorf("%v: exit %d, want %d with %q: %s%s", c.args, r.code, c.code, c.says, r.out, r.err)
		}
	}
	actions := ""
	for _, e := range asJSON[storage.Page[storage.AuditEntry]](s, "audit", "--object", id).Items {
		actions = e.Action + " " + actions
	}
	if want := "export.pinned export.held export.unpinned export.released export.deleted export.restored "; actions != want {
		t.Errorf("the audit log tells of %s, want %s", actions, want)
	}
}
