package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

const (
	// turnBudget is how long one bell may keep a slot with the plain jobs of its queue, so that the
	// weights of the queues and the exports get their part.
	turnBudget = 500 * time.Millisecond
	// lingerFor is how long the last slot of a queue looks again after it found nothing: a job that was
	// inserted while an older one was being claimed told nobody.
	lingerFor = 20 * time.Millisecond
)

// serveQueue answers a bell of a queue: it claims and runs plain jobs until there
// are none, or its time is over. The end of one and the claim of the next go
// together, with those of the other slots.
func (w *Worker) serveQueue(ctx context.Context, queue string) {
	began := time.Now()
	var finish *storage.Finish
	lingered, claims := false, 0
	for {
		a := &ask{finish: finish}
		if ctx.Err() == nil && !w.resting() && time.Since(began) < turnBudget && !w.gates.crowded(queue) && w.quota.take(ctx, finish != nil) {
			a.queue, a.run = queue, uuid.New()
			w.runs.expect(a.run)
		}
		if a.queue == "" && a.finish == nil {
			w.callAgain(ctx, queue)
			return
		}
		w.turns.do(a)
		w.settled(a)
		if a.queue != "" {
			w.quota.settle(a.claimed != nil)
		}
		finish = nil
		switch {
		case a.claimed != nil:
			if claims++; claims == 1 && a.more { // wake one more slot, which wakes another
				w.callAgain(ctx, queue)
			}
			finish = w.runPlain(ctx, *a.claimed)
			lingered = false
		case a.queue == "":
			w.callAgain(ctx, queue)
			return
		case a.err != nil || lingered || !w.linger(ctx, queue):
			return
		default:
			lingered = true
		}
	}
}

// settled takes note of what a turn has answered.
func (w *Worker) settled(a *ask) {
	if a.err != nil {
		w.log.Warn("could not end or claim plain jobs; what is lost comes back", "error", a.err)
	}
	if a.finish != nil {
		w.runs.drop(a.finish.Run)
		if a.err == nil && a.became == "stale" {
			w.log.Warn("a run ended that was no longer its job's: nothing was changed", "job", a.finish.Job, "run", a.finish.Run)
		}
	}
	if a.queue != "" && a.claimed == nil {
		w.runs.drop(a.run)
	}
}

// callAgain rings for a queue that may hold more than its slot had time for.
func (w *Worker) callAgain(ctx context.Context, queue string) {
	if ctx.Err() != nil || w.resting() {
		return
	}
	if err := w.redis.ringQueueAgain(ctx, w.client, w.inspector, queue); err != nil {
		w.log.Warn("could not ring for the queue again; the relay will", "queue", queue, "error", err)
	}
}

// linger waits a moment in case one slot of the queue should look once more;
// false for the others.
func (w *Worker) linger(ctx context.Context, queue string) bool {
	if !w.runs.lingers(queue, true) {
		return false
	}
	defer w.runs.lingers(queue, false)
	timer := time.NewTimer(lingerFor)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// runPlain makes one run of a plain job and answers how it ends; nil when the
// database has decided about it already.
func (w *Worker) runPlain(ctx context.Context, job storage.Job) *storage.Finish {
	started := time.Now()
	work := &Work{store: w.store, job: job, trial: w.trial, Log: w.log.With("job", job.ID, "kind", job.Kind, "run", *job.RunID)}
	alive, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := time.AfterFunc(time.Duration(job.TimeoutSeconds)*time.Second, func() { cancel(errTimeout) })
	defer timeout.Stop()
	w.runs.begin(work, cancel)
	err := w.do(alive, work)
	w.trial.ended(err)
	w.metrics.ended(job.Kind, err, time.Since(started))
	f := finishOf(job, err)
	if f == nil {
		w.runs.drop(*job.RunID)
		work.Log.Warn("the run was handed on", "error", err)
		return nil
	}
	work.mu.Lock()
	f.Progress = work.progress
	if err == nil {
		f.Result = work.result
	}
	work.mu.Unlock()
	logFinish(work.Log, f, time.Since(started))
	return f
}

func logFinish(log *slog.Logger, f *storage.Finish, took time.Duration) {
	switch f.Outcome {
	case "done":
		log.Debug("done", "took", took.Round(time.Microsecond))
	case "failed":
		log.Warn("run failed", "reason", f.Reason, "error", f.Error)
	default:
		log.Debug("run ended", "outcome", f.Outcome, "waiting_for", f.Waiting, "error", f.Error)
	}
}

// do calls the handler inside its middleware. One that ignores the end of its
// context is left behind after a while: it is a stale run like any other, and
// what it still writes behind a fence is refused.
func (w *Worker) do(ctx context.Context, work *Work) error {
	kind, task, err := w.registry.decode(work.job.Kind, Payload{Version: work.job.PayloadVersion, Tenant: work.job.Tenant, Body: work.job.Payload})
	if err != nil {
		return err
	}
	if task.Do == nil {
		return Permanent(fmt.Errorf("kind %s makes exports, and this job has none", work.job.Kind))
	}
	return w.guarded(ctx, work.Log, func() error { return wrap(task.Do, kind.Middleware)(ctx, work) })
}

// errGoexit is the error of a handler that left its goroutine with [runtime.Goexit],
// as testing.T.FailNow does: nobody would wait for it otherwise.
var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit) instead of returning")

// guarded calls code of a kind: a panic becomes an error with its stack, and code
// that ignores the end of its context is left behind.
func (w *Worker) guarded(ctx context.Context, log *slog.Logger, call func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errGoexit // stays when the goroutine ends without a return
		defer func() {
			if p := recover(); p != nil {
				err = &panicError{value: p, stack: debug.Stack()}
			}
			done <- err
		}()
		err = call()
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		patience := time.NewTimer(w.patience)
		defer patience.Stop()
		select {
		case err = <-done:
		case <-patience.C:
			log.Error("the handler ignores the end of its context and was left behind")
			return context.Cause(ctx)
		}
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // why it ended says more than how the code noticed
	}
	return err
}

// shortestRelease keeps a handler that releases without a wait from going in circles.
const shortestRelease = 50 * time.Millisecond

// finishOf turns the error that ended a run into its verdict.
func finishOf(job storage.Job, err error) *storage.Finish {
	f := &storage.Finish{Job: job.ID, Run: *job.RunID, Outcome: "done"}
	if err == nil {
		return f
	}
	var (
		released *releaseError
		skipped  *skipError
		fenced   *storage.FencedError
		panicd   *panicError
	)
	switch {
	case errors.As(err, &released):
		f.Outcome, f.Delay, f.Waiting = "released", max(released.after, shortestRelease).Seconds(), released.why
		return f
	case errors.As(err, &skipped):
		f.Outcome, f.Error = "cancelled", storable(skipped.Error())
		return f
	case errors.As(err, &fenced):
		if fenced.Reason == "handed_on" {
			return nil
		}
		f.Outcome, f.Delay = "released", spread(job.Releases).Seconds() // it read what a newer one has written: once more
		return f
	case errors.Is(err, storage.ErrCancelled):
		f.Outcome = "cancelled"
		return f
	case errors.Is(err, ErrWorkerStopped):
		f.Outcome = "released"
		return f
	case errors.Is(err, errNotForUs):
		f.Outcome, f.Error, f.Delay = "released", storable(err.Error()), jitter(notForUsWait).Seconds()
		return f
	}
	e := failure(job, err)
	f.Outcome, f.Reason, f.Error, f.Final, f.Delay = "failed", e.Reason, e.Error, e.Final, e.Retry.Seconds()
	if errors.As(err, &panicd) {
		f.Error, f.Stack = storable(fmt.Sprintf("panic: %v", panicd.value)), storable(string(panicd.stack))
	}
	return f
}

// Backoff is how long a job waits before it is tried again after a failure.
type Backoff struct {
	// Seconds are the waits after the first, second, … failure; the last one stays. One is a fixed wait.
	Seconds []float64 `json:"seconds,omitempty"`
	// Otherwise the wait grows from First by Factor each time, up to Max, all in seconds.
	First  float64 `json:"first,omitempty"`
	Factor float64 `json:"factor,omitempty"`
	Max    float64 `json:"max,omitempty"`
	// Jitter is the part by which a wait differs either way at most, from 0 to 1.
	Jitter float64 `json:"jitter,omitempty"`
}

// after is the wait after a number of failures before this one.
func (b Backoff) after(failures int, random func(span float64) float64) time.Duration {
	wait := b.First
	if n := len(b.Seconds); n > 0 {
		wait = b.Seconds[min(failures, n-1)]
	} else {
		for range min(failures, 64) {
			wait = min(wait*b.Factor, b.Max)
		}
	}
	if span := wait * b.Jitter; span > 0 {
		wait += random(2*span) - span
	}
	return time.Duration(wait * float64(time.Second))
}

// backoffOf is the wait of a job, by its own rule or the usual one.
func backoffOf(job storage.Job) time.Duration {
	var b Backoff
	if len(job.Backoff) == 0 || json.Unmarshal(job.Backoff, &b) != nil {
		return backoff(job.Failures)
	}
	return b.after(job.Failures, randomUpTo)
}
