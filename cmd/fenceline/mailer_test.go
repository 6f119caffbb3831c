package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// The program of the README is this one, it compiles, and it does what it says.
func TestREADMEProgram(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("testdata/mailer/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\n"+string(program)+"```") {
		t.Error("the README does not hold testdata/mailer/main.go as it is")
	}
	s := newSite(t, redistest.Shared(t))
	path := filepath.Join(s.dir, "mailer")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./testdata/mailer").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), path, "once")
	cmd.Env = append(os.Environ(), "DATABASE_URL="+s.env["DATABASE_URL"], "REDIS_URL="+s.env["REDIS_URL"])
	out, err := cmd.CombinedOutput()
	id := regexp.MustCompile(`dispatched (\S+)`).FindSubmatch(out)
	if err != nil || id == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	job := s.job(uuid.MustParse(string(id[1])))
	if job.State != storage.JobDone || compactPayload(job.Result) != `{"sent_to":7}` {
		t.Errorf("the job is %s with the result %s\n%s", job.State, job.Result, out)
	}
}
