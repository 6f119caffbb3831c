package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// configured writes a file and loads the configuration with it.
func configured(t *testing.T, text string, env map[string]string, args ...string) (Config, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	addFlags(flags)
	if err := flags.Parse(append(args, "--config", path)); err != nil {
		t.Fatal(err)
	}
	c, err := loadConfig(flags, func(name string) string { return env[name] })
	return c, path, err
}

func TestFlagBeforeEnvironmentBeforeFile(t *testing.T) {
	t.Parallel()
	file := "# ours\naddr: 127.0.0.1:1\nconcurrency: 3\nlease: 20s\nsweep-every: 0\nqueues: {default: 3, slow: 1}\ninvoice-fonts: [a.ttf, b.ttf]\n" +
		"namespace: \"\"\ndatabase_url: postgres://file\nfenceline_keys: [k2:x, k1:y]\n"
	c, path, err := configured(t, file, map[string]string{"FENCELINE_CONCURRENCY": "4", "FENCELINE_LEASE": "21s", "DATABASE_URL": "postgres://env", "FENCELINE_ADDR": ""}, "--lease", "22s")
	if err != nil {
		t.Fatal(err)
	}
	if c.Addr != "127.0.0.1:1" || c.Concurrency != 4 || c.Lease != 22*time.Second || c.SweepEvery != 0 || c.Namespace != "fenceline" ||
		c.DatabaseURL != "postgres://env" || c.Keys != "k2:x,k1:y" || fmt.Sprint(c.Queues, c.InvoiceFonts) != "map[default:3 slow:1] [a.ttf b.ttf]" {
		t.Errorf("%+v", c)
	}
	from := map[string]string{}
	for _, s := range c.settings {
		from[s.Name] = s.From + " " + s.Where
	}
	for name, want := range map[string]string{
		"addr": "file " + path + ":2", "concurrency": "environment FENCELINE_CONCURRENCY", "lease": "flag --lease", "database_url": "environment DATABASE_URL",
		"grace": "default ", "namespace": "default ", "config": "flag --config", "queues": "file " + path + ":6",
	} {
		if from[name] != want {
			t.Errorf("%s comes from %q, want %q", name, from[name], want)
		}
	}
	for _, empty := range []string{"", "# nothing\n", "---\n", "{}"} {
		if c, _, err := configured(t, empty, nil); err != nil || c.Concurrency != 8 {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

func TestConfigurationFileIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"addr: x\nconcurency: 3":         `f.yml:2: "concurency" is not a setting; did you mean concurrency?`,
		"DATABASE_URL: x":                "did you mean database_url?",
		"lease-url: none":                "did you mean lease_url?",
		"FENCELINE_LEASE: 1s":            "did you mean lease?",
		"# a\naddr: x\n\naddr: y":        `f.yml:4: "addr" is set twice, first in line 2`,
		"concurrency: \"3\"":             `f.yml:1: "concurrency" must be a whole number`,
		"concurrency: 3.5":               "must be a whole number",
		"concurrency: [3]":               "must be a whole number",
		"addr: 8080":                     `"addr" must be a text; put it in quotes`,
		"addr: yes":                      "",
		"addr: true":                     "must be a text",
		"addr:":                          "must be a text",
		"addr: {a: b}":                   "must be a text",
		"files: [a]":                     "must be a text",
		"queues: {default: many}":        "must be a text such as default=3,slow=1",
		"queues: {a b: 1}":               "must be names with weights",
		"queues: a=1,a=2":                "names a twice",
		"queues: [1]":                    "must be a text such as",
		"a: &x 1\naddr: *x":              "must be a text",
		"config: other.yml":              "cannot be set in the file itself",
		"- addr":                         "must be settings",
		"addr":                           "must be settings",
		"addr: [":                        "is not YAML: line 1",
		"addr: a\n---\naddr: b":          "one YAML document",
		"\n\nlease: soon":                `f.yml:3: lease: "soon" must be a duration`,
		"concurrency: 0":                 `f.yml:1: concurrency: "0" must be a number from 1`,
		"? [a]\n: b":                     "is not a setting",
		"database_url: [hunter2-secret]": `"database_url" must be a text`,
		"addr: " + strings.Repeat("x", maxConfig+1): "has more than",
	} {
		_, _, err := configured(t, text, nil)
		switch {
		case want == "" && err != nil:
			t.Errorf("%.40q: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.40q: %v, want %q", text, err, want)
		case err != nil && (strings.Contains(err.Error(), "hunter2") || exitCode(err) != exitUsage):
			t.Errorf("%.40q: exit %d, %v", text, exitCode(err), err)
		}
	}
}

func TestConfigCommand(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	path := filepath.Join(s.dir, "prod.yml")
	s.must(os.WriteFile(path, []byte("redis_url: redis://:hunter2@host\nconcurrency: 5\n"), 0o644)) //nolint:gosec // others can read it: that is the point
	s.env["FENCELINE_CONFIG"] = path
	s.env["DATABASE_URL"] = "postgres://user:hunter3@host/db"
	for _, args := range [][]string{{"config"}, {"config", "--json"}} {
		r := s.run(args...)
		if r.code != 0 || strings.Contains(r.out+r.err, "hunter") || !strings.Contains(r.out, "•••") || !strings.Contains(r.out, path+":2") {
			t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
		}
		if !strings.Contains(r.err, "redis_url is a secret, and other users can read the file: chmod 600") {
			t.Errorf("no warning: %s", r.err)
		}
	}
	list := asJSON[[]settled](s, "config")
	if len(list) != len(settings) {
		t.Errorf("%d settings, there are %d", len(list), len(settings))
	}
	s.must(os.Chmod(path, 0o600))
	if r := s.run("config", "--concurrency", "6"); r.err != "" || !strings.Contains(r.out, "flag") {
		t.Errorf("%s%s", r.out, r.err)
	}
	s.env["FENCELINE_CONFIG"] = filepath.Join(s.dir, "none.yml")
	if r := s.run("config"); r.code != exitNotFound || !strings.Contains(r.err, "FENCELINE_CONFIG") {
		t.Errorf("a file that is not there: exit %d, %s", r.code, r.err)
	}
}

// The default file is read where it lies, when it is ours.
func TestDefaultConfigurationFile(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	path := filepath.Join(s.dir, "fenceline.yml")
	s.must(os.WriteFile(path, []byte("concurrency: 5\n"), 0o600))
	p := s.start("config")
	<-p.exited
	if p.err != nil || !strings.Contains(p.output.String(), "file ./fenceline.yml:1") {
		t.Errorf("%v: %s", p.err, p.output)
	}
	s.must(os.Chmod(path, 0o666)) //nolint:gosec // that is the point
	for _, others := range []func() error{func() error { return nil }, func() error {
		return errors.Join(os.Chmod(path, 0o644), os.Chown(path, 65534, -1))
	}} {
		s.must(others())
		p = s.start("config")
		<-p.exited
		if p.ProcessState.ExitCode() != exitRefused || !strings.Contains(p.output.String(), "--config ./fenceline.yml") {
			t.Errorf("of somebody else: %v: %s", p.err, p.output)
		}
	}
	p = s.start("config", "--config", "./fenceline.yml")
	<-p.exited
	if p.err != nil {
		t.Errorf("named: %s", p.output)
	}
}

// A password in a URL that is no secret would show in `fenceline config` and in links.
func TestURLsHoldNoPassword(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"FENCELINE_URL", "PUBLIC_URL"} {
		for text, says := range map[string]string{
			"https://ann:hunter2@x.example": env + ": must not hold a name or password", "https://hunter2@x.example": env + ": must not hold a name or password",
			"ann:hunter2@x.example": env + ": must be an http or https URL", "https://ann:hunter2%zz@x.example": env + ": must be an http or https URL",
			"x.example": env + `: "x.example" must be an http or https URL`,
		} {
			_, _, err := configured(t, "", map[string]string{env: text})
			if err == nil || err.Error() != says {
				t.Errorf("%s=%s: %v, want %s", env, text, err, says)
			}
		}
	}
}

// Every flag of a setting shows a text as its value, whatever its help quotes.
func TestHelpOfSettings(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	addFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if value, _ := pflag.UnquoteUsage(f); value != "string" {
			t.Errorf("--%s takes %q", f.Name, value)
		}
	})
}

// What is configured half of single sign-on is said at once, and no secret with it.
func TestProviderIsConfiguredWhole(t *testing.T) {
	t.Parallel()
	whole := map[string]string{"PUBLIC_URL": "https://exports.example.com", "OIDC_ISSUER": "https://id.example.com", "OIDC_CLIENT_ID": "fenceline",
		"OIDC_CLIENT_SECRET": "hunter2-hunter2-hunter2", "OIDC_ROLE_CLAIM": "groups", "OIDC_ROLES": "staff=viewer,heads=admin"}
	c, _, err := configured(t, "", whole)
	if err != nil || c.Provider == nil || c.Provider.Roles["heads"] != "admin" || c.Provider.Name != "single sign-on" {
		t.Fatalf("%+v, %v", c.Provider, err)
	}
	for missing, want := range map[string]string{
		"PUBLIC_URL": "PUBLIC_URL", "OIDC_ISSUER": "OIDC_CLIENT_ID", "OIDC_CLIENT_ID": "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET": "OIDC_CLIENT_SECRET",
		"OIDC_ROLE_CLAIM": "OIDC_ROLES", "OIDC_ROLES": "OIDC_ROLES",
	} {
		half := maps.Clone(whole)
		delete(half, missing)
		_, _, err := configured(t, "", half)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || exitCode(err) != exitUsage {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}
