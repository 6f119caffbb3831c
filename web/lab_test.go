package web

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

// labRuns are results of a real run of the lab: of redis, postgres and none.
func labRuns(t testing.TB) (runs []storage.LabRun) {
	t.Helper()
	raw := must(os.ReadFile(filepath.Join("testdata", "lab.json")))(t)
	if err := json.Unmarshal(raw, &runs); err != nil {
		t.Fatal(err)
	}
	return runs
}

// playLab keeps them.
func (w *world) playLab() []storage.LabRun {
	w.t.Helper()
	runs := labRuns(w.t)
	for _, run := range runs {
		if err := w.store.SaveLab(w.ctx, run); err != nil {
			w.t.Fatal(err)
		}
	}
	return runs
}

func TestLabPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.personAs("Vic", own, storage.RoleViewer) // of one tenant: nothing in it is anybody's
	w.get("/lab", who).want(t, 200, "The lab was not run yet.", "fenceline lab --save")
	runs := w.playLab()
	for _, run := range runs {
		body := w.get("/lab?backend="+run.Backend, who).want(t, 200).body
		for _, f := range run.Faults {
			says := f.Verdict
			if f.Skipped != "" {
				says = f.Skipped
			}
			if !strings.Contains(strings.ReplaceAll(body, "&#39;", "'"), says) {
				t.Errorf("the page of %s does not say %q", run.Backend, says)
			}
			if f.Skipped == "" && !strings.Contains(body, fmt.Sprintf(">%.3f</td>", float64(f.Events[3].AtMS)/1000)) {
				t.Errorf("the list of %s, %s lacks an event", run.Backend, f.Fault)
			}
		}
		ids := map[string]bool{}
		for _, id := range regexp.MustCompile(`\sid="([^"]+)"`).FindAllStringSubmatch(body, -1) {
			if ids[id[1]] {
				t.Errorf("the page of %s has two elements of the id %s", run.Backend, id[1])
			}
			ids[id[1]] = true
		}
	}
	if got := w.get("/lab", who).want(t, 200).body; !strings.Contains(got, `href="/lab?backend=redis" aria-current="true"`) {
		t.Error("without a choice it does not show redis")
	}
	w.get("/lab?backend=nothing", who).want(t, 404)
}

// The API answers what the lab kept, to whoever may look at anything.
func TestLabInTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.personAs("Vic", own, storage.RoleViewer)
	w.get("/api/v1/lab", who).want(t, 200, `"items":[]`)
	runs := w.playLab()
	slices.SortFunc(runs, func(a, b storage.LabRun) int { return strings.Compare(a.Backend, b.Backend) })
	got := decode[struct{ Items []storage.LabRun }](t, w.get("/api/v1/lab", who).want(t, 200)).Items
	if !reflect.DeepEqual(got, runs) {
		t.Errorf("it answers %+v\nwant %+v", got, runs)
	}
}

// Whatever a fault did, its picture says what counts, its texts do not cover each other, and all of it is inside.
func TestLabPictures(t *testing.T) {
	t.Parallel()
	texts := func(p labPicture) string {
		var all []string
		for _, l := range p.Labels {
			all = append(all, l.Parts[0].Text)
		}
		return strings.Join(all, " | ")
	}
	for _, run := range labRuns(t) {
		for _, f := range run.Faults {
			if f.Skipped != "" {
				continue
			}
			for _, width := range []float64{880, 600, 350} {
				name := fmt.Sprintf("%s, %s, %g wide", run.Backend, f.Fault, width)
				p := drawLab(f, "x", "x", width)
				says := map[string][]string{
					"pause": {"frozen", "both believe", "A: 440, refused", "B: 450"}, "kill": {"B: 450"}, "cut": {"A: 440, refused", "B: 450", "B has it after"},
					"failover": {"A: 440, refused", "B: 450"}, "release": {"frozen", "both believe", "B: 450"},
				}[f.Fault]
				for _, want := range says {
					if !strings.Contains(texts(p), want) {
						t.Errorf("%s: no %q in %s", name, want, texts(p))
					}
				}
				for i, l := range p.Labels {
					if !l.box().inside(box{0, 0, p.Width, p.Height}) {
						t.Errorf("%s: %q is outside", name, l.Parts[0].Text)
					}
					for _, o := range p.Labels[:i] {
						if l.box().meets(o.box()) {
							t.Errorf("%s: %q covers %q", name, l.Parts[0].Text, o.Parts[0].Text)
						}
					}
				}
				for _, b := range p.Bars {
					if b.X < p.Left || b.X+b.Width > p.Right || b.Width <= 0 {
						t.Errorf("%s: the bar %+v is outside", name, b)
					}
				}
			}
		}
	}
}
