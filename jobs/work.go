package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// WorkerConfig is what a worker is made of.
type WorkerConfig struct {
	Store    *storage.Store
	Files    files.Store
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
	// Autoscale, unless empty, lets the slots of queues move between bounds by how long their jobs wait, Concurrency
	// in all. The sum of the lower bounds is not above Concurrency. Queues without bounds have 1 to all; weights do not count.
	Autoscale map[string]Bounds
	// AutoscaleWait is how long jobs may wait before their queue gets more slots; five seconds when zero.
	AutoscaleWait time.Duration
	// The worker ends by itself after it has begun MaxJobs jobs, after MaxTime, or when nothing waits; zero is never.
	MaxJobs       int
	MaxTime       time.Duration
	StopWhenEmpty bool
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
	files     files.Store
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
	trial     *Trial // nil outside of tests

	id        uuid.UUID
	client    *asynq.Client
	inspector *asynq.Inspector
	turns     *turns
	runs      *runs
	drained   atomic.Bool // asked to take nothing new
	stopping  atomic.Bool
	exports   atomic.Int64 // slots that are at a job of an export
	running   door
	gates     *gates // nil unless it scales
	quota     *quota // nil unless it is bounded
}

// NewWorker prepares a worker; [Worker.Run] starts it.
func NewWorker(c WorkerConfig) *Worker {
	id := uuid.New()
	return &Worker{
		id: id, turns: newTurns(c.Store, id), runs: newRuns(),
		client: asynq.NewClientFromRedisClient(c.Redis.Client), inspector: asynq.NewInspectorFromRedisClient(c.Redis.Client),
		store: c.Store, files: c.Files, registry: c.Registry, redis: c.Redis, leaser: c.Leaser,
		name: c.Name, log: c.Log.With("worker", c.Name), conf: c, lease: c.Lease, metrics: c.Metrics, faults: c.Faults,
		heartbeat: min(c.Lease/4, beatEvery), patience: 5 * time.Second,
		gates: newGates(c.Queues, c.Autoscale, c.Concurrency), quota: newQuota(c.MaxJobs),
	}
}

// Run works until ctx ends. Then it takes nothing new, lets what runs go on for
// the grace, cancels the rest and hands their jobs back. It ends by itself with
// [ErrAskedToStop] when somebody has asked the worker to, or when it has done what
// it was started for (MaxJobs, MaxTime, StopWhenEmpty).
func (w *Worker) Run(ctx context.Context) error {
	if err := w.register(ctx); err != nil {
		if ctx.Err() != nil { // stopped while PostgreSQL was away
			return nil
		}
		return err
	}
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	asked := make(chan struct{})
	stopParts := w.startParts(work, sync.OnceFunc(func() { close(asked) }))
	defer stopParts()
	full := make(chan struct{})
	servers, err := w.startServers(work, full)
	if err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	w.log.Info("worker started", "concurrency", w.conf.Concurrency, "queues", w.conf.Queues)
	select {
	case <-ctx.Done():
	case <-asked:
		w.log.Info("asked to stop after what runs")
	}
	w.stopping.Store(true)
	close(full)
	for _, srv := range servers {
		srv.Stop()
	}
	w.drain(cancel, ctx.Done())
	for _, srv := range servers {
		srv.Shutdown()
	}
	w.log.Info("worker stopped")
	if ctx.Err() == nil {
		return ErrAskedToStop
	}
	return nil
}

// startParts starts what runs beside the jobs; what it answers ends it and says goodbye.
func (w *Worker) startParts(ctx context.Context, asked func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	parts.Go(func() { w.turns.run(ctx) })
	parts.Go(func() { w.beatAll(ctx, asked) })
	parts.Go(func() { w.watchStint(ctx, asked) })
	parts.Go(func() { w.autoscale(ctx) })
	return func() {
		cancel()
		parts.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := w.store.WorkerStopped(ctx, w.id); err != nil {
			w.log.Warn("could not say goodbye", "error", err)
		}
	}
}

// startServers starts what hears the bells: one server for all queues, or, when
// their slots move, one for each. stop is closed when nobody may begin any more.
func (w *Worker) startServers(ctx context.Context, stop <-chan struct{}) ([]*asynq.Server, error) {
	var servers []*asynq.Server
	start := func(concurrency int, queues map[string]int, gate string) error {
		srv := w.server(concurrency, queues)
		err := srv.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error { return w.hear(ctx, stop, gate, t) }))
		if err == nil {
			servers = append(servers, srv)
		}
		return err
	}
	if w.gates == nil {
		return servers, start(w.conf.Concurrency, w.conf.Queues, "")
	}
	for name := range w.conf.Queues {
		if err := start(w.gates.bounds[name].Most, map[string]int{name: 1}, name); err != nil {
			for _, srv := range servers {
				srv.Shutdown()
			}
			return nil, err
		}
	}
	return servers, nil
}

// hear lets a bell through the gate of its queue.
func (w *Worker) hear(ctx context.Context, stop <-chan struct{}, gate string, t *asynq.Task) error {
	if !w.gates.enter(stop, gate) {
		return nil
	}
	defer w.gates.leave(gate)
	return w.answer(ctx, t)
}

func (w *Worker) server(concurrency int, weights map[string]int) *asynq.Server {
	queues := make(map[string]int, len(weights))
	for name, weight := range weights {
		queues[w.redis.queue(name)] = weight
	}
	return asynq.NewServerFromRedisClient(w.redis.Client, asynq.Config{
		Concurrency: concurrency, Queues: queues,
		TaskCheckInterval: checkEvery,  // asynq's own second would be the latency of an idle queue
		ShutdownTimeout:   time.Second, // by then we have waited ourselves
		Logger:            asynqLog{w.log}, LogLevel: asynq.WarnLevel,
		ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, t *asynq.Task, err error) {
			w.log.Error("asynq could not deliver a bell; the relay rings again", "task", t.Type(), "error", err)
		}),
	})
}

// checkEvery is how often an idle worker looks into Redis.
const checkEvery = 25 * time.Millisecond

// drain waits for what runs: as long as it takes when the worker was only asked to
// stop, else (or when the process must end meanwhile) for the grace and then for the hand-over.
func (w *Worker) drain(cancel context.CancelCauseFunc, ending <-chan struct{}) {
	idle := w.running.close()
	select {
	case <-idle:
		return
	case <-ending:
	}
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
	if w.resting() {
		return nil
	}
	if c.Queue != "" {
		w.serveQueue(ctx, c.Queue)
		return nil
	}
	w.workFirst(ctx, c.Job)
	return nil
}

// workFirst makes an attempt at a job, after those of its queue that are more
// urgent: a bell says when, priorities say what.
func (w *Worker) workFirst(ctx context.Context, id uuid.UUID) {
	tried := map[uuid.UUID]bool{}
	for ctx.Err() == nil && !w.resting() {
		job, err := w.store.Claimable(ctx, id)
		if errors.Is(err, storage.ErrNotDue) {
			return
		}
		if err != nil { // an error for asynq would archive the bell and block its name
			w.log.Warn("could not look at the job; the relay rings again", "job", id, "error", err)
			return
		}
		urgent, err := w.store.MoreUrgent(ctx, job)
		if err != nil {
			w.log.Warn("could not look for more urgent jobs", "job", id, "error", err)
		}
		if urgent.ID == uuid.Nil || tried[urgent.ID] {
			w.tryExport(ctx, job)
			return
		}
		tried[urgent.ID] = true
		w.tryExport(ctx, urgent)
	}
}

// work makes one attempt at a job, inside the middleware of its kind, and sees to its verdict. It
// answers whether the attempt was begun.
func (w *Worker) work(ctx context.Context, job storage.Job) bool {
	started := time.Now()
	var attempt storage.Begun
	work := &Work{store: w.store, job: job, trial: w.trial, Log: w.log.With("job", job.ID, "kind", job.Kind)}
	var middleware []Middleware
	if kind, known := w.registry.kinds[job.Kind]; known {
		middleware = kind.Middleware
	}
	err := wrap(func(ctx context.Context, _ *Work) (err error) {
		attempt, err = w.export(ctx, job)
		return err
	}, middleware)(ctx, work)
	w.trial.ended(err)
	log := w.log.With("job", job.ID, "attempt", attempt.ID, "token", attempt.Token, "kind", job.Kind)
	if attempt.Token == 0 { // nothing was begun
		w.notBegun(ctx, log, job, err)
		return false
	}
	w.metrics.ended(job.Kind, err, time.Since(started))
	if err == nil {
		log.Info("published", "took", time.Since(started).Round(time.Millisecond))
		return true
	}
	if decided(err) {
		log.Warn("not published", "error", err)
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishPatience)
	defer cancel()
	e := ending(job, err)
	became, endErr := w.store.EndAttempt(ctx, attempt.ID, e)
	if endErr != nil {
		log.Error("could not record how the attempt ended; the relay will hand the job on", "error", endErr, "cause", err)
		return true
	}
	log.Warn("attempt ended", "reason", e.Reason, "error", err, "job_became", became)
	return true
}

// notBegun handles a job that is left waiting. That is not an attempt.
func (w *Worker) notBegun(ctx context.Context, log *slog.Logger, job storage.Job, err error) {
	var released *releaseError
	var skipped *skipError
	switch {
	case errors.Is(err, storage.ErrNotDue): // another worker was faster
		return
	case errors.Is(err, storage.ErrHeld): // a paused queue or a cap; the database says when it goes on
		return
	case errors.As(err, &released):
		w.putBack(ctx, log, job, *released, "")
		return
	case errors.As(err, &skipped):
		w.skip(ctx, log, job, skipped)
		return
	case errors.Is(err, storage.ErrRecoveryNeeded):
		log.Error("the job waits", "error", err)
		w.putBack(ctx, log, job, releaseError{after: jitter(notForUsWait), why: "released"}, "")
		return
	case errors.Is(err, storage.ErrGone):
		log.Warn("job failed: its export was deleted")
		return
	case errors.As(err, new(*panicError)): // of middleware: shown, and tried again by another version of it
		log.Error("middleware panicked", "error", err)
		w.putBack(ctx, log, job, releaseError{after: jitter(notForUsWait), why: "released"}, storable(err.Error()))
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

// putBack lets an export wait that its middleware released; failure, unless empty, is shown.
func (w *Worker) putBack(ctx context.Context, log *slog.Logger, job storage.Job, r releaseError, failure string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := w.store.PutBack(ctx, job, r.after, r.why, failure); err != nil {
		log.Warn("could not put the job back; the relay rings again", "error", err)
	}
}

// skip gives an export up that its middleware skipped.
func (w *Worker) skip(ctx context.Context, log *slog.Logger, job storage.Job, s *skipError) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := w.store.SkipJob(ctx, job.ID, storable(s.Error())); err != nil {
		log.Warn("could not skip the job; the relay rings again", "error", err)
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
