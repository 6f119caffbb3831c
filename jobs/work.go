package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// WorkerConfig is what a worker is made of.
type WorkerConfig struct {
	Store    *storage.Store
	Files    *files.Local
	Registry *Registry
	Redis    Redis
	Leaser   Leaser
	// Name is unique among the workers that run now, such as host-pid-random.
	Name string
	Log  *slog.Logger
	// Concurrency is how many attempts run at once.
	Concurrency int
	// Queues are served by their weights.
	Queues map[string]int
	// Lease is how long an attempt may be silent before its job goes to another worker.
	Lease time.Duration
	// Grace is how long running attempts may go on after a stop.
	Grace time.Duration
	// Metrics may be nil.
	Metrics *Metrics
	// Faults is for tests; nil otherwise.
	Faults Faults
}

// beatEvery is how often an attempt beats at least: people see its progress, and
// it learns of a cancel, within a second.
const beatEvery = 750 * time.Millisecond

// Worker runs jobs: asynq wakes it, PostgreSQL lets it claim.
type Worker struct {
	store     *storage.Store
	files     *files.Local
	registry  *Registry
	redis     Redis
	leaser    Leaser
	name      string
	log       *slog.Logger
	conf      WorkerConfig
	lease     time.Duration
	heartbeat time.Duration
	patience  time.Duration
	metrics   *Metrics
	faults    Faults

	running door
}

// NewWorker prepares a worker; [Worker.Run] starts it.
func NewWorker(c WorkerConfig) *Worker {
	return &Worker{
		store: c.Store, files: c.Files, registry: c.Registry, redis: c.Redis, leaser: c.Leaser,
		name: c.Name, log: c.Log.With("worker", c.Name), conf: c, lease: c.Lease, metrics: c.Metrics, faults: c.Faults,
		heartbeat: min(c.Lease/4, beatEvery), patience: 5 * time.Second,
	}
}

// Run works until ctx ends. Then it takes nothing new, lets what runs go on for
// the grace, cancels the rest and hands their jobs back.
func (w *Worker) Run(ctx context.Context) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	queues := make(map[string]int, len(w.conf.Queues))
	for name, weight := range w.conf.Queues {
		queues[w.redis.queue(name)] = weight
	}
	srv := asynq.NewServerFromRedisClient(w.redis.Client, asynq.Config{
		Concurrency: w.conf.Concurrency, Queues: queues,
		TaskCheckInterval: 100 * time.Millisecond, // asynq's own second would be the latency of an idle queue
		ShutdownTimeout:   time.Second,            // by then we have waited ourselves
		Logger:            asynqLog{w.log}, LogLevel: asynq.WarnLevel,
		ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, t *asynq.Task, err error) {
			w.log.Error("asynq could not deliver a bell; the relay rings again", "task", t.Type(), "error", err)
		}),
	})
	if err := srv.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error { return w.answer(work, t) })); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	w.log.Info("worker started", "concurrency", w.conf.Concurrency, "queues", w.conf.Queues)
	<-ctx.Done()
	srv.Stop()
	w.drain(cancel)
	srv.Shutdown()
	w.log.Info("worker stopped")
	return nil
}

// drain waits for what runs, at most for the grace and then for the hand-over.
func (w *Worker) drain(cancel context.CancelCauseFunc) {
	idle := w.running.close()
	grace := time.NewTimer(w.conf.Grace)
	defer grace.Stop()
	select {
	case <-idle:
		return
	case <-grace.C:
	}
	w.log.Info("grace is over, handing running jobs back")
	cancel(ErrWorkerStopped)
	last := time.NewTimer(w.patience + 5*time.Second)
	defer last.Stop()
	select {
	case <-idle:
	case <-last.C:
		w.log.Warn("some jobs could not be handed back; the relay will do it")
	}
}

// answer is called by asynq for a bell. Its result means nothing to the job:
// that stands in PostgreSQL, and the relay rings again if need be.
func (w *Worker) answer(ctx context.Context, t *asynq.Task) error {
	if !w.running.enter() { // asynq had it in hand when we stopped
		return nil
	}
	defer w.running.leave()
	var c call
	if err := json.Unmarshal(t.Payload(), &c); err != nil {
		return fmt.Errorf("read the bell: %w", err)
	}
	job, err := w.store.Claimable(ctx, c.Job)
	if errors.Is(err, storage.ErrNotDue) {
		return nil
	}
	if err != nil { // an error would archive the bell and block its name
		w.log.Warn("could not look at the job; the relay rings again", "job", c.Job, "error", err)
		return nil
	}
	w.work(ctx, job)
	return nil
}

// work makes one attempt at a job and sees to its verdict.
func (w *Worker) work(ctx context.Context, job storage.Job) {
	started := time.Now()
	attempt, err := w.export(ctx, job)
	log := w.log.With("job", job.ID, "attempt", attempt.ID, "token", attempt.Token, "kind", job.Kind)
	if attempt.Token == 0 { // nothing was begun
		w.notBegun(ctx, log, job, err)
		return
	}
	w.metrics.ended(job.Kind, err, time.Since(started))
	if err == nil {
		log.Info("published", "took", time.Since(started).Round(time.Millisecond))
		return
	}
	if decided(err) {
		log.Warn("not published", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishPatience)
	defer cancel()
	e := ending(job, err)
	became, endErr := w.store.EndAttempt(ctx, attempt.ID, e)
	if endErr != nil {
		log.Error("could not record how the attempt ended; the relay will hand the job on", "error", endErr, "cause", err)
		return
	}
	log.Warn("attempt ended", "reason", e.Reason, "error", err, "job_became", became)
}

// notBegun handles a job that is left waiting. That is not an attempt.
func (w *Worker) notBegun(ctx context.Context, log *slog.Logger, job storage.Job, err error) {
	switch {
	case errors.Is(err, storage.ErrNotDue): // another worker was faster
		return
	case errors.Is(err, storage.ErrGone):
		log.Warn("job failed: its export was deleted")
		return
	case !errors.Is(err, ErrLeaseBusy):
		log.Error("could not begin", "error", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := w.store.WaitForLease(ctx, job, jitter(300*time.Millisecond), jitter(10*time.Second)); err != nil {
		log.Warn("could not put the job back; the relay rings again", "error", err)
	}
}

// asynqLog sends asynq's own lines to our log.
type asynqLog struct{ log *slog.Logger }

func (l asynqLog) Debug(args ...any) { l.log.Debug(fmt.Sprint(args...), "from", "asynq") }
func (l asynqLog) Info(args ...any)  { l.log.Info(fmt.Sprint(args...), "from", "asynq") }
func (l asynqLog) Warn(args ...any)  { l.log.Warn(fmt.Sprint(args...), "from", "asynq") }
func (l asynqLog) Error(args ...any) { l.log.Error(fmt.Sprint(args...), "from", "asynq") }

// Fatal does not end the process: asynq calls it where the relay will ring again anyway.
func (l asynqLog) Fatal(args ...any) { l.log.Error(fmt.Sprint(args...), "from", "asynq") }
