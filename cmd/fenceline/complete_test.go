package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/redistest"
)

// What the shell is offered when somebody presses Tab.
func TestCompletion(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.report("mine", "-- title: My own\nSELECT 1 AS id ORDER BY 1\n")
	s.report("broken", "-- titel: Broken\nSELECT 1 AS id\n")
	s.ok("schedule", "put", "nightly", "mine", "--cron", "@daily")
	s.ok("notify", "add", "mail", "office", "ann@example.com")
	s.env["FENCELINE_QUEUES"] = "default=1,slow=1"
	job := s.chaosJob(chaosPayload{Key: "k"}).ID.String()
	for _, c := range []struct {
		typed, has, not string
	}{
		{"dispatch report |", "mine\tMy own", "broken"},
		{"dispatch report |st", "stock\t", "mine"},
		{"dispatch report stock |", "", "stock\t"},
		{"dispatch invoices |", "monthly-invoices\t", "stock"},
		{"report preview |m", "mine\t", "stock"},
		{"schedule delete |", "nightly\t@daily", ""},
		{"schedule put x |m", "mine\t", "stock"},
		{"dispatch report stock --queue |", "slow", ""},
		{"job list --state |f", "failed", "queued"},
		{"job retry --all --kind |", "invoice", ""},
		{"export list --kind |re", "report", "invoice"},
		{"job show |", job, ""},
		{"job cancel |", "", job},
		{"keys |", "rotate", ""},
		{"notify deliveries --state |", "dead", "queued"},
		{"notify test |", "office\tmail of default", ""},
		{"notify deliveries --target |o", "office\t", ""},
	} {
		line, word, _ := strings.Cut(c.typed, "|")
		r := s.run(append(append([]string{"__complete"}, strings.Fields(line)...), word)...)
		if r.code != 0 || !strings.Contains(r.out, c.has) || c.not != "" && strings.Contains(r.out, c.not) {
			t.Errorf("%s: exit %d\n%s%s", c.typed, r.code, r.out, r.err)
		}
	}
	s.env["DATABASE_URL"] = "postgres://127.0.0.1:1/none"
	s.env["FENCELINE_LEASE"] = "wrong"
	for _, line := range []string{"schedule delete", "dispatch report", "job show"} {
		if r := s.run(append(append([]string{"__complete"}, strings.Fields(line)...), "")...); r.code != 0 || !strings.HasPrefix(r.out, ":4\n") || strings.Contains(r.err, "wrong") {
			t.Errorf("%s, badly configured: exit %d\n%s%s", line, r.code, r.out, r.err)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	s.env["FENCELINE_LEASE"] = "wrong" // a shell that starts must not stumble over that
	for shell, word := range map[string]string{"bash": "__start_fenceline", "zsh": "#compdef fenceline", "fish": "complete -c fenceline", "powershell": "Register-ArgumentCompleter"} {
		if out := s.ok("completion", shell); !strings.Contains(out, word) {
			t.Errorf("%s: %.200s", shell, out)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-n")
	cmd.Stdin = strings.NewReader(s.ok("completion", "bash"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("bash cannot read its script: %v\n%s", err, out)
	}
}
