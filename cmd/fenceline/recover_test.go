package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// A folder that is started again never asks for recovery, however it ended; one whose files are ahead does.
func TestRecoverOfAPrivateFolder(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	up := s.start("up", "--demo")
	up.says("Stop with Ctrl-C")
	s.ok("dispatch", "report", "stock", "--wait", "-o", filepath.Join(s.dir, "a.csv"))
	s.must(up.Process.Kill())
	<-up.exited
	up = s.start("up")
	up.says("Stop with Ctrl-C")
	if said := s.ok("recover"); !strings.Contains(said, "nothing to recover") {
		t.Errorf("after a crash: %s", said)
	}
	s.must(up.stop())

	marks, err := filepath.Glob(filepath.Join(s.env["FENCELINE_DATA"], "*", "FENCELINE.json"))
	if err != nil || len(marks) != 1 {
		t.Fatalf("marks: %q %v", marks, err)
	}
	raw, err := os.ReadFile(marks[0])
	s.must(err)
	var m files.Mark
	s.must(json.Unmarshal(raw, &m))
	m.Beat += 3
	raw, err = json.Marshal(m)
	s.must(err)
	s.must(os.WriteFile(marks[0], raw, 0o600))

	up = s.start("up")
	up.says("Stop with Ctrl-C")
	if r := s.run("sweep", "run"); r.code != exitRecover || !strings.Contains(r.err, "older than its files") || r.out != "" || strings.Count(r.err, "older than its files") != 1 {
		t.Errorf("sweep: exit %d, %s", r.code, r.err)
	}
	if r := s.run("doctor"); !strings.Contains(r.out, "recovery is needed") {
		t.Errorf("doctor: %s", r.out)
	}
	if r := s.run("recover"); r.code != exitUsage || !strings.Contains(r.err, "A new epoch begins") {
		t.Errorf("recover without --yes: exit %d, %s", r.code, r.err)
	}
	if said := s.ok("recover", "--dry-run"); !strings.Contains(said, "nothing was changed") {
		t.Errorf("dry run: %s", said)
	}
	got := asJSON[struct {
		Findings []storage.RecoverFinding
		Summary  storage.RecoverSummary
	}](s, "recover", "--yes")
	if !got.Summary.Done || got.Summary.Number != m.Number+1 || got.Summary.Pointers != 1 || len(got.Findings) != 0 {
		t.Errorf("%+v", got)
	}
	s.ok("dispatch", "report", "stock", "--wait", "-o", filepath.Join(s.dir, "b.csv"))
	if r := s.run("sweep", "run"); r.code != exitBusy || !strings.Contains(r.err, "so soon after a recovery") {
		t.Errorf("sweep after: exit %d, %s", r.code, r.err)
	}
	s.ok("verify")
}

// Whoever may not begin tells nothing but that.
func TestRecoverBesideAnotherTellsOnlyThat(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.ok("sweep", "status")
	conn, err := pgx.Connect(t.Context(), s.env["DATABASE_URL"])
	s.must(err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "SELECT pg_advisory_lock(x'46454e4300000002'::bigint)") // that of a clean-up
	s.must(err)
	for _, flags := range [][]string{{"--yes"}, {"--dry-run"}, {"--adopt", "--yes"}, {"--yes", "--json"}} {
		if r := s.run(append([]string{"recover"}, flags...)...); r.code != exitBusy || r.out != "" || !strings.Contains(r.err, "another run is in progress") {
			t.Errorf("recover %q: %+v", flags, r)
		}
	}
}
