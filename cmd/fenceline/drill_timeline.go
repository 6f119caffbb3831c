package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/term"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

// drillEvent is something that happened in a drill.
type drillEvent struct {
	At       time.Time `json:"at"`        // by PostgreSQL's clock
	OffsetMS int64     `json:"offset_ms"` // since the drill began
	Who      string    `json:"who"`       // worker A, worker B, PostgreSQL, Redis, or the drill itself
	Token    int64     `json:"token,omitempty"`
	What     string    `json:"what"`
	// Guard is what refused, when something was refused.
	Guard string `json:"guard,omitempty"`
}

// Those who appear in a timeline beside the workers.
const (
	byDrill    = "drill"
	byDatabase = "PostgreSQL"
	byRedis    = "Redis"
	byLeases   = "lease service"
)

// timeline collects what happened, on one clock: what the database records
// carries its time, and what is seen here is moved to it.
type timeline struct {
	cli    *cli
	began  time.Time
	behind time.Duration // how far this machine's clock is behind the database's
	events []drillEvent
}

// newTimeline compares the clocks a few times: the quickest answer tells best.
func newTimeline(ctx context.Context, c *cli, store *storage.Store) (*timeline, error) {
	l, best := &timeline{cli: c}, time.Hour
	for range 5 {
		before := time.Now()
		now, err := store.Now(ctx)
		if err != nil {
			return nil, err
		}
		if took := time.Since(before); took < best {
			best, l.behind = took, now.Sub(before.Add(took/2))
		}
	}
	l.began = l.now()
	return l, nil
}

// now is the database's time, as far as this machine can tell.
func (l *timeline) now() time.Time { return l.here(time.Now()) }

// here moves a time of this machine to the database's clock.
func (l *timeline) here(t time.Time) time.Time { return t.Round(0).Add(l.behind) }

// note adds an event that was seen just now.
func (l *timeline) note(who string, token int64, format string, args ...any) {
	l.add(drillEvent{At: l.now(), Who: who, Token: token, What: fmt.Sprintf(format, args...)})
}

func (l *timeline) add(e drillEvent) {
	e.At = e.At.UTC().Truncate(time.Microsecond)
	e.OffsetMS = e.At.Sub(l.began).Milliseconds()
	l.events = append(l.events, e)
}

// sorted are the events by their times; those of one time stay as they were added.
func (l *timeline) sorted() []drillEvent {
	slices.SortStableFunc(l.events, func(a, b drillEvent) int { return a.At.Compare(b.At) })
	return l.events
}

// progress says what a drill waits for, while it waits, where nobody takes it
// for the answer.
type progress struct {
	out   io.Writer
	live  bool
	shown bool
	what  string
	began time.Time
}

func (l *timeline) waitingFor(what string) *progress {
	f, ok := l.cli.err.(*os.File)
	p := &progress{out: l.cli.err, live: ok && term.IsTerminal(int(f.Fd())), what: what, began: time.Now()}
	return p
}

func (p *progress) show() {
	if p.live {
		fmt.Fprintf(p.out, "\r\x1b[Kdrill: waiting until %s … %.0fs", p.what, time.Since(p.began).Seconds())
	} else if !p.shown {
		fmt.Fprintf(p.out, "drill: waiting until %s\n", p.what)
	}
	p.shown = true
}

func (p *progress) end() {
	if p.live && p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// wait calls yes until it says so. what completes "waiting until …".
func (l *timeline) wait(ctx context.Context, patience time.Duration, what string, yes func() (bool, error)) error {
	p := l.waitingFor(what)
	defer p.end()
	return poll(ctx, 50*time.Millisecond, patience, what, func() (bool, error) {
		done, err := yes()
		if err == nil && !done {
			p.show()
		}
		return done, err
	})
}

// poll calls yes again and again until it says so. what completes "it waited … until …".
func poll(ctx context.Context, every, patience time.Duration, what string, yes func() (bool, error)) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		done, err := yes()
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("it waited for %s until %s", patience, what)
		case <-tick.C:
		}
	}
}

// printDrill prints a report: a table in time, what became of the file, and the
// verdict as the last line.
func (c *cli) printDrill(r drillReport, title string) error {
	return c.print(r, func(w io.Writer) {
		fmt.Fprintf(w, "%s.\n\n", title)
		printEvents(w, r.Events)
		printDrillFile(w, r.File)
		printDrillRow(w, r.Row)
		fmt.Fprintln(w, r.Verdict)
	})
}

// printEvents leaves the column of tokens out where there are none.
func printEvents(w io.Writer, events []drillEvent) {
	tokens := slices.ContainsFunc(events, func(e drillEvent) bool { return e.Token != 0 })
	column := func(text string) string {
		if !tokens {
			return ""
		}
		return text + "\t"
	}
	fmt.Fprintf(w, " SECONDS\tCLOCK (UTC)\tWHO\t%sWHAT\n", column("TOKEN"))
	for _, e := range events {
		token, guard := "", ""
		if e.Token != 0 {
			token = fmt.Sprintf("%5d", e.Token)
		}
		if e.Guard != "" {
			guard = " [" + e.Guard + "]"
		}
		fmt.Fprintf(w, "%8.3f\t%s\t%s\t%s%s%s\n", float64(e.OffsetMS)/1000, e.At.Format("15:04:05.000"), e.Who, column(token), e.What, guard)
	}
	fmt.Fprintln(w)
}

func printDrillFile(w io.Writer, f *drillFile) {
	if f == nil {
		return
	}
	same := "not the same"
	if f.After == f.Before {
		same = "the same"
	}
	fmt.Fprintf(w, "%s\ttoken %d, %s, %s\n", f.Name, f.Token, count.Of(f.Rows, "row"), count.Of(f.Bytes, "byte"))
	fmt.Fprintf(w, "sha256 before\t%s\n", f.Before)
	fmt.Fprintf(w, "sha256 after\t%s, %s\n\n", f.After, same)
}
