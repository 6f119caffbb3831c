package protocol

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var modelAttempts = flag.Int("model.attempts", 2, "how many attempts the model has; 3 takes minutes and more than a gigabyte (make model)")

// check is one run of the model checker.
type check struct {
	name   string
	model  string   // fence when empty
	flags  []string // of Spin
	law    int      // that must break; 0 when all must hold
	memory int      // the hash table: 2 to the power of this, in slots
}

// checks are the model as it is, and without each of its guards.
func checks(attempts int) []check {
	if attempts > 2 {
		return []check{
			{name: "as it is", flags: []string{fmt.Sprintf("-DW=%d", attempts)}, memory: 26},
			{name: "as it is, with a restore", flags: []string{"-DW=2", "-DRESTORE"}, memory: 24},
			{name: "keep as it is", model: "keep", memory: 20},
		}
	}
	restore := []string{"-DRESTORE", "-DCANCEL=0"}
	all := []check{
		{name: "as it is", memory: 20},
		{name: "as it is, with a restore", flags: restore, memory: 22},
	}
	for _, c := range []struct {
		guard   string
		restore bool
		laws    []int
	}{
		{"NO_ROW_LOCK", false, []int{1}},
		{"NO_EXPORT_LOCK", false, []int{10}},
		{"NO_JOB_LOCK", false, []int{4, 6}},
		{"NO_TOKEN_CHECK", false, []int{2, 3}},
		{"NO_JOB_FENCE", false, []int{4, 6}},
		{"NO_END_FENCE", false, []int{6}},
		{"EARLY_SNAPSHOT", false, []int{3}},
		{"NO_SNAPSHOT_CHECK", false, []int{3}},
		{"NO_CONDEMN", false, []int{1, 7}},
		{"AGE_ONLY", false, []int{1, 7}},
		{"NO_ROW_CHECK", true, []int{1}},
		{"NO_CONDEMN_ALL", true, []int{1}},
		{"NO_KEEP", true, []int{1}},
		{"NO_IDLE", true, []int{1}},
	} {
		for _, law := range c.laws {
			v := check{name: fmt.Sprintf("%s breaks L%d", c.guard, law), flags: []string{"-D" + c.guard, fmt.Sprintf("-DONLY=%d", law)}, law: law, memory: 20}
			if c.restore {
				v.flags = append(v.flags, restore...)
			}
			all = append(all, v)
		}
	}
	return append(all, keepChecks()...)
}

// keepChecks are those of what keeps files.
func keepChecks() []check {
	all := []check{{name: "keep as it is", model: "keep", memory: 18}}
	for guard, laws := range map[string][]int{
		"NO_KEEPING_LOCK": {1, 7}, "LATE_LOCK": {1, 7}, "NO_HOLD_CHECK": {7}, "NO_RESTORE_CHECK": {1}, "NO_EPOCH_CHECK": {1}, "NO_CONDEMN_ALL": {1},
	} {
		for _, law := range laws {
			all = append(all, check{
				name: fmt.Sprintf("keep %s breaks L%d", guard, law), model: "keep", law: law, memory: 18,
				flags: []string{"-D" + guard, fmt.Sprintf("-DONLY=%d", law)},
			})
		}
	}
	return all
}

// Spin goes through every order of steps. The model as it is breaks no law, and without
// any of its guards it breaks the law that the guard is there for.
func TestModel(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the model checker needs %s: install the Debian packages spin and gcc (macOS: brew install spin): %v", tool, err)
		}
	}
	for _, c := range checks(*modelAttempts) {
		source, err := filepath.Abs(cmp.Or(c.model, "fence") + ".pml")
		if err != nil {
			t.Fatal(err)
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, source)
		})
	}
}

var (
	noErrors = regexp.MustCompile(`errors: 0\b`)
	stored   = regexp.MustCompile(`\d+ states, stored`)
)

func (c check) run(t *testing.T, source string) {
	t.Helper()
	dir := t.TempDir()
	optimize := "-O0" // what finds an error ends sooner than a better compilation
	if c.law == 0 {
		optimize = "-O2"
	}
	command(t, dir, "spin", append(append([]string{"-a"}, c.flags...), source)...)
	command(t, dir, "gcc", optimize, "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c")
	report := command(t, dir, filepath.Join(dir, "pan"), "-m1000000", fmt.Sprintf("-w%d", c.memory))
	for _, half := range []string{"max search depth too small", "out of memory", "memory limit"} {
		if strings.Contains(report, half) {
			t.Fatalf("Spin has not seen everything: %s\n%s", half, report)
		}
	}
	switch {
	case c.law == 0 && !noErrors.MatchString(report):
		t.Errorf("the model breaks a law:\n%s\n%s", report, c.trail(t, dir, source))
	case c.law != 0 && !strings.Contains(report, fmt.Sprintf("assertion violated (broken!=%d)", c.law)):
		t.Errorf("without its guard the model does not break L%d:\n%s", c.law, report)
	}
	t.Logf("%s", stored.FindString(report))
}

// command runs a tool in dir and answers what it printed; any exit code is an answer
// of pan only.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || filepath.Base(name) != "pan") {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// trail tells how the error came about, the last steps of it.
func (c check) trail(t *testing.T, dir, source string) string {
	t.Helper()
	const most = 8 << 10
	name := filepath.Base(source) + ".trail"
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		return "(no trail)"
	}
	args := append([]string{"-p", "-g", "-k", name}, c.flags...)
	text := command(t, dir, "spin", append(args, source)...)
	return text[max(0, len(text)-most):]
}
