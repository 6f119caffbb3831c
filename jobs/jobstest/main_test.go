package jobstest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/jobstest"
)

func TestMain(m *testing.M) { os.Exit(jobstest.Main(m)) }

// spy is a test that keeps its failures.
type spy struct {
	testing.TB
	says  []string
	fatal bool
}

func (s *spy) Helper() {}

func (s *spy) Context() context.Context {
	if s.TB == nil { // in an example
		return context.Background()
	}
	return s.TB.Context()
}

func (s *spy) Errorf(format string, args ...any) {
	s.says = append(s.says, fmt.Sprintf(format, args...))
}

func (s *spy) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	s.fatal = true
	runtime.Goexit()
}

func (s *spy) Fatal(args ...any) { s.Fatalf("%s", fmt.Sprint(args...)) }

// failures is what the code says to a test that may fail, and whether it ended it.
func failures(t *testing.T, code func(testing.TB)) (says string, fatal bool) {
	t.Helper()
	s := &spy{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		code(s)
	}()
	<-done
	return strings.Join(s.says, "\n"), s.fatal
}

// fails wants the code to fail, with these words.
func fails(t *testing.T, code func(testing.TB), words ...string) {
	t.Helper()
	says, _ := failures(t, code)
	if says == "" {
		t.Errorf("it did not fail")
	}
	for _, w := range words {
		if !strings.Contains(says, w) {
			t.Errorf("no %q in\n%s", w, says)
		}
	}
}

// mail is a payload.
type mail struct {
	To   string         `json:"to"`
	N    int            `json:"n,omitempty"`
	Meta map[string]any `json:"meta,omitempty"`
}

func (m *mail) Validate() error {
	if m.To == "" {
		return invalid.New("to", "", "is needed")
	}
	return nil
}

// mailKind does what the address says.
func mailKind(options ...jobs.HandleOption) jobs.Kind {
	return jobs.Handle("mail", func(ctx context.Context, w *jobs.Work, in mail) (any, error) {
		switch in.To {
		case "fail":
			return nil, errors.New("no such mailbox")
		case "never":
			return nil, jobs.Permanent(errors.New("no such mailbox"))
		case "panic":
			panic("ouch")
		case "skip":
			return nil, jobs.Skip("nobody reads it")
		case "previous":
			var n int
			found, err := w.Previous(ctx, &n)
			return map[string]any{"found": found, "n": n}, err
		case "batch":
			b, found, err := w.Batch(ctx)
			return map[string]any{"found": found, "title": b.Title}, err
		case "fence":
			_, err := w.Fence(ctx, "mailbox")
			return nil, err
		case "wait":
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		w.Progress(1, 2, "half")
		w.Progress(2, 2, "all")
		w.Log.Info("sent", "to", in.To)
		return map[string]int{"attempt": w.Attempt()}, nil
	}, options...)
}

// fileKind makes exports.
func fileKind(name string, text func() string) jobs.Kind {
	return jobs.Kind{Name: name, Version: 1, Decode: func(jobs.Payload) (jobs.Task, error) {
		return jobs.Task{Key: "file", Title: "A file", Render: func(_ context.Context, r *jobs.Run) error {
			out, err := r.Create("out.txt", "txt", "text/plain")
			if err != nil {
				return err
			}
			defer out.Close()
			if _, err := fmt.Fprint(out, text()); err != nil {
				return err
			}
			return out.Commit(1)
		}}, nil
	}}
}
