package main

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

func TestUsers(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	made := asJSON[struct{ Name, Role, Password string }](s, "user", "add", "Nadia", "--role", "admin", "--generate")
	if made.Name != "Nadia" || made.Role != "admin" || len(made.Password) < 20 {
		t.Errorf("made %+v", made)
	}
	s.ok("user", "add", "Omar", "--role", "requester", "--tenant", "acme")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitRefused, "a user of this name", []string{"user", "add", "Omar"}},
		{exitUsage, "viewer, requester", []string{"user", "add", "Eve", "--role", "owner"}},
		{exitUsage, "for programs", []string{"user", "add", "token ci"}},
		{exitUsage, "--generate", []string{"user", "password", "Omar"}},
		{exitNotFound, "not found", []string{"user", "role", "Eve", "viewer"}},
		{exitRefused, "last admin", []string{"user", "role", "Nadia", "viewer"}},
		{exitRefused, "last admin", []string{"user", "disable", "Nadia"}},
		{exitRefused, "last admin", []string{"user", "remove", "Nadia", "--yes"}},
		{exitRefused, "last admin", []string{"user", "role", "Nadia", "admin", "--tenant", "acme"}},
		{exitUsage, "--yes", []string{"user", "remove", "Omar"}},
		{exitUsage, "verbs", []string{"token", "create", "x", "--verbs", "rule"}},
		{exitUsage, "expires", []string{"token", "create", "x", "--expires", "soon"}},
	} {
		if got := s.run(c.args...); got.code != c.code || !strings.Contains(got.err, c.says) {
			t.Errorf("%v: exit %d, %s", c.args, got.code, got.err)
		}
	}
	s.ok("user", "role", "Omar", "operator", "--tenant", "globex")
	s.ok("user", "disable", "Omar")
	if got := s.run("signin", "--user", "Omar"); got.code != exitRefused {
		t.Errorf("a link for a disabled user: exit %d", got.code)
	}
	list := s.ok("user", "list")
	for _, want := range []string{`Nadia +admin +all +20`, `Omar +operator +globex +– .* 20`} {
		if !regexp.MustCompile(want).MatchString(list) {
			t.Errorf("the list lacks %s:\n%s", want, list)
		}
	}
	s.ok("user", "enable", "Omar")
	s.ok("user", "remove", "Omar", "--yes")
	token := asJSON[struct{ Token storage.Token }](s, "token", "create", "ci", "--verbs", "view,request", "--tenant", "acme", "--expires", "90d")
	if token.Token.ExpiresAt == nil || len(token.Token.Verbs) != 2 {
		t.Errorf("the token is %+v", token.Token)
	}
	if out := s.ok("token", "list"); !strings.Contains(out, "view,request") {
		t.Errorf("the list of tokens has no verbs:\n%s", out)
	}
}

// The password comes over standard input of the real program, and opens the real site.
func TestAPasswordFromAPipeSignsIn(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	up := s.start("up")
	up.says("Stop with Ctrl-C")
	running, err := os.ReadFile(filepath.Join(s.env["FENCELINE_DATA"], runningName))
	s.must(err)
	base := string(regexp.MustCompile(`"url": "([^"]+)"`).FindSubmatch(running)[1])
	path, err := binary()
	s.must(err)
	const text = "correct horse battery"
	for _, c := range []struct{ typed, says string }{{"short\n", "at least 12"}, {"\n", "no line"}, {text + "\r\nmore", "added Nadia"}} {
		p := s.startChanged(func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader(c.typed) }, path, "user", "add", "Nadia", "--role", "admin", "--password-stdin")
		<-p.exited
		if out := p.output.String(); !strings.Contains(out, c.says) || strings.Contains(out, "battery") {
			t.Errorf("%q: %s", c.typed, out)
		}
	}
	jar, err := cookiejar.New(nil)
	s.must(err)
	client := http.Client{Jar: jar}
	res, err := client.PostForm(base+"/signin", url.Values{"name": {"Nadia"}, "password": {text}})
	s.must(err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Request.URL.Path != "/" {
		t.Errorf("signing in answered %d at %s", res.StatusCode, res.Request.URL)
	}
	link := strings.TrimSpace(s.ok("signin", "--user", "Nadia"))
	page, err := http.Get(link)
	s.must(err)
	defer page.Body.Close()
	if page.StatusCode != http.StatusOK {
		t.Errorf("the link of a user answered %d", page.StatusCode)
	}
}
