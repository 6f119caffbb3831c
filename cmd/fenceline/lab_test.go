//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/lease/kubernetestest"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

var labGiven = flag.String("lab", "", "addresses for TestLab instead of servers of its own, such as kubernetes=kubernetes://NAMESPACE?kubeconfig=PATH")

// The lab shows on each backend what its lease does, and that the fence is right
// whatever it does. The README's table is what it showed. Every build plays the
// backends that it has; those that need a client of their own are played by one with all of them.
func TestLab(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	var mu sync.Mutex
	var runs []storage.LabRun
	t.Run("all", func(t *testing.T) { // ends when both have
		for _, played := range labPrograms(t) {
			t.Run(strings.Join(played.names, " "), func(t *testing.T) {
				t.Parallel()
				list := s.playsAll(t, played)
				mu.Lock()
				defer mu.Unlock()
				runs = append(runs, list...)
			})
		}
	})
	var skipped []string
	rows := map[string][]string{}
	for _, run := range runs {
		rows[run.Backend] = labRow(run)
		for _, f := range run.Faults {
			if f.Skipped != "" {
				skipped = append(skipped, run.Backend+" "+f.Fault)
				continue
			}
			checkStory(t, run, f)
		}
	}
	slices.Sort(skipped)
	want := []string{"etcd failover", "kubernetes failover", "none cut", "none failover", "none release", "postgres failover", "redlock failover", "zookeeper failover"}
	if *labGiven == "" && !slices.Equal(skipped, want) {
		t.Errorf("not played were %q, want %q", skipped, want)
	}
	checkLabTable(t, rows)
	s.savedAs(runs)
}

// labProgram is a build of the program and the backends that it plays.
type labProgram struct {
	path        func() (string, error)
	names, args []string
}

// labPrograms play all backends between them. Kubernetes has no program that could be started everywhere; what stands in for it compares
// versions as the real one does.
func labPrograms(t *testing.T) []labProgram {
	t.Helper()
	dir := t.TempDir()
	withAll := func() (string, error) { return build(dir, func(leaseBackend) bool { return true }) }
	given := map[string]string{}
	for _, arg := range strings.Fields(*labGiven) {
		name, _, _ := strings.Cut(arg, "=")
		given[name] = arg
	}
	usual, full := labProgram{path: binary}, labProgram{path: withAll}
	for _, b := range labBackends() {
		arg := cmp.Or(given[b.name], b.name)
		if b.start == nil && arg == b.name {
			arg += "=" + kubernetestest.Start(t).URL()
		}
		p := &usual
		if len(b.schemes) > 0 {
			if service, _ := leaseBackendOf(b.schemes[0]); service.tag != "" {
				p = &full
			}
		}
		p.names, p.args = append(p.names, b.name), append(p.args, arg)
	}
	return []labProgram{usual, full}
}

// playsAll plays every fault on the backends of a program.
func (s site) playsAll(t *testing.T, p labProgram) []storage.LabRun {
	s.t = t
	const lease = 3 * time.Second
	path, err := p.path()
	s.must(err)
	r := s.labRunsOf(path, append(p.args, "--lease", lease.String(), "--save")...)
	if !r.Held || len(r.Runs) != len(p.names) || r.LeaseMS != lease.Milliseconds() {
		t.Errorf("held: %t, %d backends, lease %d ms, failed: %q", r.Held, len(r.Runs), r.LeaseMS, r.Failed)
	}
	return r.Runs
}

// labRuns runs the lab as a process of its own: it starts this program again.
func (s *site) labRuns(args ...string) labReport {
	s.t.Helper()
	path, err := binary()
	s.must(err)
	return s.labRunsOf(path, args...)
}

func (s *site) labRunsOf(path string, args ...string) (r labReport) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), path, append([]string{"lab", "--json"}, args...)...)
	cmd.Dir, cmd.SysProcAttr = s.dir, processAttributes()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + os.TempDir()}
	for k, v := range s.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.t.Errorf("fenceline lab %q: %v\n%s", args, err, errs.String())
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		s.t.Fatalf("%v in %s", err, out.String())
	}
	return r
}

// checkStory holds a story against what its fault must show on any backend.
func checkStory(t *testing.T, run storage.LabRun, f storage.LabFault) {
	t.Helper()
	name := run.Backend + ", " + f.Fault
	late := slices.Contains([]string{"pause", "cut", "failover"}, f.Fault)
	if !f.Right || f.Fenced != labRight || f.Freed {
		t.Errorf("%s: behind the fence stands %d; B's lease was freed by A: %t", name, f.Fenced, f.Freed)
	}
	if want := map[bool]int64{true: labWrong, false: labRight}[late]; f.Unfenced != want || f.Lost != late {
		t.Errorf("%s: without a fence stands %d, want %d", name, f.Unfenced, want)
	}
	const margin = 10_000 // for a busy machine
	if f.TakeoverMS > run.LeaseMS+margin {
		t.Errorf("%s: B had the lease after %d ms", name, f.TakeoverMS)
	}
	if want := slices.Contains([]string{"pause", "failover", "release"}, f.Fault); together(f, run.LeaseMS) != want {
		t.Errorf("%s: both believed for %d ms", name, f.OverlapMS)
	}
	want := map[string]string{
		"pause":    "A took, A froze, B took, B wrote, B accepted, A woke, A wrote, A refused, B released",
		"kill":     "A took, A killed, B took, B wrote, B accepted, B released",
		"cut":      "A took, A cut, B took, B wrote, B accepted, A wrote, A refused, B released",
		"failover": "A took, lab failed, lab promoted, B took, B wrote, B accepted, A wrote, A refused, B released",
		"release":  "A took, A froze, B took, A woke, A released, B wrote, B accepted, B released",
	}[f.Fault]
	var got []string
	for i, e := range f.Events {
		if i > 0 && e.AtMS < f.Events[i-1].AtMS {
			t.Errorf("%s: the timeline goes back at %q", name, e.What)
		}
		if !slices.Contains([]string{storage.LabNote, storage.LabBusy, storage.LabLooked, storage.LabLost}, e.Kind) {
			got = append(got, e.Who+" "+e.Kind)
		}
	}
	if strings.Join(got, ", ") != want {
		t.Errorf("%s: it went\n%s, want\n%s", name, strings.Join(got, ", "), want)
	}
}

// savedAs fails unless the database holds these results, for the dashboard.
func (s *site) savedAs(runs []storage.LabRun) {
	s.t.Helper()
	store, err := storage.Open(s.t.Context(), s.env["DATABASE_URL"], storage.Options{MaxConns: 1})
	s.must(err)
	defer store.Close()
	saved, err := store.LabRuns(s.t.Context())
	s.must(err)
	a, err := json.Marshal(saved)
	s.must(err)
	slices.SortFunc(runs, func(a, b storage.LabRun) int { return strings.Compare(a.Backend, b.Backend) })
	b, err := json.Marshal(runs)
	s.must(err)
	if !bytes.Equal(a, b) {
		s.t.Errorf("saved is\n%s, want\n%s", a, b)
	}
}

// checkLabTable holds the rows against those of the README, whatever their times; with -update it writes them there.
func checkLabTable(t *testing.T, rows map[string][]string) {
	t.Helper()
	const path, begin, end = "../../README.md", "-run '^TestLab$' -update` -->\n", "<!-- /lab -->"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(raw), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("the README has no place for the table of the lab")
	}
	if *update {
		if !strings.Contains(*labGiven, "kubernetes=") {
			delete(rows, "kubernetes") // the row is of a real API server
		}
		table := labMarkdown(rows, old)
		if err := os.WriteFile(path, []byte(head+begin+table+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	table := labMarkdown(rows, old)
	times := regexp.MustCompile(`\d+(\.\d+)? m?s\b`)
	if times.ReplaceAllString(old, "T") != times.ReplaceAllString(table, "T") {
		t.Errorf("the README says\n%s, and the lab\n%s; run this test with -update", old, table)
	}
}

// labMarkdown is the table for the README. Backends that were not played keep their old rows.
func labMarkdown(rows map[string][]string, old string) string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(labColumns())
	line(slices.Repeat([]string{"---"}, len(labColumns())))
	for _, backend := range labBackends() {
		if row, played := rows[backend.name]; played {
			line(row)
		} else if row := regexp.MustCompile(`(?m)^\| ` + backend.name + ` \|.*$`).FindString(old); row != "" {
			b.WriteString(row + "\n")
		}
	}
	b.WriteString("\nWhy a failover is not played:\n\n")
	for _, backend := range labBackends() {
		if backend.failover != "" {
			b.WriteString("- " + backend.name + ": " + backend.failover + "\n")
		}
	}
	return b.String()
}

func TestLabIsToldWhatToPlay(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	for _, c := range []struct{ args, says string }{
		{"lab redsi", `"redsi" is none of redis, redlock, postgres, etcd, zookeeper, kubernetes, none`},
		{"lab redis=hunter2", "the address of redis must be such as redis=redis://HOST:6379"},
		{"lab redis=postgres://:hunter2@x/y", "the address of redis must be such as"},
		{"lab none=redis://:hunter2@x", "none takes no address: write none"},
		{"lab redis redis", "redis is given twice"},
		{"lab redis --fault sleep", `--fault: "sleep" is none of pause, kill, cut, failover, release`},
		{"lab redis --lease 100ms", "--lease: 100ms must be from 1s to 1m"},
		{"lab redis --lease 2m", "--lease: 2m0s must be from 1s to 1m"},
	} {
		got := s.run(strings.Fields(c.args)...)
		if got.code != exitUsage || !strings.Contains(got.err, c.says) || strings.Contains(got.err, "hunter2") {
			t.Errorf("fenceline %s: exit %d, %s", c.args, got.code, got.err)
		}
	}
	if got := s.run("lab", "--save"); got.code != exitFailed || !strings.Contains(got.err, "set DATABASE_URL") {
		t.Errorf("without a database to save in: exit %d, %s", got.code, got.err)
	}
}

// An interrupted lab leaves nothing: no process, and no folder.
func TestLabIsInterrupted(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	s.env["TMPDIR"] = s.dir
	p := s.start("lab", "redis", "none", "--lease", "1m")
	p.says("lab: redis: 5 faults at once")
	until(t, "holders are at work", func() bool { return len(labHolders(p.Process.Pid)) > 0 })
	if err := p.stop(); err == nil {
		t.Error("an interrupted lab has succeeded")
	}
	until(t, "its holders are gone", func() bool { return len(labHolders(p.Process.Pid)) == 0 })
	left, err := os.ReadDir(s.dir)
	s.must(err)
	for _, e := range left {
		if strings.HasPrefix(e.Name(), "fenceline-lab-") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// labHolders are the processes that a lab has started.
func labHolders(lab int) []string {
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(lab), "-f", "lab holder").Output() // none is an error
	return strings.Fields(string(out))
}

// What is cut off hears nothing and is not hung up on; what is led elsewhere is.
func TestLabProxy(t *testing.T) {
	t.Parallel()
	echo := func(name string) net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				go func() { defer c.Close(); _, _ = io.Copy(c, io.MultiReader(strings.NewReader(name), c)) }()
			}
		}()
		return l
	}
	one, two := echo("one"), echo("two")
	p, err := startProxy(one.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	hears := func(c net.Conn, want string) {
		t.Helper()
		got := make([]byte, len(want))
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Errorf("it hears %q, %v; want %q", got, err, want)
		}
	}
	silent := func(c net.Conn) {
		t.Helper()
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if n, err := c.Read(make([]byte, 1)); n > 0 || !os.IsTimeout(err) {
			t.Errorf("it hears %d bytes, %v", n, err)
		}
	}
	c := dial()
	hears(c, "one")
	_, _ = c.Write([]byte("x"))
	hears(c, "x")
	p.lead(two.Addr().String())
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("after it was led elsewhere: %v", err)
	}
	c = dial()
	hears(c, "two")
	p.cut()
	_, _ = c.Write([]byte("x"))
	silent(c)
	late := dial()
	_, _ = late.Write([]byte("x"))
	silent(late)
}

func TestLabBeliefs(t *testing.T) {
	t.Parallel()
	list := beliefs([]storage.LabEvent{
		{AtMS: 0, Who: labA, Kind: storage.LabTook}, {AtMS: 5, Who: labA, Kind: storage.LabFroze}, {AtMS: 20, Who: labB, Kind: storage.LabTook},
		{AtMS: 30, Who: labA, Kind: storage.LabWoke}, {AtMS: 32, Who: labA, Kind: storage.LabLost}, {AtMS: 33, Who: labA, Kind: storage.LabReleased}, {AtMS: 40, Who: labA, Kind: storage.LabRefused},
	})
	want := []storage.LabBelief{{Who: labA, FromMS: 0, ToMS: 32, End: "lost"}, {Who: labB, FromMS: 20, ToMS: 40, End: "open"}}
	if !slices.Equal(list, want) || overlap(list) != 12 || took(list, labB) != 20 {
		t.Errorf("%+v, together for %d ms", list, overlap(list))
	}
}
