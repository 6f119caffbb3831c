package web

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// drawn describes an attempt for a picture: seconds after noon.
type drawn struct {
	token         int64
	job, number   int
	state         storage.AttemptState
	start, end    float64 // end 0: not decided
	beat          float64 // 0: at the end
	by            int64
	reason        string
	worker        string
	replacedAfter float64
}

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func attempts(list ...drawn) []storage.Attempt {
	var all []storage.Attempt
	for _, d := range list {
		a := storage.Attempt{
			ID: uuid.New(), JobID: uuid.NewSHA1(uuid.Nil, []byte{byte(d.job)}), Number: d.number, Token: d.token, State: d.state,
			Worker: d.worker, StartedAt: at(d.start), HeartbeatAt: at(d.beat),
		}
		if d.end != 0 {
			a.FinishedAt = new(at(d.end))
		}
		if d.beat == 0 {
			a.HeartbeatAt = at(max(d.end, d.start))
		}
		if d.by > 0 {
			a.FencedBy = &d.by
		}
		if d.reason != "" {
			a.Reason = &d.reason
		}
		if d.replacedAfter > 0 {
			a.ReplacedAt = new(at(d.end + d.replacedAfter))
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b storage.Attempt) int { return int(b.Token - a.Token) }) // as the store lists them
	return all
}

// frozen is the story that the product is about: 41 freezes, 42 takes over and publishes, 41 is refused.
func frozen() []storage.Attempt {
	return attempts(
		drawn{token: 40, job: 1, number: 1, state: storage.AttemptSuperseded, start: -86400, end: -86365, worker: "w-2", replacedAfter: 86400},
		drawn{token: 41, job: 2, number: 1, state: storage.AttemptFenced, start: 18, end: 115, beat: 112, by: 42, reason: "newer_attempt", worker: "w-2"},
		drawn{token: 42, job: 2, number: 2, state: storage.AttemptPublished, start: 65, end: 101, worker: "w-7"},
	)
}

var widths = []fenceOptions{{Name: "wide", Width: 880}, {Name: "medium", Width: 600}, {Name: "narrow", Width: 350}}

func draw(list []storage.Attempt, o fenceOptions, now time.Time) fence {
	o.Now, o.Lease = now, 30*time.Second
	return drawFence(list, o)
}

// checkPicture holds what must be true of every picture.
func checkPicture(t *testing.T, name string, f fence) {
	t.Helper()
	canvas := box{0, 0, f.Width, f.Height}
	inside := func(what string, b box) {
		if !b.inside(canvas) || b.x1 < b.x0 || b.y1 < b.y0 {
			t.Errorf("%s: %s %+v leaves the picture %+v", name, what, b, canvas)
		}
	}
	boxes := make([]box, len(f.Labels))
	for i, l := range f.Labels {
		boxes[i] = l.box()
		inside("label "+fmt.Sprint(l.Parts), boxes[i])
		for j := range i {
			if boxes[i].meets(boxes[j]) {
				t.Errorf("%s: the labels %v and %v overlap", name, l.Parts, f.Labels[j].Parts)
			}
		}
	}
	for i, r := range f.Rows {
		if i > 0 && (r.Token <= f.Rows[i-1].Token || r.Y >= f.Rows[i-1].Y) {
			t.Errorf("%s: token %d does not lie above %d", name, r.Token, f.Rows[i-1].Token)
		}
		bars := slices.Clone(r.Solid)
		if r.Silent != nil {
			bars = append(bars, *r.Silent)
		}
		if len(bars) == 0 {
			t.Errorf("%s: attempt %d has no bar", name, r.Token)
		}
		for _, s := range bars {
			b := box{s.X, r.BarTop, s.X + s.Width, r.BarTop + r.BarHeight}
			inside(fmt.Sprintf("bar of %d", r.Token), b)
			for k, l := range boxes {
				if l.meets(b) {
					t.Errorf("%s: label %v lies on the bar of %d", name, f.Labels[k].Parts, r.Token)
				}
			}
		}
		inside(fmt.Sprintf("mark of %d", r.Token), box{r.Mark.X - 7, r.Mark.Y - 7, r.Mark.X + 7, r.Mark.Y + 7})
		name := box{0, r.Y - 12, f.Left, r.Y + 6}
		for k, l := range boxes {
			if l.meets(name) {
				t.Errorf("label %v lies on the name of %d", f.Labels[k].Parts, r.Token)
			}
		}
		if textWidth(r.Worker, 12) > fenceMaxName {
			t.Errorf("the worker %q is too wide", r.Worker)
		}
	}
}

func TestFenceOfTheFrozenWorker(t *testing.T) {
	t.Parallel()
	for _, o := range widths {
		f := draw(frozen(), o, at(200))
		checkPicture(t, o.Name, f)
		if len(f.Rows) != 3 || len(f.Breaks) != 1 {
			t.Fatalf("%s: %d rows and %d breaks, want 3 and 1", o.Name, len(f.Rows), len(f.Breaks))
		}
		stale, current := f.Rows[1], f.Rows[2]
		if stale.Mark.Kind != "fenced" || stale.Mark.RiseTo >= stale.Mark.RiseFrom || stale.Mark.Y <= current.Y || stale.Mark.Y >= stale.Y {
			t.Errorf("%s: the stale attempt does not run into the line from below: %+v", o.Name, stale.Mark)
		}
		if stale.Mark.X <= current.Mark.X {
			t.Errorf("%s: refused at %.0f, published at %.0f: refused before it was published", o.Name, stale.Mark.X, current.Mark.X)
		}
		if stale.Silent == nil || len(stale.Solid) != 2 || stale.HandedOn <= stale.Silent.X || stale.HandedOn >= stale.Silent.X+stale.Silent.Width {
			t.Errorf("%s: the silence of the stale attempt is %+v, handed on at %.0f", o.Name, stale.Silent, stale.HandedOn)
		}
		if current.Silent != nil || current.Mark.Kind != "published" {
			t.Errorf("%s: the current attempt is drawn as %+v", o.Name, current)
		}
		if o.Name == "wide" {
			wantLabels(t, f, "41 < 42 refused", "published 12:01:41", "handed on 12:01:05", "1 d later", "no heartbeat for at least 1 min 17 s")
		}
	}
}

func wantLabels(t *testing.T, f fence, wants ...string) {
	t.Helper()
	var all []string
	for _, l := range f.Labels {
		text := ""
		for _, p := range l.Parts {
			text += p.Text
		}
		all = append(all, text)
	}
	for _, want := range wants {
		if !slices.Contains(all, want) {
			t.Errorf("no label says %q; they say %q", want, all)
		}
	}
}

// The line rises with the tokens and never goes back in time.
func TestFenceLine(t *testing.T) {
	t.Parallel()
	for _, o := range widths {
		f := draw(frozen(), o, at(200))
		want := fmt.Sprintf("M%.1f %.1f H%.1f V%.1f H%.1f V%.1f H%.1f", f.Left, f.Bottom, f.Rows[0].Mark.X, f.Rows[0].Y, f.Rows[2].Mark.X, f.Rows[2].Y, f.Right)
		if f.Line != want {
			t.Errorf("the line is %s, want %s", f.Line, want)
		}
	}
	none := draw(attempts(drawn{token: 1, job: 1, number: 1, state: storage.AttemptFailed, start: 0, end: 1}), widths[0], at(9))
	if none.Line != "" || none.Area != "" {
		t.Errorf("without a publication the line is %q", none.Line)
	}
}

func TestFenceOfOne(t *testing.T) {
	t.Parallel()
	for _, state := range []storage.AttemptState{
		storage.AttemptRunning, storage.AttemptSealed, storage.AttemptPublished, storage.AttemptFenced, storage.AttemptFailed,
		storage.AttemptCancelled, storage.AttemptCondemned,
	} {
		for _, took := range []float64{0.004, 3, 90000} {
			for _, o := range widths {
				d := drawn{token: 7, job: 1, number: 1, state: state, start: 0, end: took, worker: strings.Repeat("a-very-long-worker-name.", 5)}
				now := at(took)
				if state == storage.AttemptRunning || state == storage.AttemptSealed {
					d.end, d.beat = 0, took/3
				}
				f := draw(attempts(d), o, now)
				checkPicture(t, fmt.Sprintf("%s %s %.0f s", o.Name, state, took), f)
				if silent := took > 10 && d.end == 0; silent != f.AnySilent() {
					t.Errorf("%s after %.0f s: drawn as silent: %v", state, took, f.AnySilent())
				}
			}
		}
	}
}

// Whatever the attempts are, labels do not overlap and nothing leaves the picture.
func TestFenceOfAnything(t *testing.T) {
	t.Parallel()
	states := []storage.AttemptState{
		storage.AttemptSuperseded, storage.AttemptFenced, storage.AttemptFailed, storage.AttemptCancelled, storage.AttemptCondemned, storage.AttemptSuperseded,
	}
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var list []drawn
		clock, token := 0.0, int64(rnd.IntN(1_000_000))
		for i := range 1 + rnd.IntN(maxDrawn) {
			token += 1 + int64(rnd.IntN(900))
			d := drawn{token: token, job: i / 2, number: i%2 + 1, state: states[rnd.IntN(len(states))], start: clock, worker: fmt.Sprintf("host-%d-%x", rnd.IntN(9), rnd.Uint32())}
			took := []float64{0.01, 1, 40, 3600}[rnd.IntN(4)] * (1 + rnd.Float64())
			d.end = clock + took
			d.beat = clock + took*rnd.Float64()
			if d.state == storage.AttemptFenced {
				d.by = token + int64(rnd.IntN(3))
			}
			list = append(list, d)
			clock += took * []float64{0.2, 1, 1.5, 4000}[rnd.IntN(4)]
		}
		for _, o := range widths {
			checkPicture(t, fmt.Sprintf("seed %d %s", seed, o.Name), draw(attempts(list...), o, at(clock+5)))
		}
		if t.Failed() {
			return
		}
	}
}

// Tokens of one export may be large and their attempts a moment apart.
func TestFenceBarsAreSeen(t *testing.T) {
	t.Parallel()
	f := draw(attempts(
		drawn{token: 1, job: 1, number: 1, state: storage.AttemptFailed, start: 0, end: 0.001},
		drawn{token: 2, job: 1, number: 2, state: storage.AttemptPublished, start: 5000, end: 9000},
	), widths[0], at(9000))
	if w := f.Rows[0].Solid[0].Width; w < fenceMinBar {
		t.Errorf("an attempt of a millisecond is %.2f wide", w)
	}
}

func TestTimeScale(t *testing.T) {
	t.Parallel()
	busy := []interval{{at(0), at(10)}, {at(9), at(20)}, {at(86400), at(86410)}, {at(86411), at(86420)}}
	s := newTimeScale(busy, 100, 800, 30)
	if len(s.stretches) != 2 {
		t.Fatalf("%d stretches, want 2: a gap of a day is compressed, one of a second is not", len(s.stretches))
	}
	if s.stretches[0].x0 != 100 || s.stretches[1].x1 != 800 || s.stretches[1].x0-s.stretches[0].x1 != 30 {
		t.Errorf("the stretches are %+v", s.stretches)
	}
	last := 0.0
	for _, sec := range []float64{-5, 0, 5, 20, 40000, 86400, 86410, 86420, 99999} {
		x := s.x(at(sec))
		if x < last || x < 100 || x > 800 {
			t.Errorf("second %.0f lies at %.1f after %.1f", sec, x, last)
		}
		last = x
	}
	if half := s.x(at(10)); half != (s.stretches[0].x0+s.stretches[0].x1)/2 {
		t.Errorf("the middle of a stretch lies at %.1f", half)
	}
	moment := newTimeScale([]interval{{at(0), at(0)}}, 0, 100, 10)
	if x := moment.x(at(0)); x != 0 {
		t.Errorf("a moment lies at %.1f", x)
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	step, times := stretch{interval{at(3), at(125)}, 0, 600}.ticks(84)
	if step != 30*time.Second || len(times) != 4 || !times[0].Equal(at(30)) {
		t.Errorf("ticks every %s: %v", step, times)
	}
}

func TestFenceTemplate(t *testing.T) {
	t.Parallel()
	f := draw(frozen(), widths[0], at(200))
	var out strings.Builder
	if err := newPages(newAssets())["export"].ExecuteTemplate(&out, "fence", f); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`data-form="time"`, `data-stamp="2026-11-29T12:01:41.000Z"`, `class="riser"`, `url(#quiet-wide)`, `41 &lt; 42 refused`, `<title>Attempt 41 by w-2: fenced`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	if strings.Contains(out.String(), "style=") || strings.Contains(out.String(), "ZgotmplZ") {
		t.Error("the picture holds what the policy or the template engine refuses")
	}
}
