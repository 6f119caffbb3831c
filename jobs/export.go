package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// export takes a job from its lease to its publication: steps 2 to 6. It
// answers what became of it; the caller gives the attempt its verdict.
func (w *Worker) export(ctx context.Context, job storage.Job) (storage.Begun, error) {
	var attempt storage.Begun
	if err := w.store.Paired(ctx); err != nil { // what is published now may go into another life's files
		return storage.Begun{}, err
	}
	lease, err := w.leaser.Acquire(ctx, job.ExportID.String()) // ② who should work
	if err != nil {
		return storage.Begun{}, err
	}
	defer func() { w.release(ctx, lease, job, attempt.Token) }()
	if err := pass(lease.Context(), w.faults, PointLeased); err != nil {
		return storage.Begun{}, err
	}

	attempt, err = w.store.BeginUnder(lease.Context(), job.ID, w.name, lease.Order()) // ③ who counts
	if err != nil {
		return storage.Begun{}, err
	}
	run := w.newRun(job, attempt)
	alive, stop := w.keepAlive(lease.Context(), run)
	defer stop()
	run.ctx = alive

	if err := w.render(alive, run); err != nil { // ④ read and write, under names of its own
		return attempt, err
	}
	if err := run.seal(alive); err != nil {
		return attempt, err
	}
	if err := pass(alive, w.faults, PointSealed); err != nil {
		return attempt, err
	}
	if err := run.publish(ctx); err != nil { // ⑤ the database refuses the stale
		return attempt, err
	}
	return attempt, pass(ctx, w.faults, PointPublished)
}

func (w *Worker) release(ctx context.Context, lease *Lease, job storage.Job, token int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := errors.Join(lease.Release(ctx), w.store.WakeWaiting(ctx, job.ExportID, token))
	if err != nil {
		w.log.Warn("release the lease", "job", job.ID, "error", err)
	}
}

func (w *Worker) newRun(job storage.Job, attempt storage.Begun) *Run {
	return &Run{
		Log:   w.log.With("job", job.ID, "attempt", attempt.ID, "token", attempt.Token),
		store: w.store, files: w.files, faults: w.faults, job: job, attempt: attempt,
		progress: storage.Progress{Step: "read"},
	}
}

// errTimeout is the cause with which an attempt's context ends after the job's timeout.
var errTimeout = errors.New("the attempt took longer than the job's timeout")

// keepAlive beats for the attempt until stop is called. The context that it
// answers ends when the attempt has nothing to go on for: the lease is lost, the
// job was cancelled or handed on, the timeout is over.
func (w *Worker) keepAlive(ctx context.Context, run *Run) (alive context.Context, stop func()) {
	alive, cancel := context.WithCancelCause(ctx)
	timeout := time.AfterFunc(time.Duration(run.job.TimeoutSeconds)*time.Second, func() { cancel(errTimeout) })
	beating, still := context.WithCancel(context.WithoutCancel(ctx)) // beats during publish too, whatever became of the lease
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.beat(beating, run, cancel)
	}()
	return alive, func() {
		timeout.Stop()
		still()
		<-done
		cancel(nil)
	}
}

func (w *Worker) beat(ctx context.Context, run *Run, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(w.heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		try, stop := context.WithTimeout(ctx, w.lease)
		err := w.store.Heartbeat(try, run.attempt.ID, run.now())
		stop()
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, storage.ErrCancelled), errors.Is(err, storage.ErrCondemned), errors.Is(err, storage.ErrFenced):
			cancel(err)
			return
		default: // PostgreSQL is away; if it stays away the relay will hand the job on
			run.Log.Warn("heartbeat", "error", err)
		}
	}
}

// render runs the kind's code. A handler that ignores the end of its context is
// left behind after a while: it has become a stale attempt like any other, and
// what it still writes is never published.
func (w *Worker) render(ctx context.Context, run *Run) error {
	_, task, err := w.registry.decode(run.job.Kind, Payload{Version: run.job.PayloadVersion, Tenant: run.job.Tenant, Body: run.job.Payload})
	if err != nil {
		return err
	}
	if task.Render == nil {
		return Permanent(fmt.Errorf("kind %s makes no exports, and this job has one", run.job.Kind))
	}
	if err := pass(ctx, w.faults, PointBegun); err != nil {
		return err
	}
	return w.guarded(ctx, run.Log, func() error { return task.Render(ctx, run) })
}

func (r *Run) seal(ctx context.Context) error {
	sealed, err := r.result()
	if err != nil {
		return err
	}
	r.step("seal")
	told := make(chan error, 1) // waits for another disk than the database does
	go func() { told <- r.store.WriteManifest(ctx, r.files, r.attempt.ID, sealed) }()
	err = r.store.Seal(ctx, r.attempt.ID, sealed)
	if untold := <-told; err == nil {
		err = untold
	}
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, storage.ErrCondemned) && !errors.Is(err, storage.ErrFenced) {
			return context.Cause(ctx)
		}
		return err
	}
	r.step("publish")
	return nil
}

// publishPatience is how long a publish may stay without an answer.
const publishPatience = time.Minute

// publish does not stop with the lease or the worker: once it was sent, only
// PostgreSQL knows how it ended.
func (r *Run) publish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishPatience)
	defer cancel()
	return r.store.Publish(ctx, r.attempt.ID)
}

// permanentError is an error that trying again does not change.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks an error that trying again does not change: the job fails at
// once. nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.value, e.stack) }
