package web

import (
	"context"
	"html/template"
	"net/http"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// attentionRows is how many rows each list of the overview has at most.
const attentionRows = 8

// tile is a number with its meaning.
type tile struct {
	Label, Value, Note string
	Class              string // colours the value
	Href               string // where more of it is; empty for nowhere
}

// window is how far back the numbers of the overview reach.
type window struct {
	Name   string // in the address and in labels: "in the last hour"
	Length time.Duration
	Chosen bool

	grain storage.StatsGrain
	step  time.Duration // of the charts
}

// windows are those that can be chosen; the first is shown unless another is asked for.
func windows() []window {
	return []window{
		{Name: "hour", Length: time.Hour, grain: storage.ByMinute, step: time.Minute},
		{Name: "day", Length: 24 * time.Hour, grain: storage.ByMinute, step: 15 * time.Minute},
		{Name: "week", Length: 7 * 24 * time.Hour, grain: storage.ByHour, step: time.Hour},
	}
}

// chooseWindow is the list of windows with one chosen, and that one.
func chooseWindow(name string) ([]window, window, error) {
	list := windows()
	for i := range list {
		if list[i].Name == name || name == "" && i == 0 {
			list[i].Chosen = true
			return list, list[i], nil
		}
	}
	return nil, window{}, invalid.New("window", name, "must be hour, day or week")
}

// overviewView is the first page.
type overviewView struct {
	Tiles       []tile
	Windows     []window
	Charts      template.HTML
	Counted     time.Time // up to when the charts go
	Failed      []failedLine
	Fenced      []storage.FencedAttempt
	Running     []workingLine
	Maintenance storage.Maintenance
	Fresh       bool // nothing was ever asked for, as far as this page can tell
}

type failedLine struct {
	storage.FailedJob
	Name, Error string
}

// workingLine is a job at work.
type workingLine struct {
	storage.Working
	Name     string
	Progress progress
}

func (s *Server) overviewPage(w http.ResponseWriter, r *http.Request) error {
	list, chosen, err := chooseWindow(r.URL.Query().Get("window"))
	if err != nil {
		return err
	}
	who := of(r).principal
	v := overviewView{Windows: list, Maintenance: s.maintained(r.Context())}
	if !who.scope.All { // the note is among operators
		v.Maintenance.Note = ""
	}
	o, err := s.store.Overview(r.Context(), who.scope)
	if err != nil {
		return err
	}
	h, err := s.store.Stats(r.Context(), who.scope, chosen.grain, chosen.Length, chosen.step)
	if err != nil {
		return err
	}
	drawn, err := s.charts(chartKey{who.scope, chosen.Name}, h, time.Now())
	if err != nil {
		return err
	}
	v.Charts, v.Counted = drawn.html, h.To
	v.Tiles = overviewTiles(chosen, o, h.Total, time.Now())
	care, err := s.careTiles(r.Context(), who.scope, o.Workers)
	if err != nil {
		return err
	}
	v.Tiles = s.reachable(who, append(v.Tiles, care...))
	if err := s.attention(r.Context(), who.scope, &v); err != nil {
		return err
	}
	v.Fresh = o.Running+o.Waiting+o.Tail.Published+o.Tail.Done+o.Tail.Failed == 0 && drawn.empty && len(v.Failed) == 0
	return s.render(w, r, http.StatusOK, "overview", v)
}

// attention fills in what somebody may want to look at first.
func (s *Server) attention(ctx context.Context, scope storage.Scope, v *overviewView) error {
	a, err := s.store.Attention(ctx, scope, attentionRows)
	if err != nil {
		return err
	}
	v.Fenced = a.Fenced
	for _, j := range a.Failed {
		v.Failed = append(v.Failed, failedLine{j, jobName(storage.Job{Title: j.Title, Kind: j.Kind}), cut(firstLine(j.Error), 160)})
	}
	for _, j := range a.Running {
		line := workingLine{Working: j, Name: jobName(j.Job), Progress: plainProgress(j.Job)}
		if j.Step != nil && j.Rows != nil {
			line.Progress = stepProgress(*j.Step, *j.Rows, j.RowsExpected)
		}
		v.Running = append(v.Running, line)
	}
	return nil
}

// overviewTiles are the numbers of jobs: what is now, and what ended in the window
// that their labels name.
func overviewTiles(in window, o storage.Overview, ended storage.Stat, now time.Time) []tile {
	last := " in the last " + in.Name
	number := func(counted, tail int64) string {
		text := showNumber(counted + tail)
		if o.TailAtLeast {
			text += "+"
		}
		return text
	}
	waiting := tile{Label: "Waiting now", Value: showCount(o.Waiting), Note: "nothing is due", Href: "/jobs?state=queued"}
	if o.OldestWait != nil {
		waiting.Note = "the oldest for " + showDuration(now.Sub(*o.OldestWait))
	}
	published := tile{Label: "Published" + last, Value: number(ended.Published, o.Tail.Published), Note: "jobs done", Href: "/exports"}
	if other := ended.Done + o.Tail.Done; other > 0 {
		published.Note = "and " + number(ended.Done, o.Tail.Done) + " other jobs done"
	}
	fenced := tile{Label: "Fenced out" + last, Value: number(ended.Fenced, o.Tail.Fenced), Note: "stale attempts", Href: "#fenced"}
	if ended.Fenced+o.Tail.Fenced > 0 {
		fenced.Class, fenced.Note = "fenced", "nothing was lost"
	}
	failed := tile{Label: "Failed" + last, Value: number(ended.Failed, o.Tail.Failed), Note: "jobs out of attempts", Href: "/failed"}
	if ended.Failed+o.Tail.Failed > 0 {
		failed.Class = "failed"
	}
	return []tile{{Label: "Running now", Value: showCount(o.Running), Note: "jobs at work", Href: "/jobs?state=running"}, waiting, published, fenced, failed}
}

// careTiles are the numbers of the installation: workers, storage, the last clean-up.
func (s *Server) careTiles(ctx context.Context, scope storage.Scope, workers int64) ([]tile, error) {
	stored, err := s.store.StoredBytes(ctx, scope)
	if err != nil {
		return nil, err
	}
	alive := tile{Label: "Workers alive", Value: showNumber(workers), Note: "gave a heartbeat within a minute", Href: "/queues"}
	if workers == 0 {
		alive.Class, alive.Note = "failed", "nothing that waits will begin"
	}
	used := tile{Label: "Storage used", Value: showSize(stored.Used), Note: showSize(stored.Reclaimable) + " reclaimable", Href: "/cleanup"}
	if stored.AtLeast {
		used.Note = "at least " + used.Note
		if !scope.All {
			used.Value += "+"
		}
	}
	tiles := []tile{alive, used}
	if !scope.All {
		return tiles, nil
	}
	runs, err := s.store.SweepRuns(ctx, 1)
	if err != nil {
		return nil, err
	}
	return append(tiles, sweepTile(runs, time.Now())), nil
}

func sweepTile(runs []storage.SweepRun, now time.Time) tile {
	t := tile{Label: "Last clean-up", Value: "never", Note: "no clean-up has run yet", Href: "/cleanup"}
	if len(runs) == 0 {
		return t
	}
	run := runs[0]
	t.Value, t.Note = showAge(now.Sub(run.StartedAt)), sweepChip(run).Text+", "+showSize(run.Bytes)+" freed"
	if run.Error != nil || run.Failed > 0 {
		t.Class = "failed"
	}
	return t
}

// reachable takes away the links that somebody has no page for.
func (s *Server) reachable(who principal, tiles []tile) []tile {
	there := map[string]bool{}
	for _, group := range s.navFor(who, "/") {
		for _, it := range group.Items {
			there[it.Path] = true
		}
	}
	for i, t := range tiles {
		path := t.Href
		for j, c := range path {
			if c == '?' {
				path = path[:j]
				break
			}
		}
		if path != "" && path[0] == '/' && !there[path] {
			tiles[i].Href = ""
		}
	}
	return tiles
}
