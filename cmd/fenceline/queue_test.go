package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// taskKind is a kind of plain jobs whose payload says how a job ends.
func taskKind() jobs.Kind {
	type task struct {
		Do string `json:"do"`
	}
	return jobs.Handle("task", func(ctx context.Context, w *jobs.Work, in task) (any, error) {
		switch in.Do {
		case "fail":
			return nil, jobs.Permanent(errors.New("no luck today"))
		case "panic":
			panic("ouch")
		case "wait":
			w.Progress(3, 9, "at the third")
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return map[string]string{"did": in.Do}, nil
	})
}

// newTaskSite has the kind of plain jobs besides the program's own.
func newTaskSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t, redistest.Shared(t))
	s.kinds = []jobs.Kind{taskKind()}
	return s
}

// background runs a command in this process until it ends or stop is called.
func (s *site) background(args ...string) (ended <-chan result, stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	done := make(chan result, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		var out, errs bytes.Buffer
		code := run(ctx, args, func(key string) string { return s.env[key] }, &out, &errs, extras{kinds: s.kinds})
		done <- result{code, out.String(), errs.String()}
	}()
	s.t.Cleanup(func() { cancel(); <-finished })
	return done, cancel
}

// finishes waits for a command in the background that ends by itself, well.
func (s *site) finishes(ended <-chan result) {
	s.t.Helper()
	until(s.t, "the command has ended", func() bool { return len(ended) == 1 })
	if r := <-ended; r.code != exitDone {
		s.t.Errorf("exit %d\n%s", r.code, r.err)
	}
}

func (s *site) dispatch(args ...string) storage.Job {
	s.t.Helper()
	return asJSON[struct{ Job storage.Job }](s, append([]string{"dispatch", "job", "task"}, args...)...).Job
}

func (s *site) file(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	s.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestDispatchJob(t *testing.T) {
	t.Parallel()
	s := newTaskSite(t)
	full := s.dispatch(`{"do": "it"}`, "--queue", "mail", "--priority", "7", "--tag", "a", "--tag", "b", "--tenant", "acme", "--delay", "1h", "--max-attempts", "9",
		"--backoff", "1s,10s,60s", "--retry-for", "3h", "--timeout", "90s", "--unique", "active", "--unique-key", "k")
	if full.Queue != "mail" || full.Priority != 7 || len(full.Tags) != 2 || full.Tenant != "acme" || full.MaxAttempts != 9 || full.TimeoutSeconds != 90 ||
		full.RetryUntil == nil || deref(full.UniqueWhile) != "active" || compactPayload(full.Backoff) != `{"seconds":[1,10,60]}` {
		t.Errorf("%+v, backoff %s", full, full.Backoff)
	}
	from := s.dispatch("@"+s.file("p.json", `{"do": "from a file"}`), "--idempotency-key", "k")
	if again := s.dispatch("@"+s.file("p.json", `{"do": "from a file"}`), "--idempotency-key", "k"); again.ID != from.ID {
		t.Error("the same key made two jobs")
	}
	if late := s.dispatch("--at", "2199-01-01T00:00:00Z"); late.DueAt.Year() != 2199 {
		t.Errorf("due at %s", late.DueAt)
	}
	one, two := s.dispatch("--debounce", "1h:2h"), s.dispatch("--debounce", "1h:2h")
	if one.ID != two.ID {
		t.Error("a debounced job was made twice")
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "KIND", nil},
		{exitUsage, "kind: \"nope\" is not a kind", []string{"nope"}},
		{exitUsage, "payload", []string{"task", "{"}},
		{exitUsage, "payload.du", []string{"task", `{"du": 1}`}},
		{exitNotFound, "no such file", []string{"task", "@nope.json"}},
		{exitUsage, "priority", []string{"task", "--priority", "101"}},
		{exitUsage, "max-attempts", []string{"task", "--max-attempts", "x"}},
		{exitUsage, "max_attempts", []string{"task", "--max-attempts", "0"}},
		{exitUsage, "delay", []string{"task", "--delay", "soon"}},
		{exitUsage, "unique", []string{"task", "--unique", "sometimes"}},
		{exitUsage, "debounce", []string{"task", "--debounce", "5s"}},
		{exitUsage, "backoff", []string{"task", "--backoff", "exp:1s"}},
		{exitUsage, "publishes no file", []string{"task", "-o", "x"}},
	} {
		if got := s.run(append([]string{"dispatch", "job"}, c.args...)...); got.code != c.code || !strings.Contains(got.err, c.says) {
			t.Errorf("%v: exit %d, %s", c.args, got.code, got.err)
		}
	}
	if out := s.ok("job", "list", "--queue", "mail", "--kind", "task", "--tag", "b", "--tenant", "acme"); !strings.Contains(out, full.ID.String()) || strings.Contains(out, from.ID.String()) {
		t.Error(out)
	}
	if r := s.run("job", "list", "--state", "doen"); r.code != exitUsage {
		t.Errorf("exit %d", r.code)
	}
}

func TestDispatchMany(t *testing.T) {
	t.Parallel()
	s := newTaskSite(t)
	bulk := s.file("bulk.jsonl", `{"kind":"task","payload":{"do":"a"},"tags":["bulk"]}`+"\n\n"+`{"kind":"task","payload":{"do":"b"},"queue":"mail"}`+"\n")
	got := asJSON[struct{ Jobs []dispatched }](s, "dispatch", "bulk", bulk)
	if len(got.Jobs) != 2 || s.job(uuid.MustParse(got.Jobs[1].ID)).Queue != "mail" {
		t.Errorf("%+v", got)
	}
	for text, says := range map[string]string{
		"{\"kind\":\"task\",\"payload\":{}}\n\n{\"kidn\":1}":                       "line 3.kidn",
		"\n{\"kind\":\"task\",\"payload\":{}}\n{\"kind\":\"nope\",\"payload\":{}}": "line 3.kind",
		"{\"kind\":\"task\",\"delay\":\"x\"}":                                      "line 1.delay",
		"":                                                                         "1 to 100000",
	} {
		if r := s.run("dispatch", "bulk", s.file("bad.jsonl", text)); r.code != exitUsage || !strings.Contains(r.err, says) {
			t.Errorf("%s: exit %d, %s", text, r.code, r.err)
		}
	}
	if n := len(asJSON[storage.Page[storage.Job]](s, "job", "list").Items); n != 2 {
		t.Errorf("%d jobs", n)
	}
	chain := asJSON[struct{ Jobs []dispatched }](s, "dispatch", "chain", s.file("chain.json", `{"jobs":[{"kind":"task","payload":{"do":"a"}},{"kind":"task","payload":{"do":"b"}}]}`))
	out := s.ok("job", "show", chain.Jobs[1].ID)
	if !strings.Contains(out, "waiting for chain") || !strings.Contains(out, chain.Jobs[0].ID) {
		t.Error(out)
	}
	batch := asJSON[struct{ Batch storage.Batch }](s, "dispatch", "batch", s.file("batch.json",
		`{"title":"B","jobs":[{"kind":"task","payload":{"do":"a"}}],"chains":[[{"kind":"task","payload":{"do":"b"}}]],"finally":{"kind":"task","payload":{"do":"end"}},"allow_failures":true}`)).Batch
	if r := s.run("batch", "cancel", batch.ID.String()); r.code != exitUsage || !strings.Contains(r.err, "2 jobs") || !strings.Contains(r.err, "--yes") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	if out := s.ok("batch", "cancel", batch.ID.String(), "--yes"); !strings.Contains(out, "2 jobs cancelled") {
		t.Error(out)
	}
	ended, _ := s.background("work", "--stop-when-empty", "--queues", "default,mail")
	s.finishes(ended)
	if out := s.ok("batch", "show", batch.ID.String()); !strings.Contains(out, "finally") || !strings.Contains(out, "dispatched job") {
		t.Error(out)
	}
	if of := asJSON[storage.Page[storage.Job]](s, "job", "list", "--batch", batch.ID.String()); len(of.Items) != 2 {
		t.Errorf("%d jobs of the batch", len(of.Items))
	}
	if last := s.job(uuid.MustParse(chain.Jobs[1].ID)); last.State != storage.JobDone {
		t.Errorf("the chain ended %s", last.State)
	}
	s.sql("DELETE FROM fenceline.outbox", "UPDATE fenceline.jobs SET finished_at = finished_at - interval '8 days' WHERE finished_at IS NOT NULL AND batch_id IS NULL")
	s.ok("queue", "prune", "--yes")
	if out := s.ok("batch", "show", batch.ID.String()); strings.Contains(out, "could not") || !strings.Contains(out, "pruned since") {
		t.Error(out)
	}
}

// From the command line alone: fail, look, retry, forget, prune.
func TestQueueFailed(t *testing.T) {
	t.Parallel()
	s := newTaskSite(t)
	one, two, three := s.dispatch(`{"do":"fail"}`, "--tag", "x"), s.dispatch(`{"do":"panic"}`, "--max-attempts", "1"), s.dispatch(`{"do":"fail"}`, "--tenant", "acme")
	done := s.dispatch(`{"do":"it"}`)
	ended, _ := s.background("work", "--max-jobs", "4")
	s.finishes(ended)
	out := s.ok("queue", "failed")
	for _, want := range []string{one.ID.String(), two.ID.String(), three.ID.String(), "no luck today", "panic: ouch"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	page := asJSON[storage.Page[storage.Job]](s, "queue", "failed", "--limit", "2")
	if rest := asJSON[storage.Page[storage.Job]](s, "queue", "failed", "--limit", "2", "--after", page.Next); len(page.Items) != 2 || len(rest.Items) != 1 || rest.Items[0].ID != one.ID {
		t.Errorf("%+v, then %+v", page, rest)
	}
	if out := s.ok("job", "show", two.ID.String()); !strings.Contains(out, "queue_test.go") || !strings.Contains(out, "panic") {
		t.Error(out)
	}
	if out := s.ok("job", "show", done.ID.String()); !strings.Contains(out, `"did"`) || !strings.Contains(out, `{"do":"it"}`) || strings.Contains(out, "export") {
		t.Error(out)
	}
	for _, args := range [][]string{{"retry"}, {"forget"}, {"retry", "--all", one.ID.String()}, {"retry", one.ID.String(), "--tag", "x"}, {"forget", "x"}, {"failed", "--after", "x"}, {"failed", "--error", "\xff"}, {"failed", "--limit", "0"}, {"failed", "--limit", "201"}, {"prune", "--ended", "1s", "--yes"}, {"prune"}} {
		if r := s.run(append([]string{"queue"}, args...)...); r.code != exitUsage {
			t.Errorf("%v: exit %d, %s", args, r.code, r.err)
		}
	}
	if r := s.run("queue", "retry", "--all", "--error", "LUCK"); r.code != exitUsage || !strings.Contains(r.err, "2 failed jobs") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	if out := s.ok("queue", "retry", "--all", "--tag", "x", "--yes"); !strings.Contains(out, "1 job queued again") {
		t.Error(out)
	}
	if r := s.run("queue", "retry", done.ID.String(), two.ID.String(), three.ID.String()); r.code != exitPartly || !strings.Contains(r.out, "2 jobs queued again") || !strings.Contains(r.err, done.ID.String()) {
		t.Errorf("exit %d, %s%s", r.code, r.out, r.err)
	}
	if r := s.run("queue", "retry", done.ID.String(), done.ID.String()); r.code != exitRefused {
		t.Errorf("done jobs were queued again: exit %d", r.code)
	}
	if r := s.run("queue", "forget", one.ID.String()); r.code != exitRefused {
		t.Errorf("a waiting job was forgotten: exit %d", r.code)
	}
	ended, _ = s.background("work", "--stop-when-empty")
	s.finishes(ended)
	if out := s.ok("queue", "forget", one.ID.String()); !strings.Contains(out, "1 job forgotten") {
		t.Error(out)
	}
	if out := s.ok("queue", "forget", "--all", "--tenant", "acme", "--yes"); !strings.Contains(out, "1 job forgotten") {
		t.Error(out)
	}
	s.sql("DELETE FROM fenceline.outbox", "UPDATE fenceline.jobs SET finished_at = finished_at - interval '8 days' WHERE finished_at IS NOT NULL")
	if p := asJSON[storage.Pruned](s, "queue", "prune", "--yes"); p.Jobs != 3 {
		t.Errorf("%d jobs were pruned, want those that are done or forgotten", p.Jobs)
	}
	if out := s.ok("queue", "failed"); !strings.Contains(out, two.ID.String()) {
		t.Errorf("a job that failed last week is gone:\n%s", out)
	}
}

func TestQueuesAndMaintenance(t *testing.T) {
	t.Parallel()
	s := newTaskSite(t)
	s.ok("queue", "pause", "default")
	for range 3 {
		s.dispatch(`{"do":"it"}`)
	}
	s.dispatch("--delay", "1h")
	queues := asJSON[[]storage.Queue](s, "queue", "list")
	if len(queues) != 1 || queues[0].Waiting != 3 || queues[0].Delayed != 1 || queues[0].PausedAt == nil {
		t.Errorf("%+v", queues)
	}
	if out := s.ok("queue", "monitor", "--max-wait", "1h"); out != "" {
		t.Error(out)
	}
	r := s.run("queue", "monitor", "default", "--max-wait", "1ns", "--max-waiting", "2")
	if r.code != exitFailed || strings.Count(r.out, "default (paused): ") != 2 {
		t.Errorf("exit %d\n%s", r.code, r.out)
	}
	r = s.run("queue", "monitor", "--max-wait", "1ns", "--json")
	var said struct{ Behind []behind }
	if err := json.Unmarshal([]byte(r.out), &said); err != nil || r.code != exitFailed || len(said.Behind) != 1 || len(said.Behind[0].Why) != 1 {
		t.Errorf("exit %d, %s", r.code, r.out)
	}
	s.ok("queue", "monitor", "other", "--max-wait", "1ns")
	if r := s.run("queue", "clear", "default"); r.code != exitUsage || !strings.Contains(r.err, "4 jobs") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	if out := s.ok("queue", "clear", "default", "--yes"); !strings.Contains(out, "4 jobs cancelled") {
		t.Error(out)
	}
	s.ok("queue", "resume", "default")
	if r := s.run("queue", "resume", "default"); r.code != exitNotFound {
		t.Errorf("exit %d", r.code)
	}

	s.ok("queue", "cap", "set", "kind", "task", "2")
	s.ok("queue", "cap", "set", "tenant", "*", "0")
	s.ok("queue", "cap", "set", "queue", "default", "7")
	if out := s.ok("queue", "list"); !strings.Contains(out, "7") {
		t.Error(out)
	}
	s.ok("queue", "cap", "delete", "tenant", "*")
	if caps := asJSON[[]storage.Cap](s, "queue", "cap", "list"); len(caps) != 2 || caps[0] != (storage.Cap{Scope: "kind", Name: "task", MaxRunning: 2}) {
		t.Errorf("%+v", caps)
	}
	for _, args := range [][]string{{"set", "host", "x", "1"}, {"set", "kind", "task", "-1"}, {"set", "queue", "*", "1"}, {"delete", "queue"}} {
		if r := s.run(append([]string{"queue", "cap"}, args...)...); r.code != exitUsage {
			t.Errorf("%v: exit %d, %s", args, r.code, r.err)
		}
	}
	if r := s.run("queue", "cap", "delete", "tenant", "acme"); r.code != exitNotFound {
		t.Errorf("exit %d", r.code)
	}

	if out := s.ok("maintenance", "on", "--note", "moving"); !strings.Contains(out, "is on since") || !strings.Contains(out, "moving") {
		t.Error(out)
	}
	if m := asJSON[struct{ On bool }](s, "maintenance", "status"); !m.On {
		t.Error("it is not on")
	}
	job := s.dispatch(`{"do":"it"}`)
	_, stop := s.background("work")
	until(t, "the worker is known", func() bool { return len(asJSON[[]listedWorker](s, "worker", "list")) == 1 })
	if got := s.job(job.ID); got.State != storage.JobQueued {
		t.Errorf("during maintenance the job is %s", got.State)
	}
	if out := s.ok("maintenance", "off"); !strings.Contains(out, "is off") {
		t.Error(out)
	}
	until(t, "the job is done", func() bool { return s.job(job.ID).State == storage.JobDone })
	stop()
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	s := newTaskSite(t)
	ended, _ := s.background("work", "--queues", "default=3,mail=1")
	job := s.dispatch(`{"do":"wait"}`)
	until(t, "the job is at its third", func() bool { return strings.Contains(s.ok("job", "show", job.ID.String()), "3 of 9, at the third") })
	list := asJSON[[]listedWorker](s, "worker", "list")
	if len(list) != 1 || len(list[0].Runs) != 1 || list[0].Runs[0].Job != job.ID || list[0].Version == "" || list[0].Host == "" {
		t.Fatalf("%+v", list)
	}
	name := list[0].Name
	if out := s.ok("worker", "list"); !strings.Contains(out, "default,mail") || !strings.Contains(out, "runs "+job.ID.String()) || !strings.Contains(out, "works") {
		t.Error(out)
	}
	if r := s.run("worker", "drain", "nobody"); r.code != exitNotFound {
		t.Errorf("exit %d", r.code)
	}
	s.ok("worker", "drain", name)
	until(t, "it is drained", func() bool { return strings.Contains(s.ok("worker", "list"), "drained") })
	s.ok("worker", "undrain", name)
	next := s.dispatch(`{"do":"it"}`)
	until(t, "it works again", func() bool { return s.job(next.ID).State == storage.JobDone })
	if out := s.ok("queue", "restart"); !strings.Contains(out, "1 worker asked") {
		t.Error(out)
	}
	if out := s.ok("worker", "list"); !strings.Contains(out, "stopping") {
		t.Error(out)
	}
	s.ok("job", "cancel", job.ID.String())
	s.finishes(ended)
	if out := s.ok("worker", "list", "--since", "1h"); !strings.Contains(out, "stopped") {
		t.Error(out)
	}
	for _, args := range [][]string{{"--max-jobs", "-1"}, {"--max-time", "-1s"}, {"--autoscale", "default=4..2"}, {"--autoscale", "default=9..10", "--concurrency", "8"}, {"--autoscale-wait", "0"}} {
		if r := s.run(append([]string{"work"}, args...)...); r.code != exitUsage {
			t.Errorf("%v: exit %d, %s", args, r.code, r.err)
		}
	}
	ended, _ = s.background("queue", "work", "--autoscale", "default=1..4,mail=0..2", "--max-time", "1s")
	mail := s.dispatch(`{"do":"it"}`)
	s.finishes(ended)
	if got := s.job(mail.ID).State; got != storage.JobDone && got != storage.JobQueued {
		t.Errorf("the job is %s", got)
	}
}
