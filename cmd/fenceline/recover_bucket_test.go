package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/files/s3test"
	"github.com/fenceline/fenceline/storage/localpg"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// A dump is restored while the bucket has gone on: the doctor sees it by the bucket's mark alone, and
// recovery publishes again what the dump does not know.
func TestRecoverOverABucket(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	delete(s.env, "FILES_DIR")
	s.env["FILES_URL"] = s3test.New(t).URL("site")
	s.report("one", "SELECT 1 AS id ORDER BY 1\n")
	s.report("two", "SELECT 2 AS id ORDER BY 1\n")
	s.makes("one")

	dump := filepath.Join(s.dir, "dump")
	s.pg("pg_dump", "-Fc", "-f", dump, "-d", s.env["DATABASE_URL"])
	s.makes("two")
	old := s.env["DATABASE_URL"]
	other := storagetest.Server(t, nil)
	s.must(other.EnsureDatabase(t.Context(), "restored"))
	s.env["DATABASE_URL"] = other.URL("restored")
	s.pg("pg_restore", "-d", s.env["DATABASE_URL"], dump)
	s.env["FENCELINE_NAMESPACE"] += "-restored"

	if f := s.epochFinding(); f.Grade != gradeDanger || !strings.Contains(f.Found, "recovery is needed") {
		t.Errorf("the doctor, before anything else has looked: %+v", f)
	}
	if r := s.run("sweep", "run"); r.code != exitRecover {
		t.Errorf("a clean-up: exit %d, %s", r.code, r.err)
	}
	got := asJSON[struct{ Summary storage.RecoverSummary }](s, "recover", "--adopt", "--yes")
	if !got.Summary.Done || got.Summary.Adopted != 1 || got.Summary.Lost != 0 {
		t.Errorf("recovery: %+v", got)
	}
	if f := s.epochFinding(); f.Grade == gradeDanger {
		t.Errorf("the doctor after it: %+v", f)
	}
	s.ok("verify")
	s.makes("two")
	if list := s.ok("export", "list"); strings.Count(list, "report") != 2 {
		t.Errorf("exports: %s", list)
	}
	s.env["DATABASE_URL"] = old // which learns of it
	if f := s.epochFinding(); f.Grade != gradeDanger || !strings.Contains(f.Found, "the files are of epoch") {
		t.Errorf("the doctor of the database that was given up: %+v", f)
	}
	if r := s.run("work", "--stop-when-empty"); r.code == 0 && !strings.Contains(r.err, "recovery") {
		t.Errorf("a worker of the database that was given up: exit %d, %s", r.code, r.err)
	}
}

// The mark in the bucket is all that tells a database that is older than its files.
func TestTheDoctorReadsTheMarkOfABucket(t *testing.T) {
	t.Parallel()
	p := newPatient(t, redistest.Shared(t))
	delete(p.env, "FILES_DIR")
	p.env["FILES_URL"] = s3test.New(t).URL("marked")
	store := p.store()
	id, err := store.Installation(t.Context())
	p.must(err)
	bucket, err := files.Open(t.Context(), p.env["FILES_URL"], id, store.Uploads())
	p.must(err)
	t.Cleanup(func() { _ = bucket.Close() })
	p.must(store.Pair(t.Context(), bucket))
	if f := p.epochFinding(); f.Grade == gradeDanger {
		t.Errorf("a pair: %+v", f)
	}
	m, err := bucket.ReadMark(t.Context())
	p.must(err)
	m.Beat += 5
	p.must(bucket.WriteMark(t.Context(), m))
	if f := p.epochFinding(); f.Grade != gradeDanger || !strings.Contains(f.Found, "the database is older than its files") {
		t.Errorf("files that are ahead: %+v", f)
	}
}

// makes lets a worker make a report.
func (s *site) makes(report string) {
	s.t.Helper()
	s.ok("dispatch", "report", report)
	s.ok("work", "--stop-when-empty")
	if list := s.ok("job", "list", "--state", "done"); !strings.Contains(list, "done") {
		s.t.Fatalf("%s was not made: %s", report, s.ok("job", "list"))
	}
}

func (s *site) epochFinding() finding {
	s.t.Helper()
	r := s.run("doctor", "--json")
	var d diagnosis
	s.must(json.Unmarshal([]byte(r.out), &d))
	i := slices.IndexFunc(d.Findings, func(f finding) bool { return f.Check == "schema.epoch" })
	if i < 0 {
		s.t.Fatalf("the doctor says nothing of the epoch: %s %s", r.out, r.err)
	}
	return d.Findings[i]
}

// pg runs one of PostgreSQL's programs.
func (s *site) pg(name string, args ...string) {
	s.t.Helper()
	bin, err := localpg.Find()
	s.must(err)
	if out, err := exec.CommandContext(s.t.Context(), filepath.Join(bin, name), args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}
