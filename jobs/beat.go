package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// ErrAskedToStop is what [Worker.Run] answers when the worker was asked to end
// after what it ran. Whoever supervises it starts it again.
var ErrAskedToStop = errors.New("the worker was asked to stop")

// register makes the worker known, with what a list of workers shows.
func (w *Worker) register(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	queues, err := json.Marshal(w.conf.Queues)
	if err != nil {
		return fmt.Errorf("encode the queues: %w", err)
	}
	return w.store.RegisterWorker(ctx, storage.Worker{
		ID: w.id, Name: w.name, Host: host, PID: os.Getpid(), Version: version(), Queues: queues, Concurrency: w.conf.Concurrency,
	})
}

// version is what this program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}

// beatAll says every while that the worker lives, which stands for all its plain jobs,
// and does what it is asked. It goes on until ctx ends; stop is called once when
// the worker should end.
func (w *Worker) beatAll(ctx context.Context, stop func()) {
	tick := time.NewTicker(w.heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := w.beatOnce(ctx, stop); err != nil && ctx.Err() == nil {
			w.log.Warn("heartbeat of the worker", "error", err)
		}
	}
}

func (w *Worker) beatOnce(ctx context.Context, stop func()) error {
	ctx, cancel := context.WithTimeout(ctx, w.lease)
	defer cancel()
	before, progress := w.runs.working()
	orders, err := w.store.BeatWorker(ctx, w.id, w.running.count(), progress)
	if err != nil {
		return err
	}
	lost := w.runs.obey(before, orders.Runs)
	if len(lost) > 0 {
		w.log.Warn("giving back plain jobs whose claim was never answered", "runs", len(lost))
		if err := w.store.GiveBack(ctx, w.id, lost); err != nil {
			return err
		}
	}
	w.drained.Store(orders.Asked == "drain")
	switch orders.Asked {
	case "stop":
		stop()
	case "unknown": // it was pruned while it was frozen
		return w.register(ctx)
	}
	return nil
}

// resting reports whether the worker takes nothing new.
func (w *Worker) resting() bool { return w.drained.Load() || w.stopping.Load() }
