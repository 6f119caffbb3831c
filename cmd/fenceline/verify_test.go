package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// verifyAnswer is what `verify --json` prints.
type verifyAnswer struct {
	Violations []storage.Violation `json:"violations"`
	Summary    *storage.Summary    `json:"summary"`
}

// publishFile publishes an export with one file, and answers where that lies.
func (s *site) publishFile(key, text string) string {
	s.t.Helper()
	ctx := s.t.Context()
	store, err := storage.Open(ctx, s.env["DATABASE_URL"], storage.Options{})
	s.must(err)
	defer store.Close()
	id, err := store.Installation(ctx)
	s.must(err)
	local, err := files.OpenLocal(s.env["FILES_DIR"], id)
	s.must(err)
	defer local.Close()
	var job storage.Job
	s.must(store.Transaction(ctx, func(tx storage.Tx) (err error) {
		job, _, err = store.InsertJob(ctx, tx, storage.NewJob{
			Tenant: "acme", Kind: "report", Key: key, Title: key, Queue: "default", Payload: json.RawMessage(`{}`), PayloadVersion: 1,
			MaxAttempts: 1, MaxCrashes: 1, Timeout: time.Minute, RequestHash: []byte("x"),
		})
		return err
	}))
	b, err := store.BeginAttempt(ctx, job.ID, "w")
	s.must(err)
	place := files.Place{Export: job.ExportID, Token: b.Token, Attempt: b.ID}
	w, err := local.Create(ctx, place, "1-a.csv")
	s.must(err)
	defer w.Abort()
	_, err = io.WriteString(w, text)
	s.must(err)
	done, err := w.Commit()
	s.must(err)
	s.must(store.Seal(ctx, b.ID, storage.Sealed{Files: []storage.File{
		{Name: "a.csv", Object: "1-a.csv", Format: "csv", MediaType: "text/csv", Size: done.Size, SHA256: done.SHA256[:]},
	}}))
	s.must(store.Publish(ctx, b.ID))
	return filepath.Join(s.env["FILES_DIR"], place.String(), "1-a.csv")
}

// verifies runs verify as JSON, which is a whole document whatever happens.
func (s *site) verifies(code int, args ...string) verifyAnswer {
	s.t.Helper()
	r := s.run(append([]string{"verify", "--json"}, args...)...)
	var v verifyAnswer
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != code {
		s.t.Fatalf("verify --json %v: exit %d, want %d, %v\n%s%s", args, r.code, code, err, r.out, r.err)
	}
	return v
}

func TestVerifyCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	file := s.publishFile("sales", "id\n1\n")
	s.publishFile("stock", "id\n2\n")
	if out := s.ok("verify"); !strings.Contains(out, "2 exports, 2 jobs, 2 attempts, 2 files with 10 bytes (read and hashed)") || strings.Count(out, "\n") != 1 {
		t.Errorf("verify said\n%s", out)
	}
	if v := s.verifies(0); len(v.Violations) != 0 || v.Summary == nil || v.Summary.Files != 2 || !v.Summary.Hashed {
		t.Errorf("verify --json said %+v", v)
	}
	if v := s.verifies(1, "--drained"); v.Summary != nil {
		t.Errorf("drained before any clean-up: %+v", v)
	}
	s.must(os.WriteFile(filepath.Join(s.env["FILES_DIR"], "notes.txt"), nil, 0o600))
	if v := s.verifies(0); len(v.Violations) != 1 || !v.Violations[0].Warning || v.Summary.Unknown != 1 {
		t.Errorf("a stranger's file: %+v", v)
	}
	s.ok("sweep")
	if v := s.verifies(1, "--drained"); len(v.Violations) != 1 || v.Violations[0].Law != "L7" {
		t.Errorf("a stranger's file where there must be none: %+v", v)
	}
	s.must(os.Remove(filepath.Join(s.env["FILES_DIR"], "notes.txt")))
	s.verifies(0, "--drained")

	s.must(os.Chmod(file, 0o600))
	s.must(os.WriteFile(file, []byte("id\n9\n"), 0o600)) // the same size
	if out := s.ok("verify", "--sizes-only"); !strings.Contains(out, "sizes only") {
		t.Errorf("verify --sizes-only said\n%s", out)
	}
	r := s.run("verify")
	if r.code != 1 || !strings.HasPrefix(r.out, "L1 export ") || !strings.Contains(r.out, "has SHA-256") || !strings.Contains(r.err, "1 violation\n") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	s.must(os.Remove(file))
	if v := s.verifies(1); len(v.Violations) != 1 || v.Violations[0].Law != "L1" || v.Summary.Violations != 1 {
		t.Errorf("a missing file: %+v", v)
	}
}
