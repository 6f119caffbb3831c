package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/fenceline/fenceline/jobs/redistest"
)

func deployed(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Every alert asks for metrics that the program really has.
func TestAlertsNameMetrics(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.ok("sweep", "run") // there is a last run to tell of
	conf, err := findServers(Config{DatabaseURL: s.env["DATABASE_URL"], RedisURL: s.env["REDIS_URL"], Files: s.env["FILES_DIR"], Concurrency: 1})
	s.must(err)
	a, err := openApp(t.Context(), conf, slog.New(slog.NewTextHandler(io.Discard, nil)), extras{}, false)
	s.must(err)
	t.Cleanup(a.close)
	families, err := a.metrics.Gather()
	s.must(err)
	var known []string
	for _, f := range families {
		known = append(known, f.GetName())
	}

	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decode := yaml.NewDecoder(strings.NewReader(deployed(t, "alerts.yml")))
	decode.KnownFields(true)
	s.must(decode.Decode(&rules))
	metric, alerts := regexp.MustCompile(`fenceline_\w+`), 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			alerts++
			names := metric.FindAllString(r.Expr, -1)
			if len(names) == 0 || r.Alert == "" || r.For == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("alert %q is not complete: %+v", r.Alert, r)
			}
			for _, name := range names {
				if !slices.Contains(known, name) {
					t.Errorf("alert %s asks for %s, which is not exposed; there are %q", r.Alert, name, known)
				}
			}
			if strings.Count(r.Expr, "(") != strings.Count(r.Expr, ")") {
				t.Errorf("alert %s: %s", r.Alert, r.Expr)
			}
		}
	}
	if alerts < 5 {
		t.Errorf("only %d alerts were read", alerts)
	}
}

// known fails unless the command line takes the arguments.
func known(t *testing.T, args []string) {
	t.Helper()
	c := &cli{getenv: func(string) string { return "" }, out: io.Discard, err: io.Discard}
	cmd, rest, err := c.root().Find(args)
	if err != nil || !cmd.Runnable() || !cmd.HasParent() {
		t.Errorf("%q is no command: %v", args, err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", args, err)
	} else if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		t.Errorf("%q: %v", args, err)
	}
}

func TestCronExamplesAreCommands(t *testing.T) {
	t.Parallel()
	var lines int
	for line := range strings.Lines(deployed(t, "crontab")) {
		if !regexp.MustCompile(`^[*\d]`).MatchString(line) {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 7 || fields[5] != "fenceline" {
			t.Errorf("no crontab line with a user: %s", line)
		}
		for _, call := range regexp.MustCompile(`\bfenceline (sweep [^>|}&]*)`).FindAllStringSubmatch(line, -1) {
			lines++
			known(t, strings.Fields(call[1]))
		}
	}
	if lines != 2 {
		t.Errorf("%d commands were found in the crontab, want 2", lines)
	}

	decode, found := yaml.NewDecoder(strings.NewReader(deployed(t, "cronjob.yaml"))), 0
	for {
		var doc struct {
			Kind string
			Spec struct {
				Schedule, ConcurrencyPolicy string
				JobTemplate                 struct {
					Spec struct {
						Template struct {
							Spec struct{ Containers []struct{ Args []string } }
						}
					}
				} `yaml:"jobTemplate"`
			}
		}
		err := decode.Decode(&doc)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		containers := doc.Spec.JobTemplate.Spec.Template.Spec.Containers
		if doc.Kind != "CronJob" || len(strings.Fields(doc.Spec.Schedule)) != 5 || len(containers) != 1 {
			t.Errorf("no CronJob: %+v", doc)
		}
		for _, c := range containers {
			found++
			known(t, c.Args)
		}
	}
	if found != 2 {
		t.Errorf("%d CronJobs were found, want 2", found)
	}
}

// Workers get no more rights than leases need, and the three objects name each other.
func TestRightsOfLeases(t *testing.T) {
	t.Parallel()
	type named struct{ Kind, Name, Namespace string }
	type object struct {
		Kind     string
		Metadata named
		Rules    []map[string][]string
		RoleRef  named `yaml:"roleRef"`
		Subjects []named
	}
	decode, found := yaml.NewDecoder(strings.NewReader(deployed(t, "kubernetes-leases.yaml"))), map[string]object{}
	for {
		var o object
		err := decode.Decode(&o)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if found[o.Kind] = o; o.Metadata.Namespace != "fenceline" {
			t.Errorf("the %s is in namespace %q", o.Kind, o.Metadata.Namespace)
		}
	}
	role, account, binding := found["Role"], found["ServiceAccount"], found["RoleBinding"]
	if want := "[map[apiGroups:[coordination.k8s.io] resources:[leases] verbs:[get create update]]]"; len(found) != 3 || fmt.Sprint(role.Rules) != want {
		t.Errorf("%d objects, the rules are %v; want %s", len(found), role.Rules, want)
	}
	if r := binding.RoleRef; r.Kind != "Role" || r.Name != role.Metadata.Name {
		t.Errorf("the role %q is bound as %+v", role.Metadata.Name, r)
	}
	if want := fmt.Sprint([]named{{"ServiceAccount", account.Metadata.Name, "fenceline"}}); fmt.Sprint(binding.Subjects) != want {
		t.Errorf("bound to %v, want %s", binding.Subjects, want)
	}
}
