package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// What a stranger does: one command, nothing configured, and a file on disk.
func TestUpFromNothing(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	up := s.start("up", "--demo")
	said := up.says("Stop with Ctrl-C")
	if !strings.Contains(said, "/signin?token=") {
		t.Errorf("no sign-in link in\n%s", said)
	}
	orders := filepath.Join(s.dir, "orders.csv")
	s.ok("dispatch", "report", "orders", "--param", "from=2026-01-01", "--param", "to=2026-02-01", "--format", "csv", "--wait", "-o", orders)
	raw, err := os.ReadFile(orders)
	s.must(err)
	rows, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	if err != nil || len(rows) < 100 {
		t.Errorf("orders.csv has %d rows, %v", len(rows), err)
	}

	document := s.exampleInvoice()
	pdf := filepath.Join(s.dir, "inv.pdf")
	s.ok("dispatch", "invoice", document, "--wait", "-o", pdf)
	if raw, err := os.ReadFile(pdf); err != nil || !bytes.HasPrefix(raw, []byte("%PDF-")) {
		t.Errorf("inv.pdf: %.8q %v", raw, err)
	}

	// A second one on the same folder says so and does no harm.
	if r := s.run("up"); r.code != exitBusy {
		t.Errorf("a second up: exit %d, %s", r.code, r.err)
	}
	s.ok("export", "list")

	var r running
	raw, err = os.ReadFile(filepath.Join(s.env["FENCELINE_DATA"], runningName))
	s.must(err)
	s.must(json.Unmarshal(raw, &r))
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 401, "/api/v1/exports": 401} {
		resp, err := http.Get(r.URL + path)
		s.must(err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	secret := asJSON[struct{ Secret string }](s, "token", "create", "ci").Secret
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL+"/metrics", nil)
	s.must(err)
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := http.DefaultClient.Do(req)
	s.must(err)
	defer resp.Body.Close()
	var text bytes.Buffer
	_, _ = text.ReadFrom(resp.Body)
	if !strings.Contains(text.String(), `fenceline_attempts_total{kind="report",outcome="published"} 1`) {
		t.Errorf("metrics: %d\n%.500s", resp.StatusCode, text.String())
	}

	if err := up.stop(); err != nil {
		t.Fatalf("after Ctrl-C: %v\n%s", err, up.output)
	}
	if r := s.run("export", "list"); r.code != exitFailed || !strings.Contains(r.err, "no Fenceline runs") {
		t.Errorf("after the stop: %+v", r)
	}
	s.start("up").says("Stop with Ctrl-C")
	if out := s.ok("export", "list"); !strings.Contains(out, "Orders: from 2026-01-01") {
		t.Errorf("after a new start the export is gone:\n%s", out)
	}
}

// kill -9 of everything in the middle of a job: the next start takes over, the
// job is done, and a sweep leaves no orphan.
func TestUpIsKilled(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	s.env["FILES_DIR"] = filepath.Join(s.dir, "files")
	s.report("slow", slowReport)
	up := s.start("up")
	up.says("Stop with Ctrl-C")
	job := asJSON[jobAnswer](s, "dispatch", "report", "slow", "--param", "rows=30").Job.ID.String()
	waiting := asJSON[jobAnswer](s, "dispatch", "report", "slow", "--param", "rows=1", "--delay", "1s").Job.ID.String()
	until(t, "it writes", func() bool { return len(s.find(".partial")) == 1 })
	s.must(up.Process.Signal(syscall.SIGKILL))
	<-up.exited

	again := s.start("up")
	again.says("Stop with Ctrl-C")
	for _, id := range []string{job, waiting} {
		until(t, "the job is done", func() bool { return asJSON[jobAnswer](s, "job", "show", id).Job.State == storage.JobDone })
	}
	got := asJSON[jobAnswer](s, "job", "show", job)
	if got.Job.Crashes != 1 || got.Job.Failures != 0 || len(got.Attempts) != 2 {
		t.Errorf("the job: %+v", got.Job)
	}
	s.ok("sweep", "--sweep-grace", "0s", "--sweep-quarantine", "0s")
	if left := s.find(".partial"); len(left) != 0 {
		t.Errorf("orphans are left: %v", left)
	}
	if left := s.find("1-slow.csv"); len(left) != 2 {
		t.Errorf("files are %v, want the two published ones", left)
	}
}

// Ctrl-C in the middle of a job hands it back; the next start goes on.
func TestUpIsStoppedInTheMiddle(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	s.env["FILES_DIR"] = filepath.Join(s.dir, "files")
	s.env["FENCELINE_GRACE"] = "0s"
	s.report("slow", slowReport)
	up := s.start("up")
	up.says("Stop with Ctrl-C")
	job := asJSON[jobAnswer](s, "dispatch", "report", "slow", "--param", "rows=30").Job.ID.String()
	until(t, "it writes", func() bool { return len(s.find(".partial")) == 1 })
	if err := up.stop(); err != nil {
		t.Fatalf("after Ctrl-C: %v\n%s", err, up.output)
	}
	s.start("up").says("Stop with Ctrl-C")
	until(t, "the job is done", func() bool { return asJSON[jobAnswer](s, "job", "show", job).Job.State == storage.JobDone })
	got := asJSON[jobAnswer](s, "job", "show", job)
	if got.Job.Crashes != 0 || got.Job.Failures != 0 || len(got.Attempts) != 2 {
		t.Errorf("the job: %+v, %d attempts", got.Job, len(got.Attempts))
	}
}

// With servers configured `up` starts none, and keeps their secrets to itself.
func TestUpWithConfiguredServers(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.env["FENCELINE_ADDR"] = "127.0.0.1:0"
	said := s.start("up").says("Stop with Ctrl-C")
	if strings.Contains(said, "rivate") {
		t.Errorf("private servers were started:\n%s", said)
	}
	raw, err := os.ReadFile(filepath.Join(s.env["FENCELINE_DATA"], runningName))
	s.must(err)
	for _, secret := range []string{s.env["DATABASE_URL"], s.env["REDIS_URL"]} {
		if strings.Contains(string(raw), secret) || strings.Contains(said, secret) {
			t.Error("a configured secret was written down")
		}
	}
	if job := asJSON[jobAnswer](s, "dispatch", "invoice", s.exampleInvoice(), "--wait"); job.Job.State != storage.JobDone {
		t.Errorf("the job is %s", job.Job.State)
	}
	if out := s.ok("health"); out != "ok\n" {
		t.Errorf("health: %q", out)
	}
	redisURL := s.env["REDIS_URL"]
	s.env["REDIS_URL"] = "redis://127.0.0.1:1/0"
	if r := s.run("health"); r.code != exitFailed {
		t.Errorf("health without Redis: %+v", r)
	}
	s.env["REDIS_URL"] = redisURL
	delete(s.env, "DATABASE_URL")
	if r := s.run("job", "list"); r.code != exitFailed || !strings.Contains(r.err, "set DATABASE_URL") {
		t.Errorf("without DATABASE_URL: %+v", r)
	}
}

func (s *site) exampleInvoice() string {
	s.t.Helper()
	path := filepath.Join(s.dir, "invoice.json")
	s.must(os.WriteFile(path, []byte(s.ok("dispatch", "example-invoice")), 0o600))
	return path
}

// A part that starts before its servers waits for them; a command does not.
func TestAWorkerWaitsForItsServers(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	late := redistest.Server(t)
	late.Kill()
	s.env["REDIS_URL"] = late.URL()
	worker := s.start("work")
	worker.says("waiting for a server")
	if r := s.run("health"); r.code != exitFailed {
		t.Errorf("health: %+v", r)
	}
	late.Restart(t)
	worker.says("worker started")
	s.env["DATABASE_URL"] = strings.Replace(s.env["DATABASE_URL"], "postgres://fenceline:", "postgres://fenceline:not", 1)
	wrong := s.start("work")
	until(t, "a wrong password ends it at once", func() bool {
		select {
		case <-wrong.exited:
			return true
		default:
			return false
		}
	})
}

// Asked to restart, `up` goes on with a fresh worker: nobody else would start it.
func TestUpGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	up := s.start("up", "--demo")
	up.says("Stop with Ctrl-C")
	until(t, "its worker is known", func() bool { return len(asJSON[[]listedWorker](s, "worker", "list")) == 1 })
	first := asJSON[[]listedWorker](s, "worker", "list")[0]
	s.ok("queue", "restart")
	up.says("starting a fresh worker")
	s.ok("dispatch", "report", "stock", "--wait")
	for _, one := range asJSON[[]listedWorker](s, "worker", "list") {
		if one.ID == first.ID && one.StoppedAt == nil {
			t.Errorf("the first worker goes on: %+v", one)
		}
	}
	s.must(up.stop())
}
