package web

import (
	"math/rand/v2"
	"os"
	"testing"
	"unicode/utf8"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"

	"github.com/fenceline/fenceline/storage"
)

// setter measures texts as a browser sets them with the widest of the usual fonts.
type setter struct {
	font   *sfnt.Font
	buffer sfnt.Buffer
}

func newSetter(t *testing.T) *setter {
	t.Helper()
	data, err := os.ReadFile("/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf")
	if err != nil {
		t.Skipf("needs the font that Debian's Chromium falls back to: %v", err)
	}
	return &setter{font: must(sfnt.Parse(data))(t)}
}

func (s *setter) width(t *testing.T, text string, size float64) float64 {
	t.Helper()
	em := 0
	for _, r := range text {
		glyph := must(s.font.GlyphIndex(&s.buffer, r))(t)
		em += must(s.font.GlyphAdvance(&s.buffer, glyph, fixed.I(1000), font.HintingNone))(t).Round()
	}
	return float64(em) / 1000 * size
}

// set is where a browser sets a label.
func (s *setter) set(t *testing.T, l fenceLabel) box {
	t.Helper()
	w := 0.0
	for _, p := range l.Parts {
		w += s.width(t, p.Text, 12)
	}
	left := map[string]float64{"start": l.X, "middle": l.X - w/2, "end": l.X - w}[l.Anchor]
	return box{left, l.Y - 10, left + w, l.Y + 3}
}

func TestTextWidthIsAnUpperBound(t *testing.T) {
	t.Parallel()
	s := newSetter(t)
	for r := ' '; r <= '~'; r++ {
		if set, bound := s.width(t, string(r), 12), textWidth(string(r), 12); set > bound {
			t.Errorf("%q is %.2f wide, thought to be at most %.2f", r, set, bound)
		}
	}
	for _, text := range []string{"published 12:01:41", "no heartbeat for at least 1 min 17 s", "Übergröße…", "বিক্রয়"} {
		if utf8.RuneCountInString(text) == 0 || textWidth(text, 12) <= 0 {
			t.Errorf("%q takes no room", text)
		}
	}
}

// takeovers draws what a takeover may look like: a stale attempt, the one that
// took over, perhaps an older publication, at any distance in time.
func takeovers(rnd *rand.Rand) []storage.Attempt {
	length := func() float64 { return []float64{0.02, 0.3, 5, 60, 4000}[rnd.IntN(5)] * (0.05 + rnd.Float64()) }
	var list []drawn
	clock, token := rnd.Float64()*86400, int64(1+rnd.IntN(2000))
	if rnd.IntN(2) == 0 {
		list = append(list, drawn{token: token, job: 1, number: 1, state: storage.AttemptSuperseded, start: clock, end: clock + length(), replacedAfter: 1, worker: "w-1"})
		clock += length() * 20
	}
	begun, published := clock+length(), 0.0
	published = begun + length()
	stale := drawn{token: token + 1, job: 2, number: 1, state: storage.AttemptFenced, start: clock, end: published + length(), by: token + 2, reason: "newer_attempt", worker: "w-frozen"}
	stale.beat = clock + (stale.end-clock)*rnd.Float64()
	return attempts(append(list, stale, drawn{token: token + 2, job: 2, number: 2, state: storage.AttemptPublished, start: begun, end: published, worker: "w-second"})...)
}

// Labels do not touch as a browser sets them, whenever things happened.
func TestFenceLabelsAsTheyAreSet(t *testing.T) {
	t.Parallel()
	s := newSetter(t)
	for seed := range uint64(3000) {
		list := takeovers(rand.New(rand.NewPCG(seed, 7)))
		last := list[0].StartedAt
		for _, a := range list {
			last = later(last, *a.FinishedAt)
		}
		for _, o := range widths {
			f := draw(list, o, last)
			canvas := box{0, 0, f.Width, f.Height}
			for i, l := range f.Labels {
				b := s.set(t, l)
				if !b.inside(canvas) {
					t.Fatalf("seed %d %s: the label %v leaves the picture", seed, o.Name, l.Parts)
				}
				for _, other := range f.Labels[:i] {
					if b.meets(s.set(t, other)) {
						t.Fatalf("seed %d %s: the labels %v and %v overlap", seed, o.Name, l.Parts, other.Parts)
					}
				}
			}
		}
	}
}
