package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage/files/s3test"
)

// Beside a running `up`, flags and variables win over what it uses, which wins over what nobody said.
func TestFlagsWinOverARunningUp(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	mine := filepath.Join(s.dir, "mine")
	s.report("one", "SELECT 1 AS id ORDER BY 1\n")
	s.start("up", "--files", mine).says("Stop with Ctrl-C")
	s.ok("dispatch", "report", "one", "--wait")
	audit := func(code int, says string, flags ...string) {
		t.Helper()
		if r := s.run(append([]string{"sweep", "audit"}, flags...)...); r.code != code || !strings.Contains(r.out+r.err, says) {
			t.Errorf("%v: exit %d, want %d and %q\n%s%s", flags, r.code, code, says, r.out, r.err)
		}
	}
	audit(exitDone, "current      2")
	bucket := s3test.New(t).URL("other")
	audit(exitRecover, "", "--files-url", bucket)
	audit(exitRecover, "", "--files", filepath.Join(s.dir, "other"))
	s.env["FILES_URL"] = bucket
	audit(exitRecover, "")
	audit(exitDone, "current      2", "--files", mine)
	delete(s.env, "FILES_URL")
	audit(exitDone, "current      2") // what was looked at in between changed nothing
}

func TestWhatARunningUpFillsIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writeRunning(dir, running{DatabaseURL: "postgres://h/d", Files: "its", Namespace: "its", Lease: "7s"}); err != nil {
		t.Fatal(err)
	}
	base := Config{Data: dir, Files: "mine", Namespace: "mine", Lease: time.Second}
	for from, wins := range map[string]bool{fromFlag: true, fromEnv: true, fromFile: false, fromDefault: false} {
		c := base
		for _, env := range []string{"FILES_DIR", "FENCELINE_NAMESPACE", "FENCELINE_LEASE"} {
			c.settings = append(c.settings, settled{Env: env, From: from})
		}
		got, err := findServers(c)
		if err != nil {
			t.Fatal(err)
		}
		want, lease := "its", 7*time.Second
		if wins {
			want, lease = "mine", time.Second
		}
		if got.Files != want || got.Namespace != want || got.Lease != lease || got.DatabaseURL != "postgres://h/d" {
			t.Errorf("from %s: %s, %s, %s", from, got.Files, got.Namespace, got.Lease)
		}
	}
}
