package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// silent makes attempts that gave no heartbeat for an hour, each of an export of its own.
func (s *site) silent(n int) {
	s.t.Helper()
	s.sql(
		fmt.Sprintf("INSERT INTO fenceline.exports (tenant, kind, key) SELECT 'acme', 'report', 'silent' || i FROM generate_series(1, %d) i", n),
		`INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, payload, payload_version, max_attempts, max_crashes, timeout_seconds, request_hash)
			SELECT gen_random_uuid(), 'acme', 'report', 'default', id, '{}', 1, 3, 3, 60, '' FROM fenceline.exports WHERE key LIKE 'silent%'`,
		"UPDATE fenceline.exports SET issued_token = nextval('fenceline.fence_tokens') WHERE key LIKE 'silent%'",
		`INSERT INTO fenceline.attempts (id, export_id, job_id, number, token, worker, started_at, heartbeat_at)
			SELECT gen_random_uuid(), e.id, j.id, 1, e.issued_token, 'w-7', now() - interval '1 hour', now() - interval '1 hour'
			FROM fenceline.exports e JOIN fenceline.jobs j ON j.export_id = e.id WHERE e.key LIKE 'silent%'`)
}

// newestRun is the record of the newest run.
func (s *site) newestRun() (r storage.SweepRun) {
	s.t.Helper()
	runs := asJSON[sweepStatus](s, "sweep", "status").Runs
	if len(runs) > 0 {
		r = runs[0]
	}
	return r
}

// slowly is a run that works so small a share of the time that it is met in its middle: after a batch it rests.
func (s *site) slowly() *process {
	s.t.Helper()
	before := s.newestRun().ID
	p := s.start("sweep", "run", "--pace", "1", "--time", "1h", "--sweep-quarantine", "0s")
	until(s.t, "a batch is done", func() bool {
		r := s.newestRun()
		return r.ID > before && r.Condemned > 0
	})
	return p
}

// Two at once, a signal, a kill: each leaves the rest to the next run.
func TestSweepProcesses(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	const all = 1400 // seven batches
	s.silent(all)
	first := s.slowly()
	if r := s.run("sweep", "run"); r.code != exitBusy {
		t.Errorf("a second run: %+v", r)
	}
	s.must(first.Process.Signal(syscall.SIGTERM))
	<-first.exited
	if code := first.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(first.output.String(), "interrupted") {
		t.Errorf("after SIGTERM: exit %d\n%s", code, first.output)
	}
	stopped := s.newestRun()
	if stopped.Stopped == nil || *stopped.Stopped != "interrupted" || stopped.Condemned == 0 || stopped.Condemned >= all {
		t.Errorf("the record of the first: %+v", stopped)
	}

	second := s.slowly()
	s.must(second.Process.Kill())
	<-second.exited
	until(t, "the lock is free", func() bool { return s.run("sweep", "run", "--pace", "100", "--sweep-quarantine", "0s").code == 0 })
	var killed string
	s.query(&killed, "SELECT stopped FROM fenceline.sweeps WHERE id = $1", stopped.ID+1)
	if killed != "killed" {
		t.Errorf("the record of the killed one says %s", killed)
	}
	var left, sum int64
	s.query(&left, "SELECT count(*) FROM fenceline.attempts WHERE state <> 'deleted'")
	s.query(&sum, "SELECT count(DISTINCT attempt_id) FROM fenceline.sweep_deletions")
	if left != 0 || sum != all {
		t.Errorf("%d are left, %d deletions are on record, want 0 and %d", left, sum, all)
	}
}

func TestSweepCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.silent(3)
	var kinds []string
	for line := range strings.Lines(s.ok("sweep", "plan", "--json", "--sweep-quarantine", "0s")) {
		var item struct {
			Action string
			Totals *storage.SweepTotals
		}
		s.must(json.Unmarshal([]byte(line), &item))
		if item.Totals != nil {
			item.Action = fmt.Sprintf("totals %d", item.Totals.Items)
		}
		kinds = append(kinds, item.Action)
	}
	if got := strings.Join(kinds, ", "); got != "condemn, condemn, condemn, delete, delete, delete, totals 6" {
		t.Errorf("the plan: %s", got)
	}
	if out := s.ok("sweep", "--dry-run", "--limit", "2"); strings.Count(out, "gave no heartbeat") != 2 || !strings.Contains(out, "The limit of one run is reached") {
		t.Errorf("a plan of two:\n%s", out)
	}
	if out := s.ok("sweep", "off", "--note", "a test"); !strings.Contains(out, "OFF") || !strings.Contains(out, "a test") {
		t.Errorf("off: %s", out)
	}
	if r := s.run("sweep", "run"); r.code != exitRefused || !strings.Contains(r.err, "a test") {
		t.Errorf("run while it is off: %+v", r)
	}
	if r := s.run("sweep", "plan"); r.code != exitDone || !strings.Contains(r.err, "`sweep run` would do nothing of this now") || !strings.Contains(r.err, "a test") {
		t.Errorf("plan while it is off: %+v", r)
	}
	s.ok("sweep", "on")
	s.env["SWEEP_OFF"] = "yes"
	if r := s.run("sweep", "run"); r.code != exitRefused || !strings.Contains(r.err, "SWEEP_OFF") {
		t.Errorf("run of a process that is not to: %+v", r)
	}
	delete(s.env, "SWEEP_OFF")
	if r := s.run("sweep", "run", "--pace", "0"); r.code != exitUsage {
		t.Errorf("a pace of nothing: %+v", r)
	}
	if r := s.run("sweep", "ruin"); r.code != exitUsage || !strings.Contains(r.err, "run") {
		t.Errorf("a command that is none: %+v", r)
	}
	res := asJSON[storage.SweepResult](s, "sweep", "run", "--sweep-quarantine", "0s")
	if res.Condemned != 3 || res.Deleted != 3 || res.Stopped != "done" {
		t.Errorf("the run: %+v", res)
	}
	if out := s.ok("sweep", "log", "--run", fmt.Sprint(res.ID)); strings.Count(out, "was condemned and can never be published") != 3 {
		t.Errorf("the log:\n%s", out)
	}
	if out := s.ok("sweep", "recount"); !strings.Contains(out, "0 bytes of 0 attempts") {
		t.Errorf("recount: %s", out)
	}

	// An attempt of 2 GiB is all there is: to delete it is too much at once.
	s.silent2GiB()
	if r := s.run("sweep", "run", "--sweep-quarantine", "0s"); r.code != exitRefused || strings.Count(r.err, "--max-share 100") != 1 || r.out != "" {
		t.Errorf("a run that deletes all: %+v", r)
	}
	s.ok("sweep", "run", "--sweep-quarantine", "0s", "--max-share", "100")
}

// silent2GiB makes a silent attempt that says that it has written 2 GiB.
func (s *site) silent2GiB() {
	s.t.Helper()
	s.sql("DELETE FROM fenceline.stored")
	s.sql(`WITH e AS (SELECT id FROM fenceline.exports LIMIT 1), j AS (INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, payload, payload_version,
			max_attempts, max_crashes, timeout_seconds, request_hash) SELECT gen_random_uuid(), 'acme', 'report', 'default', id, '{}', 1, 3, 3, 60, '' FROM e RETURNING id, export_id)
		INSERT INTO fenceline.attempts (id, export_id, job_id, number, token, worker, heartbeat_at, bytes)
			SELECT gen_random_uuid(), export_id, id, 1, nextval('fenceline.fence_tokens'), 'w-7', now() - interval '1 hour', 2147483648 FROM j`)
}

func TestSweepAuditAlarms(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	kept, lost := s.publishFile("kept", "one"), s.publishFile("lost", "two")
	if out := s.ok("sweep", "audit"); !strings.Contains(out, "current      2") {
		t.Errorf("audit:\n%s", out)
	}
	if out := s.ok("sweep", "explain", kept); !strings.HasPrefix(out, "stays: it is the current file of acme / report / kept") {
		t.Errorf("explain: %s", out)
	}
	s.must(os.Remove(lost))
	if out := s.ok("sweep", "explain", lost); !strings.HasPrefix(out, "missing: ") || !strings.Contains(out, "is not in the store; it is the current file of acme / report / lost") {
		t.Errorf("explain what is missing: %s", out)
	}
	if r := s.run("sweep", "explain", "nobody.txt"); r.code != exitNotFound || r.out != "" {
		t.Errorf("explain what nobody knows: %+v", r)
	}
	if r := s.run("sweep", "audit"); r.code != exitFailed || !strings.Contains(r.out, "missing") || !strings.Contains(r.out, "not in the store") {
		t.Errorf("with a file missing: %+v", r)
	}
	r := s.run("sweep", "audit", "--json", "--show", "current")
	if r.code != exitFailed || strings.Count(r.out, "\n") != 2 || !strings.Contains(r.out, `"class":"current"`) || !strings.Contains(r.out, `"missing":{"objects":1,"bytes":3}`) {
		t.Errorf("as JSON: %+v", r)
	}
	s.ok("sweep", "off")
	if out := s.ok("sweep", "explain", kept); !strings.Contains(out, "switched off since") {
		t.Errorf("explain while it is off: %s", out)
	}
	if r := s.run("sweep", "audit", "--show", "nice"); r.code != exitUsage {
		t.Errorf("a class that is none: %+v", r)
	}
}
