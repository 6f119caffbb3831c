package web

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// shellWords runs a command with a program fenceline that only prints its words and
// what it is given on standard input.
func shellWords(t *testing.T, command string) []string {
	t.Helper()
	sh := exec.CommandContext(t.Context(), "sh", "-c", "fenceline() { printf '%s\\0' \"$@\"; [ \"$3\" != - ] || cat; }\n"+command)
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return strings.Split(string(out), "\x00")
}

// A shell takes the command apart into exactly what was asked for.
func TestTheCommandSaysTheSame(t *testing.T) {
	t.Parallel()
	attempts := 5
	job := func(kind, payload string) storage.Job {
		return storage.Job{
			Kind: kind, Tenant: "acme", Payload: json.RawMessage(payload), Queue: "slow", Priority: -7, Tags: storage.Tags{"-x", "a b"},
			MaxAttempts: attempts, TimeoutSeconds: 90, Backoff: json.RawMessage(`{"first":2,"factor":2,"max":600,"jitter":0.25}`),
		}
	}
	how := []string{"--tenant", "acme", "--queue", "slow", "--priority=-7", "--tag=-x", "--tag=a b", "--max-attempts", "5", "--backoff", "exp:2s:10m0s", "--timeout", "1m30s", "--wait"}
	for _, tt := range []struct {
		kind, payload string
		want          []string
	}{
		{"report", `{"report":"orders","params":{"name":"O'Neil & <x>\n$(id) \"q\"","n":3},"formats":["csv","xlsx"],"zone":"Asia/Dhaka","strict":false}`,
			[]string{"report", "orders", "--param", "n=3", "--param", "name=O'Neil & <x>\n$(id) \"q\"", "--format", "csv,xlsx", "--zone", "Asia/Dhaka", "--strict=false"}},
		{"note", `{"text": "it's ` + "`id`" + ` $HOME"}`, []string{"job", "note", "{\"text\":\"it's `id` $HOME\"}"}},
		{"invoices", `{"source":"monthly","params":{"month":"2026-10"}}`, []string{"invoices", "monthly", "--param", "month=2026-10"}},
	} {
		got := shellWords(t, asCLI(job(tt.kind, tt.payload)))
		want := append(append([]string{"dispatch"}, tt.want...), append(how, "")...)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the shell passes\n%q, want\n%q", tt.kind, got, want)
		}
	}
	document := `{"number":"INV-1","notes":"100 % \\n 'quoted'"}`
	got := shellWords(t, asCLI(job("invoice", document)))
	if want := append(append([]string{"dispatch", "invoice", "-"}, how...), document); !slices.Equal(got, want) {
		t.Errorf("the shell passes\n%q, want\n%q", got, want)
	}
}

// The call over HTTP, run as it stands on the page, makes the same job once more.
func TestTheCallMakesTheSameJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token("acme")
	first := must(w.dispatcher.Dispatch(w.ctx, nil,
		jobs.Request{Kind: "note", Tenant: "acme", Payload: json.RawMessage(`{"text":"it's <ß> \"$HOME\"\n"}`)},
		jobs.Queue("mail"), jobs.Priority(4), jobs.Tags("a", "b"), jobs.MaxAttempts(9), jobs.BackoffList(time.Second, 10*time.Second),
		jobs.Timeout(90*time.Second), jobs.IdempotencyKey("once")))(t).Job
	first = must(w.store.Job(w.ctx, principalAll.scope, first.ID))(t)
	sh := exec.CommandContext(w.ctx, "sh", "-c", asCurl(first, w.base))
	sh.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:" + filepath.Dir(must(exec.LookPath("curl"))(t)), "FENCELINE_TOKEN=" + strings.TrimPrefix(token.value, "Bearer ")}
	out := must(sh.Output())(t)
	var again storage.Job
	if err := json.Unmarshal(out, &again); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	again = must(w.store.Job(w.ctx, principalAll.scope, again.ID))(t)
	if again.ID == first.ID {
		t.Fatal("the call gave the first job, not another")
	}
	if again.Kind != first.Kind || again.Tenant != first.Tenant || string(again.Payload) != string(first.Payload) || again.Queue != "mail" || again.Priority != 4 ||
		!slices.Equal(again.Tags, first.Tags) || again.MaxAttempts != 9 || again.TimeoutSeconds != 90 || string(again.Backoff) != string(first.Backoff) {
		t.Errorf("the call made\n%+v, not the same as\n%+v", again, first)
	}
}

func TestLongPayloadsAreNamed(t *testing.T) {
	t.Parallel()
	j := storage.Job{Kind: "invoice", Tenant: "acme", Queue: "default", Payload: json.RawMessage(`"` + strings.Repeat("x", maxPasted) + `"`)}
	if got, want := asCLI(j), "fenceline dispatch invoice job.json --tenant acme --wait"; got != want {
		t.Errorf("the command is %s, want %s", got, want)
	}
	if got := asCurl(j, "http://h"); !strings.Contains(got, "-d @job.json") || !(jobView{Job: j, Curl: got}).FromFile() {
		t.Errorf("a large payload is pasted: %.200s", got)
	}
	zip := storage.Job{Kind: "batch.zip", Tenant: "acme", Queue: "default", Payload: json.RawMessage(`{"batch":"0190"}`)}
	if got, want := asCLI(zip), "fenceline batch zip 0190 --tenant acme --wait"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if text, wasCut := showPayload(json.RawMessage(`"` + strings.Repeat("ß", maxShown) + `"`)); !wasCut || len(text) > maxShown+3 || !strings.HasSuffix(text, "ß…") {
		t.Errorf("a large payload is shown in %d bytes, cut %v", len(text), wasCut)
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	expected := int64(10_000)
	begun := noon.Add(-10 * time.Second)
	at := storage.Attempt{StartedAt: begun, HeartbeatAt: noon, Rows: 4000, RowsExpected: &expected}
	if got, want := paceOf(at).String(), "400 rows/s, about 15 s left at this pace"; got != want {
		t.Errorf("the pace is %q, want %q", got, want)
	}
	early := at
	early.HeartbeatAt = begun.Add(time.Second)
	over := at
	over.Rows = 20_000
	if a, b := paceOf(early).String(), paceOf(over).String(); a != "" || b != "2,000 rows/s" {
		t.Errorf("after a second the pace is %q; past the estimate %q", a, b)
	}
	sealed, ended := begun.Add(8*time.Second), noon
	at.SealedAt, at.FinishedAt = &sealed, &ended
	if got := paceOf(at).String(); got != "500 rows/s" {
		t.Errorf("at the end the pace is %q", got)
	}
}

func TestStacksAreForThoseWhoSeeAll(t *testing.T) {
	t.Parallel()
	text := "panic: no\n\ngoroutine 7 [running]:\nmain.go:1"
	if message, stack := splitStack(text); message != "panic: no" || !strings.HasPrefix(stack, "goroutine 7") {
		t.Errorf("%q and %q", message, stack)
	}
	w := newWorld(t)
	j := w.job("acme", "k", "K")
	b := w.begin(j, "w-1")
	must(w.store.EndAttempt(w.ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "panic", Error: text, Counts: true, Final: true}))(t)
	for _, path := range []string{"/jobs/" + j.ID.String(), exportPath(j.ExportID)} {
		w.get(path, w.person("All", "")).want(t, 200, "panic: no", "main.go:1")
		w.get(path, w.person("Ada", "acme")).want(t, 200, "panic: no").without(t, "goroutine 7", "main.go:1")
	}
	w.get("/api/v1/jobs/"+j.ID.String(), w.token("acme")).want(t, 200, "panic: no").without(t, "main.go:1")
}
