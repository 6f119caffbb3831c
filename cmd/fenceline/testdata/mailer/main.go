// Mailer dispatches a job and works on its queue.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

type welcome struct {
	User int `json:"user"`
}

// Validate is called when the job is dispatched, and again by the worker.
func (w *welcome) Validate() error {
	if w.User < 1 {
		return errors.New("user: must be a number from 1")
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, jobs.ErrAskedToStop) {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store, err := storage.Open(ctx, os.Getenv("DATABASE_URL"), storage.Options{MaxConns: 20})
	if err != nil {
		return err
	}
	defer store.Close()
	redis, err := jobs.OpenRedis(ctx, os.Getenv("REDIS_URL"), "mailer")
	if err != nil {
		return err
	}
	defer redis.Client.Close()
	registry, err := jobs.NewRegistry(jobs.Handle("welcome", func(ctx context.Context, w *jobs.Work, in welcome) (any, error) {
		w.Progress(1, 2, "writing")
		w.Log.Info("welcome", "user", in.User, "attempt", w.Attempt())
		return map[string]int{"sent_to": in.User}, ctx.Err()
	}))
	if err != nil {
		return err
	}
	job, err := jobs.NewDispatcher(store, registry).Dispatch(ctx, nil,
		jobs.Request{Kind: "welcome", Payload: []byte(`{"user": 7}`)},
		jobs.Queue("mail"), jobs.BackoffExponential(2*time.Second, 10*time.Minute), jobs.UniqueWhileActive("7"), jobs.Tags("signup"))
	if err != nil {
		return err
	}
	fmt.Println("dispatched", job.Job.ID)

	lease := 15 * time.Second // a worker that is silent for longer loses its jobs
	worker := jobs.NewWorker(jobs.WorkerConfig{
		Store: store, Registry: registry, Redis: redis, Name: fmt.Sprint("mailer-", os.Getpid()), Log: slog.Default(),
		Concurrency: 8, Queues: map[string]int{"mail": 1}, Lease: lease, Grace: 10 * time.Second,
		StopWhenEmpty: len(os.Args) > 1 && os.Args[1] == "once",
	})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return worker.Run(ctx) })
	g.Go(func() error { return jobs.NewRelay(store, redis, lease, slog.Default()).Run(ctx) })
	return g.Wait()
}
