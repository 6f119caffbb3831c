package main

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

var update = flag.Bool("update", false, "write the settings table into the README")

// The configuration table of the README is the table in config.go.
func TestREADMESettings(t *testing.T) {
	t.Parallel()
	const path = "../../README.md"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(raw), "-run TestREADMESettings -update` -->\n")
	_, tail, ok2 := strings.Cut(rest, "<!-- /settings -->")
	if !ok1 || !ok2 {
		t.Fatal("the README has no place for the settings")
	}
	want := head + "-run TestREADMESettings -update` -->\n" + settingsTable() + "<!-- /settings -->" + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(raw) {
		t.Error("the settings in the README are not those of config.go; run this test with -update")
	}
}

func settingsTable() string {
	var b strings.Builder
	b.WriteString("| variable | flag | in the file | default | what it is |\n|---|---|---|---|---|\n")
	for _, s := range settings {
		flag, key, def := "–", "`"+s.key()+"`", "`"+s.def+"`"
		if s.env == "FENCELINE_CONFIG" { // it would name another file
			key = "–"
		}
		if s.name != "" {
			flag = "`--" + s.name + "`"
		}
		if s.def == "" {
			def = "–"
			if s.example != "" {
				def = "such as `" + s.example + "`"
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.env, flag, key, def, s.help)
	}
	return b.String()
}

// Every command of the README runs as it stands, in its order, in one folder.
func TestREADMECommands(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newPrivateSite(t)
	s.start("up", "--demo").says("Stop with Ctrl-C")
	path, err := binary()
	s.must(err)
	var script strings.Builder
	script.WriteString("set -eu\n")
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		for line := range strings.SplitSeq(block[1], "\n") {
			if strings.HasPrefix(line, "make ") { // `make test` runs this; what `make demo` runs is above
				checkTarget(t, strings.Fields(line)[1])
				continue
			}
			fmt.Fprintln(&script, line)
		}
	}
	r, err := os.ReadFile(filepath.Join(s.env["FENCELINE_DATA"], runningName))
	s.must(err)
	url := regexp.MustCompile(`"url": "([^"]+)"`).FindSubmatch(r)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script.String())
	cmd.Dir = s.dir
	// FENCELINE_URL is only for curl: the README's commands find the servers by their folder.
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"), "FENCELINE_DATA="+s.env["FENCELINE_DATA"], "REPORTS_DIR="+s.env["REPORTS_DIR"])
	text := strings.ReplaceAll(script.String(), "$FENCELINE_URL", string(url[1]))
	cmd.Args[2] = text
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\nin\n%s", err, out, text)
	}
	for _, want := range []string{"saved to orders.csv", "saved to inv.pdf", "saved to late-orders.xlsx", "sales-by-month", `"state": "queued"`, "saved schedule monday", "Held: worker A was frozen", "Overwritten, as expected without a fence", ", 0 dangers", "0 migrations", "jobs again with key k2", "seals new values"} {
		if !strings.Contains(strings.ReplaceAll(string(out), `"state":"queued"`, `"state": "queued"`), want) {
			t.Errorf("no %q in the output\n%s", want, out)
		}
	}
}

func checkTarget(t *testing.T, target string) {
	t.Helper()
	raw, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(raw) {
		t.Errorf("the README names `make %s`, the Makefile has no such target", target)
	}
}

// Over the API the same command gives the same file and the same exit codes.
func TestDispatchOverTheAPI(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	s.start("up", "--demo").says("Stop with Ctrl-C")
	secret := asJSON[struct{ Secret string }](s, "token", "create", "remote")
	r, err := os.ReadFile(filepath.Join(s.env["FENCELINE_DATA"], runningName))
	s.must(err)
	far := &site{t: t, dir: t.TempDir(), env: map[string]string{
		"FENCELINE_URL": string(regexp.MustCompile(`"url": "([^"]+)"`).FindSubmatch(r)[1]), "FENCELINE_TOKEN": secret.Secret, "FENCELINE_DATA": t.TempDir(),
	}}
	near, remote := filepath.Join(s.dir, "near.csv"), filepath.Join(far.dir, "far.csv")
	s.ok("dispatch", "report", "stock", "-o", near)
	far.ok("dispatch", "report", "stock", "-o", remote)
	a, err := os.ReadFile(near)
	s.must(err)
	b, err := os.ReadFile(remote)
	s.must(err)
	if string(a) != string(b) || len(a) == 0 {
		t.Error("the two files differ")
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "params.from", []string{"dispatch", "report", "orders"}},
		{exitUsage, "priority", []string{"dispatch", "report", "stock", "--priority", "101"}},
		{exitUsage, "delay", []string{"dispatch", "report", "stock", "--delay", "soon"}},
		{exitNotFound, "no such file", []string{"dispatch", "invoice", "nope.json"}},
	} {
		if got := far.run(c.args...); got.code != c.code || !strings.Contains(got.err, c.says) {
			t.Errorf("%v: exit %d, %s", c.args, got.code, got.err)
		}
	}
	far.env["FENCELINE_TOKEN"] = asJSON[struct{ Secret string }](s, "token", "create", "ours", "--tenant", "acme").Secret
	if got := asJSON[struct{ Job storage.Job }](far, "dispatch", "job", "drill", `{"seconds":1,"rows":1}`); got.Job.Tenant != "acme" {
		t.Errorf("the token of a tenant dispatched for %q", got.Job.Tenant)
	}
	if got := far.run("dispatch", "report", "stock", "--tenant", "globex"); got.code != exitRefused {
		t.Errorf("another tenant: exit %d, %s", got.code, got.err)
	}
	far.env["FENCELINE_TOKEN"] = "fl_wrong"
	if got := far.run("dispatch", "report", "stock"); got.code != exitFailed {
		t.Errorf("a wrong token: exit %d, %s", got.code, got.err)
	}
}

// A file that was cut on its way is not saved.
func TestACutDownloadIsNotSaved(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("half")) }))
	defer srv.Close()
	resp, err := http.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	to := filepath.Join(t.TempDir(), "a.csv")
	if err := (&cli{}).saveStream(resp.Body, "a.csv", strings.Repeat("0", 64), to); err == nil {
		t.Error("it was saved")
	}
	if left, _ := os.ReadDir(filepath.Dir(to)); len(left) != 0 {
		t.Errorf("something is left: %v", left)
	}
}
