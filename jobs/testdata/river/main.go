// Command riverpeer runs no-op jobs on River, for the benchmark of our own: it
// inserts jobs, works until all are completed, and prints what that took as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type noop struct {
	N int `json:"n"`
}

func (noop) Kind() string { return "noop" }

type worker struct {
	river.WorkerDefaults[noop]
	left atomic.Int64
	done chan struct{}
	at   []time.Time
}

func (w *worker) Work(_ context.Context, job *river.Job[noop]) error {
	w.at[job.Args.N] = time.Now()
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
	return nil
}

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run measures n jobs with some workers; how is "bulk" (inserted before the work
// begins), "single" (one by one from 16 goroutines while it goes on) or "idle" (one after the other).
func run(ctx context.Context, url, how, jobs, workers string) error {
	n, err := strconv.Atoi(jobs)
	if err != nil {
		return err
	}
	c, err := strconv.Atoi(workers)
	if err != nil {
		return err
	}
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	conf.MaxConns = 40
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	w := &worker{done: make(chan struct{}), at: make([]time.Time, n)}
	w.left.Store(int64(n))
	all := river.NewWorkers()
	river.AddWorker(all, w)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: c}}, Workers: all, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return err
	}
	asked := make([]time.Time, n)
	began := time.Now()
	if how == "bulk" {
		if err := insertMany(ctx, client, n); err != nil {
			return err
		}
	}
	inserted := time.Since(began)
	cpu := seconds()
	if err := client.Start(ctx); err != nil {
		return err
	}
	if how == "idle" {
		time.Sleep(time.Second) // let it settle; this is no test
	}
	work := time.Now()
	if how != "bulk" {
		lanes := 16
		if how == "idle" {
			lanes = 1
		}
		var wg sync.WaitGroup
		var next atomic.Int64
		for range lanes {
			wg.Go(func() {
				for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
					asked[i] = time.Now()
					if _, err := client.Insert(ctx, noop{N: int(i)}, nil); err != nil {
						panic(err)
					}
					if how == "idle" {
						time.Sleep(150 * time.Millisecond)
					}
				}
			})
		}
		wg.Wait()
	}
	<-w.done
	if err := completed(ctx, pool, n); err != nil {
		return err
	}
	took := time.Since(work)
	latency := make([]float64, 0, n)
	for i := range asked {
		if !asked[i].IsZero() {
			latency = append(latency, w.at[i].Sub(asked[i]).Seconds())
		}
	}
	cpu = seconds() - cpu
	if err := client.Stop(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"insert": inserted.Seconds(), "work": took.Seconds(), "cpu": cpu, "latency": latency})
}

func insertMany(ctx context.Context, client *river.Client[pgx.Tx], n int) error {
	for from := 0; from < n; from += 1000 {
		var part []river.InsertManyParams
		for i := from; i < min(from+1000, n); i++ {
			part = append(part, river.InsertManyParams{Args: noop{N: i}})
		}
		if _, err := client.InsertManyFast(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// completed waits until the database itself says so.
func completed(ctx context.Context, pool *pgxpool.Pool, n int) error {
	for {
		var done int
		if err := pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&done); err != nil {
			return err
		}
		if done >= n {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func seconds() float64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}
