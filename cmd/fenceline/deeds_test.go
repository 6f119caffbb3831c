package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

// What is done by the command line stands in the audit log, with who did it where.
func TestDeedsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	s := newTaskSite(t)
	s.report("one", "SELECT 1 AS id ORDER BY 1\n")
	s.must(os.WriteFile(filepath.Join(s.dir, "two.json"), []byte(`{"jobs":[{"kind":"report","payload":{"report":"one"}}]}`), 0o600))
	two := filepath.Join(s.dir, "two.json")

	job := asJSON[jobAnswer](s, "dispatch", "report", "one").Job.ID.String()
	batch := asJSON[struct{ Batch storage.Batch }](s, "dispatch", "batch", two).Batch.ID.String()
	token := asJSON[struct{ Token storage.Token }](s, "token", "create", "ci").Token.ID.String()
	for _, args := range [][]string{
		{"dispatch", "chain", two}, {"job", "cancel", job}, {"batch", "cancel", batch, "--yes"},
		{"queue", "pause", "mail"}, {"queue", "resume", "mail"}, {"queue", "clear", "mail", "--yes"}, {"queue", "restart"},
		{"schedule", "put", "nightly", "one", "--cron", "@daily"}, {"schedule", "pause", "nightly"}, {"schedule", "resume", "nightly"}, {"schedule", "run", "nightly"},
		{"schedule", "delete", "nightly", "--yes"}, {"user", "add", "Omar"}, {"user", "role", "Omar", "operator"}, {"user", "disable", "Omar"},
		{"user", "enable", "Omar"}, {"user", "password", "Omar", "--generate"}, {"user", "remove", "Omar", "--yes"}, {"token", "revoke", token, "--yes"},
		{"sweep", "off", "--note", "restore"}, {"sweep", "on"}, {"sweep", "run"}, {"maintenance", "on"}, {"maintenance", "off"}, {"series", "create", "s"},
		{"notify", "add", "webhook", "shop", "https://example.com/"}, {"notify", "rotate", "shop"}, {"notify", "disable", "shop"}, {"notify", "enable", "shop"},
		{"notify", "test", "shop", "--wait", "0s"}, {"notify", "replay", "--dead", "--yes"}, {"notify", "remove", "shop", "--yes"}, {"queue", "prune", "--yes"}, {"signin"},
	} {
		if r := s.run(args...); r.code != exitDone && args[1] != "test" { // nobody delivers it here
			t.Errorf("%v: exit %d: %s", args, r.code, r.err)
		}
	}
	page := asJSON[storage.Page[storage.AuditEntry]](s, "audit", "--limit", "200")
	var actions []string
	for _, e := range page.Items {
		actions = append(actions, e.Action)
		if e.Actor != actor() || e.ActorKind != storage.ActorSystem || !strings.HasPrefix(e.Actor, "cli:") || !strings.Contains(e.Actor, "@") {
			t.Errorf("%s was done by %q (%s)", e.Action, e.Actor, e.ActorKind)
		}
	}
	for _, want := range []string{
		"job.asked", "batch.asked", "token.made", "job.asked_chain", "job.cancelled", "batch.cancelled", "queue.paused", "queue.resumed", "queue.cleared",
		"workers.restarted", "schedule.saved", "schedule.paused", "schedule.resumed", "schedule.run", "schedule.deleted", "user.added", "user.changed",
		"user.disabled", "user.enabled", "user.password_set", "user.removed", "token.revoked", "sweep.off", "sweep.on", "sweep.run", "maintenance.begun", "maintenance.ended", "series.made",
		"target.added", "target.rotated", "target.disabled", "target.enabled", "target.tested", "delivery.replayed", "target.removed", "jobs.pruned", "signin.linked",
	} {
		if !slices.Contains(actions, want) {
			t.Errorf("the audit log lacks %s; it has %v", want, actions)
		}
	}
	if text := string(page.Items[len(page.Items)-1].Details); !strings.Contains(text, `"report"`) {
		t.Errorf("the details of the first deed are %s", text)
	}
}
