package jobs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Bounds are how many slots of a worker a queue may have.
type Bounds struct{ Least, Most int }

const (
	// usualAutoscaleWait is how long jobs may wait before their queue gets more slots.
	usualAutoscaleWait = 5 * time.Second
	// autoscaleEvery is how often the slots are looked at.
	autoscaleEvery = time.Second
)

// load is what the slots of a queue have to do.
type load struct {
	slots, busy int
	waiting     int64
	wait        time.Duration // the oldest
}

// nextSlots decides how many slots each queue gets, of total for all. A queue
// whose jobs wait for longer than target gets twice as many, one that has nothing
// to do loses a quarter; each stays within its bounds. When there are not enough,
// those give whose jobs wait the least.
func nextSlots(loads map[string]load, bounds map[string]Bounds, total int, target time.Duration) map[string]int {
	next, sum := make(map[string]int, len(loads)), 0
	for name, l := range loads {
		n := l.slots
		switch {
		case l.waiting > 0 && l.wait > target:
			n = min(max(2*n, 1), l.busy+int(min(l.waiting, int64(total))))
			n = max(n, l.slots)
		case l.waiting == 0 && l.busy < n:
			n = max(n-(n+3)/4, l.busy)
		}
		n = max(min(n, bounds[name].Most), bounds[name].Least)
		next[name] = n
		sum += n
	}
	byWait := slices.SortedFunc(maps.Keys(loads), func(a, b string) int {
		return cmp.Or(cmp.Compare(loads[a].wait, loads[b].wait), cmp.Compare(a, b))
	})
	for _, name := range byWait {
		give := min(max(sum-total, 0), next[name]-bounds[name].Least)
		next[name] -= give
		sum -= give
	}
	return next
}

// gates let into each queue's jobs as many slots as it has now, and as many as the
// worker has into all together. A nil gates lets everybody in. It is safe for
// concurrent use.
type gates struct {
	mu     sync.Mutex
	total  int
	busy   int
	queues map[string]*gate
	bounds map[string]Bounds
	change chan struct{} // closed when somebody may be let in
}

type gate struct{ slots, busy int }

// newGates begins with the lower bounds; queues without bounds have one slot to all.
func newGates(queues map[string]int, bounds map[string]Bounds, total int) *gates {
	if len(bounds) == 0 {
		return nil
	}
	g := &gates{total: total, queues: map[string]*gate{}, bounds: maps.Clone(bounds), change: make(chan struct{})}
	for name := range queues {
		if _, known := bounds[name]; !known {
			g.bounds[name] = Bounds{Least: 1, Most: total}
		}
		g.queues[name] = &gate{slots: g.bounds[name].Least}
	}
	return g
}

// enter waits for a slot of a queue; false when it was stopped. Who was let in must leave.
func (g *gates) enter(stop <-chan struct{}, queue string) bool {
	if g == nil {
		return true
	}
	for {
		g.mu.Lock()
		q, change := g.queues[queue], g.change
		if q.busy < q.slots && g.busy < g.total {
			q.busy++
			g.busy++
			g.mu.Unlock()
			return true
		}
		g.mu.Unlock()
		select {
		case <-change:
		case <-stop:
			return false
		}
	}
}

func (g *gates) leave(queue string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queues[queue].busy--
	g.busy--
	g.changed()
}

func (g *gates) changed() {
	close(g.change)
	g.change = make(chan struct{})
}

// crowded reports whether a queue has more slots at work than it may have now.
func (g *gates) crowded(queue string) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queues[queue]
	return q != nil && q.busy > q.slots
}

// slots are how many each queue has now.
func (g *gates) slots() map[string]int {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := make(map[string]int, len(g.queues))
	for name, q := range g.queues {
		now[name] = q.slots
	}
	return now
}

// loads are what the slots have to do, without what waits.
func (g *gates) loads() map[string]load {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := make(map[string]load, len(g.queues))
	for name, q := range g.queues {
		now[name] = load{slots: q.slots, busy: q.busy}
	}
	return now
}

func (g *gates) resize(next map[string]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, n := range next {
		g.queues[name].slots = n
	}
	g.changed()
}

// Slots are how many slots each queue has now, of a worker that scales them; nil otherwise.
func (w *Worker) Slots() map[string]int { return w.gates.slots() }

// autoscale gives the queues slots by how long their jobs wait, until ctx ends.
func (w *Worker) autoscale(ctx context.Context) {
	if w.gates == nil {
		return
	}
	tick := time.NewTicker(autoscaleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := w.scaleOnce(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("autoscale; the slots stay as they are", "error", err)
		}
	}
}

func (w *Worker) scaleOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.lease)
	defer cancel()
	queues, err := w.store.Queues(ctx)
	if err != nil {
		return err
	}
	loads := w.gates.loads()
	for _, q := range queues {
		l, ours := loads[q.Name]
		if !ours || q.PausedAt != nil { // what is paused is idle
			continue
		}
		l.waiting, l.wait = q.Waiting, q.OldestWait
		loads[q.Name] = l
	}
	next := nextSlots(loads, w.gates.bounds, w.conf.Concurrency, cmp.Or(w.conf.AutoscaleWait, usualAutoscaleWait))
	for name, n := range next {
		if was := loads[name].slots; was != n {
			w.log.Info("autoscale", "queue", name, "slots", n, "before", was, "waiting", loads[name].waiting, "oldest_wait", loads[name].wait.Round(time.Millisecond))
		}
	}
	w.gates.resize(next)
	return nil
}
