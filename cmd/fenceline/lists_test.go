package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// The order of a lease has a column as soon as a lock service gave one.
func TestAttemptsAreListedWithTheOrderOfTheirLease(t *testing.T) {
	t.Parallel()
	table := func(attempts ...storage.Attempt) []string {
		var out bytes.Buffer
		attemptTable(&out, attempts)
		return strings.Split(out.String(), "\n")
	}
	plain := storage.Attempt{Token: 16, State: storage.AttemptFenced}
	under := storage.Attempt{Token: 17, State: storage.AttemptRunning, LeaseOrder: storage.LeaseOrder{Name: "revision", Number: 4211}}
	if got := table(plain); !strings.HasPrefix(got[0], "TOKEN\tSTATE") || !strings.HasPrefix(got[1], "16\tfenced\t") {
		t.Errorf("without: %q", got)
	}
	got := table(under, plain)
	if !strings.HasPrefix(got[0], "TOKEN\tLEASE\tSTATE") || !strings.HasPrefix(got[1], "17\trevision 4211\trunning\t") || !strings.HasPrefix(got[2], "16\t-\tfenced\t") {
		t.Errorf("with: %q", got)
	}
	if a, b := tokenOf(plain), tokenOf(under); a != "token 16" || b != "token 17 · revision 4211" {
		t.Errorf("%q, %q", a, b)
	}
	d := &drill{timeline: &timeline{cli: &cli{}}, plan: drillPlan{jobs: 1}}
	d.noteBegun(under)
	d.noteBegun(plain)
	if a, b := d.events[0].What, d.events[1].What; a != "took the lease (revision 4211) and the job" || b != "took the lease and the job" {
		t.Errorf("a drill tells %q and %q", a, b)
	}
}

// nulls are the paths of what is null in an answer and is not known to be one thing: a list without items must be [].
func nulls(at string, v any) (found []string) {
	notLists := []string{"tenant", "kind", "current_days", "superseded_days", "since", "off"}
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if x != nil || !slices.Contains(notLists, name) {
				found = append(found, nulls(at+"."+name, x)...)
			}
		}
	case []any:
		for _, x := range v {
			found = append(found, nulls(at+"[]", x)...)
		}
	case nil:
		return []string{at}
	}
	return found
}

// Whoever reads a list in a program goes through its items, and null has none to go through.
func TestListsOfNothingAreLists(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	lists := []string{"audit", "batch list", "config", "export holds", "export list", "fence list", "job list", "limit list", "notify deliveries", "notify list", "queue cap list",
		"queue failed", "queue list", "queue monitor", "retention list", "schedule list", "series list", "sweep log", "sweep status", "sweep audit", "sweep plan", "token list", "user list",
		"worker list", "verify", "recover --dry-run", "keys status", "queue retry --all --yes", "queue forget --all --yes", "job retry --all --yes"}
	check := func(line string) {
		t.Helper()
		r := s.run(append(strings.Fields(line), "--json")...)
		if r.code == exitUsage || r.out == "" {
			t.Errorf("%s: exit %d, %s", line, r.code, r.err)
		}
		for answers := json.NewDecoder(strings.NewReader(r.out + r.err)); answers.More(); {
			var v any
			if err := answers.Decode(&v); err != nil {
				t.Errorf("%s: %v in %s", line, err, r.out+r.err)
				break
			}
			if found := nulls("", v); len(found) > 0 {
				t.Errorf("%s: null at %q: must be [] when it is a list, else it belongs to notLists", line, found)
			}
		}
	}
	for _, line := range lists {
		check(line)
	}
	// What is there and has nothing yet.
	s.report("mine", "SELECT 1 AS id ORDER BY 1\n")
	s.ok("series", "create", "invoices", "--tenant", "acme", "--prefix", "A-")
	s.ok("schedule", "put", "nightly", "mine", "--cron", "@daily")
	s.ok("notify", "add", "mail", "office", "ann@example.com")
	job := asJSON[struct{ Job storage.Job }](s, "dispatch", "report", "mine").Job
	shown := []string{"job show " + job.ID.String(), "export show " + job.ExportID.String(), "link list " + job.ExportID.String(), "schedule history nightly", "schedule show nightly",
		"series numbers invoices --tenant acme", "notify show office", "retention defaults", "report list", "report check", "report check mine", "sweep explain " + job.ExportID.String(), "doctor"}
	for _, line := range shown {
		check(line)
	}
	known := strings.Join(append(lists, shown...), "\n") + "\n"
	for _, name := range listCommands((&cli{}).root(), "") {
		if !strings.Contains(known, name) {
			t.Errorf("`fenceline %s` makes lists and is not tried here", name)
		}
	}
}

// listCommands are the commands whose name says that they list something.
func listCommands(c *cobra.Command, path string) (names []string) {
	for _, sub := range c.Commands() {
		name := strings.TrimSpace(path + " " + sub.Name())
		if slices.Contains([]string{"list", "log", "history", "numbers", "deliveries", "holds", "failed", "audit"}, sub.Name()) {
			names = append(names, name)
		}
		names = append(names, listCommands(sub, name)...)
	}
	return names
}
