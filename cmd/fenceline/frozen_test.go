package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// slowReport writes a megabyte every second, so that a worker can be stopped in
// the middle of a file; its rows tell which snapshot they come from.
const slowReport = `-- title: Slow
-- param: rows integer default 60
SELECT i AS id, repeat('x', 100000) AS filler, pg_sleep(0.1)::text AS waited, txid_current_snapshot()::text AS snapshot
FROM generate_series(1, :rows) AS i ORDER BY i
`

type jobAnswer struct {
	Job      storage.Job       `json:"job"`
	Attempts []storage.Attempt `json:"attempts"`
}

type exportAnswer struct {
	Export   storage.Export    `json:"export"`
	Files    []storage.File    `json:"files"`
	Attempts []storage.Attempt `json:"attempts"`
}

// The story that Fenceline is for, with real processes: worker A takes the
// lease, writes its first bytes and freezes; the lease ends; worker B publishes;
// A goes on as if nothing had happened.
func TestTheFrozenWorker(t *testing.T) {
	t.Parallel()
	for name, backend := range map[string]string{"with a lease": "redis", "with a leaser that always says yes": "none"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, redistest.Shared(t))
			s.env["LEASE_URL"] = backend
			s.report("slow", slowReport)
			a := s.start("work")
			a.says("worker started")
			job := asJSON[jobAnswer](s, "dispatch", "report", "slow").Job.ID.String()
			until(t, "A has written its first bytes", func() bool { return len(s.find(".partial")) == 1 })
			s.must(a.Process.Signal(syscall.SIGSTOP))

			b := s.start("work")
			b.says("job handed on")
			until(t, "B has published", func() bool { return asJSON[jobAnswer](s, "job", "show", job).Job.State == storage.JobDone })
			before := asJSON[exportAnswer](s, "export", "show", asJSON[jobAnswer](s, "job", "show", job).Job.ExportID.String())
			sum := s.hashOfCurrent(before)

			s.must(a.Process.Signal(syscall.SIGCONT))
			until(t, "A was fenced", func() bool {
				for _, at := range asJSON[jobAnswer](s, "job", "show", job).Attempts {
					if at.Number == 1 {
						return at.State == storage.AttemptFenced
					}
				}
				return false
			})

			after := asJSON[exportAnswer](s, "export", "show", before.Export.ID.String())
			if after.Export.LastToken != before.Export.LastToken || *after.Export.AttemptID != *before.Export.AttemptID {
				t.Error("the pointer moved")
			}
			if got := s.hashOfCurrent(after); got != sum || got != after.Files[0].SHA256.String() {
				t.Error("the bytes behind the pointer changed")
			}
			got := asJSON[jobAnswer](s, "job", "show", job)
			if got.Job.State != storage.JobDone || got.Job.Crashes != 1 || got.Job.Failures != 0 || len(got.Attempts) != 2 {
				t.Errorf("the job: %+v", got.Job)
			}
			s.ok("sweep", "--sweep-quarantine", "0s")
			for _, at := range asJSON[jobAnswer](s, "job", "show", job).Attempts {
				_, err := os.Stat(s.place(at))
				if want := at.State == storage.AttemptPublished; (err == nil) != want {
					t.Errorf("after the sweep the files of token %d (%s) are there: %t", at.Token, at.State, err == nil)
				}
			}
			if got := s.hashOfCurrent(after); got != sum {
				t.Error("the sweep changed the current file")
			}
		})
	}
}

func (s *site) place(a storage.Attempt) string {
	return filepath.Join(s.env["FILES_DIR"], a.ExportID.String(), itoa(a.Token)+"-"+a.ID.String())
}

func (s *site) hashOfCurrent(e exportAnswer) string {
	s.t.Helper()
	raw, err := os.ReadFile(s.currentPath(e))
	s.must(err)
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// currentPath is where the current file of an export lies.
func (s *site) currentPath(e exportAnswer) string {
	s.t.Helper()
	for _, a := range e.Attempts {
		if a.ID == *e.Export.AttemptID {
			list, err := filepath.Glob(s.place(a) + "/1-*")
			if err != nil || len(list) != 1 {
				s.t.Fatalf("%s holds %v, %v", s.place(a), list, err)
			}
			return list[0]
		}
	}
	s.t.Fatal("the export has no current attempt")
	return ""
}

// find lists the files whose names end like this and that hold something.
func (s *site) find(ending string) (found []string) {
	_ = filepath.Walk(s.env["FILES_DIR"], func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && strings.HasSuffix(path, ending) && info.Size() > 0 {
			found = append(found, path)
		}
		return nil
	})
	return found
}
