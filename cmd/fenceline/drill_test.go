//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// drillProcess is a drill as a process of its own: it starts this program again.
type drillProcess struct {
	s      *site
	args   []string
	cmd    *exec.Cmd
	out    bytes.Buffer // read after the end
	err    lines
	exited chan struct{}
}

func (s *site) drill(args ...string) *drillProcess {
	s.t.Helper()
	path, err := binary()
	s.must(err)
	p := &drillProcess{s: s, args: append([]string{"drill"}, args...), exited: make(chan struct{})}
	p.cmd = exec.Command(path, p.args...)
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	for k, v := range s.env {
		p.cmd.Env = append(p.cmd.Env, k+"="+v)
	}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.dir, &p.out, &p.err
	p.cmd.SysProcAttr = processAttributes()
	s.must(p.cmd.Start())
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait()
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
	})
	return p
}

// ends waits for the end and answers the exit code.
func (p *drillProcess) ends() int {
	p.s.t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	select {
	case <-p.exited:
	case <-deadline.C:
		p.s.t.Fatalf("fenceline %s does not end:\n%s", strings.Join(p.args, " "), p.err.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// report is the answer of a drill that was told --json.
func (p *drillProcess) report(code int) drillReport {
	p.s.t.Helper()
	if got := p.ends(); got != code {
		p.s.t.Errorf("fenceline %s: exit %d, want %d\n%s%s", strings.Join(p.args, " "), got, code, p.out.String(), p.err.String())
	}
	var r drillReport
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
		p.s.t.Fatalf("fenceline %s: %v in\n%s%s", strings.Join(p.args, " "), err, p.out.String(), p.err.String())
	}
	return r
}

// waits waits until the drill says on standard error that it waits for this.
func (p *drillProcess) waits(text string) {
	p.s.t.Helper()
	until(p.s.t, "the drill waits until "+text, func() bool {
		select {
		case <-p.exited:
			p.s.t.Fatalf("fenceline %s ended:\n%s%s", strings.Join(p.args, " "), p.out.String(), p.err.String())
		default:
		}
		return strings.Contains(p.err.String(), text)
	})
}

// told reports whether an event of the report has all that is asked for.
func told(r drillReport, who, what, guard string) bool {
	for _, e := range r.Events {
		if e.Who == who && strings.Contains(e.What, what) && e.Guard == guard {
			return true
		}
	}
	return false
}

// nothingLeft looks for whatever a drill could have left behind.
func (s *site) nothingLeft(r drillReport) {
	s.t.Helper()
	if !regexp.MustCompile(`^drill-[0-9a-f]{8}$`).MatchString(r.Tenant) {
		s.t.Fatalf("the report names no tenant: %+v", r)
	}
	if len(r.Left) > 0 {
		s.t.Errorf("%s says that something is left: %q", r.Drill, r.Left)
	}
	var rows int
	s.query(&rows, `SELECT (SELECT count(*) FROM fenceline.exports WHERE tenant = $1 AND deleted_at IS NULL)
		+ (SELECT count(*) FROM fenceline.jobs WHERE tenant = $1 AND finished_at IS NULL)
		+ (SELECT count(*) FROM fenceline.attempts a JOIN fenceline.exports e ON e.id = a.export_id WHERE e.tenant = $1 AND a.state <> 'deleted')
		+ (SELECT count(*) FROM pg_class WHERE relname = $1)`, r.Tenant)
	if rows != 0 {
		s.t.Errorf("%s left %d rows", r.Drill, rows)
	}
	names := []string{r.Tenant}
	for _, a := range r.Attempts {
		names = append(names, a.ExportID.String())
		if _, err := os.Stat(filepath.Join(s.env["FILES_DIR"], a.ExportID.String())); err == nil {
			s.t.Errorf("%s left the folder of its export", r.Drill)
		}
	}
	for _, e := range r.Events {
		if pid := regexp.MustCompile(`process (\d+)`).FindStringSubmatch(e.What); pid != nil {
			names = append(names, ":"+pid[1]+":")
			if n, _ := strconv.Atoi(pid[1]); processRuns(n, r.Tenant) {
				s.t.Errorf("%s left process %d", r.Drill, n)
			}
		}
	}
	s.noKeys(r.Drill, names)
}

// processRuns reports whether a process of this drill still runs, frozen or not.
func processRuns(pid int, tenant string) bool {
	args, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && bytes.Contains(args, []byte(tenant))
}

// noKeys looks for names in the names and in the lists of Redis.
func (s *site) noKeys(drill string, names []string) {
	s.t.Helper()
	r, err := jobs.OpenRedis(s.t.Context(), s.env["REDIS_URL"], s.env["FENCELINE_NAMESPACE"])
	s.must(err)
	defer r.Client.Close()
	keys, err := r.Client.Keys(s.t.Context(), "*").Result()
	s.must(err)
	queues, err := r.Client.SMembers(s.t.Context(), "asynq:queues").Result()
	s.must(err)
	for _, list := range []string{"asynq:servers", "asynq:workers"} {
		entries, err := r.Client.ZRange(s.t.Context(), list, 0, -1).Result()
		s.must(err)
		keys = append(keys, entries...)
	}
	for _, key := range append(keys, queues...) {
		for _, name := range names {
			if strings.Contains(key, name) {
				s.t.Errorf("%s left %s in Redis", drill, key)
			}
		}
	}
}

// query runs a query of one value.
func (s *site) query(into any, sql string, args ...any) {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context())
	conn, err := pgx.Connect(ctx, s.env["DATABASE_URL"])
	s.must(err)
	defer conn.Close(ctx)
	s.must(conn.QueryRow(ctx, sql, args...).Scan(into))
}

func (s *site) exec(sql string) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.env["DATABASE_URL"])
	s.must(err)
	defer conn.Close(s.t.Context())
	_, err = conn.Exec(s.t.Context(), sql)
	s.must(err)
}

// Every drill holds, all at once on one deployment, and none of them touches
// what is the deployment's.
func TestDrillsHold(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	work := s.start("work")
	work.says("worker started")
	s.report("slow", slowReport)
	own := asJSON[jobAnswer](s, "dispatch", "report", "slow", "--param", "rows=150", "--queue", "default").Job

	fenced := func(r drillReport, guard, by string) bool {
		return told(r, "PostgreSQL", "refused: token", guard) && len(r.Attempts) == 2 && *r.Attempts[0].Verdict == storage.AttemptFenced && deref(r.Attempts[0].Reason) == by
	}
	type expected struct {
		args []string
		says string
		yes  func(drillReport) bool
	}
	drills := map[*drillProcess]expected{}
	for _, want := range []expected{
		{[]string{"pause"}, "longer than its lease of 3s; token", func(r drillReport) bool {
			return fenced(r, "end_attempt", "newer_attempt") && told(r, "drill", "froze worker A (SIGSTOP", "") && told(r, "Redis", "the lease of worker A has ended", "") &&
				told(r, "drill", "let worker A go on (SIGCONT)", "") && told(r, "worker A", "attempt ended", "") && told(r, "worker B", "published drill.csv", "")
		}},
		{[]string{"pause", "--at", "publish"}, "longer than its lease of 3s; token", func(r drillReport) bool {
			return fenced(r, "publish_attempt", "newer_attempt") && told(r, "worker A", "not published: fenced out", "")
		}},
		{[]string{"kill"}, "was condemned and removed", func(r drillReport) bool {
			return told(r, "drill", "killed worker A (SIGKILL", "") && told(r, "drill", "1 condemned", "") && len(r.Attempts) == 2 && *r.Attempts[0].Verdict == storage.AttemptCondemned
		}},
		{[]string{"flush"}, "(3 jobs) came to its end", func(r drillReport) bool {
			return told(r, "drill", "removed from Redis: ", "") && told(r, "drill", "nothing else: FLUSHALL", "") && told(r, "Redis", "the mark is back", "") && len(r.Attempts) >= 3
		}},
		{[]string{"double"}, "without a lease; token", func(r drillReport) bool {
			return fenced(r, "publish_attempt", "newer_job") && told(r, "PostgreSQL", "both second bells were heard", "") && told(r, "PostgreSQL", "job 1 is superseded", "")
		}},
	} {
		drills[s.drill(append(want.args, "--json")...)] = want
	}
	for p, want := range drills {
		r := p.report(exitDone)
		if !r.Held || !strings.HasPrefix(r.Verdict, "Held: ") || !strings.Contains(r.Verdict, want.says) || len(r.Broken) > 0 || r.Drill != want.args[0] || !want.yes(r) {
			t.Errorf("%v: %s", want.args, p.out.String())
		}
		if r.File == nil || r.File.Before == "" || r.File.Before != r.File.After || r.File.Token == 0 {
			t.Errorf("%v: the file: %+v", want.args, r.File)
		}
		asked := told(r, "drill", "asked to publish it all the same: refused", "publish_attempt") || r.Drill == "flush" // where all attempts may have published
		if !asked || !told(r, "drill", "tried to set the pointer to it by hand: refused", "trigger on exports") {
			t.Errorf("%v: the guards were not tried", want.args)
		}
		for i, e := range r.Events[1:] {
			if e.At.Before(r.Events[i].At) {
				t.Errorf("%v: the timeline goes back at %q", want.args, e.What)
			}
		}
		s.nothingLeft(r)
	}
	s.ends(own)
}

// ends waits until a job of the deployment's own is done: it was attempted once,
// by the deployment's worker, whatever the drills did beside it.
func (s *site) ends(job storage.Job) {
	s.t.Helper()
	var got jobAnswer
	until(s.t, "the deployment's job is done", func() bool {
		got = asJSON[jobAnswer](s, "job", "show", job.ID.String())
		return got.Job.State.Ended()
	})
	if got.Job.State != storage.JobDone || got.Job.Attempts != 1 || len(got.Attempts) != 1 {
		s.t.Errorf("a job of the deployment was disturbed: %+v", got)
	}
}

// What people read, on servers that `up` has started.
func TestDrillText(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	s.start("up").says("Stop with Ctrl-C")
	p := s.drill("double")
	if code := p.ends(); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, p.out.String(), p.err.String())
	}
	for _, want := range []string{
		`^Two workers write the same export at once, without a lease\.\n`,
		`\n SECONDS  CLOCK \(UTC\)   WHO         TOKEN  WHAT\n`,
		`\n   [0-9.]{5}  \d\d:\d\d:\d\d\.\d{3}  worker A        1  took job 1\n`,
		`PostgreSQL      1  refused: token 2 of a newer job has published \[publish_attempt\]\n`,
		`\ndrill.csv      token 2, 40 rows, \d+ bytes\nsha256 before  ([0-9a-f]{64})\nsha256 after   [0-9a-f]{64}, the same\n`,
		`\nHeld: two workers wrote .*; token 1 was refused, and the file of token 2 is untouched\.\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(p.out.String()) {
			t.Errorf("no %s in\n%s", want, p.out.String())
		}
	}
	if !strings.Contains(p.err.String(), "drill: waiting until ") {
		t.Errorf("nothing was said while it waited: %s", p.err.String())
	}
}

func TestWithoutAFenceTheOlderWriteWins(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	p, text := s.drill("pause", "--unfenced", "--json"), s.drill("pause", "--unfenced")
	r := p.report(exitDone)
	if r.Held || !strings.HasPrefix(r.Verdict, "Overwritten, as expected without a fence") {
		t.Errorf("verdict %q, held %t", r.Verdict, r.Held)
	}
	want := drillRow{
		Before: storage.ScratchRow{Source: 120, Report: 120, Version: 2, Writer: "worker B"},
		After:  storage.ScratchRow{Source: 120, Report: 100, Version: 2, Writer: "worker A"},
	}
	if r.Row == nil || *r.Row != want {
		t.Errorf("the row: %+v", r.Row)
	}
	if !told(r, "worker A", "looked at its lock: it holds it", "") || !told(r, "drill", "SIGSTOP", "") || !told(r, "worker A", "PostgreSQL answered UPDATE 1", "") {
		t.Errorf("events: %+v", r.Events)
	}
	if code := text.ends(); code != exitDone {
		t.Errorf("exit %d: %s", code, text.err.String())
	}
	if out := text.out.String(); !strings.Contains(out, "\nrow after   report 100, version 2, by worker A\n") || strings.Contains(out, "TOKEN") {
		t.Error(out)
	}
	s.nothingLeft(r)
	var there bool
	s.query(&there, "SELECT to_regnamespace('fenceline_drill') IS NOT NULL")
	if there {
		t.Error("the schema of the scratch table is left")
	}
}

// Ctrl-C in the middle, with one worker frozen: everything is taken back.
func TestDrillInterrupted(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	for what, p := range map[string]*drillProcess{
		"the lease of worker A has ended": s.drill("pause", "--json"),
		"worker B took the lock":          s.drill("pause", "--unfenced", "--json"),
		"all jobs have ended":             s.drill("flush", "--json"),
	} {
		p.waits(what)
		s.must(p.cmd.Process.Signal(os.Interrupt))
		r := p.report(exitFailed)
		if r.Held || !strings.HasPrefix(r.Verdict, "Interrupted") || !strings.Contains(p.err.String(), "fenceline: interrupted") {
			t.Errorf("%v: %s%s", p.args, r.Verdict, p.err.String())
		}
		s.nothingLeft(r)
	}
}

// A worker that somebody else ends is told, with its last words.
func TestDrillThatCannotFinish(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	p := s.drill("double", "--json")
	p.waits("the job with the newer token has published")
	children, err := exec.Command("ps", "-o", "pid=", "--ppid", strconv.Itoa(p.cmd.Process.Pid)).Output()
	s.must(err)
	pid, err := strconv.Atoi(strings.Fields(string(children))[0])
	s.must(err)
	s.must(syscall.Kill(pid, syscall.SIGKILL))
	r := p.report(exitFailed)
	if r.Held || !strings.HasPrefix(r.Verdict, "The drill could not finish: worker ") || !strings.Contains(r.Verdict, "ended by itself (signal: killed)") {
		t.Errorf("verdict %q", r.Verdict)
	}
	s.nothingLeft(r)
}

// unguarded takes the fence out: publish asks nothing, and the database refuses nothing.
const unguarded = `
DO $$ DECLARE r record; BEGIN
	FOR r IN SELECT tgname, tgrelid::regclass AS t FROM pg_trigger WHERE NOT tgisinternal AND tgname LIKE 'guard%' LOOP
		EXECUTE format('DROP TRIGGER %I ON %s', r.tgname, r.t);
	END LOOP;
END $$;
DROP INDEX fenceline.attempts_one_published, fenceline.attempts_one_publication_per_job, fenceline.outbox_once;
CREATE OR REPLACE FUNCTION fenceline.publish_attempt(aid uuid, OUT outcome text, OUT reason text, OUT fenced_by bigint) LANGUAGE plpgsql AS $$
DECLARE a fenceline.attempts;
BEGIN
	SELECT * INTO a FROM fenceline.attempts WHERE id = aid;
	UPDATE fenceline.attempts SET state = 'superseded', verdict = 'superseded', replaced_at = clock_timestamp()
		WHERE id = (SELECT attempt_id FROM fenceline.exports WHERE id = a.export_id);
	UPDATE fenceline.attempts SET state = 'published', verdict = 'published', finished_at = clock_timestamp() WHERE id = aid;
	UPDATE fenceline.exports SET last_token = a.token, attempt_id = a.id, published_at = clock_timestamp() WHERE id = a.export_id;
	UPDATE fenceline.jobs SET state = 'done', finished_at = clock_timestamp() WHERE id = a.job_id;
	outcome := 'published';
END $$`

// untriggered leaves the functions, and takes away what stands behind them.
const untriggered = `DROP TRIGGER guard ON fenceline.exports`

// A drill that cannot fail proves nothing.
func TestDrillsFindWhatIsBroken(t *testing.T) {
	t.Parallel()
	drills := map[*drillProcess]string{}
	for damage, list := range map[string]map[string][]string{
		unguarded: {
			"Broken: L2, the pointer went back from token ": {"double"},
			"L2, PostgreSQL published token ":               {"pause"},
			"Broken: L2, the pointer went back from":        {"pause", "--at", "publish"},
		},
		untriggered: {"Broken: L2, PostgreSQL would let a bare UPDATE set the pointer to token ": {"kill"}},
	} {
		s := newSite(t, redistest.Shared(t))
		s.exec(damage)
		for says, args := range list {
			drills[s.drill(append(args, "--json")...)] = says
		}
	}
	for p, says := range drills {
		r := p.report(exitFailed)
		if r.Held || len(r.Broken) == 0 || !strings.Contains(r.Verdict, says) || !strings.Contains(p.err.String(), says) {
			t.Errorf("%v: verdict %q, want %q", p.args, r.Verdict, says)
		}
		p.s.nothingLeft(r)
	}
}

func TestDrillUsage(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, `--at: "noon" must be write or publish`, []string{"drill", "pause", "--at", "noon"}},
		{exitUsage, "--at and --unfenced exclude each other", []string{"drill", "pause", "--unfenced", "--at", "publish"}},
		{exitUsage, "takes no arguments", []string{"drill", "kill", "worker"}},
		{exitUsage, `"pauze" is not a command`, []string{"drill", "pauze"}},
		{exitFailed, "no Fenceline runs on", []string{"drill", "flush"}},
	} {
		if got := s.run(c.args...); got.code != c.code || !strings.Contains(got.err, c.says) {
			t.Errorf("%v: exit %d, %s", c.args, got.code, got.err)
		}
	}
	if help := s.ok("drill", "--help"); strings.Contains(help, "unfenced-worker") || !strings.Contains(help, "double") {
		t.Error(help)
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	const held = "it was so."
	boom := fmt.Errorf("boom")
	for _, c := range []struct {
		broken, left []string
		failure      error
		want         string
		ok           bool
	}{
		{nil, nil, nil, "Held: it was so.", true},
		{[]string{"L1, x", "L2, y"}, nil, nil, "Broken: L1, x; L2, y.", false},
		{[]string{"L1, x"}, nil, boom, "Broken: L1, x.", false},
		{nil, nil, boom, "The drill could not finish: boom", false},
		{nil, []string{"keys"}, boom, "The drill could not finish: boom Left behind: keys.", false},
		{nil, []string{"keys"}, nil, "it was so. But the drill could not remove everything: keys.", false},
		{nil, nil, context.Canceled, "Interrupted before it came to an end; nothing can be said.", false},
	} {
		if got, ok := verdict(held, c.broken, c.left, c.failure); got != c.want || ok != c.ok {
			t.Errorf("%q, %t; want %q, %t", got, ok, c.want, c.ok)
		}
	}
}

func TestWorkerLog(t *testing.T) {
	t.Parallel()
	var l workerLog
	if l.last() != "nothing" {
		t.Error("an empty log says something")
	}
	for _, part := range []string{`{"msg":"worker st`, "arted\"}\npanic: x\n", `{"msg":"attempt ended","token":7,"reason":"lease_lost"}` + "\nrest"} {
		_, _ = l.Write([]byte(part))
	}
	line, found := l.find(func(w workerLine) bool { return w.Token == 7 })
	if !l.says("worker started") || l.says("rest") || !found || line.Reason != "lease_lost" || !strings.Contains(l.last(), "panic: x | ") {
		t.Errorf("%+v %q", l.lines, l.last())
	}
}
