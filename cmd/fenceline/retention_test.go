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
		{exitUsage, "--current DAYS|forever", []string{"set"}},
		{exitUsage, "--superseded DAYS|forever", []string{"set", "--kind", "report", "--dry-run"}},
		{exitUsage, "a number of days, or forever", []string{"set", "--current", "ever"}},
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

func TestSettingARuleSaysWhatWasBefore(t *testing.T) {
	t.Parallel()
	s := newTaskSite(t)
	s.publishFile("k", "id\n1\n")
	kind := asJSON[storage.Page[storage.ExportSummary]](s, "export", "list").Items[0].Kind
	for _, c := range []struct {
		out, err string
		args     []string
	}{
		{"current publications stay 30 days, replaced ones for ever\nbefore: there was no such rule", "", []string{"--kind", kind, "--current", "30"}},
		{"current publications stay for ever, replaced ones for ever\nbefore: current ones 30 days, replaced ones for ever; " + actor() + " set that", "", []string{"--kind", kind, "--current", "forever", "--superseded", "forever"}},
		{"the rule for nosuch", "no export of kind nosuch exists yet; the rule is for what comes\n", []string{"--kind", "nosuch", "--current", "30"}},
		{"the rule for everything of nosuch", "no export of tenant nosuch exists yet; the rule is for what comes\n", []string{"--tenant", "nosuch", "--superseded", "forever"}},
		{"the rule for everything", "", []string{"--current", "forever"}},
	} {
		if r := s.run(append([]string{"retention", "set"}, c.args...)...); r.code != exitDone || !strings.Contains(r.out, c.out) || r.err != c.err {
			t.Errorf("%v: exit %d: %s%s", c.args, r.code, r.out, r.err)
		}
	}
}

func TestKeepingAnExport(t *testing.T) {
	t.Parallel()
	s := newTaskSite(t)
	s.publishFile("k", "id\n1\n")
	export := asJSON[storage.Page[storage.ExportSummary]](s, "export", "list").Items[0]
	id, unknown := export.ID.String(), uuid.NewString()
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
		{exitDone, "put on hold all invoice of acme\nno export of kind invoice of tenant acme exists yet; it will hold what comes", []string{"hold", "--tenant", "acme", "--kind", "invoice", "--note", "tax audit"}},
		{exitRefused, "put all invoice of acme on hold", []string{"hold", "--tenant", "acme", "--kind", "invoice", "--note", "tax audit"}},
		{exitDone, "released all invoice of acme", []string{"release", "--tenant", "acme", "--kind", "invoice"}},
		{exitDone, "put on hold all of nosuch\nno export of tenant nosuch exists yet", []string{"hold", "--tenant", "nosuch", "--note", "case 8"}},
	} {
		if r := s.run(append([]string{"export"}, c.args...)...); r.code != c.code || !strings.Contains(r.out+r.err, c.says) {
			t.Errorf("%v: exit %d, want %d with %q: %s%s", c.args, r.code, c.code, c.says, r.out, r.err)
		}
	}
	if r := s.run("export", "hold", "--tenant", export.Tenant, "--note", "case 9"); r.code != exitDone || r.out != "put on hold all of "+export.Tenant+"\n" || r.err != "" {
		t.Errorf("a tenant that has exports: %+v", r)
	}
	if log := asJSON[storage.Page[storage.AuditEntry]](s, "audit", "--object", "all invoice of acme"); len(log.Items) != 2 {
		t.Errorf("the audit log tells of the hold of a kind: %+v", log)
	}
	actions := ""
	for _, e := range asJSON[storage.Page[storage.AuditEntry]](s, "audit", "--object", id).Items {
		actions = e.Action + " " + actions
	}
	if want := "export.pinned export.held export.unpinned export.released export.deleted export.restored "; actions != want {
		t.Errorf("the audit log tells of %s, want %s", actions, want)
	}
}
