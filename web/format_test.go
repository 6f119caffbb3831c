package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 184203: "184,203", 1_000_000: "1,000,000", -1234: "−1,234", -123: "−123"} {
		if got := showNumber(n); got != want {
			t.Errorf("%d is shown as %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{10_000: "10,000", 10_001: "10,000+"} {
		if got := showCount(n); got != want {
			t.Errorf("a count of %d is shown as %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1 kB", 29_000: "29 kB", 31_800_000: "31.8 MB", 999_499: "999 kB", 999_500: "1 MB", 547_000_000: "547 MB", 9_400_000_000: "9.4 GB",
	} {
		if got := showSize(n); got != want {
			t.Errorf("%d bytes are shown as %s, want %s", n, got, want)
		}
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0 ms", 350 * time.Millisecond: "350 ms", 1260 * time.Millisecond: "1.2 s", 5060 * time.Millisecond: "5 s", 9 * time.Second: "9 s", 59 * time.Second: "59 s",
		97 * time.Second: "1 min 37 s", time.Hour: "1 h", 125 * time.Minute: "2 h 5 min", 76 * time.Hour: "3 d 4 h",
	} {
		if got := showDuration(d); got != want {
			t.Errorf("%s is shown as %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Minute: "just now", 4 * time.Second: "just now", 12 * time.Second: "12 s ago", 119 * time.Second: "1 min ago", 3 * time.Hour: "3 h ago", 47 * time.Hour: "47 h ago", 50 * time.Hour: "2 d ago",
	} {
		if got := showAge(d); got != want {
			t.Errorf("%s ago is shown as %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		59 * time.Second: "1 min", 23*time.Hour + 58*time.Minute: "1 d", 95 * time.Hour: "4 d", 90 * time.Minute: "2 h", 20 * time.Second: "20 s", 2 * time.Hour: "2 h",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%s is about %s, want %s", d, got, want)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	c := clock{noon}
	east := time.FixedZone("", 6*3600)
	for _, tt := range []struct {
		form string
		t    time.Time
		want string
	}{
		{formClock, noon.Add(-time.Hour).In(east), "11:00:00"},
		{formClock, noon.Add(-13 * time.Hour), "28 Nov 23:00"},
		{formClock, noon.AddDate(-1, 0, 0), "29 Nov 2025"},
		{formFull, noon.In(east), "29 Nov 2026, 12:00:00 (UTC)"},
		{formAge, noon.Add(-2 * time.Minute), "2 min ago"},
	} {
		if got := c.text(tt.form, tt.t); got != tt.want {
			t.Errorf("%s of %s is %q, want %q", tt.form, tt.t, got, tt.want)
		}
	}
	want := `<time datetime="2026-11-29T12:00:00.000Z" title="2026-11-29 12:00:00 UTC" data-form="clock">12:00:00</time>`
	if got := string(c.html(formClock, noon.In(east))); got != want {
		t.Errorf("the element is %s, want %s", got, want)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	raw := `["Fits on no page", {"column":"note","kind":"formula","count":1200,"rows":[3,18]}, {"other":1}]`
	got := fmt.Sprint(strings.Join(showWarnings(json.RawMessage(raw)), " | "))
	want := `Fits on no page | 1,200 × in column “note”: text that a spreadsheet would run as a formula, kept as it is (row 3, 18 …) | {"other":1}`
	if got != want {
		t.Errorf("the warnings are\n%s, want\n%s", got, want)
	}
	if got := showWarnings(json.RawMessage("null")); got != nil {
		t.Errorf("no warnings are %q", got)
	}
	if got := showWarnings(json.RawMessage(`{"a":1}`)); len(got) != 1 || got[0] != `{"a":1}` {
		t.Errorf("an unknown form is %q", got)
	}
}

// One bar over all steps, which is full only when the files are published.
func TestProgress(t *testing.T) {
	t.Parallel()
	last := -1
	expected := int64(1000)
	for _, step := range []struct {
		name string
		rows int64
	}{{"count", 0}, {"read", 0}, {"write", 0}, {"write", 500}, {"write", 1000}, {"write", 5000}, {"seal", 1000}, {"publish", 1000}} {
		p := stepProgress(step.name, step.rows, &expected)
		if p.Percent < last || p.Percent >= 100 {
			t.Errorf("%s with %d rows is at %d %% after %d %%", step.name, step.rows, p.Percent, last)
		}
		last = p.Percent
	}
	if p := stepProgress("write", 500, nil); !p.Open || p.Percent != atWrite {
		t.Errorf("writing an unknown number of rows is %+v", p)
	}
	done := jobView{Job: storage.Job{State: storage.JobDone}, Progress: jobProgress(storage.Job{State: storage.JobDone}, nil)}
	if done.Progress.Percent != 100 || done.Phases()[4].Class != "behind" {
		t.Errorf("a published job is at %d %%, %v", done.Progress.Percent, done.Phases())
	}
}
