package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// totals are those of the plan.
func (s *site) totals(args ...string) storage.SweepTotals {
	s.t.Helper()
	lines := strings.Split(strings.TrimSpace(s.ok(append([]string{"sweep", "plan", "--json"}, args...)...)), "\n")
	var last struct{ Totals storage.SweepTotals }
	s.must(json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	return last.Totals
}

// The plan and the run tell the same numbers of attempts, and where a removal fails the run tells the difference and ends with an error.
func TestThePlanAndTheRunTellTheSameNumbers(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"all goes well": false, "one removal fails": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, redistest.Shared(t))
			s.report("one", "SELECT 1 AS id ORDER BY 1\n")
			for range 3 {
				s.makes("one")
			}
			s.silent(2)
			args := []string{"--sweep-superseded", "0s", "--sweep-quarantine", "1h"}
			told := s.totals(args...)
			if told.Items != 4 || told.Delete != 2 || told.Bytes == 0 {
				t.Fatalf("planned %+v, want two deletions and two verdicts", told)
			}
			mend := func() {}
			if fails {
				mend = s.stuck()
			}
			r := s.run(append([]string{"sweep", "run", "--json"}, args...)...)
			var did storage.SweepResult
			s.must(json.NewDecoder(strings.NewReader(r.out)).Decode(&did))
			if did.Planned != int(told.Items) || did.Condemned != 2 || did.Deleted+did.Failed != int(told.Delete) || did.Skipped != 0 {
				t.Errorf("planned %+v, done %+v", told, did)
			}
			if !fails {
				if r.code != 0 || did.Failed != 0 || did.Bytes < told.Bytes { // with its manifests, which the plan does not count
					t.Errorf("exit %d, planned %+v, done %+v", r.code, told, did)
				}
				return
			}
			if r.code != exitPartly || did.Failed != 1 || len(did.Errors) != 1 || did.Bytes == 0 || !strings.Contains(r.err, "1 item failed") {
				t.Errorf("exit %d, planned %+v, done %+v\n%s", r.code, told, did, r.err)
			}
			mend()
			if left := s.totals(args...); left.Delete != 1 || left.Bytes != told.Bytes/2 {
				t.Errorf("left %+v of %+v after %+v", left, told, did)
			}
			s.ok(append([]string{"sweep", "run"}, args...)...)
		})
	}
}

// stuck puts a link to elsewhere where the folder of a replaced publication is: not even root removes what is behind it.
func (s *site) stuck() (mend func()) {
	s.t.Helper()
	var place string
	s.query(&place, "SELECT export_id || '/*' || id FROM fenceline.attempts WHERE state = 'superseded' ORDER BY token LIMIT 1")
	found, err := filepath.Glob(filepath.Join(s.dir, "files", place))
	s.must(err)
	if len(found) != 1 {
		s.t.Fatalf("%s is %q", place, found)
	}
	away := filepath.Join(s.t.TempDir(), "away")
	s.must(os.Rename(found[0], away))
	s.must(os.Symlink(away, found[0]))
	return func() {
		s.must(os.Remove(found[0]))
		s.must(os.Rename(away, found[0]))
	}
}
