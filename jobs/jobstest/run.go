package jobstest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// Outcome is how a run ended.
type Outcome string

// The outcomes.
const (
	// Refused means that the payload or an option is bad input: no job would have been made.
	Refused Outcome = "refused"
	// Done means that the handler returned nil; of an export, that it was published.
	Done Outcome = "done"
	// Failed counts as one of the job's attempts.
	Failed Outcome = "failed"
	// Released means that the job waits again, and that this was no attempt.
	Released Outcome = "released"
	// Skipped means that the handler gave the job up with [jobs.Skip].
	Skipped Outcome = "skipped"
	// Cancelled means that somebody had cancelled the job.
	Cancelled Outcome = "cancelled"
	// HandedOn means that the job went to another worker meanwhile, and the run decided nothing.
	HandedOn Outcome = "handed on"
)

// Result is what became of one run.
type Result struct {
	// Err is what the handler returned. A panic, a timeout and the end of the context are here too.
	Err     error
	Outcome Outcome
	// Delay is how long the job would wait after it was released or has failed; Waiting is the word for what it
	// waits for that lists show.
	Delay   time.Duration
	Waiting string
	// Reason of a failure: error, panic or timeout. Final says that the job is failed for good.
	Reason string
	Final  bool
	// JSON is what a plain job hands to the next one of its chain.
	JSON json.RawMessage
	// Progress is all that was reported, in order.
	Progress []json.RawMessage
	// Logs are the lines that the run logged, as level, message and key=value.
	Logs []string
}

// Decode reads what the handler answered.
func (r Result) Decode(into any) error {
	if r.JSON == nil {
		return fmt.Errorf("decode the result of a run that ended %s: it has none", r.Outcome)
	}
	return json.Unmarshal(r.JSON, into)
}

// RunOption changes what [Run] runs.
type RunOption func(*trial)

// OnAttempt makes it the job's n-th attempt, after n-1 failures.
func OnAttempt(n int) RunOption {
	return func(r *trial) { r.change = append(r.change, func(j *storage.Job) { j.Attempts, j.Failures = n, n-1 }) }
}

// After makes it the next job of a chain, after one with this result.
func After(result any) RunOption {
	return func(r *trial) {
		before := uuid.New()
		r.previous = result
		r.change = append(r.change, func(j *storage.Job) { j.AfterJob = &before })
	}
}

// OfBatch makes it a job of a batch.
func OfBatch(b storage.Batch) RunOption {
	return func(r *trial) {
		r.batch = &b
		r.change = append(r.change, func(j *storage.Job) { j.BatchID = &b.ID })
	}
}

// As changes any field of the job before it runs.
func As(change func(*storage.Job)) RunOption {
	return func(r *trial) { r.change = append(r.change, change) }
}

// With gives the job options, as a dispatch does.
func With(options ...jobs.Option) RunOption {
	return func(r *trial) { r.options = append(r.options, options...) }
}

// Within gives the run a context, in place of the test's.
func Within(ctx context.Context) RunOption { return func(r *trial) { r.ctx = ctx } }

// WithMiddleware runs the handler inside the middleware of its kind. Middleware that
// keeps its state in the database, such as a rate limit, needs one: see [Start].
func WithMiddleware() RunOption { return func(r *trial) { r.middleware = true } }

// trial is one call of [Run].
type trial struct {
	ctx        context.Context
	options    []jobs.Option
	change     []func(*storage.Job)
	previous   any
	batch      *storage.Batch
	middleware bool
}

// Run runs the handler of a plain job once, with the code of a worker, but without a
// database, Redis or a worker. The payload is checked as a dispatch checks it, and
// may be JSON or a value that encodes to it. Whatever asks the database fails with
// [storage.ErrNoDatabase]; the job before and the batch come from the options.
//
// Without [WithMiddleware] the handler runs alone. Kinds that make exports read and
// publish in the database: [Start] is for them.
func Run(t testing.TB, kind jobs.Kind, payload any, options ...RunOption) Result {
	t.Helper()
	r := &trial{ctx: t.Context()}
	for _, o := range options {
		o(r)
	}
	if !r.middleware {
		kind.Middleware = nil
	}
	registry := registryOf(t, nil, kind)
	raw, err := rawOf(payload)
	if err != nil {
		t.Fatalf("encode the payload: %v", err)
	}
	request := jobs.Request{Kind: kind.Name, Payload: raw}
	m := new(memory)
	if _, err := jobs.NewDispatcherInto(m, registry).Dispatch(r.ctx, nil, request, r.options...); err != nil {
		return Result{Err: err, Outcome: Refused}
	}
	job := m.sent[0].Job // a receipt would hide secrets
	if !job.Plain() {
		t.Fatalf("jobs of kind %s make exports, which are read from and published in a database: use jobstest.Start", kind.Name)
	}
	return r.run(t, registry, job)
}

func (r *trial) run(t testing.TB, registry *jobs.Registry, job storage.Job) Result {
	t.Helper()
	run := uuid.New()
	job.State, job.RunID, job.Attempts = storage.JobRunning, &run, 1
	for _, change := range r.change {
		change(&job)
	}
	store, err := storage.Nowhere(context.WithoutCancel(r.ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	seen := newRecord()
	trial := seen.trial(registry, "jobstest")
	trial.Store, trial.Around = store, r
	f, err := trial.Plain(r.ctx, job)
	return seen.result(job, f, err)
}

// ResultOf answers for the job before.
func (r *trial) ResultOf(context.Context, uuid.UUID) (json.RawMessage, error) {
	if r.previous == nil {
		return nil, nil
	}
	return rawOf(r.previous)
}

// BatchOf answers for the batch.
func (r *trial) BatchOf(_ context.Context, job uuid.UUID) (storage.Batch, error) {
	if r.batch == nil {
		return storage.Batch{}, fmt.Errorf("batch of job %s: %w", job, storage.ErrNotFound)
	}
	return *r.batch, nil
}

// record is what a run reports and logs. It is safe for concurrent use.
type record struct {
	mu       sync.Mutex
	progress []json.RawMessage
	logs     []string
}

func newRecord() *record { return new(record) }

func (r *record) trial(registry *jobs.Registry, name string) *jobs.Trial {
	return &jobs.Trial{
		Registry: registry, Name: name, Reported: r.reported,
		Log: slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutTime})),
	}
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func (r *record) reported(progress json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = append(r.progress, progress)
}

// Write takes a line of the log.
func (r *record) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, strings.TrimPrefix(string(bytes.TrimSpace(line)), "level="))
	return len(line), nil
}

// result puts together what became of a run; f is nil when the database had decided.
func (r *record) result(job storage.Job, f *storage.Finish, err error) Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Result{Err: err, Outcome: HandedOn, Progress: r.progress, Logs: r.logs}
	if f == nil {
		return out
	}
	out.Delay, out.Waiting = time.Duration(f.Delay*float64(time.Second)), f.Waiting
	out.Reason, out.JSON = f.Reason, f.Result
	switch {
	case f.Outcome == "failed":
		out.Outcome, out.Final, out.Waiting = Failed, f.Final || job.Failures+1 >= job.MaxAttempts, "retry"
		if out.Final {
			out.Delay, out.Waiting = 0, ""
		}
	case f.Outcome == "released":
		out.Outcome = Released
	case f.Outcome == "done":
		out.Outcome = Done
	case errors.Is(err, storage.ErrCancelled):
		out.Outcome = Cancelled
	default:
		out.Outcome = Skipped
	}
	return out
}
