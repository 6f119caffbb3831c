package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/redistest"
)

func TestArtisanForm(t *testing.T) {
	t.Parallel()
	root := (&cli{getenv: func(string) string { return "" }}).root()
	for _, c := range []struct{ given, want string }{
		{"schedule:list", "schedule list"},
		{"--json job:retry x:y --kind a:b", "--json job retry x:y --kind a:b"},
		{"--addr a:1 schedule:list", "--addr a:1 schedule list"},
		{"--addr=a:1 job:show b:c", "--addr=a:1 job show b:c"},
		{"queue:work --queues a=1", "queue work --queues a=1"},
		{"queue:listen", "work"},
		{"schedule:work", "schedule work"},
		{"job show a:b", "job show a:b"},
		{"-- job:list", "-- job:list"},
		{"--addr", "--addr"},
		{"", ""},
	} {
		got, err := artisan(root, strings.Fields(c.given))
		if err != nil || !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s became %q, %v", c.given, got, err)
		}
	}
	for _, given := range []string{"job:nothing", "nothing:list", ":", "job:", ":list", "job:list:all", "version:x", "queue:nothing"} {
		if _, err := artisan(root, []string{given}); exitCode(err) != exitUsage || !strings.Contains(err.Error(), given) {
			t.Errorf("%s: %v", given, err)
		}
	}
	if _, err := artisan(root, []string{"job:lits"}); !strings.Contains(err.Error(), `did you mean job:list?`) || !strings.Contains(err.Error(), "fenceline job --help") {
		t.Error(err)
	}
	s := newSite(t, redistest.Shared(t))
	if out := s.ok("job:list"); !strings.HasPrefix(out, "JOB") {
		t.Error(out)
	}
	if r := s.run("jobs:list"); r.code != exitUsage || !strings.Contains(r.err, "jobs:list") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
}
