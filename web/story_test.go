package web

import (
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// told renders the stories of attempts as plain text.
func told(t *testing.T, list []storage.Attempt, lease time.Duration) string {
	t.Helper()
	now := at(300)
	var out strings.Builder
	for _, s := range fencedStories(list, lease, now) {
		if err := newPages(newAssets())["export"].ExecuteTemplate(&out, "story", passed{view{Now: now}, s}); err != nil {
			t.Fatal(err)
		}
	}
	return plainText(out.String())
}

// plainText takes the tags out of HTML.
func plainText(s string) string {
	var b strings.Builder
	in := false
	for _, r := range s {
		switch {
		case r == '<':
			in = true
		case r == '>':
			in = false
		case !in:
			b.WriteRune(r)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func TestStories(t *testing.T) {
	t.Parallel()
	list := frozen()
	list[1].Bytes = 12_600_000
	swept := frozen()
	swept[1].State, swept[1].Verdict, swept[1].DeletedAt = storage.AttemptDeleted, new(storage.AttemptFenced), new(at(250))
	silent := frozen()
	silent[1].HeartbeatAt = at(30)
	later := attempts(
		drawn{token: 50, job: 1, number: 1, state: storage.AttemptFenced, start: 0, end: 60, by: 51, reason: "newer_job"},
		drawn{token: 51, job: 2, number: 1, state: storage.AttemptPublished, start: 10, end: 40})
	early := attempts(drawn{token: 50, job: 1, number: 1, state: storage.AttemptFenced, start: 0, end: 1, by: 51, reason: "newer_token"})
	for _, tt := range []struct {
		name  string
		list  []storage.Attempt
		lease time.Duration
		want  string
	}{
		{"woke up", list, 30 * time.Second, "Attempt 41 was fenced out at 12:01:55. Attempt 42 took over at 12:01:05, after at least 30 s without a heartbeat from worker w-2, and published at 12:01:41. Nothing from attempt 41 was published; its 12.6 MB are due for clean-up."},
		{"woke up, lease unknown", list, 0, "Attempt 41 was fenced out at 12:01:55. Attempt 42 took over at 12:01:05, and published at 12:01:41. Nothing from attempt 41 was published; its 12.6 MB are due for clean-up."},
		{"silent to the end", silent, 30 * time.Second, "Attempt 41 was fenced out at 12:01:55. Attempt 42 took over at 12:01:05, after 35 s without a heartbeat from worker w-2, and published at 12:01:41. Nothing from attempt 41 was published; what it wrote is due for clean-up."},
		{"swept", swept, 30 * time.Second, "Attempt 41 was fenced out at 12:01:55. Attempt 42 took over at 12:01:05, after at least 30 s without a heartbeat from worker w-2, and published at 12:01:41. Nothing from attempt 41 was published; what it wrote was cleaned up at 12:04:10."},
		{"newer job", later, 30 * time.Second, "Attempt 50 was fenced out at 12:01:00. A newer job was ahead with token 51, published at 12:00:40. Nothing from attempt 50 was published; what it wrote is due for clean-up."},
		{"before reading", early, 30 * time.Second, "Attempt 50 was fenced out at 12:00:01. Token 51 had been drawn before it began to read, so it gave up at once instead of writing older data. Nothing from attempt 50 was published; what it wrote is due for clean-up."},
		{"nothing fenced", attempts(drawn{token: 1, job: 1, number: 1, state: storage.AttemptPublished, end: 1}), 0, ""},
	} {
		if got := told(t, tt.list, tt.lease); got != tt.want {
			t.Errorf("%s: it says\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestWhy(t *testing.T) {
	t.Parallel()
	list := attempts(
		drawn{token: 1, job: 1, number: 1, state: storage.AttemptSuperseded, start: 0, end: 10, replacedAfter: 3600},
		drawn{token: 2, job: 2, number: 1, state: storage.AttemptFailed, start: 20, end: 30, reason: "worker_stopped"},
		drawn{token: 3, job: 2, number: 2, state: storage.AttemptFenced, start: 40, end: 50, reason: "handed_on", by: 4},
		drawn{token: 4, job: 2, number: 3, state: storage.AttemptSuperseded, start: 45, end: 3610, replacedAfter: 60},
		drawn{token: 5, job: 3, number: 1, state: storage.AttemptCondemned, start: 3600, end: 4000, beat: 3610},
		drawn{token: 6, job: 4, number: 1, state: storage.AttemptPublished, start: 3660, end: 3670},
	)
	for token, want := range map[int64]string{
		1: "replaced by 4 after 1 h", 2: "its worker was stopped; the job was given back", 3: "its job had been handed on to 4",
		4: "replaced by 6 after 1 min", 5: "no heartbeat for 6 min 30 s, so it can never be published", 6: "newest published token",
	} {
		if got := why(*byToken(list, token), list, at(9999)); got != want {
			t.Errorf("attempt %d: %q, want %q", token, got, want)
		}
	}
}
