package jobstest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/jobstest"
	"github.com/fenceline/fenceline/storage"
)

func TestRun(t *testing.T) {
	t.Parallel()
	r := jobstest.Run(t, mailKind(), mail{To: "ada"}, jobstest.OnAttempt(2))
	if r.Err != nil || r.Outcome != jobstest.Done || string(r.JSON) != `{"attempt":2}` {
		t.Errorf("%+v", r)
	}
	if len(r.Progress) != 2 || !strings.Contains(string(r.Progress[0]), "half") || !strings.Contains(string(r.Progress[1]), "all") {
		t.Errorf("progress %s", r.Progress)
	}
	if logs := strings.Join(r.Logs, "\n"); !strings.Contains(logs, "INFO msg=sent") || !strings.Contains(logs, "to=ada") {
		t.Errorf("logs %q", r.Logs)
	}
	var got map[string]int
	if err := r.Decode(&got); err != nil || got["attempt"] != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestHowARunEnds(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]struct {
		jobstest.Outcome
		reason, err string
		final       bool
	}{
		"fail":  {jobstest.Failed, "error", "no such mailbox", false},
		"never": {jobstest.Failed, "error", "no such mailbox", true},
		"panic": {jobstest.Failed, "panic", "main_test.go", false}, // the stack
		"skip":  {jobstest.Skipped, "", "nobody reads it", false},
		"":      {jobstest.Refused, "", "to", false},
	} {
		r := jobstest.Run(t, mailKind(), mail{To: to})
		if r.Outcome != want.Outcome || r.Reason != want.reason || r.Final != want.final || r.Err == nil || !strings.Contains(r.Err.Error(), want.err) {
			t.Errorf("%q: %+v", to, r)
		}
		if retried := r.Outcome == jobstest.Failed && !r.Final; retried != (r.Delay > 0) || retried != (r.Waiting == "retry") {
			t.Errorf("%q waits %s for %q", to, r.Delay, r.Waiting)
		}
		if r.Decode(new(int)) == nil {
			t.Errorf("%q has a result", to)
		}
	}
	var bad *invalid.Error
	if r := jobstest.Run(t, mailKind(), `{"too": 1}`); !errors.As(r.Err, &bad) || r.Outcome != jobstest.Refused {
		t.Errorf("%+v", r)
	}
	if r := jobstest.Run(t, mailKind(), mail{To: "fail"}, jobstest.OnAttempt(3)); !r.Final || r.Delay != 0 {
		t.Errorf("the last attempt is tried again: %+v", r)
	}
	if r := jobstest.Run(t, mailKind(), mail{To: "fail"}, jobstest.With(jobs.BackoffFixed(time.Minute))); r.Delay != time.Minute {
		t.Errorf("it waits %s", r.Delay)
	}
}

func TestWhatIsAroundARun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		to      string
		options []jobstest.RunOption
		want    string
	}{
		"after":    {"previous", []jobstest.RunOption{jobstest.After(7)}, `{"found":true,"n":7}`},
		"first":    {"previous", nil, `{"found":false,"n":0}`},
		"batch":    {"batch", []jobstest.RunOption{jobstest.OfBatch(storage.Batch{Title: "All"})}, `{"found":true,"title":"All"}`},
		"no batch": {"batch", nil, `{"found":false,"title":""}`},
	} {
		if r := jobstest.Run(t, mailKind(), mail{To: c.to}, c.options...); string(r.JSON) != c.want {
			t.Errorf("%s: %s, %v", name, r.JSON, r.Err)
		}
	}
	r := jobstest.Run(t, jobs.Handle("tenant", func(_ context.Context, w *jobs.Work, _ struct{}) (any, error) { return w.Job().Tenant, nil }), nil,
		jobstest.As(func(j *storage.Job) { j.Tenant = "acme" }))
	if string(r.JSON) != `"acme"` {
		t.Errorf("%s, %v", r.JSON, r.Err)
	}
	// What asks the database is answered at once, also what is otherwise asked until there is an answer.
	if r := jobstest.Run(t, mailKind(), mail{To: "fence"}); !errors.Is(r.Err, storage.ErrNoDatabase) || r.Outcome != jobstest.Failed {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(storage.ErrCancelled)
	if r := jobstest.Run(t, mailKind(), mail{To: "wait"}, jobstest.Within(ctx)); r.Outcome != jobstest.Refused && r.Outcome != jobstest.Cancelled {
		t.Errorf("%+v", r)
	}
}

func TestMiddlewareRunsWhenItIsAskedFor(t *testing.T) {
	t.Parallel()
	kind := mailKind(jobs.Use(func(jobs.Handler) jobs.Handler {
		return func(context.Context, *jobs.Work) error { return jobs.Release(time.Minute, "rate") }
	}))
	if r := jobstest.Run(t, kind, mail{To: "ada"}); r.Outcome != jobstest.Done {
		t.Errorf("%+v", r)
	}
	r := jobstest.Run(t, kind, mail{To: "ada"}, jobstest.WithMiddleware())
	if r.Outcome != jobstest.Released || r.Delay != time.Minute || r.Waiting != "rate" || r.JSON != nil {
		t.Errorf("%+v", r)
	}
}

// A handler that takes hours ends at once in a bubble, by the job's own timeout.
func TestRunInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := jobstest.Run(t, mailKind(), mail{To: "wait"}, jobstest.With(jobs.Timeout(3*time.Hour)))
		if r.Reason != "timeout" || time.Since(began) != 3*time.Hour {
			t.Errorf("%+v after %s", r, time.Since(began))
		}
	})
}

func TestRunRefusesExports(t *testing.T) {
	t.Parallel()
	fails(t, func(t testing.TB) { jobstest.Run(t, fileKind("file", nil), nil) }, "kind file", "jobstest.Start")
	fails(t, func(t testing.TB) { jobstest.Run(t, jobs.Kind{}, nil) }, "needs a name")
	fails(t, func(t testing.TB) { jobstest.Run(t, mailKind(), func() {}) }, "payload")
}

// Secret fields are sealed and opened as in production; nobody has to bring a key.
func TestSecretFields(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	kind := jobs.Handle("call", func(_ context.Context, _ *jobs.Work, in struct{ Key string }) (any, error) {
		got <- in.Key
		return nil, nil
	})
	kind.Secret = []string{"Key"}
	if r := jobstest.Run(t, kind, `{"Key": "hunter2"}`); r.Outcome != jobstest.Done || <-got != "hunter2" {
		t.Errorf("%+v", r)
	}
	d := jobstest.NewDispatcher(t, kind)
	if _, err := d.Dispatch(t.Context(), nil, jobs.Request{Kind: "call", Payload: []byte(`{"Key": "hunter2"}`)}); err != nil {
		t.Fatal(err)
	}
	s := d.Dispatched("call", jobstest.WithPayload(`{"Key": "hunter2"}`))[0]
	if strings.Contains(s.String(), "hunter2") || strings.Contains(string(s.Job.Payload), "hunter2") || strings.Contains(string(s.Request.Payload), "hunter2") {
		t.Errorf("%s", s)
	}
	f := jobstest.Start(t, kind)
	f.WaitFor(f.Dispatch("call", `{"Key": "hunter2"}`).ID, storage.JobDone)
	if key := <-got; key != "hunter2" {
		t.Errorf("the key is %q", key)
	}
}
